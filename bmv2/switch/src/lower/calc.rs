//! Hash and checksum inputs.

use serde_json::Value as Json;

use super::expr::{Expr, Scope};
use super::symbols::{Symbols, hex_number, invalid, limit, number_bytes, unsupported};
use super::typed::Typed;
use crate::calc::Algorithm;
use crate::ir::expr::wrap;
use crate::ir::{Calc, CalcInput, FieldKind};
use crate::load::Operand;
use crate::program::LoadError;

/// Widest input that is computed, in bits.
const MAX_COMPUTED: u32 = 1 << 14;

/// Most inputs of one calculation.
const MAX_INPUTS: u64 = 1 << 14;

/// One calculation. Neighbouring fields of a header become one input.
pub(crate) fn calculation(
    symbols: &Symbols,
    place: &str,
    algorithm: &str,
    input: &[Json],
) -> Result<Calc, LoadError> {
    let Some(algorithm) = Algorithm::by_name(algorithm) else {
        return unsupported(place, format!("the hash algorithm {algorithm:?}"));
    };
    let mut flat = Vec::new();
    flatten(input, &mut flat);
    let input = flat;
    limit(
        place,
        "the number of its inputs",
        input.len() as u64,
        MAX_INPUTS,
    )?;
    let mut inputs: Vec<CalcInput> = Vec::new();
    let mut payload = false;
    for (i, json) in input.iter().enumerate() {
        let place = format!("{place} input {i}");
        let o: Operand = match serde_json::from_value((*json).clone()) {
            Ok(o) => o,
            Err(e) => return invalid(place, e.to_string()),
        };
        let next = match o.kind.as_str() {
            "field" => {
                let f = symbols.field_pair(&place, &o.value)?;
                match f.kind {
                    FieldKind::Varbit => CalcInput::Varbit(f.header),
                    FieldKind::Valid => CalcInput::Valid(f.header),
                    FieldKind::Plain => CalcInput::Bits {
                        header: f.header,
                        bit: f.bit,
                        width: f.width,
                    },
                }
            }
            "hexstr" => {
                let value = hex_number(&place, o.value.as_str().unwrap_or(""))?;
                let Some(width) = o.bitwidth.filter(|w| (1..=1 << 14).contains(w)) else {
                    return invalid(place, "a constant needs a bitwidth");
                };
                let low = wrap(value, width, false);
                CalcInput::Constant {
                    pieces: number_bytes(&low, width.div_ceil(8) as usize).unwrap_or_default(),
                    width,
                }
            }
            "header" => CalcInput::Header(symbols.header(&place, o.value.as_str().unwrap_or(""))?),
            "payload" => {
                payload = true;
                continue;
            }
            "expression" => computed(symbols, &place, &o)?,
            other => return unsupported(place, format!("an input of type {other:?}")),
        };
        if let (
            Some(CalcInput::Bits { header, bit, width }),
            CalcInput::Bits {
                header: h,
                bit: b,
                width: w,
            },
        ) = (inputs.last_mut(), &next)
            && header == h
            && *bit + *width == *b
        {
            *width += w;
            continue;
        }
        inputs.push(next);
    }
    Ok(Calc {
        algorithm,
        inputs,
        payload,
    })
}

/// The operands of a list that may have lists in it.
fn flatten<'a>(list: &'a [Json], to: &mut Vec<&'a Json>) {
    for item in list {
        match item.as_array() {
            Some(inner) => flatten(inner, to),
            None => to.push(item),
        }
    }
}

/// An input that is computed: p4c leaves a `bool` a truth value, and a masked
/// selector field an operation.
fn computed(symbols: &Symbols, place: &str, o: &Operand) -> Result<CalcInput, LoadError> {
    let scope = Scope {
        symbols,
        params: &[],
        place,
    };
    let (number, width) = match scope.operand(&o.kind, &o.value)? {
        Expr::Bool(c) => (Typed::from_bool(c), 1),
        Expr::Num(t) => {
            let width = declared_width(symbols, place, &o.kind, &o.value);
            let width = width.unwrap_or(t.range.bits);
            (t, width)
        }
        _ => return invalid(place, "it must be a number"),
    };
    if !(1..=MAX_COMPUTED).contains(&width) {
        return unsupported(place, format!("an input of {width} bits"));
    }
    Ok(CalcInput::Number {
        value: number.value(),
        width,
    })
}

/// The width of an expression's type in P4: that of its fields.
fn declared_width(symbols: &Symbols, place: &str, kind: &str, value: &Json) -> Option<u32> {
    let of = |operand: Option<&Json>| {
        let operand = operand?;
        let kind = operand.get("type").and_then(Json::as_str).unwrap_or("");
        declared_width(symbols, place, kind, operand.get("value")?)
    };
    match kind {
        "field" => Some(symbols.field_pair(place, value).ok()?.width),
        "expression" if value.get("type").is_some() => of(Some(value)),
        "expression" => match value.get("op").and_then(Json::as_str)? {
            "b2d" => Some(1),
            "<<" | ">>" => of(value.get("left")),
            _ => of(value.get("left")).max(of(value.get("right"))),
        },
        _ => None,
    }
}
