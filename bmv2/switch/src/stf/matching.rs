//! Names, numbers and matches as tests and entries files write them.

use num_bigint::BigInt;

use super::parse::{Match, Number};
use crate::control::{FieldMatch, Value};
use crate::program::{KeyFieldInfo, MatchKind};

/// The position of a name, or of the only name that ends with it.
pub(super) fn pick<'n>(
    names: impl Iterator<Item = &'n str> + Clone,
    wanted: &str,
) -> Option<usize> {
    if let Some(i) = names.clone().position(|n| n == wanted) {
        return Some(i);
    }
    let mut ends = names.enumerate().filter(|(_, n)| n.ends_with(wanted));
    let first = ends.next()?;
    // Copies of one action are one action.
    ends.all(|(_, n)| n == first.1).then_some(first.0)
}

/// A key field by one of the ways in which tests name it.
pub(super) fn field_index(key: &[KeyFieldInfo], name: &str) -> Option<usize> {
    let name = bracketed(name);
    let position = |test: &dyn Fn(&str) -> bool| key.iter().position(|f| test(&f.name));
    let valid = name.strip_suffix(".valid").map(|n| format!("{n}.$valid$"));
    position(&|n| n == name)
        .or_else(|| position(&|n| n == format!("{name}$")))
        .or_else(|| position(&|n| n == format!("{name}.$valid$")))
        .or_else(|| position(&|n| Some(n) == valid.as_deref()))
        .or_else(|| {
            // p4c's driver takes the last of several.
            key.iter().rposition(|f| {
                f.name.ends_with(&format!(".{name}"))
                    || f.name.ends_with(&format!(".{name}$"))
                    || valid
                        .as_ref()
                        .is_some_and(|v| f.name.ends_with(&format!(".{v}")))
                    || (name == "valid" && f.name.ends_with("$valid$"))
            })
        })
}

/// `a$0.b` as `a[0].b`.
pub(super) fn bracketed(name: &str) -> String {
    let Some((head, tail)) = name.split_once('$') else {
        return name.to_owned();
    };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return name.to_owned();
    }
    let (index, rest) = tail.split_at(digits);
    format!("{head}[{index}]{rest}")
}

pub(super) fn small<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let n = number(&Number(text.to_owned()))?;
    u64::try_from(n)
        .ok()
        .and_then(|n| T::try_from(n).ok())
        .ok_or_else(|| format!("{text:?} is out of range"))
}

/// Digits and base of a number.
pub(super) fn digits(n: &Number) -> Result<(&str, u32, u32), String> {
    let text = n.0.as_str();
    let (digits, base, bits) = match text.get(..2) {
        Some("0x" | "0X") => (text.get(2..).unwrap_or(""), 16, 4),
        Some("0b" | "0B") => (text.get(2..).unwrap_or(""), 2, 1),
        Some("0o" | "0O") => (text.get(2..).unwrap_or(""), 8, 3),
        _ => (text, 10, 0),
    };
    let fine = !digits.is_empty() && digits.chars().all(|c| c == '*' || c.is_digit(base));
    if fine {
        Ok((digits, base, bits))
    } else {
        Err(format!("{text:?} is not a number"))
    }
}

/// A number without `*`.
pub(super) fn number(n: &Number) -> Result<BigInt, String> {
    let (text, base, _) = digits(n)?;
    BigInt::parse_bytes(text.as_bytes(), base).ok_or_else(|| format!("{:?} is not a number", n.0))
}

pub(super) fn bytes_of(n: &BigInt) -> Result<Value, String> {
    Ok(Value::from_vec(n.to_bytes_be().1))
}

/// A number with `*`: its value, a mask with ones for the digits given, and
/// the bits of all digits but the `*`.
pub(super) fn masked(n: &Number) -> Result<(BigInt, BigInt, u32), String> {
    let (text, base, bits) = digits(n)?;
    if base == 10 {
        return Err(format!("{:?}: a decimal number has no mask", n.0));
    }
    let all = char::from_digit(base - 1, base).unwrap_or('1');
    let value: String = text.replace('*', "0");
    let mask: String = text
        .chars()
        .map(|c| if c == '*' { '0' } else { all })
        .collect();
    let given = text.chars().filter(|c| *c != '*').count();
    let read = |t: &str| BigInt::parse_bytes(t.as_bytes(), base).unwrap_or_default();
    Ok((
        read(&value),
        read(&mask),
        u32::try_from(given)
            .unwrap_or(u32::MAX)
            .saturating_mul(bits),
    ))
}

pub(super) fn field_match(f: &KeyFieldInfo, m: &Match) -> Result<FieldMatch, String> {
    let ones = |len: u32| (BigInt::from(1) << len.min(f.width)) - 1;
    Ok(match (f.kind, m) {
        (MatchKind::Exact, Match::Number(n)) => FieldMatch::Exact(bytes_of(&number(n)?)?),
        (MatchKind::Ternary, Match::Number(n)) => {
            let (value, mask, _) = match digits(n)? {
                // A decimal number says nothing of digits left out.
                (_, 10, _) => (number(n)?, ones(f.width), f.width),
                _ => masked(n)?,
            };
            // A driver that knows no widths gives masks of whole digits.
            let mask = mask & ones(f.width);
            FieldMatch::Ternary {
                value: bytes_of(&(value & &mask))?,
                mask: bytes_of(&mask)?,
            }
        }
        (MatchKind::Ternary, Match::Masked(n, m)) => {
            let (value, mask) = (number(n)?, number(m)? & ones(f.width));
            FieldMatch::Ternary {
                value: bytes_of(&(value & &mask))?,
                mask: bytes_of(&mask)?,
            }
        }
        (MatchKind::Lpm, Match::Prefix(n, len)) => prefix(f, number(n)?, *len)?,
        (MatchKind::Lpm, Match::Number(n)) if !n.0.starts_with("0x") && !n.0.starts_with("0b") => {
            prefix(f, number(n)?, f.width)?
        }
        (MatchKind::Lpm, Match::Number(n)) => {
            let (value, _, len) = masked(n)?;
            prefix(f, value, len)?
        }
        (kind, _) => {
            return Err(format!(
                "the match does not fit the {kind} field {}",
                f.name
            ));
        }
    })
}

pub(super) fn prefix(f: &KeyFieldInfo, value: BigInt, len: u32) -> Result<FieldMatch, String> {
    // bmv2 counts from the field's left end padded to whole bytes.
    let padding = f.width.div_ceil(8) * 8 - f.width;
    let len = len.min(f.width + padding).saturating_sub(0).min(f.width);
    let host = f.width - len;
    let value = (value >> host) << host;
    Ok(FieldMatch::Lpm {
        value: bytes_of(&value)?,
        prefix_len: len,
    })
}
