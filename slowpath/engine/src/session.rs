//! How sessions begin and end.

use std::net::Ipv4Addr;

use packet::TcpFlags;

use crate::{
    api::{CloseReason, ClosedSession, Effect, FlowPair, RemoveReason, SessionId, Totals},
    burst::Work,
    drops::DropReason,
    engine::Engine,
    expiry::due_at,
    ports::NoPort,
    record::{CLIENT_FIRST, Packed, REPLIED, Record, SPILLED},
    sched::Scheduler,
    snapshot::{Protocol, source_hash},
    state::{Direction, Offload, State},
    time::Tick,
};

/// Records looked at in one search for something to evict. The search goes on
/// where the last one ended, and none is begun when nothing is unreplied.
const EVICT_SCAN: usize = 2048;
/// Unreplied sessions compared in one search.
const EVICT_CANDIDATES: usize = 16;
/// A session this many ticks old without an answer is given up at once.
const EVICT_AGE: u32 = 4;

impl Engine {
    /// Opens a session for a client's packet.
    pub(crate) fn open(&mut self, w: &Work, slot: u16) -> Result<u32, DropReason> {
        let protocol = Protocol::from_number(w.protocol).ok_or(DropReason::UnsupportedProtocol)?;
        let addr = Ipv4Addr::from_bits(w.dst);
        let Some(at) = self.snapshot.vip_at(w.vni, protocol, addr, w.dst_port) else {
            return Err(if self.snapshot.is_vip_address(w.vni, addr) {
                DropReason::VipNoPort
            } else {
                DropReason::UnknownDestination
            });
        };
        if protocol == Protocol::Tcp && !TcpFlags(w.flags).opens() {
            return Err(DropReason::NoSession);
        }
        let vip = self.vip_of[at];
        if self.vips[usize::from(vip)].sessions >= self.vips[usize::from(vip)].cap
            && !self.evict_unreplied(vip, 0)
        {
            return Err(DropReason::VipSessionLimit);
        }
        let server = self.choose_server(vip, w.src).ok_or(DropReason::NoServer)?;
        let id = match self.store.allocate(slot, w.vni, protocol) {
            Ok(id) => id,
            Err(e) => {
                // A port that is given up now is free after its rest.
                self.evict_unreplied(vip, EVICT_AGE);
                return Err(match e {
                    NoPort::NoLocal => DropReason::NoLocalAddress,
                    NoPort::TableFull => DropReason::SessionTableFull,
                    NoPort::Exhausted | NoPort::NotFree => DropReason::PortExhausted,
                });
            }
        };
        let state = match protocol {
            Protocol::Tcp => State::SynRecv,
            Protocol::Udp => State::UdpUnreplied,
        };
        let tuple = ClientTuple {
            client: w.src,
            client_port: w.src_port,
            vip: w.dst,
            vip_port: w.dst_port,
        };
        self.fill(id, vip, server, &tuple, state);
        if self.index.insert(w.hash, id).is_err() {
            // Nothing has been sent from the port: no need to rest.
            self.store.free(id);
            return Err(DropReason::IndexFull);
        }
        self.count_session(id);
        Ok(id)
    }

    /// Fills in a freshly allocated record.
    pub(crate) fn fill(&mut self, id: u32, vip: u16, server: u16, t: &ClientTuple, state: State) {
        let (lip, protocol, local_port) = self.store.identity(id);
        let local = self.store.lip(lip).config.address.to_bits();
        let v = &self.vips[usize::from(vip)];
        let s = &self.servers[usize::from(server)];
        let r = &mut self.store.records[id as usize];
        *r = Record {
            client: t.client,
            vip: t.vip,
            local,
            server: s.config.address.to_bits(),
            client_port: t.client_port,
            vip_port: t.vip_port,
            local_port,
            server_port: match s.config.port {
                0 => t.vip_port,
                p => p,
            },
            protocol: protocol.number(),
            state,
            vip_index: vip,
            server_index: server,
            last_seen: self.now.0,
            generation: r.generation,
            vip_generation: v.config.generation as u16,
            ..Record::FREE
        };
        r.set_deltas();
        self.store.due[id as usize] = due_at(self.now, v.timeouts[state as usize]);
    }

    /// Books a new session with its VIP and server.
    pub(crate) fn count_session(&mut self, id: u32) {
        let r = &self.store.records[id as usize];
        let v = &mut self.vips[usize::from(r.vip_index)];
        v.sessions += 1;
        v.unreplied += u32::from(!r.has(REPLIED));
        self.servers[usize::from(r.server_index)].sessions += 1;
        self.sessions += 1;
        self.counters.sessions_created += 1;
    }

    /// The next server of a VIP for a client, by its scheduler.
    pub(crate) fn choose_server(&mut self, vip: u16, client: u32) -> Option<u16> {
        let v = &mut self.vips[usize::from(vip)];
        let servers = &self.servers;
        let takes = |i: u16| servers[usize::from(i)].takes_sessions();
        match v.config.scheduler {
            Scheduler::RoundRobin => {
                let n = v.servers.len();
                for _ in 0..n {
                    let at = v.round_robin % n;
                    v.round_robin = at + 1;
                    if takes(v.servers[at]) {
                        return Some(v.servers[at]);
                    }
                }
                None
            }
            Scheduler::WeightedRoundRobin => {
                let weights = v.servers.iter().map(|i| {
                    let s = &servers[usize::from(*i)];
                    if s.takes_sessions() {
                        s.config.weight
                    } else {
                        0
                    }
                });
                let at = v.weighted.pick(weights)?;
                Some(v.servers[at])
            }
            Scheduler::SourceHash => {
                let at = self.snapshot.maglev(v.at)?.get(source_hash(client));
                v.servers.get(at).copied()
            }
        }
    }

    /// Whether a session's server takes new sessions.
    pub(crate) fn server_takes(&self, id: u32) -> bool {
        let r = &self.store.records[id as usize];
        self.servers[usize::from(r.server_index)].takes_sessions()
            && self.vips[usize::from(r.vip_index)].configured
    }

    /// A client's SYN on a closing session that the switch may still have
    /// entries of, or whose port cannot be replaced: the same record, port and
    /// server once more, so that stale entries stay right.
    pub(crate) fn reuse(&mut self, id: u32) {
        let timeout = self.timeout_of(id, State::SynRecv);
        let r = &mut self.store.records[id as usize];
        r.state = State::SynRecv;
        if r.has(REPLIED) {
            self.vips[usize::from(r.vip_index)].unreplied += 1;
        }
        r.flags &= SPILLED;
        r.last_seen = self.now.0;
        self.store.due[id as usize] = if r.offload == Offload::None {
            due_at(self.now, timeout)
        } else {
            due_at(self.now, self.resend)
        };
        self.counters.sessions_reused += 1;
    }

    /// Ends a session that the switch has no entries of: the tuple is free at
    /// once, the local port after its rest.
    pub(crate) fn close(&mut self, id: u32, reason: CloseReason) {
        let r = self.store.records[id as usize];
        debug_assert_eq!(r.offload, Offload::None);
        debug_assert!(r.state.is_session());
        let hash = self.hash_of(&r);
        let found = self.index.remove(hash, id);
        debug_assert!(found, "a session that is not in the index");
        let closed = ClosedSession {
            session: self.session_id(id),
            flow: self.flow_pair(id),
            reason,
            state: r.state,
            totals: self.take_totals(id),
        };
        self.effects.push(Effect::Closed(closed));
        let v = &mut self.vips[usize::from(r.vip_index)];
        v.sessions -= 1;
        v.unreplied -= u32::from(!r.has(REPLIED));
        // Where an end may still think the connection is there, the port rests
        // as long as a server's TIME_WAIT.
        let long = matches!(
            r.state,
            State::Established | State::FinWait | State::CloseWait | State::SynRecv | State::Killed
        ) && r.has(REPLIED);
        let hold = if long {
            v.port_hold.max(v.time_wait)
        } else {
            v.port_hold
        };
        self.servers[usize::from(r.server_index)].sessions -= 1;
        self.sessions -= 1;
        self.counters.sessions_closed += 1;
        match reason {
            CloseReason::Expired => self.counters.sessions_expired += 1,
            CloseReason::Evicted => self.counters.sessions_evicted += 1,
            CloseReason::Killed => self.counters.sessions_killed += 1,
            CloseReason::Finished | CloseReason::Replaced => {}
        }
        let r = &mut self.store.records[id as usize];
        r.state = State::Quarantine;
        r.last_seen = (self.now + hold).0;
        self.store.due[id as usize] = due_at(self.now, hold);
    }

    /// Ends a session, after its entries in the switch are gone.
    pub(crate) fn end(&mut self, id: u32, reason: CloseReason) {
        if self.store.records[id as usize].offload == Offload::None {
            return self.close(id, reason);
        }
        let why = match reason {
            CloseReason::Killed => RemoveReason::Kill,
            CloseReason::Expired => RemoveReason::Idle,
            _ => RemoveReason::Closed,
        };
        self.store.records[id as usize].state = State::Killed;
        self.request_remove(id, why);
    }

    /// Gives up one session of the VIP that its server has not answered: the
    /// first old one that comes along, else the oldest of those looked at that
    /// has at least `min_age` ticks.
    pub(crate) fn evict_unreplied(&mut self, vip: u16, min_age: u32) -> bool {
        let n = self.store.records.len();
        if n == 0 || self.vips[usize::from(vip)].unreplied == 0 {
            return false;
        }
        let start = self.vips[usize::from(vip)].evict_at;
        let mut best: Option<(u32, u32)> = None;
        let mut candidates = 0;
        for step in 0..EVICT_SCAN.min(n) {
            let at = (start + step) % n;
            let r = &self.store.records[at];
            if r.vip_index != vip
                || !matches!(r.state, State::SynRecv | State::UdpUnreplied)
                || r.has(REPLIED)
                || r.offload != Offload::None
            {
                continue;
            }
            let age = self.now.since(Tick(r.last_seen));
            if age >= min_age && best.is_none_or(|(_, a)| age > a) {
                best = Some((at as u32, age));
            }
            candidates += 1;
            if age >= EVICT_AGE || candidates == EVICT_CANDIDATES {
                break;
            }
        }
        let next = best.map_or(start + EVICT_SCAN, |(id, _)| id as usize + 1);
        self.vips[usize::from(vip)].evict_at = next % n;
        match best {
            Some((id, _)) => {
                self.close(id, CloseReason::Evicted);
                true
            }
            None => false,
        }
    }

    /// A TCP segment that may change the session's state.
    #[inline(never)]
    pub(crate) fn apply_tcp(&mut self, id: u32, dir: Direction, flags: TcpFlags) {
        let r = &mut self.store.records[id as usize];
        let before = r.state;
        let after = before.after_tcp(dir, flags, r.has(REPLIED));
        if after == before {
            return;
        }
        r.state = after;
        if after == State::TimeWait && before != State::FinWait {
            r.flags |= CLIENT_FIRST;
        }
        let offload = r.offload;
        if after.is_over() && matches!(offload, Offload::Requested | Offload::Installed) {
            self.request_remove(id, RemoveReason::Closed);
        } else if offload == Offload::None {
            // The new deadline may be earlier than the one being waited for.
            self.store.due[id as usize] = due_at(self.now, self.timeout(id));
        }
    }

    /// Ticks that a session may be without packets.
    pub(crate) fn timeout(&self, id: u32) -> u32 {
        let r = &self.store.records[id as usize];
        if r.state == State::TimeWait && r.has(CLIENT_FIRST) {
            return self.timeout_of(id, State::Close);
        }
        self.timeout_of(id, r.state)
    }

    fn timeout_of(&self, id: u32, state: State) -> u32 {
        let vip = self.store.records[id as usize].vip_index;
        self.vips[usize::from(vip)].timeouts[state as usize]
    }

    /// The flow hash of a session.
    pub(crate) fn hash_of(&self, r: &Record) -> u64 {
        self.config.keys.flow(
            self.vip_hot[usize::from(r.vip_index)].vni,
            r.protocol,
            (r.client, r.client_port),
            (r.vip, r.vip_port),
        )
    }

    /// The session's identifier for others.
    pub(crate) fn session_id(&self, id: u32) -> SessionId {
        SessionId::new(
            self.config.worker,
            self.config.boot,
            id,
            self.store.records[id as usize].generation,
        )
    }

    /// The record that an identifier means, unless it is over.
    pub(crate) fn record_of(&self, s: SessionId) -> Option<u32> {
        if s.worker() != self.config.worker || s.boot() != self.config.boot {
            return None;
        }
        let r = self.store.records.get(s.record() as usize)?;
        (r.generation == s.generation() && r.state.is_session()).then_some(s.record())
    }

    /// The session as the switch's tables have it.
    pub(crate) fn flow_pair(&self, id: u32) -> FlowPair {
        let r = &self.store.records[id as usize];
        let v = &self.vips[usize::from(r.vip_index)];
        let (lip, protocol, local_port) = self.store.identity(id);
        // The record keeps the low half; a VIP's generation does not rise by
        // 65,536 within a session's life.
        let generation = v.config.generation;
        let behind = (generation as u16).wrapping_sub(r.vip_generation);
        let t = &v.config.timeouts;
        FlowPair {
            vip_id: v.config.vip_id,
            vip_port: r.vip_port,
            protocol,
            client: r.client.into(),
            client_port: r.client_port,
            server_id: self.servers[usize::from(r.server_index)].config.server_id,
            local_id: self.store.lip(lip).config.local_id,
            local_port,
            idle_timeout_ms: match protocol {
                Protocol::Tcp => t.established_ms,
                Protocol::Udp => t.udp_ms,
            },
            generation: generation.wrapping_sub(u32::from(behind)),
        }
    }

    /// What a session has carried so far.
    pub(crate) fn totals(&self, id: u32) -> Totals {
        let r = &self.store.records[id as usize];
        let mut t = Totals {
            fwd_packets: r.fwd.packets(),
            fwd_bytes: r.fwd.bytes(),
            rev_packets: r.rev.packets(),
            rev_bytes: r.rev.bytes(),
        };
        if r.has(SPILLED)
            && let Some(more) = self.spill.get(&id)
        {
            t.add(more);
        }
        t
    }

    /// Adds what the switch has carried.
    pub(crate) fn add_totals(&mut self, id: u32, t: &Totals) {
        let r = &mut self.store.records[id as usize];
        let fwd = r.fwd.add(t.fwd_packets, t.fwd_bytes);
        let rev = r.rev.add(t.rev_packets, t.rev_bytes);
        if fwd && rev {
            return;
        }
        r.flags |= SPILLED;
        let more = self.spill.entry(id).or_default();
        more.add(&Totals {
            fwd_packets: if fwd { 0 } else { t.fwd_packets },
            fwd_bytes: if fwd { 0 } else { t.fwd_bytes },
            rev_packets: if rev { 0 } else { t.rev_packets },
            rev_bytes: if rev { 0 } else { t.rev_bytes },
        });
    }

    /// Moves a record's totals to the spill map.
    #[cold]
    pub(crate) fn spill_totals(&mut self, id: u32) {
        let r = &mut self.store.records[id as usize];
        let t = Totals {
            fwd_packets: r.fwd.packets(),
            fwd_bytes: r.fwd.bytes(),
            rev_packets: r.rev.packets(),
            rev_bytes: r.rev.bytes(),
        };
        r.fwd = Packed::default();
        r.rev = Packed::default();
        r.flags |= SPILLED;
        self.spill.entry(id).or_default().add(&t);
    }

    fn take_totals(&mut self, id: u32) -> Totals {
        let t = self.totals(id);
        if self.store.records[id as usize].has(SPILLED) {
            self.spill.remove(&id);
        }
        t
    }
}

/// A client's side of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTuple {
    pub(crate) client: u32,
    pub(crate) client_port: u16,
    pub(crate) vip: u32,
    pub(crate) vip_port: u16,
}
