//! The transport to a switch: its address and how its HTTP/2 is set.

use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

use crate::error::{Error, innermost};
use crate::options::ConnectOptions;
use crate::tls::Tls;

/// The largest list of HTTP/2 headers that is accepted, in bytes.
///
/// The account of a failed batch comes in a trailer, with well over 100 bytes
/// for each update. The usual limit of 16 KiB would hide it.
const MAX_HEADER_LIST_BYTES: u32 = 4 * 1024 * 1024;

/// Flow-control windows: one stream carries a whole table.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The kernel probes an idle connection this often. HTTP/2 pings would tell the
/// same, but gRPC servers close connections that ping more than once in five
/// minutes.
const TCP_KEEPALIVE: Duration = Duration::from_secs(5);
const TCP_KEEPALIVE_PROBES: u32 = 3;

/// A channel to the switch's gRPC server, without taking part in arbitration.
///
/// # Errors
/// If the address is wrong, or the switch does not answer in time.
pub async fn open(options: &ConnectOptions) -> Result<Channel, Error> {
    let within = options.deadlines.connect;
    let endpoint = endpoint(&options.address, options.tls.as_ref())?
        .connect_timeout(within)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .tcp_keepalive_interval(Some(TCP_KEEPALIVE))
        .tcp_keepalive_retries(Some(TCP_KEEPALIVE_PROBES))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES);
    match timeout(within, endpoint.connect()).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(source)) => Err(Error::of_connect(&options.address, source)),
        Err(_) => Err(Error::connect_timed_out(&options.address, within)),
    }
}

/// The endpoint of `http://host:port`, `host:port` or `unix:/path`; with TLS of
/// `https://host:port` or `host:port`.
fn endpoint(address: &str, tls: Option<&Tls>) -> Result<Endpoint, Error> {
    let problem = |reason: &str| Error::Address {
        address: address.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(path) = address.strip_prefix("unix:") {
        if tls.is_some() {
            return Err(problem("there is no TLS on a UNIX socket"));
        }
        if path.trim_start_matches("//").is_empty() {
            return Err(problem("the path of the socket is missing"));
        }
        return Endpoint::from_shared(address.to_owned())
            .map_err(|error| problem(&error.to_string()));
    }
    let url = match (address.split_once("://"), tls) {
        (None, None) => format!("http://{address}"),
        (None, Some(_)) => format!("https://{address}"),
        (Some(("http", _)), None) | (Some(("https", _)), Some(_)) => address.to_owned(),
        (Some(("http", _)), Some(_)) => return Err(problem("TLS needs https")),
        (Some(("https", _)), None) => {
            return Err(problem("https needs the CA of the switch's certificate"));
        }
        (Some((scheme, _)), _) => {
            return Err(problem(&format!("the scheme {scheme:?} is not supported")));
        }
    };
    let endpoint = Endpoint::from_shared(url).map_err(|error| problem(&error.to_string()))?;
    if endpoint.uri().host().is_none_or(str::is_empty) {
        return Err(problem("the host is missing"));
    }
    if endpoint.uri().port_u16().is_none() {
        return Err(problem("the port is missing (P4Runtime's own is 9559)"));
    }
    match tls {
        None => Ok(endpoint),
        Some(tls) => endpoint
            .tls_config(tls.config())
            .map_err(|error| Error::Tls {
                address: address.to_owned(),
                reason: innermost(&error),
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_urls_host_ports_and_sockets() {
        let uri = |address| endpoint(address, None).unwrap().uri().to_string();
        assert_eq!(uri("http://10.0.0.1:9559"), "http://10.0.0.1:9559/");
        assert_eq!(uri("switch-1:9559"), "http://switch-1:9559/");
        assert_eq!(uri("[2001:db8::1]:9559"), "http://[2001:db8::1]:9559/");
        assert!(endpoint("unix:/run/switch.sock", None).is_ok());
        assert!(endpoint("unix:///run/switch.sock", None).is_ok());
    }

    #[test]
    fn says_what_is_wrong() {
        for (address, reason) in [
            ("", "the address"),
            ("switch-1", "the port is missing"),
            ("https://switch-1:9559", "https needs the CA"),
            ("ftp://switch-1:9559", "the scheme \"ftp\""),
            ("unix:", "the path of the socket is missing"),
            ("http://:9559", "the address"),
        ] {
            let error = endpoint(address, None).unwrap_err().to_string();
            assert!(error.contains(reason), "{address:?}: {error}");
            assert!(error.contains("unix:/path"), "{error}");
        }
    }

    #[test]
    fn tls_goes_with_https_and_certificates() {
        let ca = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        let tls = Tls::new(ca);
        let endpoint = |address| endpoint(address, Some(&tls));
        for address in ["https://switch-1:9559", "switch-1:9559"] {
            let uri = endpoint(address).unwrap().uri().to_string();
            assert_eq!(uri, "https://switch-1:9559/");
        }
        for (address, reason) in [
            ("http://switch-1:9559", "TLS needs https"),
            ("unix:/run/switch.sock", "no TLS on a UNIX socket"),
        ] {
            let error = endpoint(address).unwrap_err().to_string();
            assert!(error.contains(reason), "{address:?}: {error}");
        }
    }
}
