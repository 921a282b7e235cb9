//! Egress queues by priority.

use serde_json::json;
use softswitch::{Output, Switch, SwitchConfig, Timestamp};

use crate::small::{document, field, load, op};

/// What leaves after a burst of packets whose first byte is their priority and
/// whose second one is their port: `(port, third byte)`.
fn burst(queues: u8, packets: &[[u8; 4]]) -> (Vec<(u16, u8)>, u64) {
    let standard = |name| field("standard_metadata", name);
    let program = load(&document(json!([
        op("assign", &[standard("priority"), field("h", "a")]),
        op("assign", &[standard("egress_spec"), field("h", "b")]),
    ])));
    let s = Switch::new(SwitchConfig {
        cpu_port: Some(9),
        priority_queues: queues,
        ..SwitchConfig::default()
    });
    s.install(program.unwrap());
    let mut left = Vec::new();
    let mut note = |o: Output<'_>| match o {
        Output::Transmit { port, bytes } => left.push((port, bytes[2])),
        Output::PacketIn { bytes } => left.push((9, bytes[2])),
        Output::Dropped { reason } => assert_eq!(reason.name(), "no_such_queue"),
    };
    let mut w = s.worker();
    let mut b = w.burst(Timestamp::default());
    for p in packets {
        b.process(0, p, &mut note);
    }
    b.finish(&mut note);
    let dropped = s.stats().dropped.iter().sum();
    (left, dropped)
}

#[test]
fn the_highest_number_leaves_first_within_a_port_and_burst() {
    let packets = [
        [0, 1, 1, 0],
        [3, 1, 2, 0],
        [7, 2, 3, 0],
        [7, 1, 4, 0],
        [3, 1, 5, 0],
        [0, 9, 6, 0],
        [1, 9, 7, 0],
    ];
    let (left, dropped) = burst(8, &packets);
    assert_eq!(dropped, 0);
    let of = |port| -> Vec<u8> {
        let frames = left.iter().filter(|(p, _)| *p == port);
        frames.map(|(_, n)| *n).collect()
    };
    assert_eq!(of(1), [4, 2, 5, 1]);
    assert_eq!(of(2), [3]);
    assert_eq!(of(9), [7, 6]);
    // A priority beyond the queues drops the packet.
    let (left, dropped) = burst(4, &packets);
    assert_eq!((left.len(), dropped), (5, 2));
}

#[test]
fn one_queue_keeps_the_order_and_takes_priority_zero_only() {
    let packets = [[0, 1, 1, 0], [1, 1, 2, 0], [0, 1, 3, 0]];
    assert_eq!(burst(1, &packets), (vec![(1, 1), (1, 3)], 1));
}
