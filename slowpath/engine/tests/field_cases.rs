//! Faults that people met in the field with other load balancers, each as the
//! packets that went in and what is right. Names give project and number of
//! the public report.

#![allow(clippy::unwrap_used)] // Test code.

mod common;

use common::*;
use session_engine::{
    Direction, DropReason, Effect, Explanation, Protocol, ServerState, State, Tuple, Verdict,
};

fn down(server: usize) -> session_engine::SnapshotSpec {
    let mut s = spec(2);
    for v in &mut s.vips {
        v.servers[server].state = ServerState::Down;
    }
    s
}

/// kube-router 544, moby 35082: the same tuple sends SYN while the old session
/// is in TIME_WAIT.
#[test]
fn syn_in_time_wait_opens_a_new_session_at_once() {
    for client_first in [false, true] {
        let mut rig = Rig::new(spec(2));
        let c = rig.connect(40_000);
        if client_first {
            c.close_by_client(&mut rig);
        } else {
            c.close(&mut rig);
        }
        let again = rig.connect(40_000);
        assert_ne!(again.local, c.local, "a port that has not rested");
        again.data(&mut rig);
        assert_eq!(rig.engine.counters().dropped(), 0);
        assert_eq!(rig.engine.gauges().sessions, 1);
    }
}

/// The same after a reset, and after only one side's FIN.
#[test]
fn syn_on_any_closing_session_opens_a_new_one() {
    for ends in [
        vec![(true, RST)],
        vec![(false, RST)],
        vec![(true, FIN)],
        vec![(false, FIN)],
    ] {
        let mut rig = Rig::new(spec(2));
        let c = rig.connect(40_000);
        for (up, flags) in &ends {
            if *up {
                c.up(&mut rig, *flags);
            } else {
                c.down(&mut rig, *flags);
            }
        }
        rig.connect(40_000).data(&mut rig);
        assert_eq!(rig.engine.counters().dropped(), 0, "{ends:?}");
    }
}

/// With every port taken or resting, the old port serves its own client once
/// more rather than dropping the SYN.
#[test]
fn syn_in_time_wait_without_a_free_port_takes_the_old_one() {
    let mut s = spec(1);
    s.locals.truncate(1);
    let mut rig = Rig::with_config(s, |c| c.max_records = 512);
    let all: Vec<Conn> = (0..512).map(|i| rig.connect(10_000 + i)).collect();
    all[5].close(&mut rig);
    let again = rig.connect(all[5].client.1);
    assert_eq!((again.local, again.server), (all[5].local, all[5].server));
    again.data(&mut rig);
    all[6].data(&mut rig);
    assert_eq!(rig.engine.counters().dropped(), 0);
    assert_eq!(rig.engine.gauges().sessions, 512);
}

/// kubernetes 81775: that SYN goes to a server with weight 0 or down.
#[test]
fn syn_in_time_wait_does_not_go_back_to_a_dead_server() {
    for how in 0..3 {
        let mut rig = Rig::new(spec(2));
        let c = rig.connect(40_000);
        c.close(&mut rig);
        let gone = usize::from(c.server.0.octets()[2]) - 1;
        let mut s = spec(2);
        match how {
            0 => s.vips[0].servers[gone].weight = 0,
            1 => s.vips[0].servers[gone].state = ServerState::Down,
            _ => drop(s.vips[0].servers.remove(gone)),
        }
        rig.set(s);
        for _ in 0..3 {
            let again = rig.connect(40_000);
            assert_ne!(again.server, c.server);
            again.close(&mut rig);
        }
    }
}

/// A SYN that its server never answered, sent again after that server failed.
#[test]
fn a_repeated_syn_leaves_a_server_that_failed() {
    let mut rig = Rig::new(spec(2));
    let syn = Packet::tcp((CLIENT, 40_000), (VIP, 80), SYN);
    let (_, first) = rig.forward(&syn);
    assert_eq!(rig.forward(&syn).1, first, "a plain repeat stays");
    rig.set(down(usize::from(first.0.octets()[2]) - 1));
    assert_ne!(rig.forward(&syn).1, first);
    assert_eq!(rig.engine.gauges().sessions, 1);
}

/// cilium 20407: a stale entry of a session whose end was not seen is hit by a
/// new SYN, and its server is dead.
#[test]
fn syn_on_a_stale_established_session_chooses_a_live_server() {
    let mut rig = Rig::new(spec(2));
    let c = rig.connect(40_000);
    rig.set(down(usize::from(c.server.0.octets()[2]) - 1));
    assert_ne!(rig.connect(40_000).server, c.server);
}

/// cilium 8740, 33074: closed flows keep their local ports.
#[test]
fn closed_flows_give_their_ports_back() {
    let mut rig = Rig::with_config(spec(2), |c| c.max_records = 4 * 512);
    for round in 0..20 {
        for i in 0..400 {
            let c = rig.connect(10_000 + i);
            if i % 2 == 0 {
                c.close_by_client(&mut rig);
            } else {
                c.down(&mut rig, RST);
            }
        }
        assert_eq!(rig.engine.counters().dropped(), 0, "round {round}");
        rig.pass(secs(20));
        assert_eq!(rig.engine.gauges().ports_in_use, 0, "round {round}");
    }
}

/// vpp 3333: the address pool is empty. dpvs 819: more sessions than ports.
#[test]
fn exhaustion_is_a_counted_drop() {
    let mut s = spec(1);
    s.locals.truncate(1);
    let mut rig = Rig::with_config(s, |c| {
        c.max_records = 8192;
        c.workers = 16;
        c.worker = 3;
    });
    let mut dropped = 0;
    for i in 0..4100_u16 {
        let p = Packet::tcp((CLIENT, 1 + i), (VIP, 80), SYN).build();
        match rig.send(&p).0 {
            Verdict::Forward(_) => assert_eq!(dropped, 0),
            v => {
                assert_eq!(v, Verdict::Drop(DropReason::PortExhausted));
                dropped += 1;
            }
        }
    }
    assert_eq!(dropped, 4100 - 4032);
    assert_eq!(rig.drops(DropReason::PortExhausted), dropped);

    let mut none = spec(1);
    none.locals.clear();
    let mut rig = Rig::new(none);
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 1), (VIP, 80), SYN)),
        DropReason::NoLocalAddress
    );
}

/// dpvs 111, 446: a spoofed UDP flood. The cap holds, the flood evicts itself,
/// answered sessions stay, and so does the other VIP.
#[test]
fn a_udp_flood_is_capped_and_evicts_the_unreplied() {
    let mut s = spec(1);
    s.vips[1].max_sessions = 100;
    let mut rig = Rig::new(s);
    let tcp = rig.connect(1);
    let good: Vec<_> = (0..50)
        .map(|i| {
            let c = (CLIENT, 1000 + i);
            let (local, server) = rig.forward(&Packet::udp(c, (VIP, 53), b"q"));
            rig.forward(&Packet::udp(server, local, b"a"));
            (c, local, server)
        })
        .collect();
    let mut refused = 0;
    for i in 0..20_000_u32 {
        let c = ((0x0b00_0000 + i).into(), 7);
        match rig.send(&Packet::udp(c, (VIP, 53), b"flood").build()).0 {
            Verdict::Forward(_) => {}
            // The search for something to evict is bounded.
            v => {
                assert_eq!(v, Verdict::Drop(DropReason::VipSessionLimit));
                refused += 1;
            }
        }
        assert!(rig.engine.sessions_of_vip(2) <= 100);
        if i % 1000 == 0 {
            rig.pass(secs(6));
        }
    }
    assert!(refused < 200, "{refused} refused");
    assert!(rig.engine.counters().sessions_evicted > 19_000);
    for (c, local, server) in good {
        assert_eq!(
            rig.forward(&Packet::udp(c, (VIP, 53), b"q")),
            (local, server)
        );
    }
    tcp.data(&mut rig);
}

/// The same for a SYN flood at a capped VIP; and a cap of answered sessions
/// evicts nobody.
#[test]
fn a_cap_never_evicts_answered_sessions() {
    let mut s = spec(1);
    s.vips[0].max_sessions = 10;
    let mut rig = Rig::new(s);
    let conns: Vec<Conn> = (0..10).map(|i| rig.connect(1000 + i)).collect();
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 1), (VIP, 80), SYN)),
        DropReason::VipSessionLimit
    );
    for c in conns {
        c.data(&mut rig);
    }
}

/// dpvs 109: UDP stuck to a removed server. kubernetes 76664: UDP tuples that
/// never idle keep a drained server busy for ever.
#[test]
fn udp_leaves_a_drained_or_removed_server_after_the_cut_off() {
    for remove in [false, true] {
        let mut rig = Rig::new(spec(2));
        let c = (CLIENT, 5000);
        let ask = Packet::udp(c, (VIP, 53), b"q");
        let (local, server) = rig.forward(&ask);
        rig.forward(&Packet::udp(server, local, b"a"));
        let mut s = spec(2);
        let gone = usize::from(server.0.octets()[2]) - 1;
        if remove {
            s.vips[1].servers.remove(gone);
        } else {
            s.vips[1].servers[gone].state = ServerState::Drain;
        }
        rig.set(s);
        for _ in 0..58 {
            rig.pass(secs(1));
            assert_eq!(rig.forward(&ask), (local, server), "established (I4)");
        }
        rig.pass(secs(4));
        assert_ne!(rig.forward(&ask).1, server);
    }
}

#[test]
fn udp_leaves_a_server_that_is_down_at_once() {
    let mut rig = Rig::new(spec(2));
    let ask = Packet::udp((CLIENT, 5000), (VIP, 53), b"q");
    let (_, server) = rig.forward(&ask);
    rig.set(down(usize::from(server.0.octets()[2]) - 1));
    rig.pass(2);
    assert_ne!(rig.forward(&ask).1, server);
}

/// kubernetes 57841: deleting a server cuts live TCP. I4 as a whole: servers,
/// VIPs and local addresses go, established connections stay.
#[test]
fn configuration_breaks_no_established_connection() {
    let mut rig = Rig::new(spec(3));
    let conns: Vec<Conn> = (0..30).map(|i| rig.connect(1000 + i)).collect();
    let all_work = |rig: &mut Rig| {
        for c in &conns {
            c.data(rig);
        }
    };
    let mut s = spec(3);
    s.vips[0].servers.remove(1);
    s.vips[0].generation = 8;
    rig.set(s);
    all_work(&mut rig);

    let mut s = spec(3);
    s.vips.remove(0);
    rig.set(s);
    all_work(&mut rig);
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 9), (VIP, 80), SYN)),
        DropReason::VipNoPort
    );

    rig.set(session_engine::SnapshotSpec::default());
    all_work(&mut rig);
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 9), (VIP, 80), SYN)),
        DropReason::UnknownDestination
    );

    // Back again, with other addresses under the old identifiers.
    let mut s = spec(3);
    for (i, srv) in s.vips[0].servers.iter_mut().enumerate() {
        srv.address = [10, 5, 5, i as u8].into();
    }
    rig.set(s);
    all_work(&mut rig);
    let new = rig.connect(9);
    assert_eq!(new.server.0.octets()[..3], [10, 5, 5]);
    assert_eq!(rig.engine.sessions_of_vip(1), 31);

    for c in &conns {
        c.close_by_client(&mut rig);
    }
    rig.pass(secs(60));
    assert_eq!(rig.engine.sessions_of_vip(1), 1);
    assert_eq!(rig.engine.gauges().ports_in_use, 1);
}

/// A session remembers the generation of the configuration that made it.
#[test]
fn generations_are_those_of_the_session() {
    let mut s = offloading(spec(1), 0);
    s.vips[0].generation = 0x1_fffe;
    let mut rig = Rig::new(s.clone());
    let a = rig.connect(1);
    rig.installs();
    s.vips[0].generation = 0x2_0003;
    rig.set(s);
    rig.connect(2);
    let (_, flow) = rig.installs()[0];
    assert_eq!(flow.generation, 0x2_0003);
    let t = Tuple {
        vni: 0,
        protocol: Protocol::Tcp,
        src: a.client.0,
        src_port: a.client.1,
        dst: a.vip.0,
        dst_port: a.vip.1,
    };
    match rig.engine.lookup(&t) {
        Explanation::Session(Direction::Forward, s) => {
            assert_eq!(s.flow.generation, 0x1_fffe);
            assert_eq!(s.state, State::Established);
        }
        other => panic!("{other:?}"),
    }
}

/// vpp 3106: a packet to an unknown port is a counted miss.
#[test]
fn an_unknown_port_is_a_counter() {
    let mut rig = Rig::new(spec(1));
    for port in [1, 22, 81, 65_535] {
        rig.dropped(&Packet::tcp((CLIENT, 1), (VIP, port), SYN));
    }
    assert_eq!(rig.drops(DropReason::VipNoPort), 4);
}

/// hedgehog dataplane 1021: a timeout added to the old deadline instead of
/// starting anew.
#[test]
fn the_deadline_counts_from_the_last_packet() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(1);
    for _ in 0..50 {
        rig.pass(secs(10));
        c.data(&mut rig);
    }
    rig.pass(secs(902));
    assert_eq!(rig.engine.gauges().sessions, 0);
}

/// vpp 2854, 3258: sessions whose expiry is unset or that are never cleaned.
/// Whatever a session's history, in the end nothing is left of it.
#[test]
fn nothing_is_left_in_the_end() {
    let mut rig = Rig::new(spec(3));
    for i in 0..300_u16 {
        let c = (CLIENT, 1000 + i);
        match i % 6 {
            0 => drop(rig.forward(&Packet::tcp(c, (VIP, 80), SYN))),
            1 => drop(rig.connect(c.1)),
            2 => rig.connect(c.1).close(&mut rig),
            3 => rig.connect(c.1).up(&mut rig, FIN),
            4 => rig.connect(c.1).down(&mut rig, RST),
            _ => drop(rig.forward(&Packet::udp(c, (VIP, 53), b"x"))),
        }
    }
    assert_eq!(rig.engine.gauges().sessions, 300);
    rig.pass(secs(1000));
    let g = rig.engine.gauges();
    assert_eq!((g.sessions, g.ports_in_use, g.offloaded), (0, 0, 0));
    let closed = rig
        .effects
        .iter()
        .filter(|e| matches!(e, Effect::Closed(_)))
        .count();
    assert_eq!(closed, 300);
}
