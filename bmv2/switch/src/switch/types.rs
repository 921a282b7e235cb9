//! What the switch is told and what it tells.

use crate::control::{EntryState, Value};
use crate::program::{DigestId, TableId};

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
    /// Most digests kept for [`Switch::drain_digests`](crate::Switch::drain_digests); later ones are lost
    /// and counted.
    pub digest_queue: usize,
    /// Egress queues of a port. As in bmv2, a packet whose `priority` is not
    /// below this is dropped. With more than one, the packets of a burst to a
    /// port leave by their priority, the highest number first: packets are
    /// processed to their end one after the other, and longer queues than that
    /// there are none.
    pub priority_queues: u8,
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
            priority_queues: 1,
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
    /// Longer than [`MAX_PACKET`].
    TooLong,
    /// `priority` was not below [`SwitchConfig::priority_queues`].
    NoSuchQueue,
}

/// Longest packet that a worker accepts, in bytes.
pub const MAX_PACKET: usize = 1 << 20;

impl DropReason {
    /// All reasons, in the order of [`SwitchStats::dropped`].
    pub const ALL: [Self; 10] = [
        Self::Ingress,
        Self::Egress,
        Self::NoReplica,
        Self::TooManyPasses,
        Self::StackIndex,
        Self::ProgramFault,
        Self::Assertion,
        Self::NoPipeline,
        Self::TooLong,
        Self::NoSuchQueue,
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
            Self::NoSuchQueue => "no_such_queue",
        }
    }
}

/// Totals since the switch was made. The books balance:
/// `received + copies = transmitted + packet_ins + dropped`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchStats {
    /// Packets given to workers.
    pub received: u64,
    /// Packets sent out of ports.
    pub transmitted: u64,
    /// Packets sent to the controller.
    pub packet_ins: u64,
    /// Packets made by clone and multicast, beyond the received packets
    /// themselves: a multicast packet is one of its own replicas.
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
    /// Its values, in the order of the call.
    pub values: Vec<DigestValue>,
    /// When.
    pub at: Timestamp,
}

/// One value of a digest message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DigestValue {
    /// A big-endian number of `bits` bits, in as many bytes as they need.
    pub number: Value,
    /// The width of its type; of a varbit the length that it has.
    pub bits: u32,
    /// Whether the header that it is a field of is valid; true for metadata.
    pub valid: bool,
}

/// An entry that had no hit for its idle timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleNotice {
    /// The table.
    pub table: TableId,
    /// The entry as it is.
    pub entry: EntryState,
}
