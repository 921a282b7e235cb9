//! Listening: the API on TCP and Unix sockets, HTTP for metrics and health.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, bail};
use offload_api::v1::admin_server::AdminServer;
use offload_api::v1::offload_server::OffloadServer;
use sluice_config::ApiAddress;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::grpc::Api;

/// Largest message accepted, bytes: a Resync or an Apply can be long.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;

/// A socket that listens.
pub enum Listener {
    /// On TCP.
    Tcp(TcpListener),
    /// On a Unix socket.
    Unix(UnixListener),
}

/// Listens on an address.
///
/// # Errors
/// A sentence when the address is in use or cannot be used. A Unix socket that
/// a dead process has left behind is taken over.
pub async fn listen(address: &ApiAddress) -> anyhow::Result<Listener> {
    match address {
        ApiAddress::Tcp(address) => tcp(*address, "api").await.map(Listener::Tcp),
        ApiAddress::Unix(path) => unix(path).await.map(Listener::Unix),
    }
}

/// Listens on TCP; `field` of offload-ctl.toml has the address.
///
/// # Errors
/// A sentence when the address is in use or cannot be used.
pub async fn tcp(address: SocketAddr, field: &str) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => bail!(
            "{address} is in use by another process; stop it, or set another address at `{field}` in offload-ctl.toml"
        ),
        Err(error) => Err(error).with_context(|| {
            format!("cannot listen on {address}; correct `{field}` in offload-ctl.toml")
        }),
    }
}

async fn unix(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder of {}", path.display()))?;
    }
    match UnixListener::bind(path) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if UnixStream::connect(path).await.is_ok() {
                bail!(
                    "unix:{} is in use by another process; stop it, or set another address at `api` in offload-ctl.toml",
                    path.display()
                );
            }
            std::fs::remove_file(path)
                .with_context(|| format!("cannot remove the stale socket {}", path.display()))?;
            UnixListener::bind(path)
                .with_context(|| format!("cannot listen on unix:{}", path.display()))
        }
        Err(error) => Err(error).with_context(|| {
            format!(
                "cannot listen on unix:{}; correct `api` in offload-ctl.toml",
                path.display()
            )
        }),
    }
}

/// Serves the API until the process ends.
///
/// # Errors
/// If the transport fails.
pub async fn api(listener: Listener, api: Api) -> anyhow::Result<()> {
    let offload = OffloadServer::new(api.clone()).max_decoding_message_size(MESSAGE_MAX);
    let admin = AdminServer::new(api).max_decoding_message_size(MESSAGE_MAX);
    let router = Server::builder()
        .http2_keepalive_interval(Some(std::time::Duration::from_secs(10)))
        .add_service(offload)
        .add_service(admin);
    match listener {
        Listener::Tcp(listener) => {
            // Nagle's algorithm (RFC 896) would hold the end of an answer until
            // the client's delayed ACK.
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            router.serve_with_incoming(incoming).await?;
        }
        Listener::Unix(listener) => {
            router
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await?;
        }
    }
    Ok(())
}
