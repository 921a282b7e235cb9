//! The gRPC service.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::Stream;
use p4runtime_proto::API_VERSION;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::p4_runtime_server::P4Runtime;
use p4runtime_proto::p4::v1::stream_message_request::Update as Incoming;
use p4runtime_proto::p4::v1::stream_message_response::Update as Reply;
use parking_lot::RwLockReadGuard;
use prost::Message as _;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::Mode;
use super::account;
use super::arbitration::StreamId;
use super::fault::{Fault, Outcome};
use super::read::{self, Answers};
use super::server::{Control, Server, no_pipeline};
use super::streams::Opened;
use super::target::{Pipeline, Target};

/// Updates that are carried out on the thread that received them; larger
/// batches go to a thread that may take its time.
const INLINE_UPDATES: usize = 64;
/// Bytes of a payload that go back with the error that befell it.
const ECHO: usize = 256;
/// Entities in one message of an answer.
const CHUNK: usize = 512;
/// Bytes of entities after which a message is cut: gRPC's clients take 4 MiB
/// unless told otherwise.
const CHUNK_BYTES: usize = 1 << 20;
/// Messages of an answer that are made while writes wait, and their bytes.
const CHUNKS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 8 << 20;
/// How long writes wait for one Read at most, however little it finds.
const LOCKED_FOR: Duration = Duration::from_millis(500);

/// Implements the calls on the shared state.
#[derive(Debug, Clone)]
pub(super) struct Service {
    pub(super) server: Arc<Server>,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "a call failed");
            Err(Status::internal("the call failed inside the switch"))
        }
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<p4::WriteRequest>,
    ) -> Result<Response<p4::WriteResponse>, Status> {
        let request = request.into_inner();
        // A thread that serves connections waits for nobody.
        if request.updates.len() <= INLINE_UPDATES
            && let Some(control) = self.server.control.try_write()
        {
            self.server.write(control, request)?;
        } else {
            let server = Arc::clone(&self.server);
            blocking(move || server.write(server.control.write(), request)).await?;
        }
        Ok(Response::new(p4::WriteResponse {}))
    }

    type ReadStream = ReceiverStream<Result<p4::ReadResponse, Status>>;

    async fn read(
        &self,
        request: Request<p4::ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.server.check_device(request.device_id)?;
        if self.server.facing.load().is_none() {
            return Err(no_pipeline().into());
        }
        let permit = Arc::clone(&self.server.reads).try_acquire_owned();
        let permit = permit.map_err(|_| {
            Status::resource_exhausted("too many reads wait for their clients to take the answers")
        })?;
        let (sender, receiver) = mpsc::channel(4);
        let server = Arc::clone(&self.server);
        tokio::task::spawn_blocking(move || {
            answer(&server, &request, &sender);
            drop(permit);
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::SetForwardingPipelineConfigResponse>, Status> {
        let server = Arc::clone(&self.server);
        let _permit = self.server.configs.acquire().await;
        blocking(move || server.set_pipeline(request.into_inner())).await?;
        Ok(Response::new(p4::SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4::GetForwardingPipelineConfigResponse>, Status> {
        let response = self.server.get_pipeline(&request.into_inner())?;
        Ok(Response::new(response))
    }

    type StreamChannelStream =
        Pin<Box<dyn Stream<Item = Result<p4::StreamMessageResponse, Status>> + Send>>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let Opened {
            id,
            outgoing,
            ended,
        } = self.server.streams.open()?;
        let server = Arc::clone(&self.server);
        tokio::spawn(serve_stream(server, id, request.into_inner(), ended));
        Ok(Response::new(Box::pin(outgoing)))
    }

    async fn capabilities(
        &self,
        request: Request<p4::CapabilitiesRequest>,
    ) -> Result<Response<p4::CapabilitiesResponse>, Status> {
        let device = request.into_inner().device_id;
        if device != 0 {
            self.server.check_device(device)?;
        }
        Ok(Response::new(p4::CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.into(),
            experimental: None,
        }))
    }
}

async fn serve_stream(
    server: Arc<Server>,
    id: StreamId,
    mut incoming: Streaming<p4::StreamMessageRequest>,
    ended: Arc<Notify>,
) {
    let mut error = None;
    loop {
        let message = tokio::select! {
            message = incoming.message() => message,
            () = ended.notified() => break,
        };
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(status) => {
                tracing::debug!(%status, "a controller's stream broke");
                break;
            }
        };
        match message.update {
            Some(Incoming::Arbitration(update)) => {
                let server = Arc::clone(&server);
                let result =
                    blocking(move || server.arbitrate(id, &update).map_err(Status::from)).await;
                if let Err(status) = result {
                    error = Some(status);
                    break;
                }
            }
            Some(Incoming::Packet(packet)) => {
                if let Err(fault) = server.packet_out(id, &packet) {
                    report_packet_out(&server, id, fault, packet);
                }
            }
            Some(Incoming::DigestAck(ack)) => {
                if let Err(fault) = server.digest_ack(id, &ack) {
                    let details =
                        p4::stream_error::Details::DigestListAck(p4::DigestListAckError {
                            digest_list_ack: Some(ack),
                        });
                    report(&server, id, fault, details);
                }
            }
            Some(Incoming::Other(mut other)) => {
                other.value.truncate(ECHO);
                other.type_url = other.type_url.chars().take(ECHO).collect();
                let fault = Fault::unimplemented("no message of this type is known");
                let details =
                    p4::stream_error::Details::Other(p4::StreamOtherError { other: Some(other) });
                report(&server, id, fault, details);
            }
            None => {
                let fault = Fault::invalid("the message has no update");
                let details = p4::stream_error::Details::Other(p4::StreamOtherError::default());
                report(&server, id, fault, details);
            }
        }
    }
    server.streams.close(id, error);
    server.disconnect(id);
}

/// Reports what befell a packet-out. The packet goes back with it, but not a
/// long payload.
fn report_packet_out(server: &Server, id: StreamId, fault: Fault, mut packet: p4::PacketOut) {
    packet.payload.truncate(ECHO);
    packet.metadata.truncate(ECHO);
    for field in &mut packet.metadata {
        field.value.truncate(ECHO);
    }
    let details = p4::stream_error::Details::PacketOut(p4::PacketOutError {
        packet_out: Some(packet),
    });
    report(server, id, fault, details);
}

fn report(server: &Server, id: StreamId, fault: Fault, details: p4::stream_error::Details) {
    server.streams.send(
        id,
        Reply::Error(p4::StreamError {
            canonical_code: fault.code as i32,
            message: fault.message,
            details: Some(details),
            ..p4::StreamError::default()
        }),
    );
}

type Sender = mpsc::Sender<Result<p4::ReadResponse, Status>>;

/// Answers all queries of a Read, then ends the stream.
///
/// Writes wait until the first [`CHUNKS_AT_ONCE`] messages are made, so an
/// answer up to that length shows one state; what follows may also show writes
/// that were made meanwhile. Nor do they wait longer than [`LOCKED_FOR`].
fn answer(server: &Server, request: &p4::ReadRequest, sender: &Sender) {
    let mut chunks = Chunks {
        server,
        pipeline: None,
        lock: None,
        entities: Vec::new(),
        bytes: 0,
        waiting: Vec::new(),
        waiting_bytes: 0,
        sender,
        stopped: None,
    };
    let mode = server.config.mode;
    let now = server.clock.now();
    let mut outcomes: Vec<Outcome<()>> = Vec::with_capacity(request.entities.len());
    for query in &request.entities {
        let outcome = read::answer(now, query, &mut chunks);
        // bmv2's server goes no further.
        let last = mode == Mode::Compat && outcome.is_err();
        outcomes.push(outcome);
        if last || chunks.stopped.is_some() {
            break;
        }
    }
    chunks.finish();
    if let Some(fault) = chunks.stopped {
        let _ = sender.blocking_send(Err(fault.into()));
        return;
    }
    if mode == Mode::Compat {
        if let Some(Err(fault)) = outcomes.pop() {
            let _ = sender.blocking_send(Err(fault.into()));
        }
        return;
    }
    if let Some(status) = account::status_of("queries", &outcomes) {
        let _ = sender.blocking_send(Err(status));
    }
}

/// Gathers entities into messages.
struct Chunks<'s> {
    server: &'s Server,
    /// The one that the answer is about.
    pipeline: Option<Arc<Pipeline>>,
    /// Keeps writes out, since then; released before messages are sent, as a
    /// client may take its time, and never within a piece.
    lock: Option<(RwLockReadGuard<'s, Control>, Instant)>,
    entities: Vec<p4::Entity>,
    /// Of these entities.
    bytes: usize,
    waiting: Vec<p4::ReadResponse>,
    waiting_bytes: usize,
    sender: &'s Sender,
    /// Why the answer cannot go on.
    stopped: Option<Fault>,
}

impl Answers for Chunks<'_> {
    fn next_piece(&mut self) -> Outcome<Target> {
        // A client may leave, too, while nothing is found that could be sent.
        if self.sender.is_closed() {
            return Err(self.stop(Fault::new(Code::Cancelled, "the client has left")));
        }
        let has_lock_too_long = |(_, since): &(_, Instant)| since.elapsed() > LOCKED_FOR;
        if self.lock.as_ref().is_some_and(has_lock_too_long) {
            self.unlock();
        }
        if self.waiting.len() >= CHUNKS_AT_ONCE || self.waiting_bytes >= BYTES_AT_ONCE {
            self.send()?;
        }
        let (control, _) = self
            .lock
            .get_or_insert_with(|| (self.server.control.read(), Instant::now()));
        let Some(target) = control.facing().cloned() else {
            return Err(self.stop(no_pipeline()));
        };
        let pipeline = self
            .pipeline
            .get_or_insert_with(|| Arc::clone(&target.pipeline));
        if !Arc::ptr_eq(pipeline, &target.pipeline) {
            return Err(self.stop(Fault::new(
                Code::Aborted,
                "another pipeline config was set during the read",
            )));
        }
        Ok(target)
    }

    fn entity(&mut self, entity: Entity) -> Outcome<()> {
        let entity = p4::Entity {
            entity: Some(entity),
        };
        self.bytes += entity.encoded_len();
        self.entities.push(entity);
        if self.entities.len() >= CHUNK || self.bytes >= CHUNK_BYTES {
            self.cut();
        }
        Ok(())
    }
}

impl Chunks<'_> {
    /// Notes why the answer cannot go on.
    fn stop(&mut self, fault: Fault) -> Fault {
        self.stopped.get_or_insert(fault).clone()
    }

    /// Lets writes in, those first that wait already.
    fn unlock(&mut self) {
        if let Some((control, _)) = self.lock.take() {
            RwLockReadGuard::unlock_fair(control);
        }
    }

    fn cut(&mut self) {
        let entities = std::mem::take(&mut self.entities);
        self.waiting.push(p4::ReadResponse { entities });
        self.waiting_bytes += std::mem::take(&mut self.bytes);
    }

    fn send(&mut self) -> Outcome<()> {
        self.unlock();
        self.waiting_bytes = 0;
        for message in std::mem::take(&mut self.waiting) {
            if self.sender.blocking_send(Ok(message)).is_err() {
                return Err(self.stop(Fault::new(Code::Cancelled, "the client has left")));
            }
        }
        Ok(())
    }

    fn finish(&mut self) {
        self.unlock();
        if self.stopped.is_some() {
            return;
        }
        if !self.entities.is_empty() {
            self.cut();
        }
        // That the client has left is noted.
        let _ = self.send();
    }
}
