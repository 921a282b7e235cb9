//! Traffic of many services and servers. Packets that follow each other have
//! neither in common, so most tables are asked something else each time.

use anyhow::Result;
use hw_tests::frame::{self, ACK, Addr, Ip, addr};
use hw_tests::scene::{
    self, CLIENT, CLIENT_MAC, GROUP, LIP, SERVER_MAC, SERVERS, Session, UPLINK, port_mac,
};
use p4_contract::Range;
use p4_contract::tables::{AnyEntry, vip_addr_v4, vip_v4};

use crate::traffic::{ETHERNET, SESSIONS};

/// Services, each with an address of its own.
const SERVICES: u16 = 64;
/// Servers behind them.
const BACKENDS: u16 = 250;

/// The first ids, beyond those of the scene.
const FIRST_VIP: u16 = 1000;
const FIRST_SERVER: u16 = 1000;

/// A session by number; its client's ports are not those of [`crate::traffic`].
fn session(number: u16) -> Session {
    Session {
        protocol: 6,
        client_port: 8192 + number,
        vip_id: FIRST_VIP + number % SERVICES,
        vip_port: 443,
        server_id: FIRST_SERVER + number % BACKENDS,
        local_id: 21,
        local_port: 30_000 + number,
    }
}

fn vip_of(service: u16) -> Addr {
    addr(10, 78, 0, service as u8)
}

fn server_of(backend: u16) -> Addr {
    addr(10, 2, 1, 4 + backend as u8)
}

/// Services, servers and sessions, beside those of the scene.
pub fn entries() -> Vec<AnyEntry> {
    let mut all = Vec::new();
    for service in 0..SERVICES {
        let dst = vip_of(service);
        let vip = vip_v4::Entry {
            key: vip_v4::Key {
                vni: 0,
                protocol: 6,
                dst,
                port: Range {
                    low: 443,
                    high: 443,
                },
            },
            action: vip_v4::Action::SetVip {
                vip_id: FIRST_VIP + service,
                group: GROUP,
            },
            priority: 10,
        };
        let address = vip_addr_v4::Entry {
            key: vip_addr_v4::Key { vni: 0, dst },
            action: vip_addr_v4::Action::SetVipAddr { group: GROUP },
        };
        all.extend([AnyEntry::from(vip), address.into()]);
    }
    for backend in 0..BACKENDS {
        all.push(scene::server(
            FIRST_SERVER + backend,
            server_of(backend),
            8443,
        ));
    }
    all.extend((0..SESSIONS).flat_map(|at| session(at).entries(0)));
    all
}

fn request(number: u16, length: usize) -> Result<Ip> {
    let client = (CLIENT, session(number).client_port);
    let packet = Ip::tcp(client, (vip_of(number % SERVICES), 443), ACK);
    packet.total(length - ETHERNET)
}

/// The clients' frames of all sessions, and what the servers must get of them.
pub fn frames(length: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    (0..SESSIONS)
        .map(|at| {
            let there = request(at, length)?;
            let frame = frame::ipv4(port_mac(UPLINK), CLIENT_MAC, &there)?;
            let rewritten = there
                .from(LIP, session(at).local_port)
                .to(server_of(at % BACKENDS), 8443)
                .routed();
            let out = frame::ipv4(SERVER_MAC, port_mac(SERVERS), &rewritten)?;
            Ok((frame, out))
        })
        .collect()
}
