//! A session's life in the switch, as this side sees it.
//!
//! None -> Requested -> Installed -> Removing -> None. A session keeps its tuple
//! and its local port until the switch has confirmed that the entries are gone
//! (invariant I1); a confirmation that does not come is asked for again and
//! never assumed. Answers carry the session's identifier, so that one about an
//! earlier use of a record changes nothing.

use crate::{
    api::{
        AdoptError, Adoption, CloseReason, Effect, Offloaded, RejectReason, RemoveReason,
        SessionId, Totals,
    },
    engine::Engine,
    expiry::due_at,
    ports::NoPort,
    record::{ADOPTED, IDLE, REPLIED},
    session::ClientTuple,
    snapshot::Protocol,
    state::{Offload, State},
    time::{Tick, ticks},
};

/// Ticks before a rejected session is offered again, by reason. A share of the
/// sessions comes later, so that not all try at once.
const fn back_off(reason: RejectReason) -> u32 {
    match reason {
        RejectReason::TableFull => ticks(5_000),
        RejectReason::SwitchDown | RejectReason::SwitchError => ticks(2_000),
        RejectReason::Conflict => ticks(1_000),
        RejectReason::Invalid => u32::MAX,
    }
}

/// Ticks before a session whose entries went away is offered again.
const RETRY: u32 = ticks(1_000);

impl Engine {
    /// Asks for entries, if the moment is right.
    #[inline(never)]
    pub(crate) fn maybe_request(&mut self, id: u32) {
        let r = &self.store.records[id as usize];
        if !self.switch_up || self.now.0 < r.aux {
            return;
        }
        // An entry must hold identifiers that the switch knows.
        let (lip, ..) = self.store.identity(id);
        if !self.vips[usize::from(r.vip_index)].configured
            || !self.servers[usize::from(r.server_index)].configured
            || !self.store.lip(lip).configured
        {
            self.store.records[id as usize].aux = (self.now + RETRY).0;
            return;
        }
        let r = &mut self.store.records[id as usize];
        r.offload = Offload::Requested;
        r.aux = self.now.0;
        self.store.due[id as usize] = due_at(self.now, self.resend);
        self.offloaded += 1;
        self.counters.offload_requests += 1;
        let effect = Effect::Install(self.session_id(id), self.flow_pair(id));
        self.effects.push(effect);
    }

    /// Asks for the removal of a session's entries, unless that is under way.
    pub(crate) fn request_remove(&mut self, id: u32, reason: RemoveReason) {
        let r = &mut self.store.records[id as usize];
        if !matches!(r.offload, Offload::Requested | Offload::Installed) {
            return;
        }
        r.offload = Offload::Removing;
        self.send_remove(id, reason);
    }

    fn send_remove(&mut self, id: u32, reason: RemoveReason) {
        let r = &mut self.store.records[id as usize];
        r.aux = self.now.0;
        self.store.due[id as usize] = due_at(self.now, self.resend);
        self.counters.offload_removals += 1;
        let effect = Effect::Remove(self.session_id(id), reason);
        self.effects.push(effect);
    }

    /// The entries are gone for good or for now.
    fn entries_gone(&mut self, id: u32, retry_at: Tick) {
        let timeout = self.timeout(id);
        let r = &mut self.store.records[id as usize];
        r.offload = Offload::None;
        r.aux = retry_at.0;
        self.offloaded -= 1;
        match r.state {
            State::Killed => {
                let reason = if r.has(IDLE) {
                    CloseReason::Expired
                } else {
                    CloseReason::Killed
                };
                self.close(id, reason);
            }
            // Idle in the switch for its whole timeout, and nothing came by here.
            _ if r.has(IDLE) => self.close(id, CloseReason::Expired),
            _ => {
                let rest = timeout.saturating_sub(self.now.since(Tick(r.last_seen)));
                self.store.due[id as usize] = due_at(self.now, rest.max(1));
            }
        }
    }

    fn known(&mut self, session: SessionId) -> Option<u32> {
        let found = self.record_of(session);
        if found.is_none() {
            self.counters.offload_stale += 1;
        }
        found
    }

    /// Both directions of a session are in the switch.
    pub fn on_installed(&mut self, session: SessionId) {
        let Some(id) = self.known(session) else {
            return;
        };
        let r = &mut self.store.records[id as usize];
        if r.offload != Offload::Requested {
            // Repeated, or the removal is already asked for.
            return;
        }
        r.offload = Offload::Installed;
        r.aux = 0;
        r.last_seen = self.now.0;
        self.store.due[id as usize] = due_at(self.now, self.offload_max);
        self.counters.offload_installed += 1;
    }

    /// A session's request was refused; the switch has no entry of it.
    pub fn on_rejected(&mut self, session: SessionId, reason: RejectReason) {
        let Some(id) = self.known(session) else {
            return;
        };
        if self.store.records[id as usize].offload != Offload::Requested {
            // A removal that is under way gets its own answer.
            return;
        }
        self.counters.offload_rejected += 1;
        let wait = back_off(reason);
        let spread = id % (wait / 4).max(1);
        self.entries_gone(id, self.now + wait + spread);
    }

    /// A session's entries are gone, as asked. `totals` is what they carried.
    pub fn on_removed(&mut self, session: SessionId, totals: &Totals) {
        let Some(id) = self.known(session) else {
            return;
        };
        if self.store.records[id as usize].offload != Offload::Removing {
            self.counters.offload_stale += 1;
            return;
        }
        self.add_totals(id, totals);
        self.counters.offload_removed += 1;
        self.entries_gone(id, self.now + RETRY);
    }

    /// A session's entries are gone without having been asked for. Its packets
    /// come here again.
    pub fn on_evicted(&mut self, session: SessionId, totals: &Totals) {
        let Some(id) = self.known(session) else {
            return;
        };
        let r = &mut self.store.records[id as usize];
        if r.offload == Offload::None {
            self.counters.offload_stale += 1;
            return;
        }
        if r.state.is_live() && !r.has(IDLE) {
            // It was alive in the switch until now, as far as anyone knows.
            r.last_seen = self.now.0;
        }
        self.add_totals(id, totals);
        self.counters.offload_removed += 1;
        self.entries_gone(id, self.now + RETRY);
    }

    /// Both directions were idle in the switch for the session's timeout. May
    /// come again and again.
    pub fn on_idle(&mut self, session: SessionId) {
        let Some(id) = self.known(session) else {
            return;
        };
        let r = &mut self.store.records[id as usize];
        if r.offload != Offload::Installed {
            return;
        }
        r.flags |= IDLE;
        self.request_remove(id, RemoveReason::Idle);
    }

    /// The switch is away: nothing new is asked for.
    pub fn on_switch_down(&mut self) {
        self.switch_up = false;
    }

    /// The switch is back, with what it was asked to hold.
    pub fn on_switch_up(&mut self) {
        self.switch_up = true;
    }

    /// Takes over a session found in the switch: an earlier process made it.
    ///
    /// # Errors
    /// [`AdoptError`]; nothing is changed then.
    pub fn adopt(&mut self, a: &Adoption) -> Result<SessionId, AdoptError> {
        let vip = self
            .vips
            .iter()
            .position(|v| v.configured && v.config.vip_id == a.vip_id)
            .ok_or(AdoptError::UnknownVip)? as u16;
        let server = self.vips[usize::from(vip)]
            .servers
            .iter()
            .copied()
            .find(|s| self.servers[usize::from(*s)].config.server_id == a.server_id)
            .ok_or(AdoptError::UnknownServer)?;
        let lip = self
            .store
            .lip_by_id(a.local_id)
            .ok_or(AdoptError::UnknownLocal)?;
        if !self.store.owns(a.local_port) {
            return Err(AdoptError::OtherWorker);
        }
        let v = &self.vips[usize::from(vip)];
        let tuple = ClientTuple {
            client: a.client.to_bits(),
            client_port: a.client_port,
            vip: v.config.address.to_bits(),
            vip_port: a.vip_port,
        };
        let hash = self.config.keys.flow(
            v.config.vni,
            a.protocol.number(),
            (tuple.client, tuple.client_port),
            (tuple.vip, tuple.vip_port),
        );
        let generation = v.config.generation;
        let taken = self.find_forward(
            hash,
            v.config.vni,
            a.protocol.number(),
            (tuple.client, tuple.client_port),
            (tuple.vip, tuple.vip_port),
        );
        if taken.is_some() {
            return Err(AdoptError::TupleTaken);
        }
        let id = self
            .store
            .allocate_port(lip, a.protocol, a.local_port)
            .map_err(|e| match e {
                NoPort::NotFree => AdoptError::PortTaken,
                _ => AdoptError::Full,
            })?;
        let state = match a.protocol {
            Protocol::Tcp => State::Established,
            Protocol::Udp => State::UdpReplied,
        };
        self.fill(id, vip, server, &tuple, state);
        if self.index.insert(hash, id).is_err() {
            self.store.free(id);
            return Err(AdoptError::Full);
        }
        let r = &mut self.store.records[id as usize];
        r.flags = REPLIED | ADOPTED;
        r.offload = Offload::Installed;
        r.vip_generation = if a.generation <= generation {
            a.generation as u16
        } else {
            generation as u16
        };
        self.store.due[id as usize] = due_at(self.now, self.offload_max);
        self.offloaded += 1;
        self.count_session(id);
        self.counters.sessions_adopted += 1;
        Ok(self.session_id(id))
    }

    /// Lists sessions with entries in the switch, or on their way there or
    /// back: those among `budget` records from number `from` on. Gives where to
    /// go on, `None` at the end.
    pub fn list_offloaded(&self, from: u32, budget: u32, out: &mut Vec<Offloaded>) -> Option<u32> {
        let end = from
            .saturating_add(budget.max(1))
            .min(self.store.records.len() as u32);
        for id in from..end {
            let r = &self.store.records[id as usize];
            if r.state.is_session() && r.offload != Offload::None {
                out.push(Offloaded {
                    session: self.session_id(id),
                    flow: self.flow_pair(id),
                    offload: r.offload,
                });
            }
        }
        (end < self.store.records.len() as u32).then_some(end)
    }

    /// A request has been waiting for its answer for too long, or an installed
    /// session has gone without news.
    pub(crate) fn offload_due(&mut self, id: u32) {
        let r = &self.store.records[id as usize];
        let waited = self.now.since(Tick(r.aux));
        match r.offload {
            Offload::None => {}
            Offload::Requested if waited >= self.resend => {
                self.counters.offload_resent += 1;
                self.counters.offload_requests += 1;
                self.store.records[id as usize].aux = self.now.0;
                self.store.due[id as usize] = due_at(self.now, self.resend);
                let effect = Effect::Install(self.session_id(id), self.flow_pair(id));
                self.effects.push(effect);
            }
            Offload::Removing if waited >= self.resend => {
                self.counters.offload_resent += 1;
                let reason = match r.state {
                    State::Killed => RemoveReason::Kill,
                    s if s.is_over() => RemoveReason::Closed,
                    _ => RemoveReason::Idle,
                };
                self.send_remove(id, reason);
            }
            Offload::Requested | Offload::Removing => {
                self.store.due[id as usize] = due_at(self.now, self.resend - waited);
            }
            Offload::Installed => {
                let quiet = self.now.since(Tick(r.last_seen));
                if quiet >= self.offload_max {
                    // Without the idle mark it goes on here afterwards, with a
                    // fresh deadline, and is offered again if it has packets.
                    self.store.records[id as usize].last_seen = self.now.0;
                    self.request_remove(id, RemoveReason::Idle);
                } else {
                    self.store.due[id as usize] = due_at(self.now, self.offload_max - quiet);
                }
            }
        }
    }
}
