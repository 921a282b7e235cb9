//! The readers and the checksum code agree with an independent implementation.

#![allow(clippy::expect_used)] // Test code.

use std::net::Ipv4Addr;

use etherparse::{IpNumber, Ipv4Options, PacketBuilder, SlicedPacket};
use packet::{Delta, Fragment, Network, Transport, bytes, checksum, icmp, parse, vxlan};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum L4 {
    Tcp { seq: u32, fin: bool, syn: bool },
    Udp,
    Echo,
}

#[derive(Clone, Debug)]
struct Case {
    src: [u8; 4],
    dst: [u8; 4],
    ports: (u16, u16),
    ttl: u8,
    option_words: usize,
    vlans: Vec<u16>,
    l4: L4,
    payload: Vec<u8>,
}

fn case() -> impl Strategy<Value = Case> {
    let l4 = prop_oneof![
        (any::<u32>(), any::<bool>(), any::<bool>()).prop_map(|(seq, fin, syn)| L4::Tcp {
            seq,
            fin,
            syn
        }),
        Just(L4::Udp),
        Just(L4::Echo),
    ];
    (
        any::<[u8; 4]>(),
        any::<[u8; 4]>(),
        any::<(u16, u16)>(),
        any::<u8>(),
        0_usize..=10,
        proptest::collection::vec(0_u16..4096, 0..=2),
        l4,
        proptest::collection::vec(any::<u8>(), 0..64),
    )
        .prop_map(
            |(src, dst, ports, ttl, option_words, vlans, l4, payload)| Case {
                src,
                dst,
                ports,
                ttl,
                option_words,
                vlans,
                l4,
                payload,
            },
        )
}

fn build(c: &Case) -> Vec<u8> {
    let mut ip = etherparse::Ipv4Header::new(0, c.ttl, IpNumber::UDP, c.src, c.dst)
        .expect("an empty payload fits");
    ip.dont_fragment = true;
    // No-operation options (RFC 791).
    ip.options = Ipv4Options::try_from(&vec![1_u8; c.option_words * 4][..]).expect("40 bytes");
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let net = etherparse::IpHeaders::Ipv4(ip, Default::default());
    let id = |v: u16| etherparse::VlanId::try_new(v).expect("12 bits");
    let b = match c.vlans[..] {
        [] => link.ip(net),
        [a] => link.single_vlan(id(a)).ip(net),
        [a, b] => link.double_vlan(id(a), id(b)).ip(net),
        _ => unreachable!(),
    };
    let mut out = Vec::new();
    match c.l4 {
        L4::Tcp { seq, fin, syn } => {
            let mut t = b.tcp(c.ports.0, c.ports.1, seq, 512).ack(77);
            if fin {
                t = t.fin();
            }
            if syn {
                t = t.syn();
            }
            t.write(&mut out, &c.payload)
        }
        L4::Udp => b.udp(c.ports.0, c.ports.1).write(&mut out, &c.payload),
        L4::Echo => b
            .icmpv4_echo_request(c.ports.0, c.ports.1)
            .write(&mut out, &c.payload),
    }
    .expect("writing to a vector");
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reads_the_same_fields(c in case()) {
        let frame = build(&c);
        let p = parse(&frame).expect("a valid frame");
        prop_assert_eq!(p.link.dst, [2, 0, 0, 0, 0, 2]);
        prop_assert_eq!(p.link.src, [2, 0, 0, 0, 0, 1]);
        let vlans: Vec<u16> = p.link.vlans.iter().flatten().copied().collect();
        prop_assert_eq!(&vlans, &c.vlans);
        let Network::Ipv4(ip, l4) = p.network else { panic!("IPv4") };
        prop_assert_eq!(ip.src, Ipv4Addr::from(c.src));
        prop_assert_eq!(ip.dst, Ipv4Addr::from(c.dst));
        prop_assert_eq!(ip.ttl, c.ttl);
        prop_assert_eq!(ip.header_len, 20 + 4 * c.option_words);
        prop_assert!(ip.dont_fragment);
        prop_assert_eq!(ip.fragment, Fragment::Whole);
        prop_assert_eq!(p.link.len + ip.total_len, frame.len());
        prop_assert!(packet::ipv4::header_checksum_ok(&frame[p.link.len..]));
        match (c.l4, l4) {
            (L4::Tcp { seq, fin, syn }, Transport::Tcp(t)) => {
                prop_assert_eq!((t.src_port, t.dst_port), c.ports);
                prop_assert_eq!((t.seq, t.ack), (seq, 77));
                prop_assert_eq!((t.flags.fin(), t.flags.syn()), (fin, syn));
                prop_assert!(t.flags.ack() && !t.flags.rst());
            }
            (L4::Udp, Transport::Udp(u)) => {
                prop_assert_eq!((u.src_port, u.dst_port), c.ports);
                prop_assert_eq!(u.len, 8 + c.payload.len());
            }
            (L4::Echo, Transport::Icmp(i)) => {
                prop_assert_eq!((i.kind, i.code), (8, 0));
                prop_assert_eq!(i.rest, u32::from(c.ports.0) << 16 | u32::from(c.ports.1));
            }
            (want, got) => prop_assert!(false, "{want:?} read as {got:?}"),
        }
    }

    /// An incremental rewrite of addresses and ports gives the bytes of a fresh build.
    #[test]
    fn incremental_equals_fresh(
        c in case(), src: [u8; 4], dst: [u8; 4], ports: (u16, u16),
    ) {
        let mut frame = build(&c);
        let mut want = c.clone();
        want.src = src;
        want.dst = dst;
        let p = parse(&frame).expect("valid");
        let Network::Ipv4(ip, l4) = p.network else { panic!("IPv4") };
        let pkt = &mut frame[p.link.len..];
        let l3 = Delta::ZERO
            .with_u32(u32::from_be_bytes(c.src), u32::from_be_bytes(src))
            .with_u32(u32::from_be_bytes(c.dst), u32::from_be_bytes(dst));
        bytes::put_u32(pkt, 12, u32::from_be_bytes(src));
        bytes::put_u32(pkt, 16, u32::from_be_bytes(dst));
        bytes::put_u16(pkt, 10, l3.apply(ip.checksum));
        let at = ip.header_len;
        let full = l3.with_u16(c.ports.0, ports.0).with_u16(c.ports.1, ports.1);
        match l4 {
            Transport::Tcp(t) => {
                bytes::put_u16(pkt, at, ports.0);
                bytes::put_u16(pkt, at + 2, ports.1);
                bytes::put_u16(pkt, at + 16, full.apply(t.checksum));
                want.ports = ports;
            }
            Transport::Udp(u) => {
                bytes::put_u16(pkt, at, ports.0);
                bytes::put_u16(pkt, at + 2, ports.1);
                bytes::put_u16(pkt, at + 6, full.apply_udp(u.checksum));
                want.ports = ports;
            }
            _ => {}
        }
        prop_assert_eq!(frame, build(&want));
    }

    #[test]
    fn sums_agree_with_a_word_by_word_sum(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let slow: u64 = data
            .chunks(2)
            .map(|c| u64::from(c[0]) << 8 | u64::from(c.get(1).copied().unwrap_or(0)))
            .sum();
        let mut s = slow;
        while s > 0xffff { s = (s & 0xffff) + (s >> 16); }
        prop_assert_eq!(checksum::fold(checksum::sum(&data, 0)), s as u16);
    }

    #[test]
    fn echo_reply_equals_fresh(c in case()) {
        let mut c = c;
        c.l4 = L4::Echo;
        let frame = build(&c);
        let at = parse(&frame).expect("valid").link.len;
        let mut reply = frame[at..].to_vec();
        prop_assert!(icmp::make_echo_reply(&mut reply));
        let ip_len = 20 + 4 * c.option_words;
        prop_assert_eq!(&reply[12..16], &c.dst[..]);
        prop_assert_eq!(&reply[16..20], &c.src[..]);
        prop_assert_eq!(reply[8], 64);
        prop_assert_eq!(reply[ip_len], 0);
        prop_assert!(checksum::is_valid(&reply[..ip_len]));
        prop_assert!(checksum::is_valid(&reply[ip_len..]));
        prop_assert_eq!(&reply[ip_len + 4..], &frame[at + ip_len + 4..]);
    }

    #[test]
    fn frag_needed_quotes_and_is_valid(c in case(), pad in 0_usize..1500, mtu in 576_u16..1500) {
        let mut c = c;
        c.l4 = L4::Udp;
        c.payload.resize(600 + pad, 7);
        let frame = build(&c);
        let at = parse(&frame).expect("valid").link.len;
        let mut p = frame[at..].to_vec();
        let from = Ipv4Addr::new(198, 51, 100, 1);
        let len = icmp::make_frag_needed(&mut p, from, mtu).expect("room");
        prop_assert_eq!(len, 576);
        let sliced = SlicedPacket::from_ip(&p[..len]).expect("valid");
        let Some(etherparse::NetSlice::Ipv4(ip)) = &sliced.net else { panic!("IPv4") };
        let h = ip.header();
        prop_assert_eq!(h.source_addr(), from);
        prop_assert_eq!(h.destination_addr(), Ipv4Addr::from(c.src));
        prop_assert!(!h.dont_fragment() && !h.more_fragments());
        prop_assert_eq!(h.fragments_offset().value(), 0);
        prop_assert_eq!(h.header_checksum(), h.to_header().calc_header_checksum());
        let Some(etherparse::TransportSlice::Icmpv4(m)) = &sliced.transport else { panic!("ICMP") };
        prop_assert_eq!(
            m.icmp_type(),
            etherparse::Icmpv4Type::DestinationUnreachable(
                etherparse::icmpv4::DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu: mtu
                }
            )
        );
        prop_assert_eq!(m.checksum(), m.icmp_type().calc_checksum(m.payload()));
        prop_assert_eq!(m.payload(), &frame[at..at + 548]);
        let q = packet::Quoted::parse(m.payload()).expect("a quotation");
        prop_assert_eq!((q.src_port, q.dst_port), c.ports);
        prop_assert_eq!(q.ip.dst, Ipv4Addr::from(c.dst));
    }

    #[test]
    fn tunnel_there_and_back(c in case(), vni in 0_u32..1 << 24, group: Option<u16>, sport: u16) {
        let inner = build(&c);
        let mut frame = vec![0; vxlan::ENCAP_LEN];
        frame.extend_from_slice(&inner);
        let e = vxlan::Encap {
            dst_mac: [2, 0, 0, 0, 3, 1],
            src_mac: [2, 0, 0, 0, 3, 2],
            src: Ipv4Addr::new(10, 3, 0, 1),
            dst: Ipv4Addr::new(10, 3, 0, 2),
            src_port: sport,
            ttl: 64,
            vxlan: packet::Vxlan { vni, group },
        };
        let head: &mut [u8; vxlan::ENCAP_LEN] = frame.first_chunk_mut().expect("room");
        prop_assert!(e.write(head, inner.len()));
        let s = SlicedPacket::from_ethernet(&frame).expect("valid");
        let Some(etherparse::NetSlice::Ipv4(ip)) = &s.net else { panic!("IPv4") };
        prop_assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
        let Some(etherparse::TransportSlice::Udp(u)) = &s.transport else { panic!("UDP") };
        prop_assert_eq!((u.source_port(), u.destination_port(), u.checksum()), (sport, 4789, 0));
        prop_assert_eq!(usize::from(u.length()), 16 + inner.len());
        let d = vxlan::decap(&frame).expect("ours");
        prop_assert_eq!(d.vxlan, packet::Vxlan { vni, group });
        prop_assert_eq!((d.outer_src, d.outer_dst, d.outer_src_port), (e.src, e.dst, sport));
        prop_assert_eq!(&frame[d.inner..d.end], &inner[..]);
    }
}

/// RFC 7348 section 5 and the Group Policy draft, bit by bit.
#[test]
fn vxlan_header_bits() {
    let mut h = [0xee; 8];
    packet::Vxlan {
        vni: 0x0012_3456,
        group: Some(0xbeef),
    }
    .write(&mut h);
    assert_eq!(h, [0x88, 0, 0xbe, 0xef, 0x12, 0x34, 0x56, 0]);
    packet::Vxlan {
        vni: 7,
        group: None,
    }
    .write(&mut h);
    assert_eq!(h, [0x08, 0, 0, 0, 0, 0, 7, 0]);
}

#[test]
fn fragments_are_told_apart() {
    let frame = build(&Case {
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, 2],
        ports: (1, 2),
        ttl: 9,
        option_words: 0,
        vlans: vec![],
        l4: L4::Udp,
        payload: vec![0; 32],
    });
    let read = |flags: u16| {
        let mut f = frame.clone();
        f[20..22].copy_from_slice(&flags.to_be_bytes());
        match parse(&f).expect("valid").network {
            Network::Ipv4(ip, l4) => (ip.fragment, matches!(l4, Transport::LaterFragment)),
            _ => panic!("IPv4"),
        }
    };
    assert_eq!(read(0x0000), (Fragment::Whole, false));
    assert_eq!(read(0x2000), (Fragment::First, false));
    assert_eq!(read(0x2001), (Fragment::Later, true));
    assert_eq!(read(0x0001), (Fragment::Later, true));
}
