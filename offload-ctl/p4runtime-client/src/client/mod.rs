//! The client: its connection, its part in arbitration, and what goes over the
//! stream. Pipelines, and writes and reads of entities, have rooms of their own.

mod entities;
mod pipeline;

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, DigestListAck, PacketMetadata, PacketOut, Role,
    StreamMessageRequest, p4_runtime_client::P4RuntimeClient, stream_message_request,
};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::channel;
use crate::error::{Error, told};
use crate::event::{Arbitration, Events};
use crate::options::ConnectOptions;
use crate::stream::{Reader, StreamCounters, StreamState, arbitration_request};

/// The server is told a deadline this much later than ours, so that ours is the
/// one that is reported.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);

const CAPABILITIES: &str = "Capabilities";
const STREAM: &str = "StreamChannel";

/// A connection to one device of one switch, cheap to clone.
///
/// Dropping the last clone closes the stream channel.
#[derive(Clone)]
pub struct Client {
    rpc: P4RuntimeClient<Channel>,
    shared: Arc<Shared>,
}

struct Shared {
    options: ConnectOptions,
    election_id: Mutex<u128>,
    to_switch: mpsc::Sender<StreamMessageRequest>,
    state: watch::Receiver<StreamState>,
    counters: Arc<StreamCounters>,
    reader: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Client {
    /// Connects, enters arbitration and waits for its first answer, with the
    /// default deadlines. See [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect(
        address: &str,
        device_id: u64,
        election_id: u128,
        role: Option<Role>,
    ) -> Result<(Self, Events), Error> {
        let mut options = ConnectOptions::new(address, device_id, election_id);
        options.role = role;
        Self::connect_with(options).await
    }

    /// Connects, enters arbitration and waits for its first answer.
    ///
    /// A backup is connected too: [`is_primary`](Self::is_primary) and the first
    /// [`Event::Arbitration`](crate::Event::Arbitration) tell.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::Connect`], [`Error::Arbitration`] or
    /// [`Error::Deadline`].
    pub async fn connect_with(options: ConnectOptions) -> Result<(Self, Events), Error> {
        let channel = channel::open(&options).await?;
        let mut rpc = P4RuntimeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);

        let (to_switch, outbound) = mpsc::channel(options.send_capacity.max(1));
        let (events, receiver) = mpsc::channel(options.event_capacity.max(1));
        let (state_sender, state) = watch::channel(StreamState::default());
        let counters = Arc::new(StreamCounters::default());

        // Queued before the call: some servers answer nothing, not even
        // headers, until they have this message.
        let hello = arbitration_request(
            options.device_id,
            options.role.as_ref(),
            options.election_id,
        );
        let arbitrate = async {
            // The queue is empty and holds at least one.
            let _ = to_switch.send(hello).await;
            let inbound = rpc
                .stream_channel(ReceiverStream::new(outbound))
                .await
                .map_err(|status| (status.code(), told(&status)))?
                .into_inner();
            let mut reader = Reader {
                inbound,
                events,
                state: state_sender,
                counters: Arc::clone(&counters),
            };
            match reader.until_arbitration().await {
                Ok(()) => Ok(reader),
                Err(crate::Disconnect::Failed { code, message }) => Err((code, message)),
                Err(reason @ crate::Disconnect::Closed) => {
                    Err((Code::Unavailable, reason.to_string()))
                }
            }
        };
        let after = options.deadlines.arbitration;
        let reader = timeout(after, arbitrate)
            .await
            .map_err(|_| Error::Deadline {
                method: STREAM,
                after,
            })?
            .map_err(|(code, message)| Error::Arbitration {
                address: options.address.clone(),
                code,
                message,
            })?;

        let reader = tokio::spawn(reader.run()).abort_handle();
        let shared = Shared {
            election_id: Mutex::new(options.election_id),
            options,
            to_switch,
            state,
            counters,
            reader,
        };
        let client = Self {
            rpc,
            shared: Arc::new(shared),
        };
        Ok((client, receiver))
    }

    /// The device that this client controls.
    pub fn device_id(&self) -> u64 {
        self.shared.options.device_id
    }

    /// The election id in use.
    pub fn election_id(&self) -> u128 {
        *self
            .shared
            .election_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The last notice of the switch about who is primary.
    pub fn arbitration(&self) -> Option<Arbitration> {
        self.shared.state.borrow().arbitration
    }

    /// Whether this controller is connected and primary, as far as it has been
    /// told.
    pub fn is_primary(&self) -> bool {
        let state = self.shared.state.borrow();
        state.ended.is_none() && state.arbitration.is_some_and(|a| a.primary)
    }

    /// Whether the stream channel is open.
    pub fn is_connected(&self) -> bool {
        self.shared.state.borrow().ended.is_none()
    }

    /// Packet-ins that were dropped because the events were not read fast
    /// enough.
    pub fn packet_ins_dropped(&self) -> u64 {
        self.shared
            .counters
            .packet_ins_dropped
            .load(Ordering::Relaxed)
    }

    /// Messages on the stream of a kind that this client does not know.
    pub fn unknown_messages(&self) -> u64 {
        self.shared
            .counters
            .unknown_messages
            .load(Ordering::Relaxed)
    }

    /// Enters arbitration anew with another election id, for instance to take
    /// over. The answer comes as an event.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Deadline`].
    pub async fn set_election_id(&self, election_id: u128) -> Result<(), Error> {
        let options = &self.shared.options;
        let request = arbitration_request(options.device_id, options.role.as_ref(), election_id);
        self.send(STREAM, request).await?;
        *self
            .shared
            .election_id
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = election_id;
        Ok(())
    }

    /// What the server supports.
    ///
    /// # Errors
    /// [`Error::Rpc`], with code `Unimplemented` before version 1.1, or
    /// [`Error::Deadline`].
    pub async fn capabilities(&self) -> Result<CapabilitiesResponse, Error> {
        let after = self.shared.options.deadlines.other;
        let request = CapabilitiesRequest {
            device_id: self.device_id(),
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.capabilities(with_deadline(request, after));
        within(CAPABILITIES, after, call)
            .await?
            .map_err(|status| self.whole(CAPABILITIES, &status, after))
    }

    /// Sends a packet out, with the fields of the `packet_out` header.
    ///
    /// It returns when the packet is queued; the switch may answer with
    /// [`Event::StreamError`](crate::Event::StreamError).
    ///
    /// # Errors
    /// [`Error::Disconnected`], or [`Error::Deadline`] when the switch does not
    /// take packets.
    pub async fn packet_out(
        &self,
        payload: Vec<u8>,
        metadata: Vec<PacketMetadata>,
    ) -> Result<(), Error> {
        let packet = PacketOut { payload, metadata };
        self.send(
            "PacketOut",
            StreamMessageRequest {
                update: Some(stream_message_request::Update::Packet(packet)),
            },
        )
        .await
    }

    /// Acknowledges a list of digests, so that the switch may report them anew.
    ///
    /// # Errors
    /// [`Error::Disconnected`] or [`Error::Deadline`].
    pub async fn acknowledge_digest(&self, digest_id: u32, list_id: u64) -> Result<(), Error> {
        let ack = DigestListAck { digest_id, list_id };
        self.send(
            "DigestListAck",
            StreamMessageRequest {
                update: Some(stream_message_request::Update::DigestAck(ack)),
            },
        )
        .await
    }

    async fn send(&self, method: &'static str, message: StreamMessageRequest) -> Result<(), Error> {
        self.require_stream(method)?;
        let after = self.shared.options.deadlines.other;
        match timeout(after, self.shared.to_switch.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.disconnected(method)),
            Err(_) => Err(Error::Deadline { method, after }),
        }
    }

    /// Changes go out only while the stream is open. The transport reconnects by
    /// itself, and what answers then may be a switch that has lost its state.
    pub(super) fn require_stream(&self, method: &'static str) -> Result<(), Error> {
        if self.is_connected() {
            Ok(())
        } else {
            Err(self.disconnected(method))
        }
    }

    fn disconnected(&self, method: &'static str) -> Error {
        let ended = self.shared.state.borrow().ended.clone();
        Error::Disconnected {
            method,
            reason: ended.unwrap_or(crate::Disconnect::Closed),
        }
    }

    pub(super) fn role_name(&self) -> String {
        let role = self.shared.options.role.as_ref();
        role.map_or_else(String::new, |role| role.name.clone())
    }

    pub(super) fn role_id(&self) -> u64 {
        self.shared.options.role.as_ref().map_or(0, |role| role.id)
    }

    /// The error of a call that failed as a whole.
    pub(super) fn whole(&self, method: &'static str, status: &Status, after: Duration) -> Error {
        let primary_id = self.arbitration().and_then(|a| a.primary_id);
        Error::of_status(method, status, primary_id, after)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.shared.options.address)
            .field("device_id", &self.device_id())
            .field("election_id", &self.election_id())
            .field("state", &*self.shared.state.borrow())
            .finish_non_exhaustive()
    }
}

pub(super) fn with_deadline<T>(message: T, after: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(after + DEADLINE_GRACE);
    request
}

pub(super) async fn within<T>(
    method: &'static str,
    after: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Result<T, Status>, Error> {
    match timeout(after, call).await {
        Ok(result) => Ok(result.map(Response::into_inner)),
        Err(_) => Err(Error::Deadline { method, after }),
    }
}
