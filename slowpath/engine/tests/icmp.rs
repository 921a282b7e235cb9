//! Echo, errors relayed by their quotation, and answers to what is too big.

#![allow(clippy::unwrap_used)] // Test code.

mod common;

use std::net::Ipv4Addr;

use common::*;
use etherparse::{
    Icmpv4Type, PacketBuilder, SlicedPacket, TransportSlice,
    icmpv4::{DestUnreachableHeader, TimeExceededCode},
};
use session_engine::{Direction, DropReason, Redirect, Verdict};

const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn error(from: Ipv4Addr, to: Ipv4Addr, kind: Icmpv4Type, quote: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    PacketBuilder::ipv4(from.octets(), to.octets(), 60)
        .icmpv4(kind)
        .write(&mut out, quote)
        .unwrap();
    out
}

fn frag_needed(mtu: u16) -> Icmpv4Type {
    Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded {
        next_hop_mtu: mtu,
    })
}

/// cilium 47755: frag-needed from beyond the server, whose quotation has to be
/// rewritten too. cilium 46993, glb-director 47: matched by the quotation.
#[test]
fn an_error_from_the_servers_side_reaches_the_client() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(40_000);
    let request = Packet::tcp(c.client, c.vip, ACK).with(&[7; 600]);
    let (v, after) = rig.send(&request.build());
    assert_eq!(v, Verdict::Forward(Direction::Forward));
    for kind in [
        frag_needed(1400),
        Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit),
    ] {
        // The router saw the packet as it left here; it quotes all of it, 28
        // bytes, or 40 bytes.
        for len in [after.len(), 28, 40, 36] {
            let e = error(ROUTER, c.local.0, kind.clone(), &after[..len]);
            let (v, out) = rig.send(&e);
            assert_eq!(v, Verdict::Forward(Direction::Reply));
            let want = error(VIP, CLIENT, kind.clone(), &request.build()[..len]);
            assert_eq!(out, want, "{len} bytes quoted");
        }
    }
}

#[test]
fn an_error_from_the_clients_side_reaches_the_server() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(40_000);
    let reply = Packet::tcp(c.server, c.local, ACK).with(&[7; 600]);
    let (_, after) = rig.send(&reply.build());
    let e = error(ROUTER, VIP, frag_needed(1300), &after[..60]);
    let (v, out) = rig.send(&e);
    assert_eq!(v, Verdict::Forward(Direction::Forward));
    let want = error(
        c.local.0,
        c.server.0,
        frag_needed(1300),
        &reply.build()[..60],
    );
    assert_eq!(out, want);
}

#[test]
fn udp_errors_keep_a_zero_checksum() {
    let mut rig = Rig::new(spec(1));
    let mut p = Packet::udp((CLIENT, 5000), (VIP, 53), b"question");
    for none in [false, true] {
        p.no_checksum = none;
        let (_, after) = rig.send(&p.build());
        let (local, server) = Packet::ends(&after);
        let kind = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Port);
        let e = error(server.0, local.0, kind.clone(), &after[..28]);
        let (v, out) = rig.send(&e);
        assert_eq!(v, Verdict::Forward(Direction::Reply));
        assert_eq!(out, error(VIP, CLIENT, kind, &p.build()[..28]));
    }
}

#[test]
fn errors_about_nothing_are_dropped_with_a_reason() {
    let mut rig = Rig::new(spec(1));
    let c = rig.connect(40_000);
    let (_, after) = rig.send(&Packet::tcp(c.client, c.vip, ACK).build());
    let drop_of = |rig: &mut Rig, bytes: &[u8]| match rig.send(bytes).0 {
        Verdict::Drop(r) => r,
        v => panic!("{v:?}"),
    };
    let good = error(ROUTER, c.local.0, frag_needed(1400), &after[..28]);

    let mut bad_sum = good.clone();
    bad_sum[22] ^= 1;
    assert_eq!(drop_of(&mut rig, &bad_sum), DropReason::IcmpBadChecksum);

    let stranger = Packet::tcp((c.local.0, c.local.1 + 16), c.server, ACK).build();
    let e = error(ROUTER, c.local.0, frag_needed(1400), &stranger[..28]);
    assert_eq!(drop_of(&mut rig, &e), DropReason::IcmpNoSession);

    // The right port, but a packet that was never sent to that server.
    let stranger = Packet::tcp(c.local, ([10, 2, 9, 9].into(), 8080), ACK).build();
    let e = error(ROUTER, c.local.0, frag_needed(1400), &stranger[..28]);
    assert_eq!(drop_of(&mut rig, &e), DropReason::IcmpNoSession);

    // A quotation whose sender is not the receiver of the error.
    let e = error(ROUTER, VIP, frag_needed(1400), &after[..28]);
    assert_eq!(drop_of(&mut rig, &e), DropReason::IcmpBadQuote);
    let e = error(ROUTER, c.local.0, frag_needed(1400), &after[..20]);
    assert_eq!(drop_of(&mut rig, &e), DropReason::IcmpBadQuote);

    let e = error(
        [10, 1, 1, 1].into(),
        [10, 7, 7, 7].into(),
        frag_needed(1400),
        &after[..28],
    );
    assert_eq!(drop_of(&mut rig, &e), DropReason::UnknownDestination);
}

/// dpvs 630: an error may land at a worker that does not have the session.
#[test]
fn errors_find_the_worker_with_the_session() {
    let mut rig = Rig::with_config(spec(1), |c| c.workers = 2);
    let quote = Packet::tcp(
        ([10, 9, 0, 1].into(), 2001),
        ([10, 2, 1, 2].into(), 8080),
        ACK,
    );
    let e = error(
        ROUTER,
        [10, 9, 0, 1].into(),
        frag_needed(1400),
        &quote.build()[..28],
    );
    assert_eq!(rig.send(&e).0, Verdict::Redirect(Redirect::Worker(1)));

    let quote = Packet::tcp((VIP, 80), (CLIENT, 1), ACK);
    let e = error(ROUTER, VIP, frag_needed(1400), &quote.build()[..28]);
    assert_eq!(rig.send(&e).0, Verdict::Redirect(Redirect::Next));
    let mut e2 = e.clone();
    let mut v = [Verdict::Drop(DropReason::Malformed)];
    let mut p = [session_engine::PacketIn {
        data: &mut e2,
        vni: 0,
        slot: SLOT,
        hops: 1,
    }];
    rig.engine
        .process_burst(session_engine::Tick(rig.now), &mut p, &mut v);
    assert_eq!(v[0], Verdict::Drop(DropReason::IcmpNoSession));
}

#[test]
fn a_vip_answers_echo_up_to_a_rate() {
    let mut rig = Rig::with_config(spec(1), |c| c.icmp_per_second = 8);
    let mut request = Vec::new();
    PacketBuilder::ipv4(CLIENT.octets(), VIP.octets(), 60)
        .icmpv4_echo_request(7, 8)
        .write(&mut request, b"hello")
        .unwrap();
    let mut want = Vec::new();
    PacketBuilder::ipv4(VIP.octets(), CLIENT.octets(), 64)
        .icmpv4_echo_reply(7, 8)
        .write(&mut want, b"hello")
        .unwrap();
    for _ in 0..8 {
        let (v, out) = rig.send(&request);
        assert_eq!(v, Verdict::Reply { len: 33 });
        assert_eq!(out, want);
    }
    assert_eq!(
        rig.send(&request).0,
        Verdict::Drop(DropReason::IcmpRateLimited)
    );
    rig.pass(1);
    assert!(matches!(rig.send(&request).0, Verdict::Reply { .. }));
    assert_eq!(rig.engine.counters().answered, 9);
}

/// dpvs 133: an unsolicited echo reply opens no session.
#[test]
fn an_unsolicited_echo_reply_leaves_no_state() {
    let mut rig = Rig::new(spec(1));
    let mut p = Vec::new();
    PacketBuilder::ipv4(CLIENT.octets(), VIP.octets(), 60)
        .icmpv4_echo_reply(7, 8)
        .write(&mut p, b"hello")
        .unwrap();
    assert_eq!(rig.send(&p).0, Verdict::Drop(DropReason::IcmpUnsupported));
    assert_eq!(rig.engine.gauges().ports_in_use, 0);
}

/// katran 82: an MTU-sized packet that will not fit must not vanish. katran
/// 206: the error itself carries no fragment bits.
#[test]
fn what_is_too_big_is_answered() {
    let mut s = spec(1);
    s.vips[0].servers[0].mtu = 1400;
    s.client_mtu = 1300;
    let mut rig = Rig::with_config(s, |c| c.icmp_per_second = 4);
    let c = rig.connect(40_000);
    let fits = Packet::tcp(c.client, c.vip, ACK).with(&[1; 1360]);
    rig.forward(&fits);
    let big = Packet::tcp(c.client, c.vip, ACK).with(&[1; 1361]);
    let check = |rig: &mut Rig, big: &Packet, from: Ipv4Addr, to: Ipv4Addr, mtu| {
        let bytes = big.build();
        let (v, out) = rig.send(&bytes);
        assert_eq!(v, Verdict::Reply { len: 576 });
        assert_eq!(out[6..8], [0, 0], "no fragment bits");
        let s = SlicedPacket::from_ip(&out[..576]).unwrap();
        let Some(etherparse::NetSlice::Ipv4(ip)) = &s.net else {
            panic!()
        };
        assert_eq!(ip.header().source_addr(), from);
        assert_eq!(ip.header().destination_addr(), to);
        let Some(TransportSlice::Icmpv4(m)) = s.transport else {
            panic!()
        };
        assert_eq!(m.icmp_type(), frag_needed(mtu));
        assert_eq!(m.checksum(), m.icmp_type().calc_checksum(m.payload()));
        assert_eq!(m.payload(), &bytes[..548], "the packet as it was sent");
    };
    check(&mut rig, &big, VIP, CLIENT, 1400);
    let down = Packet::tcp(c.server, c.local, ACK).with(&[1; 1261]);
    check(&mut rig, &down, c.local.0, c.server.0, 1300);

    let mut may_fragment = big.clone();
    may_fragment.dont_fragment = false;
    assert_eq!(rig.dropped(&may_fragment), DropReason::MtuExceeded);
    let first = rig.send(&big.build()).0;
    let second = rig.send(&big.build()).0;
    assert!(matches!(first, Verdict::Reply { .. }));
    assert!(matches!(second, Verdict::Reply { .. }));
    assert_eq!(rig.dropped(&big), DropReason::IcmpRateLimited);
}
