//! The open streams and what waits to be sent on them.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::Stream;
use p4runtime_proto::p4::v1::StreamMessageResponse;
use p4runtime_proto::p4::v1::stream_message_response::Update;
use prost::Message as _;
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

/// Bytes of messages that may wait, as they are on the wire. In memory a digest
/// list of small numbers takes ten times as much.
const MAX_WAITING_BYTES: usize = 16 << 20;

type Item = Result<StreamMessageResponse, Status>;

/// Messages that wait on a stream, and their bytes.
#[derive(Debug, Default)]
struct Waiting {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Waiting {
    fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, bytes: usize) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether there is room for a message that may be lost. One that is longer
    /// than all that may wait is not lost for ever.
    fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.bytes.load(Ordering::Relaxed);
        self.messages.load(Ordering::Relaxed) < MAX_WAITING
            && (waiting == 0 || waiting + bytes <= MAX_WAITING_BYTES)
    }
}

#[derive(Debug)]
struct Handle {
    /// With the bytes of each message, about.
    sender: mpsc::UnboundedSender<(Item, usize)>,
    waiting: Arc<Waiting>,
    ended: Arc<Notify>,
}

impl Handle {
    fn send(&self, update: Update, bytes: usize) -> bool {
        let message = StreamMessageResponse {
            update: Some(update),
        };
        self.waiting.add(bytes);
        self.sender.send((Ok(message), bytes)).is_ok()
    }

    fn end(&self, error: Status) {
        let _ = self.sender.send((Err(error), 0));
    }
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
        let waiting = Arc::<Waiting>::default();
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
            handle.end(error);
        }
    }

    /// Sends arbitration notices, in order.
    pub(super) fn notify(&self, notices: Vec<Notice>) {
        let mut open = self.open.lock();
        for (id, update) in notices {
            if let Some(handle) = open.get(&id) {
                let waiting = handle.waiting.messages.load(Ordering::Relaxed);
                if waiting >= MAX_WITH_ARBITRATION {
                    handle.end(Status::resource_exhausted("the client reads too slowly"));
                    handle.ended.notify_one();
                    open.remove(&id);
                    continue;
                }
                let bytes = update.encoded_len();
                handle.send(Update::Arbitration(update), bytes);
            }
        }
    }

    /// Sends a message that may be lost when the client is too slow; false if
    /// it was.
    pub(super) fn send(&self, id: StreamId, update: Update) -> bool {
        let open = self.open.lock();
        let bytes = update.encoded_len();
        let handle = open
            .get(&id)
            .filter(|handle| handle.waiting.has_room(bytes));
        let sent = handle.is_some_and(|handle| handle.send(update, bytes));
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
            handle.end(Status::unavailable("the switch is shutting down"));
        }
    }
}

/// What is sent on one stream.
#[derive(Debug)]
pub struct Outgoing {
    receiver: mpsc::UnboundedReceiver<(Item, usize)>,
    waiting: Arc<Waiting>,
}

impl Stream for Outgoing {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.receiver.poll_recv(context).map(|next| {
            let (item, bytes) = next?;
            if item.is_ok() {
                self.waiting.remove(bytes);
            }
            Some(item)
        })
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

    #[tokio::test]
    async fn nor_does_it_with_long_messages() {
        use futures::StreamExt as _;
        use p4runtime_proto::p4::v1::PacketIn;
        let streams = Streams::new(1);
        let mut slow = streams.open().unwrap();
        let packet = |bytes| {
            Update::Packet(PacketIn {
                payload: vec![7; bytes],
                metadata: Vec::new(),
            })
        };
        // Less than 16 MiB with what a message has around it.
        for sent in 0..200 {
            assert_eq!(
                streams.send(slow.id, packet(1 << 20)),
                sent < 15,
                "number {sent}"
            );
        }
        // Short ones find room again as soon as one was taken.
        assert!(!streams.send(slow.id, packet(1 << 20)));
        slow.outgoing.next().await.unwrap().unwrap();
        assert!(streams.send(slow.id, packet(1 << 20)));
        for _ in 0..15 {
            slow.outgoing.next().await.unwrap().unwrap();
        }
        // The longest of all goes alone.
        assert!(streams.send(slow.id, packet(20 << 20)));
        assert!(!streams.send(slow.id, packet(1)));
    }
}
