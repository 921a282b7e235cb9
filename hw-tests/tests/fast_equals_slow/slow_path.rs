//! The slow way: a switch without flow entries, and the session engine behind
//! its tunnel, in the place of the load director's process.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use hw_tests::frame::{self, ACK, Addr, Ip, Mac, SYN, addr};
use hw_tests::scene::{
    self, CLIENT_MAC, DNS, DNS_SERVER, LD, LOCALS, RANGE, RANGE_SERVER, SERVER, SERVER_MAC,
    SERVERS, TAGGED, TAGGED_MAC, TAGGED_SERVER, UPLINK, VIP, VLAN, WEB, WEB_SERVER, from_ld,
    port_mac,
};
use p4_contract::tables::{AnyEntry, flow_fwd_v4, flow_rev_v4};
use session_engine::{
    DropReason, Effect, Engine, EngineConfig, FlowPair, HashKeys, Local, OffloadPolicy, PacketIn,
    Protocol, Scheduler, Server, ServerState, Snapshot, SnapshotSpec, Tick, Timeouts, Verdict, Vip,
};

use crate::gateway::Gateway;

/// Where the inner packet begins: Ethernet, IPv4, UDP, VXLAN, Ethernet.
const INNER: usize = 14 + 20 + 8 + 8 + 14;
/// Where the VXLAN header begins.
const VXLAN: usize = 14 + 20 + 8;

/// Sessions of each service.
const EACH: u16 = 8;

/// A session that both sides have agreed on, with the entries that the engine
/// asked for.
#[derive(Debug, Clone)]
pub struct Established {
    /// The tuple and the switch's ids.
    pub flow: FlowPair,
    /// The server's address and port, as its packets have them.
    pub server: (Addr, u16),
    /// The local address.
    pub local: Addr,
    /// The port of the switch that the server is behind.
    pub port: u16,
}

impl Established {
    /// The entries of both directions.
    pub fn entries(&self) -> [AnyEntry; 2] {
        let flow = &self.flow;
        let client_addr = flow.client.to_bits();
        [
            flow_fwd_v4::Entry {
                key: flow_fwd_v4::Key {
                    vip_id: flow.vip_id,
                    vip_port: flow.vip_port,
                    client_addr,
                    client_port: flow.client_port,
                },
                action: flow_fwd_v4::Action::Fwd {
                    server_id: flow.server_id,
                    local_id: flow.local_id,
                    local_port: flow.local_port,
                },
                idle_timeout_ns: 0,
            }
            .into(),
            flow_rev_v4::Entry {
                key: flow_rev_v4::Key {
                    local_id: flow.local_id,
                    local_port: flow.local_port,
                    protocol: flow.protocol.number(),
                },
                action: flow_rev_v4::Action::Rev {
                    client_addr,
                    client_port: flow.client_port,
                    vip_id: flow.vip_id,
                    vip_port: flow.vip_port,
                    server_id: flow.server_id,
                },
                idle_timeout_ns: 0,
            }
            .into(),
        ]
    }

    /// MAC address of the server, and the switch's towards it.
    pub fn macs(&self) -> (Mac, Mac) {
        let server = if self.port == TAGGED {
            TAGGED_MAC
        } else {
            SERVER_MAC
        };
        (server, port_mac(self.port))
    }

    /// A frame of the client.
    pub fn client_frame(&self, packet: &[u8]) -> Vec<u8> {
        frame::ethernet(port_mac(UPLINK), CLIENT_MAC, 0x0800, packet)
    }

    /// A frame of the server.
    pub fn server_frame(&self, packet: &[u8]) -> Vec<u8> {
        let (server, switch) = self.macs();
        self.tag(frame::ethernet(switch, server, 0x0800, packet))
    }

    /// A frame to the server.
    pub fn to_server(&self, packet: &[u8]) -> Vec<u8> {
        let (server, switch) = self.macs();
        self.tag(frame::ethernet(server, switch, 0x0800, packet))
    }

    /// A frame to the client.
    pub fn to_client(&self, packet: &[u8]) -> Vec<u8> {
        frame::ethernet(CLIENT_MAC, port_mac(UPLINK), 0x0800, packet)
    }

    fn tag(&self, frame: Vec<u8>) -> Vec<u8> {
        match self.port {
            TAGGED => frame::tagged(&frame, 0x8100, VLAN),
            _ => frame,
        }
    }
}

/// A gateway and its load director.
pub struct SlowPath<G> {
    gateway: G,
    engine: Engine,
}

impl<G: Gateway> SlowPath<G> {
    /// A load director with the services of the scene.
    pub fn new(gateway: G) -> Result<Self> {
        let mut config = EngineConfig::new(1, HashKeys::from_seed(1));
        config.max_records = 1 << 16;
        let mut engine = Engine::new(config)?;
        engine.set_snapshot(Arc::new(Snapshot::build(services())?));
        Ok(Self { gateway, engine })
    }

    /// What leaves the gateway in the end. Fails if the packet did not go by
    /// the engine, or if the engine did anything but forward it.
    pub fn pass(&mut self, port: u16, frame: &[u8]) -> Result<Option<(u16, Vec<u8>)>> {
        let Some((out, tunnelled)) = self.gateway.pass(port, frame)? else {
            return Ok(None);
        };
        ensure!(out == LD, "left by port {out}, not to the load director");
        let mut packet = tunnelled.get(INNER..).context("no packet inside")?.to_vec();
        let vxlan: [u8; 8] = tunnelled[VXLAN..VXLAN + 8].try_into()?;
        ensure!(vxlan[0] == 0x88, "VNI and Group Policy ID");
        let slot = u16::from_be_bytes([vxlan[2], vxlan[3]]);
        let vni = u32::from_be_bytes([0, vxlan[4], vxlan[5], vxlan[6]]);
        let mut verdicts = [Verdict::Drop(DropReason::Malformed)];
        let mut packets = [PacketIn {
            data: &mut packet,
            vni,
            slot,
            hops: 0,
        }];
        self.engine
            .process_burst(Tick(100), &mut packets, &mut verdicts);
        match verdicts[0] {
            Verdict::Forward(_) => self.gateway.pass(LD, &from_ld(vni).around(&packet)?),
            other => bail!("the engine's verdict is {other:?}"),
        }
    }

    /// Opens sessions of every service, both sides answering, until the engine
    /// asks for their entries.
    pub fn establish(&mut self) -> Result<Vec<Established>> {
        let mut sessions = Vec::new();
        for at in 0..EACH {
            // Clients and ports that look nothing alike.
            let client = (addr(10, 1, 0, 10 + at as u8), 1025 + at * 7919);
            for (vip_port, udp, server) in [
                (80, false, (SERVER, 8080, SERVERS)),
                (53, true, (SERVER, 5353, SERVERS)),
                (8000 + at, false, (TAGGED_SERVER, 8000 + at, TAGGED)),
            ] {
                sessions.push(self.open(client, vip_port, udp, server)?);
            }
        }
        Ok(sessions)
    }

    fn open(
        &mut self,
        client: (Addr, u16),
        vip_port: u16,
        udp: bool,
        (address, server_port, port): (Addr, u16, u16),
    ) -> Result<Established> {
        let packet = |src, dst, flags| match udp {
            true => Ip::udp(src, dst),
            false => Ip::tcp(src, dst, flags),
        };
        let request = |flags| packet(client, (VIP, vip_port), flags);
        let mut session = Established {
            flow: FlowPair {
                vip_id: 0,
                vip_port,
                protocol: Protocol::Tcp,
                client: Ipv4Addr::from_bits(client.0),
                client_port: client.1,
                server_id: 0,
                local_id: 0,
                local_port: 0,
                idle_timeout_ms: 0,
                generation: 0,
            },
            server: (address, server_port),
            local: 0,
            port,
        };
        let sent = session.client_frame(&request(SYN).bytes()?);
        let (out, syn) = self.pass(UPLINK, &sent)?.context("the SYN was dropped")?;
        ensure!(out == port, "the SYN left by port {out}");
        // Where the engine takes the connection from: behind Ethernet, a tag
        // perhaps, and without IP options.
        let ip = if port == TAGGED { 18 } else { 14 };
        let local: [u8; 4] = syn[ip + 12..ip + 16].try_into()?;
        let local_port: [u8; 2] = syn[ip + 20..ip + 22].try_into()?;
        session.local = Addr::from_be_bytes(local);
        let local = (session.local, u16::from_be_bytes(local_port));

        let reply = packet(session.server, local, SYN | ACK).bytes()?;
        let reply = session.server_frame(&reply);
        let (out, _) = self.pass(port, &reply)?.context("the reply was dropped")?;
        ensure!(out == UPLINK, "the reply left by port {out}");
        for _ in 0..2 {
            let more = session.client_frame(&request(ACK).bytes()?);
            self.pass(UPLINK, &more)?.context("a packet was dropped")?;
        }
        let asked = self.engine.effects().find_map(|effect| match effect {
            Effect::Install(_, flow) => Some(flow),
            _ => None,
        });
        session.flow = asked.context("the engine did not ask for entries")?;
        ensure!(session.flow.local_port == local.1, "another local port");
        Ok(session)
    }
}

/// The services of the scene, as the engine has them.
fn services() -> SnapshotSpec {
    let vip = |vip_id, ports: (u16, u16), protocol, server: (u16, Addr, u16)| Vip {
        vip_id,
        vni: 0,
        address: Ipv4Addr::from_bits(VIP),
        port_low: ports.0,
        port_high: ports.1,
        protocol,
        scheduler: Scheduler::RoundRobin,
        timeouts: Timeouts::default(),
        offload: OffloadPolicy {
            enabled: true,
            min_packets: 1,
        },
        servers: vec![Server {
            server_id: server.0,
            address: Ipv4Addr::from_bits(server.1),
            port: server.2,
            weight: 1,
            state: ServerState::Up,
            mtu: 0,
        }],
        generation: 1,
        max_sessions: 0,
    };
    let tcp = Protocol::Tcp;
    SnapshotSpec {
        version: 1,
        vips: vec![
            vip(WEB, (80, 80), tcp, (WEB_SERVER, SERVER, 8080)),
            vip(DNS, (53, 53), Protocol::Udp, (DNS_SERVER, SERVER, 5353)),
            vip(RANGE, (8000, 8099), tcp, (RANGE_SERVER, TAGGED_SERVER, 0)),
        ],
        locals: LOCALS
            .map(|(local_id, address, slot)| Local {
                local_id,
                address: Ipv4Addr::from_bits(address),
                vni: 0,
                slot,
            })
            .to_vec(),
        client_mtu: scene::MTU,
    }
}
