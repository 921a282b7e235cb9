//! Hash and checksum inputs.

use super::symbols::{Symbols, hex_number, invalid, limit, number_bytes, unsupported};
use crate::calc::Algorithm;
use crate::ir::expr::wrap;
use crate::ir::{Calc, CalcInput, FieldKind};
use crate::load::Operand;
use crate::program::LoadError;

/// Most inputs of one calculation.
const MAX_INPUTS: u64 = 1 << 14;

/// One calculation. Neighbouring fields of a header become one input.
pub(crate) fn calculation(
    symbols: &Symbols,
    place: &str,
    algorithm: &str,
    input: &[Operand],
) -> Result<Calc, LoadError> {
    let Some(algorithm) = Algorithm::by_name(algorithm) else {
        return unsupported(place, format!("the hash algorithm {algorithm:?}"));
    };
    limit(
        place,
        "the number of its inputs",
        input.len() as u64,
        MAX_INPUTS,
    )?;
    let mut inputs: Vec<CalcInput> = Vec::new();
    let mut payload = false;
    for (i, o) in input.iter().enumerate() {
        let place = format!("{place} input {i}");
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
