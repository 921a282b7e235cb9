//! The client.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, DigestListAck, Entity, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, PacketMetadata, PacketOut, ReadRequest, Role,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, Update, WriteRequest,
    forwarding_pipeline_config::Cookie, get_forwarding_pipeline_config_request::ResponseType,
    p4_runtime_client::P4RuntimeClient, set_forwarding_pipeline_config_request::Action,
    stream_message_request, write_request::Atomicity,
};
use p4runtime_proto::status::update_errors;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::batch::{BatchLimits, next_batch};
use crate::channel;
use crate::error::{AccountProblem, Error, told};
use crate::event::{Arbitration, Events};
use crate::options::ConnectOptions;
use crate::outcome::{Failures, UpdateStatus, WriteOutcome};
use crate::stream::{Reader, StreamCounters, StreamState, arbitration_request};

/// The server is told a deadline this much later than ours, so that ours is the
/// one that is reported.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);

const WRITE: &str = "Write";
const READ: &str = "Read";
const SET_PIPELINE: &str = "SetForwardingPipelineConfig";
const GET_PIPELINE: &str = "GetForwardingPipelineConfig";
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

    /// Sends a program to the switch: `action` says what becomes of it.
    ///
    /// # Errors
    /// [`Error::NotPrimary`], [`Error::Disconnected`], [`Error::Rpc`] or
    /// [`Error::Deadline`].
    pub async fn set_pipeline(
        &self,
        action: Action,
        p4info: P4Info,
        device_config: Vec<u8>,
        cookie: u64,
    ) -> Result<(), Error> {
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: device_config,
            cookie: Some(Cookie { cookie }),
        };
        self.set_config(action, Some(config)).await
    }

    /// Realises the program that was saved with
    /// [`Action::VerifyAndSave`].
    ///
    /// # Errors
    /// [`Error::NotPrimary`], [`Error::Disconnected`], [`Error::Rpc`] or
    /// [`Error::Deadline`].
    pub async fn commit_pipeline(&self) -> Result<(), Error> {
        self.set_config(Action::Commit, None).await
    }

    async fn set_config(
        &self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Error> {
        self.require_stream(SET_PIPELINE)?;
        let after = self.shared.options.deadlines.pipeline;
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device_id(),
            role_id: self.role_id(),
            role: self.role_name(),
            election_id: Some(self.election_id().into()),
            action: action as i32,
            config,
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.set_forwarding_pipeline_config(with_deadline(request, after));
        within(SET_PIPELINE, after, call)
            .await?
            .map(|_| ())
            .map_err(|status| self.whole(SET_PIPELINE, &status, after))
    }

    /// The program that the switch runs, `None` when it has none.
    ///
    /// # Errors
    /// [`Error::Rpc`] or [`Error::Deadline`].
    pub async fn get_pipeline(
        &self,
        response_type: ResponseType,
    ) -> Result<Option<ForwardingPipelineConfig>, Error> {
        let after = self.shared.options.deadlines.pipeline;
        let request = GetForwardingPipelineConfigRequest {
            device_id: self.device_id(),
            response_type: response_type as i32,
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.get_forwarding_pipeline_config(with_deadline(request, after));
        match within(GET_PIPELINE, after, call).await? {
            Ok(response) => Ok(response.config),
            // How bmv2 says that there is none; the specification leaves the
            // configuration unset.
            Err(status) if status.code() == Code::FailedPrecondition => Ok(None),
            Err(status) => Err(self.whole(GET_PIPELINE, &status, after)),
        }
    }

    /// Writes all updates in one request.
    ///
    /// The order in which the switch applies them is undefined.
    ///
    /// # Errors
    /// When the request failed as a whole: [`Error::NotPrimary`],
    /// [`Error::Disconnected`], [`Error::Rpc`], [`Error::Deadline`] or
    /// [`Error::Account`]. Updates that were refused one by one are in the
    /// outcome;
    /// [`WriteOutcome::into_result`] makes them an error.
    pub async fn write(
        &self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<WriteOutcome, Error> {
        let count = updates.len();
        if count == 0 {
            return Ok(WriteOutcome::default());
        }
        self.require_stream(WRITE)?;
        let after = self.shared.options.deadlines.write;
        let request = WriteRequest {
            device_id: self.device_id(),
            role_id: self.role_id(),
            role: self.role_name(),
            election_id: Some(self.election_id().into()),
            updates,
            atomicity: atomicity as i32,
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.write(with_deadline(request, after));
        match within(WRITE, after, call).await? {
            Ok(_) => Ok(WriteOutcome::applied(count)),
            Err(status) => self
                .account(WRITE, &status, count, after)
                .map(|statuses| WriteOutcome { statuses }),
        }
    }

    /// Writes any number of updates, each on its own (`CONTINUE_ON_ERROR`), in
    /// as many requests as it takes.
    ///
    /// Requests go one after the other. Two updates of one entity, and updates
    /// that depend on each other by rank (action profile members, groups,
    /// entries), go into successive requests, so that they take effect in the
    /// order given. A request that the switch finds too large is sent again in
    /// halves.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when a request failed as a whole; its outcome
    /// tells what became of each update.
    pub async fn write_batched(
        &self,
        updates: Vec<Update>,
        mut limits: BatchLimits,
    ) -> Result<WriteOutcome, Error> {
        let mut statuses = Vec::with_capacity(updates.len());
        while statuses.len() < updates.len() {
            let rest = &updates[statuses.len()..];
            let size = next_batch(rest, limits);
            let batch = rest[..size].to_vec();
            match self.write(batch, Atomicity::ContinueOnError).await {
                Ok(outcome) => statuses.extend(outcome.statuses),
                Err(error) if size > 1 && too_large(&error) => {
                    limits = limits.halved(size);
                    tracing::debug!(size, "batch too large, halving");
                }
                Err(error) => {
                    let sent = if attempted_nothing(&error) {
                        UpdateStatus::NotAttempted
                    } else {
                        UpdateStatus::Unknown
                    };
                    statuses.extend(std::iter::repeat_n(sent, size));
                    statuses.resize(updates.len(), UpdateStatus::NotAttempted);
                    return Err(Error::Interrupted {
                        outcome: WriteOutcome { statuses },
                        source: Box::new(error),
                    });
                }
            }
        }
        Ok(WriteOutcome { statuses })
    }

    /// Reads entities. Each of `queries` names one, or more where its fields
    /// are unset. The result is in the order in which the switch sends it.
    ///
    /// # Errors
    /// [`Error::PerUpdate`] when the switch refused some of the queries,
    /// [`Error::Rpc`], [`Error::Deadline`] or [`Error::Account`].
    pub async fn read(&self, queries: Vec<Entity>) -> Result<Vec<Entity>, Error> {
        let count = queries.len();
        let after = self.shared.options.deadlines.read;
        let request = ReadRequest {
            device_id: self.device_id(),
            role: self.role_name(),
            entities: queries,
        };
        let mut rpc = self.rpc.clone();
        let collect = async {
            let mut chunks = rpc.read(with_deadline(request, after)).await?.into_inner();
            let mut entities = Vec::new();
            while let Some(chunk) = chunks.message().await? {
                entities.extend(chunk.entities);
            }
            Ok(Response::new(entities))
        };
        match within(READ, after, collect).await? {
            Ok(entities) => Ok(entities),
            Err(status) => {
                let statuses = self.account(READ, &status, count, after)?;
                let total = statuses.len();
                let outcome = WriteOutcome { statuses };
                let failed = outcome
                    .failures()
                    .map(|(index, error)| (index, error.clone()))
                    .collect();
                Err(Error::PerUpdate(Failures {
                    method: READ,
                    total,
                    failed,
                }))
            }
        }
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
    fn require_stream(&self, method: &'static str) -> Result<(), Error> {
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

    fn role_name(&self) -> String {
        let role = self.shared.options.role.as_ref();
        role.map_or_else(String::new, |role| role.name.clone())
    }

    fn role_id(&self) -> u64 {
        self.shared.options.role.as_ref().map_or(0, |role| role.id)
    }

    /// The error of a call that failed as a whole.
    fn whole(&self, method: &'static str, status: &Status, after: Duration) -> Error {
        let primary_id = self.arbitration().and_then(|a| a.primary_id);
        Error::of_status(method, status, primary_id, after)
    }

    /// The outcome of each of `asked` items, when the status tells it.
    fn account(
        &self,
        method: &'static str,
        status: &Status,
        asked: usize,
        after: Duration,
    ) -> Result<Vec<UpdateStatus>, Error> {
        let problem = match update_errors(status) {
            Ok(None) => return Err(self.whole(method, status, after)),
            Ok(Some(errors)) if errors.len() == asked => {
                return Ok(errors.into_iter().map(UpdateStatus::from).collect());
            }
            Ok(Some(errors)) => AccountProblem::Count {
                told: errors.len(),
                asked,
            },
            Err(error) => error.into(),
        };
        Err(Error::Account {
            method,
            code: status.code(),
            message: status.message().to_owned(),
            problem,
        })
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

fn with_deadline<T>(message: T, after: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(after + DEADLINE_GRACE);
    request
}

async fn within<T>(
    method: &'static str,
    after: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Result<T, Status>, Error> {
    match timeout(after, call).await {
        Ok(result) => Ok(result.map(Response::into_inner)),
        Err(_) => Err(Error::Deadline { method, after }),
    }
}

/// Whether a request was refused for its size: gRPC's C++ servers say
/// `RESOURCE_EXHAUSTED`, others `OUT_OF_RANGE`.
fn too_large(error: &Error) -> bool {
    matches!(
        error,
        Error::Rpc {
            code: Code::ResourceExhausted | Code::OutOfRange,
            ..
        }
    )
}

/// Whether a call that failed as a whole is sure to have changed nothing: the
/// codes that only a server's checks before any update give.
fn attempted_nothing(error: &Error) -> bool {
    match error {
        Error::NotPrimary { .. } | Error::Disconnected { .. } => true,
        Error::Rpc { code, .. } => matches!(
            code,
            Code::InvalidArgument
                | Code::NotFound
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Unauthenticated
        ),
        _ => false,
    }
}
