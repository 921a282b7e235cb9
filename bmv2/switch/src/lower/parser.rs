//! The parser's states and the deparser's order.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::action::{Actions, set};
use super::direct;
use super::expr::{Scope, word};
use super::select::MAX_KEY;
use super::symbols::{Symbols, hex_number, invalid, limit, pair, unsupported};
use super::typed::Typed;
use crate::ir::expr::{FieldPlace, Num};
use crate::ir::{
    Deparser, END, Emitted, FieldKind, Lookahead, Order, ParseState, Parser, ParserOp,
};
use crate::load::{self, Document, Operand, Primitive};
use crate::program::LoadError;

/// Most parser states, and most operations of one.
const MAX_STATES: u64 = 1 << 14;

/// Lowers the parser.
pub(crate) struct Parsers<'a, 'b> {
    pub(crate) actions: &'b mut Actions<'a>,
    pub(crate) vset_by_name: &'b HashMap<String, u32>,
    /// The widths of each value set's fields: those of the keys that are compared
    /// with it.
    pub(crate) vset_widths: Vec<Vec<u32>>,
}

impl Parsers<'_, '_> {
    /// The parser named "parser", or the only one.
    pub(crate) fn parser(&mut self, doc: &Document) -> Result<Parser, LoadError> {
        let Some(p) = doc
            .parsers
            .iter()
            .find(|p| p.name == "parser")
            .or(doc.parsers.first())
        else {
            return invalid("parsers", "the program has no parser");
        };
        limit(
            "the parser",
            "the number of its states",
            p.parse_states.len() as u64,
            MAX_STATES,
        )?;
        let mut by_name = HashMap::new();
        for (i, s) in p.parse_states.iter().enumerate() {
            let i = u32::try_from(i).unwrap_or(END);
            if by_name.insert(s.name.as_str(), i).is_some() {
                return invalid(
                    format!("parser state {:?}", s.name),
                    "there are two of this name",
                );
            }
        }
        let start = match p.init_state.as_deref() {
            Some(name) => match by_name.get(name) {
                Some(&s) => s,
                None => return invalid("the parser", format!("there is no state {name:?}")),
            },
            None => END,
        };
        let states = p
            .parse_states
            .iter()
            .map(|s| self.state(s, &by_name))
            .collect::<Result<_, _>>()?;
        Ok(Parser { start, states })
    }

    fn state(
        &mut self,
        s: &load::ParseState,
        by_name: &HashMap<&str, u32>,
    ) -> Result<ParseState, LoadError> {
        let place = format!("parser state {:?}", s.name);
        limit(
            &place,
            "the number of its operations",
            s.parser_ops.len() as u64,
            MAX_STATES,
        )?;
        let mut ops = Vec::with_capacity(s.parser_ops.len());
        for (i, op) in s.parser_ops.iter().enumerate() {
            let at = format!("{place} operation {i} ({})", op.op);
            let op = self.op(&at, op)?;
            ops.push(direct::operation(op, &self.actions.symbols.headers));
        }
        let select = direct::select(self.select(&place, s, by_name)?);
        Ok(ParseState {
            name: s.name.clone(),
            ops,
            select,
        })
    }

    fn op(&mut self, place: &str, op: &load::ParserOp) -> Result<ParserOp, LoadError> {
        let symbols = self.actions.symbols;
        let scope = Scope {
            symbols,
            params: &[],
            place,
        };
        let wanted = match op.op.as_str() {
            "extract" | "shift" | "advance" | "primitive" => 1,
            _ => 2,
        };
        if op.parameters.len() != wanted {
            return invalid(
                place,
                format!("it takes {wanted} parameters, not {}", op.parameters.len()),
            );
        }
        let null = Json::Null;
        let first = op.parameters.first().unwrap_or(&null);
        let second = op.parameters.get(1).unwrap_or(&null);
        Ok(match op.op.as_str() {
            "extract" => self.extract(place, first, None)?,
            "extract_VL" => {
                let length = word(&scope.num(second)?);
                self.extract(place, first, Some(length))?
            }
            "set" => set_op(&scope, first, second)?,
            "verify" => {
                let error = match second.as_u64() {
                    Some(code) => Num::Const(code),
                    None => word(&scope.num(second)?),
                };
                ParserOp::Verify(scope.cond(first)?, error)
            }
            "shift" => match first.as_u64() {
                Some(bytes) => ParserOp::Advance(Num::Const(bytes.saturating_mul(8))),
                None => return invalid(place, "the number of bytes is not a number"),
            },
            "advance" => ParserOp::Advance(word(&scope.num(first)?)),
            "primitive" => {
                let p: Primitive = match serde_json::from_value(first.clone()) {
                    Ok(p) => p,
                    Err(e) => return invalid(place, e.to_string()),
                };
                // It stands alone: a jump can only go to itself or beyond.
                ParserOp::Primitive(Box::new(self.actions.primitive(place, &[], &p, 1)?))
            }
            other => return unsupported(place, format!("the parser operation {other:?}")),
        })
    }

    fn extract(
        &self,
        place: &str,
        what: &Json,
        length: Option<Num<u64>>,
    ) -> Result<ParserOp, LoadError> {
        let symbols = self.actions.symbols;
        let o: Operand = match serde_json::from_value(what.clone()) {
            Ok(o) => o,
            Err(e) => return invalid(place, e.to_string()),
        };
        let name = || match o.value.as_str() {
            Some(n) => Ok(n),
            None => invalid(place, "expected a name"),
        };
        let (op, header) = match o.kind.as_str() {
            "regular" => {
                let h = symbols.header(place, name()?)?;
                let op = match length {
                    None => ParserOp::Extract(h),
                    Some(n) => ParserOp::ExtractVar(h, n),
                };
                (op, Some(h))
            }
            "stack" => {
                let s = symbols.stack(place, name()?)?;
                let first = symbols
                    .stacks
                    .get(usize::from(s))
                    .and_then(|s| s.headers.first());
                let op = match length {
                    None => ParserOp::ExtractStack(s),
                    Some(n) => ParserOp::ExtractVarStack(s, n),
                };
                (op, first.copied())
            }
            "union_stack" => {
                let (stack, member) = pair(place, &o.value)?;
                let s = symbols.union_stack(place, stack)?;
                let m = symbols.union_stack_member(place, s, member)?;
                let h = symbols.union_stack_header(place, s, m)?;
                let op = match length {
                    None => ParserOp::ExtractUnionStack(s, m),
                    Some(n) => ParserOp::ExtractVarUnionStack(s, m, n),
                };
                (op, Some(h))
            }
            other => return unsupported(place, format!("extracting to a {other:?}")),
        };
        let header = header.and_then(|h| symbols.headers.get(usize::from(h)));
        let variable = matches!(
            op,
            ParserOp::ExtractVar(..)
                | ParserOp::ExtractVarStack(..)
                | ParserOp::ExtractVarUnionStack(..)
        );
        if header.is_some_and(|h| h.varbit.is_some() != variable) {
            return invalid(
                place,
                "extract is for headers without a varbit, extract_VL for those with one",
            );
        }
        if header.is_some_and(|h| h.metadata && h.size != h.fixed) {
            return unsupported(place, "extracting to metadata");
        }
        Ok(op)
    }
}

pub(super) fn lookahead(place: &str, value: &Json) -> Result<Lookahead, LoadError> {
    let number = |i: usize| {
        value
            .as_array()
            .and_then(|a| a.get(i))
            .and_then(Json::as_u64)
            .filter(|&n| n <= MAX_KEY * 8)
            .and_then(|n| u32::try_from(n).ok())
    };
    match (number(0), number(1)) {
        (Some(bit), Some(width)) if width > 0 => Ok(Lookahead { bit, width }),
        _ => invalid(place, "a lookahead needs a bit offset and a width"),
    }
}

fn set_op(scope: &Scope<'_>, to: &Json, from: &Json) -> Result<ParserOp, LoadError> {
    let kind = |j: &Json| {
        j.get("type")
            .and_then(Json::as_str)
            .unwrap_or("")
            .to_owned()
    };
    let value = |j: &Json| j.get("value").cloned().unwrap_or(Json::Null);
    let varbit = |operand: &Json| -> Option<crate::ir::HeaderId> {
        let value = value(operand);
        match kind(operand).as_str() {
            "header" => scope.symbols.metadata_varbit(value.as_str()?),
            "field" => scope
                .symbols
                .field_pair(scope.place, &value)
                .ok()
                .filter(|f| f.kind == FieldKind::Varbit)
                .map(|f| f.header),
            _ => None,
        }
    };
    if let (Some(to), Some(from)) = (varbit(to), varbit(from)) {
        let copy = crate::ir::Prim::AssignVar(to, from);
        return Ok(ParserOp::Primitive(Box::new(copy)));
    }
    if kind(to) != "field" {
        return unsupported(scope.place, "setting something that is not a field");
    }
    let field = scope.symbols.field_pair(scope.place, &value(to))?;
    if field.kind == FieldKind::Varbit {
        return unsupported(scope.place, "setting a varbit from a number");
    }
    if field.kind == FieldKind::Valid {
        return invalid(scope.place, "validity cannot be set");
    }
    if kind(from) == "lookahead" {
        return Ok(ParserOp::SetLookahead(
            field,
            lookahead(scope.place, &value(from))?,
        ));
    }
    let source = match kind(from).as_str() {
        "hexstr" => {
            let text = value(from);
            let text = text.as_str().unwrap_or("");
            Typed::constant(hex_number(scope.place, text)?)
        }
        _ => scope.num(from)?,
    };
    Ok(ParserOp::Primitive(Box::new(set(
        FieldPlace::Fixed(field),
        &source,
    ))))
}

/// The deparser named "deparser", or the only one.
pub(crate) fn deparser(doc: &Document, actions: &mut Actions<'_>) -> Result<Deparser, LoadError> {
    let Some(d) = doc
        .deparsers
        .iter()
        .find(|d| d.name == "deparser")
        .or(doc.deparsers.first())
    else {
        return invalid("deparsers", "the program has no deparser");
    };
    let place = "the deparser";
    let order = d
        .order
        .iter()
        .map(|name| emitted(place, name, actions.symbols))
        .collect::<Result<Vec<_>, _>>()?;
    let order = ordered(order, actions.symbols.headers.len());
    let body = actions.body(place, &[], &d.primitives)?;
    Ok(Deparser { order, body })
}

/// The deparser's order of so many headers.
fn ordered(order: Vec<Emitted>, headers: usize) -> Order {
    if !order.is_sorted_by(|a, b| a.header < b.header) {
        return Order::Any(order);
    }
    let mut by_header = vec![None; headers];
    for e in order {
        if let Some(place) = by_header.get_mut(usize::from(e.header)) {
            *place = Some(e);
        }
    }
    Order::Sorted(by_header)
}

/// A header in the deparser's order.
fn emitted(place: &str, name: &str, symbols: &Symbols) -> Result<Emitted, LoadError> {
    let id = symbols.header(place, name)?;
    let Some(header) = symbols.headers.get(usize::from(id)) else {
        return invalid(place, format!("there is no header {name:?}"));
    };
    Ok(Emitted {
        header: id,
        variable: header.varbit.is_some(),
        from: header.offset,
        to: header.offset + header.fixed,
    })
}

/// An error's number, for the parser's own errors.
pub(crate) fn error_code(doc: &Document, name: &str, fallback: u32) -> u32 {
    doc.errors
        .iter()
        .find(|(n, _)| n == name)
        .map_or(fallback, |&(_, code)| code)
}
