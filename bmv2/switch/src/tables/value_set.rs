//! Members of the parser's value sets, laid out as the keys of its `select`s
//! are: each field in words of its own, the most significant first.

use crate::control::{FieldMatch, TableError};
use crate::ir::bits::mask64;

use super::key::{check_width, chunk};

/// What a key must be to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Value and mask by word; all of a field with bounds has the mask 0.
    words: Vec<(u64, u64)>,
    bounds: Vec<Bounds>,
}

/// The numbers that a field may be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bounds {
    /// The field's first word.
    at: usize,
    low: Vec<u64>,
    high: Vec<u64>,
}

impl Member {
    /// A member of a set whose fields have these widths in bits.
    ///
    /// # Errors
    /// With the number of the field whose value is too wide or says nothing
    /// sensible.
    pub(crate) fn new(
        set: &str,
        widths: &[u32],
        fields: &[FieldMatch],
    ) -> Result<Self, TableError> {
        let place = format!("value set {set}");
        if fields.len() != widths.len() {
            let what = format!("a member has {} fields, not {}", widths.len(), fields.len());
            return Err(TableError::Invalid { place, what });
        }
        let mut member = Self {
            words: Vec::new(),
            bounds: Vec::new(),
        };
        for (i, (field, &width)) in fields.iter().zip(widths).enumerate() {
            member
                .add(&place, &format!("field {i}"), width, field)
                .map_err(|what| match what {
                    Refusal::TooWide(error) => error,
                    Refusal::Invalid(what) => TableError::Invalid {
                        place: format!("{place}, field {i}"),
                        what: what.into(),
                    },
                })?;
        }
        Ok(member)
    }

    fn add(
        &mut self,
        place: &str,
        name: &str,
        width: u32,
        field: &FieldMatch,
    ) -> Result<(), Refusal> {
        let ones = by_word(width, |_, w| mask64(w));
        let digits = |value: &[u8]| {
            check_width(place, name, width, value).map_err(Refusal::TooWide)?;
            Ok(by_word(width, |right, w| chunk(value, right, w)))
        };
        let (value, mask) = match field {
            FieldMatch::Any => (vec![0; ones.len()], vec![0; ones.len()]),
            FieldMatch::Exact(value) => (digits(value)?, ones),
            FieldMatch::Ternary { value, mask } => (digits(value)?, digits(mask)?),
            FieldMatch::Lpm { value, prefix_len } => {
                let Some(host) = width.checked_sub(*prefix_len) else {
                    return Err(Refusal::Invalid("the prefix is longer than the field"));
                };
                let mask = by_word(width, |right, w| {
                    mask64(w) & !mask64(host.saturating_sub(right).min(w))
                });
                (digits(value)?, mask)
            }
            FieldMatch::Range { low, high } => {
                let (low, high) = (digits(low)?, digits(high)?);
                if low > high {
                    return Err(Refusal::Invalid("the range is empty: low is above high"));
                }
                let at = self.words.len();
                self.bounds.push(Bounds { at, low, high });
                (vec![0; ones.len()], vec![0; ones.len()])
            }
        };
        if value.iter().zip(&mask).any(|(v, m)| v & !m != 0) {
            return Err(Refusal::Invalid("the value has bits that are not compared"));
        }
        self.words.extend(value.into_iter().zip(mask));
        Ok(())
    }

    /// Whether a key matches in the bits that are `compared`, by word; in all of
    /// them if that is empty.
    pub(crate) fn matches(&self, key: &[u64], compared: &[u64]) -> bool {
        let all = compared.iter().copied().chain(std::iter::repeat(u64::MAX));
        let mut words = key.iter().zip(&self.words).zip(all);
        words.all(|((k, (v, m)), compared)| (k ^ v) & m & compared == 0)
            && self.bounds.iter().all(|bounds| bounds.hold(key, compared))
    }
}

impl Bounds {
    fn hold(&self, key: &[u64], compared: &[u64]) -> bool {
        let word = |at: usize| {
            let compared = compared.get(at).copied().unwrap_or(u64::MAX);
            key.get(at).copied().unwrap_or(0) & compared
        };
        let number = (self.at..self.at + self.low.len()).map(word);
        number.clone().ge(self.low.iter().copied()) && number.le(self.high.iter().copied())
    }
}

enum Refusal {
    TooWide(TableError),
    Invalid(&'static str),
}

/// A field's words, of each the bits to its right and its width.
fn by_word(width: u32, word: impl Fn(u32, u32) -> u64) -> Vec<u64> {
    let rights = (0..width.div_ceil(64)).rev().map(|limb| limb * 64);
    rights
        .map(|right| word(right, (width - right).min(64)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    fn value(bytes: &[u8]) -> Value {
        Value::from_slice(bytes)
    }

    #[test]
    fn wide_ranges_compare_the_most_significant_word_first() {
        let bytes = |high: u64, low: u64| {
            let mut all = high.to_be_bytes().to_vec();
            all.extend(low.to_be_bytes());
            value(&all)
        };
        let range = FieldMatch::Range {
            low: bytes(1, 5),
            high: bytes(3, 2),
        };
        let member = Member::new("s", &[8, 100], &[FieldMatch::Exact(value(&[7])), range]);
        let member = member.unwrap();
        for (key, expected) in [
            ([7, 1, 5], true),
            ([7, 1, 4], false),
            ([7, 2, 0], true),
            ([7, 3, 2], true),
            ([7, 3, 3], false),
            ([6, 2, 0], false),
        ] {
            assert_eq!(member.matches(&key, &[]), expected, "{key:?}");
        }
        // Under a mask the key is 6 in the bits that are compared, as is 7.
        assert!(member.matches(&[6, 2, 0], &[6, u64::MAX, u64::MAX]));
        assert!(!member.matches(&[7, 3, 2], &[0xff, 0, u64::MAX]));
    }

    #[test]
    fn prefixes_and_masks_may_end_in_any_word() {
        let prefix = |prefix_len, bytes: &[u8]| FieldMatch::Lpm {
            value: value(bytes),
            prefix_len,
        };
        // 70 bits: a word of 6 and one of 64.
        let mut bytes = [0u8; 9];
        bytes[0] = 0x2a;
        let short = Member::new("s", &[70], &[prefix(6, &bytes)]).unwrap();
        assert!(short.matches(&[0x2a, u64::MAX], &[]));
        assert!(!short.matches(&[0x2b, 0], &[]));
        bytes[1] = 0x80;
        let longer = Member::new("s", &[70], &[prefix(7, &bytes)]).unwrap();
        assert!(longer.matches(&[0x2a, 1 << 63 | 9], &[]));
        assert!(!longer.matches(&[0x2a, 9], &[]));
        assert!(Member::new("s", &[70], &[prefix(71, &bytes)]).is_err());
        // A bit beyond the prefix.
        assert!(Member::new("s", &[70], &[prefix(6, &bytes)]).is_err());
    }

    #[test]
    fn senseless_members_are_refused() {
        let refused = |fields: &[FieldMatch]| {
            let error = Member::new("s", &[9], fields).unwrap_err();
            matches!(error, TableError::Invalid { .. })
        };
        assert!(refused(&[]));
        assert!(refused(&[FieldMatch::Any, FieldMatch::Any]));
        assert!(refused(&[FieldMatch::Ternary {
            value: value(&[3]),
            mask: value(&[2]),
        }]));
        assert!(refused(&[FieldMatch::Range {
            low: value(&[1, 0]),
            high: value(&[0xff]),
        }]));
        let wide = FieldMatch::Exact(value(&[2, 0]));
        let error = Member::new("s", &[9], &[wide]).unwrap_err();
        assert!(matches!(error, TableError::TooWide { width: 9, .. }));
    }
}
