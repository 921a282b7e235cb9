//! The engine against a naive model, under arbitrary histories.
//!
//! The model keeps plain maps: who is connected to whom, what the switch may
//! still hold, and since when a port rests. It plays client, servers, switch
//! and operator, and attacks invariant I1: a local port must not be used again
//! while the switch may have entries that carry it.
#![allow(clippy::unwrap_used)] // Test code.

mod common;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    net::Ipv4Addr,
};

use common::*;
use proptest::prelude::*;
use session_engine::{
    DropReason, Effect, FlowPair, Offload, Protocol, RejectReason, ServerState, SessionId,
    SnapshotSpec, Totals, Verdict,
};

type End = (Ipv4Addr, u16);

#[derive(Clone, Debug)]
enum Op {
    /// A client's packet: client, protocol, what to send.
    Client(u8, bool, u8),
    /// The server's answer to what a client last opened.
    Server(u8, bool, u8),
    /// A stranger's packet to a local port in use.
    Stranger(u8),
    /// Many connections that are reset at once, to move the ports round.
    Flood(u8),
    /// Time, in ticks.
    Pass(u8),
    /// The switch carries out a waiting request: which, and whether it is
    /// refused.
    Switch(u8, bool),
    /// The switch reports a session idle, or loses it.
    Idle(u8),
    Lose(u8),
    /// An old answer comes once more.
    Repeat(u8),
    /// A server's state changes; or it is gone; or all is well again.
    Servers(u8, u8),
    Kill(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0_u8..6, any::<bool>(), 0_u8..8).prop_map(|(c, u, k)| Op::Client(c, u, k)),
        6 => (0_u8..6, any::<bool>(), 0_u8..8).prop_map(|(c, u, k)| Op::Server(c, u, k)),
        1 => (0_u8..6).prop_map(Op::Stranger),
        3 => any::<u8>().prop_map(Op::Flood),
        3 => (1_u8..30).prop_map(Op::Pass),
        5 => (any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(n, r)| Op::Switch(n, r)),
        1 => any::<u8>().prop_map(Op::Idle),
        1 => any::<u8>().prop_map(Op::Lose),
        1 => any::<u8>().prop_map(Op::Repeat),
        1 => (0_u8..3, 0_u8..5).prop_map(|(s, k)| Op::Servers(s, k)),
        1 => (0_u8..4).prop_map(Op::Kill),
    ]
}

/// A connection as the model knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    local: End,
    server: End,
}

/// Client's end and protocol: the destination follows from the protocol.
type Key = (End, Protocol);

struct World {
    rig: Rig,
    /// Live sessions by client.
    live: HashMap<Key, Path>,
    /// Entries that the switch may hold: by session, what they do.
    switch: HashMap<SessionId, (FlowPair, Key, Path)>,
    /// Requests not carried out yet, in order.
    requests: VecDeque<Effect>,
    /// When the session on a port ended.
    ended: HashMap<(End, Protocol), u32>,
    answers: Vec<(SessionId, bool)>,
    flood: u32,
}

const HOLD: u32 = 4;
/// Ports come in blocks of so many; there is room for two blocks.
const BLOCK: u32 = 512;

fn config() -> SnapshotSpec {
    let mut s = offloading(spec(3), 3);
    s.locals.truncate(1);
    for v in &mut s.vips {
        v.timeouts.syn_ms = 3_000;
        v.timeouts.established_ms = 20_000;
        v.timeouts.fin_ms = 4_000;
        v.timeouts.time_wait_ms = 2_000;
        v.timeouts.close_ms = 1_000;
        v.timeouts.udp_ms = 8_000;
        v.timeouts.udp_unreplied_ms = 2_000;
        v.timeouts.port_hold_ms = HOLD * 250;
        v.timeouts.udp_drain_ms = 3_000;
    }
    s
}

fn vip(p: Protocol) -> End {
    match p {
        Protocol::Tcp => (VIP, 80),
        Protocol::Udp => (VIP, 53),
    }
}

fn proto(udp: bool) -> Protocol {
    if udp { Protocol::Udp } else { Protocol::Tcp }
}

impl World {
    fn new() -> Self {
        Self {
            rig: Rig::with_config(config(), |c| {
                // Few ports, so that they come round often.
                c.max_records = 2 * BLOCK;
                c.workers = 16;
                c.resend_ms = 1_000;
                c.offload_max_ms = 60_000;
            }),
            live: HashMap::new(),
            switch: HashMap::new(),
            requests: VecDeque::new(),
            ended: HashMap::new(),
            answers: Vec::new(),
            flood: 0,
        }
    }

    fn local_of(f: &FlowPair) -> End {
        ([10, 9, 0, f.local_id as u8].into(), f.local_port)
    }

    /// Takes in what the engine has to say.
    fn drain(&mut self) {
        for e in std::mem::take(&mut self.rig.effects) {
            match e {
                Effect::Install(id, f) => {
                    let key = ((f.client, f.client_port), f.protocol);
                    let path = self.live[&key];
                    assert_eq!(path.local, Self::local_of(&f), "asked for another port");
                    // From now on the entries may be there.
                    self.switch.insert(id, (f, key, path));
                    self.requests.push_back(e);
                }
                Effect::Remove(id, _) => {
                    assert!(
                        self.switch.contains_key(&id),
                        "removal of what is not there"
                    );
                    self.requests.push_back(e);
                }
                Effect::Closed(c) => {
                    let key = ((c.flow.client, c.flow.client_port), c.flow.protocol);
                    let path = self.live.remove(&key).unwrap();
                    assert!(
                        !self.switch.contains_key(&c.session),
                        "closed before the switch has confirmed"
                    );
                    self.ended
                        .insert((path.local, c.flow.protocol), self.rig.now);
                }
            }
        }
        self.check();
    }

    /// What must hold at all times.
    fn check(&self) {
        let mut ports = HashSet::new();
        for (key, path) in &self.live {
            assert!(ports.insert((path.local, key.1)), "a port used twice");
        }
        for (id, (_, key, path)) in &self.switch {
            // I1: whoever has the port, or the client's tuple, is the one that
            // the entries are about.
            if let Some(now) = self.live.get(key) {
                assert_eq!(now, path, "{id:?}: the switch would go elsewhere");
            }
            for (other, p) in &self.live {
                assert!(
                    other == key || other.1 != key.1 || p.local != path.local,
                    "a port that the switch still knows was used again"
                );
            }
        }
        assert_eq!(self.rig.engine.gauges().sessions as usize, self.live.len());
        assert_eq!(
            self.rig.engine.gauges().offloaded as usize,
            self.switch.len()
        );
    }

    fn client(&mut self, client: End, p: Protocol, flags: u8) {
        let key = (client, p);
        let packet = match p {
            Protocol::Tcp => Packet::tcp(client, vip(p), flags).with(b"c"),
            Protocol::Udp => Packet::udp(client, vip(p), b"c"),
        };
        let (v, out) = self.rig.send(&packet.build());
        // What the engine says about sessions that ended comes first.
        let closed: Vec<Effect> = self
            .rig
            .effects
            .iter()
            .filter(|e| matches!(e, Effect::Closed(_)))
            .copied()
            .collect();
        let mut replaced = None;
        for e in closed {
            let Effect::Closed(c) = e else { continue };
            let k = ((c.flow.client, c.flow.client_port), c.flow.protocol);
            let path = self.live.remove(&k).unwrap();
            self.ended.insert((path.local, k.1), self.rig.now);
            if k == key {
                replaced = Some(path);
            }
        }
        self.rig.effects.retain(|e| !matches!(e, Effect::Closed(_)));
        match v {
            Verdict::Forward(_) => {
                let (local, server) = Packet::ends(&out);
                let fresh = Packet {
                    src: local,
                    dst: server,
                    ..packet
                };
                assert_eq!(out, fresh.build());
                let path = Path { local, server };
                match self.live.get(&key) {
                    Some(old) => assert_eq!(*old, path, "a live session moved"),
                    None => {
                        let opens = p == Protocol::Udp || flags == SYN;
                        assert!(opens, "opened by something else than a SYN");
                        if replaced == Some(path) {
                            // The same client to the same server by the same
                            // port, as in RFC 6191: only for want of another.
                            let mut all = self.rig.engine.port_use();
                            let used = all.find(|u| u.protocol == p).map_or(0, |u| u.in_use);
                            assert!(
                                used > 0 && used % BLOCK == 0,
                                "{used} used: there were ports that had rested"
                            );
                        } else if let Some(at) = self.ended.get(&(local, p)) {
                            assert!(
                                self.rig.now >= at + HOLD,
                                "a port that has not rested was used again"
                            );
                        }
                        self.live.insert(key, path);
                    }
                }
            }
            Verdict::Drop(reason) => {
                let live = self.live.contains_key(&key);
                match reason {
                    DropReason::NoSession => assert!(!live),
                    DropReason::SessionKilled | DropReason::OffloadPending => assert!(live),
                    DropReason::NoServer => {}
                    DropReason::PortExhausted | DropReason::SessionTableFull => {
                        assert!(!live);
                    }
                    other => panic!("{other:?}"),
                }
            }
            other => panic!("{other:?}"),
        }
        self.drain();
    }

    fn server(&mut self, from: End, to: End, p: Protocol, flags: u8) {
        let packet = match p {
            Protocol::Tcp => Packet::tcp(from, to, flags).with(b"s"),
            Protocol::Udp => Packet::udp(from, to, b"s"),
        };
        let owner = self
            .live
            .iter()
            .find(|(k, path)| k.1 == p && path.local == to)
            .map(|(k, path)| (*k, *path));
        let (v, out) = self.rig.send(&packet.build());
        match (v, owner) {
            (Verdict::Forward(_), Some((key, path))) => {
                assert_eq!(path.server, from, "accepted from a stranger");
                let fresh = Packet {
                    src: vip(p),
                    dst: key.0,
                    ..packet
                };
                assert_eq!(out, fresh.build(), "to somebody else");
            }
            (Verdict::Drop(DropReason::ReplySourceMismatch), Some((_, path))) => {
                assert_ne!(path.server, from);
            }
            (Verdict::Drop(DropReason::SessionKilled), Some(_))
            | (Verdict::Drop(DropReason::ReplyNoSession), None) => {}
            other => panic!("{other:?}"),
        }
        self.drain();
    }

    /// Carries out one waiting request. Install and remove of one session keep
    /// their order, as on a stream.
    fn switch(&mut self, n: u8, refuse: bool) {
        if self.requests.is_empty() {
            return;
        }
        let at = usize::from(n) % self.requests.len();
        let id_of = |e: &Effect| match e {
            Effect::Install(id, _) | Effect::Remove(id, _) => *id,
            Effect::Closed(_) => unreachable!(),
        };
        let id = id_of(&self.requests[at]);
        let at = self.requests.iter().position(|e| id_of(e) == id).unwrap();
        let e = self.requests.remove(at).unwrap();
        match e {
            Effect::Install(id, _) if refuse => {
                // Only a request that is still open is refused; a repeated one
                // finds the entries there and is acknowledged.
                let open = self
                    .rig
                    .engine
                    .session(id)
                    .is_some_and(|s| s.offload == Offload::Requested);
                let again = self.requests.iter().any(|o| id_of(o) == id);
                if open && !again {
                    self.switch.remove(&id);
                    self.rig.engine.on_rejected(id, RejectReason::TableFull);
                }
            }
            Effect::Install(id, _) => {
                self.rig.engine.on_installed(id);
                self.answers.push((id, true));
            }
            Effect::Remove(id, _) => {
                // Any install of this session still waiting is overtaken.
                self.requests.retain(|o| id_of(o) != id);
                self.switch.remove(&id);
                self.rig.engine.on_removed(id, &Totals::default());
                self.answers.push((id, false));
            }
            Effect::Closed(_) => unreachable!(),
        }
        self.take();
    }

    fn take(&mut self) {
        self.rig.effects.extend(self.rig.engine.effects());
        self.drain();
    }

    fn pass(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.rig.now += 1;
            self.rig.house();
            self.drain();
        }
    }

    fn nth_installed(&self, n: u8) -> Option<SessionId> {
        let mut ids: Vec<_> = self
            .switch
            .keys()
            .filter(|id| {
                self.rig
                    .engine
                    .session(**id)
                    .is_some_and(|s| s.offload == Offload::Installed)
            })
            .copied()
            .collect();
        ids.sort_unstable();
        ids.get(usize::from(n) % ids.len().max(1)).copied()
    }

    fn run(&mut self, op: &Op) {
        const UP: [u8; 8] = [SYN, SYN, ACK, ACK, ACK, ACK, FIN, RST];
        const DOWN: [u8; 8] = [SYN_ACK, SYN_ACK, SYN_ACK, ACK, ACK, ACK, FIN, RST];
        let client = |n: u8| (CLIENT, 7000 + u16::from(n));
        match *op {
            Op::Client(n, udp, kind) => {
                self.client(client(n), proto(udp), UP[usize::from(kind)]);
            }
            Op::Server(n, udp, kind) => {
                if let Some(path) = self.live.get(&(client(n), proto(udp))).copied() {
                    let flags = DOWN[usize::from(kind)];
                    self.server(path.server, path.local, proto(udp), flags);
                }
            }
            Op::Stranger(n) => {
                if let Some(path) = self.live.get(&(client(n), Protocol::Tcp)).copied() {
                    let stranger = (path.server.0, path.server.1 ^ 1);
                    self.server(stranger, path.local, Protocol::Tcp, ACK);
                }
                self.server(
                    ([10, 2, 1, 2].into(), 8080),
                    ([10, 9, 0, 1].into(), 1024 + 16 * u16::from(n)),
                    Protocol::Tcp,
                    ACK,
                );
            }
            Op::Flood(n) => {
                for _ in 0..n {
                    self.flood += 1;
                    let c = (
                        [10, 66, (self.flood >> 8) as u8, self.flood as u8].into(),
                        9,
                    );
                    self.client(c, Protocol::Tcp, SYN);
                    self.client(c, Protocol::Tcp, RST);
                }
            }
            Op::Pass(t) => self.pass(u32::from(t)),
            Op::Switch(n, refuse) => self.switch(n, refuse),
            Op::Idle(n) => {
                if let Some(id) = self.nth_installed(n) {
                    self.rig.engine.on_idle(id);
                    self.take();
                }
            }
            Op::Lose(n) => {
                if let Some(id) = self.nth_installed(n) {
                    self.switch.remove(&id);
                    self.rig.engine.on_evicted(id, &Totals::default());
                    self.take();
                }
            }
            Op::Repeat(n) => {
                let Some((id, installed)) = self
                    .answers
                    .get(usize::from(n) % self.answers.len().max(1))
                    .copied()
                else {
                    return;
                };
                // Repeated answers about requests still open are new answers.
                if self.switch.contains_key(&id) {
                    return;
                }
                if installed {
                    self.rig.engine.on_installed(id);
                } else {
                    self.rig.engine.on_removed(id, &Totals::default());
                }
                self.take();
            }
            Op::Servers(server, kind) => {
                let mut s = config();
                for v in &mut s.vips {
                    let at = usize::from(server);
                    match kind {
                        0 => v.servers[at].state = ServerState::Down,
                        1 => v.servers[at].state = ServerState::Drain,
                        2 => v.servers[at].weight = 0,
                        3 => drop(v.servers.remove(at)),
                        _ => {}
                    }
                }
                self.rig.set(s);
            }
            Op::Kill(server) => {
                self.rig.engine.kill(0, u16::from(server));
                self.rig.house();
                self.drain();
            }
        }
    }

    /// The switch answers everything, all goes idle: nothing may be left.
    fn wind_down(&mut self) {
        for _ in 0..400 {
            while !self.requests.is_empty() {
                self.switch(0, false);
            }
            while let Some(id) = self.nth_installed(0) {
                self.rig.engine.on_idle(id);
                self.take();
                while !self.requests.is_empty() {
                    self.switch(0, false);
                }
            }
            self.pass(1);
        }
        let g = self.rig.engine.gauges();
        assert_eq!(
            (g.sessions, g.offloaded, g.ports_in_use),
            (0, 0, 0),
            "{g:?}"
        );
        assert!(self.live.is_empty() && self.switch.is_empty());
        assert_eq!(self.rig.engine.counters().unaccounted(), 0);
    }
}

/// With all ports in use or resting, a client comes back on the tuple of a
/// connection that it has reset.
#[test]
fn without_a_free_port_a_client_gets_its_own_again() {
    let mut w = World::new();
    let key = ((CLIENT, 7002), Protocol::Tcp);
    // One block is UDP's, the other TCP's.
    w.run(&Op::Client(0, true, 0));
    w.run(&Op::Client(2, false, 1));
    w.run(&Op::Server(2, false, 0));
    let first = w.live[&key];
    // RST: the session is closing.
    w.run(&Op::Client(2, false, 7));
    w.run(&Op::Flood(255));
    w.run(&Op::Flood(255));
    w.run(&Op::Flood(1));
    w.run(&Op::Client(2, false, 1));
    assert_eq!(w.live.get(&key), Some(&first));
    w.wind_down();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_history_breaks_the_invariants(ops in proptest::collection::vec(op(), 1..160)) {
        let mut w = World::new();
        for op in &ops {
            w.run(op);
        }
        w.wind_down();
    }
}
