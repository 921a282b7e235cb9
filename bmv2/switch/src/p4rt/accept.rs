//! Taking connections from clients.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use futures::Stream;
use tokio::net::{TcpListener, TcpStream};

use super::prompt::Prompt;

/// How long nobody is taken after that has failed: what was short then is short
/// still, and to try again at once would keep a processor busy.
const PAUSE: Duration = Duration::from_millis(100);
/// How often that is told.
const TOLD: Duration = Duration::from_secs(10);

/// The connections of all listeners. Clients have `greeting` to begin their
/// protocol.
pub(super) fn connections(
    listeners: impl IntoIterator<Item = TcpListener>,
    greeting: Duration,
) -> impl Stream<Item = io::Result<Prompt>> {
    let busy = Arc::new(AtomicBool::new(false));
    let each = listeners
        .into_iter()
        .map(|listener| Box::pin(connections_of(listener, Arc::clone(&busy), greeting)));
    futures::stream::select_all(each)
}

fn connections_of(
    listener: TcpListener,
    busy: Arc<AtomicBool>,
    greeting: Duration,
) -> impl Stream<Item = io::Result<Prompt>> {
    let state = (listener, busy, None);
    futures::stream::unfold(state, move |(listener, busy, mut told)| async move {
        let stream = accepted(|| listener.accept(), &mut told).await;
        // Nagle's algorithm (RFC 896) would hold the end of an answer until
        // the client's delayed ACK.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY");
        }
        let connection = Prompt::new(stream, Arc::clone(&busy), greeting);
        Some((Ok(connection), (listener, busy, told)))
    })
}

/// The next connection, however often it takes. `told` is when somebody was told
/// last that it failed.
async fn accepted<A, F>(mut accept: impl FnMut() -> F, told: &mut Option<Instant>) -> TcpStream
where
    F: Future<Output = io::Result<(TcpStream, A)>>,
{
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            // The client has left again.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > TOLD) {
                    *told = Some(Instant::now());
                    tracing::warn!(
                        %error,
                        "cannot take a P4Runtime connection; clients wait. If too many files \
                         are open, allow more: `ulimit -n`"
                    );
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_is_not_tried_again_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        let mut failures = vec![libc::ENFILE, libc::ECONNABORTED, libc::EMFILE];
        let accept = || {
            let failure = failures.pop();
            let listener = &listener;
            async move {
                match failure {
                    Some(code) => Err(io::Error::from_raw_os_error(code)),
                    None => listener.accept().await,
                }
            }
        };
        let (start, mut told) = (Instant::now(), None);
        accepted(accept, &mut told).await;
        // Two of the three are short of something.
        assert!(start.elapsed() >= 2 * PAUSE);
        // The first was told of, before the pauses.
        assert!(told.is_some_and(|told| told.elapsed() >= 2 * PAUSE));
        assert!(failures.is_empty());
    }
}
