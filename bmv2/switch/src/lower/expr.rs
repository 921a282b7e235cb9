//! Expressions of the document, checked and typed.

use num_bigint::BigInt;
use serde_json::Value as Json;

use super::symbols::{Symbols, hex_number, invalid, pair, unsupported};
use super::typed::{Compare, Node, Range, Typed, compare, not_zero};
use crate::ir::expr::{BinOp, Cond, FieldPlace, HeaderSel, Num, UnionSel};
use crate::ir::{Field, FieldKind, HeaderId, ParamPlace, StackId, UnionId};
use crate::program::LoadError;

/// Widest cast that is accepted, in bits.
const MAX_CAST: u32 = 1 << 14;

/// What an expression is.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Num(Typed),
    Bool(Cond),
    /// A header, and one of its type for looking up fields.
    Header(HeaderSel, HeaderId),
    Stack(StackId),
    Union(UnionSel, UnionId),
    UnionStack(StackId),
    /// The varbit of a header.
    Varbit(HeaderId),
}

/// Names that are in scope, and where in the document we are.
pub(crate) struct Scope<'a> {
    pub(crate) symbols: &'a Symbols,
    /// Parameters of the action, if inside one.
    pub(crate) params: &'a [ParamPlace],
    pub(crate) place: &'a str,
}

impl Scope<'_> {
    fn invalid<T>(&self, what: impl Into<String>) -> Result<T, LoadError> {
        invalid(self.place, what)
    }

    /// Any expression: an object with `type` and `value`.
    pub(crate) fn expr(&self, json: &Json) -> Result<Expr, LoadError> {
        let Some(kind) = json.get("type").and_then(Json::as_str) else {
            return self.invalid("expected an expression with a \"type\"");
        };
        self.operand(kind, json.get("value").unwrap_or(&Json::Null))
    }

    /// Any expression by its type and value.
    pub(crate) fn operand(&self, kind: &str, value: &Json) -> Result<Expr, LoadError> {
        let text = || match value.as_str() {
            Some(s) => Ok(s),
            None => self.invalid(format!("the value of a {kind:?} must be a string")),
        };
        Ok(match kind {
            // p4c also wraps an expression in another one.
            "expression" if value.get("type").is_some() => self.expr(value)?,
            "expression" => self.operation(value)?,
            "field" if value.get(0).is_some_and(Json::is_object) => self.chosen_field(value)?,
            "field" => {
                let f = self.symbols.field_pair(self.place, value)?;
                if f.kind == FieldKind::Varbit {
                    Expr::Varbit(f.header)
                } else {
                    Expr::Num(Typed::field(f))
                }
            }
            "hexstr" => Expr::Num(Typed::constant(hex_number(self.place, text()?)?)),
            "bool" => match value.as_bool() {
                Some(b) => Expr::Bool(Cond::Const(b)),
                None => return self.invalid("the value of a \"bool\" must be true or false"),
            },
            "local" | "runtime_data" => Expr::Num(Typed::param(self.param(value)?)),
            // p4c calls a union in a stack of them a header, too.
            "header"
                if let Ok(u) = self.symbols.union(self.place, text()?)
                    && self.symbols.header(self.place, text()?).is_err() =>
            {
                Expr::Union(UnionSel::Fixed(u), u)
            }
            "header" => {
                let h = self.symbols.header(self.place, text()?)?;
                Expr::Header(HeaderSel::Fixed(h), h)
            }
            "header_stack" => Expr::Stack(self.symbols.stack(self.place, text()?)?),
            "header_union" => {
                let u = self.symbols.union(self.place, text()?)?;
                Expr::Union(UnionSel::Fixed(u), u)
            }
            "header_union_stack" => {
                Expr::UnionStack(self.symbols.union_stack(self.place, text()?)?)
            }
            "stack_field" => {
                let (stack, field) = pair(self.place, value)?;
                let stack = self.symbols.stack(self.place, stack)?;
                // p4c writes the whole last element as if it were a field.
                if field == "last" && self.symbols.stack_field(self.place, stack, field).is_err() {
                    return Ok(Expr::Header(HeaderSel::Last(stack), self.element_of(stack)));
                }
                let (index, field) = self.symbols.stack_field(self.place, stack, field)?;
                Expr::Num(dynamic(
                    FieldPlace::Of(HeaderSel::Last(stack), index),
                    self.plain(field)?,
                ))
            }
            "union_stack_field" => {
                let parts: Option<Vec<&str>> = value
                    .as_array()
                    .map(|a| a.iter().filter_map(Json::as_str).collect());
                let Some([stack, member, field]) = parts.as_deref() else {
                    return self.invalid("expected an array of three names");
                };
                let stack = self.symbols.union_stack(self.place, stack)?;
                let member = self.symbols.union_stack_member(self.place, stack, member)?;
                let h = self.symbols.union_stack_header(self.place, stack, member)?;
                let (index, field) = self.symbols.field_index(self.place, h, field)?;
                let sel = HeaderSel::Member(Box::new(UnionSel::Last(stack)), member);
                Expr::Num(dynamic(FieldPlace::Of(sel, index), self.plain(field)?))
            }
            "register" => self.register(value)?,
            other => return unsupported(self.place, format!("an expression of type {other:?}")),
        })
    }

    fn plain(&self, field: Field) -> Result<Field, LoadError> {
        if field.kind == FieldKind::Varbit {
            return unsupported(self.place, "a varbit used as a number");
        }
        Ok(field)
    }

    fn param(&self, value: &Json) -> Result<ParamPlace, LoadError> {
        let found = value
            .as_u64()
            .and_then(|i| usize::try_from(i).ok())
            .and_then(|i| self.params.get(i));
        match found {
            Some(p) => Ok(*p),
            None => self.invalid(format!("the action has no parameter {value}")),
        }
    }

    fn register(&self, value: &Json) -> Result<Expr, LoadError> {
        let parts = value.as_array().filter(|a| a.len() == 2);
        let Some((name, index)) = parts.and_then(|a| Some((a.first()?.as_str()?, a.get(1)?)))
        else {
            return self.invalid("expected a register's name and an index");
        };
        let Some(&(register, width)) = self.symbols.registers.get(name) else {
            return self.invalid(format!("there is no register {name:?}"));
        };
        let index = self.index(index)?;
        Ok(Expr::Num(Typed {
            node: Node::Register(register, Box::new(index)),
            range: Range::unsigned(width),
        }))
    }

    /// An index: any value that does not fit 64 bits is out of range anyway.
    fn index(&self, json: &Json) -> Result<Num<u64>, LoadError> {
        Ok(word(&self.num(json)?))
    }

    /// A number.
    pub(crate) fn num(&self, json: &Json) -> Result<Typed, LoadError> {
        match self.expr(json)? {
            Expr::Num(t) => Ok(t),
            Expr::Bool(c) => Ok(Typed::from_bool(c)),
            _ => self.invalid("expected a number"),
        }
    }

    /// A truth value.
    pub(crate) fn cond(&self, json: &Json) -> Result<Cond, LoadError> {
        if json.is_null() {
            return Ok(Cond::Const(false));
        }
        match self.expr(json)? {
            Expr::Bool(c) => Ok(c),
            Expr::Num(t) => Ok(not_zero(&t)),
            _ => self.invalid("expected a truth value"),
        }
    }

    fn operation(&self, value: &Json) -> Result<Expr, LoadError> {
        let Some(op) = value.get("op").and_then(Json::as_str) else {
            return self.invalid("expected an expression with an \"op\"");
        };
        let null = Json::Null;
        let left = value.get("left").unwrap_or(&null);
        let right = value.get("right").unwrap_or(&null);
        let number = |op: BinOp| -> Result<Expr, LoadError> {
            let a = if left.is_null() {
                Typed::constant(BigInt::ZERO)
            } else {
                self.num(left)?
            };
            Ok(Expr::Num(Typed::binary(op, a, self.num(right)?)))
        };
        let both = || -> Result<Box<(Cond, Cond)>, LoadError> {
            Ok(Box::new((self.cond(left)?, self.cond(right)?)))
        };
        Ok(match op {
            "+" => number(BinOp::Add)?,
            "-" => number(BinOp::Sub)?,
            "*" => number(BinOp::Mul)?,
            "/" => number(BinOp::Div)?,
            "%" => number(BinOp::Rem)?,
            "<<" => number(BinOp::Shl)?,
            ">>" => number(BinOp::Shr)?,
            "&" => number(BinOp::And)?,
            "|" => number(BinOp::Or)?,
            "^" => number(BinOp::Xor)?,
            "~" => Expr::Num(self.num(right)?.not()),
            "two_comp_mod" => Expr::Num(self.num(left)?.wrap(self.width(right)?)),
            "usat_cast" => Expr::Num(self.num(left)?.clamp_unsigned(self.width(right)?)),
            "sat_cast" => Expr::Num(self.num(left)?.clamp_signed(self.width(right)?)),
            "d2b" => Expr::Bool(not_zero(&self.num(right)?)),
            "b2d" => Expr::Num(Typed::from_bool(self.cond(right)?)),
            "==" => Expr::Bool(self.equal(left, right)?),
            "!=" => Expr::Bool(not(self.equal(left, right)?)),
            "<" => Expr::Bool(compare(Compare::Less, &self.num(left)?, &self.num(right)?)),
            ">" => Expr::Bool(compare(Compare::Less, &self.num(right)?, &self.num(left)?)),
            ">=" => Expr::Bool(not(compare(
                Compare::Less,
                &self.num(left)?,
                &self.num(right)?,
            ))),
            "<=" => Expr::Bool(not(compare(
                Compare::Less,
                &self.num(right)?,
                &self.num(left)?,
            ))),
            "and" => Expr::Bool(Cond::And(both()?)),
            "or" => Expr::Bool(Cond::Or(both()?)),
            "not" => Expr::Bool(not(self.cond(right)?)),
            "?" => self.choice(value.get("cond").unwrap_or(&null), left, right)?,
            "valid" => match self.expr(right)? {
                Expr::Header(HeaderSel::Fixed(h), _) => Expr::Bool(Cond::Valid(h)),
                Expr::Header(sel, _) => Expr::Bool(Cond::ValidSel(Box::new(sel))),
                _ => return self.invalid("\"valid\" needs a header"),
            },
            "valid_union" => match self.expr(right)? {
                Expr::Union(sel, _) => Expr::Bool(Cond::ValidUnion(Box::new(sel))),
                _ => return self.invalid("\"valid_union\" needs a header union"),
            },
            "dereference_header_stack" | "dereference_stack" => self.element(left, right)?,
            "dereference_union_stack" => self.union_element(left, right)?,
            "last_stack_index" => Expr::Num(Typed {
                node: Node::LastIndex(self.any_stack(right)?),
                range: Range::unsigned(64),
            }),
            "size_stack" => Expr::Num(Typed {
                node: Node::NextIndex(self.any_stack(right)?),
                range: Range::unsigned(32),
            }),
            "access_field" => self.access_field(left, right)?,
            "access_union_header" => self.access_member(left, right)?,
            other => return unsupported(self.place, format!("the operator {other:?}")),
        })
    }

    fn width(&self, json: &Json) -> Result<u32, LoadError> {
        let t = self.num(json)?;
        let width = t.as_const().and_then(|c| u32::try_from(c).ok());
        match width {
            Some(w) if (1..=MAX_CAST).contains(&w) => Ok(w),
            _ => self.invalid("the width of a cast must be a small constant"),
        }
    }

    fn any_stack(&self, json: &Json) -> Result<StackId, LoadError> {
        match self.expr(json)? {
            Expr::Stack(s) | Expr::UnionStack(s) => Ok(s),
            _ => self.invalid("expected a header stack"),
        }
    }

    fn equal(&self, left: &Json, right: &Json) -> Result<Cond, LoadError> {
        Ok(match (self.expr(left)?, self.expr(right)?) {
            (Expr::Num(a), Expr::Num(b)) => {
                // Constants to the right, so that a test of a field is seen.
                let (a, b) = if a.as_const().is_some() {
                    (b, a)
                } else {
                    (a, b)
                };
                compare(Compare::Eq, &a, &b)
            }
            (Expr::Bool(a), Expr::Bool(b)) => Cond::EqBool(Box::new((a, b))),
            (Expr::Header(a, _), Expr::Header(b, _)) => Cond::EqHeader(Box::new((a, b))),
            (Expr::Union(a, _), Expr::Union(b, _)) => Cond::EqUnion(Box::new((a, b))),
            (Expr::Varbit(a), Expr::Varbit(b)) => Cond::EqVarbit(a, b),
            (Expr::Bool(a), Expr::Num(b)) | (Expr::Num(b), Expr::Bool(a)) => {
                Cond::EqBool(Box::new((a, not_zero(&b))))
            }
            _ => return self.invalid("a comparison of two different kinds of things"),
        })
    }

    fn choice(&self, cond: &Json, left: &Json, right: &Json) -> Result<Expr, LoadError> {
        let cond = self.cond(cond)?;
        Ok(match (self.expr(left)?, self.expr(right)?) {
            (Expr::Num(a), Expr::Num(b)) => Expr::Num(Typed::choose(cond, a, b)),
            (Expr::Bool(a), Expr::Bool(b)) => Expr::Bool(Cond::If(Box::new((cond, a, b)))),
            (Expr::Num(a), Expr::Bool(b)) => Expr::Num(Typed::choose(cond, a, Typed::from_bool(b))),
            (Expr::Bool(a), Expr::Num(b)) => Expr::Num(Typed::choose(cond, Typed::from_bool(a), b)),
            (Expr::Header(a, like), Expr::Header(b, _)) => {
                Expr::Header(HeaderSel::If(Box::new((cond, a, b))), like)
            }
            _ => return unsupported(self.place, "a choice (?:) between things of this kind"),
        })
    }

    fn element(&self, stack: &Json, index: &Json) -> Result<Expr, LoadError> {
        let Expr::Stack(stack) = self.expr(stack)? else {
            return self.invalid("expected a header stack");
        };
        let sel = HeaderSel::Element(stack, Box::new(self.index(index)?));
        Ok(Expr::Header(sel, self.element_of(stack)))
    }

    /// An element of a stack, for looking up fields.
    fn element_of(&self, stack: StackId) -> HeaderId {
        self.symbols
            .stacks
            .get(usize::from(stack))
            .and_then(|s| s.headers.first())
            .copied()
            .unwrap_or(0)
    }

    /// A field whose header is an operation, as in p4c's form for
    /// `stack[index].isValid()`.
    fn chosen_field(&self, value: &Json) -> Result<Expr, LoadError> {
        let (sel, index, field) = self.field_of_chosen(value)?;
        if field.kind == FieldKind::Valid {
            let valid = Cond::ValidSel(Box::new(sel));
            return Ok(Expr::Num(Typed::from_bool(valid)));
        }
        let field = self.plain(field)?;
        Ok(Expr::Num(dynamic(FieldPlace::Of(sel, index), field)))
    }

    /// The header, the position of the field, and a field like it, of
    /// `[operation, field]`.
    pub(crate) fn field_of_chosen(
        &self,
        value: &Json,
    ) -> Result<(HeaderSel, u16, Field), LoadError> {
        let (Some(header), Some(name)) = (value.get(0), value.get(1).and_then(Json::as_str)) else {
            return self.invalid("expected a header and a field's name");
        };
        let Expr::Header(sel, typical) = self.operation(header)? else {
            return self.invalid("expected a header before the field's name");
        };
        let (index, field) = self.symbols.field_index(self.place, typical, name)?;
        Ok((sel, index, field))
    }

    fn union_element(&self, stack: &Json, index: &Json) -> Result<Expr, LoadError> {
        let Expr::UnionStack(stack) = self.expr(stack)? else {
            return self.invalid("expected a header union stack");
        };
        let typical = usize::from(stack)
            .checked_sub(self.symbols.stacks.len())
            .and_then(|s| self.symbols.union_stacks.get(s))
            .and_then(|s| s.unions.first())
            .copied()
            .unwrap_or(0);
        Ok(Expr::Union(
            UnionSel::Element(stack, self.index(index)?),
            typical,
        ))
    }

    fn access_field(&self, left: &Json, right: &Json) -> Result<Expr, LoadError> {
        let Expr::Header(sel, typical) = self.expr(left)? else {
            return self.invalid("\"access_field\" needs a header");
        };
        let index = right.as_u64().and_then(|i| u16::try_from(i).ok());
        let field = index.and_then(|i| {
            self.symbols
                .headers
                .get(usize::from(typical))
                .and_then(|h| h.fields.get(usize::from(i)))
                .copied()
        });
        let (Some(index), Some(field)) = (index, field) else {
            return self.invalid(format!("the header has no field number {right}"));
        };
        let field = self.plain(field)?;
        Ok(Expr::Num(match sel {
            HeaderSel::Fixed(_) => Typed::field(field),
            sel => dynamic(FieldPlace::Of(sel, index), field),
        }))
    }

    fn access_member(&self, left: &Json, right: &Json) -> Result<Expr, LoadError> {
        let Expr::Union(sel, typical) = self.expr(left)? else {
            return self.invalid("\"access_union_header\" needs a header union");
        };
        let index = right.as_u64().and_then(|i| u16::try_from(i).ok());
        let header = index.and_then(|i| {
            self.symbols
                .unions
                .get(usize::from(typical))
                .and_then(|u| u.headers.get(usize::from(i)))
                .copied()
        });
        let (Some(index), Some(header)) = (index, header) else {
            return self.invalid(format!("the union has no member number {right}"));
        };
        Ok(match sel {
            UnionSel::Fixed(_) => Expr::Header(HeaderSel::Fixed(header), header),
            sel => Expr::Header(HeaderSel::Member(Box::new(sel), index), header),
        })
    }
}

/// A number as a word; beyond 64 bits, where only "too large" matters, all
/// ones.
pub(crate) fn word(t: &Typed) -> Num<u64> {
    if t.range.bits <= 64 {
        return t.num();
    }
    Num::Saturated(Box::new(t.value()))
}

fn not(cond: Cond) -> Cond {
    match cond {
        Cond::Not(inner) => *inner,
        Cond::Const(b) => Cond::Const(!b),
        Cond::FieldIs(loc, c) => Cond::FieldIsNot(loc, c),
        Cond::FieldIsNot(loc, c) => Cond::FieldIs(loc, c),
        Cond::FieldSet(loc) => Cond::FieldClear(loc),
        Cond::FieldClear(loc) => Cond::FieldSet(loc),
        Cond::Valid(h) => Cond::Invalid(h),
        Cond::Invalid(h) => Cond::Valid(h),
        other => Cond::Not(Box::new(other)),
    }
}

fn dynamic(place: FieldPlace, like: Field) -> Typed {
    Typed {
        node: Node::Dynamic(place),
        range: Range {
            signed: like.signed,
            bits: like.width,
        },
    }
}
