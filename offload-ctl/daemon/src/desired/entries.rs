//! The entries of the configuration tables.
//!
//! `server`, `local` and `vip_out` are made from the book of ids, not from the
//! configuration: as long as an id may stand in a flow entry, what it leads to
//! is there too (I4).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use sluice_config::{Gateway, Mac, Port, PortRole};

use super::{
    BUCKETS, Intent, TUNNEL_OVERHEAD, group_identity, local_identity, overlap, slot_identity,
    slot_owners, vip_identity,
};
use crate::entry::{Entry, Key, Role, Value};
use crate::ids::{IdBook, Identity, Kind};
use crate::maglev;

/// A next hop that entries lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Its id.
    pub id: u16,
    /// Switch port.
    pub port: u16,
    /// Neighbour whose Ethernet address is needed.
    pub neighbor: Ipv4Addr,
    /// The switch's Ethernet address on the port.
    pub smac: Mac,
    /// Tunnel ends, source and destination.
    pub tunnel: Option<(Ipv4Addr, Ipv4Addr)>,
    /// The configuration needs it; otherwise it was learned and may be
    /// forgotten.
    pub configured: bool,
}

impl Hop {
    /// The entry, once the neighbour's Ethernet address is known.
    pub fn entry(&self, dmac: Mac) -> Entry {
        let (port, smac, dmac) = (self.port, self.smac.to_u64(), dmac.to_u64());
        let value = match self.tunnel {
            None => Value::Forward { port, smac, dmac },
            Some((src, dst)) => Value::Vxlan {
                port,
                smac,
                dmac,
                src,
                dst,
            },
        };
        Entry::new(Key::Nexthop { id: self.id }, value)
    }
}

/// A host on a link that was learned from its ARP rather than configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LearnedHost {
    /// Switch port.
    pub port: u16,
    /// Address.
    pub addr: Ipv4Addr,
}

/// What the configuration tables ought to hold, next hops aside: those depend
/// on what is resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Entries by key.
    pub entries: BTreeMap<Key, Entry>,
    /// Next hops by id.
    pub hops: BTreeMap<u16, Hop>,
}

impl Desired {
    fn add(&mut self, key: Key, value: Value) {
        self.entries.insert(key, Entry::new(key, value));
    }
}

/// Hosts and gateways that packets are forwarded to, (vni, address, port).
pub(super) fn hosts(gateway: &Gateway, ids: &IdBook) -> BTreeSet<(u32, Ipv4Addr, u16)> {
    let mut hosts = BTreeSet::new();
    for (_, identity) in ids.of_kind(Kind::Server) {
        let Identity::Server { vip_id, addr, .. } = identity else {
            continue;
        };
        let Some(Identity::Vip { vni, .. }) = ids.identity(Kind::Vip, *vip_id) else {
            continue;
        };
        if let Some(port) = gateway.port_for(*vni, *addr) {
            hosts.insert((*vni, *addr, port.number));
        }
    }
    for route in &gateway.routes {
        if let Some(port) = gateway.port_for(route.vni, route.via) {
            hosts.insert((route.vni, route.via, port.number));
        }
    }
    for neighbor in &gateway.neighbors {
        for port in &gateway.ports {
            if port.role != PortRole::Ld && port.address.contains(&neighbor.address) {
                hosts.insert((port.vni, neighbor.address, port.number));
            }
        }
    }
    hosts
}

/// Builds the desired entries. Objects without an id are left out; `learned`
/// adds hosts on links.
pub fn build(intent: &Intent, ids: &IdBook, learned: &BTreeSet<LearnedHost>) -> Desired {
    let gateway = &intent.effective;
    let mut desired = Desired::default();
    ports(gateway, &mut desired);
    forwarding(gateway, ids, learned, &mut desired);
    steering(gateway, ids, &mut desired);
    rewrites(ids, &mut desired);
    classes(intent, ids, &mut desired);
    desired
}

fn ports(gateway: &Gateway, desired: &mut Desired) {
    for port in &gateway.ports {
        desired.add(
            Key::EgressPort { port: port.number },
            if port.vlan == 0 {
                Value::Untagged
            } else {
                Value::Tag { vid: port.vlan }
            },
        );
        desired.add(
            Key::IngressPort {
                port: port.number,
                vid: port.vlan,
            },
            Value::Port {
                role: match port.role {
                    PortRole::Uplink => Role::Uplink,
                    PortRole::Fabric => Role::Fabric,
                    PortRole::Ld => Role::Ld,
                },
                vni: port.vni,
                mac: port.mac.to_u64(),
            },
        );
    }
    if !gateway.ports.is_empty() {
        desired.add(
            Key::Vtep {
                addr: gateway.switch.vtep,
            },
            Value::Decap,
        );
    }
}

fn forwarding(
    gateway: &Gateway,
    ids: &IdBook,
    learned: &BTreeSet<LearnedHost>,
    desired: &mut Desired,
) {
    let port_of = |number: u16| gateway.ports.iter().find(|port| port.number == number);
    for port in &gateway.ports {
        let (vni, own) = (port.vni, port.address);
        // Hosts of the link that are not known yet: the CPU asks for them.
        if port.role != PortRole::Ld && own.prefix_len() < 32 {
            desired.add(
                Key::RouteV4 {
                    vni,
                    addr: own.network(),
                    len: own.prefix_len(),
                },
                Value::ToCpu,
            );
        }
    }
    let configured = hosts(gateway, ids);
    let mut hosts = configured.clone();
    for host in learned {
        if let Some(port) = port_of(host.port).filter(|p| p.address.contains(&host.addr)) {
            hosts.insert((port.vni, host.addr, port.number));
        }
    }
    for (vni, addr, number) in hosts {
        let Some(port) = port_of(number) else {
            continue;
        };
        let identity = Identity::Nexthop {
            port: number,
            addr,
            tunnel: false,
        };
        let Some(id) = ids.find(&identity) else {
            continue;
        };
        add_hop(desired, id, port, addr, None);
        if let Some(hop) = desired.hops.get_mut(&id) {
            hop.configured = configured.contains(&(vni, addr, number));
        }
        desired.add(
            Key::RouteV4 { vni, addr, len: 32 },
            Value::ToNexthop { nexthop_id: id },
        );
    }
    for route in &gateway.routes {
        let hop = gateway.port_for(route.vni, route.via).and_then(|port| {
            ids.find(&Identity::Nexthop {
                port: port.number,
                addr: route.via,
                tunnel: false,
            })
        });
        if let Some(nexthop_id) = hop {
            desired.add(
                Key::RouteV4 {
                    vni: route.vni,
                    addr: route.prefix.network(),
                    len: route.prefix.prefix_len(),
                },
                Value::ToNexthop { nexthop_id },
            );
        }
    }
    // Last, so that the switch's own addresses win over everything.
    for port in &gateway.ports {
        desired.add(
            Key::RouteV4 {
                vni: port.vni,
                addr: port.address.addr(),
                len: 32,
            },
            Value::ToCpu,
        );
    }
    for ld in &gateway.lds {
        let Some((neighbor, port)) = gateway.next_hop(0, ld.vtep) else {
            continue;
        };
        let identity = Identity::Nexthop {
            port: port.number,
            addr: ld.vtep,
            tunnel: true,
        };
        if let Some(id) = ids.find(&identity) {
            let ends = (gateway.switch.vtep, ld.vtep);
            add_hop(desired, id, port, neighbor, Some(ends));
        }
    }
}

fn add_hop(
    desired: &mut Desired,
    id: u16,
    port: &Port,
    neighbor: Ipv4Addr,
    tunnel: Option<(Ipv4Addr, Ipv4Addr)>,
) {
    let mtu = match tunnel {
        None => port.mtu,
        Some(_) => port.mtu.saturating_sub(TUNNEL_OVERHEAD),
    };
    desired.add(Key::NexthopMtu { id }, Value::Mtu { mtu });
    desired.hops.insert(
        id,
        Hop {
            id,
            port: port.number,
            neighbor,
            smac: port.mac,
            tunnel,
            configured: true,
        },
    );
}

fn steering(gateway: &Gateway, ids: &IdBook, desired: &mut Desired) {
    for group in &gateway.groups {
        let Some(group_id) = ids.find(&group_identity(&group.name)) else {
            continue;
        };
        let slot_ids: Vec<Option<u16>> = (0..group.slots)
            .map(|number| ids.find(&slot_identity(&group.name, number)))
            .collect();
        for (number, owner) in slot_owners(group).into_iter().enumerate() {
            let hop = gateway
                .lds
                .iter()
                .find(|ld| ld.name == owner)
                .and_then(|ld| {
                    let (_, port) = gateway.next_hop(0, ld.vtep)?;
                    ids.find(&Identity::Nexthop {
                        port: port.number,
                        addr: ld.vtep,
                        tunnel: true,
                    })
                });
            if let (Some(nexthop_id), Some(Some(slot))) = (hop, slot_ids.get(number)) {
                desired.add(Key::Slot { slot: *slot }, Value::ToLd { nexthop_id });
            }
        }
        // Buckets belong to slots for good; what moves between LDs is slots.
        let names: Vec<String> = (0..group.slots)
            .map(|number| format!("{}/{number}", group.name))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (bucket, number) in (0..BUCKETS).zip(maglev::assign(&names, BUCKETS)) {
            if let Some(Some(slot)) = slot_ids.get(number) {
                desired.add(
                    Key::Bucket {
                        group: group_id,
                        bucket,
                    },
                    Value::ToSlot { slot: *slot },
                );
            }
        }
    }
}

fn rewrites(ids: &IdBook, desired: &mut Desired) {
    for (_, id, identity) in ids.iter() {
        match *identity {
            Identity::Server { addr, port, .. } => {
                desired.add(Key::Server { id }, Value::Server { addr, port });
            }
            Identity::Local { addr, .. } => {
                desired.add(Key::Local { id }, Value::Local { addr });
            }
            Identity::Vip { addr, .. } => {
                desired.add(Key::VipOut { id }, Value::VipOut { addr });
            }
            _ => {}
        }
    }
}

fn classes(intent: &Intent, ids: &IdBook, desired: &mut Desired) {
    let gateway = &intent.effective;
    for local in intent.locals() {
        let local_id = ids.find(&local_identity(local.vni, local.addr));
        let slot = ids.find(&slot_identity(&local.group, local.number));
        if let (Some(local_id), Some(slot)) = (local_id, slot) {
            desired.add(
                Key::LipV4 {
                    vni: local.vni,
                    addr: local.addr,
                },
                Value::Lip { local_id, slot },
            );
        }
    }
    for vip in gateway.vips.iter().rev() {
        let group = ids.find(&group_identity(&vip.group));
        let vip_id = ids.find(&vip_identity(vip));
        let (Some(group), Some(vip_id)) = (group, vip_id) else {
            continue;
        };
        // A VIP in force beats a retiring one that overlaps it.
        let beaten =
            intent.is_retiring(vip) && intent.gateway.vips.iter().any(|other| overlap(other, vip));
        if !beaten {
            desired.add(
                Key::VipV4 {
                    vni: vip.vni,
                    protocol: vip.protocol.number(),
                    addr: vip.address,
                    port_low: vip.port.low(),
                    port_high: vip.port.high(),
                },
                Value::Vip { vip_id, group },
            );
        }
        desired.add(
            Key::VipAddrV4 {
                vni: vip.vni,
                addr: vip.address,
            },
            Value::VipAddr { group },
        );
    }
}
