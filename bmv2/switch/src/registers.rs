//! Register arrays.

use std::sync::atomic::{AtomicU64, Ordering};

use num_bigint::BigInt;
use parking_lot::Mutex;

use crate::control::Value;
use crate::ir::bits::mask64;
use crate::ir::expr::wrap;
use crate::tables::Held;
use crate::tables::key::{bytes_to_limbs, limbs_to_bytes};

/// Cells of up to 64 bits are atomics, wider ones are behind a lock.
#[derive(Debug)]
enum Cells {
    Words(Vec<AtomicU64>),
    Wide(Mutex<Vec<BigInt>>),
}

/// One register array.
#[derive(Debug)]
pub(crate) struct RegisterArray {
    width: u32,
    size: u32,
    cells: Cells,
}

impl RegisterArray {
    pub(crate) fn new(width: u32, size: u32) -> Self {
        let cells = if width <= 64 {
            Cells::Words((0..size).map(|_| AtomicU64::new(0)).collect())
        } else {
            Cells::Wide(Mutex::new(vec![BigInt::ZERO; size as usize]))
        };
        Self { width, size, cells }
    }

    /// Number of cells.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// A cell of up to 64 bits; `None` if out of range or wider.
    #[inline]
    pub(crate) fn read_word(&self, index: u64) -> Option<u64> {
        match &self.cells {
            Cells::Words(w) => w
                .get(usize::try_from(index).ok()?)
                .map(|w| w.load(Ordering::Relaxed)),
            Cells::Wide(_) => None,
        }
    }

    /// A cell; `None` if out of range.
    pub(crate) fn read(&self, index: u64) -> Option<BigInt> {
        let i = usize::try_from(index).ok()?;
        match &self.cells {
            Cells::Words(w) => w.get(i).map(|w| BigInt::from(w.load(Ordering::Relaxed))),
            Cells::Wide(w) => w.lock().get(i).cloned(),
        }
    }

    /// Writes the low bits of a number; out of range, nothing happens.
    #[inline]
    pub(crate) fn write_word(&self, index: u64, value: u64) -> bool {
        match &self.cells {
            Cells::Words(w) => {
                if let Some(w) = usize::try_from(index).ok().and_then(|i| w.get(i)) {
                    w.store(value & mask64(self.width), Ordering::Relaxed);
                }
                true
            }
            Cells::Wide(_) => false,
        }
    }

    /// Writes the low bits of a number; out of range, nothing happens.
    pub(crate) fn write(&self, index: u64, value: BigInt) {
        let low = wrap(value, self.width, false);
        let Ok(i) = usize::try_from(index) else {
            return;
        };
        match &self.cells {
            Cells::Words(w) => {
                if let Some(w) = w.get(i) {
                    w.store(u64::try_from(low).unwrap_or(0), Ordering::Relaxed);
                }
            }
            Cells::Wide(w) => {
                if let Some(w) = w.lock().get_mut(i) {
                    *w = low;
                }
            }
        }
    }

    /// What all cells hold.
    pub(crate) fn held(&self) -> Held {
        match &self.cells {
            Cells::Words(w) => Held::Words(w.iter().map(|w| w.load(Ordering::Relaxed)).collect()),
            Cells::Wide(w) => Held::Numbers(w.lock().clone()),
        }
    }

    /// Puts back what all cells held.
    pub(crate) fn put_back(&self, held: Held) {
        match (&self.cells, held) {
            (Cells::Words(w), Held::Words(old)) => {
                let pairs = w.iter().zip(old);
                pairs.for_each(|(w, old)| w.store(old, Ordering::Relaxed));
            }
            (Cells::Wide(w), Held::Numbers(old)) => *w.lock() = old,
            // Cells do not change their kind.
            _ => {}
        }
    }

    /// A cell as big-endian bytes of the register's width.
    pub(crate) fn read_bytes(&self, index: u32) -> Option<Value> {
        let (_, digits) = self.read(u64::from(index))?.to_bytes_be();
        let limbs = bytes_to_limbs(&digits, self.width.div_ceil(64) as usize);
        Some(limbs_to_bytes(&limbs, self.width))
    }
}

/// All register arrays of a program.
#[derive(Debug, Default)]
pub(crate) struct Registers(pub(crate) Vec<RegisterArray>);

impl Registers {
    /// One array.
    #[inline]
    pub(crate) fn get(&self, register: u32) -> Option<&RegisterArray> {
        self.0.get(register as usize)
    }

    /// A cell, zero if out of range.
    pub(crate) fn read_or_zero(&self, register: u32, index: u64) -> BigInt {
        self.get(register)
            .and_then(|r| r.read(index))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_their_width_and_bounds() {
        for width in [12, 100] {
            let r = RegisterArray::new(width, 4);
            r.write(3, (BigInt::from(1) << 200) + 0xabcde);
            r.write(4, BigInt::from(7));
            let low = if width == 12 { 0xcde } else { 0xabcde };
            assert_eq!(r.read(3), Some(BigInt::from(low)));
            assert_eq!(r.read(4), None);
            assert_eq!(r.read(0), Some(BigInt::ZERO));
            assert_eq!(
                r.read_bytes(3).map(|b| b.len()),
                Some(if width == 12 { 2 } else { 13 })
            );
        }
    }
}
