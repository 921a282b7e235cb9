//! TLS to a switch: whose certificate counts, and this client's own.

use std::fmt;

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// How the switch is known, and how this client makes itself known; all PEM.
#[derive(Clone)]
pub struct Tls {
    /// The CA that has signed the switch's certificate, or that certificate.
    pub ca: Vec<u8>,
    /// This client's certificate and its key, for a switch that asks for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in the switch's certificate, if it is not the host of the
    /// address.
    pub name: Option<String>,
}

impl fmt::Debug for Tls {
    // Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("identity", &self.identity.is_some())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// A switch with a certificate of this CA, and no certificate here.
    pub fn new(ca: impl Into<Vec<u8>>) -> Self {
        Self {
            ca: ca.into(),
            identity: None,
            name: None,
        }
    }

    pub(crate) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.name {
            config = config.domain_name(name);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_not_shown() {
        let tls = Tls {
            identity: Some((b"certificate".to_vec(), b"secret".to_vec())),
            ..Tls::new("ca")
        };
        assert_eq!(format!("{tls:?}"), "Tls { identity: true, name: None, .. }");
    }
}
