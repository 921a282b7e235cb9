//! When is a session idle?
//!
//! A switch tells of one entry at a time, and may tell again every other
//! sweep while the entry stays idle. A session is idle only when both its
//! entries are, so a notice is a reason to look at both. Not every switch
//! tells the time since the last hit; then the counters must not have moved
//! for the timeout.

use super::{Dir, Ending, FlowBook};
use crate::dataplane::{Count, Reading};
use crate::entry::Key;

/// A notice counts as news of its entry for this long: it comes at most two
/// sweeps of a second late.
const FRESH_MS: u64 = 2_500;
/// An LD that was told is told again after this long, if nothing happened.
const REPEAT_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdleState {
    /// When the switch told of each direction last, ms; 0: never.
    told: [u64; 2],
    /// Counters at the last look.
    seen: [Option<Count>; 2],
    /// When they were seen to differ last, ms.
    changed: [u64; 2],
    /// No look before this time, ms.
    next: u64,
}

/// Entries to read in order to decide about sessions.
#[derive(Clone, Debug, Default)]
pub struct IdleCheck {
    /// Sessions.
    sessions: Vec<u64>,
    /// Their entries.
    pub keys: Vec<Key>,
}

impl FlowBook {
    /// The switch tells that entries are idle. What has to be read to decide?
    pub fn idle_notice(&mut self, keys: &[Key], now: u64) -> Option<IdleCheck> {
        let mut check = IdleCheck::default();
        for key in keys {
            let (id, dir) = match key {
                Key::FlowFwd(key) => (self.by_fwd.get(key), Dir::Fwd),
                Key::FlowRev(key) => (self.by_rev.get(key), Dir::Rev),
                _ => continue,
            };
            let Some((&id, flow)) = id.and_then(|id| Some((id, self.flows.get_mut(id)?))) else {
                continue;
            };
            flow.idle.told[dir as usize] = now;
            if flow.want.is_ok() && flow.settled() && flow.idle.next <= now {
                flow.idle.next = now + REPEAT_MS;
                check.sessions.push(id);
                check.keys.extend(Dir::BOTH.map(|dir| flow.pair.key(dir)));
            }
        }
        (!check.sessions.is_empty()).then_some(check)
    }

    /// Sessions whose second look is due.
    pub fn idle_due(&mut self, now: u64) -> Option<IdleCheck> {
        let mut check = IdleCheck::default();
        while let Some(&(at, id)) = self.rechecks.first() {
            if at > now {
                break;
            }
            self.rechecks.pop_first();
            if let Some(flow) = self.flows.get(&id)
                && flow.want.is_ok()
                && flow.settled()
            {
                check.sessions.push(id);
                check.keys.extend(Dir::BOTH.map(|dir| flow.pair.key(dir)));
            }
        }
        (!check.sessions.is_empty()).then_some(check)
    }

    /// Decides by what was read.
    pub fn idle_read(&mut self, check: &IdleCheck, readings: &[Reading], now: u64) {
        let readings: std::collections::HashMap<Key, &Reading> = readings
            .iter()
            .map(|reading| (reading.entry.key, reading))
            .collect();
        for &id in &check.sessions {
            let Some(flow) = self.flows.get_mut(&id) else {
                continue;
            };
            if flow.want.is_err() || !flow.settled() {
                continue;
            }
            let timeout = u64::from(flow.pair.idle_timeout_ms);
            let mut idle_for = [0; 2];
            let mut complete = true;
            for dir in Dir::BOTH {
                let at = dir as usize;
                let Some(reading) = readings.get(&flow.pair.key(dir)) else {
                    complete = false;
                    continue;
                };
                if let Some(count) = reading.count {
                    flow.count[at] = count;
                }
                if flow.idle.changed[at] == 0 || flow.idle.seen[at] != reading.count {
                    flow.idle.changed[at] = now;
                    flow.idle.seen[at] = reading.count;
                }
                let fresh = now.saturating_sub(flow.idle.told[at]) < FRESH_MS;
                idle_for[at] = match reading.idle_ms {
                    Some(ms) => ms,
                    None if fresh => timeout,
                    None if reading.count.is_some() => now - flow.idle.changed[at],
                    None => 0,
                };
            }
            if !complete {
                // An entry is missing: the next read-back repairs that.
                continue;
            }
            let least = idle_for[0].min(idle_for[1]);
            if least < timeout {
                flow.idle.next = now + (timeout - least);
                self.rechecks.insert((flow.idle.next, id));
                continue;
            }
            flow.idle.next = now + REPEAT_MS;
            self.stats.idle += 1;
            let connected = self.lds.get(&flow.ld).is_some_and(|ld| ld.connected);
            match flow.session {
                Some(session) if connected => self.replies.idle(&flow.ld, session),
                // Nobody is there to decide.
                Some(_) => self.end(id, Ending::Evicted("idle")),
                None => self.end(id, Ending::Silent),
            }
        }
    }
}
