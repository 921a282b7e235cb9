//! Comparing the book with what was read from the switch.

use std::collections::{HashMap, HashSet};

use super::{Dir, Flow, FlowBook, Have, IdCheck, Pair, idle};
use crate::dataplane::Reading;
use crate::entry::{Entry, Key, Value};

impl FlowBook {
    /// The switch is gone; what was under way is unknown.
    pub fn switch_down(&mut self) {
        self.switch_up = false;
        self.gone = None;
    }

    /// The switch is there, and this is all that its flow tables hold. Nothing
    /// has been written since.
    pub fn switch_up(&mut self, readings: &[Reading], ids: &dyn IdCheck) {
        self.switch_up = true;
        self.strays_in_flight = 0;
        self.strays.clear();
        self.queue.clear();
        self.refused.clear();
        for flow in self.flows.values_mut() {
            flow.have = [Have::Absent; 2];
            flow.in_flight = false;
            flow.queued = false;
        }
        let mut extra = Vec::new();
        for reading in readings {
            match self.owner_of(&reading.entry.key) {
                Some((id, dir)) => {
                    if let Some(flow) = self.flows.get_mut(&id) {
                        flow.have[dir as usize] = compare(flow, dir, &reading.entry);
                        flow.count[dir as usize] = reading.count.unwrap_or_default();
                    }
                }
                None => extra.push(reading.entry),
            }
        }
        self.import(extra, ids);
        self.known = true;
        let ids: Vec<u64> = self.flows.keys().copied().collect();
        for id in ids {
            let Some(flow) = self.flows.get(&id) else {
                continue;
            };
            if flow.settled() {
                self.finish_if_settled(id);
            } else {
                if flow.want.is_ok() && flow.announced {
                    self.stats.reinstalled += 1;
                }
                self.enqueue(id);
            }
        }
        self.answer_all_pending_removals();
    }

    /// Makes sessions of entries that the book does not know, as far as they
    /// pair up and an LD owns their local address; the rest is to be deleted.
    fn import(&mut self, extra: Vec<Entry>, ids: &dyn IdCheck) {
        let mut forward: HashMap<(u16, u16), Vec<Entry>> = HashMap::new();
        for entry in &extra {
            if let Value::Fwd {
                local_id,
                local_port,
                ..
            } = entry.value
            {
                forward
                    .entry((local_id, local_port))
                    .or_default()
                    .push(*entry);
            }
        }
        let mut paired = HashSet::new();
        for rev in &extra {
            let Key::FlowRev(key) = rev.key else { continue };
            let pair = forward
                .get(&(key.local_id, key.local_port))
                .into_iter()
                .flatten()
                .filter(|fwd| !paired.contains(&fwd.key))
                .find_map(|fwd| Pair::from_entries(fwd, rev));
            let Some(pair) = pair else { continue };
            // Nobody to ask and nobody who would end it, but it stands for an
            // established connection: it stays until it is idle.
            let ld = ids
                .owner(pair.rev.local_id)
                .unwrap_or_else(|| std::sync::Arc::from(""));
            let state = self.ld(&ld);
            if state.synced && !state.new_boot {
                // The LD has told all that it has, and this is not of it.
                continue;
            }
            paired.extend(Dir::BOTH.map(|dir| pair.key(dir)));
            self.stats.imported += 1;
            self.add(Flow {
                ld,
                session: None,
                pair,
                generation: 0,
                want: Ok(()),
                have: [Have::Present; 2],
                in_flight: false,
                queued: false,
                announced: true,
                claimed: 0,
                touched: self.clock,
                count: Default::default(),
                idle: idle::IdleState::default(),
                owes_installed: false,
                waiters: Vec::new(),
            });
        }
        for entry in extra {
            if !paired.contains(&entry.key) {
                self.stats.strays += 1;
                self.strays.push_back(entry.key);
            }
        }
    }

    fn owner_of(&self, key: &Key) -> Option<(u64, Dir)> {
        match key {
            Key::FlowFwd(key) => self.by_fwd.get(key).map(|&id| (id, Dir::Fwd)),
            Key::FlowRev(key) => self.by_rev.get(key).map(|&id| (id, Dir::Rev)),
            _ => None,
        }
    }

    /// The tables are about to be read while writes go on. Returns the moment,
    /// for [`FlowBook::readback_done`].
    pub fn readback_started(&mut self) -> u64 {
        self.gone = Some(HashSet::new());
        self.clock += 1;
        self.clock
    }

    /// The flow tables have been read since `started`. Repairs differences
    /// that no write explains; returns how many there were.
    pub fn readback_done(&mut self, started: u64, readings: &[Reading]) -> u64 {
        let Some(gone) = self.gone.take() else {
            // The connection was lost meanwhile; all has been read anew.
            return 0;
        };
        let mut seen: HashMap<Key, &Entry> = HashMap::with_capacity(readings.len());
        let mut drift = 0;
        for reading in readings {
            match self.owner_of(&reading.entry.key) {
                Some(_) => {
                    seen.insert(reading.entry.key, &reading.entry);
                }
                None if gone.contains(&reading.entry.key) => {}
                None if self.strays.contains(&reading.entry.key) => {}
                None => {
                    drift += 1;
                    self.stats.strays += 1;
                    self.strays.push_back(reading.entry.key);
                }
            }
        }
        let mut repair = Vec::new();
        for (&id, flow) in &mut self.flows {
            if flow.in_flight || flow.touched >= started || !flow.settled() {
                continue;
            }
            for dir in Dir::BOTH {
                let have = match seen.get(&flow.pair.key(dir)) {
                    None => Have::Absent,
                    Some(entry) => compare(flow, dir, entry),
                };
                if have != flow.have[dir as usize] {
                    flow.have[dir as usize] = have;
                    drift += 1;
                }
            }
            if !flow.settled() {
                repair.push(id);
            }
        }
        self.stats.reinstalled += repair.len() as u64;
        for id in repair {
            self.enqueue(id);
        }
        drift
    }
}

/// By meaning: key and value; an idle timeout may come back rounded.
fn compare(flow: &Flow, dir: Dir, entry: &Entry) -> Have {
    if flow.pair.entry(dir).value == entry.value {
        Have::Present
    } else {
        Have::Stale
    }
}
