//! One of the two switches: a process in a network namespace of its own, a
//! controller, and raw sockets on its ports.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hw_tests::netns::Namespace;
use hw_tests::wire::{self, Wire};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{stream_message_request, stream_message_response};
use p4runtime_proto::status::update_errors;
use serde::Serialize;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::canonical;
use super::step::{Outcome, Step, hex};

/// The controller's port.
pub const CPU_PORT: u16 = 510;

/// The ports with interfaces.
pub const PORTS: [u16; 5] = [0, 1, 2, 3, 4];

/// The longest IP packet on these ports, in bytes.
const MTU: u16 = 9000;

/// The server's address inside the namespace.
const ADDRESS: &str = "127.0.0.1:9559";

const DEVICE: u64 = 1;
const ELECTION: p4::Uint128 = p4::Uint128 { high: 0, low: 1 };

/// How long a switch may take until it answers.
const START: Duration = Duration::from_secs(20);

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);

/// Silence after which nothing more is expected of a packet.
const QUIET: Duration = Duration::from_millis(6);

/// Silence after which no more digests of a burst are expected.
const LAST_DIGESTS: Duration = Duration::from_millis(60);

/// How long a switch may work on a packet without a result.
const BUSY: Duration = Duration::from_millis(500);

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
    /// The program.
    config: p4::ForwardingPipelineConfig,
    runtime: tokio::runtime::Runtime,
    client: P4RuntimeClient<Channel>,
    to_switch: tokio::sync::mpsc::Sender<p4::StreamMessageRequest>,
    messages: blocking::Receiver<String>,
    process: Process,
    wires: BTreeMap<u16, Wire>,
    _namespace: Namespace,
}

impl Side {
    /// Starts a switch, becomes its primary controller and gives it a program.
    ///
    /// # Errors
    /// If anything of it fails.
    pub fn start(launch: &Launch, info: &P4Info, json: &[u8]) -> Result<Self> {
        let namespace = Namespace::enter(&format!("differential-{}", launch.kind))?;
        let mut wires = BTreeMap::new();
        for port in PORTS {
            let (switch_end, test_end) = (format!("sw{port}"), format!("to{port}"));
            namespace.add_link(&switch_end, &test_end, MTU)?;
            wires.insert(port, Wire::open(&test_end)?);
        }
        let mut process = Process::start(launch, &namespace)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(CONTROLLER)
            .enable_all()
            .build()?;
        let (client, to_switch, messages) = runtime
            .block_on(connect(&mut process))
            .with_context(|| format!("{}: {}", launch.kind, process.log_tail()))?;
        let mut side = Self {
            kind: launch.kind,
            config: p4::ForwardingPipelineConfig {
                p4info: Some(info.clone()),
                p4_device_config: json.to_vec(),
                cookie: None,
            },
            runtime,
            client,
            to_switch,
            messages,
            process,
            wires,
            _namespace: namespace,
        };
        side.set_pipeline(Action::VerifyAndCommit)?
            .with_context(|| format!("{} refuses the program", launch.kind))?;
        Ok(side)
    }

    fn set_pipeline(&mut self, action: Action) -> Result<Result<(), Status>> {
        let config = (action != Action::Commit).then(|| self.config.clone());
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            action: action.into(),
            config,
            ..p4::SetForwardingPipelineConfigRequest::default()
        };
        let call = tokio_timeout(self.client.set_forwarding_pipeline_config(request));
        Ok(self.runtime.block_on(call)?.map(|_| ()))
    }

    /// Carries out a step and waits for what comes of it.
    ///
    /// # Errors
    /// If the switch is no longer there, or a socket fails.
    pub fn run(&mut self, step: &Step) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        match step {
            Step::Write(updates) => outcome.status = Some(self.write(updates.clone())?),
            Step::Read(entities) => {
                let (status, entities) = self.read(entities.clone())?;
                outcome.status = Some(status);
                outcome.entities = entities;
            }
            Step::Pipeline(action) => {
                outcome.status = Some(match self.set_pipeline(*action)? {
                    Ok(()) => "OK".into(),
                    Err(status) => status_text(&status),
                });
            }
            Step::Wait(time) => {
                // Notices come again and again: there is no silence to wait for.
                let start = Instant::now();
                while start.elapsed() < *time {
                    self.listen(QUIET, &mut outcome)?;
                }
                outcome.messages.dedup();
            }
            Step::Packet { port, frame } => {
                self.wires
                    .get(port)
                    .with_context(|| format!("there is no port {port}"))?
                    .send(frame)?;
                self.listen(QUIET, &mut outcome)?;
            }
            Step::Burst { port, frames } => {
                let wire = self.wires.get(port);
                let wire = wire.with_context(|| format!("there is no port {port}"))?;
                let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                let sent = wire.send_burst(&frames)?;
                if sent != frames.len() {
                    bail!("only {sent} of {} frames were sent", frames.len());
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
                self.runtime
                    .block_on(self.to_switch.send(p4::StreamMessageRequest {
                        update: Some(stream_message_request::Update::Packet(packet)),
                    }))
                    .context("the stream has ended")?;
                self.listen(QUIET, &mut outcome)?;
            }
        }
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

    fn write(&mut self, updates: Vec<p4::Update>) -> Result<String> {
        let request = p4::WriteRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            updates,
            ..p4::WriteRequest::default()
        };
        let call = tokio_timeout(self.client.write(request));
        match self.runtime.block_on(call)? {
            Ok(_) => Ok("OK".into()),
            Err(status) => Ok(status_text(&status)),
        }
    }

    fn read(&mut self, entities: Vec<p4::Entity>) -> Result<(String, Vec<String>)> {
        let request = p4::ReadRequest {
            device_id: DEVICE,
            entities,
            ..p4::ReadRequest::default()
        };
        let client = &mut self.client;
        let mut all = Vec::new();
        let call = tokio_timeout(async {
            let mut chunks = client.read(request).await?.into_inner();
            while let Some(chunk) = chunks.message().await? {
                all.extend(chunk.entities);
            }
            Ok::<_, Status>(())
        });
        let status: String = match self.runtime.block_on(call)? {
            Ok(()) => "OK".into(),
            Err(status) => status_text(&status),
        };
        // What comes before an error depends on the order in which a switch
        // goes through its objects.
        if status != "OK" {
            all.clear();
        }
        Ok((status, canonical::entities(all)))
    }
}

async fn tokio_timeout<T>(call: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(CALL, call)
        .await
        .with_context(|| format!("no answer within {} s", CALL.as_secs()))
}

/// The code, and the codes of the updates where there are such.
fn status_text(status: &Status) -> String {
    let code = name(status.code());
    match update_errors(status) {
        Ok(Some(errors)) => {
            let each: Vec<String> = errors.iter().map(|e| name(e.grpc_code())).collect();
            format!("{code} [{}]", each.join(", "))
        }
        _ => code,
    }
}

/// As the specification writes it.
fn name(code: Code) -> String {
    let mut text = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() && code != Code::Ok {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

type Stream = (
    P4RuntimeClient<Channel>,
    tokio::sync::mpsc::Sender<p4::StreamMessageRequest>,
    blocking::Receiver<String>,
);

/// Tries until the switch listens, then becomes primary.
async fn connect(process: &mut Process) -> Result<Stream> {
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
    let mut client = P4RuntimeClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let (to_switch, outbound) = tokio::sync::mpsc::channel(64);
    to_switch
        .send(p4::StreamMessageRequest {
            update: Some(stream_message_request::Update::Arbitration(
                p4::MasterArbitrationUpdate {
                    device_id: DEVICE,
                    election_id: Some(ELECTION),
                    ..p4::MasterArbitrationUpdate::default()
                },
            )),
        })
        .await?;
    let mut inbound = tokio_timeout(client.stream_channel(ReceiverStream::new(outbound)))
        .await??
        .into_inner();
    tokio_timeout(inbound.message())
        .await??
        .context("the stream ended at once")?;
    let (sender, messages) = blocking::channel();
    let acknowledge = to_switch.clone();
    tokio::spawn(async move {
        use stream_message_response::Update;
        while let Ok(Some(message)) = inbound.message().await {
            let texts = match message.update {
                Some(Update::Packet(packet)) => vec![canonical::packet_in(packet)],
                Some(Update::Digest(list)) => {
                    let ack = p4::DigestListAck {
                        digest_id: list.digest_id,
                        list_id: list.list_id,
                    };
                    let ack = stream_message_request::Update::DigestAck(ack);
                    let ack = p4::StreamMessageRequest { update: Some(ack) };
                    // Fails only after the end, when it does not matter.
                    let _ = acknowledge.send(ack).await;
                    canonical::digests(list)
                }
                Some(Update::IdleTimeoutNotification(notice)) => canonical::idle(notice),
                Some(Update::Error(error)) => vec![format!(
                    "stream error {}",
                    name(Code::from_i32(error.canonical_code))
                )],
                _ => Vec::new(),
            };
            for text in texts {
                if sender.send(text).is_err() {
                    return;
                }
            }
        }
    });
    Ok((client, to_switch, messages))
}

/// A switch's process; dropping it ends it.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(launch: &Launch, namespace: &Namespace) -> Result<Self> {
        let log = &launch.log;
        let file = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
        // ip gives it the /sys of the namespace, where bmv2 looks whether a
        // port is up, and becomes setpriv, which becomes the switch; the kernel
        // ends it should this thread end without doing so.
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace.name()])
            .args(["setpriv", "--pdeathsig", "KILL"])
            .arg(&launch.program);
        for port in PORTS {
            command.arg("-i").arg(format!("{port}@sw{port}"));
        }
        command
            .args(["--no-p4", "--device-id", &DEVICE.to_string()])
            .args(&launch.arguments)
            .args(["--", "--grpc-server-addr", ADDRESS])
            .args(["--cpu-port", &CPU_PORT.to_string()]);
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("can't start {}", launch.program.display()))?;
        Ok(Self {
            child,
            log: log.clone(),
        })
    }

    fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    fn is_busy(&self) -> bool {
        is_busy(&self.child.id().to_string(), None)
    }

    fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

/// Whether a thread of a process, perhaps only one of a name, runs or could.
fn is_busy(process: &str, name: Option<&str>) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    tasks.into_iter().flatten().flatten().any(|task| {
        // Its fields: number, name in parentheses, state, ... (proc(5)).
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let (before, after) = stat.rsplit_once(')').unwrap_or_default();
        let named = name.is_none_or(|name| before.ends_with(&format!("({name}")));
        named && matches!(after.trim_start().chars().next(), Some('R' | 'D'))
    })
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text.lines().rev().take(4).collect();
    lines.reverse();
    if lines.is_empty() {
        return "it printed nothing".into();
    }
    lines.join(" | ")
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(id) = i32::try_from(self.child.id())
            && matches!(self.child.try_wait(), Ok(None))
        {
            // It may just have ended.
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_busy() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let spin = || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let spinning = std::thread::Builder::new().name("spinning".into());
            assert!(spinning.spawn_scoped(scope, spin).is_ok());
            let start = Instant::now();
            let mut seen = false;
            while !seen && start.elapsed() < Duration::from_secs(10) {
                seen = is_busy("self", Some("spinning"));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            seen
        });
        assert!(seen);
        assert!(!is_busy("self", Some("nobody")));
    }

    #[test]
    fn codes_are_named_as_the_specification_does() {
        assert_eq!(name(Code::Ok), "OK");
        assert_eq!(name(Code::InvalidArgument), "INVALID_ARGUMENT");
        assert_eq!(name(Code::NotFound), "NOT_FOUND");
    }
}
