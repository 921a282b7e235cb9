//! Offloaded sessions: what they ought to be, what the switch has, who asked.
//!
//! The book is a state machine without I/O. For each session it knows what is
//! wanted (both entries or none) and what each of the two entries is known to
//! be; everything else follows: the next batch holds what brings the switch
//! closer to what is wanted, and an LD is answered when both entries are
//! settled. After a lost connection nothing is known until the switch's tables
//! have been read; so a session is never reported removed, and its local port
//! never free, on a guess (I1).

mod batch;
mod idle;
mod lds;
mod pair;
mod readback;
mod replies;
mod requests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use offload_api::v1::{self, RejectReason};

pub use batch::{Batch, BatchOutcome};
pub use idle::IdleCheck;
pub use pair::{Dir, Pair};
pub use replies::{LdName, Replies};

use crate::dataplane::Count;
use crate::entry::{FwdKey, Key, RevKey};
use lds::LdState;

/// What is known of an entry on the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Have {
    /// It is not there.
    Absent,
    /// It is there and right.
    Present,
    /// Something else is there under its key.
    Stale,
    /// A write was lost; only reading tells.
    Unknown,
}

/// Whom to tell what when the last entry of a session is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    /// The LD asked.
    Removed,
    /// It could not be installed.
    Rejected(RejectReason, String),
    /// It was installed and is no more, without the LD having asked.
    Evicted(&'static str),
    /// Nobody waits.
    Silent,
}

#[derive(Clone, Debug)]
struct Flow {
    ld: LdName,
    /// The LD's id; none until an LD has claimed or adopted it.
    session: Option<u64>,
    pair: Pair,
    generation: u32,
    /// Wanted on the switch; otherwise why not.
    want: Result<(), Ending>,
    have: [Have; 2],
    in_flight: bool,
    queued: bool,
    /// The LD takes it for installed.
    announced: bool,
    /// Resync round in which its LD named it last.
    claimed: u64,
    /// Clock of the last write that was submitted or answered.
    touched: u64,
    count: [Count; 2],
    idle: idle::IdleState,
    /// The LD waits for `Installed`.
    owes_installed: bool,
    /// Installs whose keys this session still holds while it is removed.
    waiters: Vec<Waiter>,
}

/// An install that waits for another session's keys.
#[derive(Clone, Debug)]
struct Waiter {
    ld: LdName,
    flow: v1::FlowPair,
    announced: bool,
}

impl Flow {
    fn settled(&self) -> bool {
        let wanted = match self.want {
            Ok(()) => Have::Present,
            Err(_) => Have::Absent,
        };
        !self.in_flight && self.have == [wanted; 2]
    }

    fn totals(&self) -> v1::FlowTotals {
        v1::FlowTotals {
            session_id: self.session.unwrap_or_default(),
            fwd_packets: self.count[0].packets,
            fwd_bytes: self.count[0].bytes,
            rev_packets: self.count[1].packets,
            rev_bytes: self.count[1].bytes,
        }
    }
}

/// Totals since start, for status and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions installed.
    pub installs: u64,
    /// Installs rejected.
    pub rejected: u64,
    /// Sessions removed from the switch.
    pub removes: u64,
    /// Sessions reported idle.
    pub idle: u64,
    /// Sessions evicted.
    pub evicted: u64,
    /// Sessions found on the switch at start.
    pub imported: u64,
    /// Sessions handed to a new process of their LD.
    pub adopted: u64,
    /// Sessions written again because the switch had lost them.
    pub reinstalled: u64,
    /// Entries on the switch that belonged to no session.
    pub strays: u64,
    /// Updates that the switch refused.
    pub update_errors: u64,
}

/// What an LD asked for has to be known: is every id configured?
pub trait IdCheck {
    /// `Err` holds a sentence for the LD.
    ///
    /// # Errors
    /// If an id is not (or no longer) configured.
    fn check(&self, pair: &Pair) -> Result<(), String>;

    /// The LD that owns a local address now.
    fn owner(&self, local_id: u16) -> Option<LdName>;
}

/// All offloaded sessions.
#[derive(Debug)]
pub struct FlowBook {
    flows: BTreeMap<u64, Flow>,
    by_fwd: HashMap<FwdKey, u64>,
    by_rev: HashMap<RevKey, u64>,
    by_session: HashMap<(LdName, u64), u64>,
    lds: BTreeMap<LdName, LdState>,
    /// Sessions of each LD.
    counts: HashMap<LdName, usize>,
    refs: [HashMap<u16, u32>; 3],
    queue: VecDeque<u64>,
    /// Deletions that the switch refused, for the next tick.
    refused: Vec<u64>,
    /// Entries to delete that belong to no session.
    strays: VecDeque<Key>,
    strays_in_flight: usize,
    next_id: u64,
    clock: u64,
    capacity: usize,
    switch_up: bool,
    /// The tables have been read at least once, so that no unknown entry is
    /// on the switch.
    known: bool,
    gone: Option<HashSet<Key>>,
    rechecks: BTreeSet<(u64, u64)>,
    replies: Replies,
    stats: Stats,
}

/// A session for people.
#[derive(Clone, Debug)]
pub struct View {
    /// Position in the book, ascending.
    pub id: u64,
    /// The LD.
    pub ld: LdName,
    /// The session; `session_id` 0 if no LD claims it.
    pub flow: v1::FlowPair,
    /// installed, installing, removing, unclaimed.
    pub state: &'static str,
    /// Both directions.
    pub pair: Pair,
}

impl FlowBook {
    /// An empty book for tables of this size.
    pub fn new(capacity: usize) -> Self {
        Self {
            flows: BTreeMap::new(),
            by_fwd: HashMap::new(),
            by_rev: HashMap::new(),
            by_session: HashMap::new(),
            lds: BTreeMap::new(),
            counts: HashMap::new(),
            refs: Default::default(),
            queue: VecDeque::new(),
            refused: Vec::new(),
            strays: VecDeque::new(),
            strays_in_flight: 0,
            next_id: 1,
            clock: 0,
            capacity,
            switch_up: false,
            known: false,
            gone: None,
            rechecks: BTreeSet::new(),
            replies: Replies::default(),
            stats: Stats::default(),
        }
    }

    /// Messages to LDs since the last call.
    pub fn take_replies(&mut self) -> Vec<(LdName, v1::ctl_message::Message)> {
        self.replies.take()
    }

    /// Totals since start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether the switch's tables have been read since start, so that no
    /// session on the switch is unknown here.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Number of sessions of an LD.
    pub fn of_ld(&self, ld: &str) -> usize {
        self.counts.get(ld).copied().unwrap_or(0)
    }

    /// Whether a session refers to the VIP.
    pub fn uses_vip(&self, id: u16) -> bool {
        self.refs[0].contains_key(&id)
    }

    /// Whether a session refers to the server.
    pub fn uses_server(&self, id: u16) -> bool {
        self.refs[1].contains_key(&id)
    }

    /// Whether a session refers to the local address.
    pub fn uses_local(&self, id: u16) -> bool {
        self.refs[2].contains_key(&id)
    }

    /// Sessions after position `after`, in ascending order.
    pub fn views(&self, after: u64) -> impl Iterator<Item = View> + '_ {
        self.flows
            .range(after.saturating_add(1)..)
            .map(|(&id, flow)| self.view(id, flow))
    }

    /// The session with this forward key.
    pub fn find_fwd(&self, key: &FwdKey) -> Option<View> {
        let id = self.by_fwd.get(key)?;
        self.flows.get(id).map(|flow| self.view(*id, flow))
    }

    /// The session with this reverse key.
    pub fn find_rev(&self, key: &RevKey) -> Option<View> {
        let id = self.by_rev.get(key)?;
        self.flows.get(id).map(|flow| self.view(*id, flow))
    }

    fn view(&self, id: u64, flow: &Flow) -> View {
        View {
            id,
            ld: flow.ld.clone(),
            flow: flow
                .pair
                .to_api(flow.session.unwrap_or_default(), flow.generation),
            state: match (&flow.want, flow.session, flow.settled()) {
                (Err(_), _, _) => "removing",
                (Ok(()), None, _) => "unclaimed",
                (Ok(()), Some(_), true) => "installed",
                (Ok(()), Some(_), false) => "installing",
            },
            pair: flow.pair,
        }
    }

    /// Sets what is to be said when it is gone, and has it removed.
    fn end(&mut self, id: u64, ending: Ending) {
        if let Some(flow) = self.flows.get_mut(&id) {
            if flow.want.is_ok() {
                flow.want = Err(ending);
            }
            self.enqueue(id);
            self.finish_if_settled(id);
        }
    }

    fn add(&mut self, flow: Flow) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.by_fwd.insert(flow.pair.fwd, id);
        self.by_rev.insert(flow.pair.rev, id);
        if let Some(session) = flow.session {
            self.by_session.insert((flow.ld.clone(), session), id);
        }
        for (refs, id) in self.refs.iter_mut().zip(ids_of(&flow.pair)) {
            *refs.entry(id).or_insert(0) += 1;
        }
        *self.counts.entry(flow.ld.clone()).or_insert(0) += 1;
        self.flows.insert(id, flow);
        id
    }

    fn enqueue(&mut self, id: u64) {
        if let Some(flow) = self.flows.get_mut(&id)
            && !flow.queued
            && !flow.in_flight
        {
            flow.queued = true;
            self.queue.push_back(id);
        }
    }

    /// Answers and forgets a session whose entries are as wanted.
    fn finish_if_settled(&mut self, id: u64) {
        let Some(flow) = self.flows.get_mut(&id) else {
            return;
        };
        if !flow.settled() {
            return;
        }
        if flow.want.is_ok() {
            if !flow.announced {
                flow.announced = true;
                self.stats.installs += 1;
            }
            if let Some(session) = flow.session.filter(|_| flow.owes_installed) {
                flow.owes_installed = false;
                self.replies.installed(&flow.ld, session);
            }
            return;
        }
        let Some(flow) = self.flows.remove(&id) else {
            return;
        };
        self.forget(id, &flow);
        let ending = flow.want.clone().err().unwrap_or(Ending::Silent);
        if let Some(session) = flow.session {
            match ending {
                Ending::Removed => {
                    self.stats.removes += 1;
                    self.replies.removed(&flow.ld, flow.totals());
                }
                Ending::Rejected(reason, detail) => self.refuse(&flow.ld, session, reason, detail),
                Ending::Evicted(why) => {
                    self.stats.evicted += 1;
                    self.replies.evicted(&flow.ld, flow.totals(), why);
                }
                Ending::Silent => self.stats.removes += 1,
            }
        } else {
            self.stats.removes += 1;
        }
        let ld = flow.ld.clone();
        self.retry_waiters(flow.waiters);
        self.answer_pending_removals(&ld);
    }

    fn forget(&mut self, id: u64, flow: &Flow) {
        if let Some(count) = self.counts.get_mut(&flow.ld) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&flow.ld);
            }
        }
        if self.by_fwd.get(&flow.pair.fwd) == Some(&id) {
            self.by_fwd.remove(&flow.pair.fwd);
        }
        if self.by_rev.get(&flow.pair.rev) == Some(&id) {
            self.by_rev.remove(&flow.pair.rev);
        }
        if let Some(session) = flow.session {
            self.by_session.remove(&(flow.ld.clone(), session));
        }
        for (refs, id) in self.refs.iter_mut().zip(ids_of(&flow.pair)) {
            if let Some(count) = refs.get_mut(&id) {
                *count -= 1;
                if *count == 0 {
                    refs.remove(&id);
                }
            }
        }
        if let Some(gone) = &mut self.gone {
            gone.extend(Dir::BOTH.map(|dir| flow.pair.key(dir)));
        }
    }
}

/// VIP, server and local address of a session, in the order of `refs`.
fn ids_of(pair: &Pair) -> [u16; 3] {
    [pair.fwd.vip_id, pair.server_id, pair.rev.local_id]
}
