//! What LDs (and operators) ask for: install, remove, kill.

use std::collections::HashSet;

use offload_api::v1::{self, RejectReason};

use super::{Ending, Flow, FlowBook, Have, IdCheck, LdName, Pair, Waiter, idle};

impl FlowBook {
    /// An LD asks for sessions to be installed.
    pub fn install(&mut self, ld: &LdName, flows: Vec<v1::FlowPair>, ids: &dyn IdCheck) {
        for flow in flows {
            self.install_one(ld, flow, ids, false);
        }
    }

    pub(super) fn install_one(
        &mut self,
        ld: &LdName,
        flow: v1::FlowPair,
        ids: &dyn IdCheck,
        announced: bool,
    ) {
        let session = flow.session_id;
        let round = self.ld(ld).round;
        let pair = match Pair::from_api(&flow) {
            Ok(pair) => pair,
            Err(detail) => return self.refuse(ld, session, RejectReason::Invalid, detail),
        };
        let generation = flow.generation;
        let waiter = Waiter {
            ld: ld.clone(),
            flow,
            announced,
        };
        if let Some(&id) = self.by_session.get(&(ld.clone(), session)) {
            let Some(known) = self.flows.get_mut(&id) else {
                return;
            };
            if known.pair == pair && known.want.is_ok() {
                known.claimed = round;
                known.announced |= announced;
                known.owes_installed = true;
                self.finish_if_settled(id);
                return;
            }
            if known.want.is_err() && known.pair == pair {
                // Asked again while it goes away: wait for the end, then anew.
                known.waiters.push(waiter);
                return;
            }
            let detail = format!("session id {session:#x} is in use for another connection");
            return self.refuse(ld, session, RejectReason::Conflict, detail);
        }
        let holders: HashSet<u64> = self
            .by_fwd
            .get(&pair.fwd)
            .into_iter()
            .chain(self.by_rev.get(&pair.rev))
            .copied()
            .collect();
        for &id in &holders {
            let Some(holder) = self.flows.get_mut(&id) else {
                continue;
            };
            let theirs = holder.session.is_none() && holder.ld == *ld;
            if theirs && holder.want.is_ok() && holder.pair == pair {
                // Found on the switch, and the LD knows it: take it over.
                holder.session = Some(session);
                holder.generation = generation;
                holder.claimed = round;
                holder.announced = true;
                holder.owes_installed = true;
                self.by_session.insert((ld.clone(), session), id);
                self.finish_if_settled(id);
                return;
            }
            if theirs && holder.want.is_ok() {
                // Left over from a session that the LD no longer has.
                holder.want = Err(Ending::Silent);
                self.enqueue(id);
            }
        }
        let busy = holders
            .iter()
            .find(|id| self.flows.get(id).is_some_and(|flow| flow.want.is_ok()));
        if let Some(id) = busy {
            let detail = format!(
                "the switch's key is held by session {:#x} of ld \"{}\"; remove that first",
                self.flows[id].session.unwrap_or_default(),
                self.flows[id].ld
            );
            return self.refuse(ld, session, RejectReason::Conflict, detail);
        }
        if let Some(&id) = holders.iter().next() {
            // Being removed: its entries must be gone before ours can come.
            if let Some(holder) = self.flows.get_mut(&id) {
                holder.waiters.push(waiter);
            }
            return;
        }
        if !self.switch_up && !announced {
            let detail =
                "no connection to the switch; it will be accepted when SwitchState says up";
            return self.refuse(ld, session, RejectReason::SwitchDown, detail.to_owned());
        }
        if let Err(detail) = ids.check(&pair) {
            return self.refuse_or_evict(ld, session, announced, RejectReason::StaleConfig, detail);
        }
        if self.flows.len() >= self.capacity {
            let detail = format!(
                "tables flow_fwd_v4 and flow_rev_v4 hold {} entries each, all in use",
                self.capacity
            );
            return self.refuse_or_evict(ld, session, announced, RejectReason::TableFull, detail);
        }
        let have = if self.switch_up {
            Have::Absent
        } else {
            Have::Unknown
        };
        let id = self.add(Flow {
            ld: ld.clone(),
            session: Some(session),
            pair,
            generation,
            want: Ok(()),
            have: [have; 2],
            in_flight: false,
            queued: false,
            announced,
            claimed: round,
            touched: self.clock,
            count: Default::default(),
            idle: idle::IdleState::default(),
            owes_installed: true,
            waiters: Vec::new(),
        });
        self.enqueue(id);
    }

    pub(super) fn refuse(
        &mut self,
        ld: &LdName,
        session: u64,
        reason: RejectReason,
        detail: String,
    ) {
        self.stats.rejected += 1;
        self.replies.rejected(ld, session, reason, detail);
    }

    fn refuse_or_evict(
        &mut self,
        ld: &LdName,
        session_id: u64,
        announced: bool,
        reason: RejectReason,
        detail: String,
    ) {
        if announced {
            self.stats.evicted += 1;
            let totals = v1::FlowTotals {
                session_id,
                ..v1::FlowTotals::default()
            };
            self.replies
                .evicted(ld, totals, "it could not be put back on the switch");
        } else {
            self.refuse(ld, session_id, reason, detail);
        }
    }

    /// An LD asks for sessions to be removed.
    pub fn remove(&mut self, ld: &LdName, sessions: &[u64]) {
        let mut unknown = HashSet::new();
        for &session in sessions {
            match self.by_session.get(&(ld.clone(), session)) {
                Some(&id) => {
                    if let Some(flow) = self.flows.get_mut(&id) {
                        flow.want = Err(Ending::Removed);
                        flow.waiters
                            .retain(|w| w.ld != *ld || w.flow.session_id != session);
                    }
                    self.enqueue(id);
                    self.finish_if_settled(id);
                }
                None => {
                    unknown.insert(session);
                }
            }
        }
        if !unknown.is_empty() {
            // They may wait for other sessions' keys.
            for flow in self.flows.values_mut() {
                flow.waiters
                    .retain(|w| w.ld != *ld || !unknown.contains(&w.flow.session_id));
            }
            self.removed_unknown(ld, unknown);
        }
    }

    /// Ends sessions by VIP or server (0: any) that no LD is there to end.
    pub fn kill(&mut self, vip_id: u16, server_id: u16, connected: impl Fn(&str) -> bool) {
        let hit: Vec<u64> = self
            .flows
            .iter()
            .filter(|(_, flow)| {
                flow.want.is_ok()
                    && (vip_id == 0 || flow.pair.fwd.vip_id == vip_id)
                    && (server_id == 0 || flow.pair.server_id == server_id)
                    && (flow.session.is_none() || !connected(&flow.ld))
            })
            .map(|(&id, _)| id)
            .collect();
        for id in hit {
            self.end(id, Ending::Evicted("killed by an operator"));
        }
    }

    pub(super) fn retry_waiters(&mut self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            // The ids were checked when it was asked for; what was configured
            // then still leads somewhere.
            self.install_one(&waiter.ld, waiter.flow, &AllKnown, waiter.announced);
        }
    }
}

struct AllKnown;

impl IdCheck for AllKnown {
    fn check(&self, _: &Pair) -> Result<(), String> {
        Ok(())
    }

    fn owner(&self, _: u16) -> Option<LdName> {
        None
    }
}
