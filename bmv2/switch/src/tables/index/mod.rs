//! From a packet's key to a slot.

mod exact;
mod tree;

use super::key::{Encoded, KeyLayout};
use super::range;
use super::slab::Slab;
use exact::Exact;
pub(crate) use tree::Tree;

/// Mixes words into a hash.
#[inline(always)]
pub(crate) fn hash_words(words: impl Iterator<Item = u64>) -> u64 {
    const K: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xe703_7ed1_a0b4_28db];
    let mut h = 0x2d35_8dcc_aa6c_78a5u64;
    for w in words {
        let wide = u128::from(h ^ w).wrapping_mul(u128::from(K[0]));
        h = (wide as u64) ^ ((wide >> 64) as u64) ^ K[1];
    }
    let wide = u128::from(h).wrapping_mul(u128::from(K[1]));
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Where the parts of a key lie in a record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parts {
    pub(crate) key: usize,
    pub(crate) mask: usize,
    pub(crate) bounds: usize,
    pub(crate) rank: usize,
}

impl Parts {
    /// The bounds of a piece of a range field.
    #[inline]
    pub(crate) fn bound(&self, slab: &Slab, slot: u32, range: usize) -> (u64, u64) {
        let at = self.bounds + 2 * range;
        (slab.word(slot, at), slab.word(slot, at + 1))
    }
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

    /// The slot that a packet's key matches.
    #[inline]
    pub(crate) fn lookup(
        &self,
        layout: &KeyLayout,
        parts: &Parts,
        slab: &Slab,
        key: &[u64],
    ) -> Option<u32> {
        match self {
            Self::Exact(index) => {
                let hash = hash_words(key.iter().copied());
                index.find(hash, |slot| slab.equals(slot, parts.key, key))
            }
            Self::Tree(tree) => tree.lookup(key, |slot| {
                range::contain(&layout.ranges, key, |r| parts.bound(slab, slot, r))
            }),
        }
    }

    /// The slot of the entry with exactly this key.
    pub(crate) fn find(&self, parts: &Parts, slab: &Slab, e: &Encoded) -> Option<u32> {
        match self {
            Self::Exact(index) => index.find(e.hash, |slot| slab.equals(slot, parts.key, &e.value)),
            Self::Tree(tree) => tree.find(e, |slot| {
                let bounds = e.bounds.iter().enumerate();
                bounds
                    .into_iter()
                    .all(|(r, b)| parts.bound(slab, slot, r) == *b)
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
