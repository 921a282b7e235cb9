//! Numbers in the accumulator.

use super::Writer;
use crate::ir::bits::mask64;
use crate::ir::code::{Combine, Op, Param, Span, TEMPS};
use crate::ir::expr::{Cond, Num};

/// An operand that needs no computing.
#[derive(Clone, Copy)]
pub(super) enum Leaf {
    Const(u64),
    Field(Span),
}

/// The number as a leaf, if it is one.
pub(super) fn leaf(n: &Num<u64>) -> Option<Leaf> {
    match n {
        Num::Const(c) => Some(Leaf::Const(*c)),
        Num::Field(loc) => Span::new(*loc).map(Leaf::Field),
        _ => None,
    }
}

/// The number without masks that keep all of its low `bits` bits.
pub(super) fn low(n: &Num<u64>, bits: u32) -> &Num<u64> {
    match n {
        Num::Mask(inner, m) if m & mask64(bits) == mask64(bits) => low(inner, bits),
        other => other,
    }
}

/// Whether evaluating it has no effect but its value: nothing in it can fault.
pub(super) fn is_pure(n: &Num<u64>) -> bool {
    match n {
        Num::Const(_) | Num::Field(_) | Num::Param(_) | Num::Valid(_) => true,
        Num::Add(p) | Num::Sub(p) | Num::Mul(p) | Num::And(p) | Num::Or(p) | Num::Xor(p) => {
            is_pure(&p.0) && is_pure(&p.1)
        }
        Num::Not(n) | Num::Mask(n, _) | Num::ShlConst(n, _) | Num::ShrConst(n, _) => is_pure(n),
        Num::FromBool(c) => super::cond::is_pure(c),
        Num::If(p) => super::cond::is_pure(&p.0) && is_pure(&p.1) && is_pure(&p.2),
        _ => false,
    }
}

/// A field's complement within its width, `ones - field`.
fn complement(n: &Num<u64>) -> Option<(u64, Span)> {
    let Num::Mask(inner, ones) = n else {
        return None;
    };
    match &**inner {
        Num::Not(field) => match &**field {
            Num::Field(loc) if *ones == mask64(u32::from(loc.width)) => {
                Some((*ones, Span::new(*loc)?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// A sum taken apart.
#[derive(Default)]
struct Sum<'n> {
    constant: u64,
    add: Vec<Span>,
    sub: Vec<Span>,
    /// What must be computed first.
    rest: Vec<&'n Num<u64>>,
}

impl<'n> Sum<'n> {
    /// Adds the terms of a number of which the low `bits` bits are needed.
    fn take(&mut self, n: &'n Num<u64>, bits: u32) {
        match low(n, bits) {
            Num::Add(p) => {
                self.take(&p.0, bits);
                self.take(&p.1, bits);
            }
            n @ Num::Sub(p) => match leaf(low(&p.1, bits)) {
                Some(Leaf::Field(f)) => {
                    self.take(&p.0, bits);
                    self.sub.push(f);
                }
                Some(Leaf::Const(c)) => {
                    self.take(&p.0, bits);
                    self.constant = self.constant.wrapping_sub(c);
                }
                None => self.rest.push(n),
            },
            n => match (leaf(n), complement(n)) {
                (Some(Leaf::Const(c)), _) => self.constant = self.constant.wrapping_add(c),
                (Some(Leaf::Field(f)), _) => self.add.push(f),
                (None, Some((ones, f))) => {
                    self.constant = self.constant.wrapping_add(ones);
                    self.sub.push(f);
                }
                (None, None) => self.rest.push(n),
            },
        }
    }
}

impl Writer<'_> {
    /// Computes a number into the accumulator. Only its low `bits` bits need
    /// to be right; values put aside from `depth` on may be overwritten.
    pub(super) fn number(&mut self, n: &Num<u64>, bits: u32, depth: u8) {
        if usize::from(depth) >= TEMPS {
            return self.eval(n);
        }
        match n {
            Num::Const(c) => self.op(Op::Const(*c)),
            Num::Field(loc) => match Span::new(*loc) {
                Some(field) if loc.alone => self.op(Op::LoadWord(field.byte)),
                Some(field) => self.op(Op::Load(field)),
                None => self.eval(n),
            },
            Num::Param(p) => match Param::new(*p) {
                Some(p) => self.op(Op::Param(p)),
                None => self.eval(n),
            },
            Num::Valid(h) => self.op(Op::Valid(*h)),
            Num::Add(_) => self.sum(n, bits, depth),
            Num::Sub(p) => {
                if leaf(low(&p.1, bits)).is_some() {
                    self.sum(n, bits, depth);
                } else {
                    self.binary(Combine::Sub, &p.0, &p.1, bits, depth);
                }
            }
            Num::Mul(p) => self.commutative(Combine::Mul, p, bits, depth),
            Num::And(p) => self.commutative(Combine::And, p, bits, depth),
            Num::Or(p) => self.commutative(Combine::Or, p, bits, depth),
            Num::Xor(p) => self.commutative(Combine::Xor, p, bits, depth),
            Num::Not(n) => {
                self.number(n, bits, depth);
                self.op(Op::Not);
            }
            Num::Mask(inner, m) => {
                let needed = mask64(bits);
                if m & needed == needed {
                    return self.number(inner, bits, depth);
                }
                if let Some((ones, field)) = complement(n) {
                    self.op(Op::Load(field));
                    self.op(Op::XorConst(ones));
                    return;
                }
                self.number(inner, u64::BITS - m.leading_zeros(), depth);
                self.op(Op::AndConst(*m));
            }
            Num::ShlConst(inner, by) => match u8::try_from(*by) {
                Ok(by @ 0..64) => {
                    self.number(inner, bits, depth);
                    self.op(Op::Shl(by));
                }
                _ => self.op(Op::Const(0)),
            },
            Num::ShrConst(inner, by) => match u8::try_from(*by) {
                Ok(by @ 0..64) => {
                    self.number(inner, 64, depth);
                    self.op(Op::Shr(by));
                }
                _ => self.op(Op::Const(0)),
            },
            Num::If(p) => {
                let (not, end) = (self.new_label(), self.new_label());
                self.cond(&p.0, false, not, depth);
                self.number(&p.1, bits, depth);
                self.op(Op::Jump(end));
                self.bind(not);
                self.number(&p.2, bits, depth);
                self.bind(end);
            }
            Num::FromBool(c) => self.truth(c, depth),
            other => self.eval(other),
        }
    }

    /// 1 or 0.
    fn truth(&mut self, c: &Cond, depth: u8) {
        match c {
            Cond::Const(b) => self.op(Op::Const(u64::from(*b))),
            Cond::Valid(h) => self.op(Op::Valid(*h)),
            Cond::FieldIs(loc, v) => {
                self.number(&Num::Field(*loc), 64, depth);
                self.op(Op::Is(*v));
            }
            Cond::FieldIsNot(loc, v) => {
                self.number(&Num::Field(*loc), 64, depth);
                self.op(Op::IsNot(*v));
            }
            other => {
                let (not, end) = (self.new_label(), self.new_label());
                self.cond(other, false, not, depth);
                self.op(Op::Const(1));
                self.op(Op::Jump(end));
                self.bind(not);
                self.op(Op::Const(0));
                self.bind(end);
            }
        }
    }

    /// A sum of any number of terms. In words that wrap around, their order
    /// makes no difference.
    fn sum(&mut self, n: &Num<u64>, bits: u32, depth: u8) {
        let mut sum = Sum::default();
        sum.take(n, bits);
        let mut rest = sum.rest.iter();
        let mut add = sum.add.iter();
        if let Some(first) = rest.next() {
            self.number(first, bits, depth);
        } else if let Some(first) = add.next() {
            self.op(Op::Load(*first));
        } else {
            self.op(Op::Const(0));
        }
        for term in rest {
            self.op(Op::Save(depth));
            self.number(term, bits, depth + 1);
            self.op(Op::Combine(Combine::Add, depth));
        }
        for field in add {
            self.op(Op::AddField(*field));
        }
        for field in sum.sub {
            self.op(Op::SubField(field));
        }
        if sum.constant != 0 {
            self.op(Op::AddConst(sum.constant));
        }
    }

    fn commutative(&mut self, how: Combine, p: &(Num<u64>, Num<u64>), bits: u32, depth: u8) {
        let (a, b) = (low(&p.0, bits), low(&p.1, bits));
        if leaf(b).is_none() && leaf(a).is_some() {
            self.binary(how, b, a, bits, depth);
        } else {
            self.binary(how, a, b, bits, depth);
        }
    }

    fn binary(&mut self, how: Combine, a: &Num<u64>, b: &Num<u64>, bits: u32, depth: u8) {
        // The low bits of a product, a difference and so on depend on the low
        // bits of its parts alone.
        let (a, b) = (low(a, bits), low(b, bits));
        let direct = match (leaf(b), how) {
            (Some(Leaf::Field(f)), Combine::And) => Some(Op::AndField(f)),
            (Some(Leaf::Field(f)), Combine::Or) => Some(Op::OrField(f)),
            (Some(Leaf::Field(f)), Combine::Xor) => Some(Op::XorField(f)),
            (Some(Leaf::Const(c)), Combine::And) => Some(Op::AndConst(c)),
            (Some(Leaf::Const(c)), Combine::Or) => Some(Op::OrConst(c)),
            (Some(Leaf::Const(c)), Combine::Xor) => Some(Op::XorConst(c)),
            _ => None,
        };
        match direct {
            Some(op) => {
                self.number(a, bits, depth);
                self.op(op);
            }
            None => {
                self.number(b, bits, depth);
                self.op(Op::Save(depth));
                self.number(a, bits, depth + 1);
                self.op(Op::Combine(how, depth));
            }
        }
    }

    /// The general evaluation.
    fn eval(&mut self, n: &Num<u64>) {
        let at = u32::try_from(self.code.nums.len()).unwrap_or(u32::MAX);
        self.code.nums.push(n.clone());
        self.op(Op::Eval(at));
    }
}
