//! An offload-ctl that the test plays, behind a real stream on a Unix socket.

use std::path::Path;
use std::pin::Pin;
use std::time::Instant;

use offload_api::v1::{
    self, CtlMessage, LdMessage, Welcome, ctl_message::Message as Ctl, ld_message::Message as Ld,
    offload_server,
};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Streaming};

use crate::LIMIT;

struct Service(mpsc::Sender<Attached>);

/// One stream of the LD.
pub(crate) struct Attached {
    pub(crate) from_ld: Streaming<LdMessage>,
    to_ld: mpsc::Sender<Result<CtlMessage, tonic::Status>>,
}

#[tonic::async_trait]
impl offload_server::Offload for Service {
    type AttachStream = Pin<Box<ReceiverStream<Result<CtlMessage, tonic::Status>>>>;

    async fn attach(
        &self,
        request: Request<Streaming<LdMessage>>,
    ) -> Result<Response<Self::AttachStream>, tonic::Status> {
        let (to_ld, stream) = mpsc::channel(64);
        let attached = Attached {
            from_ld: request.into_inner(),
            to_ld,
        };
        self.0.send(attached).await.unwrap();
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

pub(crate) struct FakeCtl {
    streams: mpsc::Receiver<Attached>,
    server: JoinHandle<()>,
}

impl FakeCtl {
    pub(crate) fn start(path: &Path) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).unwrap();
        let (streams_in, streams) = mpsc::channel(4);
        let service = offload_server::OffloadServer::new(Service(streams_in));
        let server = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
                .unwrap();
        });
        Self { streams, server }
    }

    pub(crate) async fn accept(&mut self) -> Attached {
        tokio::time::timeout(LIMIT, self.streams.recv())
            .await
            .expect("no stream in time")
            .unwrap()
    }

    /// As `kill -9`: no goodbye.
    pub(crate) async fn kill(self, attached: Attached) {
        self.server.abort();
        drop(attached);
        let _ = self.server.await;
    }
}

impl Attached {
    /// The next message apart from heartbeats.
    pub(crate) async fn next(&mut self) -> Ld {
        loop {
            let message = tokio::time::timeout(LIMIT, self.from_ld.message())
                .await
                .expect("no message in time")
                .unwrap()
                .expect("the stream ended")
                .message
                .unwrap();
            if !matches!(message, Ld::Heartbeat(_)) {
                return message;
            }
        }
    }

    pub(crate) async fn heartbeat_with(
        &mut self,
        ready: impl Fn(&v1::Heartbeat) -> bool,
    ) -> v1::Heartbeat {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let message = tokio::time::timeout(LIMIT, self.from_ld.message())
                .await
                .expect("no message in time")
                .unwrap()
                .unwrap();
            if let Some(Ld::Heartbeat(heartbeat)) = message.message
                && ready(&heartbeat)
            {
                return heartbeat;
            }
        }
        panic!("no such heartbeat");
    }

    pub(crate) async fn say(&self, message: Ctl) {
        self.to_ld
            .send(Ok(CtlMessage {
                message: Some(message),
            }))
            .await
            .unwrap();
    }

    /// Hello, Welcome and an empty Resync.
    pub(crate) async fn greet(&mut self, new_boot: bool) -> v1::Hello {
        let Ld::Hello(hello) = self.next().await else {
            panic!("Hello comes first");
        };
        self.say(Ctl::Welcome(Welcome {
            api_revision: offload_api::API_REVISION,
            heartbeat_ms: 100,
            new_boot,
        }))
        .await;
        hello
    }
}
