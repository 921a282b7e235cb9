//! Load directors that come, tell what they have, and go.

use std::collections::HashSet;

use offload_api::v1;

use super::{Ending, FlowBook, IdCheck, LdName};

/// What the book knows of an LD.
#[derive(Debug, Default)]
pub(super) struct LdState {
    /// Counts resyncs; sessions remember the round that named them last.
    pub(super) round: u64,
    pub(super) connected: bool,
    /// It has told all that it has.
    pub(super) synced: bool,
    /// The process has no memory of what is on the switch.
    pub(super) new_boot: bool,
    /// Since when it is away, ms.
    pub(super) absent_since: Option<u64>,
    /// `Adopt` has been finished with `done`.
    adopt_done: bool,
    /// Removals of sessions that only entries without a claim can belong to.
    pending_removed: Vec<u64>,
}

impl FlowBook {
    pub(super) fn ld(&mut self, ld: &LdName) -> &mut LdState {
        self.lds.entry(ld.clone()).or_default()
    }

    /// An LD has connected.
    pub fn ld_hello(&mut self, ld: &LdName, new_boot: bool) {
        let state = self.ld(ld);
        state.round += 1;
        state.connected = true;
        state.synced = false;
        state.new_boot = new_boot;
        state.adopt_done = false;
        state.absent_since = None;
        state.pending_removed.clear();
        if new_boot {
            // The ids of the old process mean nothing to this one.
            let mut silent = Vec::new();
            for (&id, flow) in &mut self.flows {
                flow.waiters.retain(|waiter| waiter.ld != *ld);
                if flow.ld == *ld {
                    if let Some(session) = flow.session.take() {
                        self.by_session.remove(&(ld.clone(), session));
                    }
                    if flow.want.is_err() {
                        flow.want = Err(Ending::Silent);
                        silent.push(id);
                    }
                }
            }
            for id in silent {
                self.finish_if_settled(id);
            }
        }
    }

    /// An LD's stream has ended.
    pub fn ld_gone(&mut self, ld: &LdName, now: u64) {
        let state = self.ld(ld);
        state.connected = false;
        state.synced = false;
        state.absent_since = Some(now);
        for flow in self.flows.values_mut() {
            flow.waiters.retain(|waiter| waiter.ld != *ld);
        }
    }

    /// An LD tells what it takes for offloaded.
    pub fn resync(&mut self, ld: &LdName, resync: v1::Resync, ids: &dyn IdCheck) {
        for flow in resync.flows {
            self.claim(ld, flow, ids);
        }
        self.remove(ld, &resync.removing);
        if resync.done {
            self.resync_done(ld);
        }
    }

    fn claim(&mut self, ld: &LdName, flow: v1::FlowPair, ids: &dyn IdCheck) {
        let round = self.ld(ld).round;
        let session = flow.session_id;
        let known = self.by_session.get(&(ld.clone(), session)).copied();
        if let Some(id) = known
            && let Some(known) = self.flows.get_mut(&id)
        {
            let same = super::Pair::from_api(&flow).is_ok_and(|pair| pair == known.pair);
            if same && known.want.is_ok() {
                known.claimed = round;
                known.owes_installed = true;
                self.finish_if_settled(id);
                return;
            }
        }
        self.install_one(ld, flow, ids, true);
    }

    fn resync_done(&mut self, ld: &LdName) {
        let state = self.ld(ld);
        state.synced = true;
        let (round, new_boot) = (state.round, state.new_boot);
        if !new_boot {
            let unclaimed: Vec<u64> = self
                .flows
                .iter()
                .filter(|(_, flow)| flow.ld == *ld && flow.claimed < round && flow.want.is_ok())
                .map(|(&id, _)| id)
                .collect();
            for id in unclaimed {
                self.end(id, Ending::Silent);
            }
        }
        self.answer_pending_removals(ld);
    }

    /// The sessions that a new process of the LD has to take over, once; `None`
    /// while it is not time yet or nothing more to say.
    pub fn take_adoptions(&mut self, ld: &LdName) -> Option<Vec<v1::FlowPair>> {
        let known = self.known;
        let state = self.ld(ld);
        if !(known && state.connected && state.synced && state.new_boot) || state.adopt_done {
            return None;
        }
        state.adopt_done = true;
        Some(
            self.flows
                .iter()
                .filter(|(_, flow)| flow.ld == *ld && flow.session.is_none() && flow.want.is_ok())
                .map(|(&id, flow)| flow.pair.to_api(id, flow.generation))
                .collect(),
        )
    }

    /// An LD has taken sessions over, or not.
    pub fn adopted(&mut self, ld: &LdName, adopted: v1::Adopted) {
        for one in adopted.sessions {
            let Some(flow) = self.flows.get_mut(&one.adopt_id) else {
                // Gone meanwhile: the LD's new session is not on the switch.
                if one.refused.is_empty() {
                    let totals = v1::FlowTotals {
                        session_id: one.session_id,
                        ..v1::FlowTotals::default()
                    };
                    self.replies
                        .evicted(ld, totals, "it ended before it was adopted");
                }
                continue;
            };
            if flow.ld != *ld || flow.session.is_some() {
                continue;
            }
            if !one.refused.is_empty() {
                tracing::info!(%ld, why = one.refused, "session not adopted, deleting its entries");
                self.end(one.adopt_id, Ending::Silent);
                continue;
            }
            flow.session = Some(one.session_id);
            flow.announced = true;
            if flow.want.is_err() {
                flow.want = Err(Ending::Evicted("it ended while it was adopted"));
            }
            self.stats.adopted += 1;
            self.by_session
                .insert((ld.clone(), one.session_id), one.adopt_id);
        }
    }

    /// Ends what belongs to LDs that are away for longer than `grace_ms`.
    pub fn expire_absent(&mut self, now: u64, grace_ms: u64) {
        let names: Vec<LdName> = self.counts.keys().cloned().collect();
        for name in names {
            let state = self.ld(&name);
            if state.connected {
                continue;
            }
            let since = *state.absent_since.get_or_insert(now);
            if now.saturating_sub(since) < grace_ms {
                continue;
            }
            let theirs: Vec<u64> = self
                .flows
                .iter()
                .filter(|(_, flow)| flow.ld == name && flow.want.is_ok())
                .map(|(&id, _)| id)
                .collect();
            for id in theirs {
                self.end(id, Ending::Silent);
            }
        }
    }

    /// Answers removals of sessions that the book does not know. After a
    /// restart their entries may be among those that no LD has claimed, so the
    /// answer waits until those are gone.
    pub(super) fn removed_unknown(&mut self, ld: &LdName, sessions: HashSet<u64>) {
        self.ld(ld).pending_removed.extend(sessions);
        self.answer_pending_removals(ld);
    }

    pub(super) fn answer_pending_removals(&mut self, ld: &LdName) {
        let Some(state) = self.lds.get(ld) else {
            return;
        };
        if state.pending_removed.is_empty() || !self.known {
            return;
        }
        let unclaimed = self
            .flows
            .values()
            .any(|flow| flow.ld == *ld && flow.session.is_none());
        if unclaimed || !self.strays.is_empty() || self.strays_in_flight > 0 {
            return;
        }
        let sessions = std::mem::take(&mut self.ld(ld).pending_removed);
        for session_id in sessions {
            let totals = v1::FlowTotals {
                session_id,
                ..v1::FlowTotals::default()
            };
            self.replies.removed(ld, totals);
        }
    }

    pub(super) fn answer_all_pending_removals(&mut self) {
        let names: Vec<LdName> = self
            .lds
            .iter()
            .filter(|(_, state)| !state.pending_removed.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.answer_pending_removals(&name);
        }
    }
}
