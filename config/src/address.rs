//! Where an API listens or is reached: `IP:PORT` or `unix:/path`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A place where a gRPC API listens or is reached.
///
/// Unix sockets cross network namespaces by the file system, which is how the
/// lab's processes and the command line meet without a management network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAddress {
    /// An IP address and port.
    Tcp(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

/// Why a text is no API address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("\"{text}\" is no API address; write IP:PORT, [IPv6]:PORT or unix:/absolute/path")]
pub struct AddressError {
    /// The text as it was given.
    pub text: String,
}

impl FromStr for ApiAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || AddressError {
            text: text.to_owned(),
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            if !path.is_absolute() {
                return Err(error());
            }
            return Ok(Self::Unix(path));
        }
        let bare = text.strip_prefix("http://").unwrap_or(text);
        bare.parse().map(Self::Tcp).map_err(|_| error())
    }
}

impl fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for ApiAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for ApiAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_kinds_and_writes_them_back() {
        for text in [
            "127.0.0.1:9660",
            "[::1]:9660",
            "unix:/run/sluice/offload.sock",
        ] {
            let address: ApiAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn refuses_what_it_cannot_reach() {
        for text in [
            "",
            "localhost",
            "unix:relative.sock",
            "127.0.0.1",
            "127.0.0.1:99999",
        ] {
            let error = text.parse::<ApiAddress>().unwrap_err();
            assert!(error.to_string().contains("unix:/absolute/path"));
        }
    }
}
