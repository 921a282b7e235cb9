//! Table keys packed into 64-bit words.
//!
//! Fields of up to 64 bits share words (the widest first); wider ones are cut
//! into pieces. A packet's key, an entry's value and an entry's mask all have
//! this layout, so that comparing is comparing words.

use smallvec::SmallVec;

use crate::control::{EntryKey, FieldMatch, TableError, Value};
use crate::ir::bits::{Loc, load64, mask64, read_bits};
use crate::ir::expr::{HeaderSel, View};
use crate::ir::{FieldKind, HeaderId};
use crate::program::MatchKind;

use super::index::hash_words;
use super::range::{self, RangePiece};

/// Words of a key.
pub(crate) type Words = SmallVec<[u64; 4]>;
/// Bounds of the pieces of range fields.
pub(crate) type Bounds = SmallVec<[(u64, u64); 2]>;

/// Most words of a key.
pub(crate) const MAX_WORDS: usize = 256;

/// Where a key field's bits come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Loc(Loc),
    Valid,
}

/// At most 64 bits of a field and their place in the key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) header: HeaderId,
    pub(crate) source: Source,
    pub(crate) place: Place,
}

/// At most 64 bits of a field whose header is chosen at run time.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) header: HeaderSel,
    /// The field's position in headers of that type.
    pub(crate) field: u16,
    pub(crate) place: Place,
}

impl Chosen {
    /// The bits; `None`, which reads as zero, if the header is not valid.
    fn load(&self, v: &View<'_>) -> Option<u64> {
        let h = self.header.resolve(v).filter(|h| v.state.is_valid(*h))?;
        let header = v.ir.headers.get(usize::from(h))?;
        let f = header.fields.get(usize::from(self.field))?;
        if f.kind == FieldKind::Valid {
            return Some(1);
        }
        let (right, width) = (self.place.right, self.place.width);
        let bit = (f.bit + f.width).checked_sub(right + width)?;
        Some(read_bits(&v.state.image, bit as usize, width as usize))
    }
}

/// Bits `[right, right + width)` of a field, counted from its right end, at
/// `shift` of `word`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) word: usize,
    pub(crate) shift: u32,
    pub(crate) right: u32,
    pub(crate) width: u32,
}

/// One field of the key.
#[derive(Debug, Clone)]
pub(crate) struct KeyField {
    pub(crate) name: String,
    pub(crate) kind: MatchKind,
    pub(crate) width: u32,
    pub(crate) places: SmallVec<[Place; 1]>,
    /// Position of its first piece among those of the range fields.
    pub(crate) range: Option<usize>,
}

/// The layout of a table's key.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyLayout {
    pub(crate) fields: Vec<KeyField>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) chosen: Vec<Chosen>,
    pub(crate) words: usize,
    /// The pieces of the range fields.
    pub(crate) ranges: SmallVec<[RangePiece; 2]>,
    /// Bits that the program masks off, by word; empty if it masks none.
    pub(crate) program_mask: Words,
    pub(crate) prioritised: bool,
}

/// An entry's key in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) value: Words,
    pub(crate) mask: Words,
    pub(crate) bounds: Bounds,
    /// What decides between matches: the priority, or the prefix length.
    pub(crate) rank: i64,
    /// Hash of the value.
    pub(crate) hash: u64,
}

/// Assigns places to fields of the given widths.
pub(crate) fn pack(widths: &[u32]) -> (Vec<SmallVec<[Place; 1]>>, usize) {
    let mut pieces: Vec<(usize, u32, u32)> = Vec::new();
    for (field, &width) in widths.iter().enumerate() {
        let mut right = 0;
        while right < width {
            let part = (width - right).min(64);
            pieces.push((field, right, part));
            right += part;
        }
    }
    pieces.sort_by_key(|&(field, right, width)| (std::cmp::Reverse(width), field, right));
    let mut used: Vec<u32> = Vec::new();
    let mut places = vec![SmallVec::new(); widths.len()];
    for (field, right, width) in pieces {
        let word = match used.iter().position(|u| u + width <= 64) {
            Some(w) => w,
            None => {
                used.push(0);
                used.len() - 1
            }
        };
        let shift = used.get(word).copied().unwrap_or(0);
        if let Some(u) = used.get_mut(word) {
            *u += width;
        }
        if let Some(list) = places.get_mut(field) {
            let list: &mut SmallVec<[Place; 1]> = list;
            list.push(Place {
                word,
                shift,
                right,
                width,
            });
        }
    }
    (places, used.len())
}

impl KeyLayout {
    /// The packet's key.
    #[inline]
    pub(crate) fn build(&self, view: &View<'_>, words: &mut [u64]) {
        let state = view.state;
        words.fill(0);
        for p in &self.pieces {
            if !state.is_valid(p.header) {
                // Fields of invalid headers read as zero, and so does validity.
                continue;
            }
            let bits = match p.source {
                Source::Loc(loc) => load64(&state.image, loc),
                Source::Valid => 1,
            };
            if let Some(w) = words.get_mut(p.place.word) {
                *w |= bits << p.place.shift;
            }
        }
        for c in &self.chosen {
            if let Some(w) = words.get_mut(c.place.word) {
                *w |= c.load(view).unwrap_or(0) << c.place.shift;
            }
        }
        for (w, m) in words.iter_mut().zip(&self.program_mask) {
            *w &= m;
        }
    }

    /// Checks an entry's key and packs it.
    pub(crate) fn encode(&self, table: &str, key: &EntryKey) -> Result<Encoded, TableError> {
        let bad = |what: String| TableError::Invalid {
            place: format!("table {table}"),
            what,
        };
        if key.fields.len() != self.fields.len() {
            return Err(bad(format!(
                "the key has {} fields, not {}",
                self.fields.len(),
                key.fields.len()
            )));
        }
        if self.prioritised && key.priority <= 0 {
            return Err(bad("an entry here needs a priority above 0".into()));
        }
        if !self.prioritised && key.priority != 0 {
            return Err(bad("entries here have no priority; it must be 0".into()));
        }
        let mut e = Encoded {
            value: SmallVec::from_elem(0, self.words),
            mask: SmallVec::from_elem(0, self.words),
            bounds: SmallVec::from_elem((0, u64::MAX), self.ranges.len()),
            rank: i64::from(key.priority),
            hash: 0,
        };
        for (f, m) in self.fields.iter().zip(&key.fields) {
            self.encode_field(table, f, m, &mut e)?;
        }
        for ((v, m), p) in e.value.iter_mut().zip(&mut e.mask).zip(&self.program_mask) {
            *v &= p;
            *m &= p;
        }
        e.hash = hash_words(&e.value);
        Ok(e)
    }

    fn encode_field(
        &self,
        table: &str,
        f: &KeyField,
        m: &FieldMatch,
        e: &mut Encoded,
    ) -> Result<(), TableError> {
        let bad = |what: String| TableError::Invalid {
            place: format!("table {table}, key field {}", f.name),
            what,
        };
        let fit = |bytes: &[u8]| check_width(table, &f.name, f.width, bytes);
        match (f.kind, m) {
            (MatchKind::Exact, FieldMatch::Exact(v)) => {
                fit(v)?;
                for p in &f.places {
                    put(&mut e.value, *p, chunk(v, p.right, p.width));
                    put(&mut e.mask, *p, mask64(p.width));
                }
            }
            (MatchKind::Lpm, FieldMatch::Lpm { value, prefix_len }) => {
                fit(value)?;
                if *prefix_len > f.width {
                    return Err(bad(format!(
                        "a prefix of {prefix_len} bits in a field of {}",
                        f.width
                    )));
                }
                let host = f.width - prefix_len;
                for p in &f.places {
                    let ones = mask64(p.width);
                    let mask = ones & !mask64(host.saturating_sub(p.right).min(p.width));
                    let bits = chunk(value, p.right, p.width);
                    if bits & !mask != 0 {
                        return Err(bad("the prefix has bits beyond its length".into()));
                    }
                    put(&mut e.value, *p, bits);
                    put(&mut e.mask, *p, mask);
                }
                if !self.prioritised {
                    e.rank = i64::from(*prefix_len);
                }
            }
            (MatchKind::Ternary, FieldMatch::Exact(v)) => {
                fit(v)?;
                for p in &f.places {
                    put(&mut e.value, *p, chunk(v, p.right, p.width));
                    put(&mut e.mask, *p, mask64(p.width));
                }
            }
            (MatchKind::Ternary, FieldMatch::Ternary { value, mask }) => {
                fit(value)?;
                fit(mask)?;
                for p in &f.places {
                    let (v, m) = (
                        chunk(value, p.right, p.width),
                        chunk(mask, p.right, p.width),
                    );
                    if v & !m != 0 {
                        return Err(bad("the value has bits that the mask has not".into()));
                    }
                    put(&mut e.value, *p, v);
                    put(&mut e.mask, *p, m);
                }
            }
            (MatchKind::Range, FieldMatch::Range { low, high }) => {
                fit(low)?;
                fit(high)?;
                let (bounds, value, mask) = (&mut e.bounds, &mut e.value, &mut e.mask);
                if !range::encode(f, low, high, bounds, value, mask) {
                    return Err(bad(
                        "the range is empty: its low end is above its high end".into()
                    ));
                }
            }
            (MatchKind::Range, FieldMatch::Any) => range::encode_any(f, &mut e.bounds),
            (MatchKind::Ternary | MatchKind::Lpm, FieldMatch::Any) => {}
            (kind, _) => {
                return Err(bad(format!("the field is {kind}, the match is not")));
            }
        }
        Ok(())
    }

    /// An entry's key as it was written.
    pub(crate) fn decode(&self, e: &Encoded) -> EntryKey {
        let fields = self
            .fields
            .iter()
            .map(|f| match f.kind {
                MatchKind::Exact => FieldMatch::Exact(gather(f, &e.value)),
                MatchKind::Lpm => {
                    let ones: u32 = f
                        .places
                        .iter()
                        .map(|p| {
                            ((e.mask.get(p.word).copied().unwrap_or(0) >> p.shift)
                                & mask64(p.width))
                            .count_ones()
                        })
                        .sum();
                    if ones == 0 {
                        FieldMatch::Any
                    } else {
                        FieldMatch::Lpm {
                            value: gather(f, &e.value),
                            prefix_len: ones,
                        }
                    }
                }
                MatchKind::Ternary => {
                    let mask = gather(f, &e.mask);
                    if mask.iter().all(|&b| b == 0) {
                        FieldMatch::Any
                    } else {
                        FieldMatch::Ternary {
                            value: gather(f, &e.value),
                            mask,
                        }
                    }
                }
                MatchKind::Range => range::decode(f, &e.bounds),
            })
            .collect();
        EntryKey {
            fields,
            priority: if self.prioritised {
                i32::try_from(e.rank).unwrap_or(i32::MAX)
            } else {
                0
            },
        }
    }
}

/// Adds a piece's bits to a key.
pub(crate) fn put(words: &mut [u64], place: Place, bits: u64) {
    if let Some(w) = words.get_mut(place.word) {
        *w |= bits << place.shift;
    }
}

/// Refuses a value that does not fit its width.
pub(crate) fn check_width(
    place: &str,
    field: &str,
    width: u32,
    bytes: &[u8],
) -> Result<(), TableError> {
    let zeros = bytes.iter().take_while(|&&b| b == 0).count();
    let first = bytes.get(zeros).copied().unwrap_or(0);
    let bits = bytes
        .len()
        .saturating_sub(zeros)
        .saturating_mul(8)
        .saturating_sub(if first == 0 {
            0
        } else {
            first.leading_zeros() as usize
        });
    if bits <= width as usize {
        return Ok(());
    }
    Err(TableError::TooWide {
        place: place.to_owned(),
        field: field.to_owned(),
        width,
    })
}

/// Bits `[right, right + width)`, counted from the right end, of a big-endian
/// number; `width` is at most 64.
pub(crate) fn chunk(bytes: &[u8], right: u32, width: u32) -> u64 {
    // Up to nine bytes hold them.
    let low = (right / 8) as usize;
    let mut value = 0u128;
    for i in (0..9).rev() {
        let byte = bytes
            .len()
            .checked_sub(1 + low + i)
            .and_then(|at| bytes.get(at))
            .copied()
            .unwrap_or(0);
        value = (value << 8) | u128::from(byte);
    }
    (value >> (right % 8)) as u64 & mask64(width)
}

/// A number as big-endian bytes for a width.
pub(crate) fn bytes_of(value: u64, width: u32) -> Value {
    let len = width.div_ceil(8) as usize;
    let all = value.to_be_bytes();
    if len <= 8 {
        return SmallVec::from_slice(all.get(8 - len..).unwrap_or(&all));
    }
    let mut v = SmallVec::from_elem(0, len - 8);
    v.extend_from_slice(&all);
    v
}

/// A field of a key in words as big-endian bytes.
pub(crate) fn gather(f: &KeyField, words: &[u64]) -> Value {
    let mut limbs: SmallVec<[u64; 2]> = SmallVec::from_elem(0, f.width.div_ceil(64) as usize);
    for p in &f.places {
        let bits = (words.get(p.word).copied().unwrap_or(0) >> p.shift) & mask64(p.width);
        if let Some(l) = limbs.get_mut((p.right / 64) as usize) {
            *l |= bits;
        }
    }
    limbs_to_bytes(&limbs, f.width)
}

/// Limbs, least significant first, as big-endian bytes for a width.
pub(crate) fn limbs_to_bytes(limbs: &[u64], width: u32) -> Value {
    let len = width.div_ceil(8) as usize;
    let mut v: Value = SmallVec::with_capacity(len);
    for i in (0..len).rev() {
        let limb = limbs.get(i / 8).copied().unwrap_or(0);
        v.push((limb >> (8 * (i % 8))) as u8);
    }
    v
}

/// A big-endian number as limbs, least significant first.
pub(crate) fn bytes_to_limbs(bytes: &[u8], count: usize) -> SmallVec<[u64; 2]> {
    (0..count)
        .map(|i| chunk(bytes, u32::try_from(i * 64).unwrap_or(u32::MAX), 64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_fills_words_and_overlaps_nothing() {
        let (places, words) = pack(&[16, 128, 9, 32, 1, 48, 20]);
        // 254 bits; 128 of them are two whole words, the rest is 126 bits.
        assert_eq!(words, 4);
        let mut seen = vec![0u64; words];
        for p in places.iter().flatten() {
            let bits = mask64(p.width) << p.shift;
            assert_eq!(seen[p.word] & bits, 0);
            seen[p.word] |= bits;
        }
        let total: u32 = seen.iter().map(|w| w.count_ones()).sum();
        assert_eq!(total, 254);
    }

    #[test]
    fn chunks_of_a_number() {
        let n = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x11];
        assert_eq!(chunk(&n, 0, 8), 0x11);
        assert_eq!(chunk(&n, 4, 12), 0xef1);
        assert_eq!(chunk(&n, 8, 64), 0x0123_4567_89ab_cdef);
        assert_eq!(chunk(&n, 64, 64), 0x01);
        assert_eq!(chunk(&[], 0, 64), 0);
    }

    #[test]
    fn widths_are_checked_to_the_bit() {
        assert!(check_width("t", "f", 9, &[0, 1, 0xff]).is_ok());
        assert!(check_width("t", "f", 9, &[2, 0]).is_err());
        assert!(check_width("t", "f", 1, &[]).is_ok());
        assert!(check_width("t", "f", 1, &[0, 0, 0, 1]).is_ok());
    }

    #[test]
    fn limbs_and_bytes_are_inverse() {
        let bytes = [0x1f, 2, 3, 4, 5, 6, 7, 8, 9];
        let limbs = bytes_to_limbs(&bytes, 2);
        assert_eq!(limbs.as_slice(), &[0x0203_0405_0607_0809, 0x1f]);
        assert_eq!(limbs_to_bytes(&limbs, 69).as_slice(), &bytes);
    }
}
