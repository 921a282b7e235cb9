//! Bringing the configuration tables from what is there to what ought to be.
//!
//! The mirror holds what the switch is known to have. The difference to what
//! is desired becomes batches in an order that never leads a packet to
//! something that is not there yet: additions and changes from the tables that
//! are led to upwards, deletions last and downwards (make before break).

use std::collections::{BTreeMap, HashMap};

use crate::dataplane::{Outcomes, Reading, Update, UpdateError};
use crate::entry::{Entry, Key, Table};

/// What the configuration tables of the switch are known to hold.
#[derive(Debug, Default)]
pub struct Mirror {
    present: HashMap<Key, Entry>,
    /// Updates that the switch refused when they were tried last.
    failed: BTreeMap<Key, String>,
    in_flight: bool,
    /// Counts writes, so that a read-back knows whether one came between.
    writes: u64,
}

impl Mirror {
    /// The switch holds exactly this.
    pub fn reset(&mut self, readings: &[Reading]) {
        self.present = readings
            .iter()
            .filter(|reading| !reading.entry.key.table().is_flow())
            .map(|reading| (reading.entry.key, reading.entry))
            .collect();
        self.failed.clear();
        self.in_flight = false;
        self.writes += 1;
    }

    /// The entry with this key.
    pub fn get(&self, key: &Key) -> Option<&Entry> {
        self.present.get(key)
    }

    /// Entries of a table.
    pub fn of_table(&self, table: Table) -> impl Iterator<Item = &Entry> {
        self.present
            .values()
            .filter(move |entry| entry.key.table() == table)
    }

    /// Number of entries by table.
    pub fn fill(&self) -> BTreeMap<Table, u64> {
        let mut fill = BTreeMap::new();
        for key in self.present.keys() {
            *fill.entry(key.table()).or_insert(0) += 1;
        }
        fill
    }

    /// What the switch refused, with its reasons.
    pub fn failed(&self) -> &BTreeMap<Key, String> {
        &self.failed
    }

    /// Whether the switch has what is desired.
    pub fn converged(&self, desired: &BTreeMap<Key, Entry>) -> bool {
        !self.in_flight
            && self.present.len() == desired.len()
            && desired
                .iter()
                .all(|(key, entry)| self.present.get(key) == Some(entry))
    }

    /// The batches that are still missing, of at most `limit` updates each, to
    /// be written one after the other; none while others are on their way.
    pub fn next_batches(
        &mut self,
        desired: &BTreeMap<Key, Entry>,
        limit: usize,
    ) -> Option<Vec<Vec<Update>>> {
        if self.in_flight {
            return None;
        }
        let mut additions: BTreeMap<Table, Vec<Update>> = BTreeMap::new();
        for (key, entry) in desired {
            let update = match self.present.get(key) {
                Some(present) if present == entry => continue,
                Some(_) => Update::Modify(*entry),
                None => Update::Insert(*entry),
            };
            additions.entry(key.table()).or_default().push(update);
        }
        let mut deletions: BTreeMap<Table, Vec<Update>> = BTreeMap::new();
        for key in self.present.keys() {
            if !desired.contains_key(key) {
                let update = Update::Delete(*key);
                deletions.entry(key.table()).or_default().push(update);
            }
        }
        let batches: Vec<Vec<Update>> = additions
            .into_values()
            .chain(deletions.into_values().rev())
            .flat_map(|updates| {
                updates
                    .chunks(limit.max(1))
                    .map(<[Update]>::to_vec)
                    .collect::<Vec<_>>()
            })
            .collect();
        if batches.is_empty() {
            return None;
        }
        self.in_flight = true;
        self.writes += 1;
        Some(batches)
    }

    /// Takes in what came of one of the batches.
    pub fn batch_done(&mut self, updates: &[Update], outcomes: &Outcomes) {
        for (update, outcome) in updates.iter().zip(outcomes) {
            let key = update.key();
            self.failed.remove(&key);
            match (update, outcome) {
                (Update::Insert(entry) | Update::Modify(entry), Ok(())) => {
                    self.present.insert(key, *entry);
                }
                (Update::Delete(_), Ok(()) | Err(UpdateError::NotFound)) => {
                    self.present.remove(&key);
                }
                (Update::Modify(_), Err(UpdateError::NotFound)) => {
                    self.present.remove(&key);
                }
                (Update::Insert(entry), Err(UpdateError::Exists)) => {
                    // Something is there that we did not know; change it next.
                    let mut unknown = *entry;
                    unknown.idle_timeout_ms = u32::MAX;
                    self.present.insert(key, unknown);
                }
                (_, Err(error)) => {
                    self.failed.insert(key, error.to_string());
                }
            }
        }
    }

    /// All batches have been written, or the connection was lost.
    pub fn finished(&mut self) {
        self.in_flight = false;
    }

    /// A moment for [`Mirror::readback`]; `None` while writes are on their way.
    pub fn readback_started(&self) -> Option<u64> {
        (!self.in_flight).then_some(self.writes)
    }

    /// The tables have been read since `started`. Returns how many entries
    /// were not as they had been written; 0 if writes came between.
    pub fn readback(&mut self, started: u64, readings: &[Reading]) -> u64 {
        if self.in_flight || self.writes != started {
            return 0;
        }
        let read: HashMap<Key, Entry> = readings
            .iter()
            .filter(|reading| !reading.entry.key.table().is_flow())
            .map(|reading| (reading.entry.key, reading.entry))
            .collect();
        let changed = read
            .iter()
            .filter(|(key, entry)| self.present.get(*key) != Some(entry))
            .count();
        let missing = self
            .present
            .keys()
            .filter(|key| !read.contains_key(*key))
            .count();
        self.present = read;
        (changed + missing) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Value;

    fn route(last: u8, nexthop_id: u16) -> Entry {
        Entry::new(
            Key::RouteV4 {
                vni: 0,
                addr: [10, 0, 0, last].into(),
                len: 32,
            },
            Value::ToNexthop { nexthop_id },
        )
    }

    fn mtu(id: u16) -> Entry {
        Entry::new(Key::NexthopMtu { id }, Value::Mtu { mtu: 1500 })
    }

    fn desired(entries: &[Entry]) -> BTreeMap<Key, Entry> {
        entries.iter().map(|entry| (entry.key, *entry)).collect()
    }

    fn readings(entries: &[Entry]) -> Vec<Reading> {
        entries
            .iter()
            .map(|&entry| Reading {
                entry,
                count: None,
                idle_ms: None,
            })
            .collect()
    }

    #[test]
    fn what_is_led_to_comes_first_and_goes_last() {
        let mut mirror = Mirror::default();
        mirror.reset(&readings(&[route(1, 1), mtu(1)]));
        let batches = mirror
            .next_batches(&desired(&[route(2, 2), mtu(2)]), 500)
            .unwrap();
        assert_eq!(
            batches,
            vec![
                vec![Update::Insert(mtu(2))],
                vec![Update::Insert(route(2, 2))],
                vec![Update::Delete(route(1, 1).key)],
                vec![Update::Delete(mtu(1).key)],
            ]
        );
    }

    #[test]
    fn a_change_is_one_modify_and_nothing_else() {
        let mut mirror = Mirror::default();
        mirror.reset(&readings(&[route(1, 1), route(2, 1)]));
        let wanted = desired(&[route(1, 7), route(2, 1)]);
        let batches = mirror.next_batches(&wanted, 500).unwrap();
        assert_eq!(batches, vec![vec![Update::Modify(route(1, 7))]]);
        mirror.batch_done(&batches[0], &vec![Ok(())]);
        mirror.finished();
        assert!(mirror.converged(&wanted));
        assert_eq!(mirror.next_batches(&wanted, 500), None);
    }

    #[test]
    fn what_failed_is_told_and_tried_again() {
        let mut mirror = Mirror::default();
        let wanted = desired(&[route(1, 1), route(2, 1)]);
        let batches = mirror.next_batches(&wanted, 500).unwrap();
        assert_eq!(mirror.next_batches(&wanted, 500), None, "one at a time");
        let outcomes = vec![Ok(()), Err(UpdateError::Full("16384 entries".into()))];
        mirror.batch_done(&batches[0], &outcomes);
        mirror.finished();
        assert_eq!(mirror.failed().len(), 1);
        assert!(!mirror.converged(&wanted));
        let again = mirror.next_batches(&wanted, 500).unwrap();
        assert_eq!(again, vec![vec![Update::Insert(route(2, 1))]]);
    }

    #[test]
    fn an_entry_that_was_there_already_is_changed() {
        let mut mirror = Mirror::default();
        let wanted = desired(&[route(1, 1)]);
        let batches = mirror.next_batches(&wanted, 500).unwrap();
        mirror.batch_done(&batches[0], &vec![Err(UpdateError::Exists)]);
        mirror.finished();
        let again = mirror.next_batches(&wanted, 500).unwrap();
        assert_eq!(again, vec![vec![Update::Modify(route(1, 1))]]);
    }

    #[test]
    fn a_read_back_counts_what_nobody_wrote() {
        let mut mirror = Mirror::default();
        mirror.reset(&readings(&[route(1, 1), route(2, 1), mtu(1)]));
        let started = mirror.readback_started().unwrap();
        // One is missing, one is changed, one has come from nowhere.
        let drift = mirror.readback(started, &readings(&[route(1, 9), mtu(1), mtu(2)]));
        assert_eq!(drift, 3);
        let wanted = desired(&[route(1, 1), route(2, 1), mtu(1)]);
        let batches = mirror.next_batches(&wanted, 500).unwrap();
        assert_eq!(
            batches,
            vec![
                vec![Update::Modify(route(1, 1)), Update::Insert(route(2, 1))],
                vec![Update::Delete(mtu(2).key)],
            ]
        );
        assert_eq!(mirror.readback_started(), None, "writes are on their way");
        assert_eq!(mirror.readback(started, &[]), 0, "overtaken by a write");
    }
}
