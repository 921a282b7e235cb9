//! Names, numbers and matches as tests and entries files write them.

use num_bigint::BigInt;

use super::parse::{Match, Number};
use crate::control::{FieldMatch, Value};
use crate::program::{KeyFieldInfo, MatchKind};

/// Ports are `bit<9>` in v1model.
const PORTS: u16 = 512;

/// Names that a message lists at most.
const LISTED: usize = 8;

/// The position of a name among those of a kind of object. It may be given by
/// its end; whole components count for more than a part of one.
pub(super) fn pick<'n>(
    kind: &str,
    names: impl Iterator<Item = &'n str> + Clone,
    wanted: &str,
) -> Result<usize, String> {
    if let Some(i) = names.clone().position(|n| n == wanted) {
        return Ok(i);
    }
    let component = format!(".{wanted}");
    for end in [component.as_str(), wanted] {
        let mut ends = names.clone().enumerate().filter(|(_, n)| n.ends_with(end));
        let Some((position, first)) = ends.next().filter(|_| !wanted.is_empty()) else {
            continue;
        };
        // Copies of one action are one action.
        let Some((_, other)) = ends.find(|(_, n)| *n != first) else {
            return Ok(position);
        };
        return Err(format!(
            "{wanted:?} may be the {kind} {first} or {other}: write more of the name"
        ));
    }
    // Tables that the compiler made of statements are nobody's to name.
    let mut list: Vec<&str> = names.filter(|n| !n.starts_with("tbl_")).collect();
    list.dedup();
    let more = if list.len() > LISTED { "…" } else { "" };
    list.truncate(LISTED);
    let there = match list.len() {
        0 => "there is none at all".to_owned(),
        1 => format!("there is {}", list.concat()),
        _ => format!("there are {}{more}", list.join(", ")),
    };
    Err(format!("no {kind} is named {wanted:?}; {there}"))
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
        .ok_or_else(|| format!("{text:?} is too large"))
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    small(text)
        .ok()
        .filter(|port| *port < PORTS)
        .ok_or_else(|| {
            format!(
                "{text:?} is not a port: ports are 0 to {}",
                PORTS.saturating_sub(1)
            )
        })
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

/// A value that its field has room for.
pub(super) fn fitting(f: &KeyFieldInfo, n: BigInt) -> Result<BigInt, String> {
    if n.bits() > u64::from(f.width) {
        return Err(format!(
            "{n:#x} does not fit the {} bits of {}",
            f.width, f.name
        ));
    }
    Ok(n)
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
            let value = fitting(f, value)?;
            FieldMatch::Ternary {
                value: bytes_of(&(value & &mask))?,
                mask: bytes_of(&mask)?,
            }
        }
        (MatchKind::Ternary, Match::Masked(n, m)) => ternary(f, number(n)?, number(m)?)?,
        (MatchKind::Lpm, Match::Prefix(n, len)) => prefix(f, number(n)?, *len)?,
        (MatchKind::Lpm, Match::Number(n)) => {
            let (value, len) = match digits(n)? {
                (_, 10, _) => (number(n)?, f.width),
                _ => masked(n).map(|(value, _, len)| (value, len.min(f.width)))?,
            };
            prefix(f, value, len)?
        }
        (MatchKind::Range, _) => {
            return Err(format!(
                "STF has no ranges, as the field {} needs one: use table_add with LOW->HIGH",
                f.name
            ));
        }
        (kind, _) => {
            return Err(format!(
                "the match does not fit the {kind} field {}",
                f.name
            ));
        }
    })
}

pub(super) fn ternary(f: &KeyFieldInfo, value: BigInt, mask: BigInt) -> Result<FieldMatch, String> {
    let (value, mask) = (fitting(f, value)?, fitting(f, mask)?);
    Ok(FieldMatch::Ternary {
        value: bytes_of(&(value & &mask))?,
        mask: bytes_of(&mask)?,
    })
}

/// Bits beyond the prefix do not matter.
pub(super) fn prefix(f: &KeyFieldInfo, value: BigInt, len: u32) -> Result<FieldMatch, String> {
    let Some(host) = f.width.checked_sub(len) else {
        return Err(format!(
            "a prefix of {len} bits is longer than {}, which has {}",
            f.name, f.width
        ));
    };
    let value = (fitting(f, value)? >> host) << host;
    Ok(FieldMatch::Lpm {
        value: bytes_of(&value)?,
        prefix_len: len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_component_counts_for_more_than_a_part() {
        let pick = |names: &[&'static str], wanted: &str| {
            super::pick("counter", names.iter().copied(), wanted)
        };
        assert_eq!(pick(&["I.dcnt", "I.cnt"], "cnt"), Ok(1));
        assert_eq!(pick(&["I.dcnt", "I.cnt"], "I.cnt"), Ok(1));
        assert_eq!(pick(&["I.dcnt", "I.other"], "cnt"), Ok(0));
        assert_eq!(pick(&["I.a.cnt", "cnt"], "cnt"), Ok(1));
        assert_eq!(pick(&["I.act", "I.act"], "act"), Ok(0));
        assert_eq!(
            pick(&["I.dcnt", "I.cnt", "E.cnt"], "cnt").unwrap_err(),
            "\"cnt\" may be the counter I.cnt or E.cnt: write more of the name"
        );
        assert_eq!(
            pick(&["I.dcnt", "I.cnt"], "x").unwrap_err(),
            "no counter is named \"x\"; there are I.dcnt, I.cnt"
        );
        assert_eq!(
            pick(&["I.cnt"], "").unwrap_err(),
            "no counter is named \"\"; there is I.cnt"
        );
        assert_eq!(
            pick(&[], "x").unwrap_err(),
            "no counter is named \"x\"; there is none at all"
        );
        assert_eq!(
            pick(&["tbl_p4l20", "I.t"], "x").unwrap_err(),
            "no counter is named \"x\"; there is I.t"
        );
        let many = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"];
        assert_eq!(
            pick(&many, "b").unwrap_err(),
            "no counter is named \"b\"; there are a1, a2, a3, a4, a5, a6, a7, a8…"
        );
    }

    fn field(kind: MatchKind, width: u32) -> KeyFieldInfo {
        KeyFieldInfo {
            name: "h.f".into(),
            kind,
            width,
        }
    }

    fn number(text: &str) -> Number {
        Number(text.into())
    }

    #[test]
    fn ternary_values_must_fit() {
        let f = field(MatchKind::Ternary, 9);
        let read = |m: Match| field_match(&f, &m);
        let ternary = |value: &[u8], mask: &[u8]| {
            Ok(FieldMatch::Ternary {
                value: Value::from_slice(value),
                mask: Value::from_slice(mask),
            })
        };
        // Digits left open may reach beyond the field.
        let open = read(Match::Number(number("0x*1*")));
        assert_eq!(open, ternary(&[0x10], &[0xf0]));
        let open = read(Match::Number(number("0x1**")));
        assert_eq!(open, ternary(&[1, 0], &[1, 0]));
        let whole = read(Match::Number(number("511")));
        assert_eq!(whole, ternary(&[1, 0xff], &[1, 0xff]));
        for wide in ["0x2**", "0x201", "512", "0b1000000000"] {
            assert_eq!(
                read(Match::Number(number(wide))).unwrap_err(),
                if wide == "0x201" {
                    "0x201 does not fit the 9 bits of h.f"
                } else {
                    "0x200 does not fit the 9 bits of h.f"
                }
            );
        }
        let masked = |value, mask| read(Match::Masked(number(value), number(mask)));
        assert_eq!(masked("0x1ff", "0x100"), ternary(&[1, 0], &[1, 0]));
        for (value, mask) in [("0x201", "0x1ff"), ("1", "0x201")] {
            assert_eq!(
                masked(value, mask).unwrap_err(),
                "0x201 does not fit the 9 bits of h.f"
            );
        }
    }

    #[test]
    fn prefixes_must_fit() {
        let f = field(MatchKind::Lpm, 9);
        let read = |m: Match| field_match(&f, &m);
        let lpm = |value: &[u8], prefix_len| {
            Ok(FieldMatch::Lpm {
                value: Value::from_slice(value),
                prefix_len,
            })
        };
        assert_eq!(read(Match::Prefix(number("3"), 9)), lpm(&[3], 9));
        assert_eq!(read(Match::Prefix(number("3"), 8)), lpm(&[2], 8));
        assert_eq!(
            read(Match::Prefix(number("3"), 10)).unwrap_err(),
            "a prefix of 10 bits is longer than h.f, which has 9"
        );
        assert_eq!(
            read(Match::Prefix(number("0x200"), 9)).unwrap_err(),
            "0x200 does not fit the 9 bits of h.f"
        );
        // Without a length it is that of the digits given, in any base.
        assert_eq!(read(Match::Number(number("0x101"))), lpm(&[1, 1], 9));
        assert_eq!(read(Match::Number(number("0X1*"))), lpm(&[0], 4));
        assert_eq!(read(Match::Number(number("0o4**"))), lpm(&[1, 0], 3));
        assert_eq!(read(Match::Number(number("257"))), lpm(&[1, 1], 9));
    }
}
