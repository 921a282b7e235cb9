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

mod link;
mod run;
pub mod transport;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use offload_api::API_REVISION;
use offload_api::v1::{
    Adopted, CtlMessage, ExplainAnswer, ExplainQuery, FlowPair, Heartbeat, Hello, Install, Kill,
    LdMessage, RejectReason, Remove, Snapshot, SnapshotAck, Welcome, adopted, ctl_message,
    ld_message,
};

use crate::book::{Book, Order};
use crate::message::{Command, Event};
use crate::snapshot;
use crate::status::Status;

pub use link::{Link, RING, Rings, Wake};
pub use run::{Shutdown, run};

/// How long answers of workers to an ExplainQuery are waited for.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(1);
/// Heartbeat interval until offload-ctl has named one.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How often workers are asked for reports.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// State of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Down,
    /// Hello is out.
    Greeting,
    /// Welcome and Resync are done.
    Attached,
}

/// State of taking over an earlier process's sessions.
#[derive(Debug, Default)]
struct Adoption {
    /// Entries that wait for a configuration.
    held: Vec<FlowPair>,
    /// Entries with the workers.
    pending: usize,
    /// offload-ctl has named all.
    complete: bool,
    /// Workers hand out ports.
    opened: bool,
}

#[derive(Debug)]
struct Explaining {
    since: Instant,
    waiting: usize,
    answer: Option<ExplainAnswer>,
}

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

    // ------------------------------------------------------------ the stream

    /// A stream is being opened: queues Hello.
    pub fn up(&mut self) {
        // Until the entries of earlier processes are taken over this process
        // has no past worth knowing: a fresh id makes offload-ctl name them
        // again, should an earlier stream have broken in between.
        if !self.adoption.opened && self.connections > 0 {
            self.boot_id = (self.random)();
            self.adoption.complete = false;
        }
        self.connections += 1;
        self.stream = Stream::Greeting;
        self.outbox.clear();
        self.adopted.clear();
        self.say(ld_message::Message::Hello(Hello {
            name: self.name.clone(),
            boot_id: self.boot_id,
            workers: self.workers().into(),
            config_version: self.version,
            api_revision: API_REVISION,
            software: env!("CARGO_PKG_VERSION").to_owned(),
        }));
    }

    /// The stream is gone.
    pub fn down(&mut self, reason: &str) {
        if self.stream != Stream::Down {
            tracing::warn!(reason, "offload-ctl is away; forwarding goes on");
        } else if self.trouble != reason {
            tracing::warn!(reason, "cannot reach offload-ctl; trying again");
        }
        reason.clone_into(&mut self.trouble);
        self.stream = Stream::Down;
        self.outbox.clear();
        self.adopted.clear();
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
            M::Adopt(m) => {
                self.adoption.held.extend(m.flows);
                self.adoption.complete |= m.done;
                self.adopt();
            }
            M::Explain(query) => self.explain(&query, now),
            M::Kill(kill) => self.kill(kill),
        }
        self.deliver();
    }

    fn welcome(&mut self, welcome: &Welcome, now: Instant) {
        if welcome.api_revision != API_REVISION {
            tracing::error!(
                ours = API_REVISION,
                theirs = welcome.api_revision,
                "offload-ctl speaks another revision of offload.v1: upgrade the older of the two"
            );
        }
        tracing::info!(new_boot = welcome.new_boot, "attached to offload-ctl");
        if welcome.heartbeat_ms > 0 {
            self.heartbeat = Duration::from_millis(welcome.heartbeat_ms.into());
        }
        self.next_heartbeat = now;
        self.trouble.clear();
        self.stream = Stream::Attached;
        for resync in self.book.resync() {
            self.say(ld_message::Message::Resync(resync));
        }
        if !welcome.new_boot {
            self.adoption.complete = true;
            self.adopt();
        }
    }

    fn say(&mut self, message: ld_message::Message) {
        self.outbox.push_back(LdMessage {
            message: Some(message),
        });
    }

    /// Whether [`Control::next_message`] has something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        match self.stream {
            Stream::Down => false,
            Stream::Greeting => !self.outbox.is_empty(),
            Stream::Attached => {
                !self.outbox.is_empty() || !self.adopted.is_empty() || self.book.has_output()
            }
        }
    }

    /// The next message for offload-ctl. What has gathered since the last one
    /// goes together, so batches grow with the load and nobody waits for more.
    pub fn next_message(&mut self, now: Instant) -> Option<LdMessage> {
        if self.stream == Stream::Down {
            return None;
        }
        if let Some(message) = self.outbox.pop_front() {
            return Some(message);
        }
        if self.stream != Stream::Attached {
            return None;
        }
        let message = if !self.adopted.is_empty() {
            let n = self.adopted.len().min(crate::book::BATCH);
            ld_message::Message::Adopted(Adopted {
                sessions: self.adopted.drain(..n).collect(),
            })
        } else if let Some((session_ids, reason)) = self.book.take_removes() {
            ld_message::Message::Remove(Remove {
                session_ids,
                reason: reason.into(),
            })
        } else {
            let flows = self.book.take_installs(now);
            if flows.is_empty() {
                return None;
            }
            ld_message::Message::Install(Install { flows })
        };
        Some(LdMessage {
            message: Some(message),
        })
    }

    // --------------------------------------------------------- configuration

    fn configure(&mut self, snapshot: Snapshot) {
        let version = snapshot.version;
        if self.snapshot.as_ref() == Some(&snapshot) {
            if self.configuring == 0 {
                self.acknowledge(version, String::new());
            }
            return;
        }
        match snapshot::build(&snapshot) {
            Ok(config) => {
                tracing::info!(
                    version,
                    vips = snapshot.vips.len(),
                    locals = snapshot.locals.len(),
                    "new configuration"
                );
                let config = Arc::new(config);
                self.tell_all(|| Command::Configure(Arc::clone(&config)));
                self.configuring = self.links.len();
                self.snapshot = Some(snapshot);
                // A worker sees its commands in order: the configuration first.
                self.adopt();
            }
            Err(error) => {
                tracing::error!(version, %error, "the configuration is refused");
                self.acknowledge(version, error.to_string());
            }
        }
    }

    fn acknowledge(&mut self, version: u64, error: String) {
        if self.stream == Stream::Attached || self.stream == Stream::Greeting {
            self.say(ld_message::Message::SnapshotAck(SnapshotAck {
                version,
                error,
            }));
        }
    }

    fn adopt(&mut self) {
        if self.snapshot.is_none() {
            return;
        }
        let workers = self.links.len();
        for flow in std::mem::take(&mut self.adoption.held) {
            // The local port says which worker gets the replies.
            let worker = (flow.local_port as usize & usize::from(crate::tunnel::SHARD_MASK))
                % workers.max(1);
            if let Some(link) = self.links.get_mut(worker) {
                link.send(Command::Adopt(Box::new(flow)));
                self.adoption.pending += 1;
            }
        }
        self.open_if_ready();
    }

    fn open_if_ready(&mut self) {
        let a = &mut self.adoption;
        if !a.opened && a.complete && a.pending == 0 && self.snapshot.is_some() {
            a.opened = true;
            tracing::info!(adopted = self.book.counts().adopted, "ready for packets");
            self.tell_all(|| Command::Open);
        }
    }

    // ---------------------------------------------------------------- people

    fn explain(&mut self, query: &ExplainQuery, now: Instant) {
        let query_id = query.query_id;
        let tuple = query.tuple.unwrap_or_default();
        self.explaining.insert(
            query_id,
            Explaining {
                since: now,
                waiting: self.links.len(),
                answer: None,
            },
        );
        self.tell_all(|| Command::Explain { query_id, tuple });
    }

    fn explained(&mut self, answer: ExplainAnswer) {
        let query_id = answer.query_id;
        let Some(explaining) = self.explaining.get_mut(&query_id) else {
            return;
        };
        explaining.waiting = explaining.waiting.saturating_sub(1);
        match &mut explaining.answer {
            Some(known) if known.found => {}
            // Nobody knows it so far: what each worker would do with it.
            Some(known) if !answer.found => known.facts.extend(answer.facts),
            _ => explaining.answer = Some(answer),
        }
        if explaining.waiting == 0 {
            self.answer(query_id);
        }
    }

    fn answer(&mut self, query_id: u64) {
        let Some(explaining) = self.explaining.remove(&query_id) else {
            return;
        };
        let mut answer = explaining.answer.unwrap_or_default();
        answer.query_id = query_id;
        if explaining.waiting > 0 {
            answer.facts.push(format!(
                "{} of {} workers did not answer in time",
                explaining.waiting,
                self.links.len()
            ));
        }
        if self.stream == Stream::Attached {
            self.say(ld_message::Message::Explain(answer));
        }
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

    // --------------------------------------------------------------- workers

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
            Event::Configured { version } => {
                let latest = self.snapshot.as_ref().map(|s| s.version);
                // Acknowledgements of a snapshot that was replaced meanwhile
                // do not count.
                if latest == Some(version) {
                    self.configuring = self.configuring.saturating_sub(1);
                    if self.configuring == 0 {
                        self.version = version;
                        self.acknowledge(version, String::new());
                    }
                }
            }
            Event::Install(flow) => self.book.request(worker, flow, &mut self.orders),
            Event::Remove { session_id, reason } => {
                self.book
                    .remove(worker, session_id, reason, &mut self.orders);
            }
            Event::Adopted { flow, result } => {
                self.adoption.pending = self.adoption.pending.saturating_sub(1);
                let adopt_id = flow.session_id;
                // A second Adopt of the same entries finds their port taken: by
                // the session that the first one made.
                let result = result.or_else(|why| self.book.find(&flow).ok_or(why));
                let (session_id, refused) = match result {
                    Ok(session_id) => {
                        let flow = FlowPair {
                            session_id,
                            ..*flow
                        };
                        self.book.adopt(worker, flow);
                        (session_id, String::new())
                    }
                    Err(why) => {
                        tracing::warn!(why, ?flow, "entries on the switch are not taken over");
                        (0, why)
                    }
                };
                if self.stream == Stream::Attached {
                    self.adopted.push(adopted::One {
                        adopt_id,
                        session_id,
                        refused,
                    });
                }
                self.open_if_ready();
            }
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

    // ------------------------------------------------------------------ time

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
        if self.stream == Stream::Attached && now >= self.next_heartbeat {
            self.next_heartbeat = now + self.heartbeat;
            let status = Arc::clone(&self.status);
            self.say(ld_message::Message::Heartbeat(Heartbeat {
                counters: status.counters.clone().into_iter().collect(),
                gauges: status.gauges.clone().into_iter().collect(),
                healthy: status.healthy,
                health_detail: status.detail.clone(),
            }));
        }
        let late: Vec<u64> = self
            .explaining
            .iter()
            .filter(|(_, e)| now.saturating_duration_since(e.since) > EXPLAIN_LIMIT)
            .map(|(id, _)| *id)
            .collect();
        for query_id in late {
            self.answer(query_id);
        }
        self.deliver();
    }

    /// The latest status.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// Puts the status together from the reports that are at home.
    fn refresh(&mut self, now: Instant) {
        let mut counters = BTreeMap::new();
        let mut gauges = BTreeMap::new();
        let mut stuck = Vec::new();
        for (worker, link) in self.links.iter().enumerate() {
            match link.report() {
                Some(report) => report.add_to(worker, &mut counters, &mut gauges),
                None if link.is_stuck(now) => stuck.push(worker.to_string()),
                None => {}
            }
        }
        // A worker without a report must not make totals go back.
        if !stuck.is_empty() {
            counters.clone_from(&self.status.counters);
        }
        if let Some(more) = &self.more {
            more(&mut counters);
        }
        let book = self.book.counts();
        for (name, value) in [
            ("offload.requested", book.requested),
            ("offload.installed", book.installed),
            ("offload.rejected", book.rejected),
            ("offload.removed", book.removed),
            ("offload.evicted", book.evicted),
            ("offload.cancelled", book.cancelled),
            ("offload.adopted", book.adopted),
            ("offload.strays", book.strays),
            ("offload.resent", book.resent),
            ("offload_ctl.connections", self.connections),
        ] {
            counters.insert(name.to_owned(), value);
        }
        let fill = self.book.fill();
        let latency = self.book.latency();
        for (name, value) in [
            ("offloaded_sessions", fill.installed),
            ("offload_requested_sessions", fill.requested),
            ("offload_removing_sessions", fill.removing),
            ("offload_count", latency.len()),
            ("offload_p50_us", latency.value_at_quantile(0.5)),
            ("offload_p99_us", latency.value_at_quantile(0.99)),
            ("offload_max_us", latency.max()),
            ("config_version", self.version),
            ("workers", self.links.len() as u64),
            (
                "offload_ctl_connected",
                u64::from(self.stream == Stream::Attached),
            ),
            ("switch_up", u64::from(self.switch_up)),
        ] {
            gauges.insert(name.to_owned(), value);
        }
        let healthy = stuck.is_empty();
        let ready = healthy && self.version != 0 && self.adoption.opened;
        let detail = if !healthy {
            format!("no answer from worker {}", stuck.join(", "))
        } else if self.snapshot.is_none() {
            format!("no configuration yet; {}", self.trouble)
        } else if !self.adoption.opened {
            "waiting for offload-ctl to name the sessions that an earlier process left on the \
             switch"
                .to_owned()
        } else if !ready {
            "the workers take the configuration over".to_owned()
        } else {
            String::new()
        };
        self.status = Arc::new(Status {
            counters,
            gauges,
            ready,
            healthy,
            detail,
        });
    }
}

/// Whether a refusal may pass: worth another try later.
#[must_use]
pub const fn is_transient(reason: RejectReason) -> bool {
    matches!(
        reason,
        RejectReason::TableFull | RejectReason::SwitchDown | RejectReason::SwitchError
    )
}
