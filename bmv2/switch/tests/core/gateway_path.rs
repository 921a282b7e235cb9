//! The gateway's flow-hit path.

use softswitch::{CounterTarget, CounterValue, EntryKey};

use crate::build::{Out, exact, run, table};
use crate::gateway::{reply, reply_out, request, request_out, switch};

#[test]
fn established_flows_are_rewritten_in_both_directions() {
    let s = switch(8);
    let mut w = s.worker();
    for i in 0..8 {
        let got = run(&mut w, 1, &request(i, 100), 5);
        assert_eq!(got, [Out::Sent(2, request_out(i, 100))], "request {i}");
        let got = run(&mut w, 2, &reply(i, 1_000), 5);
        assert_eq!(got, [Out::Sent(1, reply_out(i, 1_000))], "reply {i}");
    }
    let program = s.program().unwrap();
    let direct = |name: &str, fields| {
        let target = CounterTarget::Direct {
            table: table(&program, name),
            key: EntryKey {
                fields,
                priority: 0,
            },
        };
        s.read_counter(&target).unwrap()
    };
    let fwd = direct(
        "fast_path.flow_fwd_v4",
        vec![
            exact(7),
            exact(80),
            exact(crate::gateway::CLIENT.into()),
            exact(1026),
        ],
    );
    // 14 + 20 + 20 bytes of headers.
    assert_eq!(
        fwd,
        [CounterValue {
            packets: 1,
            bytes: 154
        }]
    );
    let rev = direct(
        "fast_path.flow_rev_v4",
        vec![exact(3), exact(1026), exact(6)],
    );
    assert_eq!(
        rev,
        [CounterValue {
            packets: 1,
            bytes: 1_054
        }]
    );
    let total = |name: &str, index| {
        let counter = program.counter_by_name(name).unwrap();
        s.read_counter(&CounterTarget::Indexed {
            counter,
            index: Some(index),
        })
        .unwrap()[0]
    };
    let name = |suffix: &str| {
        let c = program.counters().iter().find(|c| c.name.ends_with(suffix));
        c.unwrap_or_else(|| panic!("no counter {suffix}"))
            .name
            .clone()
    };
    assert_eq!(total(&name("ingress_port_rx"), 1).packets, 8);
    assert_eq!(total(&name("egress_port_tx"), 1).packets, 8);
    assert_eq!(total(&name("egress_port_tx"), 2).packets, 8);
    let stats = s.stats();
    assert_eq!((stats.received, stats.transmitted), (16, 16));
    assert_eq!(stats.dropped.iter().sum::<u64>(), 0);
}

#[test]
fn an_unknown_port_is_dropped_by_the_program_and_counted() {
    let s = switch(0);
    let mut w = s.worker();
    let got = run(&mut w, 9, &request(0, 10), 1);
    assert_eq!(got, [Out::Dropped("ingress_drop")]);
}
