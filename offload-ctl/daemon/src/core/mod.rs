//! The one task that owns all state and decides.
//!
//! Everything that happens comes in as an [`Event`]; slow work (writes, reads)
//! is done elsewhere and comes back as an event too. So there are no locks and
//! no order of events that is not seen here.

mod admin;
mod explain;
mod lds;
mod retire;
mod switch;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_config::{Gateway, OffloadCtl};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

pub use admin::{AdminRequest, CounterView, FlowsPage, VipsPage};
pub use explain::ExplainPart;
pub use lds::{LdConnection, LdEvent};

use crate::dataplane::{Dataplane, Lost, Notice, Outcomes, Reading, Update};
use crate::desired::{Desired, Intent, LIMITS, LearnedHost};
use crate::entry::{Entry, Key};
use crate::flows::{Batch, BatchOutcome, FlowBook, IdCheck, IdleCheck, LdName, Pair};
use crate::ids::{IdBook, Identity, Kind};
use crate::neighbors::Neighbors;
use crate::reconcile::Mirror;
use crate::session::Up;
use crate::store::{Store, StoreError};

/// Events that may wait; senders wait beyond that.
pub const EVENTS: usize = 4096;
const TICK: Duration = Duration::from_millis(100);
/// Events taken in one go before anything is sent.
const BURST: usize = 256;

/// Something that happened.
pub enum Event {
    /// The switch is connected and its tables have been read.
    SwitchUp(Up),
    /// There is no connection.
    SwitchDown {
        /// Number of the connection or of the attempt.
        epoch: u64,
        /// Why.
        why: String,
    },
    /// The switch tells something.
    Notice {
        /// Number of the connection.
        epoch: u64,
        /// What.
        notice: Notice,
    },
    /// A batch of flow updates is done.
    FlowsWritten {
        /// Number of the connection.
        epoch: u64,
        /// The batch.
        batch: Batch,
        /// What came of it.
        outcome: BatchOutcome,
    },
    /// A batch of configuration is done.
    ConfigWritten {
        /// Number of the connection.
        epoch: u64,
        /// The batch.
        updates: Vec<Update>,
        /// What came of it.
        outcomes: Outcomes,
        /// It was the last one of its round.
        last: bool,
    },
    /// A call failed as a whole.
    CallLost {
        /// Number of the connection.
        epoch: u64,
        /// Why.
        lost: Lost,
    },
    /// All tables have been read for comparison.
    ReadBack {
        /// Number of the connection.
        epoch: u64,
        /// Moment of the flow book.
        flows_at: u64,
        /// Moment of the configuration, if it could be compared.
        config_at: Option<u64>,
        /// What was read.
        readings: Vec<Reading>,
    },
    /// Entries have been read to decide about idle sessions.
    IdleRead {
        /// Number of the connection.
        epoch: u64,
        /// The question.
        check: IdleCheck,
        /// The answer.
        readings: Vec<Reading>,
    },
    /// An LD says something.
    Ld(LdEvent),
    /// An operator asks for something.
    Admin(AdminRequest),
}

/// How the core is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Most updates in one Write.
    pub batch: usize,
    /// Least time between two batches of flow updates that are not full.
    pub linger: Duration,
    /// How long sessions of an absent LD are kept.
    pub absent_ld_grace: Duration,
    /// Time between two read-backs; none for never.
    pub readback: Option<Duration>,
    /// Time between two ARP requests for an unresolved next hop.
    pub arp_retry: Duration,
    /// Time after which a resolved one is asked again.
    pub arp_refresh: Duration,
    /// Entries of each flow table.
    pub flow_capacity: usize,
    /// Address of the switch, for people.
    pub target: String,
    /// Cookie of the pipeline wanted.
    pub cookie: u64,
}

impl Settings {
    /// From offload-ctl.toml.
    pub fn from_config(config: &OffloadCtl, cookie: u64) -> Self {
        Self {
            batch: config.flows.batch.max(2),
            linger: Duration::from_millis(config.flows.linger_ms),
            absent_ld_grace: Duration::from_secs(config.flows.absent_ld_grace_s),
            readback: (config.readback.interval_s > 0)
                .then(|| Duration::from_secs(config.readback.interval_s)),
            arp_retry: Duration::from_millis(config.neighbors.retry_ms),
            arp_refresh: Duration::from_secs(config.neighbors.refresh_s),
            flow_capacity: usize::try_from(p4_contract::tables::flow_fwd_v4::INFO.size)
                .unwrap_or(usize::MAX),
            target: config.p4runtime.address.to_string(),
            cookie,
        }
    }
}

/// Why the core cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the store holds is not valid for this version.
    #[error(
        "the configuration in the store is not valid any more, version {version}: {problems}; apply a corrected one with a new store"
    )]
    Stored {
        /// Its version.
        version: u64,
        /// What is wrong.
        problems: String,
    },
}

/// All state.
pub struct Core {
    settings: Settings,
    store: Store,
    intent: Intent,
    ids: IdBook,
    desired: Desired,
    /// What the switch's configuration tables ought to hold.
    target: BTreeMap<Key, Entry>,
    mirror: Mirror,
    flows: FlowBook,
    neighbors: Neighbors,
    lds: BTreeMap<LdName, lds::Ld>,
    switch: switch::SwitchState,
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Event>,
    started: Instant,
    started_unix_ms: u64,
    unused_since: HashMap<Identity, u64>,
    next_retire: u64,
    queries: explain::Queries,
}

impl Core {
    /// Loads the store. Events for the core go to the sender.
    ///
    /// # Errors
    /// If the store fails or holds what is not valid.
    pub fn new(
        settings: Settings,
        store: Store,
    ) -> Result<(Self, mpsc::Sender<Event>), StartError> {
        let (version, ids) = store.load(LIMITS)?;
        let intent = if version.version == 0 {
            Intent::empty()
        } else {
            let gateway = Gateway::parse(&version.text).map_err(|invalid| StartError::Stored {
                version: version.version,
                problems: invalid.to_string(),
            })?;
            Intent::new(version, gateway)
        };
        let (events, inbox) = mpsc::channel(EVENTS);
        let neighbors = Neighbors::new(ms(settings.arp_retry), ms(settings.arp_refresh));
        let mut core = Self {
            flows: FlowBook::new(settings.flow_capacity),
            settings,
            store,
            intent,
            ids,
            desired: Desired::default(),
            target: BTreeMap::new(),
            mirror: Mirror::default(),
            neighbors,
            lds: BTreeMap::new(),
            switch: switch::SwitchState::default(),
            events: events.clone(),
            inbox,
            started: Instant::now(),
            started_unix_ms: unix_ms(),
            unused_since: HashMap::new(),
            next_retire: 0,
            queries: explain::Queries::default(),
        };
        core.rebuild();
        // Hosts that were learned before: ask for them again.
        let learned: Vec<(u16, std::net::Ipv4Addr)> = core
            .ids
            .of_kind(Kind::Nexthop)
            .filter_map(|(_, identity)| match identity {
                Identity::Nexthop {
                    port,
                    addr,
                    tunnel: false,
                } => Some((*port, *addr)),
                _ => None,
            })
            .collect();
        for (port, addr) in learned {
            core.neighbors.remember(port, addr);
        }
        Ok((core, events))
    }

    /// Whether anything has been applied yet.
    pub fn is_empty(&self) -> bool {
        self.intent.version.version == 0
    }

    /// Works until nobody is left to send events (which never happens, since
    /// the core keeps a sender for its own helpers).
    pub async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let flush_at = self.flush_at();
            tokio::select! {
                event = self.inbox.recv() => {
                    let Some(event) = event else { return };
                    self.handle(event);
                    for _ in 0..BURST {
                        let Ok(event) = self.inbox.try_recv() else { break };
                        self.handle(event);
                    }
                }
                () = tokio::time::sleep_until(flush_at.into()) => {}
                _ = tick.tick() => self.tick(),
            }
            self.send_what_is_due();
        }
    }

    /// Takes in one event.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::SwitchUp(up) => self.switch_up(up),
            Event::SwitchDown { epoch, why } => self.switch_down(epoch, why),
            Event::Notice { epoch, notice } if self.is_current(epoch) => self.notice(notice),
            Event::FlowsWritten {
                epoch,
                batch,
                outcome,
            } if self.is_current(epoch) => self.flows_written(batch, outcome),
            Event::ConfigWritten {
                epoch,
                updates,
                outcomes,
                last,
            } if self.is_current(epoch) => self.config_written(&updates, &outcomes, last),
            Event::CallLost { epoch, lost } if self.is_current(epoch) => self.call_lost(lost),
            Event::ReadBack {
                epoch,
                flows_at,
                config_at,
                readings,
            } if self.is_current(epoch) => self.read_back(flows_at, config_at, &readings),
            Event::IdleRead {
                epoch,
                check,
                readings,
            } if self.is_current(epoch) => {
                let now = self.now();
                self.flows.idle_read(&check, &readings, now);
            }
            Event::Ld(event) => self.ld_event(event),
            Event::Admin(request) => self.admin(request),
            // Of a connection that is gone: the read at the next one told.
            Event::Notice { .. }
            | Event::FlowsWritten { .. }
            | Event::ConfigWritten { .. }
            | Event::CallLost { .. }
            | Event::ReadBack { .. }
            | Event::IdleRead { .. } => {}
        }
    }

    /// Time since start, ms.
    fn now(&self) -> u64 {
        ms(self.started.elapsed())
    }

    fn tick(&mut self) {
        let now = self.now();
        self.tick_switch(now);
        self.tick_retire(now);
        self.flows.retry_refused();
    }

    /// Sends what has become due: answers, snapshots, writes.
    fn send_what_is_due(&mut self) {
        self.send_config();
        self.send_flows();
        self.send_to_lds();
    }

    /// Works out anew what the switch ought to hold.
    fn rebuild(&mut self) {
        let learned = self.neighbors.learned();
        if self.allocate_learned(&learned) {
            self.save_ids();
        }
        self.desired = crate::desired::build(&self.intent, &self.ids, &learned);
        self.neighbors
            .configure(&self.intent.effective, &self.desired.hops);
        self.target = self.desired.entries.clone();
        for hop in self.desired.hops.values() {
            if let Some(mac) = self.neighbors.mac(hop.port, hop.neighbor) {
                let entry = hop.entry(mac);
                self.target.insert(entry.key, entry);
            }
        }
    }

    fn allocate_learned(&mut self, learned: &std::collections::BTreeSet<LearnedHost>) -> bool {
        let mut changed = false;
        for host in learned {
            let identity = Identity::Nexthop {
                port: host.port,
                addr: host.addr,
                tunnel: false,
            };
            if self.ids.find(&identity).is_none() {
                match self.ids.allocate(&identity) {
                    Ok(_) => changed = true,
                    Err(error) => tracing::warn!(%error, host = %host.addr, "not reachable"),
                }
            }
        }
        changed
    }

    fn save_ids(&mut self) {
        if self.is_empty() {
            return;
        }
        if let Err(error) = self.store.save(&self.intent.version, &self.ids) {
            tracing::error!(%error, "ids not saved");
        }
    }

    /// Runs the flow book with a view of what is configured.
    fn with_flows<R>(&mut self, act: impl FnOnce(&mut FlowBook, &dyn IdCheck) -> R) -> R {
        let check = Known {
            ids: &self.ids,
            intent: &self.intent,
        };
        act(&mut self.flows, &check)
    }

    fn dataplane(&self) -> Option<Arc<dyn Dataplane>> {
        self.switch.dataplane()
    }
}

/// What is configured, for the flow book.
struct Known<'a> {
    ids: &'a IdBook,
    intent: &'a Intent,
}

impl IdCheck for Known<'_> {
    fn check(&self, pair: &Pair) -> Result<(), String> {
        let missing = |what: &str, id: u16| {
            format!("{what} {id} is not configured (any more); wait for the next snapshot")
        };
        let vip_id = pair.fwd.vip_id;
        match self.ids.identity(Kind::Vip, vip_id) {
            Some(Identity::Vip {
                protocol,
                port_low,
                port_high,
                ..
            }) => {
                if *protocol != pair.rev.protocol {
                    return Err(format!("VIP {vip_id} is of protocol {protocol}"));
                }
                if !(*port_low..=*port_high).contains(&pair.fwd.vip_port) {
                    return Err(format!("VIP {vip_id} has ports {port_low} to {port_high}"));
                }
            }
            _ => return Err(missing("VIP", vip_id)),
        }
        match self.ids.identity(Kind::Server, pair.server_id) {
            Some(Identity::Server { vip_id: of, .. }) if *of == vip_id => {}
            Some(_) => {
                return Err(format!(
                    "server {} is of another VIP than {vip_id}",
                    pair.server_id
                ));
            }
            None => return Err(missing("server", pair.server_id)),
        }
        match self.ids.identity(Kind::Local, pair.rev.local_id) {
            Some(_) => Ok(()),
            None => Err(missing("local address", pair.rev.local_id)),
        }
    }

    fn owner(&self, local_id: u16) -> Option<LdName> {
        let Some(Identity::Local { vni, addr }) = self.ids.identity(Kind::Local, local_id) else {
            return None;
        };
        let local = self.intent.local(*vni, *addr)?;
        let groups = &self.intent.effective.groups;
        let group = groups.iter().find(|group| group.name == local.group)?;
        crate::desired::slot_owners(group)
            .get(usize::from(local.number))
            .map(|name| Arc::from(*name))
    }
}

/// A duration in ms, as far as they fit.
fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Wall clock, ms since 1970.
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, ms)
}
