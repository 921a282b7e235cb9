//! Addresses of switches.

use tonic::transport::Endpoint;

use crate::error::Error;

/// The endpoint of `http://host:port`, `host:port` or `unix:/path`.
pub(crate) fn endpoint(address: &str) -> Result<Endpoint, Error> {
    let problem = |reason: &str| Error::Address {
        address: address.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(path) = address.strip_prefix("unix:") {
        if path.trim_start_matches("//").is_empty() {
            return Err(problem("the path of the socket is missing"));
        }
        return Endpoint::from_shared(address.to_owned())
            .map_err(|error| problem(&error.to_string()));
    }
    let url = match address.split_once("://") {
        None => format!("http://{address}"),
        Some(("http", _)) => address.to_owned(),
        Some((scheme, _)) => {
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
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_urls_host_ports_and_sockets() {
        let uri = |address| endpoint(address).unwrap().uri().to_string();
        assert_eq!(uri("http://10.0.0.1:9559"), "http://10.0.0.1:9559/");
        assert_eq!(uri("switch-1:9559"), "http://switch-1:9559/");
        assert_eq!(uri("[2001:db8::1]:9559"), "http://[2001:db8::1]:9559/");
        assert!(endpoint("unix:/run/switch.sock").is_ok());
        assert!(endpoint("unix:///run/switch.sock").is_ok());
    }

    #[test]
    fn says_what_is_wrong() {
        for (address, reason) in [
            ("", "the address"),
            ("switch-1", "the port is missing"),
            ("https://switch-1:9559", "the scheme \"https\""),
            ("unix:", "the path of the socket is missing"),
            ("http://:9559", "the address"),
        ] {
            let error = endpoint(address).unwrap_err().to_string();
            assert!(error.contains(reason), "{address:?}: {error}");
            assert!(error.contains("unix:/path"), "{error}");
        }
    }
}
