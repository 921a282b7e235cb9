//! The index of exact tables: extendible hashing.
//!
//! A directory leads from bits of the hash to segments of bounded size; a full
//! segment is split in two. No insert therefore moves more than one segment's
//! entries, however large the table is. Every cell keeps 32 bits of the hash,
//! so that moving it need not look at the record.
//!
//! Cells are atomics: while nothing has to grow, one writer adds entries as
//! packets look others up. Everything else needs the index for itself.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Cells of a segment before its first entry, and when it is split instead of
/// doubled.
const LEAST: usize = 32;
const MOST: usize = 2048;

/// The directory uses these bits of the tag; those below choose the cell.
const FIRST_BIT: u32 = MOST.ilog2();
const MOST_BITS: u32 = 15;

/// The low half of a hash, and a slot. The word 0 is an empty cell.
#[derive(Debug, Clone, Copy)]
struct Cell {
    tag: u32,
    slot: u32,
}

impl Cell {
    fn to_word(self) -> u64 {
        u64::from(self.tag) << 32 | u64::from(self.slot.wrapping_add(1))
    }

    #[inline(always)]
    fn from_word(word: u64) -> Option<Self> {
        (word != 0).then(|| Self {
            tag: (word >> 32) as u32,
            slot: (word as u32).wrapping_sub(1),
        })
    }
}

/// Linear probing, at most three quarters full.
#[derive(Debug)]
struct Segment {
    cells: Box<[AtomicU64]>,
    used: AtomicU32,
    /// Bits of the directory that all its entries have in common.
    depth: u32,
}

impl Segment {
    fn new(cells: usize, depth: u32) -> Self {
        Self {
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicU32::new(0),
            depth,
        }
    }

    fn has_room(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed) as usize + 1;
        used <= self.cells.len() / 4 * 3
    }

    /// The positions that a tag may be at, nearest first.
    #[inline(always)]
    fn probe(&self, tag: u32) -> impl Iterator<Item = usize> + use<> {
        let mask = self.cells.len() - 1;
        (0..=mask).map(move |i| (tag as usize).wrapping_add(i) & mask)
    }

    #[inline(always)]
    fn cell(&self, at: usize) -> Option<Cell> {
        // Pairs with the store in `add`: a record is whole before its cell is
        // seen.
        Cell::from_word(self.cells.get(at)?.load(Ordering::Acquire))
    }

    /// Adds a cell; there is room.
    fn add(&self, cell: Cell) {
        let free = self.probe(cell.tag).find(|&at| self.cell(at).is_none());
        if let Some(place) = free.and_then(|at| self.cells.get(at)) {
            place.store(cell.to_word(), Ordering::Release);
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a cell and closes the gap, so that probing still finds all.
    fn remove(&mut self, tag: u32, slot: u32) {
        let mask = self.cells.len() - 1;
        let found = self.probe(tag).find_map(|at| match self.cell(at) {
            None => Some(None),
            Some(c) => (c.slot == slot).then_some(Some(at)),
        });
        let Some(Some(mut gap)) = found else { return };
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let Some(c) = self.cell(at) else { break };
            // It may move to the gap unless its own place is after the gap.
            let home = c.tag as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.set(gap, c.to_word());
                gap = at;
            }
        }
        self.set(gap, 0);
        self.used.fetch_sub(1, Ordering::Relaxed);
    }

    fn set(&self, at: usize, word: u64) {
        if let Some(place) = self.cells.get(at) {
            place.store(word, Ordering::Release);
        }
    }

    fn all(&self) -> impl Iterator<Item = Cell> + '_ {
        (0..self.cells.len()).filter_map(|at| self.cell(at))
    }
}

/// Slots by hash.
#[derive(Debug)]
pub(crate) struct Exact {
    directory: Vec<u32>,
    segments: Vec<Segment>,
}

impl Exact {
    pub(super) fn new() -> Self {
        Self {
            directory: vec![0],
            segments: vec![Segment::new(LEAST, 0)],
        }
    }

    #[inline(always)]
    fn place(&self, tag: u32) -> Option<usize> {
        let at = (tag >> FIRST_BIT) as usize & (self.directory.len() - 1);
        self.directory.get(at).map(|place| *place as usize)
    }

    #[inline(always)]
    fn segment(&self, tag: u32) -> Option<&Segment> {
        self.segments.get(self.place(tag)?)
    }

    fn segment_mut(&mut self, tag: u32) -> Option<&mut Segment> {
        let at = self.place(tag)?;
        self.segments.get_mut(at)
    }

    /// What `accept` makes of the slot that it accepts, among those with this
    /// hash.
    #[inline(always)]
    pub(super) fn find<T>(&self, hash: u64, accept: impl Fn(u32) -> Option<T>) -> Option<T> {
        let tag = hash as u32;
        let segment = self.segment(tag)?;
        let mask = segment.cells.len() - 1;
        let mut at = tag as usize & mask;
        // Ends at an empty cell, as no segment is full.
        loop {
            let cell = segment.cell(at)?;
            if cell.tag == tag
                && let Some(found) = accept(cell.slot)
            {
                return Some(found);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether an entry can be added as things are.
    pub(crate) fn has_room(&self, hash: u64) -> bool {
        self.segment(hash as u32).is_some_and(Segment::has_room)
    }

    /// Sees to it that an entry can be added.
    pub(super) fn make_room(&mut self, hash: u64) {
        let tag = hash as u32;
        while !self.has_room(hash) {
            let Some(s) = self.segment_mut(tag) else {
                return;
            };
            if s.cells.len() >= MOST && s.depth < MOST_BITS {
                self.split(tag);
            } else {
                let larger = Segment::new(s.cells.len() * 2, s.depth);
                s.all().for_each(|c| larger.add(c));
                *s = larger;
            }
        }
    }

    /// Adds a slot that is not there; there is room. Only one writer at a
    /// time; the slot's record must be whole.
    pub(super) fn add(&self, hash: u64, slot: u32) {
        let tag = hash as u32;
        if let Some(s) = self.segment(tag) {
            s.add(Cell { tag, slot });
        }
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        if let Some(s) = self.segment_mut(hash as u32) {
            s.remove(hash as u32, slot);
        }
    }

    /// Divides a tag's segment by the next bit of the directory.
    fn split(&mut self, tag: u32) {
        let new = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let Some(old) = self.segment_mut(tag) else {
            return;
        };
        let bit = old.depth;
        let depth = bit + 1;
        let halves = [(); 2].map(|()| Segment::new(MOST, depth));
        for cell in old.all() {
            if let Some(h) = halves.get((cell.tag >> FIRST_BIT >> bit) as usize & 1) {
                h.add(cell);
            }
        }
        let [low, high] = halves;
        *old = low;
        self.segments.push(high);
        if self.directory.len() < 1 << depth {
            self.directory.extend_from_within(..);
        }
        let first = ((tag >> FIRST_BIT) as usize & ((1 << bit) - 1)) | (1 << bit);
        for place in self.directory.iter_mut().skip(first).step_by(1 << depth) {
            *place = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spread as the real hash spreads (splitmix64).
    fn hash(n: u32) -> u64 {
        let mut z = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 31)
    }

    fn insert(index: &mut Exact, hash: u64, slot: u32) {
        index.make_room(hash);
        index.add(hash, slot);
    }

    fn find(index: &Exact, hash: u64, slot: u32) -> Option<u32> {
        index.find(hash, |s| (s == slot).then_some(s))
    }

    #[test]
    fn every_slot_is_found_while_segments_split_and_slots_leave() {
        let mut index = Exact::new();
        for n in 0..100_000 {
            insert(&mut index, hash(n), n);
            assert_eq!(find(&index, hash(n / 2), n / 2), Some(n / 2));
        }
        assert!(index.segments.len() > 100_000 / MOST);
        assert!(index.segments.iter().all(|s| s.cells.len() <= MOST));
        for n in (0..100_000).step_by(3) {
            index.remove(hash(n), n);
        }
        for n in 0..100_000 {
            let expected = (n % 3 != 0).then_some(n);
            assert_eq!(find(&index, hash(n), n), expected, "{n}");
        }
        let left: usize = index.segments.iter().map(|s| s.all().count()).sum();
        assert_eq!(left, 66_666);
    }

    /// Neighbours in one run of cells, some of them round the end.
    #[test]
    fn closing_a_gap_loses_no_neighbour() {
        let tags = [30, 30, 31, 0, 0, 31, 2, 1, 30, 5];
        for removed in 0..tags.len() {
            let mut index = Exact::new();
            for (slot, tag) in (0..).zip(tags) {
                insert(&mut index, tag, slot);
            }
            index.remove(tags[removed], removed as u32);
            for (slot, tag) in (0..).zip(tags) {
                let expected = (slot as usize != removed).then_some(slot);
                assert_eq!(find(&index, tag, slot), expected);
            }
        }
    }

    #[test]
    fn equal_hashes_are_told_apart_and_end_no_loop() {
        let mut index = Exact::new();
        for n in 0..2 * MOST as u32 {
            insert(&mut index, 7, n);
        }
        assert_eq!(find(&index, 7, 3000), Some(3000));
        index.remove(7, 3000);
        assert_eq!(find(&index, 7, 3000), None);
        assert_eq!(index.find(8, Some), None);
    }
}
