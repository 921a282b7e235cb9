//! The gateway program's fast path: configuration, a flow in each direction,
//! and the packets that they carry.

use std::sync::Arc;

use softswitch::{Program, Switch, SwitchConfig};

use crate::build::{exact, insert, lpm, range};

/// Addresses of the scene.
pub(crate) const VIP: u32 = 0x0a64_000a;
pub(crate) const CLIENT: u32 = 0x0a01_0002;
pub(crate) const LOCAL: u32 = 0x0a09_0001;
pub(crate) const SERVER: u32 = 0x0a02_0102;
const MAC_CLIENT_SIDE: u128 = 0x0200_0000_aa01;
const MAC_SERVER_SIDE: u128 = 0x0200_0000_aa02;
const MAC_SERVER: u128 = 0x0200_0000_0201;
const MAC_CLIENT: u128 = 0x0200_0000_0101;

/// The program as it is committed.
pub(crate) fn program() -> Program {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/build/gateway.json");
    Program::load(&std::fs::read(path).unwrap()).unwrap()
}

/// A switch with ports, a VIP, a server, routes, and `flows` flows in both
/// directions: client port `1024 + i` of client `CLIENT + (i >> 15)`.
pub(crate) fn switch(flows: u32) -> Arc<Switch> {
    let s = Switch::new(SwitchConfig {
        cpu_port: Some(510),
        ..SwitchConfig::default()
    });
    s.install(program());
    // Role uplink, VNI 0, the port's own address.
    insert(
        &s,
        "ingress_port.ingress_port",
        vec![exact(1), exact(0)],
        0,
        "set_port",
        &[1, 0, MAC_CLIENT_SIDE],
    );
    insert(
        &s,
        "ingress_port.ingress_port",
        vec![exact(2), exact(0)],
        0,
        "set_port",
        &[2, 0, MAC_SERVER_SIDE],
    );
    for port in [1, 2] {
        insert(
            &s,
            "egress_port.egress_port",
            vec![exact(port)],
            0,
            "untagged",
            &[],
        );
    }
    insert(
        &s,
        "class.vip_v4",
        vec![exact(0), exact(6), exact(VIP.into()), range(80, 80)],
        10,
        "set_vip",
        &[7, 1],
    );
    insert(
        &s,
        "class.vip_addr_v4",
        vec![exact(0), exact(VIP.into())],
        0,
        "set_vip_addr",
        &[1],
    );
    insert(
        &s,
        "class.lip_v4",
        vec![exact(0), exact(LOCAL.into())],
        0,
        "set_lip",
        &[3, 1],
    );
    insert(
        &s,
        "fast_path.server",
        vec![exact(5)],
        0,
        "set_server",
        &[SERVER.into(), 8080],
    );
    insert(
        &s,
        "fast_path.local",
        vec![exact(3)],
        0,
        "set_local",
        &[LOCAL.into()],
    );
    insert(
        &s,
        "fast_path.vip_out",
        vec![exact(7)],
        0,
        "set_vip_out",
        &[VIP.into()],
    );
    insert(
        &s,
        "routing.route_v4",
        vec![exact(0), lpm(0x0a02_0100, 24)],
        0,
        "set_nexthop",
        &[2],
    );
    insert(
        &s,
        "routing.route_v4",
        vec![exact(0), lpm(0x0a01_0000, 16)],
        0,
        "set_nexthop",
        &[1],
    );
    for hop in [1, 2] {
        insert(
            &s,
            "routing.nexthop_mtu",
            vec![exact(hop)],
            0,
            "set_mtu",
            &[1500],
        );
    }
    insert(
        &s,
        "nexthop.nexthop",
        vec![exact(1)],
        0,
        "forward",
        &[1, MAC_CLIENT_SIDE, MAC_CLIENT],
    );
    insert(
        &s,
        "nexthop.nexthop",
        vec![exact(2)],
        0,
        "forward",
        &[2, MAC_SERVER_SIDE, MAC_SERVER],
    );
    for i in 0..flows {
        let client = u128::from(CLIENT + (i >> 15));
        let port = u128::from(1024 + (i & 0x7fff));
        let local_port = u128::from(1024 + i % 64_000);
        insert(
            &s,
            "fast_path.flow_fwd_v4",
            vec![exact(7), exact(80), exact(client), exact(port)],
            0,
            "fwd",
            &[5, 3, local_port],
        );
        if i < 64_000 {
            insert(
                &s,
                "fast_path.flow_rev_v4",
                vec![exact(3), exact(local_port), exact(6)],
                0,
                "rev",
                &[client, port, 7, 80, 5],
            );
        }
    }
    s
}

/// The one's complement sum of some bytes, folded.
fn sum(bytes: &[u8], start: u32) -> u32 {
    let mut s = start;
    for pair in bytes.chunks(2) {
        s += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    }
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    s
}

/// An Ethernet frame with an IPv4 TCP segment (flags ACK) of `len` payload
/// bytes, all checksums right.
#[allow(clippy::too_many_arguments)]
pub(crate) fn tcp(
    dst_mac: u64,
    src_mac: u64,
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    ttl: u8,
    len: usize,
) -> Vec<u8> {
    let mut f = Vec::new();
    f.extend_from_slice(&dst_mac.to_be_bytes()[2..]);
    f.extend_from_slice(&src_mac.to_be_bytes()[2..]);
    f.extend_from_slice(&[8, 0]);
    let total = u16::try_from(40 + len).unwrap();
    let mut ip = vec![0x45, 0];
    ip.extend_from_slice(&total.to_be_bytes());
    ip.extend_from_slice(&[0x12, 0x34, 0x40, 0, ttl, 6, 0, 0]);
    ip.extend_from_slice(&src.to_be_bytes());
    ip.extend_from_slice(&dst.to_be_bytes());
    let c = !(sum(&ip, 0) as u16);
    ip[10..12].copy_from_slice(&c.to_be_bytes());
    let mut seg = Vec::new();
    seg.extend_from_slice(&sport.to_be_bytes());
    seg.extend_from_slice(&dport.to_be_bytes());
    seg.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    seg.extend((0..len).map(|i| (i * 7) as u8));
    let pseudo = sum(&ip[12..20], 6 + u32::from(total) - 20);
    let c = !(sum(&seg, pseudo) as u16);
    seg[16..18].copy_from_slice(&c.to_be_bytes());
    f.extend_from_slice(&ip);
    f.extend_from_slice(&seg);
    f
}

/// A request of flow `i` as it arrives on port 1.
pub(crate) fn request(i: u32, len: usize) -> Vec<u8> {
    let port = 1024 + (i & 0x7fff) as u16;
    tcp(
        MAC_CLIENT_SIDE as u64,
        MAC_CLIENT as u64,
        CLIENT + (i >> 15),
        VIP,
        port,
        80,
        64,
        len,
    )
}

/// The same request as it must leave on port 2.
pub(crate) fn request_out(i: u32, len: usize) -> Vec<u8> {
    let local = 1024 + (i % 64_000) as u16;
    tcp(
        MAC_SERVER as u64,
        MAC_SERVER_SIDE as u64,
        LOCAL,
        SERVER,
        local,
        8080,
        63,
        len,
    )
}

/// The reply of flow `i` as it arrives on port 2.
pub(crate) fn reply(i: u32, len: usize) -> Vec<u8> {
    let local = 1024 + (i % 64_000) as u16;
    tcp(
        MAC_SERVER_SIDE as u64,
        MAC_SERVER as u64,
        SERVER,
        LOCAL,
        8080,
        local,
        64,
        len,
    )
}

/// The same reply as it must leave on port 1.
pub(crate) fn reply_out(i: u32, len: usize) -> Vec<u8> {
    let port = 1024 + (i & 0x7fff) as u16;
    tcp(
        MAC_CLIENT as u64,
        MAC_CLIENT_SIDE as u64,
        VIP,
        CLIENT + (i >> 15),
        80,
        port,
        63,
        len,
    )
}
