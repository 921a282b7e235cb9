//! The book of offload: which sessions are on the switch, on their way there,
//! or on their way out, as far as this process knows.
//!
//! No I/O and no clock. A session is in the book from the worker's request
//! until offload-ctl has said that its entries are gone; what was not
//! acknowledged when the connection broke is told again ([`Book::resync`]).
//! Workers keep a session's local port until they get [`Command::Removed`],
//! [`Command::Evicted`] or [`Command::Rejected`], so a port rests as long as
//! the book is in doubt.

mod counts;
mod sending;

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use hdrhistogram::Histogram;
use offload_api::v1::{FlowPair, FlowTotals, RejectReason, RemoveReason};

use crate::message::Command;

pub use counts::{Counts, Fill};
pub use sending::BATCH;

/// Longest latency the histogram tells apart, µs.
const MAX_LATENCY_US: u64 = 600_000_000;

/// A command for a worker.
pub type Order = (u16, Command);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asked for by the worker; `sent` since when offload-ctl may know.
    Requested {
        sent: Option<Instant>,
    },
    Installed,
    Removing {
        reason: RemoveReason,
    },
}

#[derive(Debug)]
struct Entry {
    flow: FlowPair,
    worker: u16,
    state: State,
    /// Its id is in `installs` or `removes`, as the state has it.
    queued: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Book {
    entries: HashMap<u64, Entry>,
    fill: Fill,
    /// Requests not sent on this connection. Ids whose state has changed since
    /// are skipped.
    installs: VecDeque<u64>,
    /// Removals not sent on this connection.
    removes: VecDeque<u64>,
    latency: Histogram<u64>,
    counts: Counts,
}

impl Default for Book {
    fn default() -> Self {
        Self::new()
    }
}

impl Book {
    /// An empty book.
    #[must_use]
    pub fn new() -> Self {
        // Constant arguments that the histogram accepts; the fallback has the
        // same precision without an upper bound.
        let latency = Histogram::new_with_bounds(1, MAX_LATENCY_US, 3)
            .or_else(|_| Histogram::new(3))
            .unwrap_or_else(|_| unreachable!("three digits are within 0 to 5"));
        Self {
            entries: HashMap::new(),
            fill: Fill::default(),
            installs: VecDeque::new(),
            removes: VecDeque::new(),
            latency,
            counts: Counts::default(),
        }
    }

    /// Puts a session into the book.
    fn enter(&mut self, worker: u16, flow: FlowPair, state: State) {
        let id = flow.session_id;
        *self.fill.of(state) += 1;
        self.entries.insert(
            id,
            Entry {
                flow,
                worker,
                state,
                queued: false,
            },
        );
    }

    /// Takes a session out of the book.
    fn strike(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        *self.fill.of(entry.state) -= 1;
        Some(entry)
    }

    /// Gives a session another state.
    fn turn(&mut self, id: u64, state: State) {
        if let Some(entry) = self.entries.get_mut(&id) {
            *self.fill.of(entry.state) -= 1;
            *self.fill.of(state) += 1;
            entry.state = state;
            entry.queued = false;
        }
    }

    fn state_of(&self, id: u64) -> Option<(State, u16)> {
        self.entries.get(&id).map(|e| (e.state, e.worker))
    }

    /// A worker wants a session on the switch. It asks again when no answer
    /// came for long.
    pub fn request(&mut self, worker: u16, flow: FlowPair, orders: &mut Vec<Order>) {
        let id = flow.session_id;
        match self.state_of(id) {
            None => {
                self.counts.requested += 1;
                self.enter(worker, flow, State::Requested { sent: None });
                self.queue(id);
            }
            Some((State::Requested { .. }, _)) => {
                let again = self.queue(id);
                self.counts.resent += u64::from(again);
            }
            Some((State::Installed, _)) => orders.push((worker, Command::Installed(id))),
            // Removed follows, and then the worker may ask anew.
            Some((State::Removing { .. }, _)) => {}
        }
    }

    /// A worker wants a session off the switch, perhaps once more. If the
    /// request was never sent, the removal is acknowledged here and now.
    pub fn remove(&mut self, worker: u16, id: u64, reason: RemoveReason, orders: &mut Vec<Order>) {
        match self.state_of(id) {
            Some((State::Requested { sent: None }, _)) => {
                self.strike(id);
                self.counts.cancelled += 1;
                orders.push((worker, Command::Removed(nothing(id))));
            }
            Some((State::Removing { .. }, _)) => {
                let again = self.queue(id);
                self.counts.resent += u64::from(again);
            }
            Some(_) => {
                self.turn(id, State::Removing { reason });
                self.queue(id);
            }
            None => {
                // Not known here, but a port must not be freed on a guess.
                let flow = FlowPair {
                    session_id: id,
                    ..FlowPair::default()
                };
                self.enter(worker, flow, State::Removing { reason });
                self.queue(id);
            }
        }
    }

    /// Entries of an earlier process that a worker has made a session of. The
    /// flow carries the session's id.
    pub fn adopt(&mut self, worker: u16, flow: FlowPair) {
        // The answer to an Adopt that was sent twice.
        if self.entries.contains_key(&flow.session_id) {
            return;
        }
        self.counts.adopted += 1;
        self.enter(worker, flow, State::Installed);
    }

    /// The session of these entries, if there is one: the same VIP, server,
    /// client, local address and port.
    #[must_use]
    pub fn find(&self, flow: &FlowPair) -> Option<u64> {
        self.entries
            .values()
            .find(|entry| {
                let known = &entry.flow;
                (known.local_id, known.local_port, known.protocol)
                    == (flow.local_id, flow.local_port, flow.protocol)
                    && (known.vip_id, known.vip_port, known.server_id)
                        == (flow.vip_id, flow.vip_port, flow.server_id)
                    && (known.client_addr, known.client_port)
                        == (flow.client_addr, flow.client_port)
            })
            .map(|entry| entry.flow.session_id)
    }

    /// offload-ctl has written both directions.
    pub fn installed(&mut self, id: u64, now: Instant, orders: &mut Vec<Order>) {
        match self.state_of(id) {
            Some((State::Requested { sent }, worker)) => {
                self.turn(id, State::Installed);
                self.counts.installed += 1;
                if let Some(sent) = sent {
                    let us = now.saturating_duration_since(sent).as_micros();
                    let us = u64::try_from(us).unwrap_or(u64::MAX);
                    self.latency.saturating_record(us.max(1));
                }
                orders.push((worker, Command::Installed(id)));
            }
            // Known already, or the removal that is on its way overtakes this.
            Some(_) => {}
            None => {
                // Entries that no session of this process claims: off with them.
                self.counts.strays += 1;
                self.remove(0, id, RemoveReason::Closed, orders);
            }
        }
    }

    /// offload-ctl has not written the entries and will not.
    pub fn rejected(&mut self, id: u64, reason: RejectReason, orders: &mut Vec<Order>) {
        match self.state_of(id) {
            Some((State::Requested { sent: Some(_) }, worker)) => {
                self.strike(id);
                self.counts.rejected += 1;
                orders.push((worker, Command::Rejected(id, reason)));
            }
            // Removing: Removed follows.
            Some(_) => {}
            None => self.counts.strays += 1,
        }
    }

    /// The entries are gone, as asked.
    pub fn removed(&mut self, totals: FlowTotals, orders: &mut Vec<Order>) {
        self.gone(totals, orders);
    }

    /// The entries are gone, unasked. If a removal is on its way it will find
    /// nothing, and its acknowledgement will be that of an unknown session.
    pub fn evicted(&mut self, totals: FlowTotals, orders: &mut Vec<Order>) {
        self.gone(totals, orders);
    }

    fn gone(&mut self, totals: FlowTotals, orders: &mut Vec<Order>) {
        match self.strike(totals.session_id) {
            Some(entry) => {
                let command = if matches!(entry.state, State::Removing { .. }) {
                    self.counts.removed += 1;
                    Command::Removed(totals)
                } else {
                    self.counts.evicted += 1;
                    Command::Evicted(totals)
                };
                orders.push((entry.worker, command));
            }
            None => self.counts.strays += 1,
        }
    }

    /// Both directions are idle on the switch.
    pub fn idle(&mut self, id: u64, orders: &mut Vec<Order>) {
        match self.state_of(id) {
            Some((State::Installed, worker)) => orders.push((worker, Command::Idle(id))),
            Some(_) => {}
            None => self.counts.strays += 1,
        }
    }

    /// Totals since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How many sessions are in which state.
    #[must_use]
    pub fn fill(&self) -> Fill {
        self.fill
    }

    /// Whether no session is in the book.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Time from a request's sending to the acknowledgement of both directions,
    /// µs.
    #[must_use]
    pub fn latency(&self) -> &Histogram<u64> {
        &self.latency
    }
}

/// Totals of a session that never was on the switch.
fn nothing(session_id: u64) -> FlowTotals {
    FlowTotals {
        session_id,
        ..FlowTotals::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    pub(super) fn flow(id: u64) -> FlowPair {
        FlowPair {
            session_id: id,
            vip_id: 1,
            vip_port: 80,
            protocol: 6,
            client_addr: 0x0a01_0002,
            client_port: 40_000,
            server_id: 2,
            local_id: 3,
            local_port: 1024 + id as u32,
            idle_timeout_ms: 900_000,
            generation: 1,
        }
    }

    fn totals(id: u64, packets: u64) -> FlowTotals {
        FlowTotals {
            session_id: id,
            fwd_packets: packets,
            ..FlowTotals::default()
        }
    }

    /// Commands as text, for whole comparisons.
    fn said(orders: &mut Vec<Order>) -> Vec<String> {
        orders
            .drain(..)
            .map(|(worker, command)| match command {
                Command::Installed(id) => format!("{worker} installed {id}"),
                Command::Rejected(id, reason) => format!("{worker} rejected {id} {reason:?}"),
                Command::Removed(t) => {
                    format!("{worker} removed {} {}", t.session_id, t.fwd_packets)
                }
                Command::Evicted(t) => {
                    format!("{worker} evicted {} {}", t.session_id, t.fwd_packets)
                }
                Command::Idle(id) => format!("{worker} idle {id}"),
                other => format!("{worker} {other:?}"),
            })
            .collect()
    }

    pub(super) fn ids(flows: &[FlowPair]) -> Vec<u64> {
        flows.iter().map(|f| f.session_id).collect()
    }

    #[test]
    fn a_life() {
        let mut book = Book::new();
        let mut out = Vec::new();
        let t = Instant::now();
        book.request(1, flow(7), &mut out);
        assert!(book.has_output());
        assert_eq!(book.take_installs(t), [flow(7)]);
        assert!(!book.has_output());
        book.installed(7, t + Duration::from_micros(1500), &mut out);
        book.idle(7, &mut out);
        assert_eq!(said(&mut out), ["1 installed 7", "1 idle 7"]);
        book.remove(1, 7, RemoveReason::Closed, &mut out);
        book.remove(1, 7, RemoveReason::Closed, &mut out);
        assert_eq!(book.take_removes(), Some((vec![7], RemoveReason::Closed)));
        assert_eq!(book.take_removes(), None);
        assert_eq!(
            book.fill(),
            Fill {
                removing: 1,
                ..Fill::default()
            }
        );
        book.removed(totals(7, 12), &mut out);
        assert_eq!(said(&mut out), ["1 removed 7 12"]);
        assert!(book.is_empty());
        assert_eq!(book.latency().len(), 1);
        let p50 = book.latency().value_at_quantile(0.5);
        assert!((1499..=1501).contains(&p50), "{p50}");
        assert_eq!(
            book.counts(),
            Counts {
                requested: 1,
                installed: 1,
                removed: 1,
                ..Counts::default()
            }
        );
    }

    #[test]
    fn a_request_that_was_never_sent_is_ended_here() {
        let mut book = Book::new();
        let mut out = Vec::new();
        book.request(0, flow(7), &mut out);
        book.remove(0, 7, RemoveReason::Closed, &mut out);
        assert_eq!(said(&mut out), ["0 removed 7 0"]);
        assert!(book.take_installs(Instant::now()).is_empty());
        assert_eq!(book.take_removes(), None);
        assert!(book.is_empty());
    }

    #[test]
    fn an_acknowledgement_that_crosses_a_removal_changes_nothing() {
        let mut book = Book::new();
        let mut out = Vec::new();
        let t = Instant::now();
        book.request(0, flow(7), &mut out);
        book.take_installs(t);
        book.remove(0, 7, RemoveReason::Closed, &mut out);
        book.installed(7, t, &mut out);
        book.rejected(7, RejectReason::TableFull, &mut out);
        book.idle(7, &mut out);
        assert_eq!(said(&mut out), Vec::<String>::new());
        assert_eq!(book.take_removes(), Some((vec![7], RemoveReason::Closed)));
        book.removed(totals(7, 0), &mut out);
        assert_eq!(said(&mut out), ["0 removed 7 0"]);
    }

    #[test]
    fn eviction_and_rejection_forget_the_session_once() {
        let mut book = Book::new();
        let mut out = Vec::new();
        let t = Instant::now();
        book.request(0, flow(1), &mut out);
        book.request(1, flow(2), &mut out);
        book.request(1, flow(3), &mut out);
        assert_eq!(ids(&book.take_installs(t)), [1, 2, 3]);
        book.rejected(1, RejectReason::TableFull, &mut out);
        book.installed(2, t, &mut out);
        book.installed(3, t, &mut out);
        book.evicted(totals(2, 5), &mut out);
        book.evicted(totals(2, 5), &mut out);
        // Gone without having been asked, in other words.
        book.removed(totals(3, 6), &mut out);
        assert_eq!(
            said(&mut out),
            [
                "0 rejected 1 TableFull",
                "1 installed 2",
                "1 installed 3",
                "1 evicted 2 5",
                "1 evicted 3 6"
            ]
        );
        assert!(book.is_empty());
        assert_eq!(book.counts().strays, 1);
    }

    #[test]
    fn a_worker_that_asks_again_gets_its_answer() {
        let mut book = Book::new();
        let mut out = Vec::new();
        let t = Instant::now();
        book.request(0, flow(1), &mut out);
        book.request(0, flow(1), &mut out);
        assert_eq!(ids(&book.take_installs(t)), [1], "waits once, not twice");
        book.request(0, flow(1), &mut out);
        assert_eq!(ids(&book.take_installs(t)), [1]);
        book.installed(1, t, &mut out);
        out.clear();
        book.request(0, flow(1), &mut out);
        assert_eq!(said(&mut out), ["0 installed 1"]);
        book.remove(0, 1, RemoveReason::Closed, &mut out);
        book.remove(0, 1, RemoveReason::Closed, &mut out);
        assert_eq!(book.take_removes(), Some((vec![1], RemoveReason::Closed)));
        book.remove(0, 1, RemoveReason::Closed, &mut out);
        assert_eq!(book.take_removes(), Some((vec![1], RemoveReason::Closed)));
        assert!(out.is_empty());
        assert_eq!(book.counts().resent, 2);
    }

    #[test]
    fn finds_the_session_of_entries() {
        let mut book = Book::new();
        book.adopt(1, flow(5));
        book.adopt(1, flow(5));
        assert_eq!(book.counts().adopted, 1);
        let entries = FlowPair {
            session_id: 99,
            ..flow(5)
        };
        assert_eq!(book.find(&entries), Some(5));
        let other = FlowPair {
            client_port: 1,
            ..entries
        };
        assert_eq!(book.find(&other), None);
    }

    #[test]
    fn strays_are_removed_from_the_switch() {
        let mut book = Book::new();
        let mut out = Vec::new();
        book.installed(9, Instant::now(), &mut out);
        assert_eq!(book.take_removes(), Some((vec![9], RemoveReason::Closed)));
        // A worker's removal of what the book does not know is sent too.
        book.remove(1, 11, RemoveReason::Idle, &mut out);
        assert_eq!(book.take_removes(), Some((vec![11], RemoveReason::Idle)));
        assert!(out.is_empty());
        book.removed(totals(11, 0), &mut out);
        assert_eq!(said(&mut out), ["1 removed 11 0"]);
    }
}
