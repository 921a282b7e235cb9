//! The gateway that the tests configure: its links, services, sessions.
//!
//! | port | attached | VLAN |
//! |---|---|---|
//! | 1 | clients, 10.1.0.0/24 (uplink) | untagged; 200 for tenant 7 |
//! | 2 | servers, 10.2.1.0/24 (fabric) | untagged |
//! | 3 | servers, 10.2.3.0/24 (fabric) | 30 |
//! | 4 | the load director, 10.3.0.2 | untagged |

use p4_contract::constants::BUCKETS;
use p4_contract::tables::{
    AnyEntry, bucket, egress_port, flow_fwd_v4, flow_rev_v4, ingress_port, lip_v4, local, nexthop,
    nexthop_mtu, route_v4, server, slot, vip_addr_v4, vip_out, vip_v4, vtep,
};
use p4_contract::{Lpm, PortRole, Range};

use crate::frame::{Addr, Ip, L4, Mac, Tunnel, addr, crc32};

/// Port of the clients.
pub const UPLINK: u16 = 1;
/// Port of the servers.
pub const SERVERS: u16 = 2;
/// Port of more servers, behind VLAN 30.
pub const TAGGED: u16 = 3;
/// Port of the load director.
pub const LD: u16 = 4;
/// All ports.
pub const PORTS: [u16; 4] = [UPLINK, SERVERS, TAGGED, LD];
/// Their MTU in bytes: a packet of 1550 bytes fits the tunnel.
pub const MTU: u16 = 1600;

/// VLAN of port [`TAGGED`].
pub const VLAN: u16 = 30;
/// VLAN on port [`UPLINK`] of the tenant.
pub const TENANT_VLAN: u16 = 200;
/// The tenant's network.
pub const TENANT: u32 = 7;

/// The switch's MAC address on a port.
pub const fn port_mac(port: u16) -> Mac {
    0x0200_0000_ff00 | port as Mac
}

/// MAC address of the client.
pub const CLIENT_MAC: Mac = 0x0200_0000_0101;
/// MAC address of [`SERVER`].
pub const SERVER_MAC: Mac = 0x0200_0000_0201;
/// MAC address of [`SMALL_SERVER`].
pub const SMALL_MAC: Mac = 0x0200_0000_0202;
/// MAC address of [`TAGGED_SERVER`].
pub const TAGGED_MAC: Mac = 0x0200_0000_0203;
/// MAC address of the load director.
pub const LD_MAC: Mac = 0x0200_0000_0301;

/// The client.
pub const CLIENT: Addr = addr(10, 1, 0, 2);
/// The server of most sessions.
pub const SERVER: Addr = addr(10, 2, 1, 2);
/// A server behind a link of [`SMALL_MTU`] bytes.
pub const SMALL_SERVER: Addr = addr(10, 2, 1, 3);
/// MTU towards [`SMALL_SERVER`].
pub const SMALL_MTU: u16 = 1400;
/// A server on port [`TAGGED`].
pub const TAGGED_SERVER: Addr = addr(10, 2, 3, 2);
/// The virtual address.
pub const VIP: Addr = addr(10, 100, 0, 10);
/// The first local address.
pub const LIP: Addr = addr(10, 9, 0, 1);
/// The second local address.
pub const LIP_2: Addr = addr(10, 9, 0, 2);
/// The switch's address towards clients.
pub const GATEWAY: Addr = addr(10, 1, 0, 1);
/// The switch's end of the tunnel.
pub const VTEP: Addr = addr(10, 3, 0, 1);
/// The load director's end of the tunnel.
pub const LD_VTEP: Addr = addr(10, 3, 0, 2);
/// A network that is reached through a tunnel without being steered.
pub const REMOTE: Addr = addr(10, 77, 0, 9);

/// `vip_id` of TCP port 80.
pub const WEB: u16 = 1;
/// `vip_id` of UDP port 53.
pub const DNS: u16 = 2;
/// `vip_id` of TCP ports 8000 to 8099.
pub const RANGE: u16 = 3;
/// `vip_id` of the tenant's TCP port 80.
pub const TENANT_WEB: u16 = 4;

/// `server_id`s. Ids of different kinds differ, so that one taken for the
/// other is noticed.
pub const WEB_SERVER: u16 = 101;
/// UDP.
pub const DNS_SERVER: u16 = 102;
/// Keeps the port.
pub const RANGE_SERVER: u16 = 103;
/// Behind the small MTU.
pub const SMALL_WEB_SERVER: u16 = 104;

/// Steering groups.
pub const GROUP: u16 = 51;
/// The group of [`RANGE`].
pub const RANGE_GROUP: u16 = 52;
/// `local_id`, address and slot of all local addresses: one for each slot.
pub const LOCALS: [(u16, Addr, u16); 4] = [
    (21, LIP, LIP_SLOT),
    (22, LIP_2, LIP_2_SLOT),
    (23, addr(10, 9, 0, 3), 13),
    (24, addr(10, 9, 0, 4), RANGE_SLOT),
];
/// The slot of [`LIP`].
pub const LIP_SLOT: u16 = 11;
/// The slot of [`LIP_2`].
pub const LIP_2_SLOT: u16 = 12;
/// The only slot of [`RANGE_GROUP`].
pub const RANGE_SLOT: u16 = 14;

/// Next hop to the client.
pub const NH_CLIENT: u16 = 10;
/// Next hop to [`SERVER`].
pub const NH_SERVER: u16 = 20;
/// Next hop to [`SMALL_SERVER`].
pub const NH_SMALL: u16 = 21;
/// Next hop to [`TAGGED_SERVER`].
pub const NH_TAGGED: u16 = 30;
/// Next hop to the load director, in the tunnel.
pub const NH_LD: u16 = 40;

/// A session with both its entries.
#[derive(Debug, Clone, Copy)]
pub struct Session {
    /// Protocol number.
    pub protocol: u8,
    /// The client's port.
    pub client_port: u16,
    /// VIP.
    pub vip_id: u16,
    /// The VIP's port that the client uses.
    pub vip_port: u16,
    /// Server.
    pub server_id: u16,
    /// Local address.
    pub local_id: u16,
    /// Local port.
    pub local_port: u16,
}

impl Session {
    /// Key of the entry for packets of the client.
    pub const fn forward_key(&self) -> flow_fwd_v4::Key {
        flow_fwd_v4::Key {
            vip_id: self.vip_id,
            vip_port: self.vip_port,
            client_addr: CLIENT,
            client_port: self.client_port,
        }
    }

    /// Key of the entry for replies.
    pub const fn reverse_key(&self) -> flow_rev_v4::Key {
        flow_rev_v4::Key {
            local_id: self.local_id,
            local_port: self.local_port,
            protocol: self.protocol,
        }
    }

    /// Both entries.
    pub fn entries(&self, idle_timeout_ns: i64) -> [AnyEntry; 2] {
        [
            flow_fwd_v4::Entry {
                key: self.forward_key(),
                action: flow_fwd_v4::Action::Fwd {
                    server_id: self.server_id,
                    local_id: self.local_id,
                    local_port: self.local_port,
                },
                idle_timeout_ns,
            }
            .into(),
            flow_rev_v4::Entry {
                key: self.reverse_key(),
                action: flow_rev_v4::Action::Rev {
                    client_addr: CLIENT,
                    client_port: self.client_port,
                    vip_id: self.vip_id,
                    vip_port: self.vip_port,
                    server_id: self.server_id,
                },
                idle_timeout_ns,
            }
            .into(),
        ]
    }
}

/// An offloaded TCP session.
pub const WEB_SESSION: Session = Session {
    protocol: 6,
    client_port: 40_000,
    vip_id: WEB,
    vip_port: 80,
    server_id: WEB_SERVER,
    local_id: 21,
    local_port: 20_001,
};

/// An offloaded UDP session.
pub const DNS_SESSION: Session = Session {
    protocol: 17,
    client_port: 40_001,
    vip_id: DNS,
    vip_port: 53,
    server_id: DNS_SERVER,
    local_id: 21,
    local_port: 20_002,
};

/// An offloaded TCP session of a service on a range of ports.
pub const RANGE_SESSION: Session = Session {
    protocol: 6,
    client_port: 40_002,
    vip_id: RANGE,
    vip_port: 8042,
    server_id: RANGE_SERVER,
    local_id: 22,
    local_port: 20_003,
};

/// An offloaded TCP session whose server is behind a small MTU.
pub const SMALL_SESSION: Session = Session {
    protocol: 6,
    client_port: 40_003,
    vip_id: WEB,
    vip_port: 80,
    server_id: SMALL_WEB_SERVER,
    local_id: 21,
    local_port: 20_004,
};

/// A route of network `vni`.
pub fn route(vni: u32, prefix: Addr, prefix_len: u32, nexthop_id: u16) -> AnyEntry {
    route_v4::Entry {
        key: route_v4::Key {
            vni,
            dst: Lpm {
                value: prefix,
                prefix_len,
            },
        },
        action: route_v4::Action::SetNexthop { nexthop_id },
    }
    .into()
}

/// A next hop on a link.
pub fn link(nexthop_id: u16, port: u16, dmac: Mac) -> AnyEntry {
    nexthop::Entry {
        key: nexthop::Key { nexthop_id },
        action: nexthop::Action::Forward {
            port,
            smac: port_mac(port),
            dmac,
        },
    }
    .into()
}

/// A next hop's MTU.
pub fn mtu(nexthop_id: u16, mtu: u16) -> AnyEntry {
    nexthop_mtu::Entry {
        key: nexthop_mtu::Key { nexthop_id },
        action: nexthop_mtu::Action::SetMtu { mtu },
    }
    .into()
}

/// A service.
pub fn vip(vip_id: u16, vni: u32, protocol: u8, ports: (u16, u16), group: u16) -> AnyEntry {
    vip_v4::Entry {
        key: vip_v4::Key {
            vni,
            protocol,
            dst: VIP,
            port: Range {
                low: ports.0,
                high: ports.1,
            },
        },
        action: vip_v4::Action::SetVip { vip_id, group },
        priority: 10,
    }
    .into()
}

/// A server.
pub fn server(server_id: u16, addr: Addr, port: u16) -> AnyEntry {
    server::Entry {
        key: server::Key { server_id },
        action: server::Action::SetServer { addr, port },
    }
    .into()
}

/// A local address as the source of rewritten packets.
pub fn local(local_id: u16, addr: Addr) -> AnyEntry {
    local::Entry {
        key: local::Key { local_id },
        action: local::Action::SetLocal { addr },
    }
    .into()
}

/// A VIP as the source of rewritten replies.
pub fn vip_out(vip_id: u16) -> AnyEntry {
    vip_out::Entry {
        key: vip_out::Key { vip_id },
        action: vip_out::Action::SetVipOut { addr: VIP },
    }
    .into()
}

/// A steering bucket.
pub fn bucket(group: u16, bucket: u16, slot: u16) -> AnyEntry {
    bucket::Entry {
        key: bucket::Key { group, bucket },
        action: bucket::Action::SetSlot { slot },
    }
    .into()
}

/// A slot, owned by the load director.
pub fn slot(slot: u16) -> AnyEntry {
    slot::Entry {
        key: slot::Key { slot },
        action: slot::Action::ToLd { nexthop_id: NH_LD },
    }
    .into()
}

/// A port that packets leave by; `vid` 0 is untagged.
pub fn egress(port: u16, vid: u16) -> AnyEntry {
    egress_port::Entry {
        key: egress_port::Key { port },
        action: match vid {
            0 => egress_port::Action::Untagged,
            vid => egress_port::Action::Tag { vid },
        },
    }
    .into()
}

/// An end of tunnels.
pub fn tunnel_end(dst: Addr) -> AnyEntry {
    vtep::Entry {
        key: vtep::Key { dst },
        action: vtep::Action::Decap,
    }
    .into()
}

fn ingress(port: u16, vid: u16, role: PortRole, vni: u32) -> AnyEntry {
    ingress_port::Entry {
        key: ingress_port::Key { port, vid },
        action: ingress_port::Action::SetPort {
            role,
            vni,
            mac: port_mac(port),
        },
    }
    .into()
}

fn own_address(dst: Addr) -> AnyEntry {
    route_v4::Entry {
        key: route_v4::Key {
            vni: 0,
            dst: Lpm {
                value: dst,
                prefix_len: 32,
            },
        },
        action: route_v4::Action::ToCpu,
    }
    .into()
}

fn vip_addr(vni: u32) -> AnyEntry {
    vip_addr_v4::Entry {
        key: vip_addr_v4::Key { vni, dst: VIP },
        action: vip_addr_v4::Action::SetVipAddr { group: GROUP },
    }
    .into()
}

fn lip(vni: u32, dst: Addr, local_id: u16, slot: u16) -> AnyEntry {
    lip_v4::Entry {
        key: lip_v4::Key { vni, dst },
        action: lip_v4::Action::SetLip { local_id, slot },
    }
    .into()
}

fn tunnelled(nexthop_id: u16) -> AnyEntry {
    nexthop::Entry {
        key: nexthop::Key { nexthop_id },
        action: nexthop::Action::Vxlan {
            port: LD,
            smac: port_mac(LD),
            dmac: LD_MAC,
            src: VTEP,
            dst: LD_VTEP,
        },
    }
    .into()
}

/// Slot of a bucket of [`GROUP`].
pub fn slot_of_bucket(bucket: u16) -> u16 {
    LIP_SLOT + bucket % 3
}

/// Everything that the packet suite configures before its first case.
pub fn entries() -> Vec<AnyEntry> {
    let mut all = configuration();
    for session in [WEB_SESSION, DNS_SESSION, RANGE_SESSION, SMALL_SESSION] {
        all.extend(session.entries(0));
    }
    all
}

/// The configuration without sessions.
pub fn configuration() -> Vec<AnyEntry> {
    let mut all = vec![
        ingress(UPLINK, 0, PortRole::Uplink, 0),
        ingress(UPLINK, TENANT_VLAN, PortRole::Uplink, TENANT),
        ingress(SERVERS, 0, PortRole::Fabric, 0),
        ingress(TAGGED, VLAN, PortRole::Fabric, 0),
        ingress(LD, 0, PortRole::Ld, 0),
        egress(UPLINK, 0),
        egress(SERVERS, 0),
        egress(TAGGED, VLAN),
        egress(LD, 0),
        tunnel_end(VTEP),
        vip(WEB, 0, 6, (80, 80), GROUP),
        vip(DNS, 0, 17, (53, 53), GROUP),
        vip(RANGE, 0, 6, (8000, 8099), RANGE_GROUP),
        vip(TENANT_WEB, TENANT, 6, (80, 80), GROUP),
        vip_addr(0),
        vip_addr(TENANT),
        server(WEB_SERVER, SERVER, 8080),
        server(DNS_SERVER, SERVER, 5353),
        server(RANGE_SERVER, TAGGED_SERVER, 0),
        server(SMALL_WEB_SERVER, SMALL_SERVER, 8080),
        vip_out(WEB),
        vip_out(DNS),
        vip_out(RANGE),
        route(0, addr(10, 1, 0, 0), 24, NH_CLIENT),
        own_address(GATEWAY),
        own_address(VTEP),
        route(0, addr(10, 2, 1, 0), 24, NH_SERVER),
        route(0, SMALL_SERVER, 32, NH_SMALL),
        route(0, addr(10, 2, 3, 0), 24, NH_TAGGED),
        route(0, addr(10, 77, 0, 0), 16, NH_LD),
        route(TENANT, addr(10, 1, 0, 0), 24, NH_TAGGED),
        link(NH_CLIENT, UPLINK, CLIENT_MAC),
        link(NH_SERVER, SERVERS, SERVER_MAC),
        link(NH_SMALL, SERVERS, SMALL_MAC),
        link(NH_TAGGED, TAGGED, TAGGED_MAC),
        tunnelled(NH_LD),
        mtu(NH_CLIENT, 1550),
        mtu(NH_SERVER, 1550),
        mtu(NH_SMALL, SMALL_MTU),
        mtu(NH_LD, 1550),
    ];
    for (local_id, addr, slot) in LOCALS {
        all.push(lip(0, addr, local_id, slot));
        all.push(local(local_id, addr));
    }
    for at in 0..BUCKETS {
        all.push(bucket(GROUP, at, slot_of_bucket(at)));
        all.push(bucket(RANGE_GROUP, at, RANGE_SLOT));
    }
    all.extend([11, 12, 13, RANGE_SLOT].map(slot));
    all
}

/// The flow hash of the table contract: CRC-32 over source, destination,
/// protocol and, where a packet shows ports, both of these, else zeros.
pub fn flow_hash(packet: &Ip) -> u32 {
    let whole = !packet.mf && packet.offset == 0;
    let (protocol, src_port, dst_port) = match &packet.l4 {
        L4::Tcp { src, dst, .. } => (6, *src, *dst),
        L4::Udp { src, dst, .. } => (17, *src, *dst),
        L4::Icmp { .. } => (1, 0, 0),
        L4::Raw(number) => (*number, 0, 0),
    };
    let (src_port, dst_port) = if whole { (src_port, dst_port) } else { (0, 0) };
    let mut bytes = Vec::new();
    bytes.extend(packet.src.to_be_bytes());
    bytes.extend(packet.dst.to_be_bytes());
    bytes.push(protocol);
    bytes.extend(src_port.to_be_bytes());
    bytes.extend(dst_port.to_be_bytes());
    crc32(&bytes)
}

/// The tunnel to the load director with the slot as Group Policy ID.
pub fn to_ld(sport: u16, slot: u16, vni: u32) -> Tunnel {
    Tunnel {
        dmac: LD_MAC,
        smac: port_mac(LD),
        src: VTEP,
        dst: LD_VTEP,
        sport,
        flags: 0x88,
        group: slot,
        vni,
    }
}

/// The tunnel from the load director.
pub fn from_ld(vni: u32) -> Tunnel {
    Tunnel {
        dmac: port_mac(LD),
        smac: LD_MAC,
        src: LD_VTEP,
        dst: VTEP,
        sport: 0xc123,
        flags: 0x08,
        group: 0,
        vni,
    }
}

/// Outer source port of a packet steered by its hash.
pub fn hashed_port(packet: &Ip) -> u16 {
    0xc000 | ((flow_hash(packet) >> 8) & 0x3fff) as u16
}

/// Slot of a packet to a service of [`GROUP`].
pub fn slot_of(packet: &Ip) -> u16 {
    slot_of_bucket((flow_hash(packet) & 0xff) as u16)
}
