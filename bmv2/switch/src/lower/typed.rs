//! Number expressions with the range of their exact value, and the choice of
//! the arithmetic that computes them.

use num_bigint::{BigInt, Sign};

use crate::ir::expr::{Big, BinOp, Cond, FieldPlace, MAX_BITS, Num, Value, Word, binary, wrap};
use crate::ir::{Field, FieldKind, ParamPlace, StackId};

/// A set of integers that holds an expression's exact value: `[0, 2^bits)`, or
/// `[-2^(bits-1), 2^(bits-1))` if signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) signed: bool,
    pub(crate) bits: u32,
}

impl Range {
    pub(crate) const fn unsigned(bits: u32) -> Self {
        Self {
            signed: false,
            bits,
        }
    }

    pub(crate) const fn signed(bits: u32) -> Self {
        Self { signed: true, bits }
    }

    fn of(value: &BigInt) -> Self {
        let bits = u32::try_from(value.bits()).unwrap_or(u32::MAX - 1);
        if value.sign() == Sign::Minus {
            Self::signed(bits + 1)
        } else {
            Self::unsigned(bits)
        }
    }

    /// Bits as a signed number.
    fn signed_bits(self) -> u32 {
        if self.signed {
            self.bits
        } else {
            self.bits.saturating_add(1)
        }
    }

    fn join(self, other: Self) -> Self {
        if self.signed || other.signed {
            Self::signed(self.signed_bits().max(other.signed_bits()))
        } else {
            Self::unsigned(self.bits.max(other.bits))
        }
    }

    /// Whether a word of `bits` bits holds it, read with its signedness.
    fn fits(self, bits: u32) -> bool {
        self.bits <= bits
    }

    fn within(self, other: Self) -> bool {
        match (self.signed, other.signed) {
            (false, false) | (true, true) => self.bits <= other.bits,
            (false, true) => self.bits < other.bits,
            (true, false) => false,
        }
    }

    fn binary(op: BinOp, a: Self, b: Self, amount: Option<u64>) -> Self {
        let plain = !a.signed && !b.signed;
        let (sa, sb) = (a.signed_bits(), b.signed_bits());
        let add = |x: u32, y: u32| x.saturating_add(y).min(MAX_BITS as u32 + 64);
        match op {
            BinOp::Add if plain => Self::unsigned(add(a.bits.max(b.bits), 1)),
            BinOp::Add | BinOp::Sub => Self::signed(add(sa.max(sb), 1)),
            BinOp::Mul if plain => Self::unsigned(add(a.bits, b.bits)),
            BinOp::Mul => Self::signed(add(sa, sb)),
            BinOp::Div if plain => Self::unsigned(a.bits),
            BinOp::Div => Self::signed(add(sa, 1)),
            BinOp::Rem if plain => Self::unsigned(a.bits.min(b.bits)),
            BinOp::Rem => Self::signed(sa),
            BinOp::And => match (a.signed, b.signed) {
                (false, false) => Self::unsigned(a.bits.min(b.bits)),
                (false, true) => Self::unsigned(a.bits),
                (true, false) => Self::unsigned(b.bits),
                (true, true) => Self::signed(sa.max(sb)),
            },
            BinOp::Or | BinOp::Xor => a.join(b),
            BinOp::Shl => {
                let by = match amount {
                    Some(n) => n,
                    None if b.bits < 20 => (1 << b.bits) - 1,
                    None => MAX_BITS,
                };
                let by = u32::try_from(by.min(MAX_BITS)).unwrap_or(u32::MAX);
                Self {
                    signed: a.signed,
                    bits: add(a.bits, by),
                }
            }
            BinOp::Shr => {
                let by = u32::try_from(amount.unwrap_or(0)).unwrap_or(u32::MAX);
                Self {
                    signed: a.signed,
                    bits: a.bits.saturating_sub(by).max(u32::from(a.signed)),
                }
            }
        }
    }
}

/// A number expression and its range.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) node: Node,
    pub(crate) range: Range,
}

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Const(BigInt),
    Field(Field),
    Param(ParamPlace),
    Bin(BinOp, Box<(Typed, Typed)>),
    Not(Box<Typed>),
    Wrap(Box<Typed>, u32),
    ClampUnsigned(Box<Typed>, u32),
    ClampSigned(Box<Typed>, u32),
    If(Box<(Cond, Typed, Typed)>),
    FromBool(Box<Cond>),
    LastIndex(StackId),
    NextIndex(StackId),
    Dynamic(FieldPlace),
    Register(u32, Box<Num<u64>>),
}

impl Typed {
    pub(crate) fn constant(value: BigInt) -> Self {
        Self {
            range: Range::of(&value),
            node: Node::Const(value),
        }
    }

    pub(crate) fn field(field: Field) -> Self {
        Self {
            range: Range {
                signed: field.signed,
                bits: field.width,
            },
            node: Node::Field(field),
        }
    }

    pub(crate) fn param(place: ParamPlace) -> Self {
        Self {
            range: Range::unsigned(place.width),
            node: Node::Param(place),
        }
    }

    pub(crate) fn as_const(&self) -> Option<&BigInt> {
        match &self.node {
            Node::Const(c) => Some(c),
            _ => None,
        }
    }

    fn as_small_const(&self) -> Option<u64> {
        self.as_const().and_then(|c| u64::try_from(c).ok())
    }

    /// A binary operation, folded where its result is known.
    pub(crate) fn binary(op: BinOp, a: Self, b: Self) -> Self {
        if let (Some(x), Some(y)) = (a.as_const(), b.as_const())
            && let Some(value) = binary(op, x.clone(), y.clone())
        {
            return Self::constant(value);
        }
        if op == BinOp::And {
            let (a, b) = if a.as_const().is_some() {
                (b, a)
            } else {
                (a, b)
            };
            if let Some(ones) = b.as_const().and_then(all_ones) {
                return a.low(ones, b);
            }
            return Self::raw(op, a, b);
        }
        if op == BinOp::Shr
            && let (Some(by), Node::Field(f)) = (b.as_small_const(), &a.node)
            && f.kind == FieldKind::Plain
            && !f.signed
            && by < u64::from(f.width)
        {
            return Self::field(Field {
                width: f.width - by as u32,
                part: true,
                ..*f
            });
        }
        Self::raw(op, a, b)
    }

    fn raw(op: BinOp, a: Self, b: Self) -> Self {
        let range = Range::binary(op, a.range, b.range, b.as_small_const());
        Self {
            node: Node::Bin(op, Box::new((a, b))),
            range,
        }
    }

    /// The low `bits` bits; `mask` is the constant that says so.
    fn low(self, bits: u32, mask: Self) -> Self {
        if self.range.within(Range::unsigned(bits)) {
            return self;
        }
        if let Node::Field(f) = &self.node
            && f.kind == FieldKind::Plain
            && bits > 0
            && bits <= f.width
        {
            return Self::field(Field {
                bit: f.bit + f.width - bits,
                width: bits,
                signed: false,
                saturating: false,
                part: bits < f.width || f.part,
                ..*f
            });
        }
        Self::raw(BinOp::And, self, mask)
    }

    pub(crate) fn not(self) -> Self {
        if let Some(c) = self.as_const() {
            return Self::constant(-c.clone() - 1);
        }
        Self {
            range: Range::signed(self.range.signed_bits()),
            node: Node::Not(Box::new(self)),
        }
    }

    pub(crate) fn wrap(self, width: u32) -> Self {
        if let Some(c) = self.as_const() {
            return Self::constant(wrap(c.clone(), width, true));
        }
        if self.range.within(Range::signed(width)) {
            return self;
        }
        Self {
            range: Range::signed(width),
            node: Node::Wrap(Box::new(self), width),
        }
    }

    pub(crate) fn clamp_unsigned(self, width: u32) -> Self {
        if self.range.within(Range::unsigned(width)) {
            return self;
        }
        Self {
            range: Range::unsigned(width),
            node: Node::ClampUnsigned(Box::new(self), width),
        }
    }

    pub(crate) fn clamp_signed(self, width: u32) -> Self {
        if self.range.within(Range::signed(width)) {
            return self;
        }
        Self {
            range: Range::signed(width),
            node: Node::ClampSigned(Box::new(self), width),
        }
    }

    pub(crate) fn choose(cond: Cond, a: Self, b: Self) -> Self {
        Self {
            range: a.range.join(b.range),
            node: Node::If(Box::new((cond, a, b))),
        }
    }

    pub(crate) fn from_bool(cond: Cond) -> Self {
        Self {
            range: Range::unsigned(1),
            node: Node::FromBool(Box::new(cond)),
        }
    }

    /// The arithmetic with integers of any size.
    pub(crate) fn big(&self) -> Big {
        match &self.node {
            Node::Const(c) => Big::Const(c.clone()),
            Node::Field(f) => Big::Field(*f),
            Node::Param(p) => Big::Param(*p),
            Node::Bin(op, p) => Big::Bin(*op, Box::new((p.0.big(), p.1.big()))),
            Node::Not(t) => Big::Not(Box::new(t.big())),
            Node::Wrap(t, w) => Big::Wrap(Box::new(t.big()), *w),
            Node::ClampUnsigned(t, w) => Big::ClampUnsigned(Box::new(t.big()), *w),
            Node::ClampSigned(t, w) => Big::ClampSigned(Box::new(t.big()), *w),
            Node::If(p) => Big::If(Box::new((p.0.clone(), p.1.big(), p.2.big()))),
            Node::FromBool(c) => Big::FromBool(c.clone()),
            Node::LastIndex(s) => Big::LastIndex(*s),
            Node::NextIndex(s) => Big::NextIndex(*s),
            Node::Dynamic(p) => Big::Dynamic(Box::new(p.clone())),
            Node::Register(r, i) => Big::Register(*r, i.clone()),
        }
    }

    /// The exact value in the narrowest arithmetic.
    pub(crate) fn value(&self) -> Value {
        if self.range.fits(64) {
            Value::Word(self.num(), self.range.signed)
        } else if self.range.fits(128) {
            Value::Wide(self.num(), self.range.signed)
        } else {
            Value::Big(Box::new(self.big()))
        }
    }

    /// The low bits of the exact value in a word.
    ///
    /// Sums, products and bitwise operations need only the low bits of their
    /// operands; shifts to the right, divisions and clamps need them whole,
    /// and move to wider arithmetic if the word has no room.
    pub(crate) fn num<W: Target>(&self) -> Num<W> {
        match &self.node {
            Node::Const(c) => Num::Const(W::from_big(c)),
            Node::Field(f) => field_num(*f).unwrap_or_else(|| Num::Big(Box::new(self.big()))),
            Node::Param(p) => Num::Param(*p),
            Node::Bin(op, p) => self.binary_num(*op, &p.0, &p.1),
            Node::Not(t) => Num::Not(Box::new(t.num())),
            Node::Wrap(t, w) if *w <= W::BITS => Num::Extend(Box::new(t.num()), *w),
            Node::Wrap(t, _) => t.num(),
            Node::ClampUnsigned(t, w) if t.range.fits(W::BITS) && *w < W::BITS => {
                Num::ClampUnsigned(Box::new(t.num()), W::mask(*w), t.range.signed)
            }
            Node::ClampSigned(t, w) if t.range.fits(W::BITS) && *w < W::BITS => {
                Num::ClampSigned(Box::new(t.num()), *w, t.range.signed)
            }
            Node::ClampUnsigned(..) | Node::ClampSigned(..) => self.wider(),
            Node::If(p) => Num::If(Box::new((p.0.clone(), p.1.num(), p.2.num()))),
            Node::FromBool(c) => Num::FromBool(c.clone()),
            Node::LastIndex(s) => Num::LastIndex(*s),
            Node::NextIndex(s) => Num::NextIndex(*s),
            Node::Dynamic(p) => Num::Dynamic(Box::new(p.clone())),
            Node::Register(r, i) => Num::Register(*r, i.clone()),
        }
    }

    fn binary_num<W: Target>(&self, op: BinOp, a: &Self, b: &Self) -> Num<W> {
        let both = |a: &Self, b: &Self| Box::new((a.num::<W>(), b.num::<W>()));
        match op {
            BinOp::Add => Num::Add(both(a, b)),
            BinOp::Sub => Num::Sub(both(a, b)),
            BinOp::Mul => Num::Mul(both(a, b)),
            BinOp::And => match b.as_const() {
                Some(c) => Num::Mask(Box::new(a.num()), W::from_big(c)),
                None => Num::And(both(a, b)),
            },
            BinOp::Or => Num::Or(both(a, b)),
            BinOp::Xor => Num::Xor(both(a, b)),
            BinOp::Shl => match b.as_small_const() {
                Some(by) => Num::ShlConst(Box::new(a.num()), u32::try_from(by).unwrap_or(u32::MAX)),
                None if b.range.fits(64) && !b.range.signed => {
                    Num::Shl(Box::new((a.num(), b.num())))
                }
                None => Num::Big(Box::new(self.big())),
            },
            BinOp::Shr if a.range.fits(W::BITS) && b.range.fits(64) && !b.range.signed => {
                match (b.as_small_const(), a.range.signed) {
                    (Some(by), false) => {
                        Num::ShrConst(Box::new(a.num()), u32::try_from(by).unwrap_or(u32::MAX))
                    }
                    (_, false) => Num::Shr(Box::new((a.num(), b.num()))),
                    (_, true) => Num::Sar(Box::new((a.num(), b.num()))),
                }
            }
            BinOp::Div | BinOp::Rem
                if a.range.fits(W::BITS)
                    && b.range.fits(W::BITS)
                    && !a.range.signed
                    && !b.range.signed =>
            {
                if op == BinOp::Div {
                    Num::Div(both(a, b))
                } else {
                    Num::Rem(both(a, b))
                }
            }
            BinOp::Shr | BinOp::Div | BinOp::Rem => self.wider(),
        }
    }

    /// The value by wider arithmetic than the word's.
    fn wider<W: Target>(&self) -> Num<W> {
        if W::BITS == 64 {
            W::narrow(self.num::<u128>())
        } else {
            Num::Big(Box::new(self.big()))
        }
    }
}

/// A word that lowering can produce.
pub(crate) trait Target: Word {
    fn narrow(n: Num<u128>) -> Num<Self>;
}

impl Target for u64 {
    fn narrow(n: Num<u128>) -> Num<u64> {
        match n {
            Num::Big(b) => Num::Big(b),
            other => Num::Narrow(Box::new(other)),
        }
    }
}

impl Target for u128 {
    fn narrow(n: Num<u128>) -> Num<u128> {
        n
    }
}

/// The low bits of a field; `None` if no single load has them.
fn field_num<W: Target>(f: Field) -> Option<Num<W>> {
    if f.kind == FieldKind::Valid {
        return Some(Num::Valid(f.header));
    }
    let width = f.width.min(W::BITS);
    let loc = f.slice(0, width)?;
    Some(if f.signed && width < W::BITS {
        Num::Extend(Box::new(Num::Field(loc)), width)
    } else {
        Num::Field(loc)
    })
}

/// `n` if the number is `2^n - 1`.
fn all_ones(value: &BigInt) -> Option<u32> {
    if value.sign() == Sign::Minus {
        return None;
    }
    let bits = value.bits();
    (value.clone() + 1 == BigInt::from(1) << bits)
        .then(|| u32::try_from(bits).ok())
        .flatten()
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Less,
}

/// Compares two numbers exactly.
pub(crate) fn compare(op: Compare, a: &Typed, b: &Typed) -> Cond {
    let (ra, rb) = (a.range, b.range);
    for bits in [64, 128] {
        let plain = !ra.signed && !rb.signed && ra.fits(bits) && rb.fits(bits);
        let signed = ra.signed_bits() <= bits && rb.signed_bits() <= bits;
        if !plain && !signed {
            continue;
        }
        return match (op, bits, plain) {
            (Compare::Eq, 64, _) => {
                if let (Num::Field(loc), Some(c)) = (a.num::<u64>(), b.as_small_const()) {
                    return Cond::FieldIs(loc, c);
                }
                Cond::Eq64(Box::new((a.num(), b.num())))
            }
            (Compare::Less, 64, true) => Cond::Less64(Box::new((a.num(), b.num()))),
            (Compare::Less, 64, false) => Cond::LessSigned64(Box::new((a.num(), b.num()))),
            (Compare::Eq, _, _) => Cond::Eq128(Box::new((a.num(), b.num()))),
            (Compare::Less, _, true) => Cond::Less128(Box::new((a.num(), b.num()))),
            (Compare::Less, _, false) => Cond::LessSigned128(Box::new((a.num(), b.num()))),
        };
    }
    let pair = Box::new((a.big(), b.big()));
    match op {
        Compare::Eq => Cond::EqBig(pair),
        Compare::Less => Cond::LessBig(pair),
    }
}

/// Whether a number is not zero.
pub(crate) fn not_zero(t: &Typed) -> Cond {
    match &t.node {
        Node::FromBool(c) => (**c).clone(),
        Node::Field(f) if f.kind == FieldKind::Valid => Cond::Valid(f.header),
        Node::Const(c) => Cond::Const(c.sign() != Sign::NoSign),
        _ if t.range.fits(64) => match t.num::<u64>() {
            Num::Field(loc) => Cond::FieldSet(loc),
            n => Cond::NotZero(Box::new(n)),
        },
        _ if t.range.fits(128) => Cond::NotZero128(Box::new(t.num())),
        _ => Cond::NotZeroBig(Box::new(t.big())),
    }
}
