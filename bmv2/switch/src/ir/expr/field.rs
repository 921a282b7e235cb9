//! Fields of any width as numbers.

use num_bigint::BigInt;

use super::{Word, wrap};
use crate::exec::State;
use crate::ir::bits;
use crate::ir::{Field, FieldKind};

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
