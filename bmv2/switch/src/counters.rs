//! Indexed counters.

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

    /// Counts a packet; out of range, nothing happens.
    #[inline]
    pub(crate) fn count(&self, index: u64, bytes: u64) {
        if let Some([p, b]) = usize::try_from(index).ok().and_then(|i| self.0.get(i)) {
            p.fetch_add(1, Ordering::Relaxed);
            b.fetch_add(bytes, Ordering::Relaxed);
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
