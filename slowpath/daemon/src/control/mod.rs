//! The control thread's work: between the workers and offload-ctl.
//!
//! [`Control`] decides and does no I/O; [`run`] feeds it. The order at the start
//! of a process:
//!
//! 1. Hello with a random boot id; Welcome says whether offload-ctl knows it.
//! 2. If it does not, Adopt messages bring the entries that an earlier process
//!    left on the switch. They are given to the workers as soon as these have a
//!    configuration, and only after the last of them may local ports be handed
//!    out: a port in use on the switch must not be used again (I1).
//! 3. Then packets pass.
//!
//! While offload-ctl is away the workers go on, and the [`Book`] keeps what it
//! has not acknowledged.
//!
//! This file holds the state and hands every message and event to its room:
//!
//! * `transport` opens the stream to offload-ctl, again and again; `stream` is
//!   what is said on it.
//! * `configuration`, `adoption` and `explain` are the three things that need
//!   all workers' answers; offload itself is in the [`Book`].
//! * `link` is one worker's end; `status` is the sum of what they report.
//! * `run` is the loop around all of it.

mod adoption;
mod configuration;
mod explain;
mod link;
mod run;
mod status;
mod stream;
pub mod transport;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use offload_api::v1::{CtlMessage, Kill, LdMessage, Snapshot, adopted, ctl_message};

use crate::book::{Book, Order};
use crate::message::{Command, Event};
use crate::status::Status;

use adoption::Adoption;
use explain::Explaining;
use stream::{HEARTBEAT, Stream};

pub use link::{Link, RING, Rings, Wake};
pub use run::{Shutdown, run};

/// How often workers are asked for reports.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Adds counters that workers do not know.
pub type MoreCounters = Box<dyn Fn(&mut BTreeMap<String, u64>) + Send>;

/// See the module.
pub struct Control {
    name: String,
    links: Vec<Link>,
    book: Book,
    stream: Stream,
    boot_id: u64,
    random: fn() -> u64,
    /// Messages apart from those that the book makes.
    outbox: VecDeque<LdMessage>,
    orders: Vec<Order>,
    heartbeat: Duration,
    next_heartbeat: Instant,
    next_report: Instant,
    /// The snapshot that was given to the workers last.
    snapshot: Option<Snapshot>,
    /// Version that all workers run with.
    version: u64,
    /// Workers that have yet to say that they run with `snapshot`.
    configuring: usize,
    adoption: Adoption,
    adopted: Vec<adopted::One>,
    explaining: HashMap<u64, Explaining>,
    switch_up: bool,
    /// What was wrong with the last connection, for people.
    trouble: String,
    connections: u64,
    refusals: u64,
    status: Arc<Status>,
    more: Option<MoreCounters>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control")
            .field("name", &self.name)
            .field("stream", &self.stream)
            .field("book", &self.book.fill())
            .finish_non_exhaustive()
    }
}

impl Control {
    /// The control side of the workers behind `links`. `random` gives boot ids.
    #[must_use]
    pub fn new(name: String, links: Vec<Link>, random: fn() -> u64, now: Instant) -> Self {
        Self {
            name,
            links,
            book: Book::new(),
            stream: Stream::Down,
            boot_id: random(),
            random,
            outbox: VecDeque::new(),
            orders: Vec::new(),
            heartbeat: HEARTBEAT,
            next_heartbeat: now,
            next_report: now,
            snapshot: None,
            version: 0,
            configuring: 0,
            adoption: Adoption::default(),
            adopted: Vec::new(),
            explaining: HashMap::new(),
            switch_up: true,
            trouble: "not connected to offload-ctl yet".to_owned(),
            connections: 0,
            refusals: 0,
            status: Arc::default(),
            more: None,
        }
    }

    /// With counters of other sources in the status.
    #[must_use]
    pub fn with_counters(self, more: MoreCounters) -> Self {
        Self {
            more: Some(more),
            ..self
        }
    }

    fn workers(&self) -> u16 {
        self.links.len() as u16
    }

    /// A message of offload-ctl.
    pub fn message(&mut self, message: CtlMessage, now: Instant) {
        use ctl_message::Message as M;
        let Some(message) = message.message else {
            tracing::warn!("offload-ctl sent a message that this version does not know");
            return;
        };
        match message {
            M::Welcome(welcome) => self.welcome(&welcome, now),
            M::Snapshot(snapshot) => self.configure(snapshot),
            M::Installed(m) => {
                for id in m.session_ids {
                    self.book.installed(id, now, &mut self.orders);
                }
            }
            M::Rejected(m) => {
                for one in m.sessions {
                    self.refusals += 1;
                    if self.refusals.is_power_of_two() {
                        tracing::warn!(
                            refusals = self.refusals,
                            reason = one.reason().as_str_name(),
                            detail = one.detail,
                            "an offload was refused"
                        );
                    }
                    let reason = one.reason();
                    self.book.rejected(one.session_id, reason, &mut self.orders);
                }
            }
            M::Removed(m) => {
                for totals in m.sessions {
                    self.book.removed(totals, &mut self.orders);
                }
            }
            M::Idle(m) => {
                for id in m.session_ids {
                    self.book.idle(id, &mut self.orders);
                }
            }
            M::Evicted(m) => {
                tracing::info!(sessions = m.sessions.len(), why = m.why, "entries are gone");
                for totals in m.sessions {
                    self.book.evicted(totals, &mut self.orders);
                }
            }
            M::SwitchState(m) => {
                if m.up != self.switch_up {
                    tracing::info!(up = m.up, detail = m.detail, "switch");
                }
                self.switch_up = m.up;
                self.tell_all(|| Command::SwitchState { up: m.up });
            }
            M::Adopt(m) => self.named(m.flows, m.done),
            M::Explain(query) => self.explain(&query, now),
            M::Kill(kill) => self.kill(kill),
        }
        self.deliver();
    }

    fn kill(&mut self, kill: Kill) {
        let (Ok(vip_id), Ok(server_id)) =
            (u16::try_from(kill.vip_id), u16::try_from(kill.server_id))
        else {
            tracing::warn!(
                ?kill,
                "a kill names ids that cannot exist; nothing is ended"
            );
            return;
        };
        tracing::info!(vip_id, server_id, "ending sessions");
        self.tell_all(|| Command::Kill { vip_id, server_id });
    }

    /// Takes the workers' events; says whether there were any.
    pub fn take_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        for worker in 0..self.links.len() {
            // As many as a ring holds, so that one worker cannot keep the
            // control thread from everything else.
            for _ in 0..RING {
                let Some(event) = self.links.get(worker).and_then(Link::event) else {
                    break;
                };
                any = true;
                self.event(worker as u16, event, now);
            }
        }
        self.deliver();
        any
    }

    fn event(&mut self, worker: u16, event: Event, now: Instant) {
        match event {
            Event::Configured { version } => self.configured(version),
            Event::Install(flow) => self.book.request(worker, flow, &mut self.orders),
            Event::Remove { session_id, reason } => {
                self.book
                    .remove(worker, session_id, reason, &mut self.orders);
            }
            Event::Adopted { flow, result } => self.adopted(worker, *flow, result),
            Event::Explained(answer) => self.explained(*answer),
            Event::Report(report) => {
                if let Some(link) = self.links.get_mut(usize::from(worker)) {
                    link.reported(report);
                }
                if self.links.iter().all(|link| link.report().is_some()) {
                    self.refresh(now);
                }
            }
        }
    }

    fn tell_all(&mut self, command: impl Fn() -> Command) {
        for link in &mut self.links {
            link.send(command());
        }
    }

    /// Hands the book's orders and everything else to the workers.
    pub fn deliver(&mut self) {
        for (worker, command) in self.orders.drain(..) {
            if let Some(link) = self.links.get_mut(usize::from(worker)) {
                link.send(command);
            }
        }
        for link in &mut self.links {
            link.flush();
        }
    }

    /// Whether commands wait for room in a ring.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.links.iter().any(Link::is_behind)
    }

    /// Tells all workers to stop.
    pub fn stop(&mut self) {
        self.tell_all(|| Command::Stop);
        self.deliver();
    }

    /// Tells all workers to end their sessions.
    pub fn drain(&mut self) {
        self.tell_all(|| Command::Drain);
        self.deliver();
    }

    /// Whether nothing of this process is on the switch any more.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.book.is_empty() && self.status.gauges.get("offloaded_sessions") == Some(&0)
    }

    /// What is due by time.
    pub fn tick(&mut self, now: Instant) {
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            let stuck = self.links.iter().any(|link| link.is_stuck(now));
            for link in &mut self.links {
                link.ask(now);
            }
            if stuck {
                self.refresh(now);
            }
        }
        self.heartbeat_if_due(now);
        self.answer_late(now);
        self.deliver();
    }
}
