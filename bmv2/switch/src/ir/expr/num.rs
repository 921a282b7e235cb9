//! Numbers computed in a word.

use super::{Big, Cond, FieldPlace, Value, View, Word, read_field};
use crate::exec::State;
use crate::ir::bits::{Loc, mask64, mask128};
use crate::ir::{FieldKind, HeaderId, ParamPlace, StackId};
use crate::switch::DropReason;

/// A number computed in a word; only its low [`Word::BITS`] bits exist.
#[derive(Debug, Clone)]
pub(crate) enum Num<W> {
    Const(W),
    Field(Loc),
    Param(ParamPlace),
    Valid(HeaderId),
    Add(Box<(Num<W>, Num<W>)>),
    Sub(Box<(Num<W>, Num<W>)>),
    Mul(Box<(Num<W>, Num<W>)>),
    And(Box<(Num<W>, Num<W>)>),
    Or(Box<(Num<W>, Num<W>)>),
    Xor(Box<(Num<W>, Num<W>)>),
    Not(Box<Num<W>>),
    /// And with a constant.
    Mask(Box<Num<W>>, W),
    Shl(Box<(Num<W>, Num<u64>)>),
    Shr(Box<(Num<W>, Num<u64>)>),
    Sar(Box<(Num<W>, Num<u64>)>),
    ShlConst(Box<Num<W>>, u32),
    ShrConst(Box<Num<W>>, u32),
    /// Sign extension from a width.
    Extend(Box<Num<W>>, u32),
    If(Box<(Cond, Num<W>, Num<W>)>),
    FromBool(Box<Cond>),
    /// `nextIndex - 1`, or all ones for an empty stack.
    LastIndex(StackId),
    NextIndex(StackId),
    /// A field of a header that is chosen at run time.
    Dynamic(Box<FieldPlace>),
    Register(u32, Box<Num<u64>>),
    Div(Box<(Num<W>, Num<W>)>),
    Rem(Box<(Num<W>, Num<W>)>),
    /// Clamped to `[0, mask]`; the flag says that the operand is signed.
    ClampUnsigned(Box<Num<W>>, W, bool),
    /// Clamped to the signed range of a width narrower than the word.
    ClampSigned(Box<Num<W>>, u32, bool),
    /// The exact value, or all ones if it does not fit.
    Saturated(Box<Value>),
    /// The low bits of wider arithmetic.
    Narrow(Box<Num<u128>>),
    Big(Box<Big>),
}

impl<W: Word> Num<W> {
    /// The value.
    #[inline]
    pub(crate) fn eval(&self, v: &View<'_>) -> W {
        match self {
            Self::Const(c) => *c,
            Self::Field(loc) => W::load(&v.state.image, *loc),
            Self::Param(p) => param(v.state, *p),
            other => other.eval_node(v),
        }
    }

    fn eval_node(&self, v: &View<'_>) -> W {
        match self {
            Self::Const(c) => *c,
            Self::Field(loc) => W::load(&v.state.image, *loc),
            Self::Param(p) => param(v.state, *p),
            Self::Valid(h) => W::from_u64(u64::from(v.state.is_valid(*h))),
            Self::Add(p) => p.0.eval(v).add(p.1.eval(v)),
            Self::Sub(p) => p.0.eval(v).sub(p.1.eval(v)),
            Self::Mul(p) => p.0.eval(v).mul(p.1.eval(v)),
            Self::And(p) => p.0.eval(v) & p.1.eval(v),
            Self::Or(p) => p.0.eval(v) | p.1.eval(v),
            Self::Xor(p) => p.0.eval(v) ^ p.1.eval(v),
            Self::Not(n) => !n.eval(v),
            Self::Mask(n, m) => n.eval(v) & *m,
            Self::Shl(p) => p.0.eval(v).shl(shift_amount(p.1.eval(v))),
            Self::Shr(p) => p.0.eval(v).shr(shift_amount(p.1.eval(v))),
            Self::Sar(p) => p.0.eval(v).sar(shift_amount(p.1.eval(v))),
            Self::ShlConst(n, by) => n.eval(v).shl(*by),
            Self::ShrConst(n, by) => n.eval(v).shr(*by),
            Self::Extend(n, width) => n.eval(v).extend(*width),
            Self::If(p) => {
                if p.0.eval(v) {
                    p.1.eval(v)
                } else {
                    p.2.eval(v)
                }
            }
            Self::FromBool(c) => W::from_u64(u64::from(c.eval(v))),
            Self::LastIndex(s) => W::from_u64(u64::from(v.state.next_index(*s)).wrapping_sub(1)),
            Self::NextIndex(s) => W::from_u64(u64::from(v.state.next_index(*s))),
            Self::Dynamic(place) => match place.resolve(v) {
                Some(f) if f.kind == FieldKind::Valid => {
                    W::from_u64(u64::from(v.state.is_valid(f.header)))
                }
                Some(f) => match f.loc() {
                    Some(loc) => {
                        let raw = W::load(&v.state.image, loc);
                        if f.signed { raw.extend(f.width) } else { raw }
                    }
                    None => W::from_big(&read_field(v.state, f)),
                },
                None => W::ZERO,
            },
            Self::Register(r, index) => W::from_big(&v.registers.read_or_zero(*r, index.eval(v))),
            Self::Saturated(value) => W::from_u64(match value.eval_small(v) {
                Some(n) => u64::try_from(n).unwrap_or(u64::MAX),
                None => u64::try_from(value.eval(v)).unwrap_or(u64::MAX),
            }),
            Self::Narrow(n) => W::from_u128(n.eval(v)),
            Self::Div(p) | Self::Rem(p) => {
                let (a, b) = (p.0.eval(v), p.1.eval(v));
                if b == W::ZERO {
                    v.state.fault(DropReason::ProgramFault);
                    W::ZERO
                } else if matches!(self, Self::Div(_)) {
                    a.div(b)
                } else {
                    a.rem(b)
                }
            }
            Self::ClampUnsigned(n, top, signed) => {
                let value = n.eval(v);
                if *signed && value.is_negative() {
                    W::ZERO
                } else {
                    value.min(*top)
                }
            }
            Self::ClampSigned(n, width, signed) => {
                let value = n.eval(v);
                let top = W::mask(width.saturating_sub(1));
                if *signed && value.is_negative() {
                    // Both are negative: their order as words is their order.
                    value.max(!top)
                } else {
                    value.min(top)
                }
            }
            Self::Big(b) => W::from_big(&b.eval(v)),
        }
    }
}

/// A shift by more bits than any word has is a shift by all of them.
fn shift_amount(by: u64) -> u32 {
    u32::try_from(by).unwrap_or(u32::MAX)
}

/// An action's parameter.
#[inline(always)]
pub(super) fn param<W: Word>(state: &State, p: ParamPlace) -> W {
    let word = |i: usize| state.params.get(i).copied().unwrap_or(0);
    let at = usize::from(p.word);
    if p.width <= 64 {
        return W::from_u64((word(at) >> p.shift) & mask64(p.width));
    }
    W::from_u128((u128::from(word(at)) | (u128::from(word(at + 1)) << 64)) & mask128(p.width))
}
