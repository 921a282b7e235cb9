//! Records of fixed length in chunks: a table's entries.
//!
//! Words are atomic because packets count on them while others read. Slots are
//! handed out lowest free first, as bmv2's handles are: ties between entries
//! of equal priority are decided by the slot.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records in a chunk; growing never moves a record.
const CHUNK: usize = 512;

/// Records of `stride` words.
#[derive(Debug)]
pub(crate) struct Slab {
    stride: usize,
    chunks: Vec<Box<[AtomicU64]>>,
    free: BTreeSet<u32>,
    /// Slots that were ever used.
    top: u32,
    live: u32,
}

impl Slab {
    pub(crate) fn new(stride: usize) -> Self {
        Self {
            stride: stride.max(1),
            chunks: Vec::new(),
            free: BTreeSet::new(),
            top: 0,
            live: 0,
        }
    }

    /// Live records.
    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    /// Slots are below this.
    pub(crate) fn top(&self) -> u32 {
        self.top
    }

    /// Takes the lowest free slot; its words are zero.
    pub(crate) fn insert(&mut self) -> u32 {
        self.live += 1;
        if let Some(slot) = self.free.pop_first() {
            return slot;
        }
        let slot = self.top;
        self.top += 1;
        if (slot as usize).is_multiple_of(CHUNK) {
            let words = CHUNK * self.stride;
            self.chunks
                .push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        slot
    }

    /// Takes a certain slot, which must be free; its words are zero.
    pub(crate) fn take(&mut self, slot: u32) {
        if self.free.remove(&slot) {
            self.live += 1;
        }
    }

    /// Gives a slot back.
    pub(crate) fn remove(&mut self, slot: u32) {
        for w in self.get(slot) {
            w.store(0, Ordering::Relaxed);
        }
        self.live = self.live.saturating_sub(1);
        self.free.insert(slot);
    }

    /// A record; empty for a slot that never was.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u32) -> &[AtomicU64] {
        let (chunk, at) = (slot as usize / CHUNK, slot as usize % CHUNK * self.stride);
        self.chunks
            .get(chunk)
            .and_then(|c| c.get(at..at + self.stride))
            .unwrap_or(&[])
    }

    /// One word of a record.
    #[inline(always)]
    pub(crate) fn word(&self, slot: u32, at: usize) -> u64 {
        self.get(slot)
            .get(at)
            .map_or(0, |w| w.load(Ordering::Relaxed))
    }

    /// Sets one word of a record.
    pub(crate) fn set(&self, slot: u32, at: usize, value: u64) {
        if let Some(w) = self.get(slot).get(at) {
            w.store(value, Ordering::Relaxed);
        }
    }

    /// Whether words from `at` on equal the given ones.
    #[inline(always)]
    pub(crate) fn equals(&self, slot: u32, at: usize, words: &[u64]) -> bool {
        self.get(slot).get(at..at + words.len()).is_some_and(|r| {
            r.iter()
                .zip(words)
                .all(|(a, b)| a.load(Ordering::Relaxed) == *b)
        })
    }
}

/// What only some slots have, or what records cannot hold, in chunks like the
/// records.
#[derive(Debug)]
pub(crate) struct Beside<T>(Vec<Option<Box<[T]>>>);

impl<T> Default for Beside<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Default> Beside<T> {
    /// A slot's own; `None` if nothing was ever put near it.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        let chunk = self.0.get(slot as usize / CHUNK)?.as_ref()?;
        chunk.get(slot as usize % CHUNK)
    }

    /// A slot's own if its chunk is there.
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let chunk = self.0.get_mut(slot as usize / CHUNK)?.as_mut()?;
        chunk.get_mut(slot as usize % CHUNK)
    }

    /// A slot's own, made if need be.
    pub(crate) fn make(&mut self, slot: u32) -> Option<&mut T> {
        let at = slot as usize / CHUNK;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        self.0
            .get_mut(at)?
            .get_or_insert_with(|| (0..CHUNK).map(|_| T::default()).collect())
            .get_mut(slot as usize % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_comes_first() {
        let mut slab = Slab::new(2);
        let slots: Vec<u32> = (0..1500).map(|_| slab.insert()).collect();
        assert_eq!(slots, (0..1500).collect::<Vec<_>>());
        slab.set(700, 1, 9);
        slab.remove(700);
        slab.remove(3);
        slab.remove(900);
        assert_eq!(slab.len(), 1497);
        assert_eq!(
            [slab.insert(), slab.insert(), slab.insert(), slab.insert()],
            [3, 700, 900, 1500]
        );
        assert_eq!(slab.word(700, 1), 0, "a new record is empty");
        slab.remove(4);
        slab.remove(5);
        slab.take(5);
        assert_eq!((slab.insert(), slab.len()), (4, 1501));
    }

    #[test]
    fn what_is_beside_a_record_needs_no_neighbours() {
        let mut beside: Beside<u8> = Beside::default();
        assert_eq!(beside.get(9000), None);
        assert_eq!(beside.get_mut(9000), None);
        if let Some(b) = beside.make(9000) {
            *b = 7;
        }
        assert_eq!(
            [beside.get(9000), beside.get(9001), beside.get(0)],
            [Some(&7), Some(&0), None]
        );
    }
}
