//! Connections whose client answers promptly are waited for without sleeping.
//!
//! A controller that sends one request after the other lets both ends sleep
//! between two of them, and to wake a thread takes longer than to carry out an
//! update: tens of µs where an idle processor halts, as in virtual machines.

use std::io::{self, IoSlice};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::greeting::Greeting;

/// A client whose next bytes come within this time of an answer is prompt; how
/// long they are waited for without sleeping. Meanwhile the thread's other
/// connections wait.
const PATIENCE: Duration = Duration::from_micros(200);

/// A connection to a client that may be prompt.
#[derive(Debug)]
pub(super) struct Prompt {
    stream: TcpStream,
    /// Whether some connection of the server is being waited for: one at a time
    /// is, so that this takes no more than one thread.
    busy: Arc<AtomicBool>,
    /// Whether something was written since the last flush.
    wrote: bool,
    /// When the last answer was flushed, if nothing has come since.
    answered: Option<Instant>,
    /// Whether what came last came promptly.
    is_prompt: bool,
    /// [`PATIENCE`].
    patience: Duration,
    /// What the client must say first.
    greeting: Option<Greeting>,
}

impl Prompt {
    /// A new connection, whose client has `greeting` to begin its protocol.
    pub(super) fn new(stream: TcpStream, busy: Arc<AtomicBool>, greeting: Duration) -> Self {
        Self {
            stream,
            busy,
            wrote: false,
            answered: None,
            is_prompt: false,
            patience: PATIENCE,
            greeting: Some(Greeting::within(greeting)),
        }
    }

    /// Waits until there is something to read or patience is over; whether the
    /// client is still to be called prompt. Other threads go first on this
    /// processor.
    fn wait(&self, since: Instant) -> bool {
        if self.busy.swap(true, Ordering::Acquire) {
            return true;
        }
        let mut end = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        let came = loop {
            match poll(&mut end, PollTimeout::ZERO) {
                Ok(0) if since.elapsed() < self.patience => std::thread::yield_now(),
                Ok(0) => break false,
                _ => break true,
            }
        };
        self.busy.store(false, Ordering::Release);
        came
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(greeting) = &mut self.greeting {
            if greeting.came(buffer.filled().len() - before) {
                self.greeting = None;
            } else if let Poll::Ready(error) = greeting.poll(context) {
                return Poll::Ready(Err(error));
            }
        }
        ready!(read)?;
        if let Some(since) = self.answered.take() {
            self.is_prompt = since.elapsed() < self.patience;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.wrote = true;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wrote = true;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        if std::mem::take(&mut self.wrote) {
            let now = Instant::now();
            self.answered = Some(now);
            // What is sent unasked, or in many pieces, is not held up twice.
            self.is_prompt = self.is_prompt && self.wait(now);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connected for Prompt {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// How long the clients of these tests think.
    const THOUGHT: Duration = Duration::from_millis(30);

    async fn pair(patience: Duration) -> (Prompt, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut server = Prompt::new(stream, Arc::default(), Duration::from_secs(3600));
        server.patience = patience;
        (server, client)
    }

    async fn answer(server: &mut Prompt) {
        server.write_all(b"answer").await.unwrap();
        server.flush().await.unwrap();
    }

    fn ask_later(mut client: std::net::TcpStream) -> std::thread::JoinHandle<std::net::TcpStream> {
        std::thread::spawn(move || {
            std::thread::sleep(THOUGHT);
            client.write_all(b"ask").unwrap();
            client
        })
    }

    fn can_be_read(server: &Prompt) -> bool {
        let mut end = [PollFd::new(server.stream.as_fd(), PollFlags::POLLIN)];
        poll(&mut end, PollTimeout::ZERO).unwrap() == 1
    }

    #[tokio::test]
    async fn a_prompt_client_is_waited_for() {
        let (mut server, client) = pair(Duration::from_secs(3600)).await;
        let mut word = [0; 3];
        // Nothing is known of it yet.
        answer(&mut server).await;
        assert!(!can_be_read(&server));
        let client = ask_later(client).join().unwrap();
        server.read_exact(&mut word).await.unwrap();
        let asking = ask_later(client);
        answer(&mut server).await;
        assert!(can_be_read(&server));
        server.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"ask");
        // Not beside another that is waited for.
        server.busy.store(true, Ordering::Release);
        answer(&mut server).await;
        assert!(!can_be_read(&server) && server.is_prompt);
        drop(asking);
    }

    #[tokio::test]
    async fn a_slow_client_is_not() {
        let (mut server, client) = pair(Duration::from_millis(1)).await;
        let mut word = [0; 3];
        server.is_prompt = true;
        // Or this would not end; and the next answer is not held up.
        answer(&mut server).await;
        assert!(!server.is_prompt);
        let _client = ask_later(client).join().unwrap();
        server.read_exact(&mut word).await.unwrap();
        assert!(!server.is_prompt);
    }

    #[tokio::test]
    async fn one_that_is_gone_is_not() {
        let (mut server, client) = pair(Duration::from_secs(3600)).await;
        server.is_prompt = true;
        drop(client);
        answer(&mut server).await;
    }
}
