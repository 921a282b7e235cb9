//! Frames from the network: whatever comes, no panic, and answers only to what
//! asked for them.

#![allow(clippy::unwrap_used)]

use offload_ctl::frames::{self, Frame};
use sluice_config::Mac;

const MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);

#[test]
fn any_bytes_as_a_frame() {
    bolero::check!()
        .with_iterations(20_000)
        .for_each(|bytes: &[u8]| match frames::parse(bytes) {
            Some(Frame::Arp(arp)) => {
                let reply = frames::arp_reply(MAC, &arp);
                let Some(Frame::Arp(back)) = frames::parse(&reply) else {
                    panic!("a reply is ARP");
                };
                assert_eq!((back.sender, back.target), (arp.target, arp.sender));
            }
            Some(Frame::Ipv4(packet)) => {
                if let Some(reply) = frames::echo_reply(MAC, &packet) {
                    assert!(reply.len() >= 60);
                    assert_eq!(reply[34], 0, "an echo reply");
                }
            }
            None => {}
        });
}

/// Frames that look right at first, so that the deeper checks are reached.
#[test]
fn frames_with_a_plausible_beginning() {
    bolero::check!()
        .with_iterations(20_000)
        .with_type::<(bool, bool, Vec<u8>)>()
        .for_each(|(tagged, arp, rest)| {
            let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 9, 9];
            if *tagged {
                frame.extend([0x81, 0x00, 0x00, 0x05]);
            }
            if *arp {
                frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0]);
            } else {
                frame.extend([0x08, 0x00, 0x45]);
            }
            frame.extend(rest);
            if let Some(Frame::Ipv4(packet)) = frames::parse(&frame) {
                assert!(packet.payload.len() <= rest.len());
                let _ = frames::echo_reply(MAC, &packet);
            }
        });
}
