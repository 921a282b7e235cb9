//! The engine's state, and how a configuration is taken over.

use std::{collections::HashMap, sync::Arc};

use hashbrown::HashMap as FastMap;
use thiserror::Error;

use crate::{
    api::{Effect, Totals},
    burst::{BURST, Work},
    counters::{Counters, Gauges, VipStats},
    expiry::{Job, Sweep},
    hash::HashKeys,
    index::TagIndex,
    limit::TokenBucket,
    ports::{PortUse, SHARDS, Store},
    record::Record,
    sched::SmoothWrr,
    snapshot::{Server, ServerState, Snapshot, Timeouts, Vip},
    state::{STATES, State},
    time::{Tick, ticks},
};

/// Record numbers have 24 bits in a session's identifier.
const MAX_RECORDS: u32 = 1 << 24;

/// What an engine is told once, at its start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// This worker's number, from 0.
    pub worker: u8,
    /// Number of workers, 1 to 16.
    pub workers: u8,
    /// Differs at each start of the process.
    pub boot: u16,
    /// Secret keys of the flow hash.
    pub keys: HashKeys,
    /// Most records (sessions and resting ports) this worker may hold. Address
    /// space for them is reserved at the start, memory taken as needed.
    pub max_records: u32,
    /// ICMP answers a second, at most.
    pub icmp_per_second: u32,
    /// Time after which an unanswered request to the controller is repeated.
    pub resend_ms: u32,
    /// Time without any news after which an installed session's entries are
    /// taken back, so that it can be judged anew.
    pub offload_max_ms: u32,
}

impl EngineConfig {
    /// The only worker, with room for a million records.
    #[must_use]
    pub fn new(boot: u16, keys: HashKeys) -> Self {
        Self {
            worker: 0,
            workers: 1,
            boot,
            keys,
            max_records: 1 << 20,
            icmp_per_second: 1000,
            resend_ms: 5_000,
            offload_max_ms: 3_600_000,
        }
    }
}

/// Why an engine cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// More workers than shards of ports, or none.
    #[error("{0} workers: there must be 1 to 16")]
    BadWorkers(u8),
    /// A worker's number beyond their count.
    #[error("worker {worker} of {workers}: workers are numbered from 0")]
    BadWorker {
        /// The number.
        worker: u8,
        /// The count.
        workers: u8,
    },
    /// More records than fit an identifier.
    #[error("{0} records: at most 16777216 fit a worker")]
    TooManyRecords(u32),
}

/// A VIP, configured or still in use by sessions.
#[derive(Debug)]
pub(crate) struct VipState {
    pub(crate) config: Vip,
    pub(crate) configured: bool,
    /// Index in the snapshot's list.
    pub(crate) at: usize,
    /// Engine's indices of its servers, in the configuration's order.
    pub(crate) servers: Vec<u16>,
    /// Ticks by state.
    pub(crate) timeouts: [u32; STATES],
    pub(crate) port_hold: u32,
    pub(crate) time_wait: u32,
    /// Most sessions in this worker.
    pub(crate) cap: u32,
    pub(crate) sessions: u32,
    /// Of those, the ones whose server has not answered.
    pub(crate) unreplied: u32,
    pub(crate) round_robin: usize,
    pub(crate) weighted: SmoothWrr,
    /// Where the search for something to evict goes on.
    pub(crate) evict_at: usize,
}

/// What every packet needs of its VIP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VipHot {
    pub(crate) vni: u32,
    /// Packets before an entry is asked for; `u64::MAX` for never.
    pub(crate) offload_min: u64,
    pub(crate) fwd_packets: u64,
    pub(crate) fwd_bytes: u64,
    pub(crate) rev_packets: u64,
    pub(crate) rev_bytes: u64,
}

/// A server, configured or still in use by sessions.
#[derive(Debug)]
pub(crate) struct ServerInfo {
    pub(crate) config: Server,
    pub(crate) configured: bool,
    pub(crate) sessions: u32,
    /// Ticks that UDP sessions may stay once it takes no more.
    udp_drain: u32,
}

impl ServerInfo {
    pub(crate) fn takes_sessions(&self) -> bool {
        self.configured && self.config.takes_sessions()
    }
}

/// One worker's sessions. See the crate's documentation.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) now: Tick,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) index: TagIndex,
    pub(crate) store: Store,
    pub(crate) vips: Vec<VipState>,
    pub(crate) vip_hot: Vec<VipHot>,
    /// Snapshot's VIP -> engine's.
    pub(crate) vip_of: Vec<u16>,
    pub(crate) servers: Vec<ServerInfo>,
    /// Of each server, `u16::MAX` for no limit.
    pub(crate) server_mtu: Vec<u16>,
    pub(crate) client_mtu: u16,
    pub(crate) effects: Vec<Effect>,
    pub(crate) counters: Counters,
    /// Totals too large for their record.
    pub(crate) spill: FastMap<u32, Totals>,
    pub(crate) sweep: Sweep,
    pub(crate) jobs: Vec<Job>,
    /// Servers whose UDP sessions are to leave, and when.
    pub(crate) cutoffs: Vec<(Tick, u16)>,
    pub(crate) icmp_limit: TokenBucket,
    pub(crate) switch_up: bool,
    pub(crate) resend: u32,
    pub(crate) offload_max: u32,
    pub(crate) sessions: u32,
    pub(crate) offloaded: u32,
    pub(crate) work: Box<[Work; BURST]>,
    pub(crate) slow: Vec<u16>,
}

impl Engine {
    /// An engine without configuration: everything is an unknown destination.
    ///
    /// # Errors
    /// [`EngineError`] when the numbers make no sense.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        if config.workers == 0 || u16::from(config.workers) > SHARDS {
            return Err(EngineError::BadWorkers(config.workers));
        }
        if config.worker >= config.workers {
            return Err(EngineError::BadWorker {
                worker: config.worker,
                workers: config.workers,
            });
        }
        if config.max_records > MAX_RECORDS {
            return Err(EngineError::TooManyRecords(config.max_records));
        }
        let max_records = config.max_records as usize;
        Ok(Self {
            now: Tick(0),
            snapshot: Arc::new(Snapshot::empty()),
            index: TagIndex::new(max_records),
            store: Store::new(config.worker, config.workers, max_records),
            vips: Vec::new(),
            vip_hot: Vec::new(),
            vip_of: Vec::new(),
            servers: Vec::new(),
            server_mtu: Vec::new(),
            client_mtu: u16::MAX,
            effects: Vec::new(),
            counters: Counters::default(),
            spill: FastMap::new(),
            sweep: Sweep::default(),
            jobs: Vec::new(),
            cutoffs: Vec::new(),
            icmp_limit: TokenBucket::new(config.icmp_per_second),
            switch_up: true,
            resend: ticks(config.resend_ms).max(1),
            offload_max: ticks(config.offload_max_ms).max(1),
            sessions: 0,
            offloaded: 0,
            work: Box::new([Work::default(); BURST]),
            slow: Vec::with_capacity(BURST),
            config,
        })
    }

    /// Takes a new configuration over, between bursts. Sessions go on as they
    /// are, also those of VIPs, servers and local addresses that are gone.
    pub fn set_snapshot(&mut self, snapshot: Arc<Snapshot>) {
        let spec = snapshot.spec();
        self.store.set_locals(&spec.locals);
        self.client_mtu = no_limit(spec.client_mtu);
        let known_vips = known(self.vips.iter().map(|v| {
            let used = v.configured || v.sessions > 0;
            (used, v.configured, v.config.vip_id)
        }));
        let known_servers = known(self.servers.iter().map(|s| {
            let used = s.configured || s.sessions > 0;
            (used, s.configured, s.config.server_id)
        }));
        let was: Vec<bool> = self
            .servers
            .iter()
            .map(ServerInfo::takes_sessions)
            .collect();
        for v in &mut self.vips {
            v.configured = false;
        }
        for s in &mut self.servers {
            s.configured = false;
        }
        self.vip_of.clear();
        for (at, vip) in spec.vips.iter().enumerate() {
            let servers: Vec<u16> = vip
                .servers
                .iter()
                .map(|s| self.take_server(s, &vip.timeouts, &known_servers))
                .collect();
            let v = self.take_vip(vip, at, servers, &known_vips);
            self.vip_of.push(v);
        }
        self.plan_cutoffs(&was);
        self.snapshot = snapshot;
    }

    /// The configuration in use.
    #[must_use]
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// What has to be passed on. Drain it after each call.
    pub fn effects(&mut self) -> std::vec::Drain<'_, Effect> {
        self.effects.drain(..)
    }

    /// Totals since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Momentary values.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let ports_in_use: u32 = self.store.port_use().map(|u| u.in_use).sum();
        Gauges {
            sessions: self.sessions,
            offloaded: self.offloaded,
            // Every session holds one port, and so does every resting one.
            ports_resting: ports_in_use - self.sessions,
            ports_in_use,
            records: self.store.records.len() as u32,
        }
    }

    /// Use of local ports by address and protocol.
    pub fn port_use(&self) -> impl Iterator<Item = PortUse> + '_ {
        self.store.port_use()
    }

    /// Packets and bytes by VIP.
    pub fn vip_stats(&self) -> impl Iterator<Item = VipStats> + '_ {
        self.vips
            .iter()
            .zip(&self.vip_hot)
            .filter(|(v, _)| v.configured || v.sessions > 0)
            .map(|(v, h)| VipStats {
                vip_id: v.config.vip_id,
                sessions: v.sessions,
                fwd_packets: h.fwd_packets,
                fwd_bytes: h.fwd_bytes,
                rev_packets: h.rev_packets,
                rev_bytes: h.rev_bytes,
            })
    }

    /// Sessions that a server still holds, configured or not.
    #[must_use]
    pub fn sessions_of_server(&self, server_id: u16) -> u32 {
        self.servers
            .iter()
            .filter(|s| s.config.server_id == server_id)
            .map(|s| s.sessions)
            .sum()
    }

    /// Sessions that a VIP still holds, configured or not.
    #[must_use]
    pub fn sessions_of_vip(&self, vip_id: u16) -> u32 {
        self.vips
            .iter()
            .filter(|v| v.config.vip_id == vip_id)
            .map(|v| v.sessions)
            .sum()
    }

    /// Bytes of memory for sessions: records, expiry array and index.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.store.records.len() * size_of::<Record>()
            + self.store.due.len() * 2
            + self.index.bytes()
    }

    fn take_vip(
        &mut self,
        vip: &Vip,
        at: usize,
        servers: Vec<u16>,
        known: &HashMap<u16, usize>,
    ) -> u16 {
        let same = known.get(&vip.vip_id).copied().filter(|i| {
            let c = &self.vips[*i].config;
            (c.vni, c.address, c.protocol) == (vip.vni, vip.address, vip.protocol)
        });
        let unused = || {
            self.vips
                .iter()
                .position(|v| !v.configured && v.sessions == 0)
                .filter(|i| !known.values().any(|k| k == i))
        };
        let i = same.or_else(unused);
        let t = &vip.timeouts;
        let mut state = VipState {
            config: vip.clone(),
            configured: true,
            at,
            servers,
            timeouts: timeouts_by_state(t),
            port_hold: ticks(t.port_hold_ms).max(1),
            time_wait: ticks(t.time_wait_ms),
            cap: match vip.max_sessions {
                0 => u32::MAX,
                n => n
                    .div_ceil(u64::from(self.config.workers))
                    .min(u64::from(u32::MAX)) as u32,
            },
            sessions: 0,
            unreplied: 0,
            // Workers start at different servers.
            round_robin: usize::from(self.config.worker),
            weighted: SmoothWrr::default(),
            evict_at: 0,
        };
        let mut hot = VipHot {
            vni: vip.vni,
            offload_min: if vip.offload.enabled {
                u64::from(vip.offload.min_packets)
            } else {
                u64::MAX
            },
            ..VipHot::default()
        };
        match i {
            Some(i) if same.is_some() => {
                let old = &mut self.vips[i];
                state.sessions = old.sessions;
                state.unreplied = old.unreplied;
                state.round_robin = old.round_robin;
                state.evict_at = old.evict_at;
                if old.servers == state.servers {
                    state.weighted = std::mem::take(&mut old.weighted);
                }
                let h = self.vip_hot[i];
                hot = VipHot {
                    vni: hot.vni,
                    offload_min: hot.offload_min,
                    ..h
                };
                self.vips[i] = state;
                self.vip_hot[i] = hot;
                i as u16
            }
            Some(i) => {
                self.vips[i] = state;
                self.vip_hot[i] = hot;
                i as u16
            }
            None => {
                self.vips.push(state);
                self.vip_hot.push(hot);
                self.vips.len() as u16 - 1
            }
        }
    }

    fn take_server(
        &mut self,
        server: &Server,
        timeouts: &Timeouts,
        known: &HashMap<u16, usize>,
    ) -> u16 {
        let same = known.get(&server.server_id).copied().filter(|i| {
            let c = &self.servers[*i].config;
            (c.address, c.port) == (server.address, server.port)
        });
        let unused = || {
            self.servers
                .iter()
                .position(|s| !s.configured && s.sessions == 0)
                .filter(|i| !known.values().any(|k| k == i))
        };
        let mut info = ServerInfo {
            config: server.clone(),
            configured: true,
            sessions: 0,
            udp_drain: ticks(timeouts.udp_drain_ms),
        };
        let mtu = no_limit(server.mtu);
        match same.or_else(unused) {
            Some(i) => {
                info.sessions = self.servers[i].sessions;
                if same.is_none() {
                    self.cutoffs.retain(|(_, server)| usize::from(*server) != i);
                }
                self.servers[i] = info;
                self.server_mtu[i] = mtu;
                i as u16
            }
            None => {
                self.servers.push(info);
                self.server_mtu.push(mtu);
                self.servers.len() as u16 - 1
            }
        }
    }

    /// UDP sessions have no end of their own, so they must leave a server that
    /// takes no more: after a while when it is drained or gone, at once when it
    /// is down.
    fn plan_cutoffs(&mut self, took_sessions: &[bool]) {
        for (i, took) in took_sessions.iter().enumerate() {
            let s = &self.servers[i];
            if !took || s.takes_sessions() {
                continue;
            }
            let down = s.configured && s.config.state == ServerState::Down;
            let wait = if down { 0 } else { s.udp_drain };
            self.cutoffs.push((self.now + wait, i as u16));
        }
    }
}

/// By identifier, the index of what has it: of several the configured one, as
/// the others are only remembered for their sessions.
fn known(list: impl Iterator<Item = (bool, bool, u16)>) -> HashMap<u16, usize> {
    let mut out = HashMap::new();
    for (i, (used, configured, id)) in list.enumerate() {
        if configured {
            out.insert(id, i);
        } else if used {
            out.entry(id).or_insert(i);
        }
    }
    out
}

const fn no_limit(mtu: u16) -> u16 {
    if mtu == 0 { u16::MAX } else { mtu }
}

fn timeouts_by_state(t: &Timeouts) -> [u32; STATES] {
    let mut out = [0; STATES];
    let mut set = |s: State, ms: u32| out[s as usize] = ticks(ms).max(1);
    set(State::SynRecv, t.syn_ms);
    set(State::Established, t.established_ms);
    set(State::FinWait, t.fin_ms);
    set(State::CloseWait, t.fin_ms);
    set(State::TimeWait, t.time_wait_ms);
    set(State::Close, t.close_ms);
    set(State::UdpUnreplied, t.udp_unreplied_ms);
    set(State::UdpReplied, t.udp_ms);
    set(State::Killed, t.close_ms);
    out
}
