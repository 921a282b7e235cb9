//! The configuration a worker runs with: checked once, then immutable.

mod check;
mod spec;

use std::net::Ipv4Addr;

use crate::{
    addr_map::AddrMap,
    hash::mix64,
    sched::{Maglev, Scheduler, table_size},
};

pub use check::SnapshotError;
pub use spec::{Local, OffloadPolicy, Protocol, Server, ServerState, SnapshotSpec, Timeouts, Vip};

use check::{check_locals, check_vips};

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
