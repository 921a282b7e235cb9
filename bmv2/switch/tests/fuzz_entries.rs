//! Whatever an entries file or an STF test holds, reading it ends with a line
//! and a reason, or is carried out.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use softswitch::{Program, Switch, SwitchConfig, Timestamp, stf};

const JSON: &str = include_str!("../testdata/p4rt/p4rt.json");

/// A line of each kind.
const LINES: [&str; 29] = [
    "add l2 hdr.ethernet.dst:0x020000000002 counted_forward(port:2) = A",
    "add acl 10 hdr.ipv4.src:0x0a******  std.ingress_port:1 drop()",
    "add acl 1 hdr.ipv4.src:0x0a000000&&&0xff000000 allow()",
    "add routes hdr.ipv4.dst:10/8 drop()",
    "setdefault l2 drop()",
    "packet 1 020000000002 020000000001 88b5 01",
    "packet 510 000000 020000000001 020000000001 0800",
    "expect 2 0200****0002 $",
    "expect 3",
    "check_counter l2_counter(A) packets == 1",
    "check_counter port_rx(1) bytes >= 1",
    "table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00:03 => 3",
    "table_add MyIngress.acl MyIngress.drop 1.2.3.4&&&255.0.0.0 6->17 1&&&511 => 5",
    "table_set_default MyIngress.l2 MyIngress.punt 3",
    "act_prof_create_member MyIngress.ecmp MyIngress.set_nexthop 4 02:00:00:00:00:04",
    "act_prof_create_group MyIngress.ecmp",
    "act_prof_add_member_to_group MyIngress.ecmp 0 0",
    "table_indirect_add_with_group MyIngress.routes 10.1.0.0/16 => 0",
    "mc_mgrp_create 1",
    "mc_node_create 7 1 2 3",
    "mc_node_associate 1 0",
    "mc_node_update 0 2 3",
    "mirroring_add 5 2",
    "mirroring_get 5",
    "register_write MyIngress.last_len 3 0xffffffff",
    "meter_set_rates MyIngress.port_meter 1 0.5:10 1:20",
    "meter_get_rates MyIngress.port_meter 1",
    "counter_write MyIngress.port_rx 1 2 3",
    "remove all",
];

#[test]
fn entries_and_tests() {
    bolero::check!()
        .with_iterations(2_000)
        .with_type::<(Vec<(u8, u8, u8)>, Vec<u8>)>()
        .for_each(|(edits, tail)| {
            let mut text = String::new();
            for (line, at, byte) in edits {
                let mut bytes = LINES[usize::from(*line) % LINES.len()].as_bytes().to_vec();
                // One in four lines stays whole.
                if at % 4 != 0 {
                    let place = usize::from(*at) % bytes.len();
                    bytes[place] = *byte;
                }
                text.push_str(&String::from_utf8_lossy(&bytes));
                text.push('\n');
            }
            let lines = text.lines().count();
            text.push_str(&String::from_utf8_lossy(tail));
            let program = || Program::load(JSON.as_bytes()).unwrap();
            let stopped = match stf::check(program(), &text, |_| {}) {
                Ok(report) => report.stopped,
                Err(unread) => Some(unread),
            };
            if let Some(stf::StfError::Line { line, what }) = stopped {
                assert!(line >= 1 && line <= lines + text.lines().count());
                assert!(!what.is_empty());
            }
            let switch = Switch::new(SwitchConfig::default());
            switch.install(program());
            let done = stf::apply_entries(&switch, &text, Timestamp::default(), |_| {});
            if let Ok(done) = done {
                assert!(done.count <= text.lines().count());
            }
        });
}

/// Every line of the seeds is carried out as it stands, so that the changed
/// ones get far.
#[test]
fn seeds_are_whole() {
    let text = LINES.join("\n");
    let report = stf::check(Program::load(JSON.as_bytes()).unwrap(), &text, |_| {});
    assert_eq!(report.map(|r| r.stopped), Ok(None));
}
