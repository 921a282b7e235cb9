//! What the book has to tell offload-ctl: requests and removals that wait, in
//! batches, and all of it again on a new connection.

use std::time::Instant;

use offload_api::v1::{FlowPair, RemoveReason, Resync};

use super::{Book, State};

/// Most flows or ids in one message: far below gRPC's limit of 4 MiB.
pub const BATCH: usize = 1000;

impl Book {
    /// Queues a session's request or removal; `false` if it waits already.
    pub(super) fn queue(&mut self, id: u64) -> bool {
        match self.entries.get_mut(&id) {
            Some(entry) if !entry.queued => {
                entry.queued = true;
                match entry.state {
                    State::Removing { .. } => self.removes.push_back(id),
                    _ => self.installs.push_back(id),
                }
                true
            }
            _ => false,
        }
    }

    /// Requests to send now, at most [`BATCH`]; they count as sent.
    pub fn take_installs(&mut self, now: Instant) -> Vec<FlowPair> {
        let mut flows = Vec::new();
        while flows.len() < BATCH
            && let Some(id) = self.installs.pop_front()
        {
            if let Some(entry) = self.entries.get_mut(&id)
                && let State::Requested { sent } = &mut entry.state
            {
                // When it is sent again the first sending counts.
                sent.get_or_insert(now);
                entry.queued = false;
                flows.push(entry.flow);
            }
        }
        flows
    }

    /// Removals of one reason to send now, at most [`BATCH`].
    pub fn take_removes(&mut self) -> Option<(Vec<u64>, RemoveReason)> {
        let mut batch: Option<(Vec<u64>, RemoveReason)> = None;
        while let Some(&id) = self.removes.front() {
            if let Some(entry) = self.entries.get_mut(&id)
                && let State::Removing { reason } = entry.state
            {
                let (ids, batch_reason) = batch.get_or_insert_with(|| (Vec::new(), reason));
                if *batch_reason != reason || ids.len() == BATCH {
                    break;
                }
                entry.queued = false;
                ids.push(id);
            }
            self.removes.pop_front();
        }
        batch
    }

    /// Whether there is something to send.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.installs.is_empty() || !self.removes.is_empty()
    }

    /// For a new connection: the messages that say what this process believes
    /// on the switch. What was sent and not acknowledged is queued again.
    pub fn resync(&mut self) -> Vec<Resync> {
        let mut messages = vec![Resync::default()];
        self.installs.clear();
        self.removes.clear();
        let mut ids: Vec<u64> = self.entries.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            entry.queued = false;
            let mut flow = None;
            let mut removing = None;
            match entry.state {
                State::Requested { sent } => {
                    flow = sent.map(|_| entry.flow);
                    self.counts.resent += u64::from(sent.is_some());
                    self.queue(id);
                }
                State::Installed => flow = Some(entry.flow),
                State::Removing { .. } => {
                    removing = Some(id);
                    self.counts.resent += 1;
                    self.queue(id);
                }
            }
            let full = |m: &Resync| m.flows.len() + m.removing.len() >= BATCH;
            if messages.last().is_some_and(full) {
                messages.push(Resync::default());
            }
            if let Some(message) = messages.last_mut() {
                message.flows.extend(flow);
                message.removing.extend(removing);
            }
        }
        if let Some(last) = messages.last_mut() {
            last.done = true;
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::book::tests::{flow, ids};

    #[test]
    fn what_was_not_acknowledged_is_told_again() {
        let mut book = Book::new();
        let mut out = Vec::new();
        let t = Instant::now();
        for id in 1..=4 {
            book.request(0, flow(id), &mut out);
        }
        book.take_installs(t);
        book.installed(1, t, &mut out);
        book.installed(2, t, &mut out);
        book.remove(0, 2, RemoveReason::Idle, &mut out);
        book.take_removes();
        book.request(1, flow(5), &mut out);
        out.clear();
        // Connection lost: 1 installed, 2 removing, 3 and 4 sent, 5 not sent.
        book.remove(0, 4, RemoveReason::Closed, &mut out);
        let messages = book.resync();
        assert_eq!(messages.len(), 1);
        assert_eq!(ids(&messages[0].flows), [1, 3]);
        assert_eq!(messages[0].removing, [2, 4]);
        assert!(messages[0].done);
        assert_eq!(ids(&book.take_installs(t + Duration::from_secs(1))), [3, 5]);
        assert_eq!(book.take_removes(), Some((vec![2], RemoveReason::Idle)));
        assert_eq!(book.take_removes(), Some((vec![4], RemoveReason::Closed)));
        // The latency of 3 counts from its first sending.
        book.installed(3, t + Duration::from_secs(2), &mut out);
        assert!(book.latency().max() >= 1_990_000);
        // 3, and the removals of 2 and 4.
        assert_eq!(book.counts().resent, 3);
    }

    #[test]
    fn long_lists_are_cut() {
        let mut book = Book::new();
        let mut out = Vec::new();
        let t = Instant::now();
        for id in 0..2500 {
            book.request(0, flow(id), &mut out);
        }
        assert_eq!(book.take_installs(t).len(), BATCH);
        assert_eq!(book.take_installs(t).len(), BATCH);
        assert_eq!(book.take_installs(t).len(), 500);
        for id in 0..1200 {
            book.remove(0, id, RemoveReason::Kill, &mut out);
        }
        assert_eq!(book.take_removes().map(|r| r.0.len()), Some(BATCH));
        let messages = book.resync();
        let done: Vec<bool> = messages.iter().map(|m| m.done).collect();
        assert_eq!(done, [false, false, true]);
        let flows: usize = messages.iter().map(|m| m.flows.len()).sum();
        let removing: usize = messages.iter().map(|m| m.removing.len()).sum();
        assert_eq!((flows, removing), (1300, 1200));
    }
}
