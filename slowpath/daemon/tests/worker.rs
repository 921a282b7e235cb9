//! The path of a frame through workers: whole frames, byte for byte, and the
//! books.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::*;
use offload_api::v1;
use proptest::prelude::*;
use session_engine::DropReason;
use slowpath::drops::FrameDrop;
use slowpath::message::{Command, Event};
use slowpath::report::{FrameCounters, Report};

const C: ([u8; 4], u16) = (CLIENT, 40_000);
const V: ([u8; 4], u16) = (VIP, 80);
const S: ([u8; 4], u16) = (SERVER, 8080);

fn frame_drops(report: &Report) -> Vec<(&'static str, u64)> {
    FrameDrop::ALL
        .iter()
        .map(|r| (r.name(), report.frames.drops[r.index()]))
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn engine_drops(report: &Report) -> Vec<(&'static str, u64)> {
    DropReason::ALL
        .iter()
        .map(|r| (r.name(), report.engine.drops[r.index()]))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// Opens a TCP connection whose frames belong to worker 0 of `ld`; gives the
/// local port.
fn connect(ld: &mut Ld) -> u16 {
    let sent = ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "S", b"")));
    let port = inner_ports(&sent[0]).0;
    let l = (LIP, port);
    assert_eq!(sent, [to_switch(0xc0d0, &tcp(l, S, "S", b""))]);
    // Replies carry the local port's shard in the outer source port.
    let e = 0xc000 | (port & 0x3fff);
    let sent = ld.receive(0, from_switch(e, SLOT, &tcp(S, l, "SA", b"")));
    assert_eq!(sent, [to_switch(e, &tcp(V, C, "SA", b""))]);
    let sent = ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "A", b"")));
    assert_eq!(sent, [to_switch(0xc0d0, &tcp(l, S, "A", b""))]);
    port
}

#[test]
fn a_connection_passes_both_ways_byte_for_byte() {
    let mut ld = Ld::new(1);
    let port = connect(&mut ld);
    let l = (LIP, port);
    let sent = ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "AP", b"GET /")));
    assert_eq!(sent, [to_switch(0xc0d0, &tcp(l, S, "AP", b"GET /"))]);
    let e = 0xc000 | (port & 0x3fff);
    let sent = ld.receive(0, from_switch(e, SLOT, &tcp(S, l, "AP", b"200 OK")));
    assert_eq!(sent, [to_switch(e, &tcp(V, C, "AP", b"200 OK"))]);
    let report = &ld.assert_books()[0];
    assert_eq!(
        report.frames,
        FrameCounters {
            received: 5,
            forwarded: 5,
            ..FrameCounters::default()
        }
    );
    assert_eq!(report.gauges.sessions, 1);
    assert_eq!(report.vips[0].fwd_packets, 3);
    assert_eq!(report.vips[0].rev_packets, 2);
}

#[test]
fn nothing_passes_before_configuration_and_opening() {
    let mut ld = Ld::bare(1);
    let syn = from_switch(0xc0d0, SLOT, &tcp(C, V, "S", b""));
    assert!(ld.receive(0, syn.clone()).is_empty());
    let config = slowpath::snapshot::build(&snapshot()).unwrap();
    ld.command(0, Command::Configure(config.into()));
    assert!(ld.receive(0, syn.clone()).is_empty());
    ld.command(0, Command::Open);
    assert_eq!(ld.receive(0, syn).len(), 1);
    let report = &ld.assert_books()[0];
    assert_eq!(frame_drops(report), [("no_configuration", 2)]);
    assert_eq!(report.frames.received, 3);
}

#[test]
fn what_is_not_for_the_engine_is_dropped_by_name() {
    let mut ld = Ld::new(1);
    let good = from_switch(0xc0d0, SLOT, &tcp(C, V, "S", b""));
    let mut arp = good.clone();
    arp[13] = 6;
    let mut other_vtep = good.clone();
    other_vtep[33] = 9;
    let mut other_peer = good.clone();
    other_peer[29] = 9;
    let mut no_group = good.clone();
    no_group[42] = 0x08;
    let mut inner_v6 = good.clone();
    inner_v6[62..64].copy_from_slice(&[0x86, 0xdd]);
    let mut short = good.clone();
    short.truncate(70);
    for frame in [arp, other_vtep, other_peer, no_group, inner_v6, short] {
        assert!(ld.receive(0, frame).is_empty());
    }
    let report = &ld.assert_books()[0];
    assert_eq!(
        frame_drops(report),
        [
            ("not_tunnel", 1),
            ("tunnel_malformed", 1),
            ("inner_not_ipv4", 1),
            ("no_slot", 1),
            ("wrong_vtep", 1),
            ("unknown_peer", 1)
        ]
    );
    assert_eq!(engine_drops(report), []);
}

#[test]
fn the_engines_drops_are_in_the_books() {
    let mut ld = Ld::new(1);
    assert!(
        ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "A", b"")))
            .is_empty()
    );
    assert!(
        ld.receive(0, from_switch(0xc0d0, 77, &tcp(C, V, "S", b"")))
            .is_empty()
    );
    let report = &ld.assert_books()[0];
    assert_eq!(
        engine_drops(report),
        [("no_session", 1), ("no_local_address", 1)]
    );
}

#[test]
fn a_frame_in_the_wrong_queue_goes_to_its_owner() {
    let mut ld = Ld::new(2);
    // Shard 1: worker 1's, arriving at worker 0.
    let sent = ld.receive(0, from_switch(0xc0d1, SLOT, &tcp(C, V, "S", b"")));
    let port = inner_ports(&sent[0]).0;
    assert_eq!(port & 1, 1, "worker 1 hands out ports of its shards");
    // Byte for byte, so nothing of the way between workers is left in it.
    assert_eq!(sent, [to_switch(0xc0d1, &tcp((LIP, port), S, "S", b""))]);
    // The reply arrives at the wrong queue as well.
    let e = 0xc000 | (port & 0x3fff);
    let sent = ld.receive(0, from_switch(e, SLOT, &tcp(S, (LIP, port), "SA", b"")));
    assert_eq!(sent, [to_switch(e, &tcp(V, C, "SA", b""))]);
    let reports = ld.assert_books();
    assert_eq!(
        reports[0].frames,
        FrameCounters {
            received: 2,
            redirected_out: 2,
            ..FrameCounters::default()
        }
    );
    assert_eq!(
        reports[1].frames,
        FrameCounters {
            redirected_in: 2,
            forwarded: 2,
            ..FrameCounters::default()
        }
    );
}

#[test]
fn full_rings_and_queues_drop_by_name() {
    let mut ld = Ld::new(2);
    ld.wires[1].borrow_mut().ring_room = 1;
    let syn = |port: u16, e: u16| from_switch(e, SLOT, &tcp((CLIENT, port), V, "S", b""));
    for port in 0..3 {
        ld.wires[0]
            .borrow_mut()
            .rx
            .push_back(syn(30_000 + port, 0xc001));
    }
    ld.turns(2);
    assert_eq!(ld.sent().len(), 1);
    ld.wires[0].borrow_mut().tx_room = 2;
    for port in 0..5 {
        ld.wires[0]
            .borrow_mut()
            .rx
            .push_back(syn(31_000 + port, 0xc002));
    }
    ld.turns(2);
    assert_eq!(ld.sent().len(), 2);
    let reports = ld.assert_books();
    assert_eq!(
        frame_drops(&reports[0]),
        [("redirect_full", 2), ("tx_full", 3)]
    );
    assert_eq!(reports[0].frames.forwarded, 2);
}

/// An ICMP message in an inner frame, checksum by hand (RFC 792).
fn icmp(src: [u8; 4], dst: [u8; 4], message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let sum = message
        .chunks(2)
        .map(|c| u32::from(c[0]) << 8 | c.get(1).copied().map_or(0, u32::from))
        .sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    message[2..4].copy_from_slice(&(!folded as u16).to_be_bytes());
    let mut out = udp((src, 0), (dst, 0), &[]);
    out.truncate(14);
    let mut ip = etherparse::Ipv4Header::new(
        message.len() as u16,
        63,
        etherparse::IpNumber::ICMP,
        src,
        dst,
    )
    .unwrap();
    ip.dont_fragment = true;
    ip.header_checksum = ip.calc_header_checksum();
    ip.write(&mut out).unwrap();
    out.extend(message);
    out
}

#[test]
fn pings_are_answered_from_the_load_director() {
    let mut ld = Ld::new(1);
    let ping = icmp(CLIENT, VIP, &[8, 0, 0, 0, 0, 1, 0, 2, 9, 9, 9, 9]);
    let sent = ld.receive(0, from_switch(0xc0d0, SLOT, &ping));
    // The answer has TTL 64; the switch decrements it.
    let mut pong = icmp(VIP, CLIENT, &[0, 0, 0, 0, 0, 1, 0, 2, 9, 9, 9, 9]);
    pong[14 + 8] = 64;
    pong[14 + 10..14 + 12].fill(0);
    let sum = packet::checksum::checksum(&pong[14..34]);
    pong[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(sent, [to_switch(0xc0d0, &pong)]);
    let report = &ld.assert_books()[0];
    assert_eq!((report.frames.replied, report.frames.forwarded), (1, 0));
}

#[test]
fn too_large_packets_are_answered_in_a_shorter_frame() {
    let mut ld = Ld::new(1);
    connect(&mut ld);
    let mut big = tcp(C, V, "AP", &[7; 1440]);
    // Don't fragment.
    big[14 + 6] = 0x40;
    big[24..26].fill(0);
    let sum = packet::checksum::checksum(&big[14..34]);
    big[24..26].copy_from_slice(&sum.to_be_bytes());
    let sent = ld.receive(0, from_switch(0xc0d0, SLOT, &big));
    assert_eq!(sent.len(), 1);
    let outer = packet::vxlan::decap(&sent[0]).unwrap();
    assert_eq!(
        outer.end,
        sent[0].len(),
        "no bytes of the large frame follow"
    );
    assert!(packet::ipv4::header_checksum_ok(&sent[0][14..]));
    let inner = &sent[0][outer.inner + 14..];
    // Destination unreachable, fragmentation needed, next-hop MTU 1400.
    assert_eq!(inner[9], 1);
    assert_eq!(inner[20..22], [3, 4]);
    assert_eq!(inner[26..28], 1400_u16.to_be_bytes());
    assert_eq!(inner[16..20], CLIENT);
    assert_eq!(inner.len(), 576);
    assert_eq!(inner[28..], big[14..14 + 548]);
    assert_eq!(ld.assert_books()[0].frames.replied, 1);
}

#[test]
fn an_icmp_error_finds_its_session_on_another_worker() {
    let mut ld = Ld::new(3);
    let port = connect(&mut ld);
    // "Port unreachable" from the client about a reply: quotes VIP -> client.
    // Its outer source port (a hash of addresses) points at worker 1.
    let quoted = tcp(V, C, "A", b"");
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(&quoted[14..14 + 28]);
    let sent = ld.receive(1, from_switch(0xc001, SLOT, &icmp(CLIENT, VIP, &message)));
    assert_eq!(sent.len(), 1);
    let outer = packet::vxlan::decap(&sent[0]).unwrap();
    let inner = &sent[0][outer.inner + 14..];
    assert_eq!(inner[16..20], SERVER);
    // The quotation is what the server sent: server -> local address.
    assert_eq!(inner[28 + 12..28 + 16], SERVER);
    assert_eq!(inner[28 + 16..28 + 20], LIP);
    assert_eq!(inner[28 + 22..28 + 24], port.to_be_bytes());
    let reports = ld.assert_books();
    assert_eq!(reports[1].frames.redirected_out, 1);
    assert_eq!(reports[2].frames.redirected_out, 1);
    assert_eq!(reports[0].frames.redirected_in, 1);

    // One about no session goes round once and is dropped.
    message[8 + 22] ^= 0x55;
    let sent = ld.receive(1, from_switch(0xc001, SLOT, &icmp(CLIENT, VIP, &message)));
    assert!(sent.is_empty());
    let reports = ld.assert_books();
    let drops: Vec<_> = reports.iter().map(engine_drops).collect();
    assert_eq!(drops, [vec![("icmp_no_session", 1)], vec![], vec![]]);
}

#[test]
fn a_session_lives_on_the_switch_and_its_port_rests_until_acknowledged() {
    let mut ld = Ld::new(1);
    let port = connect(&mut ld);
    assert!(ld.events(0).is_empty(), "three packets are too few");
    ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "AP", b"GET /")));
    let events = ld.events(0);
    let [Event::Install(flow)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        *flow,
        v1::FlowPair {
            session_id: flow.session_id,
            vip_id: 1,
            vip_port: 80,
            protocol: 6,
            client_addr: u32::from_be_bytes(CLIENT),
            client_port: 40_000,
            server_id: 1,
            local_id: 1,
            local_port: port.into(),
            idle_timeout_ms: 10_000,
            generation: 1,
        }
    );
    let id = flow.session_id;
    ld.command(0, Command::Installed(id));
    // A packet on its way while the switch took over passes and is counted.
    let sent = ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "A", b"x")));
    assert_eq!(sent, [to_switch(0xc0d0, &tcp((LIP, port), S, "A", b"x"))]);
    assert_eq!(ld.report(0).engine.late_packets, 1);

    ld.receive(0, from_switch(0xc0d0, SLOT, &tcp(C, V, "R", b"")));
    let events = ld.events(0);
    let [Event::Remove { session_id, reason }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((*session_id, *reason), (id, v1::RemoveReason::Closed));
    // Without the acknowledgement the port stays taken, however long it takes.
    ld.pass_ms(20_000);
    let report = ld.report(0);
    assert_eq!(report.gauges.ports_in_use, 1);
    ld.command(
        0,
        Command::Removed(v1::FlowTotals {
            session_id: id,
            fwd_packets: 100,
            ..v1::FlowTotals::default()
        }),
    );
    ld.pass_ms(3_000);
    let report = &ld.assert_books()[0];
    assert_eq!(report.gauges.sessions, 0);
    assert_eq!(report.gauges.ports_in_use, 0);
}

#[test]
fn takes_over_what_an_earlier_process_left() {
    let mut ld = Ld::new(2);
    let flow = v1::FlowPair {
        session_id: 99,
        vip_id: 1,
        vip_port: 80,
        protocol: 6,
        client_addr: u32::from_be_bytes(CLIENT),
        client_port: 40_000,
        server_id: 1,
        local_id: 1,
        local_port: 2001,
        idle_timeout_ms: 10_000,
        generation: 1,
    };
    ld.command(1, Command::Adopt(Box::new(flow)));
    let events = ld.events(1);
    let [
        Event::Adopted {
            flow: back,
            result: Ok(id),
        },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(**back, flow);
    let l = (LIP, 2001);
    let sent = ld.receive(1, from_switch(0xc000 | 2001, SLOT, &tcp(S, l, "FA", b"")));
    assert_eq!(sent, [to_switch(0xc000 | 2001, &tcp(V, C, "FA", b""))]);
    // The wrong worker's port, and ids that are unknown, are refused.
    for wrong in [
        v1::FlowPair {
            local_port: 2002,
            ..flow
        },
        v1::FlowPair {
            local_port: 2003,
            vip_id: 9,
            ..flow
        },
        v1::FlowPair {
            local_port: 70_000,
            ..flow
        },
    ] {
        ld.command(1, Command::Adopt(Box::new(wrong)));
        let events = ld.events(1);
        assert!(
            events
                .iter()
                .any(|e| matches!(e, Event::Adopted { result: Err(_), .. })),
            "{events:?}"
        );
    }
    assert_ne!(*id, 0);
}

#[test]
fn explains_and_kills() {
    let mut ld = Ld::new(1);
    let port = connect(&mut ld);
    let tuple = v1::Tuple {
        vni: 0,
        protocol: 6,
        src_addr: u32::from_be_bytes(CLIENT),
        src_port: 40_000,
        dst_addr: u32::from_be_bytes(VIP),
        dst_port: 80,
    };
    let ask = |ld: &mut Ld, tuple| {
        ld.command(0, Command::Explain { query_id: 5, tuple });
        ld.events(0)
            .into_iter()
            .find_map(|e| match e {
                Event::Explained(answer) => Some(*answer),
                _ => None,
            })
            .unwrap()
    };
    let answer = ask(&mut ld, tuple);
    assert!(answer.found);
    assert_eq!(answer.query_id, 5);
    assert_eq!(answer.tcp_state, "established");
    assert_eq!(answer.offload_state, "none");
    assert_eq!(answer.flow.unwrap().local_port, u32::from(port));
    assert!(
        answer.facts[1].contains(&format!("10.9.0.1:{port} -> 10.2.1.2:8080")),
        "{:?}",
        answer.facts
    );
    ld.command(
        0,
        Command::Kill {
            vip_id: 1,
            server_id: 0,
        },
    );
    ld.turns(2);
    let answer = ask(&mut ld, tuple);
    assert!(!answer.found || answer.tcp_state == "killed", "{answer:?}");
    ld.pass_ms(2_000);
    assert_eq!(ld.report(0).gauges.sessions, 0);
}

#[test]
fn a_drain_ends_every_session_of_every_vip() {
    let mut ld = Ld::new(1);
    connect(&mut ld);
    let sent = ld.receive(0, from_switch(0xc000, SLOT, &udp(C, (VIP, 5353), b"query")));
    let port = inner_ports(&sent[0]).0;
    assert_eq!(
        sent,
        [to_switch(0xc000, &udp((LIP, port), (SERVER, 53), b"query"))]
    );
    assert_eq!(ld.report(0).gauges.sessions, 2);
    ld.command(0, Command::Drain);
    ld.pass_ms(3_000);
    assert_eq!(ld.assert_books()[0].gauges.sessions, 0);
}

#[test]
fn events_wait_for_room_and_are_not_lost() {
    let mut ld = Ld::new(1);
    // More answers than the ring holds.
    let asked = slowpath::control::RING + 500;
    for i in 0..asked {
        let command = Command::Explain {
            query_id: i as u64,
            tuple: v1::Tuple::default(),
        };
        if let Err(command) = ld.rings[0].commands.push(command) {
            ld.turns(20);
            ld.rings[0].commands.push(command).unwrap();
        }
    }
    ld.turns(20);
    let mut seen = Vec::new();
    while seen.len() < asked {
        let events = ld.events(0);
        assert!(!events.is_empty());
        seen.extend(events.into_iter().filter_map(|e| match e {
            Event::Explained(answer) => Some(answer.query_id),
            _ => None,
        }));
        ld.pass_ms(50);
    }
    assert!(seen.iter().copied().eq(0..asked as u64));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives wherever, every frame is counted once.
    #[test]
    fn the_books_balance(
        frames in prop::collection::vec(
            (0usize..3, any::<u16>(), 0u8..6, prop::collection::vec((0usize..110, any::<u8>()), 0..3)),
            1..60,
        ),
        tx_room in 0usize..80,
        ring_room in 0usize..20,
    ) {
        let mut ld = Ld::new(3);
        for wires in &ld.wires {
            wires.borrow_mut().tx_room = tx_room;
            wires.borrow_mut().ring_room = ring_room;
        }
        let count = frames.len() as u64;
        for (worker, source, kind, damage) in frames {
            let client = (CLIENT, 1000 + source % 8);
            let inner = match kind {
                0 => tcp(client, V, "S", b""),
                1 => tcp(client, V, "A", b"data"),
                2 => udp(client, (VIP, 5353), b"query"),
                3 => tcp(S, (LIP, 1024 + source % 64), "SA", b""),
                4 => icmp(CLIENT, VIP, &[8, 0, 0, 0, 0, 1, 0, 2]),
                _ => icmp(CLIENT, VIP, &[3, 3, 0, 0, 0, 0, 0, 0, 0x45]),
            };
            let mut frame = from_switch(0xc000 | source, SLOT, &inner);
            for (at, value) in damage {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            ld.wires[worker].borrow_mut().rx.push_back(frame);
        }
        ld.turns(8);
        let reports = ld.assert_books();
        let received: u64 = reports.iter().map(|r| r.frames.received).sum();
        prop_assert_eq!(received, count);
        let went: u64 = reports
            .iter()
            .map(|r| r.frames.forwarded + r.frames.replied + r.frames.dropped() + r.engine.dropped())
            .sum();
        prop_assert_eq!(went, count);
        prop_assert_eq!(
            ld.sent().len() as u64,
            reports.iter().map(|r| r.frames.forwarded + r.frames.replied).sum::<u64>()
        );
    }
}
