//! The forward index: from a flow's hash to a session record's number.
//!
//! Buckets of one cache line hold ten 16-bit tags and ten record numbers. An
//! entry lives in its primary bucket or in one alternate, `primary XOR
//! mix(tag)`, inside the same group of 256 buckets. A bucket counts the entries
//! that are at home in it but live in their alternate; a look-up that finds
//! nothing in the primary reads the alternate only if that count is not zero
//! (the idea of Cuckoo++).
//!
//! The index grows by extendible hashing: a directory, indexed by the tag's top
//! bits, points to segments of 2 MiB. A full segment is split into two, one
//! group of 256 buckets at a time, paced by insertions; a split reads tags
//! only, never a record. Thresholds differ from segment to segment, so that the
//! segments of an evenly filled index do not all split at once.

use crate::prefetch::prefetch;

const SLOTS: usize = 10;
const ALL_SLOTS: u32 = (1 << SLOTS) - 1;
const GROUP_BITS: u32 = 8;
const GROUP: usize = 1 << GROUP_BITS;
const SEGMENT_BITS: u32 = 15;
/// Buckets in a segment.
const SEGMENT: usize = 1 << SEGMENT_BITS;
const GROUPS: usize = SEGMENT / GROUP;
/// Entries a segment has room for.
const SEGMENT_SLOTS: usize = SEGMENT * SLOTS;
const MAX_DEPTH: u32 = 10;
/// Entries that found no room anywhere are kept aside, at most so many.
const STASH: usize = 64;
/// Buckets split for each insertion while a split is under way. A segment at
/// the highest threshold has room for 0.11 of its slots, which is 1.1 insertions
/// a bucket: one bucket an insertion would be enough, two leave a margin.
const SPLIT_PACE: u32 = 2;
const NO_SEGMENT: u16 = u16::MAX;

const ALT_SHIFT: u32 = 10;
const OVERFLOW_SHIFT: u32 = 20;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u16; SLOTS],
    ids: [u32; SLOTS],
    /// Bits 0-9: slot in use. Bits 10-19: the entry is in its alternate.
    /// Bits 20-31: entries at home here that live in their alternate.
    meta: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    const EMPTY: Self = Self {
        tags: [0; SLOTS],
        ids: [0; SLOTS],
        meta: 0,
    };

    /// Slots whose tag is `tag`, as a bit mask.
    #[inline(always)]
    fn matches(&self, tag: u16) -> u32 {
        // A weight a slot, added up: the form that compilers turn into one
        // vector comparison.
        const WEIGHTS: [u16; SLOTS] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
        let mut m = 0;
        for (t, w) in self.tags.iter().zip(WEIGHTS) {
            m |= if *t == tag { w } else { 0 };
        }
        u32::from(m) & self.meta
    }

    const fn used(&self) -> u32 {
        self.meta & ALL_SLOTS
    }

    #[inline(always)]
    const fn overflow(&self) -> u32 {
        self.meta >> OVERFLOW_SHIFT
    }

    fn free_slot(&self) -> Option<usize> {
        let free = !self.meta & ALL_SLOTS;
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    fn put(&mut self, slot: usize, tag: u16, id: u32, alternate: bool) {
        self.tags[slot] = tag;
        self.ids[slot] = id;
        self.meta |= 1 << slot | u32::from(alternate) << (ALT_SHIFT + slot as u32);
    }

    fn clear(&mut self, slot: usize) {
        self.meta &= !(1 << slot | 1 << (ALT_SHIFT + slot as u32));
    }

    const fn is_alternate(&self, slot: usize) -> bool {
        self.meta >> (ALT_SHIFT + slot as u32) & 1 == 1
    }

    fn slot_of(&self, tag: u16, id: u32) -> Option<usize> {
        let mut m = self.matches(tag);
        while m != 0 {
            let i = m.trailing_zeros() as usize;
            if self.ids[i] == id {
                return Some(i);
            }
            m &= m - 1;
        }
        None
    }
}

/// A flow's two buckets and its tag.
#[derive(Clone, Copy, Debug)]
struct Place {
    primary: usize,
    alternate: usize,
    tag: u16,
}

#[derive(Clone, Copy, Debug)]
struct Split {
    /// The segment being split, or [`NO_SEGMENT`].
    segment: u16,
    sibling: u16,
    /// The tag bit that decides between the two.
    bit: u32,
    /// Groups below this one are done.
    done: usize,
    credit: u32,
}

/// There is no room and no way to make any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexFull;

/// See the module.
#[derive(Debug)]
pub(crate) struct TagIndex {
    buckets: Vec<Bucket>,
    directory: Vec<u16>,
    depth: u32,
    /// Of each segment: entries, and the number of tag bits that select it.
    segments: Vec<(u32, u32)>,
    max_segments: usize,
    split: Split,
    stash: Vec<(u64, u32)>,
    len: usize,
}

#[inline(always)]
const fn tag_of(hash: u64) -> u16 {
    (hash >> 48) as u16
}

/// The bits of a hash that decide where an entry lives.
const fn stash_key(hash: u64) -> u64 {
    hash & (0xffff << 48 | (SEGMENT as u64 - 1))
}

/// The distance to the alternate bucket, inside the group, never zero.
#[inline(always)]
const fn step(tag: u16) -> usize {
    let s = (tag.wrapping_mul(0x9e37) >> (16 - GROUP_BITS)) as usize;
    if s == 0 { 1 } else { s }
}

impl TagIndex {
    /// An index that can hold about `capacity` entries. The address space is
    /// reserved now, memory is touched as it grows.
    pub(crate) fn new(capacity: usize) -> Self {
        // Splits finish by a load of 0.89 or little more and leave segments at
        // 0.37 or more.
        let max_segments = (capacity * 3)
            .div_ceil(SEGMENT_SLOTS)
            .clamp(1, 1 << MAX_DEPTH);
        let mut buckets = Vec::with_capacity(max_segments * SEGMENT);
        buckets.resize(SEGMENT, Bucket::EMPTY);
        Self {
            buckets,
            directory: vec![0],
            depth: 0,
            segments: vec![(0, 0)],
            max_segments,
            split: Split {
                segment: NO_SEGMENT,
                sibling: NO_SEGMENT,
                bit: 0,
                done: 0,
                credit: 0,
            },
            stash: Vec::new(),
            len: 0,
        }
    }

    /// Entries held.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
            + self.directory.len() * 2
            + self.segments.len() * size_of::<(u32, u32)>()
    }

    #[inline(always)]
    fn segment_of(&self, tag: u16, bucket: usize) -> u16 {
        let d = (u32::from(tag) >> (16 - self.depth)) as usize;
        let s = self.directory[d & (self.directory.len() - 1)];
        if s == self.split.segment
            && bucket >> GROUP_BITS < self.split.done
            && u32::from(tag) >> self.split.bit & 1 == 1
        {
            return self.split.sibling;
        }
        s
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> Place {
        let tag = tag_of(hash);
        let bucket = hash as usize & (SEGMENT - 1);
        let primary = usize::from(self.segment_of(tag, bucket)) << SEGMENT_BITS | bucket;
        Place {
            primary,
            // The group is not left, so the segment is the same.
            alternate: primary ^ step(tag),
            tag,
        }
    }

    /// The number of the primary bucket of `hash`, whose line is asked for.
    /// Valid until the next insertion.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) -> u32 {
        let bucket = self.place(hash).primary;
        prefetch(&self.buckets, bucket);
        bucket as u32
    }

    /// A record number that probably belongs to `hash`, whose primary bucket is
    /// `bucket`: right unless two flows share a tag. The caller verifies and, if
    /// wrong, uses [`TagIndex::find`].
    #[inline(always)]
    pub(crate) fn guess(&self, hash: u64, bucket: u32) -> Option<u32> {
        let tag = tag_of(hash);
        let b = self.buckets.get(bucket as usize)?;
        let m = b.matches(tag);
        if m != 0 {
            return b.ids.get(m.trailing_zeros() as usize).copied();
        }
        if b.overflow() == 0 {
            return None;
        }
        let b = self.buckets.get(bucket as usize ^ step(tag))?;
        let m = b.matches(tag);
        b.ids.get(m.trailing_zeros() as usize).copied()
    }

    /// The record number of `hash` for which `is` holds.
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let p = self.place(hash);
        let mut in_bucket = |b: &Bucket| {
            let mut m = b.matches(p.tag);
            while m != 0 {
                let id = b.ids[m.trailing_zeros() as usize % SLOTS];
                if is(id) {
                    return Some(id);
                }
                m &= m - 1;
            }
            None
        };
        let b = &self.buckets[p.primary];
        if let Some(id) = in_bucket(b) {
            return Some(id);
        }
        if b.overflow() != 0
            && let Some(id) = in_bucket(&self.buckets[p.alternate])
        {
            return Some(id);
        }
        self.stash
            .iter()
            .find(|(key, id)| *key == stash_key(hash) && is(*id))
            .map(|(_, id)| *id)
    }

    /// Adds an entry. The caller has made sure that it is not there yet.
    pub(crate) fn insert(&mut self, hash: u64, id: u32) -> Result<(), IndexFull> {
        self.pace_split(hash);
        let p = self.place(hash);
        if !self.place_entry(p, id) {
            if self.stash.len() >= STASH {
                return Err(IndexFull);
            }
            self.stash.push((stash_key(hash), id));
        } else {
            self.segments[p.primary >> SEGMENT_BITS].0 += 1;
        }
        self.len += 1;
        Ok(())
    }

    /// Takes an entry out; `false` if it was not there.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) -> bool {
        let p = self.place(hash);
        if let Some(slot) = self.buckets[p.primary].slot_of(p.tag, id) {
            self.buckets[p.primary].clear(slot);
        } else if let Some(slot) = self.buckets[p.alternate].slot_of(p.tag, id) {
            self.buckets[p.alternate].clear(slot);
            self.buckets[p.primary].meta -= 1 << OVERFLOW_SHIFT;
        } else if let Some(at) = self.stash.iter().position(|e| *e == (stash_key(hash), id)) {
            self.stash.swap_remove(at);
            self.len -= 1;
            return true;
        } else {
            return false;
        }
        self.segments[p.primary >> SEGMENT_BITS].0 -= 1;
        self.len -= 1;
        true
    }

    /// Puts an entry into one of its buckets, moving others if need be.
    fn place_entry(&mut self, p: Place, id: u32) -> bool {
        if self.put_if_free(p, id) {
            return true;
        }
        // One displaced entry makes room nearly always; two are the limit.
        for home in [p.primary, p.alternate] {
            if self.displace(home) {
                return self.put_if_free(p, id);
            }
        }
        for home in [p.primary, p.alternate] {
            for slot in 0..SLOTS {
                let other = home ^ step(self.buckets[home].tags[slot]);
                if self.displace(other) && self.displace(home) {
                    return self.put_if_free(p, id);
                }
            }
        }
        false
    }

    fn put_if_free(&mut self, p: Place, id: u32) -> bool {
        if let Some(slot) = self.buckets[p.primary].free_slot() {
            self.buckets[p.primary].put(slot, p.tag, id, false);
            return true;
        }
        if let Some(slot) = self.buckets[p.alternate].free_slot() {
            self.buckets[p.alternate].put(slot, p.tag, id, true);
            self.buckets[p.primary].meta += 1 << OVERFLOW_SHIFT;
            return true;
        }
        false
    }

    /// Moves one entry of a full bucket to that entry's other bucket.
    fn displace(&mut self, from: usize) -> bool {
        for slot in 0..SLOTS {
            let b = &self.buckets[from];
            let (tag, id, was_alternate) = (b.tags[slot], b.ids[slot], b.is_alternate(slot));
            let to = from ^ step(tag);
            let Some(free) = self.buckets[to].free_slot() else {
                continue;
            };
            self.buckets[from].clear(slot);
            self.buckets[to].put(free, tag, id, !was_alternate);
            if was_alternate {
                self.buckets[to].meta -= 1 << OVERFLOW_SHIFT;
            } else {
                self.buckets[from].meta += 1 << OVERFLOW_SHIFT;
            }
            return true;
        }
        false
    }

    /// Entries above which a segment is split: 74 % to 89 % of its slots. At 89 %
    /// a group of 2,560 slots is full by 2,278 on average, six standard
    /// deviations from overflowing.
    fn threshold(segment: usize) -> u32 {
        (SEGMENT_SLOTS * (74 + segment * 7 % 16) / 100) as u32
    }

    /// Starts a split where one is due, and does a bounded piece of the one
    /// that is under way.
    fn pace_split(&mut self, hash: u64) {
        if self.split.segment == NO_SEGMENT {
            let tag = tag_of(hash);
            let s = self.segment_of(tag, 0);
            let (entries, depth) = self.segments[usize::from(s)];
            if entries <= Self::threshold(usize::from(s))
                || self.segments.len() >= self.max_segments
                || depth >= MAX_DEPTH
            {
                return;
            }
            self.split = Split {
                segment: s,
                sibling: self.segments.len() as u16,
                bit: 15 - depth,
                done: 0,
                credit: 0,
            };
            self.segments.push((0, depth + 1));
            self.segments[usize::from(s)].1 = depth + 1;
        }
        self.split.credit += SPLIT_PACE;
        if self.split.credit >= GROUP as u32 {
            self.split.credit -= GROUP as u32;
            self.split_group();
        }
    }

    /// Divides the next group between the segment and its sibling.
    fn split_group(&mut self) {
        let (s, sibling) = (
            usize::from(self.split.segment),
            usize::from(self.split.sibling),
        );
        let group = self.split.done;
        let base = s << SEGMENT_BITS | group << GROUP_BITS;
        let new_base = sibling << SEGMENT_BITS | group << GROUP_BITS;
        // One split at a time, so the sibling is the last segment and grows
        // at the end of the array.
        debug_assert_eq!(self.buckets.len(), new_base);
        self.buckets.resize(new_base + GROUP, Bucket::EMPTY);

        let old: [Bucket; GROUP] =
            std::array::from_fn(|i| std::mem::replace(&mut self.buckets[base + i], Bucket::EMPTY));
        self.split.done += 1;
        for (i, b) in old.iter().enumerate() {
            for slot in 0..SLOTS {
                if b.used() >> slot & 1 == 0 {
                    continue;
                }
                let tag = b.tags[slot];
                let home = if b.is_alternate(slot) {
                    i ^ step(tag)
                } else {
                    i
                };
                let moves = u32::from(tag) >> self.split.bit & 1 == 1;
                let primary = if moves { new_base + home } else { base + home };
                let p = Place {
                    primary,
                    alternate: primary ^ step(tag),
                    tag,
                };
                if moves {
                    self.segments[s].0 -= 1;
                    self.segments[sibling].0 += 1;
                }
                if !self.place_entry(p, b.ids[slot]) {
                    // Hardly possible, as each half holds fewer entries than
                    // the whole did; but never lose a session over it.
                    let bucket = (primary & (SEGMENT - 1)) as u64;
                    self.stash
                        .push((u64::from(tag) << 48 | bucket, b.ids[slot]));
                    self.segments[primary >> SEGMENT_BITS].0 -= 1;
                }
            }
        }
        if self.split.done == GROUPS {
            self.finish_split();
        }
    }

    fn finish_split(&mut self) {
        let depth = self.segments[usize::from(self.split.segment)].1;
        if depth > self.depth {
            let doubled = self.directory.iter().flat_map(|s| [*s, *s]).collect();
            self.directory = doubled;
            self.depth = depth;
        }
        let (s, sibling, bit) = (self.split.segment, self.split.sibling, self.split.bit);
        let depth = self.depth;
        for (i, d) in self.directory.iter_mut().enumerate() {
            let tag = (i as u32) << (16 - depth);
            if *d == s && tag >> bit & 1 == 1 {
                *d = sibling;
            }
        }
        self.split.segment = NO_SEGMENT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix64;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Checks every count the index keeps against what the buckets hold.
    fn audit(ix: &TagIndex) {
        let mut overflow = vec![0_u32; ix.buckets.len()];
        let mut per_segment = vec![0_u32; ix.segments.len()];
        for (at, b) in ix.buckets.iter().enumerate() {
            for slot in 0..SLOTS {
                if b.used() >> slot & 1 == 1 {
                    let home = if b.is_alternate(slot) {
                        at ^ step(b.tags[slot])
                    } else {
                        at
                    };
                    if b.is_alternate(slot) {
                        overflow[home] += 1;
                    }
                    per_segment[at >> SEGMENT_BITS] += 1;
                    let bucket = at & (SEGMENT - 1);
                    assert_eq!(
                        usize::from(ix.segment_of(b.tags[slot], bucket)),
                        at >> SEGMENT_BITS,
                        "an entry in the wrong segment"
                    );
                }
            }
        }
        for (at, b) in ix.buckets.iter().enumerate() {
            assert_eq!(b.overflow(), overflow[at], "overflow of bucket {at}");
        }
        let counted: Vec<u32> = ix.segments.iter().map(|s| s.0).collect();
        assert_eq!(counted, per_segment);
        assert_eq!(
            per_segment.iter().sum::<u32>() as usize + ix.stash.len(),
            ix.len
        );
    }

    #[test]
    fn grows_to_two_million_and_finds_all() {
        let n = 2_000_000_u32;
        let mut ix = TagIndex::new(n as usize);
        for id in 0..n {
            ix.insert(mix64(u64::from(id)), id).unwrap();
            // Right after an insertion, in the middle of a split too.
            if id % 1021 == 0 {
                for probe in [0, id / 2, id] {
                    let h = mix64(u64::from(probe));
                    assert_eq!(ix.find(h, |i| i == probe), Some(probe));
                }
            }
        }
        audit(&ix);
        assert!(ix.segments.len() >= 8, "it has split");
        assert!(ix.stash.is_empty());
        let mut wrong_guess = 0;
        for id in 0..n {
            let h = mix64(u64::from(id));
            assert_eq!(ix.find(h, |i| i == id), Some(id));
            wrong_guess += u32::from(ix.guess(h, ix.prefetch(h)) != Some(id));
        }
        // Tags of which three bits chose the segment: 20 candidates / 2^13.
        assert!(wrong_guess < n / 300, "{wrong_guess} wrong guesses");
        for id in n..n + 100_000 {
            assert_eq!(ix.find(mix64(u64::from(id)), |i| i == id), None);
        }
        for id in 0..n {
            assert!(ix.remove(mix64(u64::from(id)), id));
        }
        assert_eq!(ix.len(), 0);
        audit(&ix);
    }

    #[test]
    fn removing_what_is_not_there_changes_nothing() {
        let mut ix = TagIndex::new(1000);
        ix.insert(5 << 48, 1).unwrap();
        assert!(!ix.remove(5 << 48, 2));
        assert!(!ix.remove(6 << 48, 1));
        assert_eq!(ix.len(), 1);
        assert!(ix.remove(5 << 48, 1));
        assert!(!ix.remove(5 << 48, 1));
    }

    #[test]
    fn one_bucket_pair_takes_twenty_then_spills_then_refuses() {
        // One hash for all: nothing can be displaced to make room.
        let mut ix = TagIndex::new(1000);
        let h = 0x1234 << 48 | 99;
        for id in 0..(20 + STASH as u32) {
            ix.insert(h, id).unwrap();
        }
        assert_eq!(ix.insert(h, 1000), Err(IndexFull));
        audit(&ix);
        for id in 0..(20 + STASH as u32) {
            assert_eq!(ix.find(h, |i| i == id), Some(id));
            assert!(ix.remove(h, id));
        }
        assert_eq!(ix.len(), 0);
        audit(&ix);
    }

    proptest! {
        /// Few distinct places, so that displacement and the alternate are
        /// used all the time.
        #[test]
        fn behaves_like_a_map_when_crowded(
            ops in proptest::collection::vec((any::<bool>(), 0_u32..60, 0_u16..6, 0_u64..3), 1..400),
        ) {
            let mut ix = TagIndex::new(1000);
            let mut model: HashMap<u32, u64> = HashMap::new();
            for (insert, id, tag, bucket) in ops {
                let hash = u64::from(tag) << 48 | 0xabc << 20 | bucket;
                match model.get(&id) {
                    None if insert => {
                        ix.insert(hash, id).unwrap();
                        model.insert(id, hash);
                    }
                    Some(h) if !insert => {
                        prop_assert!(ix.remove(*h, id));
                        model.remove(&id);
                    }
                    _ => {}
                }
                prop_assert_eq!(ix.len(), model.len());
            }
            audit(&ix);
            for id in 0..60 {
                if let Some(h) = model.get(&id) {
                    prop_assert_eq!(ix.find(*h, |i| i == id), Some(id));
                }
            }
        }
    }
}
