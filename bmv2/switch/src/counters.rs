//! Indexed counters, and what workers have counted since their last burst.

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

/// What a worker has counted but not yet added to the arrays and to the default
/// entries of tables.
///
/// The packets of a burst often count in the same cells (one port, one class
/// of traffic). Adding once for all of them saves most of the atomic
/// operations, and cores do not fight over the cells.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    cells: Vec<Count>,
    /// Of each table.
    misses: Vec<Cell<CounterValue>>,
}

/// A cell of one array, and what is to be added to it. Each number by itself:
/// copied as one they would go through memory twice for each packet.
#[derive(Debug, Default)]
struct Count {
    index: Cell<u64>,
    packets: Cell<u64>,
    bytes: Cell<u64>,
}

impl Count {
    /// What is to be added; nothing is from now on.
    fn take(&self) -> CounterValue {
        CounterValue {
            packets: self.packets.take(),
            bytes: self.bytes.take(),
        }
    }
}

impl Pending {
    /// For so many arrays and tables.
    pub(crate) fn new(arrays: usize, tables: usize) -> Self {
        Self {
            cells: (0..arrays).map(|_| Count::default()).collect(),
            misses: vec![Cell::default(); tables],
        }
    }

    /// Counts a packet that missed in a table.
    #[inline]
    pub(crate) fn miss(&self, table: usize, bytes: u64) {
        if let Some(cell) = self.misses.get(table) {
            let mut value = cell.get();
            value.packets += 1;
            value.bytes += bytes;
            cell.set(value);
        }
    }

    /// Counts a packet in a cell of an array; out of range, nothing happens.
    #[inline(always)]
    pub(crate) fn count(&self, arrays: &[CounterArray], array: u32, index: u64, bytes: u64) {
        let Some(count) = self.cells.get(array as usize) else {
            return;
        };
        if count.index.get() != index {
            Self::turn_to(arrays, array, count, index);
        }
        count.packets.set(count.packets.get() + 1);
        count.bytes.set(count.bytes.get() + bytes);
    }

    /// Adds what a cell is to get, and begins with another.
    #[cold]
    #[inline(never)]
    fn turn_to(arrays: &[CounterArray], array: u32, count: &Count, index: u64) {
        let (before, value) = (count.index.replace(index), count.take());
        if let (true, Some(a)) = (value.packets > 0, arrays.get(array as usize)) {
            a.add(before, value);
        }
    }

    /// Adds what is outstanding; `missed` gets what a table's default entry is to
    /// count.
    pub(crate) fn flush(&self, arrays: &[CounterArray], missed: impl Fn(usize, CounterValue)) {
        for (count, array) in self.cells.iter().zip(arrays) {
            let value = count.take();
            if value.packets > 0 {
                array.add(count.index.get(), value);
            }
        }
        for (table, cell) in self.misses.iter().enumerate() {
            let value = cell.take();
            if value.packets > 0 {
                missed(table, value);
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
        let pending = Pending::new(2, 2);
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
        for (table, bytes) in [(1, 60), (1, 70), (2, 9)] {
            pending.miss(table, bytes);
        }
        let missed = Cell::new(Vec::new());
        for _ in 0..2 {
            pending.flush(&arrays, |table, value| {
                let mut all = missed.take();
                all.push((table, value.packets, value.bytes));
                missed.set(all);
            });
        }
        assert_eq!(missed.take(), [(1, 2, 130)]);
        let value = |array: usize, cell| arrays[array].get(cell).map(|v| (v.packets, v.bytes));
        assert_eq!(value(0, 3), Some((3, 31)));
        assert_eq!(value(0, 1), Some((1, 7)));
        assert_eq!(value(0, 0), Some((0, 0)));
        assert_eq!(value(1, 0), Some((1, 5)));
    }
}
