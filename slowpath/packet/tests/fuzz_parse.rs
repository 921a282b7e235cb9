//! Arbitrary bytes: no reader panics, and what is read lies inside the bytes.

#![allow(clippy::expect_used)] // Test code.

use packet::{Ipv4, Network, Quoted, Transport, icmp, parse, vxlan};

fn check(bytes: &[u8]) {
    if let Ok(p) = parse(bytes) {
        assert!(p.link.len <= bytes.len());
        if let Network::Ipv4(ip, l4) = p.network {
            assert!(ip.header_len >= 20 && ip.header_len <= ip.total_len);
            assert!(p.link.len + ip.total_len <= bytes.len());
            if let Transport::Tcp(t) = l4 {
                assert!(ip.header_len + t.header_len <= ip.total_len);
            }
        }
    }
    if let Ok(d) = vxlan::decap(bytes) {
        assert!(d.inner <= d.end && d.end <= bytes.len());
        assert!(d.vxlan.vni < 1 << 24);
    }
    let _ = Quoted::parse(bytes);
    let _ = packet::ipv4::header_checksum_ok(bytes);

    let mut copy = bytes.to_vec();
    if !icmp::make_echo_reply(&mut copy) {
        assert_eq!(copy, bytes, "a refused request must stay as it was");
    }
    let mut copy = bytes.to_vec();
    match icmp::make_frag_needed(&mut copy, [192, 0, 2, 1].into(), 1400) {
        Some(len) => {
            assert!(len <= copy.len());
            let ip = Ipv4::parse(&copy[..len]).expect("our own error parses");
            assert_eq!(ip.total_len, len);
        }
        None => assert_eq!(copy, bytes),
    }
}

#[test]
fn fuzz_raw_bytes() {
    bolero::check!().with_iterations(20_000).for_each(check);
}

/// A valid frame with some bytes replaced reaches deeper than noise does.
#[test]
fn fuzz_mutated_frames() {
    let seed = {
        let mut out = Vec::new();
        etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1000, 4789)
            .write(&mut out, &{
                let mut inner = vec![0x88, 0, 0, 7, 0, 0, 1, 0];
                etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
                    .ipv4([10, 1, 0, 1], [10, 1, 0, 2], 64)
                    .tcp(1, 2, 3, 4)
                    .write(&mut inner, b"data")
                    .expect("vec");
                inner
            })
            .expect("vec");
        out
    };
    bolero::check!()
        .with_iterations(20_000)
        .with_type::<(Vec<(u8, u8)>, u8)>()
        .for_each(|(edits, cut)| {
            let mut frame = seed.clone();
            for (at, value) in edits {
                let at = usize::from(*at) % frame.len();
                frame[at] = *value;
            }
            let keep = frame.len() - usize::from(*cut) % frame.len();
            check(&frame[..keep]);
            check(&frame[14.min(keep)..keep]);
            check(&frame[50.min(keep)..keep]);
        });
}
