//! Truth values.

use super::{Big, HeaderSel, Num, UnionSel, View};
use crate::exec::State;
use crate::ir::bits::{self, Loc};
use crate::ir::{Field, FieldKind, HeaderId, UnionId};

/// A truth value.
#[derive(Debug, Clone)]
pub(crate) enum Cond {
    Const(bool),
    Valid(HeaderId),
    ValidSel(Box<HeaderSel>),
    ValidUnion(Box<UnionSel>),
    /// A field of up to 64 bits is not zero.
    FieldSet(Loc),
    /// A field of up to 64 bits is zero.
    FieldClear(Loc),
    /// A field of up to 64 bits equals a constant.
    FieldIs(Loc, u64),
    /// A field of up to 64 bits differs from a constant.
    FieldIsNot(Loc, u64),
    Invalid(HeaderId),
    NotZero(Box<Num<u64>>),
    NotZero128(Box<Num<u128>>),
    NotZeroBig(Box<Big>),
    Eq64(Box<(Num<u64>, Num<u64>)>),
    Less64(Box<(Num<u64>, Num<u64>)>),
    LessSigned64(Box<(Num<u64>, Num<u64>)>),
    Eq128(Box<(Num<u128>, Num<u128>)>),
    Less128(Box<(Num<u128>, Num<u128>)>),
    LessSigned128(Box<(Num<u128>, Num<u128>)>),
    EqBig(Box<(Big, Big)>),
    LessBig(Box<(Big, Big)>),
    EqHeader(Box<(HeaderSel, HeaderSel)>),
    EqUnion(Box<(UnionSel, UnionSel)>),
    EqVarbit(HeaderId, HeaderId),
    EqBool(Box<(Cond, Cond)>),
    And(Box<(Cond, Cond)>),
    Or(Box<(Cond, Cond)>),
    Not(Box<Cond>),
    If(Box<(Cond, Cond, Cond)>),
}

impl Cond {
    /// The value. Both sides of `and` and `or` are always evaluated, as bmv2
    /// does.
    #[inline(always)]
    pub(crate) fn eval(&self, v: &View<'_>) -> bool {
        match self {
            Self::FieldIs(loc, c) => bits::load64(&v.state.image, *loc) == *c,
            Self::FieldSet(loc) => bits::load64(&v.state.image, *loc) != 0,
            Self::Valid(h) => v.state.is_valid(*h),
            other => other.eval_node(v),
        }
    }

    fn eval_node(&self, v: &View<'_>) -> bool {
        match self {
            Self::Const(b) => *b,
            Self::Valid(h) => v.state.is_valid(*h),
            Self::ValidSel(sel) => sel.resolve(v).is_some_and(|h| v.state.is_valid(h)),
            Self::ValidUnion(sel) => sel.resolve(v).is_some_and(|u| valid_member(v, u).is_some()),
            Self::FieldSet(loc) => bits::load64(&v.state.image, *loc) != 0,
            Self::FieldIs(loc, c) => bits::load64(&v.state.image, *loc) == *c,
            Self::FieldIsNot(loc, c) => bits::load64(&v.state.image, *loc) != *c,
            Self::FieldClear(loc) => bits::load64(&v.state.image, *loc) == 0,
            Self::Invalid(h) => !v.state.is_valid(*h),
            Self::NotZero(n) => n.eval(v) != 0,
            Self::NotZero128(n) => n.eval(v) != 0,
            Self::NotZeroBig(n) => n.eval(v).sign() != num_bigint::Sign::NoSign,
            Self::Eq64(p) => p.0.eval(v) == p.1.eval(v),
            Self::Less64(p) => p.0.eval(v) < p.1.eval(v),
            Self::LessSigned64(p) => (p.0.eval(v) as i64) < (p.1.eval(v) as i64),
            Self::Eq128(p) => p.0.eval(v) == p.1.eval(v),
            Self::Less128(p) => p.0.eval(v) < p.1.eval(v),
            Self::LessSigned128(p) => (p.0.eval(v) as i128) < (p.1.eval(v) as i128),
            Self::EqBig(p) => p.0.eval(v) == p.1.eval(v),
            Self::LessBig(p) => p.0.eval(v) < p.1.eval(v),
            Self::EqHeader(p) => match (p.0.resolve(v), p.1.resolve(v)) {
                (Some(a), Some(b)) => headers_equal(v, a, b),
                _ => false,
            },
            Self::EqUnion(p) => match (p.0.resolve(v), p.1.resolve(v)) {
                (Some(a), Some(b)) => unions_equal(v, a, b),
                _ => false,
            },
            Self::EqVarbit(a, b) => varbits_equal(v, *a, *b),
            Self::EqBool(p) => p.0.eval(v) == p.1.eval(v),
            Self::And(p) => p.0.eval(v) & p.1.eval(v),
            Self::Or(p) => p.0.eval(v) | p.1.eval(v),
            Self::Not(c) => !c.eval(v),
            Self::If(p) => {
                if p.0.eval(v) {
                    p.1.eval(v)
                } else {
                    p.2.eval(v)
                }
            }
        }
    }
}

/// Headers are equal if they are of one type, both valid and hold the same.
fn headers_equal(v: &View<'_>, a: HeaderId, b: HeaderId) -> bool {
    let (Some(x), Some(y)) = (
        v.ir.headers.get(usize::from(a)),
        v.ir.headers.get(usize::from(b)),
    ) else {
        return false;
    };
    x.type_id == y.type_id
        && v.state.is_valid(a)
        && v.state.is_valid(b)
        && x.fields.iter().zip(&y.fields).all(|(f, g)| match f.kind {
            FieldKind::Valid => true,
            FieldKind::Varbit => varbits_equal(v, a, b),
            FieldKind::Plain => fields_equal(v.state, *f, *g),
        })
}

/// Varbits are compared as numbers, as in bmv2: leading zeros do not count.
fn varbits_equal(v: &View<'_>, a: HeaderId, b: HeaderId) -> bool {
    let digits = |h| {
        let mut bytes = v.state.varbit_number(v.ir, h);
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        bytes.drain(..zeros);
        bytes
    };
    digits(a) == digits(b)
}

/// Whether two fields of one width hold the same bits.
fn fields_equal(state: &State, f: Field, g: Field) -> bool {
    (0..f.width).step_by(64).all(|at| {
        let width = (f.width - at).min(64) as usize;
        bits::read_bits(&state.image, (f.bit + at) as usize, width)
            == bits::read_bits(&state.image, (g.bit + at) as usize, width)
    })
}

/// The position of the valid member of a union.
fn valid_member(v: &View<'_>, union: UnionId) -> Option<usize> {
    v.ir.unions
        .get(usize::from(union))?
        .headers
        .iter()
        .position(|&h| v.state.is_valid(h))
}

/// Unions are equal if the same member is valid in both and holds the same.
fn unions_equal(v: &View<'_>, a: UnionId, b: UnionId) -> bool {
    let (Some(i), Some(j)) = (valid_member(v, a), valid_member(v, b)) else {
        return false;
    };
    let member = |u: UnionId, i: usize| {
        v.ir.unions
            .get(usize::from(u))
            .and_then(|u| u.headers.get(i))
            .copied()
    };
    i == j && matches!((member(a, i), member(b, i)), (Some(x), Some(y)) if headers_equal(v, x, y))
}
