//! The open streams and what waits to be sent on them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use p4runtime_proto::p4::v1::StreamMessageResponse;
use p4runtime_proto::p4::v1::stream_message_response::Update;
use tokio::sync::{Notify, mpsc};
use tonic::{Code, Status};

use super::arbitration::{Notice, StreamId};
use super::fault::{Fault, Outcome};

/// Packets, digests and notices that may wait on a stream; more are lost and
/// counted.
const MAX_WAITING: usize = 4096;
/// Messages of any kind that may wait. Those of arbitration are never lost: a
/// stream that has no room for one is ended.
const MAX_WITH_ARBITRATION: usize = 2 * MAX_WAITING;

type Item = Result<StreamMessageResponse, Status>;

#[derive(Debug)]
struct Handle {
    sender: mpsc::UnboundedSender<Item>,
    waiting: Arc<AtomicUsize>,
    ended: Arc<Notify>,
}

/// A stream that was opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) id: StreamId,
    /// What is sent on it.
    pub(super) outgoing: Outgoing,
    /// Told when the switch ends the stream.
    pub(super) ended: Arc<Notify>,
}

/// All open streams.
#[derive(Debug)]
pub(super) struct Streams {
    /// Most of them at a time.
    limit: usize,
    open: parking_lot::Mutex<HashMap<StreamId, Handle>>,
    next: AtomicU64,
    lost: AtomicU64,
}

impl Streams {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            open: parking_lot::Mutex::default(),
            next: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are as many as there may be.
    pub(super) fn open(&self) -> Outcome<Opened> {
        let mut open = self.open.lock();
        if open.len() >= self.limit {
            return Err(Fault::new(
                Code::ResourceExhausted,
                format!(
                    "{} streams are open already, the most that this switch takes",
                    open.len()
                ),
            ));
        }
        let id = StreamId(self.next.fetch_add(1, Ordering::Relaxed));
        let (sender, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(Notify::new());
        let handle = Handle {
            sender,
            waiting: Arc::clone(&waiting),
            ended: Arc::clone(&ended),
        };
        open.insert(id, handle);
        Ok(Opened {
            id,
            outgoing: Outgoing { receiver, waiting },
            ended,
        })
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
        let mut open = self.open.lock();
        for (id, update) in notices {
            if let Some(handle) = open.get(&id) {
                if handle.waiting.load(Ordering::Relaxed) >= MAX_WITH_ARBITRATION {
                    let status = Status::resource_exhausted("the client reads too slowly");
                    let _ = handle.sender.send(Err(status));
                    handle.ended.notify_one();
                    open.remove(&id);
                    continue;
                }
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

    /// Counts a message that cannot be sent to anybody.
    pub(super) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages lost because a client was too slow or gone, or because they
    /// could not be made.
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

#[cfg(test)]
mod tests {
    use super::*;
    use p4runtime_proto::p4::v1::MasterArbitrationUpdate;

    #[test]
    fn a_client_that_does_not_read_costs_bounded_memory() {
        let streams = Streams::new(2);
        let slow = streams.open().unwrap();
        let other = streams.open().unwrap();
        assert_eq!(
            streams.open().unwrap_err().code,
            Code::ResourceExhausted,
            "a third"
        );
        for _ in 0..3 * MAX_WITH_ARBITRATION {
            streams.notify(vec![(slow.id, MasterArbitrationUpdate::default())]);
        }
        assert_eq!(slow.outgoing.receiver.len(), MAX_WITH_ARBITRATION + 1);
        assert!(!streams.send(slow.id, Update::Arbitration(Default::default())));
        // Its place is free; the other is not concerned.
        streams.open().unwrap();
        assert!(streams.send(other.id, Update::Arbitration(Default::default())));
        for _ in 0..3 * MAX_WAITING {
            streams.send(other.id, Update::Arbitration(Default::default()));
        }
        assert_eq!(other.outgoing.receiver.len(), MAX_WAITING);
        assert_eq!(streams.lost(), 1 + 2 * MAX_WAITING as u64 + 1);
    }
}
