//! Turning what is wanted into batches of updates, and outcomes into
//! knowledge.

use std::collections::HashMap;

use offload_api::v1::RejectReason;

use super::{Dir, Ending, FlowBook, Have};
use crate::dataplane::{Count, Outcomes, Update, UpdateError};
use crate::entry::Key;

/// Updates of many sessions that go to the switch in one Write.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Entries whose counters are to be read before the Write deletes them.
    pub read_first: Vec<Key>,
    /// The updates.
    pub updates: Vec<Update>,
    /// Whose they are; none for entries without a session.
    owners: Vec<Option<(u64, Dir)>>,
}

/// What came of a batch.
#[derive(Clone, Debug)]
pub struct BatchOutcome {
    /// Counters that were read first.
    pub counts: HashMap<Key, Count>,
    /// Outcome of each update; none if the connection was lost.
    pub outcomes: Option<Outcomes>,
}

impl FlowBook {
    /// The next batch of at most `limit` updates; `None` if nothing is to do.
    pub fn next_batch(&mut self, limit: usize) -> Option<Batch> {
        if !self.switch_up {
            return None;
        }
        let mut batch = Batch::default();
        while batch.updates.len() < limit {
            let Some(key) = self.strays.pop_front() else {
                break;
            };
            self.strays_in_flight += 1;
            batch.updates.push(Update::Delete(key));
            batch.owners.push(None);
        }
        self.clock += 1;
        // A stray may hold a session's key, and updates of one batch have no
        // order: strays go alone.
        let strays = !batch.updates.is_empty();
        while !strays && batch.updates.len() + 2 <= limit {
            let Some(id) = self.queue.pop_front() else {
                break;
            };
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            flow.queued = false;
            if flow.in_flight {
                continue;
            }
            for (index, dir) in Dir::BOTH.into_iter().enumerate() {
                let update = match (flow.want.is_ok(), flow.have[index]) {
                    (true, Have::Present) | (false, Have::Absent) => continue,
                    (true, Have::Absent | Have::Unknown) => Update::Insert(flow.pair.entry(dir)),
                    (true, Have::Stale) => Update::Modify(flow.pair.entry(dir)),
                    (false, _) => {
                        batch.read_first.push(flow.pair.key(dir));
                        Update::Delete(flow.pair.key(dir))
                    }
                };
                batch.updates.push(update);
                batch.owners.push(Some((id, dir)));
                flow.in_flight = true;
                flow.touched = self.clock;
            }
        }
        (!batch.updates.is_empty()).then_some(batch)
    }

    /// Whether `next_batch` would have something.
    pub fn has_work(&self) -> bool {
        self.switch_up && !(self.queue.is_empty() && self.strays.is_empty())
    }

    /// Sessions that wait for a batch.
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Tries again what the switch refused to delete.
    pub fn retry_refused(&mut self) {
        for id in std::mem::take(&mut self.refused) {
            self.enqueue(id);
        }
    }

    /// Takes in what came of a batch.
    pub fn batch_done(&mut self, batch: Batch, outcome: BatchOutcome) {
        self.clock += 1;
        let mut touched = Vec::new();
        let mut refused = Vec::new();
        let mut outcomes = outcome.outcomes.map(Vec::into_iter);
        for (update, owner) in batch.updates.iter().zip(batch.owners) {
            let result = match &mut outcomes {
                // A switch that answers too few has done the rest for all we
                // know; reading will tell.
                Some(outcomes) => outcomes.next(),
                None => None,
            };
            let Some((id, dir)) = owner else {
                self.strays_in_flight -= 1;
                if let Some(gone) = &mut self.gone {
                    gone.insert(update.key());
                }
                continue;
            };
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            if touched.last() != Some(&id) {
                touched.push(id);
            }
            flow.touched = self.clock;
            if let Some(count) = outcome.counts.get(&update.key()) {
                flow.count[dir as usize] = *count;
            }
            flow.have[dir as usize] = match (update, result) {
                (_, None) => Have::Unknown,
                (Update::Delete(_), Some(Ok(()) | Err(UpdateError::NotFound))) => Have::Absent,
                (_, Some(Ok(()))) => Have::Present,
                (Update::Insert(_), Some(Err(UpdateError::Exists))) => {
                    self.stats.strays += 1;
                    Have::Stale
                }
                (Update::Modify(_), Some(Err(UpdateError::NotFound))) => Have::Absent,
                (Update::Delete(_), Some(Err(error))) => {
                    // Not deleted: it stays, and so does the local port.
                    self.stats.update_errors += 1;
                    tracing::warn!(%error, key = ?update.key(), "flow entry not deleted, trying again");
                    refused.push(id);
                    flow.have[dir as usize]
                }
                (_, Some(Err(error))) => {
                    self.stats.update_errors += 1;
                    if flow.want.is_ok() {
                        flow.want = Err(failure(flow.announced, &error, update));
                    }
                    match update {
                        Update::Insert(_) => Have::Absent,
                        _ => Have::Stale,
                    }
                }
            };
        }
        let lost = outcomes.is_none();
        for id in touched {
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.in_flight = false;
                if lost {
                    // Both entries: what a lost write did is not known.
                    continue;
                }
                if flow.settled() {
                    self.finish_if_settled(id);
                } else if refused.contains(&id) {
                    self.refused.push(id);
                } else {
                    self.enqueue(id);
                }
            }
        }
        self.answer_all_pending_removals();
    }
}

fn failure(announced: bool, error: &UpdateError, update: &Update) -> Ending {
    if announced {
        return Ending::Evicted("it could not be put back on the switch");
    }
    let table = match update.key() {
        Key::FlowFwd(_) => "flow_fwd_v4",
        _ => "flow_rev_v4",
    };
    let reason = match error {
        UpdateError::Full(_) => RejectReason::TableFull,
        UpdateError::Exists => RejectReason::Conflict,
        _ => RejectReason::SwitchError,
    };
    Ending::Rejected(reason, format!("table {table}: {error}"))
}
