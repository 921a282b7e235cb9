//! Opening a channel to an API address: `IP:PORT` or `unix:/path`.

use std::time::Duration;

use hyper_util::rt::TokioIo;
pub use sluice_config::ApiAddress;
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// How long a connection attempt may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Opens a channel to `address`.
///
/// # Errors
/// The transport's error if nothing answers within five seconds.
pub async fn connect(address: &ApiAddress) -> Result<Channel, Error> {
    match address {
        ApiAddress::Tcp(address) => {
            Endpoint::from_shared(format!("http://{address}"))?
                .connect_timeout(CONNECT_LIMIT)
                .connect()
                .await
        }
        ApiAddress::Unix(path) => {
            let path = path.clone();
            // The URI is only the HTTP/2 authority; the connector ignores it.
            Endpoint::from_static("http://offload.invalid")
                .connect_timeout(CONNECT_LIMIT)
                .connect_with_connector(tower::service_fn(move |_: Uri| {
                    let path = path.clone();
                    async move {
                        tokio::net::UnixStream::connect(path)
                            .await
                            .map(TokioIo::new)
                    }
                }))
                .await
        }
    }
}
