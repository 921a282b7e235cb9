//! What goes into the engine and what comes out.

use std::net::Ipv4Addr;

use crate::{
    drops::DropReason,
    snapshot::Protocol,
    state::{Direction, Offload, State},
};

/// A packet to be handled.
#[derive(Debug)]
pub struct PacketIn<'a> {
    /// The packet from its IPv4 header on. Bytes after the IPv4 total length
    /// are left alone.
    pub data: &'a mut [u8],
    /// Network of the tunnel it came in (24 bits).
    pub vni: u32,
    /// Steering slot (VXLAN Group Policy identifier).
    pub slot: u16,
    /// How many workers have passed it on already.
    pub hops: u8,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Rewritten in place: send it on through the switch, in the same network.
    Forward(Direction),
    /// Replaced by an answer of `len` bytes: send that, in the same network.
    Reply {
        /// Bytes of the answer.
        len: u16,
    },
    /// Not changed: hand it to another worker, with `hops` raised by one.
    Redirect(Redirect),
    /// Throw it away.
    Drop(DropReason),
}

/// Which worker a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// That worker.
    Worker(u8),
    /// The next one: only a look into its sessions can tell.
    Next,
}

/// Names a session towards the offload controller: worker (8 bits), boot (16),
/// record (24), use of the record (16). One that is over is never mistaken for
/// a newer one on the same record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    pub(crate) const fn new(worker: u8, boot: u16, record: u32, generation: u16) -> Self {
        Self(
            (worker as u64) << 56
                | (boot as u64) << 40
                | ((record & 0xff_ffff) as u64) << 16
                | generation as u64,
        )
    }

    /// The worker that holds the session.
    #[must_use]
    pub const fn worker(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// The process start that made it.
    #[must_use]
    pub const fn boot(self) -> u16 {
        (self.0 >> 40) as u16
    }

    pub(crate) const fn record(self) -> u32 {
        (self.0 >> 16) as u32 & 0xff_ffff
    }

    pub(crate) const fn generation(self) -> u16 {
        self.0 as u16
    }
}

/// Both directions of a session, as the switch's tables need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPair {
    /// VIP's identifier.
    pub vip_id: u16,
    /// Port of the VIP that the client uses.
    pub vip_port: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Client's address.
    pub client: Ipv4Addr,
    /// Client's port.
    pub client_port: u16,
    /// Server's identifier.
    pub server_id: u16,
    /// Local address's identifier.
    pub local_id: u16,
    /// Local port.
    pub local_port: u16,
    /// How long both directions may be idle, in milliseconds.
    pub idle_timeout_ms: u32,
    /// Generation of the VIP's configuration that made the session.
    pub generation: u32,
}

/// Why an entry is to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoveReason {
    /// FIN or RST was seen.
    Closed,
    /// Idle in both directions.
    Idle,
    /// Asked for by the operator.
    Kill,
}

/// Why the controller did not install.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// The table is full: try again after a while.
    TableFull,
    /// The switch is away: try again after a while.
    SwitchDown,
    /// Another session holds the key: try again after a while.
    Conflict,
    /// An identifier is no longer configured, or the request makes no sense:
    /// never try again.
    Invalid,
    /// The switch refused: try again after a while.
    SwitchError,
}

/// Packets and bytes (IPv4 total lengths) of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets from the client.
    pub fwd_packets: u64,
    /// Bytes from the client.
    pub fwd_bytes: u64,
    /// Packets from the server.
    pub rev_packets: u64,
    /// Bytes from the server.
    pub rev_bytes: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, o: &Self) {
        self.fwd_packets = self.fwd_packets.saturating_add(o.fwd_packets);
        self.fwd_bytes = self.fwd_bytes.saturating_add(o.fwd_bytes);
        self.rev_packets = self.rev_packets.saturating_add(o.rev_packets);
        self.rev_bytes = self.rev_bytes.saturating_add(o.rev_bytes);
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Both sides finished, or one reset, and the rest time passed.
    Finished,
    /// No packets for its timeout.
    Expired,
    /// Gave way under pressure before the server had answered.
    Evicted,
    /// Ended by the operator, or left a server that is drained (UDP).
    Killed,
    /// The client opened a new connection on the same tuple.
    Replaced,
}

/// A session that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedSession {
    /// Its identifier.
    pub session: SessionId,
    /// Its tuple and identifiers.
    pub flow: FlowPair,
    /// Why it ended.
    pub reason: CloseReason,
    /// The state it ended in.
    pub state: State,
    /// What it carried, in the slow path and in the switch.
    pub totals: Totals,
}

/// Something for the caller to pass on. Drained after each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask for entries in the switch. May come again: idempotent.
    Install(SessionId, FlowPair),
    /// Ask for their removal. May come again: idempotent.
    Remove(SessionId, RemoveReason),
    /// For session logs.
    Closed(ClosedSession),
}

/// A session found in the switch, to be taken over.
pub type Adoption = FlowPair;

/// Why a session found in the switch cannot be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AdoptError {
    /// Its VIP is not configured.
    #[error("the VIP is not configured")]
    UnknownVip,
    /// Its server is not configured.
    #[error("the server is not configured")]
    UnknownServer,
    /// Its local address is not configured.
    #[error("the local address is not configured")]
    UnknownLocal,
    /// Its local port belongs to another worker.
    #[error("the local port belongs to another worker")]
    OtherWorker,
    /// Its local port is taken.
    #[error("the local port is taken")]
    PortTaken,
    /// The client's tuple has a session already.
    #[error("the client's tuple has a session already")]
    TupleTaken,
    /// No memory for it.
    #[error("the session table is full")]
    Full,
}

/// An entry in the list for a resynchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloaded {
    /// The session.
    pub session: SessionId,
    /// Its tuple and identifiers.
    pub flow: FlowPair,
    /// How far it is: requested, installed or removing.
    pub offload: Offload,
}
