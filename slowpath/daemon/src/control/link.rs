//! The control thread's end of a worker: its rings and its latest report.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;

use crate::message::{Command, Event};
use crate::report::Report;

/// Room in each of a worker's two rings.
pub const RING: usize = 4096;

/// A worker that has not answered for so long is stuck.
const STUCK: Duration = Duration::from_secs(3);

/// The two rings between a worker and the control thread.
#[derive(Clone, Debug)]
pub struct Rings {
    /// Control thread to worker.
    pub commands: Arc<ArrayQueue<Command>>,
    /// Worker to control thread.
    pub events: Arc<ArrayQueue<Event>>,
}

impl Rings {
    /// Empty rings.
    #[must_use]
    pub fn new() -> Self {
        Self {
            commands: Arc::new(ArrayQueue::new(RING)),
            events: Arc::new(ArrayQueue::new(RING)),
        }
    }
}

impl Default for Rings {
    fn default() -> Self {
        Self::new()
    }
}

/// Wakes a worker that sleeps.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// See the module.
pub struct Link {
    rings: Rings,
    wake: Wake,
    /// Commands that found the ring full, in order.
    backlog: VecDeque<Command>,
    /// The report, while it is not with the worker.
    report: Option<Box<Report>>,
    asked: Instant,
    pushed: bool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("backlog", &self.backlog.len())
            .finish_non_exhaustive()
    }
}

impl Link {
    /// The end of `rings`; `wake` wakes the worker.
    pub fn new(rings: Rings, wake: Wake, now: Instant) -> Self {
        Self {
            rings,
            wake,
            backlog: VecDeque::new(),
            report: Some(Box::default()),
            asked: now,
            pushed: false,
        }
    }

    /// Sends a command, now or when there is room, in order.
    pub fn send(&mut self, command: Command) {
        self.pushed = true;
        if !self.backlog.is_empty() {
            self.backlog.push_back(command);
        } else if let Err(command) = self.rings.commands.push(command) {
            self.backlog.push_back(command);
        }
    }

    /// Moves what waited into the ring, and wakes the worker if there is
    /// something new for it.
    pub fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(command) = self.rings.commands.push(command) {
                self.backlog.push_front(command);
                break;
            }
        }
        if std::mem::take(&mut self.pushed) {
            (self.wake)();
        }
    }

    /// Whether commands wait for room.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The next event.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        self.rings.events.pop()
    }

    /// Asks for a report unless one is under way.
    pub fn ask(&mut self, now: Instant) {
        if let Some(report) = self.report.take() {
            self.asked = now;
            self.send(Command::Report(report));
        }
    }

    /// The report came back.
    pub fn reported(&mut self, report: Box<Report>) {
        self.report = Some(report);
    }

    /// The latest report, unless it is with the worker.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_deref()
    }

    /// Whether the worker fails to answer.
    #[must_use]
    pub fn is_stuck(&self, now: Instant) -> bool {
        self.report.is_none() && now.saturating_duration_since(self.asked) > STUCK
    }
}
