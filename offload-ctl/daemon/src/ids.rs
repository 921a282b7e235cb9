//! Small numbers for the objects of the configuration.
//!
//! Entries on the switch hold 16-bit ids, so an id must mean one thing for as
//! long as an entry may carry it, across restarts and new configurations. An
//! object is recognised by what it is (addresses and ports), not by its place
//! in a file; an id that went free is used again only after all others were.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Kinds of objects, each with ids of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Virtual addresses with protocol and ports.
    Vip,
    /// Servers, one for each (VIP, address, port).
    Server,
    /// Local addresses.
    Local,
    /// Steering slots.
    Slot,
    /// Next hops.
    Nexthop,
    /// Groups of load directors.
    Group,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [
        Kind::Vip,
        Kind::Server,
        Kind::Local,
        Kind::Slot,
        Kind::Nexthop,
        Kind::Group,
    ];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Vip => "VIP",
            Kind::Server => "server",
            Kind::Local => "local address",
            Kind::Slot => "slot",
            Kind::Nexthop => "next hop",
            Kind::Group => "group",
        }
    }
}

/// What an id stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Identity {
    Vip {
        vni: u32,
        protocol: u8,
        addr: Ipv4Addr,
        port_low: u16,
        port_high: u16,
    },
    /// `port` 0: the VIP's port is kept.
    Server {
        vip_id: u16,
        addr: Ipv4Addr,
        port: u16,
    },
    Local {
        vni: u32,
        addr: Ipv4Addr,
    },
    /// A slot of a group, counted from 0.
    Slot {
        group: String,
        number: u16,
    },
    /// A neighbour on a port; `tunnel` for the VXLAN tunnel to it.
    Nexthop {
        port: u16,
        addr: Ipv4Addr,
        tunnel: bool,
    },
    Group {
        name: String,
    },
}

impl Identity {
    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        match self {
            Identity::Vip { .. } => Kind::Vip,
            Identity::Server { .. } => Kind::Server,
            Identity::Local { .. } => Kind::Local,
            Identity::Slot { .. } => Kind::Slot,
            Identity::Nexthop { .. } => Kind::Nexthop,
            Identity::Group { .. } => Kind::Group,
        }
    }
}

/// No id is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {limit} ids for a {} are in use; remove some from the configuration first", .kind.name())]
pub struct Exhausted {
    /// Of which kind.
    pub kind: Kind,
    /// How many there are.
    pub limit: u16,
}

/// Largest id of each kind: the sizes of the switch's tables less id 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// VIPs.
    pub vips: u16,
    /// Servers.
    pub servers: u16,
    /// Local addresses.
    pub locals: u16,
    /// Slots.
    pub slots: u16,
    /// Next hops.
    pub nexthops: u16,
    /// Groups.
    pub groups: u16,
}

impl Limits {
    fn of(&self, kind: Kind) -> u16 {
        match kind {
            Kind::Vip => self.vips,
            Kind::Server => self.servers,
            Kind::Local => self.locals,
            Kind::Slot => self.slots,
            Kind::Nexthop => self.nexthops,
            Kind::Group => self.groups,
        }
    }
}

/// All ids in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdBook {
    limits: Limits,
    by_id: BTreeMap<(Kind, u16), Identity>,
    by_identity: HashMap<Identity, u16>,
    last: BTreeMap<Kind, u16>,
}

impl IdBook {
    /// An empty book.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            by_id: BTreeMap::new(),
            by_identity: HashMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// The id of an object; a new one if it has none.
    ///
    /// # Errors
    /// [`Exhausted`] if there is none left.
    pub fn allocate(&mut self, identity: &Identity) -> Result<u16, Exhausted> {
        if let Some(&id) = self.by_identity.get(identity) {
            return Ok(id);
        }
        let kind = identity.kind();
        let limit = self.limits.of(kind);
        let last = self.last.get(&kind).copied().unwrap_or(0);
        // Next after the last one given, so that a freed id rests longest.
        let id = (1..=limit)
            .map(|step| {
                let at = u32::from(last) + u32::from(step) - 1;
                // The remainder is below `limit`, which is a u16.
                (at % u32::from(limit)) as u16 + 1
            })
            .find(|&id| !self.by_id.contains_key(&(kind, id)))
            .ok_or(Exhausted { kind, limit })?;
        self.insert(id, identity.clone());
        self.last.insert(kind, id);
        Ok(id)
    }

    /// The id of an object, if it has one.
    pub fn find(&self, identity: &Identity) -> Option<u16> {
        self.by_identity.get(identity).copied()
    }

    /// What an id stands for.
    pub fn identity(&self, kind: Kind, id: u16) -> Option<&Identity> {
        self.by_id.get(&(kind, id))
    }

    /// Frees an id.
    pub fn release(&mut self, kind: Kind, id: u16) {
        if let Some(identity) = self.by_id.remove(&(kind, id)) {
            self.by_identity.remove(&identity);
        }
    }

    /// All ids of a kind with what they stand for.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (u16, &Identity)> {
        self.by_id
            .range((kind, 0)..=(kind, u16::MAX))
            .map(|(&(_, id), identity)| (id, identity))
    }

    /// All ids, for the store.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u16, &Identity)> {
        self.by_id
            .iter()
            .map(|(&(kind, id), identity)| (kind, id, identity))
    }

    /// The id given last of each kind, for the store.
    pub fn cursors(&self) -> impl Iterator<Item = (Kind, u16)> {
        self.last.iter().map(|(&kind, &id)| (kind, id))
    }

    /// Puts back an id from the store.
    pub fn insert(&mut self, id: u16, identity: Identity) {
        self.by_identity.insert(identity.clone(), id);
        self.by_id.insert((identity.kind(), id), identity);
    }

    /// Puts back the id given last from the store.
    pub fn set_cursor(&mut self, kind: Kind, id: u16) {
        self.last.insert(kind, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        vips: 3,
        servers: 3,
        locals: 3,
        slots: 3,
        nexthops: 3,
        groups: 3,
    };

    fn local(last: u8) -> Identity {
        Identity::Local {
            vni: 0,
            addr: Ipv4Addr::new(10, 9, 0, last),
        }
    }

    #[test]
    fn ids_start_at_one_and_stay() {
        let mut book = IdBook::new(LIMITS);
        assert_eq!(book.allocate(&local(1)), Ok(1));
        assert_eq!(book.allocate(&local(2)), Ok(2));
        assert_eq!(book.allocate(&local(1)), Ok(1));
        assert_eq!(book.identity(Kind::Local, 2), Some(&local(2)));
        assert_eq!(book.identity(Kind::Vip, 2), None);
    }

    #[test]
    fn a_freed_id_rests_until_the_others_were_used() {
        let mut book = IdBook::new(LIMITS);
        for last in 1..=2 {
            book.allocate(&local(last)).unwrap();
        }
        book.release(Kind::Local, 1);
        assert_eq!(book.allocate(&local(3)), Ok(3));
        assert_eq!(book.allocate(&local(4)), Ok(1));
        assert_eq!(
            book.allocate(&local(5)),
            Err(Exhausted {
                kind: Kind::Local,
                limit: 3
            })
        );
    }
}
