//! Where the switch listens.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{anyhow, bail};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Host and port, in the forms of gRPC that make sense for a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// An address or a name; `None` for all addresses of the host.
    host: Option<String>,
    port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            None => write!(f, "0.0.0.0:{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if ["unix:", "unix-abstract:", "vsock:"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        {
            return Err(
                "P4Runtime is served over TCP only: write ADDR:PORT, for example 127.0.0.1:9559"
                    .into(),
            );
        }
        let scheme = ["dns:", "ipv4:", "ipv6:"];
        let address = scheme.iter().find_map(|scheme| text.strip_prefix(scheme));
        let address = address.unwrap_or(text);
        let address = address.strip_prefix("///").unwrap_or(address);
        let no_port = |host: &str| {
            format!(
                "the port is missing, for which simple_switch_grpc would take 443: write {host}:9559"
            )
        };
        let (host, port) = if let Some(rest) = address.strip_prefix('[') {
            let (host, rest) = rest
                .split_once(']')
                .ok_or("the `]` behind the IPv6 address is missing")?;
            match rest.strip_prefix(':') {
                Some(port) => (host, port),
                None if rest.is_empty() => return Err(no_port(&format!("[{host}]"))),
                None => return Err("write an IPv6 address as [ADDR]:PORT".into()),
            }
        } else {
            match address.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => {
                    return Err("write an IPv6 address as [ADDR]:PORT".into());
                }
                Some(parts) => parts,
                None => return Err(no_port(address)),
            }
        };
        if host.is_empty() {
            return Err(format!(
                "the address before the port is missing: 0.0.0.0:{port} means all of the host's"
            ));
        }
        let port = port
            .parse()
            .map_err(|_| format!("{port:?} is not a port number from 0 to 65535"))?;
        let all = host == "*" || host.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified());
        Ok(Self {
            host: (!all).then(|| host.to_owned()),
            port,
        })
    }
}

/// How often another port is tried, if the system may choose it and it is free
/// at one address of a name and not at another.
const CHOICES: u32 = 10;

/// Listens at all that an address stands for: at both kinds of addresses if it
/// is for all of the host, as gRPC does, and at each that a name has.
pub(super) async fn listen(address: &Address, option: &str) -> anyhow::Result<Vec<TcpListener>> {
    let mut tries = 1;
    loop {
        match listen_once(address, option).await {
            Err(error) if address.port == 0 && tries < CHOICES => {
                tracing::debug!("{error}; another port is tried");
                tries += 1;
            }
            result => return result,
        }
    }
}

async fn listen_once(address: &Address, option: &str) -> anyhow::Result<Vec<TcpListener>> {
    let Some(host) = &address.host else {
        let listener = everywhere(address.port)
            .map_err(|error| explain(&error, &address.to_string(), address.port, option))?;
        return Ok(vec![listener]);
    };
    let found = tokio::net::lookup_host((host.as_str(), address.port))
        .await
        .map_err(|error| {
            anyhow!(
                "cannot listen on {address}: the name {host} cannot be resolved ({error}); \
                 {option} takes an IP address too"
            )
        })?;
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut refused = None;
    for mut at in found {
        // All have the port that the first one got.
        if let Some(first) = listeners.first() {
            at.set_port(first.local_addr()?.port());
        }
        if listeners.iter().any(|l| l.local_addr().ok() == Some(at)) {
            continue;
        }
        match bind(at) {
            Ok(listener) => listeners.push(listener),
            // A name may have addresses of a kind that the host does not use.
            Err(error) if is_absent(&error) => refused = Some((error, at)),
            Err(error) => return Err(explain(&error, &at.to_string(), at.port(), option)),
        }
    }
    match refused {
        Some((error, at)) if listeners.is_empty() => {
            Err(explain(&error, &at.to_string(), at.port(), option))
        }
        _ if listeners.is_empty() => {
            bail!("cannot listen on {address}: the name {host} has no address")
        }
        _ => Ok(listeners),
    }
}

/// Listens at one address.
pub(super) fn listen_at(address: SocketAddr, option: &str) -> anyhow::Result<TcpListener> {
    bind(address).map_err(|error| explain(&error, &address.to_string(), address.port(), option))
}

/// An IPv6 socket that takes IPv4 as well; one for IPv4 where there is no IPv6.
fn everywhere(port: u16) -> io::Result<TcpListener> {
    match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if is_absent(&error) => bind((Ipv4Addr::UNSPECIFIED, port).into()),
        result => result,
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT)
    )
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // Whatever net.ipv6.bindv6only says.
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// What kept the switch from listening, and what to do about it.
fn explain(error: &io::Error, address: &str, port: u16, option: &str) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("`ss -ltnp sport = :{port}` shows by whom, {option} chooses another address")
        }
        io::ErrorKind::PermissionDenied => format!(
            "low ports need root or the capability cap_net_bind_service; {option} chooses \
             another port"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "no interface of this network namespace has the address: `ip addr` lists those \
             that there are, {option} chooses another"
        ),
        _ => format!("{option} chooses another address"),
    };
    anyhow!("cannot listen on {address}: {error}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_grpc_does() {
        for (text, shown) in [
            ("127.0.0.1:50051", "127.0.0.1:50051"),
            ("localhost:50051", "localhost:50051"),
            ("dns:///localhost:50051", "localhost:50051"),
            ("dns:switch-1.example:1", "switch-1.example:1"),
            ("[::1]:50051", "[::1]:50051"),
            ("ipv4:127.0.0.1:50051", "127.0.0.1:50051"),
            ("ipv6:[::1]:50051", "[::1]:50051"),
            ("0.0.0.0:9559", "0.0.0.0:9559"),
            ("[::]:9559", "0.0.0.0:9559"),
            ("*:9559", "0.0.0.0:9559"),
        ] {
            let address = Address::from_str(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(shown), "{text}");
        }
        for (text, problem) in [
            ("127.0.0.1", "127.0.0.1:9559"),
            ("localhost", "443"),
            ("[::1]", "[::1]:9559"),
            ("::1", "[ADDR]:PORT"),
            (":50051", "0.0.0.0:50051"),
            ("localhost:http", "\"http\" is not a port number"),
            ("localhost:65536", "is not a port number"),
            ("unix:/tmp/p4rt.sock", "TCP only"),
            ("unix-abstract:p4rt", "TCP only"),
        ] {
            let error = Address::from_str(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn each_failure_has_its_own_advice() {
        let advice = |code: i32| {
            let error = io::Error::from_raw_os_error(code);
            format!("{:#}", explain(&error, "192.0.2.1:80", 80, "--http"))
        };
        for (code, wanted) in [
            (libc::EADDRINUSE, "ss -ltnp"),
            (libc::EACCES, "cap_net_bind_service"),
            (libc::EADDRNOTAVAIL, "ip addr"),
            (libc::EMFILE, "--http chooses"),
        ] {
            let text = advice(code);
            assert!(text.starts_with("cannot listen on 192.0.2.1:80"), "{text}");
            assert!(text.contains(wanted), "{text}");
            assert_eq!(
                text.contains("ss -ltnp"),
                code == libc::EADDRINUSE,
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn all_addresses_include_both_kinds() {
        let address = Address::from_str("0.0.0.0:0").unwrap();
        let listeners = listen(&address, "--grpc-server-addr").await.unwrap();
        assert_eq!(listeners.len(), 1);
        let port = listeners[0].local_addr().unwrap().port();
        assert_ne!(port, 0);
        let ipv4 = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        assert!(ipv4.is_ok(), "{ipv4:?}");
        if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            println!("SKIPPED: no IPv6");
            return;
        }
        let ipv6 = std::net::TcpStream::connect((Ipv6Addr::LOCALHOST, port));
        assert!(ipv6.is_ok(), "{ipv6:?}");
    }

    #[tokio::test]
    async fn a_name_stands_for_its_addresses_at_one_port() {
        let address = Address::from_str("localhost:0").unwrap();
        let listeners = listen(&address, "--grpc-server-addr").await.unwrap();
        let at: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        assert!(
            at.iter()
                .all(|a| a.ip().is_loopback() && a.port() == at[0].port()),
            "{at:?}"
        );
        let taken = listen_at(at[0], "--http").unwrap_err();
        assert!(format!("{taken:#}").contains("ss -ltnp"), "{taken:#}");
    }
}
