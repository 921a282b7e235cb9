//! The configuration a worker runs with: checked once, then immutable.

use std::{collections::HashMap, net::Ipv4Addr};

use thiserror::Error;

use crate::{
    addr_map::AddrMap,
    hash::mix64,
    sched::{Maglev, Scheduler, table_size},
};

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

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// An identifier of zero.
    #[error("{what}[{at}]: the identifier is zero, which stands for none")]
    ZeroId {
        /// vip, server or local.
        what: &'static str,
        /// Index in its list (of the first such VIP for servers).
        at: usize,
    },
    /// Two objects with one identifier.
    #[error("two {what}s have the identifier {id}")]
    DuplicateId {
        /// vip, server or local.
        what: &'static str,
        /// The identifier.
        id: u16,
    },
    /// A VNI of more than 24 bits.
    #[error("{what} {id}: network {vni} does not fit 24 bits")]
    BadVni {
        /// vip or local.
        what: &'static str,
        /// Its identifier.
        id: u16,
        /// The network.
        vni: u32,
    },
    /// A port range that is empty or starts at zero.
    #[error("vip {vip_id}: the port range {low}-{high} is empty or starts at 0")]
    BadPortRange {
        /// The VIP.
        vip_id: u16,
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
    /// Two VIPs claim a port.
    #[error("vips {a} and {b} overlap on the same network, address, protocol and port")]
    Overlap {
        /// One VIP.
        a: u16,
        /// The other.
        b: u16,
    },
    /// A VIP with a port range and a server with a port of its own.
    #[error("vip {vip_id} has a port range: server {server_id} must keep the port (port 0)")]
    PortNotKept {
        /// The VIP.
        vip_id: u16,
        /// The server.
        server_id: u16,
    },
    /// A local address that is also a server's or a VIP's.
    #[error("local {local_id}: {address} is also the address of {other}")]
    LocalInUse {
        /// The local address's identifier.
        local_id: u16,
        /// The address.
        address: Ipv4Addr,
        /// What else has it.
        other: String,
    },
    /// Two local addresses with one network and address.
    #[error("locals {a} and {b} have the same network and address")]
    DuplicateLocal {
        /// One.
        a: u16,
        /// The other.
        b: u16,
    },
}

/// A checked configuration with its look-up tables, shared by all workers.
#[derive(Debug)]
pub struct Snapshot {
    spec: SnapshotSpec,
    /// (network, address) of VIPs -> index into `services`.
    addresses: AddrMap,
    /// Of each VIP address: (protocol, first port, last port, index of VIP).
    services: Vec<Vec<(Protocol, u16, u16, usize)>>,
    /// Of each VIP with [`Scheduler::SourceHash`].
    maglev: Vec<Option<Maglev>>,
}

impl Snapshot {
    /// A configuration without VIPs or local addresses.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            spec: SnapshotSpec::default(),
            addresses: AddrMap::new(),
            services: Vec::new(),
            maglev: Vec::new(),
        }
    }

    /// Checks a configuration and builds its tables (Maglev tables too: call
    /// it where a few milliseconds do not matter).
    ///
    /// # Errors
    /// [`SnapshotError`] for the first problem found.
    pub fn build(spec: SnapshotSpec) -> Result<Self, SnapshotError> {
        check_vips(&spec.vips)?;
        check_locals(&spec)?;
        let mut addresses = AddrMap::new();
        let mut services: Vec<Vec<(Protocol, u16, u16, usize)>> = Vec::new();
        for (i, vip) in spec.vips.iter().enumerate() {
            let addr = vip.address.to_bits();
            let at = addresses.get(vip.vni, addr).unwrap_or_else(|| {
                services.push(Vec::new());
                let at = services.len() as u32 - 1;
                addresses.insert(vip.vni, addr, at);
                at
            });
            let list = &mut services[at as usize];
            if let Some((_, _, _, other)) = list.iter().find(|(p, low, high, _)| {
                *p == vip.protocol && *low <= vip.port_high && vip.port_low <= *high
            }) {
                return Err(SnapshotError::Overlap {
                    a: spec.vips[*other].vip_id,
                    b: vip.vip_id,
                });
            }
            list.push((vip.protocol, vip.port_low, vip.port_high, i));
        }
        for list in &mut services {
            list.sort_by_key(|(p, low, _, _)| (p.number(), *low));
        }
        let maglev = spec
            .vips
            .iter()
            .map(|vip| {
                if vip.scheduler != Scheduler::SourceHash {
                    return None;
                }
                let servers: Vec<(u64, u32)> = vip
                    .servers
                    .iter()
                    .map(|s| {
                        let weight = if s.takes_sessions() { s.weight } else { 0 };
                        (
                            u64::from(s.address.to_bits()) << 16 | u64::from(s.port),
                            weight,
                        )
                    })
                    .collect();
                Maglev::new(table_size(servers.len()), &servers)
            })
            .collect();
        Ok(Self {
            spec,
            addresses,
            services,
            maglev,
        })
    }

    /// The configuration as given.
    #[must_use]
    pub fn spec(&self) -> &SnapshotSpec {
        &self.spec
    }

    /// Whether an address is a VIP's.
    #[must_use]
    pub fn is_vip_address(&self, vni: u32, addr: Ipv4Addr) -> bool {
        self.addresses.get(vni, addr.to_bits()).is_some()
    }

    /// The index in `spec().vips` of the VIP that serves a destination.
    #[must_use]
    pub fn vip_at(&self, vni: u32, protocol: Protocol, addr: Ipv4Addr, port: u16) -> Option<usize> {
        let list = &self.services[self.addresses.get(vni, addr.to_bits())? as usize];
        let key = (protocol.number(), port);
        let after = list.partition_point(|(p, low, _, _)| (p.number(), *low) <= key);
        let (p, _, high, vip) = *list.get(after.checked_sub(1)?)?;
        (p == protocol && port <= high).then_some(vip)
    }

    /// The Maglev table of a VIP (an index in `spec().vips`).
    pub(crate) fn maglev(&self, vip: usize) -> Option<&Maglev> {
        self.maglev.get(vip)?.as_ref()
    }
}

/// The hash of a client's address that [`Scheduler::SourceHash`] uses: the same
/// at every worker and load director.
#[must_use]
pub const fn source_hash(client: u32) -> u64 {
    mix64(client as u64)
}

fn check_vips(vips: &[Vip]) -> Result<(), SnapshotError> {
    let mut ids = HashMap::new();
    let mut server_ids = HashMap::new();
    for (i, vip) in vips.iter().enumerate() {
        if vip.vip_id == 0 {
            return Err(SnapshotError::ZeroId { what: "vip", at: i });
        }
        if ids.insert(vip.vip_id, i).is_some() {
            return Err(SnapshotError::DuplicateId {
                what: "vip",
                id: vip.vip_id,
            });
        }
        if vip.vni >= 1 << 24 {
            return Err(SnapshotError::BadVni {
                what: "vip",
                id: vip.vip_id,
                vni: vip.vni,
            });
        }
        if vip.port_low == 0 || vip.port_low > vip.port_high {
            return Err(SnapshotError::BadPortRange {
                vip_id: vip.vip_id,
                low: vip.port_low,
                high: vip.port_high,
            });
        }
        for s in &vip.servers {
            if s.server_id == 0 {
                return Err(SnapshotError::ZeroId {
                    what: "server",
                    at: i,
                });
            }
            if server_ids.insert(s.server_id, i).is_some() {
                return Err(SnapshotError::DuplicateId {
                    what: "server",
                    id: s.server_id,
                });
            }
            if vip.port_low != vip.port_high && s.port != 0 {
                return Err(SnapshotError::PortNotKept {
                    vip_id: vip.vip_id,
                    server_id: s.server_id,
                });
            }
        }
    }
    Ok(())
}

fn check_locals(spec: &SnapshotSpec) -> Result<(), SnapshotError> {
    let mut ids = HashMap::new();
    let mut by_address = HashMap::new();
    let mut taken = HashMap::new();
    for vip in &spec.vips {
        taken.insert((vip.vni, vip.address), format!("vip {}", vip.vip_id));
        for s in &vip.servers {
            taken.insert((vip.vni, s.address), format!("server {}", s.server_id));
        }
    }
    for (i, l) in spec.locals.iter().enumerate() {
        if l.local_id == 0 {
            return Err(SnapshotError::ZeroId {
                what: "local",
                at: i,
            });
        }
        if ids.insert(l.local_id, i).is_some() {
            return Err(SnapshotError::DuplicateId {
                what: "local",
                id: l.local_id,
            });
        }
        if l.vni >= 1 << 24 {
            return Err(SnapshotError::BadVni {
                what: "local",
                id: l.local_id,
                vni: l.vni,
            });
        }
        if let Some(other) = taken.get(&(l.vni, l.address)) {
            return Err(SnapshotError::LocalInUse {
                local_id: l.local_id,
                address: l.address,
                other: other.clone(),
            });
        }
        if let Some(a) = by_address.insert((l.vni, l.address), l.local_id) {
            return Err(SnapshotError::DuplicateLocal { a, b: l.local_id });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: u16, addr: [u8; 4], port: u16) -> Server {
        Server {
            server_id: id,
            address: addr.into(),
            port,
            weight: 1,
            state: ServerState::Up,
            mtu: 0,
        }
    }

    fn vip(id: u16, addr: [u8; 4], ports: (u16, u16), protocol: Protocol) -> Vip {
        Vip {
            vip_id: id,
            vni: 0,
            address: addr.into(),
            port_low: ports.0,
            port_high: ports.1,
            protocol,
            scheduler: Scheduler::RoundRobin,
            timeouts: Timeouts::default(),
            offload: OffloadPolicy::default(),
            servers: vec![],
            generation: 1,
            max_sessions: 0,
        }
    }

    fn local(id: u16, addr: [u8; 4]) -> Local {
        Local {
            local_id: id,
            address: addr.into(),
            vni: 0,
            slot: 1,
        }
    }

    fn build(vips: Vec<Vip>, locals: Vec<Local>) -> Result<Snapshot, SnapshotError> {
        Snapshot::build(SnapshotSpec {
            version: 1,
            vips,
            locals,
            client_mtu: 1500,
        })
    }

    #[test]
    fn finds_ports_and_ranges() {
        let a = [10, 100, 0, 10];
        let s = build(
            vec![
                vip(1, a, (80, 80), Protocol::Tcp),
                vip(2, a, (8000, 8100), Protocol::Tcp),
                vip(3, a, (53, 53), Protocol::Udp),
                vip(4, [10, 100, 0, 11], (80, 80), Protocol::Tcp),
            ],
            vec![],
        )
        .unwrap();
        let at = |p, port| s.vip_at(0, p, a.into(), port);
        assert_eq!(at(Protocol::Tcp, 80), Some(0));
        assert_eq!(at(Protocol::Tcp, 81), None);
        assert_eq!(at(Protocol::Tcp, 7999), None);
        assert_eq!(at(Protocol::Tcp, 8000), Some(1));
        assert_eq!(at(Protocol::Tcp, 8100), Some(1));
        assert_eq!(at(Protocol::Tcp, 8101), None);
        assert_eq!(at(Protocol::Udp, 53), Some(2));
        assert_eq!(at(Protocol::Udp, 80), None);
        assert_eq!(at(Protocol::Tcp, 1), None);
        assert_eq!(s.vip_at(1, Protocol::Tcp, a.into(), 80), None);
        assert!(s.is_vip_address(0, a.into()));
        assert!(!s.is_vip_address(0, [10, 100, 0, 12].into()));
    }

    #[test]
    fn refuses_what_cannot_work() {
        let a = [10, 100, 0, 10];
        let t = Protocol::Tcp;
        assert_eq!(
            build(vec![vip(1, a, (80, 90), t), vip(2, a, (90, 91), t)], vec![]).unwrap_err(),
            SnapshotError::Overlap { a: 1, b: 2 }
        );
        assert_eq!(
            build(vec![vip(1, a, (80, 80), t), vip(1, a, (81, 81), t)], vec![]).unwrap_err(),
            SnapshotError::DuplicateId { what: "vip", id: 1 }
        );
        assert_eq!(
            build(vec![vip(0, a, (80, 80), t)], vec![]).unwrap_err(),
            SnapshotError::ZeroId { what: "vip", at: 0 }
        );
        assert_eq!(
            build(vec![vip(1, a, (90, 80), t)], vec![]).unwrap_err(),
            SnapshotError::BadPortRange {
                vip_id: 1,
                low: 90,
                high: 80
            }
        );
        let mut v = vip(1, a, (80, 90), t);
        v.servers.push(server(7, [10, 2, 1, 2], 8080));
        assert_eq!(
            build(vec![v], vec![]).unwrap_err(),
            SnapshotError::PortNotKept {
                vip_id: 1,
                server_id: 7
            }
        );
        let mut v = vip(1, a, (80, 80), t);
        v.servers.push(server(7, [10, 2, 1, 2], 8080));
        assert!(matches!(
            build(vec![v], vec![local(1, [10, 2, 1, 2])]).unwrap_err(),
            SnapshotError::LocalInUse { local_id: 1, .. }
        ));
        assert_eq!(
            build(
                vec![],
                vec![local(1, [10, 9, 0, 1]), local(2, [10, 9, 0, 1])]
            )
            .unwrap_err(),
            SnapshotError::DuplicateLocal { a: 1, b: 2 }
        );
    }
}
