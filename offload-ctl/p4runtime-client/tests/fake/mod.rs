//! A P4Runtime server whose answers a test sets, on a port of the loopback.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use p4runtime_proto::p4::v1::stream_message_response::Update as Told;
use p4runtime_proto::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, Entity, Error as UpdateError,
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, MasterArbitrationUpdate, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    StreamMessageResponse, WriteRequest, WriteResponse, stream_message_request::Update as Asked,
};
use p4runtime_proto::status::with_update_errors;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

type Told1 = Result<StreamMessageResponse, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the fake answers and what it was asked.
#[derive(Default)]
pub(crate) struct State {
    /// Highest id of a primary that is already there; lower ids are backups.
    pub(crate) primary: Option<u128>,
    /// The stream is refused with this.
    pub(crate) refuse: Option<Status>,
    /// Answers to the next writes; when empty, writes succeed.
    pub(crate) write_answers: VecDeque<Result<(), Status>>,
    /// Writes of more updates are too large.
    pub(crate) max_updates: Option<usize>,
    /// Each answer takes this long.
    pub(crate) delay: Duration,
    /// Chunks of the answer to a read.
    pub(crate) chunks: Vec<Vec<Entity>>,
    /// How a read ends.
    pub(crate) read_end: Option<Status>,
    /// The pipeline in use.
    pub(crate) config: Option<ForwardingPipelineConfig>,
    /// Every write that was attempted.
    pub(crate) writes: Vec<WriteRequest>,
    /// Every set of a pipeline.
    pub(crate) set_requests: Vec<SetForwardingPipelineConfigRequest>,
    /// Every message on the stream.
    pub(crate) asked: Vec<Asked>,
    /// To tell the controller things; `None` before it has connected.
    pub(crate) to_client: Option<mpsc::Sender<Told1>>,
}

/// Stops when dropped.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    server: AbortHandle,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Fake {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State::default()));
        let service = P4RuntimeServer::new(Service(Arc::clone(&state)))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let serve = Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(serve).abort_handle();
        Ok(Self {
            address,
            state,
            server,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Tells the connected controller something.
    pub(crate) async fn tell(&self, update: Told) {
        self.send(Ok(StreamMessageResponse {
            update: Some(update),
        }))
        .await;
    }

    /// Breaks the stream off.
    pub(crate) async fn fail_stream(&self, status: Status) {
        self.send(Err(status)).await;
        self.state().to_client = None;
    }

    /// Ends the stream in good order.
    pub(crate) fn close_stream(&self) {
        self.state().to_client = None;
    }

    async fn send(&self, message: Told1) {
        let sender = self.state().to_client.clone();
        if let Some(sender) = sender {
            let _ = sender.send(message).await;
        }
    }
}

/// The status of a write in which these updates failed and the others not.
pub(crate) fn refused(total: usize, failed: &[(usize, Code)]) -> Status {
    let mut errors = vec![UpdateError::success(); total];
    for (index, code) in failed {
        errors[*index] = UpdateError::new(*code, format!("update {index}"));
    }
    with_update_errors("write failed", &errors)
}

/// A notice of arbitration.
pub(crate) fn notice(code: Code, primary: Option<u128>) -> Told {
    Told::Arbitration(MasterArbitrationUpdate {
        device_id: 1,
        role: None,
        election_id: primary.map(Into::into),
        status: Some(rpc::Status {
            code: code as i32,
            ..rpc::Status::default()
        }),
    })
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Service(Arc<Mutex<State>>);

impl Service {
    async fn delay(&self) {
        let delay = lock(&self.0).delay;
        tokio::time::sleep(delay).await;
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Answers<ReadResponse>;
    type StreamChannelStream = ReceiverStream<Told1>;

    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        self.delay().await;
        let request = request.into_inner();
        let mut state = lock(&self.0);
        if state
            .max_updates
            .is_some_and(|max| request.updates.len() > max)
        {
            return Err(Status::resource_exhausted("message too large"));
        }
        state.writes.push(request);
        let answer = state.write_answers.pop_front().unwrap_or(Ok(()));
        answer.map(|()| Response::new(WriteResponse {}))
    }

    async fn read(&self, _: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        self.delay().await;
        let state = lock(&self.0);
        let chunks = state.chunks.clone().into_iter();
        let answers = chunks
            .map(|entities| Ok(ReadResponse { entities }))
            .chain(state.read_end.clone().map(Err));
        let answers: Vec<_> = answers.collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let mut state = lock(&self.0);
        state.config.clone_from(&request.config);
        state.set_requests.push(request);
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let config = lock(&self.0).config.clone();
        Ok(Response::new(GetForwardingPipelineConfigResponse {
            config,
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut inbound = request.into_inner();
        let (sender, receiver) = mpsc::channel(64);
        if let Some(status) = lock(&self.0).refuse.clone() {
            return Err(status);
        }
        lock(&self.0).to_client = Some(sender);
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            while let Some(Ok(message)) = inbound.next().await {
                let Some(asked) = message.update else {
                    continue;
                };
                let (answer, to_client) = {
                    let mut state = lock(&state);
                    let answer = match &asked {
                        Asked::Arbitration(update) => {
                            let id = update.election_id.map_or(0, u128::from);
                            Some(match state.primary {
                                Some(primary) if primary > id => {
                                    notice(Code::AlreadyExists, Some(primary))
                                }
                                _ => notice(Code::Ok, Some(id)),
                            })
                        }
                        _ => None,
                    };
                    state.asked.push(asked);
                    (answer, state.to_client.clone())
                };
                if let (Some(answer), Some(to_client)) = (answer, to_client) {
                    let told = StreamMessageResponse {
                        update: Some(answer),
                    };
                    let _ = to_client.send(Ok(told)).await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn capabilities(
        &self,
        _: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        self.delay().await;
        Ok(Response::new(CapabilitiesResponse {
            p4runtime_api_version: "1.4.1".into(),
            experimental: None,
        }))
    }
}
