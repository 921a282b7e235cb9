//! From a packet's key to a slot.
//!
//! Exact tables are one hash, in shards so that growing moves few entries at a
//! time. All other tables are tuple spaces: one hash for each distinct mask,
//! visited from the best rank down until no better match can follow. A prefix
//! length is such a mask, and its length the rank.

use std::collections::BTreeMap;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::key::{Encoded, KeyLayout, Words};
use super::slab::Slab;

/// Entries that one shard of an exact table is made for.
const SHARD: usize = 8192;

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
    pub(crate) words: usize,
    pub(crate) ranges: usize,
}

impl Parts {
    fn hash(&self, slab: &Slab, slot: u32) -> u64 {
        hash_words((0..self.words).map(|i| slab.word(slot, self.key + i)))
    }

    fn rank(&self, slab: &Slab, slot: u32) -> i64 {
        slab.word(slot, self.rank) as i64
    }

    /// The bounds of a range field.
    #[inline]
    pub(crate) fn bound(&self, slab: &Slab, slot: u32, range: usize) -> (u64, u64) {
        let at = self.bounds + 2 * range;
        (slab.word(slot, at), slab.word(slot, at + 1))
    }
}

/// An index over a table's records.
#[derive(Debug)]
pub(crate) enum Index {
    Exact(Vec<HashTable<u32>>),
    Tuples(Vec<Tuple>),
}

/// All entries with one mask.
#[derive(Debug)]
pub(crate) struct Tuple {
    mask: Words,
    /// Entries by rank.
    ranks: BTreeMap<i64, u32>,
    /// The highest of them.
    best: i64,
    /// Slots of one masked value each, the winner first.
    buckets: HashTable<SmallVec<[u32; 2]>>,
}

impl Index {
    /// For exact tables of a declared size.
    pub(crate) fn exact(size: u32) -> Self {
        let shards = (size as usize)
            .div_ceil(SHARD)
            .next_power_of_two()
            .min(4096);
        Self::Exact((0..shards).map(|_| HashTable::new()).collect())
    }

    pub(crate) fn tuples() -> Self {
        Self::Tuples(Vec::new())
    }

    /// The slot that a packet's key matches.
    #[inline]
    pub(crate) fn lookup(
        &self,
        layout: &KeyLayout,
        parts: &Parts,
        slab: &Slab,
        key: &[u64],
        scratch: &mut [u64],
    ) -> Option<u32> {
        match self {
            Self::Exact(shards) => {
                let hash = hash_words(key.iter().copied());
                shards
                    .get(shard(hash, shards.len()))?
                    .find(hash, |&slot| slab.equals(slot, parts.key, key))
                    .copied()
            }
            Self::Tuples(tuples) => {
                let mut best: Option<(i64, u32)> = None;
                for t in tuples {
                    if best.is_some_and(|(rank, _)| t.best < rank) {
                        break;
                    }
                    for ((s, k), m) in scratch.iter_mut().zip(key).zip(&t.mask) {
                        *s = k & m;
                    }
                    let masked = scratch.get(..key.len())?;
                    let hash = hash_words(masked.iter().copied());
                    let Some(bucket) = t.buckets.find(hash, |b| {
                        b.first()
                            .is_some_and(|&s| slab.equals(s, parts.key, masked))
                    }) else {
                        continue;
                    };
                    let hit = bucket.iter().copied().find(|&slot| {
                        (0..parts.ranges).all(|r| {
                            let (low, high) = parts.bound(slab, slot, r);
                            (low..=high).contains(&layout.range_value(r, key))
                        })
                    });
                    if let Some(slot) = hit {
                        let rank = parts.rank(slab, slot);
                        let better = best.is_none_or(|(r, s)| rank > r || (rank == r && slot < s));
                        if better {
                            best = Some((rank, slot));
                        }
                    }
                }
                best.map(|(_, slot)| slot)
            }
        }
    }

    /// The slot of the entry with exactly this key.
    pub(crate) fn find(&self, parts: &Parts, slab: &Slab, e: &Encoded) -> Option<u32> {
        let hash = hash_words(e.value.iter().copied());
        match self {
            Self::Exact(shards) => shards
                .get(shard(hash, shards.len()))?
                .find(hash, |&slot| slab.equals(slot, parts.key, &e.value))
                .copied(),
            Self::Tuples(tuples) => tuples
                .iter()
                .find(|t| t.mask == e.mask)?
                .buckets
                .find(hash, |b| {
                    b.first()
                        .is_some_and(|&s| slab.equals(s, parts.key, &e.value))
                })?
                .iter()
                .copied()
                .find(|&slot| {
                    parts.rank(slab, slot) == e.rank
                        && e.bounds
                            .iter()
                            .enumerate()
                            .all(|(r, b)| parts.bound(slab, slot, r) == *b)
                }),
        }
    }

    /// Adds a record that is already in the slab.
    pub(crate) fn insert(&mut self, parts: &Parts, slab: &Slab, slot: u32, e: &Encoded) {
        let hash = hash_words(e.value.iter().copied());
        match self {
            Self::Exact(shards) => {
                let n = shards.len();
                if let Some(s) = shards.get_mut(shard(hash, n)) {
                    s.insert_unique(hash, slot, |&other| parts.hash(slab, other));
                }
            }
            Self::Tuples(tuples) => {
                let at = match tuples.iter().position(|t| t.mask == e.mask) {
                    Some(at) => at,
                    None => {
                        tuples.push(Tuple {
                            mask: e.mask.clone(),
                            ranks: BTreeMap::new(),
                            best: i64::MIN,
                            buckets: HashTable::new(),
                        });
                        tuples.len() - 1
                    }
                };
                let Some(t) = tuples.get_mut(at) else { return };
                *t.ranks.entry(e.rank).or_insert(0) += 1;
                let same = |b: &SmallVec<[u32; 2]>| {
                    b.first()
                        .is_some_and(|&s| slab.equals(s, parts.key, &e.value))
                };
                match t.buckets.find_mut(hash, same) {
                    Some(bucket) => {
                        let at = bucket.partition_point(|&s| {
                            let rank = parts.rank(slab, s);
                            rank > e.rank || (rank == e.rank && s < slot)
                        });
                        bucket.insert(at, slot);
                    }
                    None => {
                        t.buckets
                            .insert_unique(hash, SmallVec::from_slice(&[slot]), |b| {
                                b.first().map_or(0, |&s| parts.hash(slab, s))
                            });
                    }
                }
                reorder(tuples, at);
            }
        }
    }

    /// Takes a record out; it is still in the slab.
    pub(crate) fn remove(&mut self, parts: &Parts, slab: &Slab, slot: u32, e: &Encoded) {
        let hash = hash_words(e.value.iter().copied());
        match self {
            Self::Exact(shards) => {
                let n = shards.len();
                if let Some(s) = shards.get_mut(shard(hash, n))
                    && let Ok(found) = s.find_entry(hash, |&s| s == slot)
                {
                    found.remove();
                }
            }
            Self::Tuples(tuples) => {
                let Some(at) = tuples.iter().position(|t| t.mask == e.mask) else {
                    return;
                };
                let Some(t) = tuples.get_mut(at) else { return };
                if let Some(n) = t.ranks.get_mut(&e.rank) {
                    *n -= 1;
                    if *n == 0 {
                        t.ranks.remove(&e.rank);
                    }
                }
                let same = |b: &SmallVec<[u32; 2]>| {
                    b.first()
                        .is_some_and(|&s| slab.equals(s, parts.key, &e.value))
                };
                if let Ok(mut found) = t.buckets.find_entry(hash, same) {
                    found.get_mut().retain(|s| *s != slot);
                    if found.get().is_empty() {
                        found.remove();
                    }
                }
                if t.ranks.is_empty() {
                    tuples.remove(at);
                } else {
                    reorder(tuples, at);
                }
            }
        }
    }
}

/// Shards by the hash's high bits: the low ones and the top seven are the
/// hash table's own.
#[inline(always)]
fn shard(hash: u64, shards: usize) -> usize {
    (hash >> 40) as usize & (shards - 1)
}

/// Restores the order by best rank after tuple `at` changed.
fn reorder(tuples: &mut [Tuple], at: usize) {
    let Some(t) = tuples.get_mut(at) else { return };
    let best = t.ranks.keys().next_back().copied().unwrap_or(i64::MIN);
    if best != t.best {
        t.best = best;
        tuples.sort_by_key(|t| std::cmp::Reverse(t.best));
    }
}
