//! Makes one operation of several.

use super::blocks::{End, Graph};
use crate::ir::bits::mask64;
use crate::ir::code::{Op, Span};

/// Says what is stored where that is a constant, so that it can be known.
pub(super) fn fold(graph: &mut Graph) {
    for block in &mut graph.blocks {
        block.ops = pairs(&block.ops, constant);
    }
}

/// Replaces pairs of operations by single ones that do the same, the
/// accumulator included, until there are no more.
pub(super) fn fuse(graph: &mut Graph) {
    for block in &mut graph.blocks {
        loop {
            let fused = pairs(&block.ops, pair);
            let same = fused.len() == block.ops.len();
            block.ops = fused;
            if same {
                break;
            }
        }
        if let End::Test { op, .. } = &mut block.end
            && let Some(both) = block.ops.last().and_then(|last| pair(*last, *op))
        {
            *op = both;
            block.ops.pop();
        }
    }
}

/// The operations with some pairs made one, from the first on.
fn pairs(ops: &[Op], pair: impl Fn(Op, Op) -> Option<Op>) -> Vec<Op> {
    let mut fused = Vec::with_capacity(ops.len());
    let mut rest = ops;
    while let [op, tail @ ..] = rest {
        let both = tail.first().and_then(|second| pair(*op, *second));
        rest = if both.is_some() {
            tail.get(1..).unwrap_or(&[])
        } else {
            tail
        };
        fused.push(both.unwrap_or(*op));
    }
    fused
}

/// A constant that is stored in a word.
fn constant(first: Op, second: Op) -> Option<Op> {
    match (first, second) {
        (Op::Const(value), Op::StoreWord { byte, down }) => Some(Op::WordConst {
            byte,
            value: value & mask64(64 - u32::from(down)),
        }),
        _ => None,
    }
}

/// What an operation loads into the accumulator, if that is all it does.
fn loaded(op: Op) -> Option<Span> {
    match op {
        Op::Load(field) => Some(field),
        Op::LoadWord(byte) => Some(Span {
            byte,
            up: 0,
            down: 0,
        }),
        _ => None,
    }
}

/// One operation that does what two do.
fn pair(first: Op, second: Op) -> Option<Op> {
    if let Some(field) = loaded(first) {
        return Some(match second {
            Op::AddField(other) => Op::LoadSum(field, other),
            Op::Shl(by) => Op::LoadShl(field, by),
            Op::Store16(to) => Op::Copy16(to, field),
            Op::Store32(to) => Op::Copy32(to, field),
            Op::Count(counter) => Op::CountField { counter, field },
            Op::IfAccIsField {
                when,
                to,
                field: other,
            } => Op::IfFieldIsField {
                when,
                to,
                fields: [field, other],
            },
            Op::IfAccBelowField {
                when,
                to,
                field: other,
            } => Op::IfFieldBelowField {
                when,
                to,
                fields: [field, other],
            },
            _ => return None,
        });
    }
    Some(match (first, second) {
        (Op::AddField(a), Op::AddField(b)) => Op::AddFields(a, b),
        (Op::SubField(a), Op::SubField(b)) => Op::SubFields(a, b),
        (Op::AddField(a), Op::SubField(b)) => Op::AddSubField(a, b),
        (Op::LoadSum(a, b), Op::StoreWord { byte, down }) => Op::WordSum {
            byte,
            down,
            fields: [a, b],
        },
        (Op::AddConst(value), Op::StoreWord { byte, down }) => Op::StoreWordPlus {
            byte,
            down,
            value: u32::try_from(value).ok()?,
        },
        (
            Op::WordParam { byte, param },
            Op::WordParam {
                byte: byte2,
                param: param2,
            },
        ) => Op::WordParams([(byte, param), (byte2, param2)]),
        (
            Op::WordField { byte, field },
            Op::WordField {
                byte: byte2,
                field: field2,
            },
        ) => Op::WordFields([(byte, field), (byte2, field2)]),
        _ => return None,
    })
}
