//! "Hashes" that only take turns, to go through all members of a selector.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Inputs that are remembered; with one more, all are forgotten, so that what
/// packets can fill has an end.
const MOST_INPUTS: usize = 1 << 16;

/// Counts calculations.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicU64);

impl Turn {
    /// This turn; the next call gets the next.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Gives each input a turn once.
#[derive(Debug, Default)]
pub(crate) struct Consistent {
    turn: Turn,
    seen: Mutex<HashMap<Box<[u8]>, u64>>,
}

impl Consistent {
    /// The turn of an input.
    pub(crate) fn of(&self, input: &[u8]) -> u64 {
        let mut seen = self.seen.lock();
        if let Some(&turn) = seen.get(input) {
            return turn;
        }
        if seen.len() >= MOST_INPUTS {
            seen.clear();
        }
        let turn = self.turn.next();
        seen.insert(input.into(), turn);
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_keeps_its_turn() {
        let turns = Consistent::default();
        assert_eq!([turns.of(b"a"), turns.of(b"b"), turns.of(b"a")], [0, 1, 0]);
        assert_eq!(turns.of(b"c"), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let turns = Consistent::default();
        for n in 0..=MOST_INPUTS as u64 {
            assert_eq!(turns.of(&n.to_be_bytes()), n);
        }
        assert_eq!(turns.seen.lock().len(), 1);
    }
}
