//! Matches and numbers as bmv2's shell writes them, one after the other.

use num_bigint::BigInt;

use super::matching::{bytes_of, number, prefix, small, ternary};
use super::parse::Number;
use crate::control::FieldMatch;
use crate::program::{KeyFieldInfo, MatchKind};

pub(super) fn split_at_arrow(words: &[String]) -> Result<(&[String], &[String]), String> {
    let arrow = words
        .iter()
        .position(|w| w == "=>")
        .ok_or("the => between matches and parameters is missing")?;
    Ok((
        words.get(..arrow).unwrap_or(&[]),
        words.get(arrow + 1..).unwrap_or(&[]),
    ))
}

/// A number, or an address where the width is that of one.
pub(super) fn shell_number(text: &str, width: u32) -> Result<BigInt, String> {
    let bytes = match width {
        32 if text.contains('.') => text
            .parse::<std::net::Ipv4Addr>()
            .map(|a| a.octets().to_vec())
            .map_err(|_| format!("{text:?} is not an IPv4 address"))?,
        48 if text.contains(':') => {
            mac(text).ok_or_else(|| format!("{text:?} is not a MAC address"))?
        }
        128 if text.contains(':') => text
            .parse::<std::net::Ipv6Addr>()
            .map(|a| a.octets().to_vec())
            .map_err(|_| format!("{text:?} is not an IPv6 address"))?,
        _ => return number(&Number(text.to_owned())),
    };
    Ok(BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes))
}

fn mac(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| {
            (part.len() <= 2)
                .then(|| u8::from_str_radix(part, 16).ok())
                .flatten()
        })
        .collect();
    bytes.filter(|bytes| bytes.len() == 6)
}

pub(super) fn shell_match(f: &KeyFieldInfo, text: &str) -> Result<FieldMatch, String> {
    let pair = |separator: &str, form: &str| {
        text.split_once(separator)
            .ok_or_else(|| format!("{text:?}: write the {} field {} as {form}", f.kind, f.name))
    };
    Ok(match f.kind {
        MatchKind::Exact => FieldMatch::Exact(bytes_of(&match text {
            "true" | "True" => BigInt::from(1),
            "false" | "False" => BigInt::from(0),
            _ => shell_number(text, f.width)?,
        })?),
        MatchKind::Lpm => {
            let (value, len) = pair("/", "VALUE/LENGTH")?;
            prefix(f, shell_number(value, f.width)?, small(len)?)?
        }
        MatchKind::Ternary => {
            let (value, mask) = pair("&&&", "VALUE&&&MASK")?;
            let (value, mask) = (shell_number(value, f.width)?, shell_number(mask, f.width)?);
            let any = mask == BigInt::ZERO;
            let found = ternary(f, value, mask)?;
            if any { FieldMatch::Any } else { found }
        }
        MatchKind::Range => {
            let (low, high) = pair("->", "LOW->HIGH")?;
            FieldMatch::Range {
                low: bytes_of(&shell_number(low, f.width)?)?,
                high: bytes_of(&shell_number(high, f.width)?)?,
            }
        }
    })
}
