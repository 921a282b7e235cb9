//! Records of fixed length in chunks: a table's entries.
//!
//! Words are atomic because packets count on them while others read, and look
//! entries up while one writer adds some. Slots are handed out lowest free
//! first, as bmv2's handles are: ties between entries of equal priority are
//! decided by the slot.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// Records in a chunk; growing never moves a record.
const CHUNK: usize = 512;

/// Records of `stride` words.
#[derive(Debug)]
pub(crate) struct Slab {
    stride: usize,
    chunks: Vec<Box<[AtomicU64]>>,
    /// For the one writer.
    free: Mutex<BTreeSet<u32>>,
    /// Slots that were ever used.
    top: AtomicU32,
    live: AtomicU32,
}

impl Slab {
    pub(crate) fn new(stride: usize) -> Self {
        Self {
            stride: stride.max(1),
            chunks: Vec::new(),
            free: Mutex::default(),
            top: AtomicU32::new(0),
            live: AtomicU32::new(0),
        }
    }

    /// Live records.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.live.load(Ordering::Relaxed)
    }

    /// Slots are below this.
    pub(crate) fn top(&self) -> u32 {
        self.top.load(Ordering::Relaxed)
    }

    /// Whether there is a slot to insert into.
    pub(crate) fn has_room(&self) -> bool {
        (self.top() as usize) < self.chunks.len() * CHUNK || !self.free.lock().is_empty()
    }

    /// Sees to it that there is one.
    pub(crate) fn make_room(&mut self) {
        if !self.has_room() {
            let words = CHUNK * self.stride;
            let chunk = (0..words).map(|_| AtomicU64::new(0)).collect();
            self.chunks.push(chunk);
        }
    }

    /// The slot that the next insert takes.
    pub(crate) fn next(&self) -> u32 {
        self.free
            .lock()
            .first()
            .copied()
            .unwrap_or_else(|| self.top())
    }

    /// Takes the lowest free slot; its words are zero. There is room.
    pub(crate) fn insert(&self) -> u32 {
        self.live.fetch_add(1, Ordering::Relaxed);
        let freed = self.free.lock().pop_first();
        freed.unwrap_or_else(|| self.top.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a certain slot, which must be free; its words are zero.
    pub(crate) fn take(&mut self, slot: u32) {
        if self.free.get_mut().remove(&slot) {
            *self.live.get_mut() += 1;
        }
    }

    /// Gives a slot back. No packet may still look at it.
    pub(crate) fn remove(&mut self, slot: u32) {
        for w in self.get(slot) {
            w.store(0, Ordering::Relaxed);
        }
        let live = self.live.get_mut();
        *live = live.saturating_sub(1);
        self.free.get_mut().insert(slot);
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

    /// The first word of a record. If it is not zero, the rest is whole.
    #[inline(always)]
    pub(crate) fn head(&self, slot: u32) -> u64 {
        self.get(slot)
            .first()
            .map_or(0, |w| w.load(Ordering::Acquire))
    }

    /// Sets the first word of a record, the last one to be set.
    pub(crate) fn set_head(&self, slot: u32, value: u64) {
        if let Some(w) = self.get(slot).first() {
            w.store(value, Ordering::Release);
        }
    }

    /// Sets one word of a record.
    pub(crate) fn set(&self, slot: u32, at: usize, value: u64) {
        if let Some(w) = self.get(slot).get(at) {
            w.store(value, Ordering::Relaxed);
        }
    }
}

/// Whether words of a record from `at` on equal the given ones.
#[inline(always)]
pub(crate) fn equal(record: &[AtomicU64], at: usize, words: &[u64]) -> bool {
    record.get(at..at + words.len()).is_some_and(|r| {
        r.iter()
            .zip(words)
            .all(|(a, b)| a.load(Ordering::Relaxed) == *b)
    })
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
        let mut insert = || {
            slab.make_room();
            slab.insert()
        };
        let slots: Vec<u32> = (0..1500).map(|_| insert()).collect();
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
