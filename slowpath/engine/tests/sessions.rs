//! Sessions of TCP and UDP, from the first packet to the free port.

#![allow(clippy::unwrap_used)] // Test code.

mod common;

use common::*;
use session_engine::{
    CloseReason, Direction, DropReason, Effect, Explanation, Protocol, Redirect, Scheduler,
    ServerState, State, Tuple, Verdict,
};

fn state(rig: &Rig, c: &Conn) -> Option<State> {
    let t = Tuple {
        vni: 0,
        protocol: Protocol::Tcp,
        src: c.client.0,
        src_port: c.client.1,
        dst: c.vip.0,
        dst_port: c.vip.1,
    };
    match rig.engine.lookup(&t) {
        Explanation::Session(Direction::Forward, s) => Some(s.state),
        Explanation::WouldOpen { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_from_syn_to_free_port() {
    let mut rig = Rig::new(spec(3));
    let c = rig.connect(40_000);
    assert_eq!(c.server.1, 8080);
    assert_eq!(c.local.0.octets()[..3], [10, 9, 0]);
    assert!(c.local.1 >= 1024);
    assert_eq!(state(&rig, &c), Some(State::Established));
    c.data(&mut rig);
    c.close(&mut rig);
    assert_eq!(state(&rig, &c), Some(State::TimeWait));
    let g = rig.engine.gauges();
    assert_eq!((g.sessions, g.ports_in_use), (1, 1));

    // TIME_WAIT lasts 60 s, then the port rests for 5 s more.
    rig.pass(secs(59));
    assert_eq!(state(&rig, &c), Some(State::TimeWait));
    rig.pass(secs(2));
    assert_eq!(state(&rig, &c), None);
    let g = rig.engine.gauges();
    assert_eq!((g.sessions, g.ports_resting), (0, 1));
    rig.pass(secs(6));
    let g = rig.engine.gauges();
    assert_eq!((g.ports_in_use, g.ports_resting), (0, 0));

    // SYN, SYN-ACK, ACK, 2 of data, 4 to close; 40 bytes each and payload.
    let Some(Effect::Closed(closed)) = rig.effects.last() else {
        panic!("{:?}", rig.effects)
    };
    assert_eq!(closed.reason, CloseReason::Finished);
    assert_eq!(closed.flow.client_port, 40_000);
    assert_eq!(closed.flow.generation, 7);
    assert_eq!(closed.totals.fwd_packets, 5);
    assert_eq!(closed.totals.rev_packets, 4);
    assert_eq!(closed.totals.fwd_bytes, 5 * 40 + 3 * 2);
    assert_eq!(closed.totals.rev_bytes, 4 * 40 + 3 * 4);
    let counters = rig.engine.counters();
    assert_eq!(counters.forwarded, 5);
    assert_eq!(counters.forwarded_replies, 4);
    assert_eq!(counters.dropped(), 0);
    let stats: Vec<_> = rig.engine.vip_stats().collect();
    assert_eq!(
        (stats[0].vip_id, stats[0].fwd_packets, stats[0].rev_packets),
        (1, 5, 4)
    );
}

#[test]
fn a_client_that_closes_first_gives_the_port_back_soon() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(40_000);
    c.close_by_client(&mut rig);
    assert_eq!(state(&rig, &c), Some(State::TimeWait));
    rig.pass(secs(17));
    assert_eq!(rig.engine.gauges().ports_in_use, 0);
}

#[test]
fn a_reset_closes_at_once() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(40_000);
    c.down(&mut rig, RST);
    assert_eq!(state(&rig, &c), Some(State::Close));
    rig.pass(secs(17));
    assert_eq!(rig.engine.gauges().ports_in_use, 0);
}

#[test]
fn idle_sessions_expire_by_state() {
    for (packets, name, timeout) in [(1, "syn", 60), (3, "established", 900)] {
        let mut rig = Rig::new(spec(1));
        if packets == 1 {
            rig.forward(&Packet::tcp((CLIENT, 40_000), (VIP, 80), SYN));
        } else {
            rig.connect(40_000);
        }
        rig.pass(secs(timeout) - 4);
        assert_eq!(rig.engine.gauges().sessions, 1, "{name}");
        rig.pass(secs(2));
        assert_eq!(rig.engine.gauges().sessions, 0, "{name}");
        assert_eq!(rig.engine.counters().sessions_expired, 1);
    }
}

#[test]
fn activity_makes_a_deadline_later() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(40_000);
    for _ in 0..5 {
        rig.pass(secs(800));
        c.data(&mut rig);
    }
    rig.pass(secs(899));
    assert_eq!(rig.engine.gauges().sessions, 1);
    rig.pass(secs(2));
    assert_eq!(rig.engine.gauges().sessions, 0);
}

#[test]
fn a_port_rests_a_minute_after_an_established_session_expired() {
    let mut rig = Rig::new(spec(1));
    rig.connect(40_000);
    rig.pass(secs(902));
    assert_eq!(rig.engine.gauges().ports_resting, 1);
    rig.pass(secs(57));
    assert_eq!(rig.engine.gauges().ports_resting, 1);
    rig.pass(secs(4));
    assert_eq!(rig.engine.gauges().ports_resting, 0);
}

#[test]
fn udp_both_ways_and_its_two_timeouts() {
    let mut rig = Rig::new(spec(2));
    let c = (CLIENT, 5000);
    let (local, server) = rig.forward(&Packet::udp(c, (VIP, 53), b"question"));
    // Port zero keeps the VIP's port.
    assert_eq!(server.1, 53);
    rig.pass(secs(29));
    assert_eq!(rig.engine.gauges().sessions, 1);
    assert_eq!(
        rig.forward(&Packet::udp(server, local, b"answer")),
        ((VIP, 53), c)
    );
    rig.pass(secs(299));
    assert_eq!(rig.engine.gauges().sessions, 1);
    rig.pass(secs(2));
    assert_eq!(rig.engine.gauges().sessions, 0);

    rig.forward(&Packet::udp((CLIENT, 5001), (VIP, 53), b"question"));
    rig.pass(secs(31));
    assert_eq!(rig.engine.gauges().sessions, 0, "unreplied: 30 s");
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let mut rig = Rig::new(spec(1));
    let mut p = Packet::udp((CLIENT, 5000), (VIP, 53), b"x");
    p.no_checksum = true;
    let (local, server) = rig.forward(&p);
    let mut p = Packet::udp(server, local, b"y");
    p.no_checksum = true;
    rig.forward(&p);
}

#[test]
fn options_and_odd_lengths_are_rewritten_like_a_fresh_build() {
    let mut rig = Rig::new(spec(1));
    for words in 0..=10 {
        for len in [0, 1, 2, 3, 33] {
            let mut p = Packet::tcp((CLIENT, 1000 + words as u16), (VIP, 80), SYN);
            p.option_words = words;
            p.payload = vec![0xa5; len];
            let (local, server) = rig.forward(&p);
            p.src = server;
            p.dst = local;
            p.flags = SYN_ACK;
            rig.forward(&p);
            let mut u = Packet::udp((CLIENT, 1000 + words as u16), (VIP, 53), &[0x5a; 33][..len]);
            u.option_words = words;
            rig.forward(&u);
        }
    }
}

#[test]
fn two_syns_of_one_flow_in_one_burst_open_one_session() {
    let mut rig = Rig::new(spec(3));
    let syn = Packet::tcp((CLIENT, 40_000), (VIP, 80), SYN).build();
    let (v, out) = rig.burst(&[syn.clone(), syn.clone(), syn]);
    assert_eq!(v, [Verdict::Forward(Direction::Forward); 3]);
    assert_eq!(out[0], out[1]);
    assert_eq!(out[0], out[2]);
    assert_eq!(rig.engine.gauges().sessions, 1);
}

#[test]
fn a_burst_of_many_keeps_every_packet_apart() {
    let mut rig = Rig::new(spec(3));
    let conns: Vec<Conn> = (0..200).map(|i| rig.connect(20_000 + i)).collect();
    let packets: Vec<Packet> = conns
        .iter()
        .enumerate()
        .map(|(i, c)| {
            if i % 3 == 0 {
                Packet::tcp(c.server, c.local, ACK).with(&[i as u8; 7])
            } else {
                Packet::tcp(c.client, c.vip, ACK).with(&[i as u8; 9])
            }
        })
        .collect();
    let bytes: Vec<Vec<u8>> = packets.iter().map(Packet::build).collect();
    let (v, out) = rig.burst(&bytes);
    for (i, c) in conns.iter().enumerate() {
        let (src, dst) = if i % 3 == 0 {
            (c.vip, c.client)
        } else {
            (c.local, c.server)
        };
        let want = Packet {
            src,
            dst,
            ..packets[i].clone()
        };
        assert!(matches!(v[i], Verdict::Forward(_)));
        assert_eq!(out[i], want.build(), "packet {i}");
    }
}

#[test]
fn strangers_are_dropped_with_a_reason() {
    let mut rig = Rig::new(spec(2));
    let c = (CLIENT, 1);
    let other = ([10, 100, 0, 99].into(), 80);
    assert_eq!(
        rig.dropped(&Packet::tcp(c, other, SYN)),
        DropReason::UnknownDestination
    );
    assert_eq!(
        rig.dropped(&Packet::tcp(c, (VIP, 81), SYN)),
        DropReason::VipNoPort
    );
    assert_eq!(
        rig.dropped(&Packet::udp(c, (VIP, 80), b"")),
        DropReason::VipNoPort
    );
    for flags in [ACK, FIN, RST, SYN_ACK, SYN | RST, SYN | FIN, 0] {
        assert_eq!(
            rig.dropped(&Packet::tcp(c, (VIP, 80), flags)),
            DropReason::NoSession
        );
    }
    let lip = ([10, 9, 0, 1].into(), 2000);
    assert_eq!(
        rig.dropped(&Packet::tcp(([10, 2, 1, 2].into(), 8080), lip, ACK)),
        DropReason::ReplyNoSession
    );
    let conn = rig.connect(2);
    for wrong in [
        (conn.server.0, conn.server.1 + 1),
        ([10, 2, 9, 9].into(), conn.server.1),
    ] {
        assert_eq!(
            rig.dropped(&Packet::tcp(wrong, conn.local, ACK)),
            DropReason::ReplySourceMismatch
        );
    }
    let mut frag = Packet::udp(c, (VIP, 53), b"12345678").build();
    for flags in [0x2000_u16, 0x2001, 0x0001] {
        frag[6..8].copy_from_slice(&flags.to_be_bytes());
        assert_eq!(rig.send(&frag).0, Verdict::Drop(DropReason::Fragment));
    }
    let mut gre = Packet::udp(c, (VIP, 53), b"12345678").build();
    gre[9] = 47;
    assert_eq!(
        rig.send(&gre).0,
        Verdict::Drop(DropReason::UnsupportedProtocol)
    );
    assert_eq!(rig.send(&[]).0, Verdict::Drop(DropReason::ShortIpv4));
    assert_eq!(rig.engine.gauges().sessions, 1);
    assert_eq!(rig.drops(DropReason::NoSession), 7);
}

#[test]
fn another_network_is_another_world() {
    let mut s = spec(1);
    let mut tenant = s.vips[0].clone();
    tenant.vip_id = 9;
    tenant.vni = 77;
    tenant.servers[0].server_id = 99;
    s.vips.push(tenant);
    let mut l = s.locals[0].clone();
    l.local_id = 9;
    l.vni = 77;
    s.locals.push(l);
    let mut rig = Rig::new(s);
    let syn = Packet::tcp((CLIENT, 40_000), (VIP, 80), SYN).build();
    let mut a = syn.clone();
    let mut b = syn;
    let mut v = [Verdict::Drop(DropReason::Malformed); 2];
    let mut packets = [(&mut a, 0), (&mut b, 77)].map(|(data, vni)| session_engine::PacketIn {
        data,
        vni,
        slot: SLOT,
        hops: 0,
    });
    rig.engine
        .process_burst(session_engine::Tick(rig.now), &mut packets, &mut v);
    assert_eq!(v, [Verdict::Forward(Direction::Forward); 2]);
    assert_eq!(rig.engine.gauges().sessions, 2);
    assert_eq!(rig.engine.sessions_of_vip(1), 1);
    assert_eq!(rig.engine.sessions_of_vip(9), 1);
    // The tenant's only local address is the one of its own network.
    assert_eq!(Packet::ends(&b).0.0.octets(), [10, 9, 0, 1]);
}

#[test]
fn a_slot_without_local_addresses_has_a_reason() {
    let mut s = spec(1);
    for l in &mut s.locals {
        l.slot = 5;
    }
    let mut rig = Rig::new(s);
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 1), (VIP, 80), SYN)),
        DropReason::NoLocalAddress
    );
}

#[test]
fn replies_for_another_worker_are_sent_there() {
    let mut rig = Rig::with_config(spec(1), |c| {
        c.worker = 1;
        c.workers = 2;
    });
    let c = rig.connect(40_000);
    assert_eq!(c.local.1 % 16 % 2, 1, "a port of this worker's shards");
    let p = Packet::tcp(c.server, (c.local.0, 2048), ACK).build();
    assert_eq!(
        rig.send(&p).0,
        Verdict::Redirect(Redirect::Worker(0)),
        "an even port is worker 0's"
    );
    assert_eq!(rig.engine.counters().redirected, 1);
}

#[test]
fn schedulers_spread_as_configured() {
    let spread = |scheduler| {
        let mut s = spec(3);
        s.vips[0].scheduler = scheduler;
        s.vips[0].servers[0].weight = 3;
        s.vips[0].servers[2].weight = 0;
        let mut rig = Rig::new(s);
        let mut count = [0; 3];
        for i in 0..400 {
            let c = rig.connect(20_000 + i);
            count[usize::from(c.server.0.octets()[2]) - 1] += 1;
        }
        count
    };
    assert_eq!(spread(Scheduler::RoundRobin), [200, 200, 0]);
    assert_eq!(spread(Scheduler::WeightedRoundRobin), [300, 100, 0]);
    let by_source = spread(Scheduler::SourceHash);
    assert!(
        by_source.contains(&400),
        "one client, one server: {by_source:?}"
    );
}

#[test]
fn no_server_to_take_it() {
    for change in [ServerState::Drain, ServerState::Down] {
        let mut s = spec(2);
        for v in &mut s.vips {
            for srv in &mut v.servers {
                srv.state = change;
            }
        }
        let mut rig = Rig::new(s);
        assert_eq!(
            rig.dropped(&Packet::tcp((CLIENT, 1), (VIP, 80), SYN)),
            DropReason::NoServer
        );
    }
}

#[test]
fn kill_ends_the_sessions_of_a_server_only() {
    let mut rig = Rig::new(spec(2));
    let a = rig.connect(1);
    let b = rig.connect(2);
    assert_ne!(a.server, b.server);
    let id = u16::from(a.server.0.octets()[2]);
    rig.engine.kill(0, id);
    rig.house();
    assert_eq!(rig.engine.sessions_of_server(id), 0);
    assert_eq!(
        rig.dropped(&Packet::tcp(a.client, a.vip, ACK)),
        DropReason::NoSession
    );
    b.data(&mut rig);
    assert_eq!(rig.engine.counters().sessions_killed, 1);
}
