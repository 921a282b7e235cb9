//! Arbitrary bytes as packets: no panic, balanced books, and what is dropped
//! stays as it was.

mod common;

use common::*;
use session_engine::Verdict;

fn check(rig: &mut Rig, packets: &[Vec<u8>]) {
    // `burst` compares dropped packets and the books.
    let (verdicts, after) = rig.burst(packets);
    for (v, bytes) in verdicts.iter().zip(&after) {
        if let Verdict::Reply { len } = v {
            assert!(usize::from(*len) <= bytes.len());
        }
    }
}

#[test]
fn fuzz_raw_bytes() {
    bolero::check!()
        .with_iterations(2_000)
        .with_type::<Vec<Vec<u8>>>()
        .for_each(|packets| {
            check(&mut Rig::new(spec(2)), packets);
        });
}

/// Good packets of a connection with some bytes replaced.
#[test]
fn fuzz_mutated_packets() {
    bolero::check!()
        .with_iterations(500)
        .with_type::<Vec<(u8, u8, u8, u8)>>()
        .for_each(|edits| {
            let mut rig = Rig::new(offloading(spec(2), 0));
            let c = rig.connect(40_000);
            let seeds = [
                Packet::tcp(c.client, c.vip, ACK).with(b"payload").build(),
                Packet::tcp(c.server, c.local, FIN).build(),
                Packet::tcp(c.client, c.vip, SYN).build(),
                Packet::udp(c.client, (VIP, 53), b"payload").build(),
            ];
            let packets: Vec<Vec<u8>> = edits
                .iter()
                .map(|(which, at, value, cut)| {
                    let mut p = seeds[usize::from(*which) % 4].clone();
                    let at = usize::from(*at) % p.len();
                    p[at] = *value;
                    p.truncate(p.len() - usize::from(*cut) % 8);
                    p
                })
                .collect();
            check(&mut rig, &packets);
            rig.pass(secs(2000));
        });
}
