//! TLS to a switch: whose certificate counts, and this client's own.

use std::fmt;
use std::path::{Path, PathBuf};

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

    /// Reads the CA's certificate, and a certificate with its key.
    ///
    /// # Errors
    /// Which file cannot be read.
    pub fn read(
        ca: &Path,
        identity: Option<(&Path, &Path)>,
        name: Option<String>,
    ) -> Result<Self, TlsFileError> {
        let identity = match identity {
            Some((certificate, key)) => Some((read(certificate)?, read(key)?)),
            None => None,
        };
        Ok(Self {
            ca: read(ca)?,
            identity,
            name,
        })
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

fn read(file: &Path) -> Result<Vec<u8>, TlsFileError> {
    std::fs::read(file).map_err(|source| TlsFileError {
        file: file.to_owned(),
        source,
    })
}

/// A file of certificates or keys that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}, which should be a certificate or key in PEM: {source}", file.display())]
pub struct TlsFileError {
    file: PathBuf,
    source: std::io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Tls::read(Path::new("/nowhere/ca.pem"), None, None).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    }

    #[test]
    fn the_key_is_not_shown() {
        let tls = Tls {
            identity: Some((b"certificate".to_vec(), b"secret".to_vec())),
            ..Tls::new("ca")
        };
        assert_eq!(format!("{tls:?}"), "Tls { identity: true, name: None, .. }");
    }
}
