//! Expressions after lowering, and how they are evaluated.
//!
//! bmv2 computes with integers of any size and cuts a value down only when it
//! is written to a field. Lowering therefore knows for every expression the
//! range of its *exact* value, and picks the narrowest arithmetic that gives
//! the same bits: [`Num<u64>`], [`Num<u128>`], or [`Big`], which really does
//! compute with integers of any size. Numbers in a word are two's complement.

mod big;
mod cond;
mod field;
mod num;
mod select;
mod word;

use num_bigint::BigInt;

use super::Ir;
use crate::exec::State;
use crate::registers::Registers;
pub(crate) use big::{Big, BinOp, MAX_BITS, binary, wrap};
pub(crate) use cond::Cond;
pub(crate) use field::{read_field, write_field, write_small};
pub(crate) use num::Num;
pub(crate) use select::{FieldPlace, HeaderSel, StackSel, UnionSel};
pub(crate) use word::Word;

/// What an expression may look at.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) ir: &'a Ir,
    pub(crate) registers: &'a Registers,
}

/// An exact value, with the arithmetic that suffices for it.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Fits 64 bits; signed if the flag is set.
    Word(Num<u64>, bool),
    /// Fits 128 bits; signed if the flag is set.
    Wide(Num<u128>, bool),
    Big(Box<Big>),
}

impl Value {
    /// The exact value.
    pub(crate) fn eval(&self, v: &View<'_>) -> BigInt {
        match self {
            Self::Word(n, false) => BigInt::from(n.eval(v)),
            Self::Word(n, true) => BigInt::from(n.eval(v) as i64),
            Self::Wide(n, false) => BigInt::from(n.eval(v)),
            Self::Wide(n, true) => BigInt::from(n.eval(v) as i128),
            Self::Big(b) => b.eval(v),
        }
    }

    /// The exact value, where it is known to be small without allocating.
    pub(crate) fn eval_small(&self, v: &View<'_>) -> Option<i128> {
        match self {
            Self::Word(n, false) => Some(i128::from(n.eval(v))),
            Self::Word(n, true) => Some(i128::from(n.eval(v) as i64)),
            Self::Wide(n, true) => Some(n.eval(v) as i128),
            Self::Wide(n, false) => i128::try_from(n.eval(v)).ok(),
            Self::Big(_) => None,
        }
    }
}
