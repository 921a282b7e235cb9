//! A table that is asked the same again answers by what it holds now.

use softswitch::{EntryKey, FieldMatch, Switch, TableEntry, TableId, TableOp, Timestamp};

use crate::build::{call, entry, exact, lpm, range, table};
use crate::tables::{Ask, switch};

/// The test's table of one kind.
struct One<'s> {
    switch: &'s Switch,
    id: TableId,
}

impl One<'_> {
    fn entry(&self, fields: Vec<FieldMatch>, priority: i32, answer: u128) -> TableEntry {
        let program = self.switch.program().unwrap();
        entry(
            fields,
            priority,
            call(&program, self.id, "found", &[answer]),
        )
    }

    fn apply(&self, op: TableOp) {
        let done = self.switch.apply(Timestamp::default(), &[op]);
        assert_eq!(done, [Ok(())]);
    }

    fn insert(&self, entry: TableEntry) {
        let table = self.id;
        self.apply(TableOp::Insert { table, entry });
    }

    fn delete(&self, key: EntryKey) {
        let table = self.id;
        self.apply(TableOp::Delete { table, key });
    }
}

#[test]
fn an_exact_entry_that_has_gone_is_not_found_where_another_took_its_place() {
    let s = switch();
    let mut w = s.worker();
    let id = table(&s.program().unwrap(), "exact_ab");
    let t = One { switch: &s, id };
    let mut ask = |a, b| Ask { a, b, c: 0 }.answer(&mut w, 1);
    let key = |a, b| vec![exact(a), exact(b)];
    // A key of zeros is no key that was asked before.
    t.insert(t.entry(key(7, 7), 0, 9));
    assert_eq!(ask(0, 0), 0);
    let first = t.entry(key(1, 2), 0, 11);
    t.insert(first.clone());
    assert_eq!([ask(1, 2), ask(1, 2), ask(1, 3), ask(2, 2)], [11, 11, 0, 0]);
    t.delete(first.key);
    assert_eq!([ask(1, 2), ask(1, 2)], [0, 0]);
    t.insert(t.entry(key(3, 4), 0, 22));
    assert_eq!([ask(1, 2), ask(3, 4), ask(3, 4)], [0, 22, 22]);
    t.apply(TableOp::Modify {
        table: id,
        entry: t.entry(key(3, 4), 0, 33),
    });
    assert_eq!([ask(3, 4), ask(7, 7), ask(3, 4)], [33, 9, 33]);
    // What missed before is found once it is there.
    assert_eq!([ask(5, 6), ask(5, 6)], [0, 0]);
    t.insert(t.entry(key(5, 6), 0, 44));
    assert_eq!(ask(5, 6), 44);
}

#[test]
fn a_better_entry_is_found_at_once() {
    let s = switch();
    let mut w = s.worker();
    let program = s.program().unwrap();
    let lpms = One {
        switch: &s,
        id: table(&program, "lpm_a"),
    };
    let ranges = One {
        switch: &s,
        id: table(&program, "range_ab"),
    };
    let mut ask = |which| {
        let question = Ask {
            a: 0x0a01_0203,
            b: 80,
            c: 0,
        };
        question.answer(&mut w, which)
    };
    lpms.insert(lpms.entry(vec![lpm(0x0a00_0000, 8)], 0, 1));
    ranges.insert(ranges.entry(vec![exact(0x0a01_0203), range(0, 1023)], 1, 3));
    assert_eq!([ask(2), ask(2), ask(5), ask(5)], [1, 1, 3, 3]);
    let longer = lpms.entry(vec![lpm(0x0a01_0000, 16)], 0, 2);
    let higher = ranges.entry(vec![exact(0x0a01_0203), range(80, 80)], 2, 4);
    lpms.insert(longer.clone());
    ranges.insert(higher.clone());
    assert_eq!([ask(2), ask(2), ask(5), ask(5)], [2, 2, 4, 4]);
    lpms.delete(longer.key);
    ranges.delete(higher.key);
    assert_eq!([ask(2), ask(5)], [1, 3]);
}

#[test]
fn a_trace_leaves_nothing_behind() {
    let s = switch();
    let mut w = s.worker();
    let id = table(&s.program().unwrap(), "exact_ab");
    let t = One { switch: &s, id };
    t.insert(t.entry(vec![exact(1), exact(2)], 0, 11));
    let question = Ask { a: 1, b: 2, c: 0 };
    for order in ["tpp", "ptp", "tttp"] {
        for step in order.chars() {
            let answer = match step {
                't' => question.traced(&mut w, 1),
                _ => question.answer(&mut w, 1),
            };
            assert_eq!(answer, 11, "{step} of {order}");
        }
        // The next order begins with a key that was not asked before it.
        assert_eq!(Ask { a: 9, b: 9, c: 0 }.answer(&mut w, 1), 0);
    }
}

#[test]
fn a_new_pipeline_knows_nothing_of_the_one_before() {
    let s = switch();
    let mut w = s.worker();
    let program = s.program().unwrap();
    let id = table(&program, "exact_ab");
    let t = One { switch: &s, id };
    t.insert(t.entry(vec![exact(1), exact(2)], 0, 11));
    let question = Ask { a: 1, b: 2, c: 0 };
    assert_eq!(question.answer(&mut w, 1), 11);
    let json = include_bytes!("../../testdata/tables.json");
    s.install(softswitch::Program::load(json).unwrap());
    assert_eq!(question.answer(&mut w, 1), 0);
    // As often changed as the former tables were.
    t.insert(t.entry(vec![exact(3), exact(4)], 0, 22));
    assert_eq!(question.answer(&mut w, 1), 0);
}
