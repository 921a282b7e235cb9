//! What each table made of the key that it was asked last.
//!
//! Packets come in trains, by the same port, for the same service: what one
//! asks of a table is often what the one before it asked. Comparing with that
//! takes one line of cache; a look-up takes an index, an entry and the action
//! that it calls, each at an address that the one before has told.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ir::code::{Called, Pc};
use crate::tables::Tables;

/// Words of the longest key and of the most parameters that are kept.
pub(super) const WORDS: usize = 2;

/// What the tables made of their last keys for one worker.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// By table.
    last: Vec<Last>,
    /// [`Tables::changes`] at that time.
    changes: u64,
}

/// A key, and the call that it led to. Neither misses, as entries may be added
/// while packets look others up, nor entries that take notice of packets.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Last {
    key: [Cell<u64>; WORDS],
    call: Cell<Option<Call>>,
}

/// An action that an entry calls. What the action does not use of the
/// parameters means nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) start: Pc,
    /// Where to go on after it.
    pub(super) hit: Pc,
    pub(super) params: [u64; WORDS],
}

impl Recent {
    /// For so many tables, which were never asked anything.
    pub(crate) fn new(tables: usize) -> Self {
        Self {
            last: (0..tables).map(|_| Last::default()).collect(),
            changes: 0,
        }
    }

    /// Forgets what may hold no longer. To be called whenever the tables have
    /// been locked for reading.
    pub(crate) fn refresh(&mut self, tables: &Tables) {
        if self.changes != tables.changes() {
            self.changes = tables.changes();
            self.last.iter().for_each(|last| last.call.set(None));
        }
    }

    /// What a key leads to in a table, if that was asked last.
    #[inline(always)]
    pub(super) fn call(&self, table: usize, key: [u64; WORDS]) -> Option<Call> {
        let last = self.last.get(table)?;
        let is_same = last.key.iter().zip(key).all(|(a, b)| a.get() == b);
        is_same.then(|| last.call.get())?
    }

    /// Keeps what a key has led to, if the parameters are few.
    #[inline(always)]
    pub(super) fn keep(
        &self,
        table: usize,
        key: [u64; WORDS],
        called: &Called,
        words: &[AtomicU64],
    ) {
        let Some(last) = self.last.get(table) else {
            return;
        };
        if words.len() > WORDS {
            return;
        }
        let mut params = [0; WORDS];
        for (to, word) in params.iter_mut().zip(words) {
            *to = word.load(Ordering::Relaxed);
        }
        last.key.iter().zip(key).for_each(|(to, word)| to.set(word));
        last.call.set(Some(Call {
            start: called.start,
            hit: called.hit,
            params,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLED: Called = Called {
        start: 70,
        hit: 80,
        miss: 90,
        words: 0,
    };

    fn words(values: &[u64]) -> Vec<AtomicU64> {
        values.iter().map(|v| AtomicU64::new(*v)).collect()
    }

    #[test]
    fn only_the_last_key_of_the_same_table_is_known() {
        let recent = Recent::new(2);
        let known = |table, key| {
            let call = recent.call(table, key)?;
            Some((call.start, call.hit, call.params))
        };
        // Never asked, though its key is zeros.
        assert_eq!(known(1, [0, 0]), None);
        recent.keep(1, [5, 6], &CALLED, &words(&[7, 8]));
        assert_eq!(known(1, [5, 6]), Some((70, 80, [7, 8])));
        for (table, key) in [(0, [5, 6]), (1, [5, 0]), (1, [0, 6]), (2, [5, 6])] {
            assert_eq!(known(table, key), None, "{table} {key:?}");
        }
        recent.keep(1, [9, 0], &CALLED, &[]);
        assert_eq!(known(1, [9, 0]), Some((70, 80, [0, 0])));
        assert_eq!(known(1, [5, 6]), None);
    }

    #[test]
    fn calls_with_many_parameters_are_not_kept() {
        let recent = Recent::new(1);
        recent.keep(0, [5, 6], &CALLED, &words(&[1, 2, 3]));
        assert!(recent.call(0, [5, 6]).is_none());
        recent.keep(0, [5, 6], &CALLED, &words(&[1, 2]));
        recent.keep(0, [5, 7], &CALLED, &words(&[1, 2, 3]));
        assert!(recent.call(0, [5, 7]).is_none());
    }
}
