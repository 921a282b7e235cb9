//! The switch: a running pipeline, its state, and the workers that use it.

use std::sync::Arc;

use crate::control::{
    CounterTarget, CounterValue, EntryAction, EntryKey, EntryState, Group, Member, MeterConfig,
    MeterTarget, ReadCursor, TableError, TableOp, Value,
};
use crate::program::{DigestId, ProfileId, Program, RegisterId, TableId};

/// A point in time, in nanoseconds since an origin of the caller's choice
/// (usually the switch's start). All calls on one switch use the same origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From nanoseconds.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// From microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// From milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole microseconds, the resolution of v1model's timestamps.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
}

/// What a switch is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchConfig {
    /// The port that stands for the controller: packets sent there become
    /// [`Output::PacketIn`]. `None`: no packet I/O.
    pub cpu_port: Option<u16>,
    /// The value of `egress_spec` that drops a packet.
    pub drop_port: u16,
    /// Most passes (resubmits, recirculations, clones and replicas) that one
    /// received packet may cause; the rest is dropped and counted.
    pub max_passes: u32,
    /// Most digests kept for [`Switch::drain_digests`]; later ones are lost
    /// and counted.
    pub digest_queue: usize,
    /// Seed of v1model's `random`.
    pub seed: u64,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            cpu_port: None,
            drop_port: 511,
            max_passes: 1024,
            digest_queue: 65_536,
            seed: 1,
        }
    }
}

/// What becomes of a packet. Bytes are borrowed from the worker: use or copy
/// them before returning.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Send out of a port.
    Transmit {
        /// The port.
        port: u16,
        /// The whole packet.
        bytes: &'a [u8],
    },
    /// For the controller: the packet as deparsed, a `packet_in` header in
    /// front if the program emits one.
    PacketIn {
        /// The whole packet.
        bytes: &'a [u8],
    },
    /// Dropped.
    Dropped {
        /// Why.
        reason: DropReason,
    },
}

/// Why the switch dropped a packet or a copy of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// `egress_spec` was the drop port at the end of ingress.
    Ingress,
    /// `egress_spec` was the drop port at the end of egress.
    Egress,
    /// The multicast group has no replica or does not exist.
    NoReplica,
    /// More passes than [`SwitchConfig::max_passes`].
    TooManyPasses,
    /// A header stack was indexed out of range in a control.
    StackIndex,
    /// A division by zero, or another fault of the program while running.
    ProgramFault,
    /// `assert` or `assume` did not hold.
    Assertion,
    /// No pipeline is installed.
    NoPipeline,
    /// Longer than the switch accepts.
    TooLong,
}

impl DropReason {
    /// All reasons, in the order of [`SwitchStats::dropped`].
    pub const ALL: [Self; 9] = [
        Self::Ingress,
        Self::Egress,
        Self::NoReplica,
        Self::TooManyPasses,
        Self::StackIndex,
        Self::ProgramFault,
        Self::Assertion,
        Self::NoPipeline,
        Self::TooLong,
    ];

    /// A stable name for counters and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress_drop",
            Self::Egress => "egress_drop",
            Self::NoReplica => "no_replica",
            Self::TooManyPasses => "too_many_passes",
            Self::StackIndex => "stack_index",
            Self::ProgramFault => "program_fault",
            Self::Assertion => "assertion",
            Self::NoPipeline => "no_pipeline",
            Self::TooLong => "too_long",
        }
    }
}

/// Totals since the switch was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchStats {
    /// Packets given to workers.
    pub received: u64,
    /// Packets sent out of ports.
    pub transmitted: u64,
    /// Packets sent to the controller.
    pub packet_ins: u64,
    /// Copies made by clone and multicast, beyond the received packets
    /// themselves.
    pub copies: u64,
    /// Passes that began anew by resubmit or recirculate.
    pub reruns: u64,
    /// Dropped, by [`DropReason`] in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Digests lost because nobody drained the queue.
    pub digests_lost: u64,
}

/// One copy that a group or session makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// `egress_rid` of the copy.
    pub instance: u16,
    /// Where it goes.
    pub port: u16,
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastGroup {
    /// Its id, as in `mcast_grp`; not 0.
    pub id: u16,
    /// The copies. Order of output: instances in the order in which they
    /// first appear, ports ascending within an instance.
    pub replicas: Vec<Replica>,
}

/// A clone session (also called mirror session).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneSession {
    /// Its id (bmv2 uses the low 15 bits).
    pub id: u16,
    /// The copies, as in a multicast group.
    pub replicas: Vec<Replica>,
    /// Longest length of a clone in bytes; 0 means whole.
    pub truncate_to: u32,
    /// Opaque class of service, handed back on reads.
    pub class_of_service: u32,
}

/// A digest message: the values of one `digest()` call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Which digest.
    pub digest: DigestId,
    /// Its values, each as long as its width rounded up to bytes.
    pub values: Vec<Value>,
    /// When.
    pub at: Timestamp,
}

/// An entry that had no hit for its idle timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleNotice {
    /// The table.
    pub table: TableId,
    /// The entry as it is.
    pub entry: EntryState,
}

/// A switch. Shared by the control server and the workers.
#[derive(Debug)]
pub struct Switch {
    config: SwitchConfig,
}

impl Switch {
    /// A switch without a pipeline: it drops everything.
    pub fn new(config: SwitchConfig) -> Arc<Self> {
        Arc::new(Self { config })
    }

    /// What it was started with.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Makes a program the running one. Tables, counters, meters and
    /// registers start as the program says; multicast groups and clone
    /// sessions stay. Bursts that have begun finish on the old one.
    pub fn install(&self, program: Program) {
        let _ = program;
    }

    /// The running program.
    pub fn program(&self) -> Option<Arc<Program>> {
        None
    }

    /// A data-plane worker; one for each thread.
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker {
            switch: Arc::clone(self),
        }
    }

    /// Carries out operations in order. Each either happens whole or not at
    /// all; a failed one does not stop the rest. `now` starts idle timers.
    ///
    /// Large batches are published in bounded pieces so that workers never
    /// wait long; a worker sees a piece whole or not at all.
    pub fn apply(&self, now: Timestamp, ops: &[TableOp]) -> Vec<Result<(), TableError>> {
        let _ = now;
        ops.iter().map(|_| Err(TableError::NoPipeline)).collect()
    }

    /// Reads one entry.
    ///
    /// # Errors
    /// [`TableError::NotFound`], or the reason why the key makes no sense.
    pub fn get_entry(
        &self,
        table: TableId,
        key: &EntryKey,
        now: Timestamp,
    ) -> Result<EntryState, TableError> {
        let _ = (table, key, now);
        Err(TableError::NoPipeline)
    }

    /// Reads up to `max` entries from a cursor on. `None` as the new cursor
    /// means that there are no more.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn read_entries(
        &self,
        table: TableId,
        from: ReadCursor,
        max: usize,
        now: Timestamp,
    ) -> Result<(Vec<EntryState>, Option<ReadCursor>), TableError> {
        let _ = (table, from, max, now);
        Err(TableError::NoPipeline)
    }

    /// How many entries a table has.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn entry_count(&self, table: TableId) -> Result<u64, TableError> {
        let _ = table;
        Err(TableError::NoPipeline)
    }

    /// The action of a miss; `None` if the program gives none.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn default_action(&self, table: TableId) -> Result<Option<EntryAction>, TableError> {
        let _ = table;
        Err(TableError::NoPipeline)
    }

    /// Reads a counter: one cell, or all cells of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_counter(&self, target: &CounterTarget) -> Result<Vec<CounterValue>, TableError> {
        let _ = target;
        Err(TableError::NoPipeline)
    }

    /// Reads meter configurations: one cell, or all cells of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_meter(&self, target: &MeterTarget) -> Result<Vec<Option<MeterConfig>>, TableError> {
        let _ = target;
        Err(TableError::NoPipeline)
    }

    /// Reads register cells: one, or all of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_register(
        &self,
        register: RegisterId,
        index: Option<u32>,
    ) -> Result<Vec<Value>, TableError> {
        let _ = (register, index);
        Err(TableError::NoPipeline)
    }

    /// All members of a profile, by id.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn members(&self, profile: ProfileId) -> Result<Vec<Member>, TableError> {
        let _ = profile;
        Err(TableError::NoPipeline)
    }

    /// All groups of a selector, by id.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn groups(&self, profile: ProfileId) -> Result<Vec<Group>, TableError> {
        let _ = profile;
        Err(TableError::NoPipeline)
    }

    /// Adds or replaces a multicast group.
    pub fn set_multicast_group(&self, group: MulticastGroup) {
        let _ = group;
    }

    /// Removes a multicast group; false if there was none.
    pub fn delete_multicast_group(&self, id: u16) -> bool {
        let _ = id;
        false
    }

    /// All multicast groups, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        Vec::new()
    }

    /// Adds or replaces a clone session.
    pub fn set_clone_session(&self, session: CloneSession) {
        let _ = session;
    }

    /// Removes a clone session; false if there was none.
    pub fn delete_clone_session(&self, id: u16) -> bool {
        let _ = id;
        false
    }

    /// All clone sessions, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        Vec::new()
    }

    /// Takes up to `max` digests, oldest first.
    pub fn drain_digests(&self, max: usize) -> Vec<Digest> {
        let _ = max;
        Vec::new()
    }

    /// Looks for idle entries. Call it at least every 100 ms or so; a table is
    /// swept once a second, and an entry that stays idle is reported at every
    /// second sweep.
    pub fn poll_idle(&self, now: Timestamp) -> Vec<IdleNotice> {
        let _ = now;
        Vec::new()
    }

    /// Totals of all workers. A worker adds its own at the end of each burst.
    pub fn stats(&self) -> SwitchStats {
        SwitchStats::default()
    }
}

/// One thread's way to push packets through the switch.
#[derive(Debug)]
pub struct Worker {
    switch: Arc<Switch>,
}

impl Worker {
    /// Begins a burst: the pipeline and its tables stay as they are until the
    /// returned guard is dropped. Keep bursts short (32 to 256 packets);
    /// control operations wait for them.
    pub fn burst(&mut self, now: Timestamp) -> Burst<'_> {
        Burst { worker: self, now }
    }

    /// Processes one packet as a burst of its own.
    pub fn process(
        &mut self,
        port: u16,
        packet: &[u8],
        now: Timestamp,
        out: &mut impl FnMut(Output<'_>),
    ) {
        self.burst(now).process(port, packet, out);
    }
}

/// A burst of packets on one worker.
#[derive(Debug)]
pub struct Burst<'w> {
    worker: &'w mut Worker,
    now: Timestamp,
}

impl Burst<'_> {
    /// Processes one packet to its end. `out` is called once for every copy,
    /// in order, before this returns.
    pub fn process(&mut self, port: u16, packet: &[u8], out: &mut impl FnMut(Output<'_>)) {
        let _ = (port, packet, self.now, &self.worker.switch);
        out(Output::Dropped {
            reason: DropReason::NoPipeline,
        });
    }
}
