//! A client that connects must say something: HTTP/2's pings, by which vanished
//! clients are found, begin only after the client's part of the greeting.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

/// Bytes of the client's connection preface (RFC 9113, 3.4). The first message
/// of TLS is longer, and its handshake has a time limit of its own.
const PREFACE: usize = 24;

/// What is still expected of a client that has connected.
#[derive(Debug)]
pub(super) struct Greeting {
    missing: usize,
    until: Pin<Box<Sleep>>,
}

impl Greeting {
    /// Expects it within this time from now.
    pub(super) fn within(time: Duration) -> Self {
        Self {
            missing: PREFACE,
            until: Box::pin(tokio::time::sleep(time)),
        }
    }

    /// Ready, with an error, when time is over.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        self.until
            .as_mut()
            .poll(context)
            .map(|()| io::Error::new(io::ErrorKind::TimedOut, "the client says nothing"))
    }

    /// Notes that bytes have come; whether that was all.
    pub(super) fn came(&mut self, bytes: usize) -> bool {
        self.missing = self.missing.saturating_sub(bytes);
        self.missing == 0
    }
}
