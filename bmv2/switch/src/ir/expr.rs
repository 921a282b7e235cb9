//! Expressions after lowering, and how they are evaluated.
//!
//! bmv2 computes with integers of any size and cuts a value down only when it
//! is written to a field. Lowering therefore knows for every expression the
//! range of its *exact* value, and picks the narrowest arithmetic that gives
//! the same bits: [`Num<u64>`], [`Num<u128>`], or [`Big`], which really does
//! compute with integers of any size. Numbers in a word are two's complement.

use num_bigint::BigInt;

use super::bits::{self, Loc, mask64, mask128};
use super::{Field, FieldKind, HeaderId, Ir, ParamPlace, StackId, UnionId};
use crate::exec::State;
use crate::registers::Registers;
use crate::switch::DropReason;

/// What an expression may look at.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) ir: &'a Ir,
    pub(crate) registers: &'a Registers,
}

/// A machine word that an expression is computed in.
pub(crate) trait Word:
    Copy
    + Eq
    + Ord
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
    + std::ops::Not<Output = Self>
{
    const BITS: u32;
    const ZERO: Self;
    fn load(image: &[u8], loc: Loc) -> Self;
    fn from_u64(v: u64) -> Self;
    fn from_u128(v: u128) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The divisor is not zero.
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn is_negative(self) -> bool;
    fn shl(self, by: u32) -> Self;
    fn shr(self, by: u32) -> Self;
    /// Shifts right, copies of the sign coming in.
    fn sar(self, by: u32) -> Self;
    fn mask(width: u32) -> Self;
    /// From the sign of the low `width` bits upward.
    fn extend(self, width: u32) -> Self {
        if width == 0 || width >= Self::BITS {
            return self;
        }
        self.shl(Self::BITS - width).sar(Self::BITS - width)
    }
    fn from_big(v: &BigInt) -> Self;
}

macro_rules! word {
    ($ty:ty, $signed:ty, $load:path, $mask:path) => {
        impl Word for $ty {
            const BITS: u32 = <$ty>::BITS;
            const ZERO: Self = 0;
            #[inline(always)]
            fn load(image: &[u8], loc: Loc) -> Self {
                $load(image, loc)
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                v as Self
            }
            #[inline(always)]
            fn from_u128(v: u128) -> Self {
                v as Self
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                self.checked_div(other).unwrap_or(0)
            }
            fn rem(self, other: Self) -> Self {
                self.checked_rem(other).unwrap_or(0)
            }
            fn is_negative(self) -> bool {
                (self as $signed) < 0
            }
            #[inline(always)]
            fn shl(self, by: u32) -> Self {
                self.checked_shl(by).unwrap_or(0)
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                self.checked_shr(by).unwrap_or(0)
            }
            #[inline(always)]
            fn sar(self, by: u32) -> Self {
                ((self as $signed) >> by.min(Self::BITS - 1)) as Self
            }
            #[inline(always)]
            fn mask(width: u32) -> Self {
                $mask(width)
            }
            fn from_big(v: &BigInt) -> Self {
                let mut bytes = [if v.sign() == num_bigint::Sign::Minus {
                    0xff
                } else {
                    0
                }; size_of::<Self>()];
                for (to, from) in bytes.iter_mut().zip(v.to_signed_bytes_le()) {
                    *to = from;
                }
                Self::from_le_bytes(bytes)
            }
        }
    };
}

word!(u64, i64, bits::load64, mask64);
word!(u128, i128, bits::load128, mask128);

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
fn param<W: Word>(state: &State, p: ParamPlace) -> W {
    let word = |i: usize| state.params.get(i).copied().unwrap_or(0);
    let at = usize::from(p.word);
    if p.width <= 64 {
        return W::from_u64((word(at) >> p.shift) & mask64(p.width));
    }
    W::from_u128((u128::from(word(at)) | (u128::from(word(at + 1)) << 64)) & mask128(p.width))
}

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
        let bytes = v.state.varbit_bytes(v.ir, h);
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        bytes.get(zeros..).unwrap_or(&[])
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

/// A header, fixed or chosen at run time.
#[derive(Debug, Clone)]
pub(crate) enum HeaderSel {
    Fixed(HeaderId),
    /// An element of a header stack.
    Element(StackId, Box<Num<u64>>),
    /// The element extracted last.
    Last(StackId),
    /// A member of a union.
    Member(Box<UnionSel>, u16),
}

impl HeaderSel {
    /// The header; an index beyond the stack is a fault of the program.
    pub(crate) fn resolve(&self, v: &View<'_>) -> Option<HeaderId> {
        match self {
            Self::Fixed(h) => Some(*h),
            Self::Element(stack, index) => {
                let found = usize::try_from(index.eval(v)).ok().and_then(|i| {
                    v.ir.stacks
                        .get(usize::from(*stack))
                        .and_then(|s| s.headers.get(i))
                        .copied()
                });
                if found.is_none() {
                    v.state.fault(DropReason::StackIndex);
                }
                found
            }
            Self::Last(stack) => {
                let found = (v.state.next_index(*stack) as usize)
                    .checked_sub(1)
                    .and_then(|i| {
                        v.ir.stacks
                            .get(usize::from(*stack))
                            .and_then(|s| s.headers.get(i))
                            .copied()
                    });
                if found.is_none() {
                    v.state.fault(DropReason::StackIndex);
                }
                found
            }
            Self::Member(union, member) => {
                let u = union.resolve(v)?;
                v.ir.unions
                    .get(usize::from(u))
                    .and_then(|u| u.headers.get(usize::from(*member)))
                    .copied()
            }
        }
    }
}

/// A union, fixed or chosen at run time.
#[derive(Debug, Clone)]
pub(crate) enum UnionSel {
    Fixed(UnionId),
    Element(StackId, Num<u64>),
    Last(StackId),
}

impl UnionSel {
    /// The union; an index beyond the stack is a fault of the program.
    pub(crate) fn resolve(&self, v: &View<'_>) -> Option<UnionId> {
        let (stack, index) = match self {
            Self::Fixed(u) => return Some(*u),
            Self::Element(stack, index) => (*stack, usize::try_from(index.eval(v)).ok()),
            Self::Last(stack) => (*stack, (v.state.next_index(*stack) as usize).checked_sub(1)),
        };
        let found = index.and_then(|i| {
            usize::from(stack)
                .checked_sub(v.ir.stacks.len())
                .and_then(|s| v.ir.union_stacks.get(s))
                .and_then(|s| s.unions.get(i))
                .copied()
        });
        if found.is_none() {
            v.state.fault(DropReason::StackIndex);
        }
        found
    }
}

/// A stack of headers or unions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackSel(pub(crate) StackId);

/// A field that is written or read in the general way.
#[derive(Debug, Clone)]
pub(crate) enum FieldPlace {
    Fixed(Field),
    /// A field, by its position, of a header chosen at run time.
    Of(HeaderSel, u16),
}

impl FieldPlace {
    /// The field; `None` after a fault.
    pub(crate) fn resolve(&self, v: &View<'_>) -> Option<Field> {
        match self {
            Self::Fixed(f) => Some(*f),
            Self::Of(sel, field) => {
                let h = sel.resolve(v)?;
                v.ir.headers
                    .get(usize::from(h))
                    .and_then(|h| h.fields.get(usize::from(*field)))
                    .copied()
            }
        }
    }
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

/// An expression computed with integers of any size.
#[derive(Debug, Clone)]
pub(crate) enum Big {
    Const(BigInt),
    Field(Field),
    Param(ParamPlace),
    Bin(BinOp, Box<(Big, Big)>),
    Not(Box<Big>),
    /// Two's complement of the low bits.
    Wrap(Box<Big>, u32),
    /// Clamped to the unsigned range of a width.
    ClampUnsigned(Box<Big>, u32),
    /// Clamped to the signed range of a width.
    ClampSigned(Box<Big>, u32),
    If(Box<(Cond, Big, Big)>),
    FromBool(Box<Cond>),
    LastIndex(StackId),
    NextIndex(StackId),
    Dynamic(Box<FieldPlace>),
    Register(u32, Box<Num<u64>>),
}

/// A binary operation on numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Longest number an expression may grow to, in bits: a shift by a huge
/// amount must not become a huge allocation.
pub(crate) const MAX_BITS: u64 = 1 << 16;

impl Big {
    /// The value.
    pub(crate) fn eval(&self, v: &View<'_>) -> BigInt {
        match self {
            Self::Const(c) => c.clone(),
            Self::Field(f) => read_field(v.state, *f),
            Self::Param(p) => {
                let words = (p.width as usize).div_ceil(64);
                if p.width <= 64 {
                    return BigInt::from(param::<u64>(v.state, *p));
                }
                let mut bytes = Vec::with_capacity(words * 8);
                for i in 0..words {
                    let word = v.state.params.get(usize::from(p.word) + i);
                    bytes.extend_from_slice(&word.copied().unwrap_or(0).to_le_bytes());
                }
                BigInt::from_bytes_le(num_bigint::Sign::Plus, &bytes)
            }
            Self::Bin(op, p) => {
                let (a, b) = (p.0.eval(v), p.1.eval(v));
                binary(*op, a, b).unwrap_or_else(|| {
                    v.state.fault(DropReason::ProgramFault);
                    BigInt::ZERO
                })
            }
            Self::Not(b) => -b.eval(v) - 1,
            Self::Wrap(b, width) => wrap(b.eval(v), *width, true),
            Self::ClampUnsigned(b, width) => {
                let top = (BigInt::from(1) << *width) - 1;
                b.eval(v).clamp(BigInt::ZERO, top)
            }
            Self::ClampSigned(b, width) => {
                let half = BigInt::from(1) << width.saturating_sub(1);
                b.eval(v).clamp(-half.clone(), half - 1)
            }
            Self::If(p) => {
                if p.0.eval(v) {
                    p.1.eval(v)
                } else {
                    p.2.eval(v)
                }
            }
            Self::FromBool(c) => BigInt::from(u8::from(c.eval(v))),
            Self::LastIndex(s) => BigInt::from(u64::from(v.state.next_index(*s)).wrapping_sub(1)),
            Self::NextIndex(s) => BigInt::from(v.state.next_index(*s)),
            Self::Dynamic(place) => match place.resolve(v) {
                Some(f) => read_field(v.state, f),
                None => BigInt::ZERO,
            },
            Self::Register(r, index) => v.registers.read_or_zero(*r, index.eval(v)),
        }
    }
}

/// One operation; `None` if it has no result (division by zero, a result of
/// absurd size).
pub(crate) fn binary(op: BinOp, a: BigInt, b: BigInt) -> Option<BigInt> {
    Some(match op {
        BinOp::Add => a + b,
        BinOp::Sub => a - b,
        BinOp::Mul if a.bits() + b.bits() > MAX_BITS => return None,
        BinOp::Mul => a * b,
        BinOp::Div if b == BigInt::ZERO => return None,
        BinOp::Div => a / b,
        BinOp::Rem if b == BigInt::ZERO => return None,
        BinOp::Rem => a % b,
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl => {
            let by = u64::try_from(b).ok()?;
            if a == BigInt::ZERO {
                return Some(a);
            }
            if by.saturating_add(a.bits()) > MAX_BITS {
                return None;
            }
            a << by
        }
        BinOp::Shr if b.sign() == num_bigint::Sign::Minus => return None,
        BinOp::Shr => match u64::try_from(b) {
            Ok(by) => a >> by,
            // More bits than any number has.
            Err(_) if a.sign() == num_bigint::Sign::Minus => BigInt::from(-1),
            Err(_) => BigInt::ZERO,
        },
    })
}

/// The low `width` bits of a number, as a signed or unsigned number.
pub(crate) fn wrap(value: BigInt, width: u32, signed: bool) -> BigInt {
    if width == 0 {
        return BigInt::ZERO;
    }
    let modulus = BigInt::from(1) << width;
    let mask: BigInt = modulus.clone() - 1;
    let low: BigInt = value & mask;
    if signed && low.bit(u64::from(width - 1)) {
        low - modulus
    } else {
        low
    }
}

/// Reads a field of any width. A varbit reads as the number its bytes spell.
pub(crate) fn read_field(state: &State, f: Field) -> BigInt {
    if f.kind == FieldKind::Valid {
        return BigInt::from(u8::from(state.is_valid(f.header)));
    }
    if let Some(loc) = f.loc() {
        let raw = bits::load128(&state.image, loc);
        return if f.signed {
            BigInt::from(raw.extend(f.width) as i128)
        } else {
            BigInt::from(raw)
        };
    }
    let width = f.width as usize;
    let mut bytes = vec![0u8; width.div_ceil(8)];
    let total = bytes.len() * 8;
    bits::copy_bits(
        &mut bytes,
        total - width,
        &state.image,
        f.bit as usize,
        width,
    );
    let value = BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes);
    if f.signed {
        wrap(value, f.width, true)
    } else {
        value
    }
}

/// Writes a number of any size to a field: clamped if the field saturates,
/// else cut to its low bits.
pub(crate) fn write_field(state: &mut State, f: Field, value: BigInt) {
    let value = if f.saturating {
        let (low, high) = limits(f);
        value.clamp(low, high)
    } else {
        value
    };
    if let Some(loc) = f.loc() {
        bits::store128(&mut state.image, loc, u128::from_big(&value));
        return;
    }
    let width = f.width as usize;
    let low = wrap(value, f.width, false);
    let (_, digits) = low.to_bytes_be();
    let mut bytes = vec![0u8; width.div_ceil(8)];
    let from = bytes.len().saturating_sub(digits.len());
    if let Some(to) = bytes.get_mut(from..) {
        let skip = digits.len().saturating_sub(to.len());
        to.copy_from_slice(digits.get(skip..).unwrap_or(&[]));
    }
    let total = bytes.len() * 8;
    bits::copy_bits(
        &mut state.image,
        f.bit as usize,
        &bytes,
        total - width,
        width,
    );
}

/// Writes a small number to a field, without allocating where possible.
pub(crate) fn write_small(state: &mut State, f: Field, value: i128) {
    if f.width >= 127 && f.saturating {
        return write_field(state, f, BigInt::from(value));
    }
    let value = if f.saturating {
        let (low, high) = if f.signed {
            (-(1i128 << (f.width - 1)), (1i128 << (f.width - 1)) - 1)
        } else {
            (0, (1i128 << f.width) - 1)
        };
        value.clamp(low, high)
    } else {
        value
    };
    match f.loc() {
        Some(loc) => bits::store128(&mut state.image, loc, value as u128),
        None => write_field(state, f, BigInt::from(value)),
    }
}

/// The least and greatest value of a field.
fn limits(f: Field) -> (BigInt, BigInt) {
    let one = BigInt::from(1);
    if f.signed {
        let half = one << f.width.saturating_sub(1);
        (-half.clone(), half - 1)
    } else {
        (BigInt::ZERO, (one << f.width) - 1)
    }
}
