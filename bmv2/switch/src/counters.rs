//! Indexed counters.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::control::CounterValue;

/// An array of packet and byte counters.
#[derive(Debug, Default)]
pub(crate) struct CounterArray(Vec<[AtomicU64; 2]>);

impl CounterArray {
    pub(crate) fn new(size: u32) -> Self {
        Self(
            (0..size)
                .map(|_| [AtomicU64::new(0), AtomicU64::new(0)])
                .collect(),
        )
    }

    /// Number of cells.
    pub(crate) fn size(&self) -> usize {
        self.0.len()
    }

    /// Adds to a cell; out of range, nothing happens.
    fn add(&self, index: u64, more: CounterValue) {
        if let Some([p, b]) = usize::try_from(index).ok().and_then(|i| self.0.get(i)) {
            p.fetch_add(more.packets, Ordering::Relaxed);
            b.fetch_add(more.bytes, Ordering::Relaxed);
        }
    }

    /// A cell.
    pub(crate) fn get(&self, index: usize) -> Option<CounterValue> {
        self.0.get(index).map(|[p, b]| CounterValue {
            packets: p.load(Ordering::Relaxed),
            bytes: b.load(Ordering::Relaxed),
        })
    }

    /// Sets a cell.
    pub(crate) fn set(&self, index: usize, value: CounterValue) {
        if let Some([p, b]) = self.0.get(index) {
            p.store(value.packets, Ordering::Relaxed);
            b.store(value.bytes, Ordering::Relaxed);
        }
    }
}

/// What a worker has counted but not yet added to the arrays.
///
/// The packets of a burst often count in the same cells (one port, one class
/// of traffic). Adding once for all of them saves most of the atomic
/// operations, and cores do not fight over the cells.
#[derive(Debug, Default)]
pub(crate) struct Pending(Vec<Cell<Count>>);

/// A cell of one array, and what is to be added to it.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    index: u64,
    value: CounterValue,
}

impl Pending {
    /// For so many arrays.
    pub(crate) fn new(arrays: usize) -> Self {
        Self((0..arrays).map(|_| Cell::default()).collect())
    }

    /// Counts a packet in a cell of an array; out of range, nothing happens.
    #[inline]
    pub(crate) fn count(&self, arrays: &[CounterArray], array: u32, index: u64, bytes: u64) {
        let Some(cell) = self.0.get(array as usize) else {
            return;
        };
        let mut count = cell.get();
        if count.index != index {
            if let (true, Some(a)) = (count.value.packets > 0, arrays.get(array as usize)) {
                a.add(count.index, count.value);
            }
            count = Count {
                index,
                value: CounterValue::default(),
            };
        }
        count.value.packets += 1;
        count.value.bytes += bytes;
        cell.set(count);
    }

    /// Adds what is outstanding.
    pub(crate) fn flush(&self, arrays: &[CounterArray]) {
        for (cell, array) in self.0.iter().zip(arrays) {
            let count = cell.take();
            if count.value.packets > 0 {
                array.add(count.index, count.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_added_to_the_cells_they_count_in() {
        let arrays = [CounterArray::new(4), CounterArray::new(1)];
        let pending = Pending::new(2);
        for (array, index, bytes) in [
            (0, 3, 10),
            (0, 3, 20),
            (1, 0, 5),
            (0, 1, 7),
            (0, 3, 1),
            // There are no such cells.
            (0, 4, 9),
            (1, u64::MAX, 9),
            (2, 0, 9),
        ] {
            pending.count(&arrays, array, index, bytes);
        }
        pending.flush(&arrays);
        pending.flush(&arrays);
        let value = |array: usize, cell| arrays[array].get(cell).map(|v| (v.packets, v.bytes));
        assert_eq!(value(0, 3), Some((3, 31)));
        assert_eq!(value(0, 1), Some((1, 7)));
        assert_eq!(value(0, 0), Some((0, 0)));
        assert_eq!(value(1, 0), Some((1, 5)));
    }
}
