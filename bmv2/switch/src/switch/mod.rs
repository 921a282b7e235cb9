//! The switch: a running pipeline and its state.

mod apply;
mod arrays;
mod atomic;
mod pipeline;
pub(crate) mod port_state;
mod read;
mod replication;
mod types;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::control::{FieldMatch, TableError, TableOp};
use crate::program::{LoadError, Program, TableId};
use crate::replication::Replication;
use crate::tables::value_set::Member;
use crate::tables::{Undo, prepare};
use crate::worker::Worker;
pub use atomic::BatchError;
pub(crate) use atomic::Journal;
use pipeline::Checked;
pub(crate) use pipeline::Pipeline;
use port_state::PortsDown;
pub use types::{
    CloneSession, Digest, DigestValue, DropReason, IdleNotice, MAX_PACKET, MulticastGroup, Output,
    Replica, SwitchConfig, SwitchStats, Timestamp,
};

/// Operations that are prepared at a time.
const PIECE: usize = 64;
/// Entries that one hold of the table lock reads at most.
const READ: usize = 64;
/// Time between two sweeps of a table.
const SWEEP_NS: u64 = 1_000_000_000;

/// Totals as workers add to them.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) received: AtomicU64,
    pub(crate) transmitted: AtomicU64,
    pub(crate) packet_ins: AtomicU64,
    pub(crate) copies: AtomicU64,
    pub(crate) reruns: AtomicU64,
    pub(crate) dropped: [AtomicU64; DropReason::ALL.len()],
    pub(crate) digests_lost: AtomicU64,
}

type Waker = Box<dyn Fn() + Send + Sync>;

/// A switch. Shared by the control server and the workers.
pub struct Switch {
    pub(crate) config: SwitchConfig,
    pub(crate) pipeline: RwLock<Option<Arc<Pipeline>>>,
    /// Rises with every install; a worker compares it before each burst.
    pub(crate) generation: AtomicU64,
    pub(crate) replication: RwLock<Arc<Replication>>,
    /// Rises with every change of groups or sessions.
    pub(crate) replication_generation: AtomicU64,
    pub(crate) totals: Totals,
    /// Taken before `pipeline`, its tables and `replication`.
    ports_down: Mutex<PortsDown>,
    digests: Mutex<VecDeque<Digest>>,
    waker: RwLock<Option<Waker>>,
    last_sweep: Mutex<Option<Timestamp>>,
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Switch {
    /// A switch without a pipeline: it drops everything.
    pub fn new(config: SwitchConfig) -> Arc<Self> {
        Arc::new(Self {
            config,
            pipeline: RwLock::new(None),
            generation: AtomicU64::new(0),
            replication: RwLock::new(Arc::default()),
            replication_generation: AtomicU64::new(0),
            totals: Totals::default(),
            ports_down: Mutex::default(),
            digests: Mutex::new(VecDeque::new()),
            waker: RwLock::new(None),
            last_sweep: Mutex::new(None),
        })
    }

    /// A switch that runs the program of a JSON document that `p4c-bm2-ss`
    /// wrote.
    ///
    /// # Errors
    ///
    /// What [`Program::load`] finds wrong with the document.
    pub fn load(json: &[u8], config: SwitchConfig) -> Result<Arc<Self>, LoadError> {
        let program = Program::load(json)?;
        let switch = Self::new(config);
        switch.install(program);
        Ok(switch)
    }

    /// What it was started with.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Makes a program the running one. Tables, counters, meters and
    /// registers start as the program says; multicast groups and clone
    /// sessions stay. Bursts that have begun finish on the old one.
    pub fn install(&self, program: Program) {
        let down = self.ports_down.lock();
        let new = Arc::new(Pipeline::new(program, *down));
        *self.pipeline.write() = Some(new);
        drop(down);
        self.generation.fetch_add(1, Ordering::Release);
        self.digests.lock().clear();
    }

    /// Runs what another switch runs, with all its state: how a pipeline that
    /// was prepared on the side takes over in one step. Multicast groups and
    /// clone sessions stay this switch's own. Bursts that have begun finish on
    /// the old pipeline.
    pub fn adopt(&self, other: &Self) {
        let new = other.running();
        let down = self.ports_down.lock();
        if let Some(p) = &new {
            p.set_ports_down(*down);
        }
        *self.pipeline.write() = new;
        drop(down);
        self.generation.fetch_add(1, Ordering::Release);
        self.digests.lock().clear();
    }

    pub(crate) fn running(&self) -> Option<Arc<Pipeline>> {
        self.pipeline.read().clone()
    }

    fn current(&self) -> Result<Arc<Pipeline>, TableError> {
        self.running().ok_or(TableError::NoPipeline)
    }

    /// The running program.
    pub fn program(&self) -> Option<Arc<Program>> {
        self.running().map(|p| Arc::clone(&p.program))
    }

    /// Tells whether a port can send and receive. Every port counts as up
    /// until this says otherwise. Members of selectors that watch a port are
    /// chosen only while it is up, and replicas with backups give way to them:
    /// from the next burst of packets on.
    ///
    /// Returns whether that is news. Like [`Self::apply`] it must not be called
    /// from a worker's output function, which holds the tables.
    pub fn set_port_up(&self, port: u16, up: bool) -> bool {
        let mut down = self.ports_down.lock();
        if !down.set(port, !up) {
            return false;
        }
        if let Some(p) = self.running() {
            p.set_ports_down(*down);
        }
        if self.replication.read().has_backups() {
            self.change_replication(|r| r.set_ports_down(&down));
        }
        true
    }

    /// Whether a port is up, as far as [`Self::set_port_up`] has told.
    pub fn is_port_up(&self, port: u16) -> bool {
        !self.ports_down.lock().contains(port)
    }

    /// A data-plane worker; one for each thread.
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(Arc::clone(self))
    }

    /// Calls a function whenever a digest arrives in an empty queue. It runs
    /// on a worker's thread: it should only wake somebody.
    pub fn set_digest_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        *self.waker.write() = Some(Box::new(waker));
    }

    /// Carries out operations in order. Each either happens whole or not at
    /// all; a failed one does not stop the rest. `now` starts idle timers.
    ///
    /// A packet sees each operation whole or not at all, but may see some of
    /// the batch and not the rest; see [`Switch::apply_atomic`]. Entries of
    /// exact tables are added while packets are processed; for everything else
    /// packets wait, for some operations at a time. Must not be called from a
    /// worker's output function, which holds the tables.
    pub fn apply(&self, now: Timestamp, ops: &[TableOp]) -> Vec<Result<(), TableError>> {
        self.apply_noting(now, ops, |_| false, &mut Journal::off())
    }

    /// As [`Switch::apply`], so that it can be taken back later. An operation
    /// that is `chained` to the one before it is left out if that one fails.
    pub(crate) fn apply_noting(
        &self,
        now: Timestamp,
        ops: &[TableOp],
        chained: impl Fn(usize) -> bool,
        journal: &mut Journal,
    ) -> Vec<Result<(), TableError>> {
        let Ok(p) = self.current() else {
            return ops.iter().map(|_| Err(TableError::NoPipeline)).collect();
        };
        let log = &mut journal.log;
        let mut writer = p.writer();
        let mut results = Vec::with_capacity(ops.len());
        for piece in ops.chunks(PIECE) {
            let first = results.len();
            let prepared: Vec<_> = (first..)
                .zip(piece)
                .map(|(at, op)| Checked {
                    op: prepare(&p.program, op),
                    chained: chained(at),
                })
                .collect();
            let mut rest = prepared.iter().peekable();
            while rest.peek().is_some() {
                writer.beside(&mut rest, now, log, &mut results);
                writer.alone(&mut rest, now, log, &mut results);
            }
        }
        writer.mend();
        results
    }

    /// Replaces the members of a value set (by its position in
    /// [`Program::value_sets`]). A member has one match for each field:
    /// exact, ternary, lpm or "any".
    ///
    /// # Errors
    /// Why a member makes no sense; the set is then unchanged.
    pub fn set_value_set(&self, set: u32, members: &[Vec<FieldMatch>]) -> Result<(), TableError> {
        self.set_value_set_noting(set, members, &mut Journal::off())
    }

    /// As [`Switch::set_value_set`], so that it can be taken back later.
    pub(crate) fn set_value_set_noting(
        &self,
        set: u32,
        members: &[Vec<FieldMatch>],
        journal: &mut Journal,
    ) -> Result<(), TableError> {
        let p = self.current()?;
        let Some(info) = p.program.value_sets.get(set as usize) else {
            return Err(TableError::NoSuchObject {
                what: "value set",
                id: set,
            });
        };
        if members.len() as u64 > u64::from(info.size) {
            return Err(TableError::Full {
                place: format!("value set {}", info.name),
                size: u64::from(info.size),
            });
        }
        let packed = members
            .iter()
            .map(|m| Member::new(&info.name, &info.fields, m))
            .collect::<Result<Vec<_>, _>>()?;
        p.writer().change(|tables| {
            if let Some(s) = tables.vsets.get_mut(set as usize) {
                let old = std::mem::replace(s, packed);
                journal.log.note(|| Undo::ValueSet(set as usize, old));
            }
        });
        Ok(())
    }

    /// Takes up to `max` digests, oldest first.
    pub fn drain_digests(&self, max: usize) -> Vec<Digest> {
        let mut queue = self.digests.lock();
        let n = queue.len().min(max);
        queue.drain(..n).collect()
    }

    /// Puts a digest into the queue, or counts it as lost.
    pub(crate) fn push_digest(&self, digest: Digest) {
        let was_empty = {
            let mut queue = self.digests.lock();
            if queue.len() >= self.config.digest_queue {
                self.totals.digests_lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            queue.push_back(digest);
            queue.len() == 1
        };
        if was_empty && let Some(wake) = self.waker.read().as_ref() {
            wake();
        }
    }

    /// Looks for idle entries. Call it every 100 ms or so; tables are swept
    /// once a second, and an entry that stays idle is reported at every second
    /// sweep.
    pub fn poll_idle(&self, now: Timestamp) -> Vec<IdleNotice> {
        {
            let mut last = self.last_sweep.lock();
            let due = last.is_none_or(|l| now.as_nanos().saturating_sub(l.as_nanos()) >= SWEEP_NS);
            if !due {
                return Vec::new();
            }
            *last = Some(now);
        }
        let Some(p) = self.running() else {
            return Vec::new();
        };
        let mut notices = Vec::new();
        for i in 0..p.program.tables.len() {
            if !p.tables.read().is_timed(i) {
                continue;
            }
            let table = TableId(u32::try_from(i).unwrap_or(u32::MAX));
            let mut from = Some(0);
            // In pieces: a writer must not wait for a whole million.
            while let Some(at) = from {
                let (entries, next) = p.tables.read().sweep(&p.program, table, at, now);
                notices.extend(entries.into_iter().map(|entry| IdleNotice { table, entry }));
                from = next;
            }
        }
        notices
    }

    /// Totals of all workers. A worker adds its own at the end of each burst.
    pub fn stats(&self) -> SwitchStats {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let t = &self.totals;
        let mut dropped = [0; DropReason::ALL.len()];
        for (d, n) in dropped.iter_mut().zip(&t.dropped) {
            *d = get(n);
        }
        SwitchStats {
            received: get(&t.received),
            transmitted: get(&t.transmitted),
            packet_ins: get(&t.packet_ins),
            copies: get(&t.copies),
            reruns: get(&t.reruns),
            dropped,
            digests_lost: get(&t.digests_lost),
        }
    }
}
