//! Batches that packets see whole or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use softswitch::{
    BatchError, CounterTarget, CounterValue, EntryKey, FieldMatch, Output, Program, ReadCursor,
    Switch, SwitchConfig, TableError, TableId, TableOp, Timestamp,
};

use crate::build::{call, entry, exact, table, ternary};

const NOW: Timestamp = Timestamp::from_nanos(0);
/// Entries of each of two tables.
const ENTRIES: u32 = 300;

fn switch() -> Arc<Switch> {
    let json = include_bytes!("../../testdata/tables.json");
    let s = Switch::new(SwitchConfig::default());
    s.install(Program::load(json).unwrap());
    s
}

/// A packet for table `which` about `a`.
fn packet(which: u8, a: u32) -> Vec<u8> {
    let mut p = vec![0; 27];
    p[0] = which;
    p[1..5].copy_from_slice(&a.to_be_bytes());
    p
}

struct Writer {
    program: Arc<Program>,
    exact: TableId,
    ternary: TableId,
}

impl Writer {
    fn new(s: &Switch) -> Self {
        let program = s.program().unwrap();
        Self {
            exact: table(&program, "exact_ab"),
            ternary: table(&program, "ternary_abc"),
            program,
        }
    }

    fn exact(&self, n: u32, id: u32) -> softswitch::TableEntry {
        let found = call(&self.program, self.exact, "found", &[id.into()]);
        entry(vec![exact(n.into()), exact(0)], 0, found)
    }

    fn ternary(&self, n: u32, id: u32) -> softswitch::TableEntry {
        let found = call(&self.program, self.ternary, "found", &[id.into()]);
        let fields = vec![
            ternary(n.into(), 0xffff_ffff),
            FieldMatch::Any,
            FieldMatch::Any,
        ];
        entry(fields, 1, found)
    }

    /// All entries of both tables with one answer: inserted, or replaced in
    /// one way or another.
    fn generation(&self, id: u32) -> Vec<TableOp> {
        let mut ops = Vec::new();
        for n in 0..ENTRIES {
            let (e, t) = (self.exact(n, id), self.ternary(n, id));
            let (te, tt) = (self.exact, self.ternary);
            if id == 1 {
                ops.push(TableOp::Insert {
                    table: te,
                    entry: e,
                });
                ops.push(TableOp::Insert {
                    table: tt,
                    entry: t,
                });
            } else if n % 2 == 0 {
                ops.push(TableOp::Modify {
                    table: te,
                    entry: e,
                });
                ops.push(TableOp::Modify {
                    table: tt,
                    entry: t,
                });
            } else {
                let (ke, kt) = (e.key.clone(), t.key.clone());
                ops.push(TableOp::Delete { table: te, key: ke });
                ops.push(TableOp::Delete { table: tt, key: kt });
                ops.push(TableOp::Insert {
                    table: te,
                    entry: e,
                });
                ops.push(TableOp::Insert {
                    table: tt,
                    entry: t,
                });
            }
        }
        ops
    }
}

/// Bursts look at the first, a middle and the last entry of both tables while
/// generations follow each other; some batches fail at their very end.
#[test]
fn a_burst_sees_all_of_a_batch_or_none() {
    let s = switch();
    let w = Writer::new(&s);
    s.apply_atomic(NOW, &w.generation(1)).unwrap();
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let asked = [0, 1, ENTRIES / 2, ENTRIES - 2, ENTRIES - 1];
            let packets: Vec<_> = asked
                .iter()
                .flat_map(|a| [packet(1, *a), packet(4, *a)])
                .collect();
            let mut worker = s.worker();
            let mut seen = std::collections::BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                let mut answers = Vec::new();
                let mut burst = worker.burst(NOW);
                for p in &packets {
                    burst.process(1, p, &mut |o| {
                        if let Output::Transmit { bytes, .. } = o {
                            answers.push(u32::from_be_bytes(bytes[23..27].try_into().unwrap()));
                        }
                    });
                }
                drop(burst);
                assert_eq!(answers.len(), packets.len());
                assert!(
                    answers.iter().all(|a| *a == answers[0] && *a > 0),
                    "{answers:?}"
                );
                seen.insert(answers[0]);
            }
            seen
        });
        for id in 2..200 {
            s.apply_atomic(NOW, &w.generation(id)).unwrap();
            let mut bad = w.generation(100_000);
            bad.push(TableOp::Insert {
                table: w.exact,
                entry: w.exact(0, 5),
            });
            let failed = s.apply_atomic(NOW, &bad).unwrap_err();
            assert_eq!(failed.at, bad.len() - 1);
            assert!(matches!(failed.error, TableError::AlreadyExists { .. }));
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert!(!seen.contains(&100_000), "{seen:?}");
    assert!(!seen.is_empty());
}

/// What a batch did is taken back to the letter: slots (which decide ties),
/// counters, cookies, defaults, members of no profile.
#[test]
fn a_failed_batch_leaves_everything_as_it_was() {
    let s = switch();
    let w = Writer::new(&s);
    s.apply_atomic(NOW, &w.generation(1)).unwrap();
    let target = CounterTarget::Direct {
        table: w.ternary,
        key: w.ternary(7, 0).key,
    };
    let value = CounterValue {
        packets: 11,
        bytes: 500,
    };
    let mut marked = w.ternary(8, 3);
    (marked.cookie, marked.metadata) = (77, vec![1, 2]);
    s.apply_atomic(
        NOW,
        &[
            TableOp::WriteCounter {
                target: target.clone(),
                value,
            },
            TableOp::Modify {
                table: w.ternary,
                entry: marked,
            },
            // A free slot in the middle.
            TableOp::Delete {
                table: w.ternary,
                key: w.ternary(20, 0).key,
            },
        ],
    )
    .unwrap();
    let all = || {
        [w.exact, w.ternary].map(|t| {
            let mut entries = Vec::new();
            let mut at = Some(ReadCursor::default());
            while let Some(cursor) = at {
                let (some, next) = s.read_entries(t, cursor, 1000, NOW).unwrap();
                entries.extend(some);
                at = next;
            }
            (entries, s.default_action(t).unwrap())
        })
    };
    let before = all();
    assert_eq!(before[1].0.len(), ENTRIES as usize - 1);
    let delete = |n| TableOp::Delete {
        table: w.ternary,
        key: w.ternary(n, 0).key,
    };
    let insert = |n| TableOp::Insert {
        table: w.ternary,
        entry: w.ternary(n, 9),
    };
    let ops = vec![
        delete(7),
        delete(3),
        insert(20),
        insert(1000),
        insert(7),
        delete(8),
        insert(1001),
        TableOp::SetDefault {
            table: w.ternary,
            action: softswitch::EntryAction::Call(call(&w.program, w.ternary, "found", &[4])),
        },
        TableOp::Modify {
            table: w.exact,
            entry: w.exact(5, 12),
        },
        TableOp::WriteCounter {
            target,
            value: CounterValue::default(),
        },
        // There is none.
        TableOp::Delete {
            table: w.exact,
            key: EntryKey {
                fields: vec![exact(9999), exact(0)],
                priority: 0,
            },
        },
    ];
    let failed = s.apply_atomic(NOW, &ops).unwrap_err();
    assert_eq!(failed.at, 10);
    assert_eq!(all(), before, "in the same order, which is that of slots");
    // The slot that was free is free again, and the next entry takes it.
    s.apply_atomic(NOW, &[insert(2000)]).unwrap();
    let (entries, _) = s
        .read_entries(w.ternary, ReadCursor::default(), 30, NOW)
        .unwrap();
    assert_eq!(
        entries[20].entry.key.fields[0],
        FieldMatch::Ternary {
            value: softswitch::Value::from_slice(&[0, 0, 7, 208]),
            mask: softswitch::Value::from_slice(&[0xff; 4]),
        }
    );
}

#[test]
fn what_makes_no_sense_fails_before_anything_is_touched() {
    let s = Switch::new(SwitchConfig::default());
    assert_eq!(
        s.apply_atomic(NOW, &[]),
        Err(BatchError {
            at: 0,
            error: TableError::NoPipeline
        })
    );
    let s = switch();
    let w = Writer::new(&s);
    let ops = [
        TableOp::Insert {
            table: w.exact,
            entry: w.exact(1, 1),
        },
        TableOp::ResetDefault {
            table: TableId(999),
        },
    ];
    assert_eq!(s.apply_atomic(NOW, &ops).unwrap_err().at, 1);
    assert_eq!(s.entry_count(w.exact), Ok(0));
}
