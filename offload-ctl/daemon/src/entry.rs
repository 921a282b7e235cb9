//! The entries that offload-ctl puts on a switch, one variant a table.
//!
//! These are what the rest of the daemon reasons in: numbers of the right
//! width, comparable by meaning. How they look on the wire is `wire`'s affair.

use std::net::Ipv4Addr;

/// A table of the pipeline that offload-ctl writes.
///
/// The order of the variants is the order in which additions are safe: a table
/// comes after those that its entries lead to. Deletions go the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Tagging of what leaves a port.
    EgressPort,
    /// Where a next hop is.
    Nexthop,
    /// The largest packet towards a next hop.
    NexthopMtu,
    /// Longest-prefix routes.
    RouteV4,
    /// The LD of a steering slot.
    Slot,
    /// Maglev buckets of a group.
    Bucket,
    /// Servers' addresses.
    Server,
    /// Local addresses.
    Local,
    /// VIPs' addresses as sources of replies.
    VipOut,
    /// Tunnel ends of the switch.
    Vtep,
    /// Classification of local addresses.
    LipV4,
    /// Classification of VIPs' addresses without a port.
    VipAddrV4,
    /// Classification of VIPs.
    VipV4,
    /// Roles of ports.
    IngressPort,
    /// Clients' direction of offloaded flows.
    FlowFwdV4,
    /// Servers' direction of offloaded flows.
    FlowRevV4,
}

impl Table {
    /// All tables, in the order in which additions are safe.
    pub const ALL: [Table; 16] = [
        Table::EgressPort,
        Table::Nexthop,
        Table::NexthopMtu,
        Table::RouteV4,
        Table::Slot,
        Table::Bucket,
        Table::Server,
        Table::Local,
        Table::VipOut,
        Table::Vtep,
        Table::LipV4,
        Table::VipAddrV4,
        Table::VipV4,
        Table::IngressPort,
        Table::FlowFwdV4,
        Table::FlowRevV4,
    ];

    /// Whether the table holds offloaded flows rather than configuration.
    pub fn is_flow(self) -> bool {
        matches!(self, Table::FlowFwdV4 | Table::FlowRevV4)
    }

    /// The tables that hold configuration.
    pub fn config() -> impl Iterator<Item = Table> {
        Self::ALL.into_iter().filter(|table| !table.is_flow())
    }
}

/// What identifies an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the fields are the keys of docs/table-contract.md
pub enum Key {
    EgressPort {
        port: u16,
    },
    Nexthop {
        id: u16,
    },
    NexthopMtu {
        id: u16,
    },
    RouteV4 {
        vni: u32,
        addr: Ipv4Addr,
        len: u8,
    },
    Slot {
        slot: u16,
    },
    Bucket {
        group: u16,
        bucket: u16,
    },
    Server {
        id: u16,
    },
    Local {
        id: u16,
    },
    VipOut {
        id: u16,
    },
    Vtep {
        addr: Ipv4Addr,
    },
    LipV4 {
        vni: u32,
        addr: Ipv4Addr,
    },
    VipAddrV4 {
        vni: u32,
        addr: Ipv4Addr,
    },
    VipV4 {
        vni: u32,
        protocol: u8,
        addr: Ipv4Addr,
        port_low: u16,
        port_high: u16,
    },
    IngressPort {
        port: u16,
        vid: u16,
    },
    FlowFwd(FwdKey),
    FlowRev(RevKey),
}

/// Key of the clients' direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FwdKey {
    /// The VIP.
    pub vip_id: u16,
    /// Destination port of the client's packets.
    pub vip_port: u16,
    /// The client's address.
    pub client_addr: Ipv4Addr,
    /// The client's port.
    pub client_port: u16,
}

/// Key of the servers' direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RevKey {
    /// The local address.
    pub local_id: u16,
    /// The local port, destination of the server's packets.
    pub local_port: u16,
    /// IP protocol number.
    pub protocol: u8,
}

/// What the switch does in a port's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Towards clients.
    Uplink,
    /// Towards servers.
    Fabric,
    /// Towards a load director.
    Ld,
}

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the fields are the action parameters of docs/table-contract.md
pub enum Value {
    Untagged,
    Tag {
        vid: u16,
    },
    Forward {
        port: u16,
        smac: u64,
        dmac: u64,
    },
    Vxlan {
        port: u16,
        smac: u64,
        dmac: u64,
        src: Ipv4Addr,
        dst: Ipv4Addr,
    },
    Mtu {
        mtu: u16,
    },
    ToNexthop {
        nexthop_id: u16,
    },
    ToCpu,
    ToLd {
        nexthop_id: u16,
    },
    ToSlot {
        slot: u16,
    },
    Server {
        addr: Ipv4Addr,
        port: u16,
    },
    Local {
        addr: Ipv4Addr,
    },
    VipOut {
        addr: Ipv4Addr,
    },
    Decap,
    Lip {
        local_id: u16,
        slot: u16,
    },
    VipAddr {
        group: u16,
    },
    Vip {
        vip_id: u16,
        group: u16,
    },
    Port {
        role: Role,
        vni: u32,
        mac: u64,
    },
    Fwd {
        server_id: u16,
        local_id: u16,
        local_port: u16,
    },
    Rev {
        client_addr: Ipv4Addr,
        client_port: u16,
        vip_id: u16,
        vip_port: u16,
        server_id: u16,
    },
}

/// One entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What identifies it.
    pub key: Key,
    /// What it does.
    pub value: Value,
    /// Idle timeout in ms, 0 for none. Flow entries always have one.
    pub idle_timeout_ms: u32,
}

impl Key {
    /// The table that the key belongs to.
    pub fn table(&self) -> Table {
        match self {
            Key::EgressPort { .. } => Table::EgressPort,
            Key::Nexthop { .. } => Table::Nexthop,
            Key::NexthopMtu { .. } => Table::NexthopMtu,
            Key::RouteV4 { .. } => Table::RouteV4,
            Key::Slot { .. } => Table::Slot,
            Key::Bucket { .. } => Table::Bucket,
            Key::Server { .. } => Table::Server,
            Key::Local { .. } => Table::Local,
            Key::VipOut { .. } => Table::VipOut,
            Key::Vtep { .. } => Table::Vtep,
            Key::LipV4 { .. } => Table::LipV4,
            Key::VipAddrV4 { .. } => Table::VipAddrV4,
            Key::VipV4 { .. } => Table::VipV4,
            Key::IngressPort { .. } => Table::IngressPort,
            Key::FlowFwd(_) => Table::FlowFwdV4,
            Key::FlowRev(_) => Table::FlowRevV4,
        }
    }
}

impl Entry {
    /// An entry of a configuration table.
    pub fn new(key: Key, value: Value) -> Self {
        Self {
            key,
            value,
            idle_timeout_ms: 0,
        }
    }
}
