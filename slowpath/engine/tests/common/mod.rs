//! Packets, configurations and checks that the integration tests share.
#![allow(dead_code)] // Each test file uses a part.
#![allow(clippy::expect_used, clippy::unwrap_used)] // Test code.

use std::{net::Ipv4Addr, sync::Arc};

use etherparse::{IpNumber, Ipv4Options, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use session_engine::{
    DropReason, Effect, Engine, EngineConfig, FlowPair, HashKeys, Local, OffloadPolicy, PacketIn,
    Protocol, Scheduler, Server, ServerState, SessionId, Snapshot, SnapshotSpec, Tick, Timeouts,
    Totals, Verdict, Vip,
};

pub const VIP: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 10);
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
pub const SLOT: u16 = 1;

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;
pub const FIN: u8 = 0x11;
pub const RST: u8 = 0x04;
pub const SYN_ACK: u8 = 0x12;

/// Ticks in so many seconds.
pub const fn secs(s: u32) -> u32 {
    s * 4
}

pub fn server(n: u8) -> Server {
    Server {
        server_id: u16::from(n),
        address: [10, 2, n, 2].into(),
        port: 8080,
        weight: 1,
        state: ServerState::Up,
        mtu: 0,
    }
}

/// A TCP service on port 80 and a UDP service on port 53 with `servers`
/// servers each (identifiers from 1 and from 101), and two local addresses in
/// slot 1.
pub fn spec(servers: u8) -> SnapshotSpec {
    let vip = |vip_id, port, protocol, servers| Vip {
        vip_id,
        vni: 0,
        address: VIP,
        port_low: port,
        port_high: port,
        protocol,
        scheduler: Scheduler::RoundRobin,
        timeouts: Timeouts::default(),
        offload: OffloadPolicy::default(),
        servers,
        generation: 7,
        max_sessions: 0,
    };
    SnapshotSpec {
        version: 1,
        vips: vec![
            vip(1, 80, Protocol::Tcp, (1..=servers).map(server).collect()),
            vip(
                2,
                53,
                Protocol::Udp,
                (1..=servers)
                    .map(|n| Server {
                        server_id: u16::from(n) + 100,
                        port: 0,
                        ..server(n)
                    })
                    .collect(),
            ),
        ],
        locals: (1..=2)
            .map(|i| Local {
                local_id: i,
                address: [10, 9, 0, i as u8].into(),
                vni: 0,
                slot: SLOT,
            })
            .collect(),
        client_mtu: 0,
    }
}

pub fn offloading(mut s: SnapshotSpec, min_packets: u32) -> SnapshotSpec {
    for v in &mut s.vips {
        v.offload = OffloadPolicy {
            enabled: true,
            min_packets,
        };
    }
    s
}

pub fn snapshot(s: SnapshotSpec) -> Arc<Snapshot> {
    Arc::new(Snapshot::build(s).expect("a good configuration"))
}

/// A packet's addresses, ports and the rest that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub protocol: Protocol,
    pub src: (Ipv4Addr, u16),
    pub dst: (Ipv4Addr, u16),
    pub flags: u8,
    pub payload: Vec<u8>,
    /// IPv4 options, in words of no-operations.
    pub option_words: usize,
    /// UDP without checksum.
    pub no_checksum: bool,
    pub dont_fragment: bool,
}

impl Packet {
    pub fn tcp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), flags: u8) -> Self {
        Self {
            protocol: Protocol::Tcp,
            src,
            dst,
            flags,
            payload: Vec::new(),
            option_words: 0,
            no_checksum: false,
            dont_fragment: true,
        }
    }

    pub fn udp(src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8]) -> Self {
        Self {
            protocol: Protocol::Udp,
            payload: payload.to_vec(),
            ..Self::tcp(src, dst, 0)
        }
    }

    pub fn with(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// The bytes, built by etherparse with every checksum computed afresh.
    pub fn build(&self) -> Vec<u8> {
        let mut ip = etherparse::Ipv4Header::new(
            0,
            61,
            IpNumber::UDP,
            self.src.0.octets(),
            self.dst.0.octets(),
        )
        .expect("an empty payload fits");
        ip.dont_fragment = self.dont_fragment;
        ip.options = Ipv4Options::try_from(&vec![1_u8; self.option_words * 4][..]).expect("fits");
        let b = PacketBuilder::ip(etherparse::IpHeaders::Ipv4(ip, Default::default()));
        let mut out = Vec::new();
        match self.protocol {
            Protocol::Tcp => {
                let mut h = etherparse::TcpHeader::new(self.src.1, self.dst.1, 1000, 4096);
                h.acknowledgment_number = 2000;
                h.fin = self.flags & 1 != 0;
                h.syn = self.flags & 2 != 0;
                h.rst = self.flags & 4 != 0;
                h.psh = self.flags & 8 != 0;
                h.ack = self.flags & 16 != 0;
                b.tcp_header(h).write(&mut out, &self.payload)
            }
            Protocol::Udp => b.udp(self.src.1, self.dst.1).write(&mut out, &self.payload),
        }
        .expect("writing to a vector");
        if self.no_checksum {
            let at = 20 + self.option_words * 4 + 6;
            out[at..at + 2].fill(0);
        }
        out
    }

    /// The addresses and ports of a packet.
    pub fn ends(bytes: &[u8]) -> ((Ipv4Addr, u16), (Ipv4Addr, u16)) {
        let s = SlicedPacket::from_ip(bytes).expect("a valid packet");
        let Some(NetSlice::Ipv4(ip)) = &s.net else {
            panic!("IPv4")
        };
        let (src, dst) = (ip.header().source_addr(), ip.header().destination_addr());
        match s.transport {
            Some(TransportSlice::Tcp(t)) => ((src, t.source_port()), (dst, t.destination_port())),
            Some(TransportSlice::Udp(u)) => ((src, u.source_port()), (dst, u.destination_port())),
            _ => panic!("neither TCP nor UDP"),
        }
    }
}

/// An engine with a clock, and its effects so far.
pub struct Rig {
    pub engine: Engine,
    pub now: u32,
    pub effects: Vec<Effect>,
}

impl Rig {
    pub fn new(s: SnapshotSpec) -> Self {
        Self::with_config(s, |_| {})
    }

    pub fn with_config(s: SnapshotSpec, change: impl FnOnce(&mut EngineConfig)) -> Self {
        let mut c = EngineConfig::new(3, HashKeys::from_seed(42));
        c.max_records = 1 << 16;
        change(&mut c);
        let mut engine = Engine::new(c).expect("a good configuration");
        engine.set_snapshot(snapshot(s));
        Self {
            engine,
            now: 100,
            effects: Vec::new(),
        }
    }

    pub fn set(&mut self, s: SnapshotSpec) {
        self.engine.set_snapshot(snapshot(s));
    }

    /// Lets time pass, with housekeeping every half second of it.
    pub fn pass(&mut self, ticks: u32) {
        let end = self.now + ticks;
        while self.now < end {
            self.now = (self.now + 2).min(end);
            self.house();
        }
    }

    /// Housekeeping until there is nothing left to do.
    pub fn house(&mut self) {
        while self.engine.tick(Tick(self.now)) {}
        self.effects.extend(self.engine.effects());
    }

    /// Sends one packet and gives the verdict and the bytes afterwards.
    pub fn send(&mut self, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        let (v, mut out) = self.burst(&[bytes.to_vec()]);
        (v[0], out.remove(0))
    }

    pub fn burst(&mut self, packets: &[Vec<u8>]) -> (Vec<Verdict>, Vec<Vec<u8>>) {
        let mut bytes = packets.to_vec();
        let mut v = vec![Verdict::Drop(DropReason::Malformed); packets.len()];
        {
            let mut ins: Vec<PacketIn<'_>> = bytes
                .iter_mut()
                .map(|b| PacketIn {
                    data: b,
                    vni: 0,
                    slot: SLOT,
                    hops: 0,
                })
                .collect();
            self.engine.process_burst(Tick(self.now), &mut ins, &mut v);
        }
        self.effects.extend(self.engine.effects());
        for ((v, after), before) in v.iter().zip(&bytes).zip(packets) {
            if matches!(v, Verdict::Drop(_) | Verdict::Redirect(_)) {
                assert_eq!(after, before, "a packet that goes nowhere must not change");
            }
        }
        self.balance();
        (v, bytes)
    }

    /// The books balance.
    pub fn balance(&self) {
        assert_eq!(self.engine.counters().unaccounted(), 0);
        let g = self.engine.gauges();
        let c = self.engine.counters();
        assert_eq!(
            u64::from(g.sessions),
            c.sessions_created - c.sessions_closed
        );
    }

    pub fn drops(&self, reason: DropReason) -> u64 {
        self.engine.counters().drops_of(reason)
    }

    /// Sends a packet that must be forwarded, checks that the result is the
    /// packet built afresh with the new addresses, and gives those.
    pub fn forward(&mut self, p: &Packet) -> ((Ipv4Addr, u16), (Ipv4Addr, u16)) {
        let (v, out) = self.send(&p.build());
        assert!(matches!(v, Verdict::Forward(_)), "{v:?} for {p:?}");
        let (src, dst) = Packet::ends(&out);
        let fresh = Packet {
            src,
            dst,
            ..p.clone()
        };
        assert_eq!(out, fresh.build(), "not what a fresh build gives");
        (src, dst)
    }

    pub fn dropped(&mut self, p: &Packet) -> DropReason {
        match self.send(&p.build()).0 {
            Verdict::Drop(r) => r,
            v => panic!("{v:?} for {p:?}"),
        }
    }

    /// Opens a TCP connection from a client port; gives both ends as the
    /// server sees them.
    pub fn connect(&mut self, client_port: u16) -> Conn {
        let c = (CLIENT, client_port);
        let vip = (VIP, 80);
        let (local, server) = self.forward(&Packet::tcp(c, vip, SYN));
        assert_eq!(self.forward(&Packet::tcp(server, local, SYN_ACK)), (vip, c));
        assert_eq!(self.forward(&Packet::tcp(c, vip, ACK)), (local, server));
        Conn {
            client: c,
            vip,
            local,
            server,
        }
    }

    /// The sessions and flows asked to be installed since the last call.
    pub fn installs(&mut self) -> Vec<(SessionId, FlowPair)> {
        let mut out = Vec::new();
        self.effects.retain(|e| match e {
            Effect::Install(s, f) => {
                out.push((*s, *f));
                false
            }
            _ => true,
        });
        out
    }

    /// The sessions asked to be removed since the last call.
    pub fn removes(&mut self) -> Vec<SessionId> {
        let mut out = Vec::new();
        self.effects.retain(|e| match e {
            Effect::Remove(s, _) => {
                out.push(*s);
                false
            }
            _ => true,
        });
        out
    }

    /// Connects, sends until the session is asked to be installed, and
    /// confirms it.
    pub fn offloaded(&mut self, client_port: u16) -> (Conn, SessionId) {
        let c = self.connect(client_port);
        let mut installs = self.installs();
        for _ in 0..20 {
            if !installs.is_empty() {
                break;
            }
            c.data(self);
            installs = self.installs();
        }
        assert_eq!(installs.len(), 1);
        let (s, f) = installs[0];
        assert_eq!((f.client, f.client_port), c.client);
        assert_eq!(f.local_port, c.local.1);
        self.engine.on_installed(s);
        (c, s)
    }

    pub fn removed(&mut self, s: SessionId) {
        self.engine.on_removed(s, &Totals::default());
        self.effects.extend(self.engine.effects());
    }
}

/// A connection's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conn {
    pub client: (Ipv4Addr, u16),
    pub vip: (Ipv4Addr, u16),
    pub local: (Ipv4Addr, u16),
    pub server: (Ipv4Addr, u16),
}

impl Conn {
    pub fn up(&self, rig: &mut Rig, flags: u8) {
        let got = rig.forward(&Packet::tcp(self.client, self.vip, flags).with(b"up"));
        assert_eq!(got, (self.local, self.server));
    }

    pub fn down(&self, rig: &mut Rig, flags: u8) {
        let got = rig.forward(&Packet::tcp(self.server, self.local, flags).with(b"down"));
        assert_eq!(got, (self.vip, self.client));
    }

    pub fn data(&self, rig: &mut Rig) {
        self.up(rig, ACK);
        self.down(rig, ACK);
    }

    /// The server closes first.
    pub fn close(&self, rig: &mut Rig) {
        self.down(rig, FIN);
        self.up(rig, ACK);
        self.up(rig, FIN);
        self.down(rig, ACK);
    }

    /// The client closes first.
    pub fn close_by_client(&self, rig: &mut Rig) {
        self.up(rig, FIN);
        self.down(rig, ACK);
        self.down(rig, FIN);
        self.up(rig, ACK);
    }
}
