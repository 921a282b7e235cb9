//! The options for TLS, as `simple_switch_grpc` has them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use softswitch::p4rt::{Tls, TlsError};

/// TLS for P4Runtime.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "TLS for P4Runtime")]
pub(crate) struct TlsOptions {
    /// Serve P4Runtime over TLS; needs a certificate and a key.
    #[arg(long)]
    grpc_server_ssl: bool,

    /// The server's certificate with its chain, PEM.
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,

    /// The key of the server's certificate, PEM.
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,

    /// The CA that has signed the clients' certificates, PEM.
    #[arg(long, value_name = "FILE")]
    grpc_server_cacert: Option<PathBuf>,

    /// Accept only clients with a certificate of that CA.
    #[arg(long)]
    grpc_server_with_client_auth: bool,
}

impl TlsOptions {
    /// What to tell the user about options without effect.
    pub(crate) fn notes(&self) -> Vec<String> {
        let files = [
            ("--grpc-server-cert", &self.grpc_server_cert),
            ("--grpc-server-key", &self.grpc_server_key),
            ("--grpc-server-cacert", &self.grpc_server_cacert),
        ];
        let mut notes = Vec::new();
        if !self.grpc_server_ssl {
            let given = files.iter().filter(|(_, file)| file.is_some());
            notes.extend(given.map(|(name, _)| {
                format!("{name} has no effect: TLS is off without --grpc-server-ssl")
            }));
            if self.grpc_server_with_client_auth {
                notes.push(
                    "--grpc-server-with-client-auth has no effect: TLS is off without \
                     --grpc-server-ssl, so ANY client may connect"
                        .into(),
                );
            }
        } else if self.grpc_server_cacert.is_some() && !self.grpc_server_with_client_auth {
            notes.push(
                "--grpc-server-cacert has no effect: clients are asked for a certificate only \
                 with --grpc-server-with-client-auth"
                    .into(),
            );
        }
        notes
    }

    /// Reads the files; `None` if TLS is off.
    ///
    /// # Errors
    /// Which option is missing, or which file cannot be used and why.
    pub(crate) fn load(&self) -> anyhow::Result<Option<Tls>> {
        if !self.grpc_server_ssl {
            return Ok(None);
        }
        let (Some(cert), Some(key)) = (&self.grpc_server_cert, &self.grpc_server_key) else {
            bail!(
                "--grpc-server-ssl needs a certificate and its key: add --grpc-server-cert FILE \
                 and --grpc-server-key FILE (PEM)"
            );
        };
        let ca = self.grpc_server_cacert.as_ref();
        let ca = match (ca, self.grpc_server_with_client_auth) {
            (Some(file), true) => Some(file),
            (None, true) => bail!(
                "--grpc-server-with-client-auth needs the CA that has signed the clients' \
                 certificates: add --grpc-server-cacert FILE (PEM)"
            ),
            (_, false) => None,
        };
        let cert_pem = read(cert, "--grpc-server-cert")?;
        let key_pem = read(key, "--grpc-server-key")?;
        let ca_pem = ca
            .map(|file| read(file, "--grpc-server-cacert"))
            .transpose()?;
        let tls = Tls::new(&cert_pem, &key_pem, ca_pem.as_deref()).map_err(|error| {
            let (file, option) = match (&error, ca) {
                (TlsError::Authority(_), Some(ca)) => (ca, "--grpc-server-cacert"),
                (TlsError::Key(_), _) => (key, "--grpc-server-key"),
                _ => (cert, "--grpc-server-cert"),
            };
            let hint = match &error {
                TlsError::Unusable(_) => format!(
                    "; {} must hold the key of this certificate (--grpc-server-key)",
                    key.display()
                ),
                _ => String::new(),
            };
            anyhow::anyhow!("cannot use {} ({option}): {error}{hint}", file.display())
        })?;
        Ok(Some(tls))
    }
}

fn read(file: &Path, option: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| {
        format!(
            "cannot read {}; {option} takes a file in PEM",
            file.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &Path, names: [&str; 3]) -> TlsOptions {
        let file = |name: &str| (!name.is_empty()).then(|| dir.join(name));
        TlsOptions {
            grpc_server_ssl: true,
            grpc_server_cert: file(names[0]),
            grpc_server_key: file(names[1]),
            grpc_server_cacert: file(names[2]),
            grpc_server_with_client_auth: !names[2].is_empty(),
        }
    }

    #[test]
    fn every_refusal_names_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("cert", &made.cert.pem());
        write("key", &made.signing_key.serialize_pem());
        write("other", &other.signing_key.serialize_pem());
        write("text", "certificate");
        write(
            "broken",
            "-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----\n",
        );
        let load = |names| options(dir.path(), names).load();
        assert!(load(["cert", "key", ""]).unwrap().is_some());
        assert!(load(["cert", "key", "cert"]).unwrap().is_some());
        for (names, expected) in [
            (["", "key", ""], vec!["--grpc-server-cert FILE"]),
            (["cert", "", ""], vec!["--grpc-server-key FILE"]),
            (["absent", "key", ""], vec!["/absent", "--grpc-server-cert"]),
            (["cert", "absent", ""], vec!["/absent", "--grpc-server-key"]),
            (
                ["cert", "key", "absent"],
                vec!["/absent", "--grpc-server-cacert"],
            ),
            (["text", "key", ""], vec!["/text", "BEGIN CERTIFICATE"]),
            (["broken", "key", ""], vec!["/broken", "--grpc-server-cert"]),
            (["cert", "text", ""], vec!["/text", "BEGIN PRIVATE KEY"]),
            (
                ["cert", "key", "text"],
                vec!["/text", "--grpc-server-cacert"],
            ),
            (["cert", "other", ""], vec!["/cert", "/other", "key"]),
        ] {
            let error = format!("{:#}", load(names).unwrap_err());
            for part in expected {
                assert!(error.contains(part), "{names:?}: {error}");
            }
        }
        let mut anybody = options(dir.path(), ["cert", "key", ""]);
        anybody.grpc_server_with_client_auth = true;
        let error = anybody.load().unwrap_err().to_string();
        assert!(error.contains("--grpc-server-cacert"), "{error}");
    }

    #[test]
    fn without_ssl_nothing_is_read_and_the_user_is_told() {
        let off = TlsOptions {
            grpc_server_ssl: false,
            ..options(Path::new("/nowhere"), ["a", "b", "c"])
        };
        assert!(off.load().unwrap().is_none());
        let notes = off.notes().join("\n");
        for option in ["-cert ", "-key ", "-cacert ", "-with-client-auth "] {
            assert!(notes.contains(&format!("--grpc-server{option}")), "{notes}");
        }
        assert_eq!(TlsOptions::default().notes(), Vec::<String>::new());
    }
}
