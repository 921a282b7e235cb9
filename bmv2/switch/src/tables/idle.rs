//! Entries that had no hit for their idle timeout.

use std::sync::atomic::Ordering;

use super::Tables;
use super::table::{LIVE, REPORTED};
use crate::control::EntryState;
use crate::program::{Program, TableId};
use crate::switch::Timestamp;

/// Slots that one call looks at, and entries that it reports: packets may have
/// to wait behind a writer that waits for it.
const SLOTS: u32 = 4096;
const REPORTS: usize = 64;

impl Tables {
    /// Looks at slots from `from` on: entries that are idle and were not
    /// reported at the sweep before, and the slot to go on from.
    ///
    /// That an entry was reported is noted in its record, so this needs no
    /// more than others that read; sweeps themselves must not overlap.
    pub(crate) fn sweep(
        &self,
        program: &Program,
        table: TableId,
        from: u32,
        now: Timestamp,
    ) -> (Vec<EntryState>, Option<u32>) {
        let mut found = Vec::new();
        let Ok(t) = self.table(table) else {
            return (found, None);
        };
        let end = from.saturating_add(SLOTS).min(t.slab.top());
        let now_ms = now.as_nanos() / 1_000_000;
        for slot in from..end {
            if found.len() >= REPORTS {
                return (found, Some(slot));
            }
            let record = t.slab.get(slot);
            let word = |at: usize| record.get(at).map_or(0, |w| w.load(Ordering::Relaxed));
            let (head, timeout) = (t.slab.head(slot), word(t.offsets.timeout));
            if head & LIVE == 0 || timeout == 0 {
                continue;
            }
            let since = now_ms.saturating_sub(word(t.offsets.last_hit) / 1_000_000);
            let idle = since >= (timeout / 1_000_000).max(1);
            let reported = head & REPORTED != 0;
            if idle && !reported {
                t.slab.set_head(slot, head | REPORTED);
            } else if reported {
                t.slab.set_head(slot, head & !REPORTED);
            }
            if idle && !reported {
                found.extend(self.entry_state(program, table, slot, now));
            }
        }
        (found, (end < t.slab.top()).then_some(end))
    }

    /// Whether a table's entries can time out.
    pub(crate) fn is_timed(&self, table: usize) -> bool {
        self.tables.get(table).is_some_and(|t| t.timed && t.keyed)
    }
}
