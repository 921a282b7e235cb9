//! Range fields of a key, of any width.
//!
//! A range over more than 64 bits is compared word by word, the least
//! significant first: a more significant word overrules those below it unless
//! it equals its bound.

use smallvec::SmallVec;

use super::key::{Bounds, KeyField, Place, bytes_to_limbs, limbs_to_bytes, put};
use crate::control::{FieldMatch, Value};
use crate::ir::bits::mask64;

/// At most 64 bits of a range field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangePiece {
    pub(crate) place: Place,
    /// Whether it is the most significant one of its field.
    pub(crate) last: bool,
}

/// The pieces of a field whose places are given from the least significant on.
pub(crate) fn pieces(places: &[Place]) -> impl Iterator<Item = RangePiece> + '_ {
    places.iter().enumerate().map(|(i, place)| RangePiece {
        place: *place,
        last: i + 1 == places.len(),
    })
}

/// Whether a packet's key lies within all ranges; `bound` says the bounds of a
/// piece.
#[inline]
pub(crate) fn contain(
    pieces: &[RangePiece],
    key: &[u64],
    bound: impl Fn(usize) -> (u64, u64),
) -> bool {
    let (mut above, mut below) = (true, true);
    for (i, piece) in pieces.iter().enumerate() {
        let p = piece.place;
        let value = (key.get(p.word).copied().unwrap_or(0) >> p.shift) & mask64(p.width);
        let (low, high) = bound(i);
        above = value > low || (value == low && above);
        below = value < high || (value == high && below);
        if piece.last {
            if !(above && below) {
                return false;
            }
            (above, below) = (true, true);
        }
    }
    true
}

/// The words of a bound, in the order of the field's places.
fn words(f: &KeyField, bytes: &[u8]) -> SmallVec<[u64; 2]> {
    bytes_to_limbs(bytes, f.places.len())
}

/// Puts a range's bounds in place, and what all its values have in common into
/// value and mask, which helps the index. `false` if the range is empty.
pub(crate) fn encode(
    f: &KeyField,
    low: &[u8],
    high: &[u8],
    bounds: &mut Bounds,
    value: &mut [u64],
    mask: &mut [u64],
) -> bool {
    let (low, high) = (words(f, low), words(f, high));
    if low.iter().rev().gt(high.iter().rev()) {
        return false;
    }
    let mut same = true;
    for (i, p) in f.places.iter().enumerate().rev() {
        let (l, h) = (
            low.get(i).copied().unwrap_or(0),
            high.get(i).copied().unwrap_or(0),
        );
        if let Some(b) = bounds.get_mut(f.range.unwrap_or(0) + i) {
            *b = (l, h);
        }
        if same {
            let common = mask64(p.width) & !mask64(64 - (l ^ h).leading_zeros());
            put(value, *p, l & common);
            put(mask, *p, common);
        }
        same &= l == h;
    }
    true
}

/// Bounds that leave nothing out.
pub(crate) fn encode_any(f: &KeyField, bounds: &mut Bounds) {
    for (i, p) in f.places.iter().enumerate() {
        if let Some(b) = bounds.get_mut(f.range.unwrap_or(0) + i) {
            *b = (0, mask64(p.width));
        }
    }
}

/// A range as it was written.
pub(crate) fn decode(f: &KeyField, bounds: &Bounds) -> FieldMatch {
    let mine = bounds.iter().skip(f.range.unwrap_or(0));
    let mine = f.places.iter().zip(mine);
    if mine.clone().all(|(p, b)| *b == (0, mask64(p.width))) {
        return FieldMatch::Any;
    }
    let bytes = |side: fn(&(u64, u64)) -> u64| -> Value {
        let limbs: SmallVec<[u64; 2]> = mine.clone().map(|(_, b)| side(b)).collect();
        limbs_to_bytes(&limbs, f.width)
    };
    FieldMatch::Range {
        low: bytes(|b| b.0),
        high: bytes(|b| b.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::MatchKind;
    use crate::tables::key::pack;

    fn field(width: u32) -> (KeyField, usize) {
        // A neighbour of 8 bits takes the same word as the field's rest.
        let (mut places, words) = pack(&[width, 8]);
        let field = KeyField {
            name: "f".into(),
            kind: MatchKind::Range,
            width,
            places: places.swap_remove(0),
            range: Some(0),
        };
        (field, words)
    }

    /// Whether `value` is within `low..=high` for the code under test, and the
    /// range as it is read back.
    fn within(width: u32, low: u128, high: u128, value: u128) -> (bool, FieldMatch) {
        let (f, words) = field(width);
        let pieces: Vec<RangePiece> = pieces(&f.places).collect();
        let mut bounds: Bounds = SmallVec::from_elem((0, 0), pieces.len());
        let (mut v, mut m) = (vec![0; words], vec![0; words]);
        let bytes = |n: u128| n.to_be_bytes();
        assert!(encode(
            &f,
            &bytes(low),
            &bytes(high),
            &mut bounds,
            &mut v,
            &mut m
        ));
        // Rubbish around the field must not matter.
        let mut key = vec![0u64; words];
        for p in &f.places {
            key[p.word] |= ((value >> p.right) as u64 & mask64(p.width)) << p.shift;
        }
        let inside = contain(&pieces, &key, |i| bounds[i]);
        if inside {
            for ((k, v), m) in key.iter().zip(&v).zip(&m) {
                assert_eq!(k & m, *v, "what the index goes by fits all values");
            }
        }
        (inside, decode(&f, &bounds))
    }

    #[test]
    fn ranges_of_every_width_have_their_ends() {
        for width in [1u32, 7, 32, 63, 64, 65, 72, 100, 127, 128] {
            let top = u128::MAX >> (128 - width);
            let middle = top / 2;
            let steps = [0, 1, middle, middle + 1, top - 1, top];
            let word = u128::from(u64::MAX).min(top);
            for &low in steps.iter().chain(&[word]) {
                for &high in steps.iter().chain(&[word, (word + 1).min(top)]) {
                    if low > high {
                        continue;
                    }
                    for value in [0, low.saturating_sub(1), low, middle, word, high, top]
                        .into_iter()
                        .chain([(high + u128::from(high < top)), middle ^ 1])
                        .map(|v| v.min(top))
                    {
                        let (inside, read) = within(width, low, high, value);
                        assert_eq!(
                            inside,
                            (low..=high).contains(&value),
                            "{value:x} in {low:x}..{high:x} of {width} bits"
                        );
                        let all = low == 0 && high == top;
                        assert_eq!(matches!(read, FieldMatch::Any), all);
                        let number = |b: &Value| b.iter().fold(0, |n, b| n << 8 | u128::from(*b));
                        if let FieldMatch::Range { low: l, high: h } = read {
                            assert_eq!((number(&l), number(&h)), (low, high));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_empty_range_is_none() {
        let (f, words) = field(128);
        let mut bounds: Bounds = SmallVec::from_elem((0, 0), 2);
        let (mut v, mut m) = (vec![0; words], vec![0; words]);
        // Greater in the high word alone, and in the low word alone.
        let (one, word) = (1u128.to_be_bytes(), (1u128 << 64).to_be_bytes());
        assert!(!encode(&f, &word, &one, &mut bounds, &mut v, &mut m));
        let more = ((1u128 << 64) + 1).to_be_bytes();
        assert!(!encode(&f, &more, &word, &mut bounds, &mut v, &mut m));
        encode_any(&f, &mut bounds);
        assert!(matches!(decode(&f, &bounds), FieldMatch::Any));
    }
}
