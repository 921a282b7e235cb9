//! What a failed batch takes back of meters and of action profiles.

use softswitch::{
    CounterTarget, CounterValue, EntryAction, Group, GroupMember, Member, MeterConfig, MeterTarget,
    Selection, Switch, TableError, TableOp, Timestamp, Value,
};

use crate::build::{Out, call, entry, exact, run, table};
use crate::commands::{ask, switch};

/// A meter is put back with its tokens and with what it has counted.
#[test]
fn a_failed_batch_leaves_meters_as_they_were() {
    let s = switch();
    let mut w = s.worker();
    let mut colour = |op, arg, us| match run(&mut w, 3, &ask(op, arg, 9), us).as_slice() {
        [Out::Sent(1, p)] => u16::from_be_bytes([p[2], p[3]]),
        other => panic!("{other:?}"),
    };
    let program = s.program().unwrap();
    let now = Timestamp::default();
    let id = table(&program, "metered");
    let e = entry(vec![exact(4)], 0, call(&program, id, "colour_it", &[]));
    let targets = [
        MeterTarget::Direct {
            table: id,
            key: e.key.clone(),
        },
        MeterTarget::Default { table: id },
        MeterTarget::Indexed {
            meter: program.meter_by_name("In.limits").unwrap(),
            index: Some(1),
        },
    ];
    // Direct meters count bytes, 14 a packet, the other packets.
    let one = |burst| MeterConfig {
        cir: 0,
        cburst: burst,
        pir: 0,
        pburst: 2 * burst,
        eburst: None,
    };
    let insert = TableOp::Insert {
        table: id,
        entry: e.clone(),
    };
    assert_eq!(s.apply(now, std::slice::from_ref(&insert)), [Ok(())]);
    for (target, burst) in targets.iter().zip([14, 14, 1]) {
        let op = TableOp::ConfigureMeter {
            target: target.clone(),
            config: Some(one(burst)),
        };
        assert_eq!(s.apply(now, &[op]), [Ok(())]);
    }
    let mut asked = || [colour(19, 4, 0), colour(19, 5, 0), colour(9, 1, 0)];
    assert_eq!([asked(), asked()], [[0; 3], [1; 3]]);
    let counts = |s: &Switch| {
        targets
            .clone()
            .map(|target| s.read_colours(&target).unwrap()[0])
    };
    let before = counts(&s);
    assert_eq!(before[0].green.packets + before[0].yellow.packets, 2);
    let mut ops: Vec<TableOp> = targets
        .iter()
        .flat_map(|target| {
            [
                TableOp::ClearColours {
                    target: target.clone(),
                },
                TableOp::ConfigureMeter {
                    target: target.clone(),
                    config: Some(one(1000)),
                },
            ]
        })
        .collect();
    ops.push(TableOp::Delete {
        table: id,
        key: e.key.clone(),
    });
    ops.push(insert);
    // There is no such entry.
    ops.push(TableOp::Delete {
        table: id,
        key: softswitch::EntryKey {
            fields: vec![exact(77)],
            priority: 0,
        },
    });
    assert_eq!(s.apply_atomic(now, &ops).unwrap_err().at, 8);
    assert_eq!(counts(&s), before);
    assert_eq!(asked(), [2; 3], "there are no more tokens than before");
}

/// Members and groups come back to where they were: entries find them, and a
/// hash picks in the same order.
#[test]
fn a_failed_batch_leaves_members_and_groups_in_place() {
    let s = switch();
    let program = s.program().unwrap();
    let id = table(&program, "select_port");
    let profile = program.tables()[id.index()].profile.unwrap();
    let now = Timestamp::default();
    let insert = |member: u32| TableOp::InsertMember {
        profile,
        member: Member {
            id: member,
            call: call(&program, id, "to", &[u128::from(member)]),
        },
    };
    let delete = |member| TableOp::DeleteMember {
        profile,
        id: member,
    };
    let group = |group, members: &[u32]| Group {
        id: group,
        members: members
            .iter()
            .map(|&member| GroupMember {
                member,
                weight: 1,
                watch_port: None,
            })
            .collect(),
        selection: Selection::Selector,
    };
    let to = |arg, action| TableOp::Insert {
        table: id,
        entry: softswitch::TableEntry {
            action,
            ..entry(vec![exact(arg)], 0, call(&program, id, "to", &[0]))
        },
    };
    let ungroup = |group| TableOp::DeleteGroup { profile, id: group };
    let ops = [
        insert(20),
        insert(21),
        insert(22),
        insert(23),
        // Free slots below those that are used.
        delete(20),
        TableOp::InsertGroup {
            profile,
            group: group(1, &[]),
        },
        TableOp::InsertGroup {
            profile,
            group: group(2, &[21, 22, 23]),
        },
        ungroup(1),
        to(4, EntryAction::Group(2)),
        to(5, EntryAction::Member(23)),
    ];
    s.apply_atomic(now, &ops).unwrap();
    let mut w = s.worker();
    let mut ports = || -> Vec<u16> {
        let asked = (0..8).map(|v| (4, v)).chain([(5, 0)]);
        asked
            .map(
                |(arg, v)| match run(&mut w, 3, &ask(12, arg, v), 0).as_slice() {
                    [Out::Sent(port, _)] => *port,
                    other => panic!("{other:?}"),
                },
            )
            .collect()
    };
    let before = ports();
    // CRC-16/ARC of the value, modulo three, as in the test of selectors.
    assert_eq!(before, [21, 22, 22, 23, 22, 21, 22, 22, 23]);
    let unentry = |arg| TableOp::Delete {
        table: id,
        key: softswitch::EntryKey {
            fields: vec![exact(arg)],
            priority: 0,
        },
    };
    let ops = [
        unentry(4),
        unentry(5),
        ungroup(2),
        delete(22),
        delete(23),
        insert(30),
        insert(22),
        TableOp::InsertGroup {
            profile,
            group: group(7, &[30]),
        },
        to(4, EntryAction::Group(7)),
        // There is none.
        delete(99),
    ];
    assert_eq!(s.apply_atomic(now, &ops).unwrap_err().at, 9);
    assert_eq!(ports(), before);
    assert_eq!(s.groups(profile), Ok(vec![group(2, &[21, 22, 23])]));
    let in_use = s.apply(now, &[delete(23), ungroup(2)]);
    assert!(
        in_use
            .iter()
            .all(|r| matches!(r, Err(TableError::InUse { .. })))
    );
}

/// Of arrays that are written whole, each cell is put back by itself.
#[test]
fn a_failed_batch_leaves_arrays_as_they_were() {
    let s = switch();
    let program = s.program().unwrap();
    let now = Timestamp::default();
    let registers = ["In.cells", "In.wide_cells"].map(|n| program.register_by_name(n).unwrap());
    let counter = program.counter_by_name("In.by_op").unwrap();
    let meter = program.meter_by_name("In.limits").unwrap();
    let register = |register, index, number: u8| TableOp::WriteRegister {
        register,
        index,
        value: Value::from_slice(&[number]),
    };
    let count = |index, packets| TableOp::WriteCounter {
        target: CounterTarget::Indexed { counter, index },
        value: CounterValue { packets, bytes: 3 },
    };
    let limit = |index, cir| TableOp::ConfigureMeter {
        target: MeterTarget::Indexed { meter, index },
        config: Some(MeterConfig {
            cir,
            cburst: 1,
            pir: cir,
            pburst: 1,
            eburst: None,
        }),
    };
    let clear = |index| TableOp::ClearColours {
        target: MeterTarget::Indexed { meter, index },
    };
    let read = || {
        (
            registers.map(|r| s.read_register(r, None).unwrap()),
            s.read_counter(&CounterTarget::Indexed {
                counter,
                index: None,
            })
            .unwrap(),
            s.read_meter(&MeterTarget::Indexed { meter, index: None })
                .unwrap(),
        )
    };
    let mut different = vec![limit(Some(1), 77)];
    for cell in 0..4_u8 {
        let index = Some(u32::from(cell));
        different.push(register(registers[0], index, 40 + cell));
        different.push(register(registers[1], Some(u32::from(cell % 2)), 60 + cell));
        different.push(count(index, 50 + u64::from(cell)));
    }
    assert!(s.apply(now, &different).iter().all(Result::is_ok));
    let before = read();
    // By hand, of each.
    let [narrow, wide] = &before.0;
    assert_eq!(narrow[2].as_slice(), [0, 42]);
    assert_eq!(wide[1].as_slice().last(), Some(&63));
    assert_eq!((before.1[1].packets, before.1[1].bytes), (51, 3));
    assert_eq!(before.2[1].map(|c| c.cir), Some(77));
    assert_eq!(before.2[0], None);
    let mut ops = Vec::new();
    for r in registers {
        ops.extend([
            register(r, None, 1),
            register(r, Some(1), 2),
            register(r, None, 3),
        ]);
    }
    ops.extend([
        count(Some(3), 9),
        count(None, 8),
        count(Some(0), 7),
        count(None, 6),
    ]);
    ops.extend([
        limit(Some(0), 5),
        limit(None, 6),
        clear(None),
        limit(Some(1), 8),
        limit(None, 9),
    ]);
    // There is no such cell.
    ops.push(register(registers[0], Some(1000), 1));
    assert_eq!(s.apply_atomic(now, &ops).unwrap_err().at, ops.len() - 1);
    assert_eq!(read(), before);
}
