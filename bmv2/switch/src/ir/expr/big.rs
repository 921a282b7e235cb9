//! Arithmetic with integers of any size.

use num_bigint::BigInt;

use super::num::param;
use super::{Cond, FieldPlace, Num, View, read_field};
use crate::ir::{Field, ParamPlace, StackId};
use crate::switch::DropReason;

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
