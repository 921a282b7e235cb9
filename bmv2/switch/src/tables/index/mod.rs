//! From a packet's key to a slot.

mod exact;
mod tree;

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::key::Encoded;
use super::range::{self, RangePiece};
use super::slab::{Slab, equal};
use exact::Exact;
pub(crate) use tree::Tree;

/// Mixes words into a hash.
#[inline(always)]
pub(crate) fn hash_words(words: &[u64]) -> u64 {
    let mix = |hash: u64| {
        let product = u128::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let seed = 0x2d35_8dcc_aa6c_78a5;
    // Once more at the end: keys that differ in few bits of the last word
    // would be spread unevenly.
    mix(words.iter().fold(seed, |hash, word| mix(hash ^ word)))
}

/// Where the key begins in a record, behind what the entry does.
pub(crate) const KEY: usize = 1;

/// Where the other parts of a key lie.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts {
    pub(crate) mask: usize,
    pub(crate) bounds: usize,
    pub(crate) rank: usize,
}

impl Parts {
    /// The bounds of a piece of a range field.
    #[inline]
    pub(crate) fn bound(&self, record: &[AtomicU64], range: usize) -> (u64, u64) {
        match record.get(self.bounds + 2 * range..) {
            Some([low, high, ..]) => (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed)),
            _ => (0, 0),
        }
    }
}

/// An entry that was looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'t> {
    pub(crate) slot: u32,
    pub(crate) record: &'t [AtomicU64],
}

impl<'t> Found<'t> {
    #[inline(always)]
    pub(crate) fn new(slab: &'t Slab, slot: u32) -> Self {
        let record = slab.get(slot);
        Self { slot, record }
    }
}

/// Takes the key by value, so that a short one that goes elsewhere needs no
/// place in memory.
#[inline(never)]
fn lookup_in_tree(
    tree: &Tree,
    ranges: &[RangePiece],
    parts: &Parts,
    slab: &Slab,
    key: impl Borrow<[u64]>,
) -> Option<u32> {
    let key = key.borrow();
    tree.lookup(key, |slot| {
        ranges.is_empty() || {
            let record = slab.get(slot);
            range::contain(ranges, key, |r| parts.bound(record, r))
        }
    })
}

/// An index over a table's records.
#[derive(Debug)]
pub(crate) enum Index {
    Exact(Exact),
    Tree(Tree),
}

impl Index {
    pub(crate) fn exact() -> Self {
        Self::Exact(Exact::new())
    }

    /// For keys of this many words with masks.
    pub(crate) fn tree(words: usize) -> Self {
        Self::Tree(Tree::new(words))
    }

    /// The entry that a packet's key matches.
    #[inline(always)]
    pub(crate) fn lookup<'t>(
        &self,
        ranges: &[RangePiece],
        parts: &Parts,
        slab: &'t Slab,
        key: impl Borrow<[u64]>,
    ) -> Option<Found<'t>> {
        match self {
            Self::Exact(index) => {
                let key = key.borrow();
                index.find(hash_words(key), |slot| {
                    let found = Found::new(slab, slot);
                    equal(found.record, KEY, key).then_some(found)
                })
            }
            Self::Tree(tree) => {
                lookup_in_tree(tree, ranges, parts, slab, key).map(|slot| Found::new(slab, slot))
            }
        }
    }

    /// The slot of the entry with exactly this key.
    pub(crate) fn find(&self, parts: &Parts, slab: &Slab, e: &Encoded) -> Option<u32> {
        match self {
            Self::Exact(index) => index.find(e.hash, |slot| {
                equal(slab.get(slot), KEY, &e.value).then_some(slot)
            }),
            Self::Tree(tree) => tree.find(e, |slot| {
                let bounds = e.bounds.iter().enumerate();
                bounds
                    .into_iter()
                    .all(|(r, b)| parts.bound(slab.get(slot), r) == *b)
            }),
        }
    }

    /// Whether [`Index::add`] can add an entry.
    pub(crate) fn has_room(&self, e: &Encoded) -> bool {
        match self {
            Self::Exact(index) => index.has_room(e.hash),
            Self::Tree(_) => false,
        }
    }

    /// Adds a record that is in the slab while packets look others up.
    pub(crate) fn add(&self, slot: u32, e: &Encoded) {
        if let Self::Exact(index) = self {
            index.add(e.hash, slot);
        }
    }

    /// Adds a record that is already in the slab.
    pub(crate) fn insert(&mut self, slot: u32, e: &Encoded) {
        match self {
            Self::Exact(index) => {
                index.make_room(e.hash);
                index.add(e.hash, slot);
            }
            Self::Tree(tree) => tree.insert(e, slot),
        }
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, slot: u32, e: &Encoded) {
        match self {
            Self::Exact(index) => index.remove(e.hash, slot),
            Self::Tree(tree) => tree.remove(e, slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;

    use super::*;

    /// Keys as tables have them, which differ in few bits, against what balls
    /// thrown at random into as many bins would do.
    #[test]
    fn keys_that_differ_little_are_spread_as_if_at_random() {
        const KEYS: u64 = 1 << 15;
        let one: [fn(u64) -> u64; 6] = [
            |i| i,
            |i| i << 16,
            |i| i << 32,
            |i| i << 49,
            |i| !(i << 8),
            // A port and the low bits of an address.
            |i| ((i & 0xff) << 48) | 0x0a00_0000 | (i >> 8),
        ];
        let two: [fn(u64) -> [u64; 2]; 6] = [
            |i| [i, 0],
            |i| [0, i],
            |i| [7, i << 48],
            |i| [i << 48, 7],
            |i| [i, i],
            |i| [0x0a00_0000_0050_0000 | (i & 0xff), (i >> 8) << 40],
        ];
        let one = one.map(|key| (0..KEYS).map(|i| hash_words(&[key(i)])).collect());
        let two = two.map(|key| (0..KEYS).map(|i| hash_words(&key(i))).collect());
        let all: Vec<Vec<u64>> = one.into_iter().chain(two).collect();
        for (family, hashes) in all.iter().enumerate() {
            // Where the search begins, and which segment it is in.
            for shift in [0, 11] {
                let mut bins = vec![0u64; KEYS as usize];
                for hash in hashes {
                    bins[(hash >> shift) as usize % KEYS as usize] += 1;
                }
                let squares: u64 = bins.iter().map(|n| n * n).sum();
                // Expected are 2 - 1 / KEYS for each.
                let limit = KEYS * 21 / 10;
                assert!(squares < limit, "{squares} in {family} from {shift}");
            }
            let mut tags: Vec<u32> = hashes.iter().map(|hash| *hash as u32).collect();
            tags.sort_unstable();
            tags.dedup();
            // An eighth of a pair is expected to be equal.
            assert!(tags.len() as u64 >= KEYS - 3, "{} in {family}", tags.len());
        }
    }

    #[test]
    fn the_order_of_words_matters() {
        assert_ne!(hash_words(&[1, 2]), hash_words(&[2, 1]));
        assert_ne!(hash_words(&[0]), hash_words(&[0, 0]));
    }

    fn encoded(value: &[u64]) -> Encoded {
        Encoded {
            value: value.into(),
            mask: vec![u64::MAX; value.len()].into(),
            bounds: SmallVec::new(),
            rank: 0,
            hash: hash_words(value),
        }
    }

    /// Both indexes, with keys of which each differs from another in one word
    /// only.
    fn check<const N: usize>(mut index: Index) {
        let parts = Parts::default();
        let mut slab = Slab::new(KEY + N);
        let keys: Vec<[u64; N]> = (0..1000u64)
            .map(|n| std::array::from_fn(|word| ((n >> (2 * word)) & 3) | (n << 8)))
            .chain((0..N).map(|word| {
                let mut key = [0; N];
                key[word] = 9;
                key
            }))
            .collect();
        for key in &keys {
            slab.make_room();
            let slot = slab.insert();
            for (at, word) in key.iter().enumerate() {
                slab.set(slot, KEY + at, *word);
            }
            index.insert(slot, &encoded(key));
        }
        let look = |key: [u64; N]| {
            let by_value = index.lookup(&[], &parts, &slab, key);
            let by_slice = index.lookup(&[], &parts, &slab, key.as_slice());
            assert_eq!(by_value.map(|f| f.slot), by_slice.map(|f| f.slot));
            if let Some(found) = by_value {
                assert!(equal(found.record, KEY, &key));
            }
            by_value.map(|f| f.slot)
        };
        for (slot, key) in (0..).zip(&keys) {
            assert_eq!(look(*key), Some(slot), "{key:x?}");
            for word in 0..N {
                let mut other = *key;
                other[word] ^= 1 << 63;
                assert_eq!(look(other), None, "{other:x?}");
            }
        }
    }

    #[test]
    fn keys_of_any_length_are_found() {
        check::<1>(Index::exact());
        check::<2>(Index::exact());
        check::<3>(Index::exact());
        check::<5>(Index::exact());
        check::<1>(Index::tree(1));
        check::<2>(Index::tree(2));
        check::<3>(Index::tree(3));
        check::<5>(Index::tree(5));
    }
}
