//! What ought to be: from operators' intent to entries, snapshots and diffs.

mod entries;
mod locals;
mod plan;
mod snapshot;

pub use entries::{Desired, Hop, LearnedHost, build};
pub use plan::changes;
pub(crate) use snapshot::api_vip;
pub use snapshot::snapshot;

use std::collections::{BTreeMap, HashSet};
use std::net::Ipv4Addr;

use p4_contract::constants::{
    BUCKETS, MAX_BUCKETS, MAX_LOCALS, MAX_NEXTHOPS, MAX_SERVERS, MAX_SLOTS, MAX_VIPS,
    TUNNEL_OVERHEAD,
};
use sluice_config::{Gateway, Group, PortRange, Server, ServerState, Vip};

use crate::ids::{Exhausted, IdBook, Identity, Limits};
use crate::maglev;
use crate::store::{LocalSlot, RetiringVip, Version};

/// Ids that fit the switch's tables, id 0 aside.
pub const LIMITS: Limits = Limits {
    vips: (MAX_VIPS - 1) as u16,
    servers: (MAX_SERVERS - 1) as u16,
    locals: (MAX_LOCALS - 1) as u16,
    slots: (MAX_SLOTS - 1) as u16,
    nexthops: (MAX_NEXTHOPS - 1) as u16,
    groups: (MAX_BUCKETS / BUCKETS as u32 - 1) as u16,
};

/// Operators' intent with what is still owed to established connections.
#[derive(Clone, Debug)]
pub struct Intent {
    /// As stored.
    pub version: Version,
    /// As applied.
    pub gateway: Gateway,
    /// As in force: drained servers are draining, and removed VIPs are here
    /// without a server in service for as long as they may have sessions.
    pub effective: Gateway,
}

impl Intent {
    /// Before anything was applied.
    pub fn empty() -> Self {
        let gateway = Gateway {
            switch: sluice_config::Switch {
                vtep: Ipv4Addr::UNSPECIFIED,
            },
            ports: Vec::new(),
            neighbors: Vec::new(),
            routes: Vec::new(),
            lds: Vec::new(),
            groups: Vec::new(),
            vips: Vec::new(),
        };
        Self {
            version: Version::default(),
            effective: gateway.clone(),
            gateway,
        }
    }

    /// From what the store holds.
    pub fn new(mut version: Version, gateway: Gateway) -> Self {
        if version.locals.is_empty() {
            version.locals = locals::assign(&gateway, &[]);
        }
        let effective = effective(&gateway, &version);
        Self {
            version,
            gateway,
            effective,
        }
    }

    /// The intent that follows when `gateway` (of text `text`) is applied over
    /// this one. What `gateway` lacks goes on retiring; ids are allocated.
    ///
    /// # Errors
    /// [`Exhausted`] if there are not enough ids.
    pub fn next(
        &self,
        text: String,
        gateway: Gateway,
        now_unix_ms: u64,
        ids: &mut IdBook,
    ) -> Result<Self, Exhausted> {
        let number = self.version.version + 1;
        let mut version = Version {
            version: number,
            applied_unix_ms: now_unix_ms,
            text,
            drained: self
                .version
                .drained
                .iter()
                .filter(|(vip, server)| {
                    gateway
                        .vips
                        .iter()
                        .any(|v| v.name == *vip && v.servers.iter().any(|s| s.name == *server))
                })
                .cloned()
                .collect(),
            ..Version::default()
        };
        let kept: HashSet<Identity> = gateway.vips.iter().map(vip_identity).collect();
        let gone = self.gateway.vips.iter().filter_map(|vip| {
            let group = self.gateway.groups.iter().find(|g| g.name == vip.group)?;
            Some(RetiringVip {
                vip: vip.clone(),
                group: group.clone(),
            })
        });
        version.retiring = self
            .version
            .retiring
            .iter()
            .cloned()
            .chain(gone)
            .filter(|retiring| !kept.contains(&vip_identity(&retiring.vip)))
            .collect();
        let before: Vec<LocalSlot> = self.locals().cloned().collect();
        version.locals = locals::assign(&gateway, &before);
        let kept: HashSet<(u32, Ipv4Addr)> = version
            .locals
            .iter()
            .map(|local| (local.vni, local.addr))
            .collect();
        version.retiring_locals = before
            .into_iter()
            .filter(|local| !kept.contains(&(local.vni, local.addr)))
            .map(|mut local| {
                let group = gateway.groups.iter().find(|g| g.name == local.group);
                if let Some(slots) = group.map(|group| group.slots.max(1)) {
                    local.number %= slots;
                }
                local
            })
            .collect();
        let mut next = Self::new(version, gateway);
        allocate(&next, ids)?;
        next.version.generations = self.generations(&next, ids);
        Ok(next)
    }

    /// The intent that follows when operators change servers' states.
    pub fn with_drained(
        &self,
        drained: Vec<(String, String)>,
        now_unix_ms: u64,
        ids: &IdBook,
    ) -> Self {
        let mut version = self.version.clone();
        version.version += 1;
        version.applied_unix_ms = now_unix_ms;
        version.drained = drained;
        let mut next = Self::new(version, self.gateway.clone());
        next.version.generations = self.generations(&next, ids);
        next
    }

    /// Versions that changed each VIP last, given the one that follows.
    fn generations(&self, next: &Intent, ids: &IdBook) -> BTreeMap<u16, u32> {
        next.effective
            .vips
            .iter()
            .filter_map(|vip| {
                let identity = vip_identity(vip);
                let id = ids.find(&identity)?;
                let before = self
                    .effective
                    .vips
                    .iter()
                    .find(|old| vip_identity(old) == identity);
                let generation = match self.version.generations.get(&id) {
                    Some(&generation) if before == Some(vip) => generation,
                    _ => u32::try_from(next.version.version).unwrap_or(u32::MAX),
                };
                Some((id, generation))
            })
            .collect()
    }

    /// Every local address with its slot, retiring ones last.
    pub fn locals(&self) -> impl Iterator<Item = &LocalSlot> {
        self.version
            .locals
            .iter()
            .chain(&self.version.retiring_locals)
    }

    /// The slot of a local address.
    pub fn local(&self, vni: u32, addr: Ipv4Addr) -> Option<&LocalSlot> {
        self.locals()
            .find(|local| local.vni == vni && local.addr == addr)
    }

    /// Whether the VIP is only here for its established sessions.
    pub fn is_retiring(&self, vip: &Vip) -> bool {
        let identity = vip_identity(vip);
        !self
            .gateway
            .vips
            .iter()
            .any(|other| vip_identity(other) == identity)
    }

    /// Objects that ids are needed for.
    pub fn identities(&self, ids: &IdBook) -> HashSet<Identity> {
        let mut wanted = HashSet::new();
        for group in &self.effective.groups {
            wanted.insert(group_identity(&group.name));
            wanted.extend((0..group.slots).map(|number| slot_identity(&group.name, number)));
        }
        for local in self.locals() {
            wanted.insert(local_identity(local.vni, local.addr));
        }
        for vip in &self.effective.vips {
            let identity = vip_identity(vip);
            if let Some(id) = ids.find(&identity) {
                wanted.extend(vip.servers.iter().map(|server| server_identity(id, server)));
            }
            wanted.insert(identity);
        }
        wanted
    }
}

fn effective(gateway: &Gateway, version: &Version) -> Gateway {
    let mut effective = gateway.clone();
    for vip in &mut effective.vips {
        for server in &mut vip.servers {
            if version
                .drained
                .iter()
                .any(|(v, s)| *v == vip.name && *s == server.name)
            {
                server.state = ServerState::Drain;
            }
        }
    }
    let add_group = |effective: &mut Gateway, group: &Group| {
        if !effective.groups.iter().any(|g| g.name == group.name) {
            let mut group = group.clone();
            group
                .lds
                .retain(|name| effective.lds.iter().any(|ld| ld.name == *name));
            effective.groups.push(group);
        }
    };
    for retiring in &version.retiring {
        let mut vip = retiring.vip.clone();
        for server in &mut vip.servers {
            server.state = ServerState::Drain;
        }
        add_group(&mut effective, &retiring.group);
        effective.vips.push(vip);
    }
    effective
}

/// Gives every object of the intent its id.
fn allocate(intent: &Intent, ids: &mut IdBook) -> Result<(), Exhausted> {
    for group in &intent.effective.groups {
        ids.allocate(&group_identity(&group.name))?;
        for number in 0..group.slots {
            ids.allocate(&slot_identity(&group.name, number))?;
        }
    }
    for local in intent.locals() {
        ids.allocate(&local_identity(local.vni, local.addr))?;
    }
    for vip in &intent.effective.vips {
        let id = ids.allocate(&vip_identity(vip))?;
        for server in &vip.servers {
            ids.allocate(&server_identity(id, server))?;
        }
    }
    for ld in &intent.effective.lds {
        if let Some((_, port)) = intent.effective.next_hop(0, ld.vtep) {
            ids.allocate(&Identity::Nexthop {
                port: port.number,
                addr: ld.vtep,
                tunnel: true,
            })?;
        }
    }
    for (_, addr, port) in entries::hosts(&intent.effective, ids) {
        ids.allocate(&Identity::Nexthop {
            port,
            addr,
            tunnel: false,
        })?;
    }
    Ok(())
}

/// The name of the LD that owns each slot of a group.
pub fn slot_owners(group: &Group) -> Vec<&str> {
    let names: Vec<&str> = group.lds.iter().map(String::as_str).collect();
    maglev::assign(&names, group.slots)
        .into_iter()
        .map(|index| names[index])
        .collect()
}

/// What identifies a VIP.
pub fn vip_identity(vip: &Vip) -> Identity {
    Identity::Vip {
        vni: vip.vni,
        protocol: vip.protocol.number(),
        addr: vip.address,
        port_low: vip.port.low(),
        port_high: vip.port.high(),
    }
}

/// What identifies a server of a VIP.
pub fn server_identity(vip_id: u16, server: &Server) -> Identity {
    Identity::Server {
        vip_id,
        addr: server.address,
        port: server.port.unwrap_or(0),
    }
}

/// What identifies a local address.
pub fn local_identity(vni: u32, addr: Ipv4Addr) -> Identity {
    Identity::Local { vni, addr }
}

/// What identifies a slot.
pub fn slot_identity(group: &str, number: u16) -> Identity {
    Identity::Slot {
        group: group.to_owned(),
        number,
    }
}

/// What identifies a group.
pub fn group_identity(name: &str) -> Identity {
    Identity::Group {
        name: name.to_owned(),
    }
}

/// Whether two VIPs claim one packet.
fn overlap(one: &Vip, other: &Vip) -> bool {
    let ports = |range: PortRange| (range.low(), range.high());
    let ((a, b), (c, d)) = (ports(one.port), ports(other.port));
    one.vni == other.vni
        && one.address == other.address
        && one.protocol == other.protocol
        && a <= d
        && c <= b
}
