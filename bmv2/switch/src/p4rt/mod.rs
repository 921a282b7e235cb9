//! The P4Runtime server (specification 1.5).
//!
//! [`P4RuntimeServer::new`] makes the server for a switch;
//! [`P4RuntimeServer::serve`] answers on a socket. The server is also the
//! [`PacketInSink`] of the data plane and needs to know the data plane for
//! packets from the controller: [`P4RuntimeServer::attach`].

mod accept;
mod account;
mod arbitration;
mod binding;
mod canonical;
mod data;
mod digest;
mod entry;
mod fault;
mod greeting;
mod notifier;
mod packet_header;
mod pipeline;
mod profiles;
mod prompt;
mod read;
mod reconcile;
mod replication;
mod sdn_port;
mod server;
mod service;
mod streams;
mod target;
mod tls;
mod translation;
mod write;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::p4::v1::p4_runtime_server::P4RuntimeServer as GrpcService;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, Update};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use notifier::Notifier;
use server::Server;
use service::Service;

pub use tls::{Tls, TlsError};

use crate::Switch;
use crate::ports::{Clock, DataPlane, PacketInSink};

/// Packets for controllers that may wait before they are put on streams.
const PACKET_IN_QUEUE: usize = 4096;

/// Calls at a time on one connection; more wait for their turn.
const MAX_CALLS: u32 = 256;

/// Which behaviour controllers get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// What the P4Runtime specification says.
    #[default]
    Strict,
    /// What bmv2's server does where it deviates from the specification and a
    /// controller may depend on it.
    Compat,
}

/// How the server is set up.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The device id that clients must use.
    pub device_id: u64,
    /// Which behaviour controllers get.
    pub mode: Mode,
    /// Most streams at a time.
    pub max_streams: usize,
    /// Whether calls are taken over TLS only.
    pub tls: Option<Tls>,
    /// How often a silent connection is asked whether its client is still there
    /// (HTTP/2 pings), and how long it has for its answer: a primary whose host
    /// is gone must not stay primary. So long, too, a client that has connected
    /// has to begin HTTP/2, or its TLS handshake. Not zero.
    pub keepalive: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            device_id: 1,
            mode: Mode::Strict,
            max_streams: 16,
            tls: None,
            keepalive: Duration::from_secs(20),
        }
    }
}

/// Why a program could not be installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PipelineError(String);

/// The P4Runtime server of a switch.
#[derive(Debug)]
pub struct P4RuntimeServer {
    server: Arc<Server>,
    packets: mpsc::Sender<Vec<u8>>,
    packet_queue: parking_lot::Mutex<Option<mpsc::Receiver<Vec<u8>>>>,
    _notifier: Notifier,
}

impl P4RuntimeServer {
    /// A server that does not answer yet. The clock must be the data plane's.
    ///
    /// # Errors
    /// If its thread cannot be started.
    pub fn new(config: ServerConfig, switch: &Arc<Switch>, clock: Clock) -> std::io::Result<Self> {
        let server = Arc::new(Server::new(config, Arc::clone(switch), clock));
        let (packets, queue) = mpsc::channel(PACKET_IN_QUEUE);
        Ok(Self {
            _notifier: Notifier::start(&server)?,
            server,
            packets,
            packet_queue: parking_lot::Mutex::new(Some(queue)),
        })
    }

    /// Where packets from the controller go.
    pub fn attach(&self, plane: &Arc<DataPlane>) {
        let _ = self.server.plane.set(Arc::downgrade(plane));
    }

    /// Installs a program as VERIFY_AND_COMMIT would.
    ///
    /// # Errors
    /// Why the program, or its P4Info, cannot be used.
    pub fn preload(&self, config: ForwardingPipelineConfig) -> Result<(), PipelineError> {
        self.server
            .preload(config)
            .map_err(|fault| PipelineError(fault.message))
    }

    /// Carries out updates as a Write with CONTINUE_ON_ERROR would, whoever is
    /// primary: how entries of a file come in before the first controller.
    ///
    /// # Errors
    /// For each update that was refused: its position and why. Position 0
    /// with no pipeline.
    pub fn preload_updates(&self, updates: Vec<Update>) -> Result<(), Vec<(usize, PipelineError)>> {
        let outcomes = self
            .server
            .preload_updates(updates)
            .unwrap_or_else(|fault| vec![Err(fault)]);
        let failed: Vec<_> = outcomes
            .into_iter()
            .enumerate()
            .filter_map(|(i, outcome)| Some((i, PipelineError(outcome.err()?.message))))
            .collect();
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// Makes known to controllers what was written to the switch directly: groups
    /// of selectors and of multicast, clone sessions. (Entries, members and cells
    /// are known anyway.)
    ///
    /// # Errors
    /// If there is no pipeline.
    pub fn adopt_entries(&self) -> Result<(), PipelineError> {
        let adopted = self.server.adopt();
        adopted.map_err(|fault| PipelineError(fault.message))
    }

    /// Packets, digests and notices lost because a controller was too slow.
    pub fn messages_lost(&self) -> u64 {
        self.server.streams.lost()
    }

    /// Answers calls at all of the listeners until `shutdown` ends; open streams
    /// are told. To be called once: packets for controllers come to those of the
    /// first call only.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub async fn serve(
        &self,
        listeners: impl IntoIterator<Item = TcpListener>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), tonic::transport::Error> {
        let packet_queue = self.packet_queue.lock().take();
        let forwarding = packet_queue.map(|mut queue| {
            let server = Arc::clone(&self.server);
            tokio::spawn(async move {
                while let Some(packet) = queue.recv().await {
                    server.packet_in(&packet);
                }
            })
        });
        let service = GrpcService::new(Service {
            server: Arc::clone(&self.server),
        })
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let mut builder = tonic::transport::Server::builder()
            .max_concurrent_streams(Some(MAX_CALLS))
            .http2_keepalive_interval(Some(self.server.config.keepalive))
            .http2_keepalive_timeout(Some(self.server.config.keepalive));
        if let Some(tls) = &self.server.config.tls {
            builder = builder.tls_config(tls.config())?;
        }
        let server = Arc::clone(&self.server);
        let incoming = accept::connections(listeners, self.server.config.keepalive);
        let ended = async move {
            shutdown.await;
            server.streams.close_all();
        };
        // The only service, so no router is needed before it.
        let result = builder
            .serve_with_incoming_shutdown(service, incoming, ended)
            .await;
        if let Some(task) = forwarding {
            task.abort();
        }
        result
    }
}

impl PacketInSink for P4RuntimeServer {
    fn packet_in(&self, bytes: &[u8]) -> bool {
        self.server.has_primary.load(Ordering::Acquire)
            && self.packets.try_send(bytes.to_vec()).is_ok()
    }
}
