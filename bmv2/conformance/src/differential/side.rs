//! One of the two switches: a process in a network namespace of its own, its
//! controllers, and raw sockets on its ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hw_tests::netns::Namespace;
use hw_tests::wire::{self, Wire};
use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use serde::Serialize;
use tonic::Status;
use tonic::transport::Channel;

use super::canonical;
use super::cases::Case;
use super::controllers::{Controllers, status_text};
use super::process::{Process, is_busy};
use super::step::{Acknowledge, MAIN, Outcome, Step, hex};

/// The controller's port.
pub const CPU_PORT: u16 = 510;

/// The ports with interfaces.
pub const PORTS: [u16; 5] = [0, 1, 2, 3, 4];

/// The number of both switches.
pub const DEVICE: u64 = 1;

/// Who is primary from the start.
pub const ELECTION: p4::Uint128 = p4::Uint128 { high: 0, low: 1 };

/// The longest IP packet on these ports, in bytes.
const MTU: u16 = 9000;

/// The server's address inside the namespace.
pub(super) const ADDRESS: &str = "127.0.0.1:9559";

/// How long a switch may take until it answers.
const START: Duration = Duration::from_secs(20);

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);

/// Silence after which nothing more is expected of a packet.
const QUIET: Duration = Duration::from_millis(6);

/// Silence after which nothing more is expected of a message on a stream.
const ANSWERED: Duration = Duration::from_millis(40);

/// Silence after which no more digests of a burst are expected.
const LAST_DIGESTS: Duration = Duration::from_millis(60);

/// How long a switch may work on a packet without a result.
const BUSY: Duration = Duration::from_millis(500);

/// How long a switch may take to see that a cable was pulled: bmv2 looks every
/// 200 ms.
const SEEN: Duration = Duration::from_millis(700);

/// The name of the thread that speaks with a switch.
const CONTROLLER: &str = "controller";

/// How long a switch that answers nothing more may take to end.
const DYING: Duration = Duration::from_secs(2);

/// How long to listen on when the two switches differ.
const LATE: Duration = Duration::from_millis(200);

/// Which switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Ours.
    Softswitch,
    /// `simple_switch_grpc`.
    Bmv2,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Softswitch => "softswitch",
            Self::Bmv2 => "bmv2",
        })
    }
}

/// How a switch is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Which it is.
    pub kind: Kind,
    /// Its program.
    pub program: PathBuf,
    /// More arguments.
    pub arguments: Vec<String>,
    /// Where its output goes.
    pub log: PathBuf,
}

/// A running switch. Drop it on the thread that made it.
// Fields are dropped in this order: the namespace last.
pub struct Side {
    kind: Kind,
    /// The case's program.
    config: p4::ForwardingPipelineConfig,
    runtime: tokio::runtime::Runtime,
    client: P4RuntimeClient<Channel>,
    controllers: Controllers,
    messages: blocking::Receiver<String>,
    process: Process,
    wires: BTreeMap<u16, Wire>,
    /// Ports whose cable was pulled.
    unplugged: BTreeSet<u16>,
    namespace: Namespace,
}

impl Side {
    /// Starts a switch, becomes its primary controller and gives it the case's
    /// program, if the case is to begin with it.
    ///
    /// # Errors
    /// If anything of it fails.
    pub fn start(launch: &Launch, case: &Case) -> Result<Self> {
        let namespace = Namespace::enter(&format!("differential-{}", launch.kind))?;
        let mut wires = BTreeMap::new();
        for port in PORTS {
            let (switch_end, test_end) = (format!("sw{port}"), test_end(port));
            namespace.add_link(&switch_end, &test_end, MTU)?;
            wires.insert(port, Wire::open(&test_end)?);
        }
        let mut process = Process::start(launch, &namespace)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(CONTROLLER)
            .enable_all()
            .build()?;
        let client = runtime
            .block_on(connect(&mut process))
            .with_context(|| format!("{}: {}", launch.kind, process.log_tail()))?;
        let (controllers, messages) = Controllers::new(client.clone());
        let mut side = Self {
            kind: launch.kind,
            config: case.config(),
            runtime,
            client,
            controllers,
            messages,
            process,
            wires,
            unplugged: BTreeSet::new(),
            namespace,
        };
        side.become_primary()?;
        if case.is_loaded() {
            let load = super::pipeline::request(Action::VerifyAndCommit, Some(case.config()));
            side.set_pipeline(load)?
                .with_context(|| format!("{} refuses the program", launch.kind))?;
        }
        Ok(side)
    }

    fn become_primary(&mut self) -> Result<()> {
        let update = p4::MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            ..p4::MasterArbitrationUpdate::default()
        };
        let update = Up::Arbitration(update);
        self.runtime
            .block_on(self.controllers.update(MAIN, update))?;
        let answer = self.messages.recv_timeout(CALL).context("no answer")?;
        if !answer.starts_with(canonical::ARBITRATION) {
            bail!("{} would have no controller: {answer}", self.kind);
        }
        Ok(())
    }

    fn set_pipeline(
        &mut self,
        request: p4::SetForwardingPipelineConfigRequest,
    ) -> Result<Result<(), Status>> {
        let call = tokio_timeout(self.client.set_forwarding_pipeline_config(request));
        Ok(self.runtime.block_on(call)?.map(|_| ()))
    }

    /// Carries out a step and waits for what comes of it.
    ///
    /// # Errors
    /// If the switch is no longer there, or a socket fails.
    pub fn run(&mut self, step: &Step) -> Result<Outcome> {
        let mut outcome = if step.is_call() {
            self.call(step)?
        } else {
            self.act(step)?
        };
        if !matches!(step, Step::Wait(_)) {
            // They come when it is their time.
            let idle = |message: &String| message.starts_with(canonical::IDLE);
            outcome.messages.retain(|message| !idle(message));
        }
        // A switch that dies closes its sockets before it has ended.
        let until = Instant::now() + DYING;
        while outcome.status.as_deref() == Some("UNAVAILABLE") && Instant::now() < until {
            self.alive()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        self.alive()?;
        Ok(outcome)
    }

    /// What answers a call.
    fn call(&mut self, step: &Step) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let status = match step {
            Step::Write(updates) => self.write(p4::WriteRequest {
                device_id: DEVICE,
                election_id: Some(ELECTION),
                updates: updates.clone(),
                ..p4::WriteRequest::default()
            })?,
            Step::WriteAs(request) => self.write((**request).clone())?,
            Step::Pipeline(request) => self.set_pipeline((**request).clone())?,
            Step::Read(entities) => self.read(
                p4::ReadRequest {
                    device_id: DEVICE,
                    entities: entities.clone(),
                    ..p4::ReadRequest::default()
                },
                &mut outcome,
            )?,
            Step::ReadAs(request) => self.read((**request).clone(), &mut outcome)?,
            Step::GetPipeline { device, what } => {
                self.get_pipeline(*device, *what, &mut outcome)?
            }
            _ => return Ok(outcome),
        };
        outcome.status = Some(status.map_or_else(|status| status_text(&status), |()| "OK".into()));
        Ok(outcome)
    }

    /// What comes of all else.
    fn act(&mut self, step: &Step) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        match step {
            Step::Wait(time) => {
                // Notices come again and again: there is no silence to wait for.
                let start = Instant::now();
                while start.elapsed() < *time {
                    self.listen(QUIET, &mut outcome)?;
                }
                canonical::dedup_idle(&mut outcome.messages);
            }
            Step::Packet { port, .. } | Step::Burst { port, .. } | Step::Unheard { port, .. }
                if self.unplugged.contains(port) => {}
            Step::Packet { port, frame } => {
                self.wire(*port)?.send(frame)?;
                self.listen(QUIET, &mut outcome)?;
            }
            Step::Burst { port, frames } | Step::Unheard { port, frames } => {
                let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                let sent = self.wire(*port)?.send_burst(&frames)?;
                if sent != frames.len() {
                    bail!("only {sent} of {} frames were sent", frames.len());
                }
                if matches!(step, Step::Unheard { .. }) {
                    return Ok(outcome);
                }
                self.listen(QUIET, &mut outcome)?;
                // bmv2 keeps digests back, those of all but the first packet for
                // a while, and one that it sent until it is acknowledged.
                if !outcome.messages.is_empty() {
                    self.listen(LAST_DIGESTS, &mut outcome)?;
                }
                outcome.messages.dedup();
            }
            Step::PacketOut { payload, metadata } => {
                let packet = p4::PacketOut {
                    payload: payload.clone(),
                    metadata: metadata.clone(),
                };
                let update = Up::Packet(packet);
                self.runtime
                    .block_on(self.controllers.update(MAIN, update))?;
                self.listen(QUIET, &mut outcome)?;
            }
            Step::Tell { stream, message } => {
                let told = self.controllers.tell(*stream, message.clone());
                self.runtime.block_on(told)?;
                self.listen(ANSWERED, &mut outcome)?;
            }
            Step::Close(stream) => {
                self.controllers.close(*stream);
                self.listen(ANSWERED, &mut outcome)?;
            }
            Step::Acknowledge(how) => {
                self.runtime.block_on(self.controllers.acknowledge(*how))?;
                if matches!(how, Acknowledge::Last(_)) {
                    self.listen(ANSWERED, &mut outcome)?;
                }
            }
            Step::Link { port, up } => self.plug(*port, *up)?,
            _ => {}
        }
        Ok(outcome)
    }

    fn wire(&self, port: u16) -> Result<&Wire> {
        let wire = self.wires.get(&port);
        wire.with_context(|| format!("there is no port {port}"))
    }

    /// Pulls a cable, or plugs it in, and waits until the switch knows.
    fn plug(&mut self, port: u16, up: bool) -> Result<()> {
        self.namespace.set_link(&test_end(port), up)?;
        if up {
            self.unplugged.remove(&port);
        } else {
            self.unplugged.insert(port);
            if let Some(wire) = self.wires.get_mut(&port) {
                // It fails once, since its interface is down.
                let _ = wire.receive(Duration::ZERO);
            }
        }
        std::thread::sleep(SEEN);
        Ok(())
    }

    /// What comes within a while that is long for a packet.
    ///
    /// # Errors
    /// If the switch is no longer there, or a socket fails.
    pub fn late(&mut self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        self.listen(LATE, &mut outcome)?;
        self.alive()?;
        Ok(outcome)
    }

    fn alive(&mut self) -> Result<()> {
        if let Some(status) = self.process.ended()? {
            bail!(
                "{} ended ({status}): {}",
                self.kind,
                self.process.log_tail()
            );
        }
        Ok(())
    }

    /// Collects until nothing has come for `quiet` and nobody works on it.
    fn listen(&mut self, quiet: Duration, outcome: &mut Outcome) -> Result<()> {
        let mut last = Instant::now();
        loop {
            let mut heard = false;
            for port in wire::ready(&self.wires, Duration::from_millis(1))? {
                let Some(wire) = self.wires.get_mut(&port) else {
                    continue;
                };
                while let Some(frame) = wire.receive(Duration::ZERO)? {
                    heard = true;
                    outcome.frames.entry(port).or_default().push(hex(&frame));
                }
            }
            while let Ok(message) = self.messages.try_recv() {
                heard = true;
                outcome.messages.push(message);
            }
            let busy = || self.process.is_busy() || is_busy("self", Some(CONTROLLER));
            if heard {
                last = Instant::now();
            } else if last.elapsed() > quiet && (!busy() || last.elapsed() > BUSY) {
                outcome.messages.sort();
                return Ok(());
            }
        }
    }

    fn write(&mut self, request: p4::WriteRequest) -> Result<Result<(), Status>> {
        let call = tokio_timeout(self.client.write(request));
        Ok(self.runtime.block_on(call)?.map(|_| ()))
    }

    fn read(
        &mut self,
        request: p4::ReadRequest,
        outcome: &mut Outcome,
    ) -> Result<Result<(), Status>> {
        let client = &mut self.client;
        let mut all = Vec::new();
        let call = tokio_timeout(async {
            let mut chunks = client.read(request).await?.into_inner();
            while let Some(chunk) = chunks.message().await? {
                all.extend(chunk.entities);
            }
            Ok::<_, Status>(())
        });
        let status = self.runtime.block_on(call)?;
        // What comes before an error depends on the order in which a switch
        // goes through its objects.
        if status.is_ok() {
            outcome.entities = canonical::entities(all);
        }
        Ok(status)
    }

    fn get_pipeline(
        &mut self,
        device_id: u64,
        what: i32,
        outcome: &mut Outcome,
    ) -> Result<Result<(), Status>> {
        let request = p4::GetForwardingPipelineConfigRequest {
            device_id,
            response_type: what,
        };
        let call = tokio_timeout(self.client.get_forwarding_pipeline_config(request));
        Ok(self.runtime.block_on(call)?.map(|response| {
            let config = response.into_inner().config.unwrap_or_default();
            outcome.entities = super::pipeline::parts(&config, &self.config);
        }))
    }
}

/// The test's end of a port's link.
fn test_end(port: u16) -> String {
    format!("to{port}")
}

async fn tokio_timeout<T>(call: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(CALL, call)
        .await
        .with_context(|| format!("no answer within {} s", CALL.as_secs()))
}

/// Tries until the switch listens.
async fn connect(process: &mut Process) -> Result<P4RuntimeClient<Channel>> {
    let start = Instant::now();
    let channel = loop {
        if let Some(status) = process.ended()? {
            bail!("it ended ({status})");
        }
        match Channel::from_static("http://127.0.0.1:9559")
            .connect()
            .await
        {
            Ok(channel) => break channel,
            Err(error) if start.elapsed() > START => {
                return Err(error).with_context(|| format!("nobody listens on {ADDRESS}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    Ok(P4RuntimeClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES))
}
