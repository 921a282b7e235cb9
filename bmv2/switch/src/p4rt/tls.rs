//! TLS for P4Runtime: the server's certificate, and the one that clients must
//! have.

use std::fmt;
use std::time::Duration;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

/// How long a handshake may take; a client that stays silent holds a socket.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why certificates or a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate in what should be the server's.
    #[error("the server's certificate: {0}")]
    Certificate(String),
    /// No key in what should be the server's.
    #[error("the server's key: {0}")]
    Key(String),
    /// No certificate in what should be the CA's.
    #[error("the CA's certificate: {0}")]
    Authority(String),
    /// The library refuses them, for instance because the key is not that of
    /// the certificate.
    #[error("the certificate and the key cannot be used: {0}")]
    Unusable(String),
}

/// What the server shows, and what it asks of clients. Made from PEM.
#[derive(Clone)]
pub struct Tls(ServerTlsConfig);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// A server with a certificate (its chain, its own first) and a key. With
    /// the certificate of a CA, clients must have one that the CA has signed.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn new(certificate: &[u8], key: &[u8], client_ca: Option<&[u8]>) -> Result<Self, TlsError> {
        check_certificates(certificate).map_err(TlsError::Certificate)?;
        PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            TlsError::Key(match error {
                pem::Error::NoItemsFound => {
                    "there is no \"BEGIN PRIVATE KEY\" in it (encrypted keys cannot be read)".into()
                }
                other => other.to_string(),
            })
        })?;
        let identity = Identity::from_pem(certificate, key);
        let mut config = ServerTlsConfig::new().identity(identity).timeout(HANDSHAKE);
        if let Some(ca) = client_ca {
            check_certificates(ca).map_err(TlsError::Authority)?;
            config = config.client_ca_root(Certificate::from_pem(ca));
        }
        // What only the library can tell.
        tonic::transport::Server::builder()
            .tls_config(config.clone())
            .map_err(|error| TlsError::Unusable(root_cause(&error)))?;
        Ok(Self(config))
    }

    pub(super) fn config(&self) -> ServerTlsConfig {
        self.0.clone()
    }
}

fn check_certificates(pem: &[u8]) -> Result<(), String> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem) {
        certificate.map_err(|error| error.to_string())?;
        count += 1;
    }
    match count {
        0 => Err("there is no \"BEGIN CERTIFICATE\" in it".into()),
        _ => Ok(()),
    }
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
