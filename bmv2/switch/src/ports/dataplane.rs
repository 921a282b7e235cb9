//! Opening the ports, running the workers, and the books of both.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use serde::Serialize;

use super::PortError;
use super::channel::ChannelEnd;
use super::clock::Clock;
use super::counters::PortSnapshot;
use super::files::{self, Input};
use super::monitor::{Mailbox, Monitor, Watched};
use super::opening::{Ends, Opening, PortBooks};
use super::sys::Wake;
use super::turn::Order;
use super::worker::{TxPorts, WorkerLoop};
use crate::{DropReason, Switch};

/// Packets from the control side that may wait for a worker.
const INJECT_CAPACITY: usize = 4096;

/// Takes the packets that the pipeline sends to the controller.
pub trait PacketInSink: Send + Sync {
    /// Takes a packet as deparsed; false if it could not be taken and is lost.
    fn packet_in(&self, bytes: &[u8]) -> bool;
}

/// A port to open.
#[derive(Debug)]
pub enum PortSpec {
    /// A network interface.
    Interface {
        /// The port's number.
        port: u16,
        /// The interface's name.
        interface: String,
    },
    /// A TAP device; made if there is none of this name. One worker receives
    /// from it.
    Tap {
        /// The port's number.
        port: u16,
        /// The device's name.
        interface: String,
    },
    /// A network interface by AF_XDP. One worker receives from each of its
    /// queues.
    Xdp {
        /// The port's number.
        port: u16,
        /// The interface's name.
        interface: String,
    },
    /// Two files: packets come from one and go to the other.
    Files {
        /// The port's number.
        port: u16,
        /// pcap or pcapng, or a pipe.
        input: PathBuf,
        /// Becomes a pcap file.
        output: PathBuf,
    },
    /// A port inside the process.
    Channel {
        /// The port's number.
        port: u16,
        /// The switch's end.
        end: ChannelEnd,
    },
}

impl PortSpec {
    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Interface { port, .. }
            | Self::Tap { port, .. }
            | Self::Xdp { port, .. }
            | Self::Files { port, .. }
            | Self::Channel { port, .. } => *port,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Interface { interface, .. }
            | Self::Tap { interface, .. }
            | Self::Xdp { interface, .. } => interface,
            Self::Files { .. } => "files",
            Self::Channel { .. } => "channel",
        }
    }
}

/// How the data plane runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPlaneConfig {
    /// Threads that process packets. More than one spreads the flows of every
    /// interface over them; the order within a flow is kept. Programs with
    /// registers or meters run on one at a time, unless `unordered`.
    pub workers: usize,
    /// Lets workers run programs with registers or meters at the same time.
    /// Each access to a cell stays whole, but packets of different workers
    /// come between a packet's reading a register and its writing it.
    pub unordered: bool,
    /// Packets that the kernel keeps for each interface and worker while the
    /// worker is busy; more are dropped and counted as `rx_missed`.
    pub ring_frames: usize,
    /// How often a worker looks at all ports in vain before it sleeps. 0 is
    /// best when other work shares the processors.
    pub spins: u32,
    /// Where to write what interfaces receive and send, as `NAME_in.pcap` and
    /// `NAME_out.pcap`.
    pub capture: Option<PathBuf>,
    /// How long to wait before packets are taken from files.
    pub files_wait: Duration,
}

impl Default for DataPlaneConfig {
    fn default() -> Self {
        Self {
            workers: 1,
            unordered: false,
            ring_frames: 8192,
            spins: 0,
            capture: None,
            files_wait: Duration::ZERO,
        }
    }
}

/// What workers and the control side share.
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) clock: Clock,
    pub(super) injected: ArrayQueue<(u16, Vec<u8>)>,
    /// Packets read from files.
    pub(super) from_files: ArrayQueue<files::Burst>,
    /// Held for reading during each burst.
    pub(super) gate: RwLock<()>,
    /// Held during each burst of a program whose registers or meters depend on
    /// the order of packets, if there are several workers.
    pub(super) in_order: Mutex<()>,
    pub(super) no_such_port: AtomicU64,
    packet_ins: AtomicU64,
    packet_ins_lost: AtomicU64,
    packet_outs: AtomicU64,
    packet_outs_lost: AtomicU64,
    sink: Option<Arc<dyn PacketInSink>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("stop", &self.stop)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn packet_in(&self, bytes: &[u8]) {
        let taken = self.sink.as_ref().is_some_and(|sink| sink.packet_in(bytes));
        let counter = if taken {
            &self.packet_ins
        } else {
            &self.packet_ins_lost
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Keeps workers out; see [`DataPlane::pause`].
#[derive(Debug)]
pub struct Pause<'p> {
    _gate: RwLockWriteGuard<'p, ()>,
}

/// The running ports and workers. Dropping it stops them.
#[derive(Debug)]
pub struct DataPlane {
    switch: Arc<Switch>,
    shared: Arc<Shared>,
    ports: Vec<PortBooks>,
    wakes: Vec<Arc<Wake>>,
    monitor_wake: Arc<Wake>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DataPlane {
    /// Opens all ports and starts the workers.
    ///
    /// # Errors
    /// Which port could not be opened and why; nothing runs then.
    pub fn start(
        switch: &Arc<Switch>,
        clock: Clock,
        ports: Vec<PortSpec>,
        config: DataPlaneConfig,
        sink: Option<Arc<dyn PacketInSink>>,
    ) -> Result<Self, PortError> {
        check_numbers(switch, &ports)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            clock,
            injected: ArrayQueue::new(INJECT_CAPACITY),
            from_files: ArrayQueue::new(files::BURSTS),
            gate: RwLock::new(()),
            in_order: Mutex::new(()),
            no_such_port: AtomicU64::new(0),
            packet_ins: AtomicU64::new(0),
            packet_ins_lost: AtomicU64::new(0),
            packet_outs: AtomicU64::new(0),
            packet_outs_lost: AtomicU64::new(0),
            sink,
        });
        let workers = config.workers.max(1);
        let wakes = (0..workers)
            .map(|_| Wake::new().map(Arc::new))
            .collect::<Result<Vec<_>, _>>()
            .map_err(PortError::Thread)?;

        let mut opening = Opening {
            wakes: &wakes,
            config: &config,
            workers: (0..workers).map(|_| Ends::default()).collect(),
            inputs: Vec::new(),
            books: Vec::new(),
            watched: Vec::new(),
        };
        for spec in ports {
            opening.open(spec)?;
        }
        let Opening {
            workers,
            inputs,
            books,
            watched,
            ..
        } = opening;
        // Whatever watches a port without an interface watches one that is down.
        for port in 0..512 {
            let is_port = books.iter().any(|books| books.port == port);
            switch.set_port_up(port, is_port || switch.config().cpu_port == Some(port));
        }
        let mut plane = Self {
            switch: Arc::clone(switch),
            shared,
            ports: books,
            wakes,
            monitor_wake: Arc::new(Wake::new().map_err(PortError::Thread)?),
            threads: Mutex::default(),
        };
        let mailboxes = plane.spawn(workers, &config)?;
        plane.watch(watched, mailboxes, config.ring_frames)?;
        plane.feed(inputs, config.files_wait)?;
        Ok(plane)
    }

    fn spawn(
        &mut self,
        workers: Vec<Ends>,
        config: &DataPlaneConfig,
    ) -> Result<Vec<Arc<Mailbox>>, PortError> {
        let mut mailboxes = Vec::new();
        for (number, (ends, wake)) in workers.into_iter().zip(&self.wakes).enumerate() {
            let mailbox = Arc::<Mailbox>::default();
            mailboxes.push(Arc::clone(&mailbox));
            let worker = WorkerLoop {
                mailbox,
                worker: self.switch.worker(),
                shared: Arc::clone(&self.shared),
                wake: Arc::clone(wake),
                rx: ends.rx,
                tx: TxPorts::new(ends.tx),
                takes_injected: number == 0,
                order: (self.wakes.len() > 1 && !config.unordered).then(Order::default),
                spins: config.spins,
            };
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || worker.run())
                .map_err(PortError::Thread)?;
            self.threads.lock().push(thread);
        }
        Ok(mailboxes)
    }

    /// Starts the thread that watches the interfaces; it stays in the network
    /// namespace of this one.
    fn watch(
        &self,
        watched: Vec<Watched>,
        mailboxes: Vec<Arc<Mailbox>>,
        ring_frames: usize,
    ) -> Result<(), PortError> {
        if watched.is_empty() {
            return Ok(());
        }
        let monitor = Monitor::new(
            watched,
            Arc::clone(&self.switch),
            Arc::clone(&self.shared),
            ring_frames,
            self.wakes.iter().cloned().zip(mailboxes).collect(),
            Arc::clone(&self.monitor_wake),
        )
        .map_err(PortError::Monitor)?;
        let thread = std::thread::Builder::new()
            .name("links".into())
            .spawn(move || monitor.run())
            .map_err(PortError::Thread)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    fn feed(&self, inputs: Vec<Input>, wait: Duration) -> Result<(), PortError> {
        if inputs.is_empty() {
            return Ok(());
        }
        let (shared, wake) = (Arc::clone(&self.shared), Arc::clone(&self.wakes[0]));
        // Not joined at the end: it may be waiting for the writer of a pipe.
        std::thread::Builder::new()
            .name("files".into())
            .spawn(move || files::feed(inputs, wait, &shared, &wake))
            .map_err(PortError::Thread)?;
        Ok(())
    }

    /// Puts a packet into the pipeline as if it had come in at `port`; false
    /// if too many wait already and it is lost.
    pub fn inject(&self, port: u16, packet: Vec<u8>) -> bool {
        let taken = self.shared.injected.push((port, packet)).is_ok();
        if taken {
            self.shared.packet_outs.fetch_add(1, Ordering::Relaxed);
            self.wakes[0].signal();
        } else {
            self.shared.packet_outs_lost.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Keeps all workers from beginning a burst, and waits for those that have
    /// begun, until the guard is dropped. Packets wait in the receive rings:
    /// keep it short.
    pub fn pause(&self) -> Pause<'_> {
        Pause {
            _gate: self.shared.gate.write(),
        }
    }

    /// Whether a port has this number.
    pub fn has_port(&self, port: u16) -> bool {
        self.ports.iter().any(|books| books.port == port)
    }

    /// All counters as they are now.
    pub fn snapshot(&self) -> DataPlaneSnapshot {
        for books in &self.ports {
            for socket in &*books.sockets.lock() {
                if let Err(error) = socket.count_losses(&books.counters) {
                    tracing::debug!(port = books.port, %error, "no statistics");
                }
            }
        }
        let stats = self.switch.stats();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DataPlaneSnapshot {
            ports: self
                .ports
                .iter()
                .map(|b| b.counters.snapshot(b.port, &b.interface))
                .collect(),
            received: stats.received,
            transmitted: stats.transmitted,
            copies: stats.copies,
            reruns: stats.reruns,
            dropped: DropReason::ALL
                .iter()
                .zip(stats.dropped)
                .map(|(reason, count)| (reason.name(), count))
                .collect(),
            digests_lost: stats.digests_lost,
            no_such_port: load(&self.shared.no_such_port),
            packet_ins: load(&self.shared.packet_ins),
            packet_ins_lost: load(&self.shared.packet_ins_lost),
            packet_outs: load(&self.shared.packet_outs),
            packet_outs_lost: load(&self.shared.packet_outs_lost),
        }
    }

    /// Stops the workers and waits for them.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        for wake in self.wakes.iter().chain([&self.monitor_wake]) {
            wake.signal();
        }
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a worker thread had panicked");
            }
        }
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.stop();
    }
}

fn check_numbers(switch: &Switch, ports: &[PortSpec]) -> Result<(), PortError> {
    let config = switch.config();
    let mut seen = std::collections::BTreeSet::new();
    for spec in ports {
        let port = spec.port();
        let role = if config.cpu_port == Some(port) {
            Some("CPU")
        } else if config.drop_port == port {
            Some("drop")
        } else {
            None
        };
        if let Some(role) = role {
            return Err(PortError::Reserved {
                port,
                interface: spec.name().to_owned(),
                role,
            });
        }
        if !seen.insert(port) {
            return Err(PortError::Duplicate(port));
        }
    }
    Ok(())
}

/// Totals since the start. The books balance: what was received at ports or
/// from the controller, plus copies, is transmitted, sent to the controller or
/// dropped under a reason; what was transmitted left a port or is in its
/// `tx_dropped` or in `no_such_port`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataPlaneSnapshot {
    /// Port by port.
    pub ports: Vec<PortSnapshot>,
    /// Packets given to the pipeline.
    pub received: u64,
    /// Packets that left the pipeline for a port.
    pub transmitted: u64,
    /// Copies made by clone and multicast.
    pub copies: u64,
    /// Resubmitted and recirculated.
    pub reruns: u64,
    /// Dropped in the pipeline, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Digests lost because nobody took them.
    pub digests_lost: u64,
    /// Packets for a port number that does not exist.
    pub no_such_port: u64,
    /// Packets passed to the controller's side.
    pub packet_ins: u64,
    /// Packets for the controller that were lost because none was connected or
    /// it was too slow.
    pub packet_ins_lost: u64,
    /// Packets from the controller.
    pub packet_outs: u64,
    /// Packets from the controller that were lost because too many waited.
    pub packet_outs_lost: u64,
}
