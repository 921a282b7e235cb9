//! Small programs and what becomes of them.

use super::*;
use crate::ir::code::{Applied, Called, Op, Param, Pc, Span};
use crate::ir::{END, Table};
use crate::tables::key::KeyLayout;

const FIELD: Span = Span {
    byte: 64,
    up: 0,
    down: 48,
};

fn unless_word_is(byte: u16, value: u64, to: Pc) -> Op {
    Op::IfWordIs {
        when: false,
        to,
        byte,
        value,
    }
}

fn word(byte: u16, value: u64) -> Op {
    Op::WordConst { byte, value }
}

/// A table with these actions; with one of them fixed as its default.
fn table(actions: &[u32], fixed_default: Option<u32>) -> Table {
    Table {
        layout: KeyLayout::default(),
        actions: actions.to_vec(),
        fixed_default,
        next: Vec::new(),
        hit: None,
        miss: None,
        base_default_next: END,
        counted: false,
        meter: None,
        timed: false,
        profile: None,
    }
}

/// The code after optimising: actions begin at `starts`, each table goes on at
/// its `next`.
fn short(ops: Vec<Op>, starts: &[Pc], tables: Vec<(Table, Pc)>) -> Code {
    let (tables, next): (Vec<Table>, Vec<Pc>) = tables.into_iter().unzip();
    let applied = |next: &Pc| Applied {
        actions: starts
            .iter()
            .map(|&start| Called {
                start,
                hit: *next,
                miss: *next,
                words: 0,
            })
            .collect(),
        otherwise: *next,
        ..Applied::default()
    };
    let source = Program {
        headers: &[],
        nodes: &[],
        tables: &tables,
        actions: &[],
        ingress: 0,
        egress: 0,
    };
    let code = Code {
        ops,
        ingress: 1,
        egress: 0,
        tables: next.iter().map(applied).collect(),
        ..Code::default()
    };
    optimise(&source, code)
}

/// Where an action begins that a table calls.
fn start(code: &Code, table: usize, action: usize) -> usize {
    code.tables[table].actions[action].start as usize
}

#[test]
fn a_test_that_was_passed_is_not_asked_again() {
    let code = short(
        vec![
            Op::End,
            unless_word_is(8, 0, 6),
            Op::Store8(64),
            unless_word_is(8, 0, 6),
            unless_word_is(16, 0, 6),
            Op::Store8(65),
            // Here nothing is known of the word at 16.
            unless_word_is(16, 0, 0),
            Op::Store8(66),
            Op::End,
        ],
        &[],
        vec![],
    );
    assert_eq!(code.ingress, 1);
    assert_eq!(
        code.ops,
        [
            Op::End,
            unless_word_is(8, 0, 7),
            Op::Store8(64),
            // Past the test that the other way needs.
            unless_word_is(16, 0, 0),
            Op::Store8(65),
            Op::Store8(66),
            Op::End,
            unless_word_is(16, 0, 0),
            Op::Store8(66),
            Op::End,
        ]
    );
}

/// `hit` sets a flag that is asked for behind the table; the default action
/// does not.
fn flagged(fixed_default: Option<u32>) -> Code {
    let ops = vec![
        Op::End,
        word(8, 0),
        Op::Table(0),
        // Behind the table.
        unless_word_is(8, 1, 0),
        Op::Store16(64),
        Op::End,
        // Action 0.
        word(8, 1),
        Op::Return,
        // Action 1.
        Op::Return,
    ];
    short(ops, &[6, 8], vec![(table(&[0, 1], fixed_default), 3)])
}

#[test]
fn an_action_goes_on_where_its_table_would_and_takes_along_what_it_knows() {
    let code = flagged(Some(1));
    assert_eq!(
        code.ops,
        [
            Op::End,
            word(8, 0),
            Op::Table(0),
            word(8, 1),
            Op::Store16(64),
            Op::End,
            // The other action finds the flag as it was.
            Op::End,
        ]
    );
    assert_eq!(
        (code.ingress, start(&code, 0, 0), start(&code, 0, 1)),
        (1, 3, 6)
    );
}

#[test]
fn a_miss_without_a_default_entry_goes_on_without_an_action() {
    let code = flagged(None);
    let miss = code.tables[0].otherwise as usize;
    assert_eq!(code.ops[miss], Op::End, "the flag is not set");
    assert_eq!(code.ops[start(&code, 0, 0) + 1], Op::Store16(64));
}

#[test]
fn an_action_of_two_tables_returns_to_the_one_that_called_it() {
    let ops = vec![
        Op::End,
        Op::Table(0),
        Op::Table(1),
        Op::End,
        word(8, 1),
        Op::Return,
    ];
    let twice = || table(&[0], Some(0));
    let code = short(ops, &[4], vec![(twice(), 2), (twice(), 3)]);
    for (t, next) in [Op::Table(1), Op::End].into_iter().enumerate() {
        let at = start(&code, t, 0);
        assert_eq!(code.ops[at..at + 2], [word(8, 1), Op::Return]);
        assert_eq!(code.ops[code.tables[t].actions[0].hit as usize], next);
    }
}

#[test]
fn a_loop_keeps_its_length_and_each_round_what_it_knows() {
    let back = Op::Loop { to: 2, length: 9 };
    let code = short(
        vec![
            Op::End,
            word(8, 0),
            unless_word_is(8, 0, 0),
            word(8, 1),
            back,
        ],
        &[],
        vec![],
    );
    let at = code.ops.iter().position(|op| matches!(op, Op::Loop { .. }));
    let Some(Op::Loop { to, length }) = at.map(|at| code.ops[at]) else {
        panic!("no loop in {:?}", code.ops);
    };
    assert_eq!(length, 9);
    // The first round is known to go on, the second to end.
    assert_eq!(code.ops[1..3], [word(8, 0), word(8, 1)]);
    assert_eq!(code.ops[to as usize], Op::End);
}

#[test]
fn pairs_become_one() {
    let other = Span { byte: 80, ..FIELD };
    let param = Param {
        word: 0,
        up: 0,
        down: 0,
    };
    let cases = [
        (vec![Op::Load(FIELD), Op::Shl(2)], Op::LoadShl(FIELD, 2)),
        (
            vec![Op::LoadWord(8), Op::AddField(other)],
            Op::LoadSum(
                Span {
                    byte: 8,
                    up: 0,
                    down: 0,
                },
                other,
            ),
        ),
        (
            vec![
                Op::Load(FIELD),
                Op::AddField(other),
                Op::StoreWord { byte: 8, down: 32 },
            ],
            Op::WordSum {
                byte: 8,
                down: 32,
                fields: [FIELD, other],
            },
        ),
        (
            vec![Op::AddConst(7), Op::StoreWord { byte: 8, down: 32 }],
            Op::StoreWordPlus {
                byte: 8,
                down: 32,
                value: 7,
            },
        ),
        (
            vec![Op::Const(0x1_0005), Op::StoreWord { byte: 8, down: 48 }],
            word(8, 5),
        ),
        (
            vec![
                Op::WordParam { byte: 8, param },
                Op::WordParam { byte: 16, param },
            ],
            Op::WordParams([(8, param), (16, param)]),
        ),
        (
            vec![Op::Load(FIELD), Op::Count(3)],
            Op::CountField {
                counter: 3,
                field: FIELD,
            },
        ),
        (
            vec![Op::Load(FIELD), Op::Store32(90)],
            Op::Copy32(90, FIELD),
        ),
    ];
    for (two, one) in cases {
        let mut ops = vec![Op::End];
        ops.extend(&two);
        ops.push(Op::End);
        let code = short(ops, &[], vec![]);
        assert_eq!(code.ops, [Op::End, one, Op::End], "{two:?}");
    }
    // A constant that is too wide stays where it is.
    let wide = [Op::AddConst(1 << 32), Op::StoreWord { byte: 8, down: 0 }];
    let ops = [&[Op::End][..], &wide, &[Op::End]].concat();
    assert_eq!(short(ops.clone(), &[], vec![]).ops, ops);
}

#[test]
fn a_test_takes_the_field_before_it() {
    let other = Span { byte: 80, ..FIELD };
    let code = short(
        vec![
            Op::End,
            Op::Load(FIELD),
            Op::IfAccBelowField {
                when: true,
                to: 0,
                field: other,
            },
            Op::Store8(64),
            Op::End,
        ],
        &[],
        vec![],
    );
    let below = Op::IfFieldBelowField {
        when: true,
        to: 0,
        fields: [FIELD, other],
    };
    assert_eq!(code.ops, [Op::End, below, Op::Store8(64), Op::End]);
}

/// Each of many words is set on one of two ways: nothing makes a test needless,
/// and finding that out has an end.
#[test]
fn a_long_program_is_not_looked_at_for_ever() {
    for words in [1000, 4000u16] {
        let mut ops = vec![Op::End];
        for n in 0..words {
            let next = Pc::try_from(ops.len() + 3).unwrap();
            ops.extend([
                unless_word_is(8 * n, 0, next),
                word(8 * n, 1),
                Op::Store48(65000),
            ]);
        }
        ops.push(Op::End);
        let most = 2 * ops.len();
        let code = short(ops, &[], vec![]);
        let tested = code.ops.iter().filter_map(|op| match op {
            Op::IfWordIs { byte, .. } => Some(*byte),
            _ => None,
        });
        let tested: std::collections::BTreeSet<u16> = tested.collect();
        assert_eq!(tested.len(), usize::from(words));
        assert!(code.ops.len() <= most, "{} of {most}", code.ops.len());
    }
}
