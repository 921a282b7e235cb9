//! A configuration as the control plane gives it.

use std::net::Ipv4Addr;

use crate::sched::Scheduler;

/// Transport protocols that are balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The IP protocol number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => packet::PROTO_TCP,
            Self::Udp => packet::PROTO_UDP,
        }
    }

    /// The protocol of an IP protocol number.
    #[inline(always)]
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        match n {
            packet::PROTO_TCP => Some(Self::Tcp),
            packet::PROTO_UDP => Some(Self::Udp),
            _ => None,
        }
    }
}

/// How long sessions live without packets, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP before the handshake is complete.
    pub syn_ms: u32,
    /// TCP after the handshake.
    pub established_ms: u32,
    /// TCP after one side's FIN.
    pub fin_ms: u32,
    /// TCP after both FINs, the server's first. The server's own TIME_WAIT must
    /// be over before its tuple is used again.
    pub time_wait_ms: u32,
    /// TCP after a reset, or after both FINs, the client's first.
    pub close_ms: u32,
    /// UDP that the server has answered.
    pub udp_ms: u32,
    /// UDP that the server has not answered.
    pub udp_unreplied_ms: u32,
    /// Least time a local port rests before it is used again.
    pub port_hold_ms: u32,
    /// How long UDP sessions may stay with a server that is drained or gone.
    pub udp_drain_ms: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            syn_ms: 60_000,
            established_ms: 900_000,
            fin_ms: 60_000,
            time_wait_ms: 60_000,
            close_ms: 10_000,
            udp_ms: 300_000,
            udp_unreplied_ms: 30_000,
            port_hold_ms: 5_000,
            udp_drain_ms: 60_000,
        }
    }
}

/// Which sessions get entries in the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadPolicy {
    /// Whether any do.
    pub enabled: bool,
    /// Packets, both directions together, before a session is worth an entry.
    pub min_packets: u32,
}

/// Whether a server takes sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerState {
    /// In service.
    #[default]
    Up,
    /// Established sessions go on, no new ones.
    Drain,
    /// As [`ServerState::Drain`], because checks say so; UDP moves at once.
    Down,
}

/// A real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Identifier in the switch, not zero.
    pub server_id: u16,
    /// Address.
    pub address: Ipv4Addr,
    /// Port; zero keeps the VIP's.
    pub port: u16,
    /// Share; zero takes no new sessions.
    pub weight: u32,
    /// State.
    pub state: ServerState,
    /// Largest IPv4 packet it takes, in bytes; zero for no limit.
    pub mtu: u16,
}

impl Server {
    /// Whether it takes new sessions.
    #[must_use]
    pub fn takes_sessions(&self) -> bool {
        self.state == ServerState::Up && self.weight > 0
    }
}

/// A virtual service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// Identifier in the switch, not zero.
    pub vip_id: u16,
    /// Network (24 bits), zero is the public one.
    pub vni: u32,
    /// Address.
    pub address: Ipv4Addr,
    /// First port.
    pub port_low: u16,
    /// Last port.
    pub port_high: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// How servers are chosen.
    pub scheduler: Scheduler,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Offload policy.
    pub offload: OffloadPolicy,
    /// Servers.
    pub servers: Vec<Server>,
    /// Version of this VIP's configuration.
    pub generation: u32,
    /// Most sessions it may hold over all workers; zero for no limit.
    pub max_sessions: u64,
}

/// A local address (LIP): the source of packets towards servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Identifier in the switch, not zero.
    pub local_id: u16,
    /// Address.
    pub address: Ipv4Addr,
    /// Network (24 bits).
    pub vni: u32,
    /// The steering slot that owns it.
    pub slot: u16,
}

/// Everything, as the control plane gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// Rises with every change.
    pub version: u64,
    /// Virtual services.
    pub vips: Vec<Vip>,
    /// Local addresses.
    pub locals: Vec<Local>,
    /// Largest IPv4 packet towards clients, in bytes; zero for no limit.
    pub client_mtu: u16,
}
