//! A session's life in the switch: requests, answers, repeats, restarts.

#![allow(clippy::unwrap_used)] // Test code.

mod common;

use common::*;
use session_engine::{
    AdoptError, CloseReason, DropReason, Effect, FlowPair, Offload, Protocol, RejectReason,
    RemoveReason, ServerState, SessionId, State, Totals, Verdict,
};

fn rig(min_packets: u32) -> Rig {
    Rig::new(offloading(spec(2), min_packets))
}

fn totals(fwd: u64, rev: u64) -> Totals {
    Totals {
        fwd_packets: fwd,
        fwd_bytes: fwd * 1000,
        rev_packets: rev,
        rev_bytes: rev * 100,
    }
}

#[test]
fn asked_for_once_when_established_and_worth_it() {
    let mut rig = rig(6);
    let c = rig.connect(40_000);
    assert!(rig.installs().is_empty(), "three packets");
    c.up(&mut rig, ACK);
    c.up(&mut rig, ACK);
    assert!(rig.installs().is_empty(), "five packets");
    c.up(&mut rig, ACK);
    let asked = rig.installs();
    assert_eq!(asked.len(), 1);
    let (id, flow) = asked[0];
    assert_eq!(
        flow,
        FlowPair {
            vip_id: 1,
            vip_port: 80,
            protocol: Protocol::Tcp,
            client: CLIENT,
            client_port: 40_000,
            server_id: u16::from(c.server.0.octets()[2]),
            local_id: u16::from(c.local.0.octets()[3]),
            local_port: c.local.1,
            idle_timeout_ms: 900_000,
            generation: 7,
        }
    );
    assert_eq!((id.worker(), id.boot()), (0, 3));
    c.data(&mut rig);
    assert!(rig.installs().is_empty(), "asked already");
    assert_eq!(rig.engine.counters().late_packets, 0);
    rig.engine.on_installed(id);
    c.data(&mut rig);
    assert_eq!(rig.engine.counters().late_packets, 2);
    let info = rig.engine.session(id).unwrap();
    assert_eq!((info.offload, info.late_packets), (Offload::Installed, 2));
}

#[test]
fn a_syn_flood_is_never_offloaded() {
    let mut rig = rig(0);
    for port in 0..50 {
        rig.forward(&Packet::tcp((CLIENT, 1000 + port), (VIP, 80), SYN));
        rig.forward(&Packet::tcp((CLIENT, 1000 + port), (VIP, 80), ACK));
    }
    assert!(rig.installs().is_empty());
}

#[test]
fn udp_is_offloaded_once_answered() {
    let mut rig = rig(0);
    let c = (CLIENT, 5000);
    let (local, server) = rig.forward(&Packet::udp(c, (VIP, 53), b"q"));
    assert!(rig.installs().is_empty());
    rig.forward(&Packet::udp(server, local, b"a"));
    let asked = rig.installs();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1.protocol, Protocol::Udp);
    assert_eq!(asked[0].1.idle_timeout_ms, 300_000);
}

/// I1: the port is not free before the switch has confirmed, however long
/// that takes; the request is repeated meanwhile.
#[test]
fn no_port_comes_back_before_the_switch_has_confirmed() {
    let mut rig = rig(4);
    let (c, id) = rig.offloaded(40_000);
    c.close(&mut rig);
    assert_eq!(rig.removes(), [id]);
    rig.pass(secs(3600));
    let repeats = rig.removes();
    assert!(repeats.len() > 100 && repeats.iter().all(|r| *r == id));
    assert_eq!(rig.engine.gauges().ports_in_use, 1);
    assert_eq!(rig.engine.gauges().offloaded, 1);
    assert!(rig.engine.counters().offload_resent > 100);

    rig.engine.on_removed(id, &totals(70, 80));
    rig.pass(secs(6));
    assert_eq!(rig.engine.gauges().sessions, 0);
    let Some(Effect::Closed(closed)) = rig.effects.last() else {
        panic!()
    };
    // 2 + 1 of the handshake, 1 + 1 of data, 2 + 2 of the close.
    assert_eq!(closed.totals.fwd_packets, 5 + 70);
    assert_eq!(closed.totals.rev_packets, 2 + 2 + 80);
    rig.pass(secs(10));
    assert_eq!(rig.engine.gauges().ports_in_use, 0);
}

/// I1 under pressure: every port is taken by sessions that wait for the
/// switch. New connections are refused rather than given one of those.
#[test]
fn exhaustion_waits_for_confirmations_and_for_the_rest() {
    let mut rig = Rig::with_config(
        {
            let mut s = offloading(spec(1), 0);
            s.locals.truncate(1);
            s
        },
        |c| c.max_records = 512,
    );
    let all: Vec<(Conn, SessionId)> = (0..512).map(|i| rig.offloaded(10_000 + i)).collect();
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 9), (VIP, 80), SYN)),
        DropReason::SessionTableFull
    );
    for (c, _) in &all {
        c.down(&mut rig, RST);
    }
    rig.pass(secs(600));
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 9), (VIP, 80), SYN)),
        DropReason::SessionTableFull
    );
    // Confirm every other one, in an odd order.
    let confirmed: Vec<_> = all.iter().rev().step_by(2).collect();
    for (_, id) in &confirmed {
        rig.removed(*id);
    }
    rig.house();
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 9), (VIP, 80), SYN)),
        DropReason::SessionTableFull,
        "confirmed, but not rested"
    );
    rig.pass(secs(12));
    rig.pass(secs(6));
    let free: Vec<_> = confirmed.iter().map(|(c, _)| c.local).collect();
    for i in 0..256 {
        let (local, _) = rig.forward(&Packet::tcp((CLIENT, 20_000 + i), (VIP, 80), SYN));
        assert!(free.contains(&local), "{local:?} was not confirmed");
    }
    assert_eq!(
        rig.dropped(&Packet::tcp((CLIENT, 9), (VIP, 80), SYN)),
        DropReason::SessionTableFull
    );
}

#[test]
fn stale_and_repeated_answers_change_nothing() {
    let mut rig = Rig::with_config(offloading(spec(1), 0), |c| c.max_records = 512);
    let (c, old) = rig.offloaded(40_000);
    rig.engine.on_installed(old);
    c.down(&mut rig, RST);
    rig.removed(old);
    rig.removed(old);
    assert_eq!(rig.engine.gauges().offloaded, 0);
    rig.pass(secs(30));
    // Go round the free list until the record is in use again.
    let mut new = None;
    for i in 0..512 {
        let (_, id) = rig.offloaded(10_000 + i);
        if id.0 >> 16 == old.0 >> 16 {
            new = Some(id);
        }
    }
    let new = new.expect("every port was used");
    assert_ne!(new, old);
    let before = rig.engine.session(new).unwrap();
    let stale = rig.engine.counters().offload_stale;
    rig.engine.on_removed(old, &totals(1, 1));
    rig.engine.on_installed(old);
    rig.engine.on_rejected(old, RejectReason::TableFull);
    rig.engine.on_evicted(old, &totals(1, 1));
    rig.engine.on_idle(old);
    assert_eq!(rig.engine.session(new).unwrap(), before);
    assert_eq!(rig.engine.counters().offload_stale, stale + 5);
    // Nor does an identifier of another process or worker, or none at all.
    for other in [old.0 ^ 1 << 40, old.0 ^ 1 << 56, 0, u64::MAX] {
        rig.engine.on_removed(SessionId(other), &totals(1, 1));
    }
    assert_eq!(rig.engine.session(new).unwrap(), before);
    assert!(
        rig.effects.iter().all(|e| !matches!(e, Effect::Remove(..))) || {
            rig.removes();
            true
        }
    );
}

#[test]
fn a_rejected_session_is_offered_again_later() {
    for (reason, wait) in [
        (RejectReason::TableFull, Some(secs(5))),
        (RejectReason::Conflict, Some(secs(1))),
        (RejectReason::Invalid, None),
    ] {
        let mut rig = rig(0);
        let c = rig.connect(40_000);
        let (id, _) = rig.installs()[0];
        rig.engine.on_rejected(id, reason);
        c.data(&mut rig);
        assert!(rig.installs().is_empty());
        let Some(wait) = wait else {
            rig.pass(secs(800));
            c.data(&mut rig);
            assert!(rig.installs().is_empty());
            continue;
        };
        rig.pass(wait - 2);
        c.data(&mut rig);
        assert!(rig.installs().is_empty());
        rig.pass(wait);
        c.data(&mut rig);
        assert_eq!(rig.installs()[0].0, id);
    }
}

#[test]
fn an_unanswered_request_is_repeated() {
    let mut rig = rig(0);
    rig.connect(40_000);
    let first = rig.installs();
    rig.pass(secs(11));
    let again = rig.installs();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|a| *a == first[0]));
    rig.engine.on_installed(first[0].0);
    rig.pass(secs(60));
    assert!(rig.installs().is_empty());
}

/// While the switch carries it, a session does not expire here; when the
/// switch says it is idle, its entries go first and then the session.
#[test]
fn installed_sessions_end_by_idle_notices() {
    let mut rig = rig(0);
    let (_, id) = rig.offloaded(40_000);
    rig.pass(secs(3000));
    assert_eq!(rig.engine.gauges().sessions, 1);
    assert!(rig.removes().is_empty());
    rig.engine.on_idle(id);
    rig.engine.on_idle(id);
    rig.house();
    assert_eq!(
        rig.effects,
        [Effect::Remove(id, RemoveReason::Idle)],
        "once"
    );
    rig.engine.on_removed(id, &totals(10, 10));
    rig.house();
    let Some(Effect::Closed(closed)) = rig.effects.last() else {
        panic!()
    };
    assert_eq!(closed.reason, CloseReason::Expired);
    assert_eq!(rig.engine.gauges().sessions, 0);
}

#[test]
fn a_packet_after_the_idle_notice_saves_the_session() {
    let mut rig = rig(0);
    let (c, id) = rig.offloaded(40_000);
    rig.engine.on_idle(id);
    c.data(&mut rig);
    rig.removed(id);
    assert_eq!(rig.engine.gauges().sessions, 1);
    rig.pass(secs(2));
    c.data(&mut rig);
    assert_eq!(rig.installs().len(), 1, "offered again");
}

#[test]
fn without_any_news_the_entries_are_taken_back_in_the_end() {
    let mut rig = rig(0);
    let (_, id) = rig.offloaded(40_000);
    rig.pass(secs(3590));
    assert!(rig.removes().is_empty());
    rig.pass(secs(20));
    let asked = rig.removes();
    assert!(!asked.is_empty() && asked.iter().all(|a| *a == id));
    rig.removed(id);
    assert_eq!(rig.engine.gauges().sessions, 1, "it goes on here");
    rig.pass(secs(905));
    assert_eq!(rig.engine.gauges().sessions, 0, "and expires here");
}

#[test]
fn evicted_sessions_go_on_here_and_are_offered_again() {
    let mut rig = rig(0);
    let (c, id) = rig.offloaded(40_000);
    rig.pass(secs(1000));
    rig.engine.on_evicted(id, &totals(5, 6));
    assert_eq!(rig.engine.gauges().offloaded, 0);
    c.data(&mut rig);
    assert!(rig.installs().is_empty(), "not at once");
    rig.pass(secs(2));
    c.data(&mut rig);
    assert_eq!(rig.installs()[0].0, id);
    let t = rig.engine.session(id).unwrap().totals;
    assert_eq!(t.fwd_packets, 2 + 2 + 5);
    assert_eq!(t.rev_packets, 1 + 2 + 6);
}

#[test]
fn nothing_is_asked_for_while_the_switch_is_away() {
    let mut rig = rig(0);
    rig.engine.on_switch_down();
    let c = rig.connect(40_000);
    c.data(&mut rig);
    assert!(rig.installs().is_empty());
    rig.engine.on_switch_up();
    c.up(&mut rig, ACK);
    assert_eq!(rig.installs().len(), 1);
}

/// A client opens again on a tuple of which the switch still has entries: the
/// same server and port, so that the entries stay right.
#[test]
fn a_new_syn_before_the_confirmation_keeps_port_and_server() {
    let mut rig = rig(0);
    let (c, id) = rig.offloaded(40_000);
    c.close(&mut rig);
    assert_eq!(rig.removes(), [id]);
    let again = rig.connect(40_000);
    assert_eq!((again.local, again.server), (c.local, c.server));
    assert_eq!(rig.engine.counters().sessions_reused, 1);
    assert!(rig.installs().is_empty(), "still being removed");
    rig.removed(id);
    again.data(&mut rig);
    rig.pass(secs(2));
    again.data(&mut rig);
    assert_eq!(rig.installs().len(), 1);
}

/// As before, but its server takes no more: any other would be contradicted by
/// the entries, so the SYN has to come again. The only such drop.
#[test]
fn a_new_syn_before_the_confirmation_waits_if_the_server_is_gone() {
    let mut rig = rig(0);
    let (c, id) = rig.offloaded(40_000);
    c.close(&mut rig);
    let mut s = offloading(spec(2), 0);
    let gone = usize::from(c.server.0.octets()[2]) - 1;
    s.vips[0].servers[gone].state = ServerState::Down;
    rig.set(s);
    let syn = Packet::tcp(c.client, c.vip, SYN);
    assert_eq!(rig.dropped(&syn), DropReason::OffloadPending);
    rig.removed(id);
    let (local, server) = rig.forward(&syn);
    assert_ne!(server, c.server);
    assert_ne!(local, c.local);
}

#[test]
fn killed_sessions_hold_their_port_until_confirmed() {
    let mut rig = rig(0);
    let (c, id) = rig.offloaded(40_000);
    rig.engine.kill(1, 0);
    rig.house();
    assert_eq!(rig.removes(), [id]);
    assert_eq!(
        rig.dropped(&Packet::tcp(c.client, c.vip, ACK)),
        DropReason::SessionKilled
    );
    assert_eq!(
        rig.dropped(&Packet::tcp(c.server, c.local, ACK)),
        DropReason::SessionKilled
    );
    rig.removed(id);
    assert_eq!(rig.engine.gauges().sessions, 0);
    assert_eq!(rig.engine.gauges().ports_resting, 1);
    assert_eq!(
        rig.dropped(&Packet::tcp(c.client, c.vip, ACK)),
        DropReason::NoSession
    );
}

#[test]
fn adopted_sessions_go_on_with_the_same_bytes() {
    let mut old = rig(0);
    let (c, id) = old.offloaded(40_000);
    let mut list = Vec::new();
    assert_eq!(old.engine.list_offloaded(0, u32::MAX, &mut list), None);
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].session, list[0].offload), (id, Offload::Installed));

    // A new process finds the entry in the switch.
    let mut new = Rig::with_config(offloading(spec(2), 0), |cfg| cfg.boot = 4);
    let adopted = new.engine.adopt(&list[0].flow).unwrap();
    assert_ne!(adopted, id);
    let info = new.engine.session(adopted).unwrap();
    assert_eq!(
        (info.state, info.offload, info.adopted),
        (State::Established, Offload::Installed, true)
    );
    assert_eq!(info.flow, list[0].flow);
    c.data(&mut new);
    // Its port is taken: no other session gets it.
    for i in 0..2000 {
        let (local, _) = new.forward(&Packet::tcp((CLIENT, 1000 + i), (VIP, 80), SYN));
        assert_ne!(local, c.local);
    }
    c.close(&mut new);
    assert_eq!(new.removes(), [adopted]);
    new.removed(adopted);
    new.pass(secs(200));
    assert_eq!(new.engine.gauges().ports_in_use, 0);
}

#[test]
fn what_cannot_be_adopted_is_refused() {
    let mut rig = Rig::with_config(offloading(spec(2), 0), |c| c.workers = 2);
    let good = FlowPair {
        vip_id: 1,
        vip_port: 80,
        protocol: Protocol::Tcp,
        client: CLIENT,
        client_port: 40_000,
        server_id: 2,
        local_id: 1,
        local_port: 2000,
        idle_timeout_ms: 0,
        generation: 6,
    };
    let mut refused = |f: FlowPair, e| assert_eq!(rig.engine.adopt(&f), Err(e));
    refused(FlowPair { vip_id: 5, ..good }, AdoptError::UnknownVip);
    refused(
        FlowPair {
            server_id: 5,
            ..good
        },
        AdoptError::UnknownServer,
    );
    refused(
        FlowPair {
            server_id: 101,
            ..good
        },
        AdoptError::UnknownServer,
    );
    refused(
        FlowPair {
            local_id: 5,
            ..good
        },
        AdoptError::UnknownLocal,
    );
    refused(
        FlowPair {
            local_port: 2001,
            ..good
        },
        AdoptError::OtherWorker,
    );
    refused(
        FlowPair {
            local_port: 80,
            ..good
        },
        AdoptError::PortTaken,
    );
    assert_eq!(rig.engine.gauges().sessions, 0);
    let id = rig.engine.adopt(&good).unwrap();
    assert_eq!(rig.engine.session(id).unwrap().flow.generation, 6);
    let mut refused = |f: FlowPair, e| assert_eq!(rig.engine.adopt(&f), Err(e));
    refused(good, AdoptError::TupleTaken);
    refused(
        FlowPair {
            client_port: 7,
            ..good
        },
        AdoptError::PortTaken,
    );
    assert_eq!(rig.engine.gauges().sessions, 1);
}

#[test]
fn the_list_can_be_taken_in_pieces() {
    let mut rig = rig(0);
    let ids: Vec<SessionId> = (0..100).map(|i| rig.offloaded(1000 + i).1).collect();
    let mut list = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        from = rig.engine.list_offloaded(at, 37, &mut list);
    }
    let mut got: Vec<_> = list.iter().map(|o| o.session).collect();
    let mut want = ids;
    got.sort_unstable();
    want.sort_unstable();
    assert_eq!(got, want);
}

/// Totals beyond what a record holds are kept elsewhere, exactly.
#[test]
fn huge_totals_are_exact() {
    let mut rig = rig(0);
    let (c, id) = rig.offloaded(40_000);
    let huge = Totals {
        fwd_packets: 1 << 40,
        fwd_bytes: 1 << 50,
        rev_packets: 3,
        rev_bytes: 1 << 49,
    };
    rig.engine.on_evicted(id, &huge);
    rig.pass(secs(2));
    c.data(&mut rig);
    rig.engine.on_installed(id);
    rig.engine.on_evicted(id, &huge);
    let t = rig.engine.session(id).unwrap().totals;
    assert_eq!(t.fwd_packets, 3 + (1 << 41));
    assert_eq!(t.rev_packets, 2 + 6);
    assert_eq!(t.fwd_bytes, 3 * 40 + 2 + (1 << 51));
    assert_eq!(t.rev_bytes, 2 * 40 + 4 + (1 << 50));
    c.down(&mut rig, RST);
    rig.pass(secs(20));
    let Some(Effect::Closed(closed)) = rig.effects.last() else {
        panic!()
    };
    assert_eq!(closed.totals.fwd_packets, 3 + (1 << 41));
}

#[test]
fn a_verdict_for_late_packets_is_the_same_bytes() {
    let mut rig = rig(0);
    let c = rig.connect(40_000);
    let p = Packet::tcp(c.client, c.vip, ACK).with(b"payload").build();
    let before = rig.send(&p);
    let (id, _) = rig.installs()[0];
    rig.engine.on_installed(id);
    assert_eq!(rig.send(&p), before);
    assert!(matches!(before.0, Verdict::Forward(_)));
}

/// One burst carries the packet that makes the session worth an entry in its
/// middle; and all of it is forwarded, once, in order, before and after the
/// switch has answered.
#[test]
fn the_packet_that_triggers_an_offload_is_forwarded_once() {
    let mut rig = rig(6);
    let c = rig.connect(40_000);
    let packets: Vec<_> = (0..8)
        .map(|number| {
            let text = [b'0' + number; 5];
            Packet::tcp(c.client, c.vip, ACK).with(&text).build()
        })
        .collect();
    let before = rig.engine.counters().forwarded;
    let (verdicts, sent) = rig.burst(&packets);
    assert!(verdicts.iter().all(|v| matches!(v, Verdict::Forward(_))));
    let payloads: Vec<u8> = sent.iter().map(|bytes| bytes[bytes.len() - 1]).collect();
    assert_eq!(payloads, b"01234567");
    assert!(
        sent.iter()
            .all(|bytes| Packet::ends(bytes) == (c.local, c.server))
    );
    assert_eq!(rig.engine.counters().forwarded - before, 8);
    let asked = rig.installs();
    assert_eq!(asked.len(), 1, "asked for once");
    // Requested, not yet in the switch: the slow path goes on forwarding.
    let (_, meanwhile) = rig.burst(&packets);
    assert_eq!(meanwhile, sent);
    rig.engine.on_installed(asked[0].0);
    let (_, late) = rig.burst(&packets);
    assert_eq!(late, sent);
    assert_eq!(rig.engine.counters().forwarded - before, 24);
    assert_eq!(rig.engine.counters().late_packets, 8);
    assert_eq!(rig.engine.counters().unaccounted(), 0);
    assert!(rig.installs().is_empty());
}
