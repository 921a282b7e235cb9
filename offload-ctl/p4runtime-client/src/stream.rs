//! The stream channel: arbitration and what the switch tells unasked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use p4runtime_proto::p4::v1::{
    MasterArbitrationUpdate, Role, StreamMessageRequest, StreamMessageResponse,
    stream_message_request, stream_message_response::Update,
};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tonic::{Code, Streaming};

use crate::event::{Arbitration, Disconnect, Event};

/// What the stream has told so far, for calls to look at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StreamState {
    /// The last notice; `None` before the first.
    pub(crate) arbitration: Option<Arbitration>,
    /// Why the stream ended; `None` while it is open.
    pub(crate) ended: Option<Disconnect>,
}

/// Counts of events that did not reach their reader.
#[derive(Debug, Default)]
pub(crate) struct StreamCounters {
    /// Packet-ins dropped because their reader was too slow.
    pub(crate) packet_ins_dropped: AtomicU64,
    /// Messages of a kind that this client does not know.
    pub(crate) unknown_messages: AtomicU64,
}

/// The message that enters arbitration or changes the election id.
pub(crate) fn arbitration_request(
    device_id: u64,
    role: Option<&Role>,
    election_id: u128,
) -> StreamMessageRequest {
    let arbitration = MasterArbitrationUpdate {
        device_id,
        role: role.cloned(),
        election_id: Some(election_id.into()),
        status: None,
    };
    StreamMessageRequest {
        update: Some(stream_message_request::Update::Arbitration(arbitration)),
    }
}

/// Turns the messages of one stream into events.
pub(crate) struct Reader {
    pub(crate) inbound: Streaming<StreamMessageResponse>,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) state: watch::Sender<StreamState>,
    pub(crate) counters: Arc<StreamCounters>,
}

impl Reader {
    /// Reads until the first arbitration notice.
    ///
    /// # Errors
    /// Why the stream ended before one came.
    pub(crate) async fn until_arbitration(&mut self) -> Result<(), Disconnect> {
        while self.state.borrow().arbitration.is_none() {
            self.step().await?;
        }
        Ok(())
    }

    /// Reads until the stream ends, and says so.
    pub(crate) async fn run(mut self) {
        let reason = loop {
            if let Err(reason) = self.step().await {
                break reason;
            }
        };
        tracing::info!(%reason, "stream channel ended");
        self.state
            .send_modify(|state| state.ended = Some(reason.clone()));
        self.deliver(Event::Disconnected { reason }).await;
    }

    async fn step(&mut self) -> Result<(), Disconnect> {
        let message = self
            .inbound
            .message()
            .await
            .map_err(|status| Disconnect::Failed {
                code: status.code(),
                message: status.message().to_owned(),
            })?
            .ok_or(Disconnect::Closed)?;
        match message.update {
            Some(Update::Arbitration(update)) => self.arbitration(update).await,
            Some(Update::Packet(packet)) => self.packet_in(Event::PacketIn {
                payload: packet.payload,
                metadata: packet.metadata,
            }),
            Some(Update::Digest(digest)) => self.deliver(Event::Digest(digest)).await,
            Some(Update::IdleTimeoutNotification(notice)) => {
                self.deliver(Event::IdleTimeout(notice.table_entry)).await;
            }
            Some(Update::Error(error)) => self.deliver(Event::StreamError(error)).await,
            Some(Update::Other(_)) | None => {
                self.counters
                    .unknown_messages
                    .fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    async fn arbitration(&mut self, update: MasterArbitrationUpdate) {
        let code = update.status.map_or(Code::Ok, |s| Code::from_i32(s.code));
        let arbitration = Arbitration {
            primary: code == Code::Ok,
            primary_id: update.election_id.map(u128::from),
        };
        tracing::debug!(?arbitration, "arbitration");
        self.state
            .send_modify(|state| state.arbitration = Some(arbitration));
        self.deliver(Event::Arbitration(arbitration)).await;
    }

    /// Waits for the reader of events: what passes here must not be lost.
    async fn deliver(&self, event: Event) {
        // A closed channel means that nobody wants to know.
        let _ = self.events.send(event).await;
    }

    /// Packets are not worth waiting for: they would hold up arbitration.
    fn packet_in(&self, event: Event) {
        if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
            self.counters
                .packet_ins_dropped
                .fetch_add(1, Ordering::Relaxed);
        }
    }
}
