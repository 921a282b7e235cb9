//! The index of exact tables: extendible hashing.
//!
//! A directory leads from bits of the hash to segments of bounded size; a full
//! segment is split in two. No insert therefore moves more than one segment's
//! entries, however large the table is, which bounds how long packets wait for
//! it. Every cell keeps 32 bits of the hash, so that moving it need not look
//! at the record.

use hashbrown::HashTable;

/// Entries of a segment that is split: seven eighths of 2048, where a hash
/// table would double.
const FULL: usize = 1792;

/// The directory uses these bits of the tag: those below choose the place in a
/// segment, the seven above are what the segment's table keeps of a hash.
const FIRST_BIT: u32 = 10;
const MOST_BITS: u32 = 15;

#[derive(Debug, Clone, Copy)]
struct Cell {
    tag: u32,
    slot: u32,
}

impl Cell {
    /// The hash that a segment's table works with.
    #[inline(always)]
    fn hash(tag: u32) -> u64 {
        (u64::from(tag) << 32) | u64::from(tag)
    }
}

#[derive(Debug, Default)]
struct Segment {
    cells: HashTable<Cell>,
    /// Bits of the directory that all its entries have in common.
    depth: u32,
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
            segments: vec![Segment::default()],
        }
    }

    #[inline(always)]
    fn segment(&self, tag: u32) -> usize {
        let at = (tag >> FIRST_BIT) as usize & (self.directory.len() - 1);
        self.directory.get(at).copied().unwrap_or(0) as usize
    }

    /// The slot with this hash that `is_it` accepts.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = hash as u32;
        self.segments
            .get(self.segment(tag))?
            .cells
            .find(Cell::hash(tag), |c| c.tag == tag && is_it(c.slot))
            .map(|c| c.slot)
    }

    /// Adds a slot that is not there.
    pub(super) fn insert(&mut self, hash: u64, slot: u32) {
        let cell = Cell {
            tag: hash as u32,
            slot,
        };
        loop {
            let at = self.segment(cell.tag);
            let Some(s) = self.segments.get_mut(at) else {
                return;
            };
            if s.cells.len() >= FULL && s.depth < MOST_BITS {
                self.split(at);
                continue;
            }
            s.cells
                .insert_unique(Cell::hash(cell.tag), cell, |c| Cell::hash(c.tag));
            return;
        }
    }

    /// Takes a slot out.
    pub(super) fn remove(&mut self, hash: u64, slot: u32) {
        let tag = hash as u32;
        let at = self.segment(tag);
        if let Some(s) = self.segments.get_mut(at)
            && let Ok(found) = s.cells.find_entry(Cell::hash(tag), |c| c.slot == slot)
        {
            found.remove();
        }
    }

    /// Divides a segment by the next bit of the directory.
    fn split(&mut self, at: usize) {
        let new = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        let Some(old) = self.segments.get_mut(at) else {
            return;
        };
        let bit = old.depth;
        let depth = bit + 1;
        let half = old.cells.len() / 2;
        let mut halves = [(); 2].map(|()| HashTable::with_capacity(half));
        let mut prefix = 0;
        for cell in old.cells.drain() {
            prefix = cell.tag >> FIRST_BIT;
            if let Some(h) = halves.get_mut((prefix >> bit) as usize & 1) {
                h.insert_unique(Cell::hash(cell.tag), cell, |c: &Cell| Cell::hash(c.tag));
            }
        }
        let [low, high] = halves;
        *old = Segment { cells: low, depth };
        self.segments.push(Segment { cells: high, depth });
        if self.directory.len() < 1 << depth {
            self.directory.extend_from_within(..);
        }
        let first = (prefix as usize & ((1 << bit) - 1)) | (1 << bit);
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

    #[test]
    fn every_slot_is_found_while_segments_split_and_slots_leave() {
        let mut index = Exact::new();
        for n in 0..100_000 {
            index.insert(hash(n), n);
            assert_eq!(index.find(hash(n / 2), |s| s == n / 2), Some(n / 2));
        }
        assert!(index.segments.len() > 100_000 / FULL);
        assert!(index.segments.iter().all(|s| s.cells.len() <= FULL));
        for n in (0..100_000).step_by(3) {
            index.remove(hash(n), n);
        }
        for n in 0..100_000 {
            let expected = (n % 3 != 0).then_some(n);
            assert_eq!(index.find(hash(n), |s| s == n), expected, "{n}");
        }
    }

    #[test]
    fn equal_hashes_are_told_apart_and_end_no_loop() {
        let mut index = Exact::new();
        for n in 0..2 * FULL as u32 {
            index.insert(7, n);
        }
        assert_eq!(index.find(7, |s| s == 3000), Some(3000));
        index.remove(7, 3000);
        assert_eq!(index.find(7, |s| s == 3000), None);
        assert_eq!(index.find(8, |_| true), None);
    }
}
