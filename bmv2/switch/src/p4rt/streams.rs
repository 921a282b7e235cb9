//! The open streams and what waits to be sent on them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use p4runtime_proto::p4::v1::StreamMessageResponse;
use p4runtime_proto::p4::v1::stream_message_response::Update;
use tokio::sync::mpsc;
use tonic::Status;

use super::arbitration::{Notice, StreamId};

/// Packets, digests and notices that may wait on a stream; more are lost and
/// counted. Messages of arbitration always fit.
const MAX_WAITING: usize = 4096;

type Item = Result<StreamMessageResponse, Status>;

#[derive(Debug)]
struct Handle {
    sender: mpsc::UnboundedSender<Item>,
    waiting: Arc<AtomicUsize>,
}

/// All open streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: parking_lot::Mutex<HashMap<StreamId, Handle>>,
    next: AtomicU64,
    lost: AtomicU64,
}

impl Streams {
    /// Opens a stream; the second part is what is sent on it.
    pub(super) fn open(&self) -> (StreamId, Outgoing) {
        let id = StreamId(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let handle = Handle {
            sender,
            waiting: Arc::clone(&waiting),
        };
        self.open.lock().insert(id, handle);
        (id, Outgoing { receiver, waiting })
    }

    /// Ends a stream, with an error or in peace.
    pub(super) fn close(&self, id: StreamId, error: Option<Status>) {
        let Some(handle) = self.open.lock().remove(&id) else {
            return;
        };
        if let Some(error) = error {
            let _ = handle.sender.send(Err(error));
        }
    }

    /// Sends arbitration notices, in order.
    pub(super) fn notify(&self, notices: Vec<Notice>) {
        let open = self.open.lock();
        for (id, update) in notices {
            if let Some(handle) = open.get(&id) {
                handle.waiting.fetch_add(1, Ordering::Relaxed);
                let _ = handle.sender.send(Ok(StreamMessageResponse {
                    update: Some(Update::Arbitration(update)),
                }));
            }
        }
    }

    /// Sends a message that may be lost when the client is too slow; false if
    /// it was.
    pub(super) fn send(&self, id: StreamId, update: Update) -> bool {
        let open = self.open.lock();
        let sent = open.get(&id).is_some_and(|handle| {
            if handle.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
                return false;
            }
            handle.waiting.fetch_add(1, Ordering::Relaxed);
            let message = StreamMessageResponse {
                update: Some(update),
            };
            handle.sender.send(Ok(message)).is_ok()
        });
        if !sent {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    /// Messages lost because a client was too slow or gone.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Ends all streams.
    pub(super) fn close_all(&self) {
        for (_, handle) in self.open.lock().drain() {
            let _ = handle
                .sender
                .send(Err(Status::unavailable("the switch is shutting down")));
        }
    }
}

/// What is sent on one stream.
#[derive(Debug)]
pub struct Outgoing {
    receiver: mpsc::UnboundedReceiver<Item>,
    waiting: Arc<AtomicUsize>,
}

impl Stream for Outgoing {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        let item = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(Ok(_))) = &item {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        item
    }
}
