//! What the switch does beside matching: digests, stateful objects, checksums.

use std::sync::Arc;

use softswitch::{
    ActionCall, CounterTarget, CounterValue, Digest, DigestValue, EntryAction, FieldMatch, Group,
    GroupMember, Member, MulticastGroup, Program, Selection, Switch, SwitchConfig, TableError,
    TableOp, Timestamp, Value,
};

use crate::build::{Out, bytes, call, entry, exact, run, table, value};
use crate::commands::{CPU, Cmd, answer, ask, r, switch};

#[test]
fn forwarding_dropping_and_counting() {
    let s = switch();
    let mut w = s.worker();
    assert_eq!(
        run(&mut w, 3, &ask(0, 9, 7), 0),
        [Out::Sent(1, answer(0, 9, 7).packet())]
    );
    assert_eq!(
        run(&mut w, 3, &ask(1, 0, 0), 0),
        [Out::Dropped("ingress_drop")]
    );
    assert_eq!(
        run(&mut w, 3, &ask(15, 0, 0), 0),
        [Out::Dropped("egress_drop")]
    );
    // p4c gives this action a copy of the metadata to mark.
    assert_eq!(
        run(&mut w, 3, &ask(20, 0, 0), 0),
        [Out::Dropped("ingress_drop")]
    );
    // Too short for its header: the parser fails, the program drops it.
    assert_eq!(run(&mut w, 3, &[0; 11], 0), [Out::Dropped("ingress_drop")]);
    let counter = s.program().unwrap().counter_by_name("In.by_op").unwrap();
    let cells = s
        .read_counter(&CounterTarget::Indexed {
            counter,
            index: None,
        })
        .unwrap();
    assert_eq!(cells.len(), 32);
    let one = CounterValue {
        packets: 1,
        bytes: 14,
    };
    for (i, c) in cells.iter().enumerate() {
        let want = if [0, 1, 15, 20].contains(&i) {
            one
        } else {
            CounterValue::default()
        };
        assert_eq!(*c, want, "cell {i}");
    }
    let op = TableOp::WriteCounter {
        target: CounterTarget::Indexed {
            counter,
            index: Some(32),
        },
        value: one,
    };
    assert!(matches!(
        s.apply(Timestamp::default(), &[op])[0],
        Err(TableError::OutOfRange {
            index: 32,
            size: 32,
            ..
        })
    ));
}

#[test]
fn digests_carry_the_values_and_wait_for_a_reader() {
    let s = switch();
    let woken = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = Arc::clone(&woken);
    s.set_digest_waker(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let mut w = s.worker();
    for i in 0..3 {
        run(&mut w, 3, &ask(7, i, 0x1234), 8);
    }
    assert_eq!(
        woken.load(std::sync::atomic::Ordering::SeqCst),
        1,
        "only the first finds it empty"
    );
    let got = s.drain_digests(2);
    let value = |bits, number: &[u8]| DigestValue {
        number: Value::from_slice(number),
        bits,
        valid: true,
    };
    let digest = s.program().unwrap().digest_by_name("seen_t").unwrap();
    let want = |arg| Digest {
        digest,
        values: vec![
            value(8, &[arg]),
            value(16, &[0x12, 0x34]),
            value(9, &[0, 3]),
        ],
        at: Timestamp::from_micros(8),
    };
    assert_eq!(got, [want(0), want(1)]);
    assert_eq!(s.drain_digests(9), [want(2)]);
    assert_eq!(s.drain_digests(9), []);
}

#[test]
fn registers_remember_between_packets() {
    let s = switch();
    let mut w = s.worker();
    let mut add = |arg, v| match run(&mut w, 3, &ask(8, arg, v), 0).as_slice() {
        [Out::Sent(1, p)] => u16::from_be_bytes([p[2], p[3]]),
        other => panic!("{other:?}"),
    };
    assert_eq!(add(2, 100), 0);
    assert_eq!(add(2, 0xffff), 100);
    assert_eq!(add(2, 0), 99, "16 bits wrap");
    assert_eq!(add(8, 1), 0, "beyond the array nothing is written");
    assert_eq!(add(8, 1), 0);
    let program = s.program().unwrap();
    let cells = program.register_by_name("In.cells").unwrap();
    assert_eq!(
        s.read_register(cells, Some(2)).unwrap(),
        [Value::from_slice(&[0, 99])]
    );
    let write = |register, index, v| {
        s.apply(
            Timestamp::default(),
            &[TableOp::WriteRegister {
                register,
                index,
                value: value(v),
            }],
        )
        .remove(0)
    };
    assert_eq!(write(cells, None, 7), Ok(()));
    assert_eq!(
        s.read_register(cells, None).unwrap(),
        vec![Value::from_slice(&[0, 7]); 8]
    );
    assert!(matches!(
        write(cells, Some(0), 0x1_0000),
        Err(TableError::TooWide { width: 16, .. })
    ));

    let mut push = |v| match run(&mut w, 3, &ask(18, 1, v), 0).as_slice() {
        [Out::Sent(1, p)] => u16::from_be_bytes([p[2], p[3]]),
        other => panic!("{other:?}"),
    };
    // Bits 80 to 95 of what was there: the value of six packets ago.
    let got: Vec<u16> = (1..=7).map(|i| push(i * 0x1111)).collect();
    assert_eq!(got, [0, 0, 0, 0, 0, 0, 0x1111]);
    let wide = program.register_by_name("In.wide_cells").unwrap();
    let cell = s.read_register(wide, Some(1)).unwrap();
    assert_eq!(
        cell[0].as_slice(),
        bytes("01 2222 3333 4444 5555 6666 7777")
    );
}

#[test]
fn hashes_fall_between_base_and_base_plus_max() {
    let s = switch();
    let mut w = s.worker();
    // CRC-16/ARC of 0a 07 12 34 is 0x6ebf: 100 + 28351 % 1000.
    let got = run(&mut w, 3, &ask(10, 7, 0x1234), 0);
    assert_eq!(got, [Out::Sent(1, answer(10, 7, 451).packet())]);
}

#[test]
fn truncated_packets_are_cut_as_they_leave() {
    let s = switch();
    let mut w = s.worker();
    assert_eq!(
        run(&mut w, 3, &ask(11, 0, 4), 0),
        [Out::Sent(1, vec![11, 0, 0, 4])]
    );
    assert_eq!(
        run(&mut w, 3, &ask(11, 0, 99), 0),
        [Out::Sent(1, answer(11, 0, 99).packet())]
    );
}

#[test]
fn checksums_are_verified_and_updated_where_the_header_is() {
    let s = switch();
    // The value set decides which packets have the second header.
    s.set_value_set(0, &[vec![FieldMatch::Exact(value(9))]])
        .unwrap();
    let mut w = s.worker();
    // The one's complement sum of 0009 and abcd.
    let with = |sum: u16| {
        let mut p = Cmd {
            op: 0,
            arg: 9,
            ..Cmd::default()
        }
        .bytes();
        p.extend_from_slice(&sum.to_be_bytes());
        p.extend_from_slice(&[0xab, 0xcd]);
        p
    };
    let out = |v: u16| {
        let mut p = Cmd {
            length: 16,
            ..answer(0, 9, v)
        }
        .bytes();
        p.extend_from_slice(&[0x54, 0x29, 0xab, 0xcd]);
        p
    };
    assert_eq!(run(&mut w, 3, &with(0x5429), 0), [Out::Sent(1, out(0))]);
    // A wrong one only sets the flag; what leaves is right again.
    assert_eq!(run(&mut w, 3, &with(0x5428), 0), [Out::Sent(1, out(0xbad))]);
    s.set_value_set(0, &[]).unwrap();
    assert!(matches!(run(&mut w, 3, &with(0x5428), 0).as_slice(), [Out::Sent(1, p)] if p[2] == 0));
    let wrong = s.set_value_set(0, &[vec![]]).unwrap_err();
    assert!(wrong.to_string().contains("1 fields"), "{wrong}");
}

#[test]
fn packets_to_and_from_the_controller() {
    let s = switch();
    let mut w = s.worker();
    let mut want = vec![0, 3];
    want.extend(
        Cmd {
            length: 14,
            ..answer(13, 0, 0)
        }
        .packet(),
    );
    assert_eq!(run(&mut w, 3, &ask(13, 0, 0), 0), [Out::Cpu(want)]);
    // A packet-out names its port in front; removing that header shortens the
    // packet's length too.
    let mut out = vec![0, 6];
    out.extend(ask(0, 1, 2));
    let sent = Cmd {
        op: 0,
        arg: 1,
        value: 2,
        port: CPU,
        length: 14,
        ..Cmd::default()
    };
    assert_eq!(run(&mut w, CPU, &out, 0), [Out::Sent(6, sent.packet())]);
    assert_eq!(s.stats().packet_ins, 1);
}

#[test]
fn a_failed_assertion_drops_the_packet_and_nothing_else() {
    let s = switch();
    let mut w = s.worker();
    assert_eq!(
        run(&mut w, 3, &ask(17, 0, 0), 0),
        [Out::Dropped("assertion")]
    );
    assert_eq!(
        run(&mut w, 3, &ask(17, 1, 0), 0),
        [Out::Sent(1, answer(17, 1, 0).packet())]
    );
}

#[test]
fn selectors_choose_by_hash_among_members_whose_port_is_up() {
    let s = switch();
    let program = s.program().unwrap();
    let id = table(&program, "select_port");
    let profile = program.tables()[id.index()].profile.unwrap();
    let to = |port: u128| -> ActionCall { call(&program, id, "to", &[port]) };
    let now = Timestamp::default();
    let one = |op| s.apply(now, &[op]).remove(0);
    for i in 0..3u32 {
        let member = Member {
            id: 100 + i,
            call: to(u128::from(20 + i)),
        };
        assert_eq!(one(TableOp::InsertMember { profile, member }), Ok(()));
    }
    let gm = |member, watch_port| GroupMember {
        member,
        weight: 1,
        watch_port,
    };
    let group = |members| Group {
        id: 1,
        members,
        selection: Selection::Selector,
    };
    let all = vec![gm(100, Some(7)), gm(101, Some(8)), gm(102, None)];
    assert_eq!(
        one(TableOp::InsertGroup {
            profile,
            group: group(all.clone())
        }),
        Ok(())
    );
    let mut e = entry(vec![exact(4)], 0, to(0));
    e.action = EntryAction::Group(1);
    assert_eq!(
        one(TableOp::Insert {
            table: id,
            entry: e.clone()
        }),
        Ok(())
    );

    let mut w = s.worker();
    let mut port = |v| match run(&mut w, 3, &ask(12, 4, v), 0).as_slice() {
        [Out::Sent(port, _)] => *port,
        other => panic!("{other:?}"),
    };
    // CRC-16/ARC of the 16-bit value, modulo three.
    let got: Vec<u16> = (0..8).map(&mut port).collect();
    assert_eq!(got, [20, 21, 21, 22, 21, 20, 21, 21]);
    // Without the middle one: modulo two of the rest.
    assert!(s.is_port_up(8) && s.set_port_up(8, false) && !s.is_port_up(8));
    assert!(!s.set_port_up(8, false), "that is no news");
    let two = [20, 22, 22, 20, 22, 20, 20, 22];
    assert_eq!((0..8).map(&mut port).collect::<Vec<_>>(), two);
    // Nothing of it shows in what was written.
    assert_eq!(s.groups(profile), Ok(vec![group(all)]));
    assert!(s.set_port_up(8, true));
    assert_eq!((0..8).map(&mut port).collect::<Vec<_>>(), got);
    // With nobody: a miss. p4c gives such tables no default action. A member
    // that is written while its port is down waits for it.
    s.set_port_up(9, false);
    let none = vec![gm(100, Some(9))];
    assert_eq!(
        one(TableOp::ModifyGroup {
            profile,
            group: group(none.clone())
        }),
        Ok(())
    );
    // Nobody watches these any more.
    s.set_port_up(7, false);
    s.set_port_up(8, false);
    assert_eq!(port(0), 1);
    s.set_port_up(9, true);
    assert_eq!(port(0), 20);
    s.set_port_up(9, false);
    assert_eq!(port(0), 1);

    // What is in use stays.
    let in_use = |r: Result<(), TableError>| matches!(r, Err(TableError::InUse { .. }));
    assert!(in_use(one(TableOp::DeleteMember { profile, id: 100 })));
    assert!(in_use(one(TableOp::DeleteGroup { profile, id: 1 })));
    assert_eq!(one(TableOp::DeleteMember { profile, id: 102 }), Ok(()));
    assert_eq!(s.groups(profile), Ok(vec![group(none)]));
    assert_eq!(
        s.members(profile)
            .unwrap()
            .iter()
            .map(|m| m.id)
            .collect::<Vec<_>>(),
        [100, 101]
    );

    // An entry may also name a member.
    e.action = EntryAction::Member(101);
    assert_eq!(
        one(TableOp::Modify {
            table: id,
            entry: e.clone()
        }),
        Ok(())
    );
    assert_eq!(port(0), 21);
    assert_eq!(one(TableOp::DeleteGroup { profile, id: 1 }), Ok(()));
    assert!(in_use(one(TableOp::DeleteMember { profile, id: 101 })));
    let member = Member {
        id: 101,
        call: to(33),
    };
    assert_eq!(one(TableOp::ModifyMember { profile, member }), Ok(()));
    assert_eq!(port(0), 33);
    assert_eq!(s.get_entry(id, &e.key, now).unwrap().entry, e);
}

#[test]
fn idle_entries_are_reported_every_second_sweep() {
    let s = switch();
    let program = s.program().unwrap();
    let id = table(&program, "idle");
    let ms = Timestamp::from_millis;
    let mut e = entry(vec![exact(4)], 0, call(&program, id, "to", &[8]));
    e.idle_timeout_ns = 1_500_000_000;
    e.cookie = 77;
    let mut never = entry(vec![exact(5)], 0, call(&program, id, "to", &[8]));
    never.metadata = vec![1, 2];
    let ops = [
        TableOp::Insert {
            table: id,
            entry: e.clone(),
        },
        TableOp::Insert {
            table: id,
            entry: never.clone(),
        },
    ];
    assert_eq!(s.apply(ms(100), &ops), [Ok(()), Ok(())]);
    let poll = |at: u64| -> Vec<u64> {
        let n = s.poll_idle(ms(at));
        assert!(n.iter().all(|n| n.table == id));
        n.iter().map(|n| n.entry.entry.cookie).collect()
    };
    assert_eq!(poll(1_000), [0u64; 0]);
    assert_eq!(poll(1_900), [0u64; 0], "only once a second");
    assert_eq!(poll(2_000), [77], "idle since 100 ms");
    assert_eq!(poll(3_000), [0u64; 0], "just reported");
    assert_eq!(poll(4_000), [77]);
    // A hit starts the timer anew.
    let mut w = s.worker();
    assert!(matches!(
        run(&mut w, 3, &ask(16, 4, 0), 4_500_000).as_slice(),
        [Out::Sent(8, _)]
    ));
    assert_eq!(poll(5_000), [0u64; 0]);
    assert_eq!(poll(5_999 + 1), [77], "1.5 s after the hit");
    let state = s.get_entry(id, &e.key, ms(6_500)).unwrap();
    assert_eq!(state.since_last_hit_ns, Some(2_000_000_000));
    assert_eq!(state.counter.map(|c| c.packets), Some(1));
    // So does a modification; counters stay.
    assert_eq!(
        s.apply(
            ms(7_000),
            &[TableOp::Modify {
                table: id,
                entry: e.clone()
            }]
        ),
        [Ok(())]
    );
    assert_eq!(poll(8_000), [0u64; 0]);
    assert_eq!(poll(9_000), [77]);
    let state = s.get_entry(id, &e.key, ms(9_000)).unwrap();
    assert_eq!(state.counter.map(|c| c.packets), Some(1));
    assert_eq!(
        (
            state.entry.key,
            state.entry.cookie,
            state.entry.idle_timeout_ns
        ),
        (e.key, 77, e.idle_timeout_ns)
    );
    let state = s.get_entry(id, &never.key, ms(9_000)).unwrap();
    assert_eq!(
        (state.entry.metadata, state.entry.idle_timeout_ns),
        (vec![1, 2], 0)
    );
}

#[test]
fn installing_again_wipes_tables_and_keeps_replication() {
    let s = switch();
    let mut w = s.worker();
    s.set_multicast_group(MulticastGroup {
        id: 5,
        replicas: vec![r(1, 8)],
    });
    run(&mut w, 3, &ask(8, 2, 100), 0);
    s.install(Program::load(include_bytes!("../../testdata/externs.json")).unwrap());
    assert_eq!(
        run(&mut w, 3, &ask(8, 2, 5), 0),
        [Out::Sent(1, answer(8, 2, 0).packet())]
    );
    assert!(matches!(
        run(&mut w, 3, &ask(2, 0, 5), 0).as_slice(),
        [Out::Sent(8, _)]
    ));
}

#[test]
fn without_a_pipeline_everything_is_dropped() {
    let s = Switch::new(SwitchConfig::default());
    let mut w = s.worker();
    assert_eq!(
        run(&mut w, 3, &ask(0, 0, 0), 0),
        [Out::Dropped("no_pipeline")]
    );
    let op = TableOp::ResetDefault {
        table: softswitch::TableId(0),
    };
    assert_eq!(
        s.apply(Timestamp::default(), &[op]),
        [Err(TableError::NoPipeline)]
    );
}

#[test]
fn a_trace_tells_the_path() {
    let s = switch();
    let mut w = s.worker();
    let events = w.trace(3, &ask(0, 9, 7), Timestamp::default(), &mut |_| {});
    let text: Vec<String> = events.iter().map(|e| format!("{e:?}")).collect();
    let has = |part: &str| text.iter().any(|t| t.contains(part));
    assert!(has("ParserState { name: \"cmd\" }"), "{text:#?}");
    assert!(has("Extracted { header: \"cmd\", bytes: 12 }"));
    assert!(has("field: \"cmd.length\", from: \"0x0\", to: \"0xe\""));
    assert!(has("Sent { port: 1, bytes: 14 }"));
}
