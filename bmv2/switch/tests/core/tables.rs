//! Tables written to and read, their counters, and what they refuse.

use std::sync::Arc;

use softswitch::{
    CounterTarget, CounterValue, EntryAction, EntryKey, FieldMatch, Program, ReadCursor, Switch,
    SwitchConfig, TableEntry, TableError, TableId, TableOp, Timestamp,
};

use crate::build::{Out, call, entry, exact, insert, lpm, range, run, table, ternary};

pub(crate) fn switch() -> Arc<Switch> {
    let json = include_bytes!("../../testdata/tables.json");
    let s = Switch::new(SwitchConfig::default());
    s.install(Program::load(json).unwrap());
    s
}

/// A question for a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) a: u32,
    pub(crate) b: u16,
    pub(crate) c: u128,
}

impl Ask {
    fn packet(self, which: u8) -> Vec<u8> {
        let mut p = vec![which];
        p.extend_from_slice(&self.a.to_be_bytes());
        p.extend_from_slice(&self.b.to_be_bytes());
        p.extend_from_slice(&self.c.to_be_bytes());
        p.extend_from_slice(&[0; 4]);
        p
    }

    /// The id that a table answers; 0 on a miss.
    pub(crate) fn answer(self, w: &mut softswitch::Worker, which: u8) -> u32 {
        match run(w, 3, &self.packet(which), 0).as_slice() {
            [Out::Sent(3, p)] => id_in(p),
            other => panic!("{other:?}"),
        }
    }

    /// What it answers a packet that is traced.
    pub(crate) fn traced(self, w: &mut softswitch::Worker, which: u8) -> u32 {
        let mut answers = Vec::new();
        w.trace(3, &self.packet(which), Timestamp::default(), &mut |out| {
            if let softswitch::Output::Transmit { bytes, .. } = out {
                answers.push(id_in(bytes));
            }
        });
        match answers[..] {
            [answer] => answer,
            _ => panic!("{answers:?}"),
        }
    }
}

fn id_in(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[23..27].try_into().unwrap())
}

#[test]
fn constant_entries_are_there_in_their_order() {
    let s = switch();
    let mut w = s.worker();
    let mut ask = |a, b| Ask { a, b, c: 0 }.answer(&mut w, 7);
    assert_eq!(ask(0x0a01_0203, 80), 1);
    assert_eq!(ask(0x0a01_0203, 1024), 2);
    assert_eq!(ask(0x0a01_0203, 2047), 2);
    assert_eq!(ask(0x0a01_0203, 2048), 3);
    assert_eq!(ask(0x0b01_0203, 85), 4);
    assert_eq!(ask(0x0b01_0203, 91), 99);
    let program = s.program().unwrap();
    let id = table(&program, "fixed");
    assert!(program.tables()[id.index()].is_const);
    let e = entry(
        vec![FieldMatch::Any, FieldMatch::Any],
        9,
        call(&program, id, "found", &[1]),
    );
    let done = s.apply(
        Timestamp::default(),
        &[TableOp::Insert {
            table: id,
            entry: e,
        }],
    );
    assert!(matches!(done[0], Err(TableError::Immutable { .. })));
    let action = EntryAction::Call(call(&program, id, "found", &[1]));
    let done = s.apply(
        Timestamp::default(),
        &[TableOp::SetDefault { table: id, action }],
    );
    assert!(matches!(done[0], Err(TableError::Immutable { .. })));
    let (entries, _) = s
        .read_entries(id, ReadCursor::default(), 10, Timestamp::default())
        .unwrap();
    let priorities: Vec<i32> = entries.iter().map(|e| e.entry.key.priority).collect();
    assert_eq!(
        priorities,
        [4, 3, 2, 1],
        "the first entry of the program is the strongest"
    );
}

#[test]
fn direct_counters_count_hits_only() {
    let s = switch();
    let program = s.program().unwrap();
    let mut w = s.worker();
    let fields = vec![ternary(5, 0xff), FieldMatch::Any, FieldMatch::Any];
    insert(&s, "ternary_abc", fields.clone(), 1, "found", &[7]);
    let target = CounterTarget::Direct {
        table: table(&program, "ternary_abc"),
        key: EntryKey {
            fields,
            priority: 1,
        },
    };
    let read = || s.read_counter(&target).unwrap()[0];
    assert_eq!(read(), CounterValue::default());
    assert_eq!(
        Ask {
            a: 0x105,
            b: 0,
            c: 0
        }
        .answer(&mut w, 4),
        7
    );
    assert_eq!(Ask { a: 6, b: 0, c: 0 }.answer(&mut w, 4), 0);
    assert_eq!(Ask { a: 5, b: 9, c: 9 }.answer(&mut w, 4), 7);
    assert_eq!(
        read(),
        CounterValue {
            packets: 2,
            bytes: 54
        }
    );
    let value = CounterValue {
        packets: 10,
        bytes: 1,
    };
    let done = s.apply(
        Timestamp::default(),
        &[TableOp::WriteCounter {
            target: target.clone(),
            value,
        }],
    );
    assert_eq!(done, [Ok(())]);
    assert_eq!(Ask { a: 5, b: 0, c: 0 }.answer(&mut w, 4), 7);
    assert_eq!(
        read(),
        CounterValue {
            packets: 11,
            bytes: 28
        }
    );
}

#[test]
fn refused_operations_say_why_and_change_nothing() {
    let s = switch();
    let program = s.program().unwrap();
    let id = table(&program, "exact_ab");
    let mixed = table(&program, "mixed");
    let now = Timestamp::default();
    let one = |table: TableId, e: TableEntry| {
        s.apply(now, &[TableOp::Insert { table, entry: e }])
            .remove(0)
    };
    let found = |n| call(&program, id, "found", &[n]);
    let cases: Vec<(TableId, TableEntry, &str)> = vec![
        (
            id,
            entry(vec![exact(1)], 0, found(1)),
            "the key has 2 fields, not 1",
        ),
        (
            id,
            entry(vec![exact(1), exact(0x1_0000)], 0, found(1)),
            "does not fit 16 bits",
        ),
        (
            id,
            entry(vec![exact(1), lpm(0, 1)], 0, found(1)),
            "the field is exact",
        ),
        (
            id,
            entry(vec![exact(1), exact(1)], 3, found(1)),
            "have no priority",
        ),
        (
            id,
            entry(vec![exact(1), exact(1)], 0, found(1 << 32)),
            "does not fit 32 bits",
        ),
        (
            mixed,
            entry(
                vec![FieldMatch::Any, FieldMatch::Any, FieldMatch::Any],
                0,
                found(1),
            ),
            "needs a priority",
        ),
        (
            mixed,
            entry(
                vec![lpm(1, 8), FieldMatch::Any, FieldMatch::Any],
                1,
                found(1),
            ),
            "beyond its length",
        ),
        (
            mixed,
            entry(
                vec![FieldMatch::Any, range(5, 4), FieldMatch::Any],
                1,
                found(1),
            ),
            "is empty",
        ),
    ];
    for (table, e, want) in cases {
        let error = one(table, e).unwrap_err().to_string();
        assert!(error.contains(want), "{error:?} should say {want:?}");
    }
    let mut timed = entry(vec![exact(1), exact(1)], 0, found(1));
    timed.idle_timeout_ns = 1;
    assert!(
        one(id, timed)
            .unwrap_err()
            .to_string()
            .contains("idle timeout")
    );
    let mut other = entry(vec![exact(1), exact(1)], 0, found(1));
    other.action = EntryAction::Member(1);
    assert!(
        one(id, other)
            .unwrap_err()
            .to_string()
            .contains("no action profile")
    );
    assert_eq!(s.entry_count(id), Ok(0));
    assert!(matches!(
        s.apply(
            now,
            &[TableOp::ResetDefault {
                table: TableId(999)
            }]
        )[0],
        Err(TableError::NoSuchObject {
            what: "table",
            id: 999
        })
    ));
}

#[test]
fn a_table_holds_what_it_declares_and_batches_go_on_after_an_error() {
    let s = switch();
    let program = s.program().unwrap();
    let id = table(&program, "lpm_a");
    let ops: Vec<TableOp> = (0..4100u32)
        .map(|i| TableOp::Insert {
            table: id,
            entry: entry(
                vec![lpm(u128::from(i) << 8, 24)],
                0,
                call(&program, id, "found", &[i.into()]),
            ),
        })
        .collect();
    let done = s.apply(Timestamp::default(), &ops);
    assert_eq!(done.iter().filter(|r| r.is_ok()).count(), 4096);
    assert!(matches!(
        done[4096],
        Err(TableError::Full { size: 4096, .. })
    ));
    assert_eq!(s.entry_count(id), Ok(4096));
    // A chunked read sees each entry once.
    let (mut seen, mut at) = (
        std::collections::BTreeSet::new(),
        Some(ReadCursor::default()),
    );
    while let Some(cursor) = at {
        let (entries, next) = s
            .read_entries(id, cursor, 100, Timestamp::default())
            .unwrap();
        for e in entries {
            assert!(seen.insert(format!("{:?}", e.entry.key)));
        }
        at = next;
    }
    assert_eq!(seen.len(), 4096);
}
