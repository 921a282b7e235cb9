//! Every lookup structure against a plain list.

use proptest::prelude::*;
use softswitch::{EntryKey, FieldMatch, ReadCursor, TableOp, Timestamp};

use crate::build::{call, entry, exact, lpm, range, table, ternary};
use crate::tables::{Ask, switch};

/// A rule as a list would hold it: masked values and an interval.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    a: (u32, u32),
    b: (u16, u16),
    interval: (u16, u16),
    c: (u128, u128),
    c_interval: (u128, u128),
    rank: i32,
}

impl Rule {
    fn matches(&self, q: Ask) -> bool {
        q.a & self.a.1 == self.a.0
            && q.b & self.b.1 == self.b.0
            && (self.interval.0..=self.interval.1).contains(&q.b)
            && q.c & self.c.1 == self.c.0
            && (self.c_interval.0..=self.c_interval.1).contains(&q.c)
    }
}

/// The oracle: slots, the lowest free first.
#[derive(Default)]
struct List {
    slots: Vec<Option<(Rule, u32)>>,
}

impl List {
    fn insert(&mut self, rule: &Rule, id: u32) -> bool {
        if self.slots.iter().flatten().any(|(r, _)| r == rule) {
            return false;
        }
        let item = Some((rule.clone(), id));
        match self.slots.iter().position(Option::is_none) {
            Some(i) => self.slots[i] = item,
            None => self.slots.push(item),
        }
        true
    }

    fn delete(&mut self, rule: &Rule) -> bool {
        match self
            .slots
            .iter()
            .position(|s| s.as_ref().is_some_and(|(r, _)| r == rule))
        {
            Some(i) => {
                self.slots[i] = None;
                true
            }
            None => false,
        }
    }

    fn lookup(&self, q: Ask) -> u32 {
        let mut best: Option<&(Rule, u32)> = None;
        for s in self.slots.iter().flatten() {
            if s.0.matches(q) && best.is_none_or(|b| s.0.rank > b.0.rank) {
                best = Some(s);
            }
        }
        best.map_or(0, |b| b.1)
    }
}

/// One of the tables and how a rule is said to it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Exact,
    Lpm,
    WideLpm,
    Ternary,
    Range,
    Mixed,
    WideRange,
}

const KINDS: [Kind; 7] = [
    Kind::Exact,
    Kind::Lpm,
    Kind::WideLpm,
    Kind::Ternary,
    Kind::Range,
    Kind::Mixed,
    Kind::WideRange,
];

fn prefix32(len: u32) -> u32 {
    u32::MAX.checked_shl(32 - len).unwrap_or(0)
}

fn prefix128(len: u32) -> u128 {
    u128::MAX.checked_shl(128 - len).unwrap_or(0)
}

impl Kind {
    /// What a packet calls this table, and the program.
    fn names(self) -> (u8, &'static str) {
        match self {
            Self::Exact => (1, "exact_ab"),
            Self::Lpm => (2, "lpm_a"),
            Self::WideLpm => (3, "lpm_bc"),
            Self::Ternary => (4, "ternary_abc"),
            Self::Range => (5, "range_ab"),
            Self::Mixed => (6, "mixed"),
            Self::WideRange => (8, "range_wide"),
        }
    }

    /// What this table can say of a wish, and how.
    fn rule(self, wish: &Wish) -> (Rule, Vec<FieldMatch>, i32) {
        let any = Rule {
            a: (0, 0),
            b: (0, 0),
            interval: (0, u16::MAX),
            c: (0, 0),
            c_interval: (0, u128::MAX),
            rank: 0,
        };
        let (low, high) = (wish.b.min(wish.b2), wish.b.max(wish.b2));
        let alen = wish.len % 33;
        let a_prefix = wish.a & prefix32(alen);
        let b_full = (wish.b, u16::MAX);
        let a_match = |len: u32| {
            if len == 0 {
                FieldMatch::Any
            } else {
                lpm(a_prefix.into(), len)
            }
        };
        let b_match = if (low, high) == (0, u16::MAX) {
            FieldMatch::Any
        } else {
            range(low.into(), high.into())
        };
        match self {
            Self::Exact => (
                Rule {
                    a: (wish.a, u32::MAX),
                    b: b_full,
                    ..any
                },
                vec![exact(wish.a.into()), exact(wish.b.into())],
                0,
            ),
            Self::Lpm => (
                Rule {
                    a: (a_prefix, prefix32(alen)),
                    rank: alen as i32,
                    ..any
                },
                vec![a_match(alen)],
                0,
            ),
            Self::WideLpm => {
                let len = wish.len % 129;
                let c = wish.c & prefix128(len);
                (
                    Rule {
                        b: b_full,
                        c: (c, prefix128(len)),
                        rank: len as i32,
                        ..any
                    },
                    vec![
                        exact(wish.b.into()),
                        if len == 0 {
                            FieldMatch::Any
                        } else {
                            lpm(c, len)
                        },
                    ],
                    0,
                )
            }
            Self::Ternary => {
                let (am, bm, cm) = (wish.am, wish.bm, wish.cm);
                (
                    Rule {
                        a: (wish.a & am, am),
                        b: (wish.b & bm, bm),
                        c: (wish.c & cm, cm),
                        rank: wish.priority,
                        ..any
                    },
                    vec![
                        ternary((wish.a & am).into(), am.into()),
                        ternary((wish.b & bm).into(), bm.into()),
                        ternary(wish.c & cm, cm),
                    ],
                    wish.priority,
                )
            }
            Self::Range => (
                Rule {
                    a: (wish.a, u32::MAX),
                    interval: (low, high),
                    rank: wish.priority,
                    ..any
                },
                vec![exact(wish.a.into()), b_match],
                wish.priority,
            ),
            Self::WideRange => {
                let (low, high) = (wish.c.min(wish.cm), wish.c.max(wish.cm));
                let c_match = if (low, high) == (0, u128::MAX) {
                    FieldMatch::Any
                } else {
                    range(low, high)
                };
                (
                    Rule {
                        b: (wish.b & wish.bm, wish.bm),
                        c_interval: (low, high),
                        rank: wish.priority,
                        ..any
                    },
                    vec![c_match, ternary((wish.b & wish.bm).into(), wish.bm.into())],
                    wish.priority,
                )
            }
            Self::Mixed => {
                let cm = if wish.cm & 1 == 0 { 0 } else { u128::MAX };
                let c_match = if cm == 0 {
                    FieldMatch::Any
                } else {
                    ternary(wish.c, cm)
                };
                (
                    Rule {
                        a: (a_prefix, prefix32(alen)),
                        interval: (low, high),
                        c: (wish.c & cm, cm),
                        rank: wish.priority,
                        ..any
                    },
                    vec![a_match(alen), b_match, c_match],
                    wish.priority,
                )
            }
        }
    }
}

/// Values of which a rule takes what its table can say.
#[derive(Debug, Clone)]
struct Wish {
    a: u32,
    am: u32,
    b: u16,
    b2: u16,
    bm: u16,
    c: u128,
    cm: u128,
    len: u32,
    priority: i32,
}

/// Few distinct values, so that rules meet packets and each other.
fn wish() -> impl Strategy<Value = Wish> {
    let a = prop::sample::select(vec![
        0u32,
        1,
        0x0a00_0000,
        0x0a00_0001,
        0x0a01_0000,
        u32::MAX,
    ]);
    let am = prop::sample::select(vec![0u32, u32::MAX, 0xff00_0000, 0xffff_0000, 1]);
    let b = prop::sample::select(vec![0u16, 1, 2, 80, 90, 1024, u16::MAX]);
    let bm = prop::sample::select(vec![0u16, u16::MAX, 0xff00, 3]);
    let c = prop::sample::select(vec![0u128, 1, 1 << 64, (1 << 127) | 1, u128::MAX]);
    let cm = prop::sample::select(vec![0u128, u128::MAX, 1 << 127, 1 | (1 << 64)]);
    (
        a,
        am,
        (b.clone(), b, bm),
        c,
        cm,
        prop::sample::select(vec![0u32, 1, 8, 15, 16, 24, 32, 64, 65, 127, 128]),
        1..5i32,
    )
        .prop_map(|(a, am, (b, b2, bm), c, cm, len, priority)| Wish {
            a,
            am,
            b,
            b2,
            bm,
            c,
            cm,
            len,
            priority,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_table_answers_as_a_list_would(
        kind in prop::sample::select(KINDS.to_vec()),
        steps in prop::collection::vec((wish(), 0..4u8), 1..60),
        questions in prop::collection::vec(wish(), 1..20),
    ) {
        let s = switch();
        let program = s.program().unwrap();
        let id = table(&program, kind.names().1);
        let mut w = s.worker();
        let mut list = List::default();
        let now = Timestamp::from_nanos(0);
        for (n, (wish, what)) in steps.iter().enumerate() {
            let answer = n as u32 + 1;
            let (rule, fields, priority) = kind.rule(wish);
            if *what == 0 {
                let key = EntryKey { fields, priority };
                let done = s.apply(now, &[TableOp::Delete { table: id, key }]);
                prop_assert_eq!(done[0].is_ok(), list.delete(&rule), "delete {:?}", rule);
            } else {
                let e = entry(fields, priority, call(&program, id, "found", &[answer.into()]));
                let done = s.apply(now, &[TableOp::Insert { table: id, entry: e }]);
                prop_assert_eq!(done[0].is_ok(), list.insert(&rule, answer), "insert {:?}: {:?}", rule, done);
            }
        }
        let asks = questions.iter().chain(steps.iter().map(|(w, _)| w));
        for q in asks.map(|w| Ask { a: w.a, b: w.b, c: w.c }) {
            prop_assert_eq!(q.answer(&mut w, kind.names().0), list.lookup(q), "{:?}", q);
        }
        // What is read back is what was written.
        let (entries, more) = s.read_entries(id, ReadCursor::default(), 1000, now).unwrap();
        prop_assert_eq!(more, None);
        prop_assert_eq!(entries.len(), list.slots.iter().flatten().count());
        for e in entries {
            let again = s.get_entry(id, &e.entry.key, now).unwrap();
            prop_assert_eq!(again, e);
        }
    }
}
