//! Conditions as jumps.

use super::number::{Leaf, leaf};
use super::{Label, Writer, number};
use crate::ir::bits::Loc;
use crate::ir::code::{Op, Span, TEMPS};
use crate::ir::expr::{Cond, Num};

/// Whether evaluating it has no effect but its value: nothing in it can fault.
pub(super) fn is_pure(c: &Cond) -> bool {
    match c {
        Cond::Const(_)
        | Cond::Valid(_)
        | Cond::Invalid(_)
        | Cond::FieldSet(_)
        | Cond::FieldClear(_)
        | Cond::FieldIs(..)
        | Cond::FieldIsNot(..) => true,
        Cond::NotZero(n) => number::is_pure(n),
        Cond::Eq64(p) | Cond::Less64(p) => number::is_pure(&p.0) && number::is_pure(&p.1),
        Cond::And(p) | Cond::Or(p) | Cond::EqBool(p) => is_pure(&p.0) && is_pure(&p.1),
        Cond::Not(c) => is_pure(c),
        Cond::If(p) => is_pure(&p.0) && is_pure(&p.1) && is_pure(&p.2),
        _ => false,
    }
}

impl Writer<'_> {
    /// Goes to `to` if the condition comes out as `when`, else on.
    pub(super) fn cond(&mut self, c: &Cond, when: bool, to: Label, depth: u8) {
        match c {
            Cond::Const(b) => {
                if *b == when {
                    self.op(Op::Jump(to));
                }
            }
            Cond::Valid(header) => self.op(Op::IfValid {
                when,
                to,
                header: *header,
            }),
            Cond::Invalid(header) => self.op(Op::IfValid {
                when: !when,
                to,
                header: *header,
            }),
            Cond::FieldIs(field, value) => self.field_is(*field, *value, when, to),
            Cond::FieldIsNot(field, value) => self.field_is(*field, *value, !when, to),
            Cond::FieldClear(field) => self.field_is(*field, 0, when, to),
            Cond::FieldSet(field) => self.field_is(*field, 0, !when, to),
            Cond::NotZero(n) => {
                self.number(n, 64, depth);
                self.op(Op::IfAccIs {
                    when: !when,
                    to,
                    value: 0,
                });
            }
            Cond::Eq64(p) => self.equal(&p.0, &p.1, when, to, depth),
            Cond::Less64(p) => self.less(&p.0, &p.1, when, to, depth),
            Cond::Not(c) => self.cond(c, !when, to, depth),
            // Both sides of `and` and `or` are evaluated in bmv2; where the
            // second has no effect, nobody can tell.
            Cond::And(p) if is_pure(&p.1) => self.either(&p.0, &p.1, false, when, to, depth),
            Cond::Or(p) if is_pure(&p.1) => self.either(&p.0, &p.1, true, when, to, depth),
            Cond::If(p) => {
                let (not, end) = (self.new_label(), self.new_label());
                self.cond(&p.0, false, not, depth);
                self.cond(&p.1, when, to, depth);
                self.op(Op::Jump(end));
                self.bind(not);
                self.cond(&p.2, when, to, depth);
                self.bind(end);
            }
            other => self.general(other, when, to),
        }
    }

    fn field_is(&mut self, loc: Loc, value: u64, when: bool, to: Label) {
        match Span::new(loc) {
            Some(field) if loc.alone => self.op(Op::IfWordIs {
                when,
                to,
                byte: field.byte,
                value,
            }),
            Some(field) => match u32::try_from(value) {
                Ok(value) => self.op(Op::IfIs {
                    when,
                    to,
                    field,
                    value,
                }),
                Err(_) => {
                    self.op(Op::Load(field));
                    self.op(Op::IfAccIs { when, to, value });
                }
            },
            None => self.general(&Cond::FieldIs(loc, value), when, to),
        }
    }

    /// `a or b` where `decides` is true, `a and b` where it is false: the
    /// first operand that equals `decides` decides.
    fn either(&mut self, a: &Cond, b: &Cond, decides: bool, when: bool, to: Label, depth: u8) {
        if when == decides {
            self.cond(a, decides, to, depth);
            self.cond(b, decides, to, depth);
        } else {
            let skip = self.new_label();
            self.cond(a, decides, skip, depth);
            self.cond(b, !decides, to, depth);
            self.bind(skip);
        }
    }

    fn equal(&mut self, a: &Num<u64>, b: &Num<u64>, when: bool, to: Label, depth: u8) {
        let (a, b) = if leaf(b).is_none() && leaf(a).is_some() {
            (b, a)
        } else {
            (a, b)
        };
        match leaf(b) {
            Some(Leaf::Const(value)) => {
                self.number(a, 64, depth);
                self.op(Op::IfAccIs { when, to, value });
            }
            Some(Leaf::Field(field)) => {
                self.number(a, 64, depth);
                self.op(Op::IfAccIsField { when, to, field });
            }
            None => {
                if self.both(a, b, depth) {
                    self.op(Op::IfAccIsTemp {
                        when,
                        to,
                        temp: depth,
                    });
                } else {
                    self.general(&Cond::Eq64(Box::new((a.clone(), b.clone()))), when, to);
                }
            }
        }
    }

    fn less(&mut self, a: &Num<u64>, b: &Num<u64>, when: bool, to: Label, depth: u8) {
        match (leaf(a), leaf(b)) {
            (_, Some(Leaf::Const(value))) => {
                self.number(a, 64, depth);
                self.op(Op::IfAccBelow { when, to, value });
            }
            (_, Some(Leaf::Field(field))) => {
                self.number(a, 64, depth);
                self.op(Op::IfAccBelowField { when, to, field });
            }
            (Some(Leaf::Field(field)), None) => {
                self.number(b, 64, depth);
                self.op(Op::IfFieldBelowAcc { when, to, field });
            }
            _ => {
                if self.both(a, b, depth) {
                    self.op(Op::IfAccBelowTemp {
                        when,
                        to,
                        temp: depth,
                    });
                } else {
                    self.general(&Cond::Less64(Box::new((a.clone(), b.clone()))), when, to);
                }
            }
        }
    }

    /// `b` put aside at `depth`, `a` in the accumulator; `false` if there is
    /// no room to put it.
    fn both(&mut self, a: &Num<u64>, b: &Num<u64>, depth: u8) -> bool {
        if usize::from(depth) >= TEMPS {
            return false;
        }
        self.number(b, 64, depth);
        self.op(Op::Save(depth));
        self.number(a, 64, depth + 1);
        true
    }

    /// The general evaluation.
    fn general(&mut self, c: &Cond, when: bool, to: Label) {
        let at = u32::try_from(self.code.conds.len()).unwrap_or(u32::MAX);
        self.code.conds.push(c.clone());
        self.op(Op::IfCond { when, to, cond: at });
    }
}
