//! Digest lists: buffering, suppression of duplicates, acknowledgement
//! (specification, "DigestEntry"). Time comes in from outside.

use std::collections::{BTreeMap, HashMap, HashSet};

use p4runtime_proto::p4::v1::digest_entry::Config;

use crate::{DigestValue, Timestamp};

/// List length when the controller leaves it to the server.
const DEFAULT_LIST_SIZE: usize = 1024;

/// Longest list, whatever the controller asks for.
const MAX_LIST_SIZE: usize = 16_384;
/// Messages whose acknowledgement is waited for, of one digest; then the oldest
/// list counts as acknowledged.
const MAX_CACHED: usize = 65_536;

/// The values of one digest message.
pub(super) type Message = Vec<DigestValue>;

/// A list that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List {
    pub(super) digest: u32,
    pub(super) list: u64,
    pub(super) messages: Vec<Message>,
}

/// A digest that is switched on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SwitchedOn {
    pub(super) config: Config,
    /// Which time it is that a digest was switched on. What was buffered and
    /// suppressed goes when it is switched off, however soon it is on again.
    pub(super) time: u64,
}

/// Buffers and caches of all digests.
#[derive(Debug, Default)]
pub(super) struct Digests {
    states: HashMap<u32, State>,
    last_list: u64,
}

#[derive(Debug, Default)]
struct State {
    /// As in [`SwitchedOn`].
    time: u64,
    buffer: Vec<Message>,
    buffered: HashSet<Message>,
    first_at: Timestamp,
    /// Lists that are not acknowledged yet, with the time they were sent.
    sent: BTreeMap<u64, (Timestamp, Vec<Message>)>,
    cached: HashSet<Message>,
}

impl Digests {
    /// Takes a message of the data plane.
    pub(super) fn push(
        &mut self,
        digest: u32,
        on: &SwitchedOn,
        message: Message,
        now: Timestamp,
    ) -> Option<List> {
        let state = self.state(digest, on.time);
        if state.cached.contains(&message) || !state.buffered.insert(message.clone()) {
            return None;
        }
        if state.buffer.is_empty() {
            state.first_at = now;
        }
        state.buffer.push(message);
        let size = match usize::try_from(on.config.max_list_size) {
            Ok(size @ 1..) => size.min(MAX_LIST_SIZE),
            _ => DEFAULT_LIST_SIZE,
        };
        if state.buffer.len() >= size || on.config.max_timeout_ns <= 0 {
            self.take(digest, &on.config, now)
        } else {
            None
        }
    }

    /// Expires the cache and takes the list if its time has come.
    pub(super) fn poll(&mut self, digest: u32, on: &SwitchedOn, now: Timestamp) -> Option<List> {
        let state = self.state(digest, on.time);
        let config = &on.config;
        let elapsed = |since: Timestamp| {
            let ns = now.as_nanos().saturating_sub(since.as_nanos());
            i64::try_from(ns).unwrap_or(i64::MAX)
        };
        while let Some(oldest) = state.sent.first_entry() {
            if elapsed(oldest.get().0) < config.ack_timeout_ns {
                break;
            }
            for message in oldest.remove().1 {
                state.cached.remove(&message);
            }
        }
        if state.buffer.is_empty() || elapsed(state.first_at) < config.max_timeout_ns {
            return None;
        }
        self.take(digest, config, now)
    }

    /// What is known of a digest since it was switched on.
    fn state(&mut self, digest: u32, time: u64) -> &mut State {
        let state = self.states.entry(digest).or_default();
        if state.time != time {
            *state = State {
                time,
                ..State::default()
            };
        }
        state
    }

    fn take(&mut self, digest: u32, config: &Config, now: Timestamp) -> Option<List> {
        let state = self.states.get_mut(&digest)?;
        let messages = std::mem::take(&mut state.buffer);
        state.buffered.clear();
        self.last_list += 1;
        if config.ack_timeout_ns > 0 {
            state.cached.extend(messages.iter().cloned());
            state.sent.insert(self.last_list, (now, messages.clone()));
            while state.cached.len() > MAX_CACHED
                && let Some((_, (_, oldest))) = state.sent.pop_first()
            {
                for message in oldest {
                    state.cached.remove(&message);
                }
            }
        }
        Some(List {
            digest,
            list: self.last_list,
            messages,
        })
    }

    /// Takes an acknowledgement; one for an unknown list changes nothing.
    pub(super) fn acknowledge(&mut self, digest: u32, list: u64) {
        let Some(state) = self.states.get_mut(&digest) else {
            return;
        };
        let Some((_, messages)) = state.sent.remove(&list) else {
            return;
        };
        for message in messages {
            state.cached.remove(&message);
        }
    }

    /// Forgets the digests that were switched off.
    pub(super) fn retain(&mut self, is_on: impl Fn(u32) -> bool) {
        self.states.retain(|digest, _| is_on(*digest));
    }

    /// Whether a list waits for its time.
    pub(super) fn is_waiting(&self) -> bool {
        self.states.values().any(|state| !state.buffer.is_empty())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.states.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    const D: u32 = 7;

    fn message(value: u8) -> Message {
        number(&[value])
    }

    fn number(bytes: &[u8]) -> Message {
        vec![DigestValue {
            number: Value::from_slice(bytes),
            bits: 8 * u32::try_from(bytes.len()).unwrap(),
            valid: true,
        }]
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn config(timeout_ms: i64, size: i32, ack_ms: i64) -> SwitchedOn {
        SwitchedOn {
            config: Config {
                max_timeout_ns: timeout_ms * 1_000_000,
                max_list_size: size,
                ack_timeout_ns: ack_ms * 1_000_000,
            },
            time: 1,
        }
    }

    #[test]
    fn without_timeout_each_message_goes_at_once() {
        let mut d = Digests::default();
        let c = config(0, 0, 0);
        for list in 1..=2 {
            let sent = d.push(D, &c, message(1), at(0)).unwrap();
            assert_eq!((sent.list, sent.messages), (list, vec![message(1)]));
        }
    }

    #[test]
    fn lists_fill_up_with_distinct_messages() {
        let mut d = Digests::default();
        let c = config(1000, 2, 0);
        assert_eq!(d.push(D, &c, message(1), at(0)), None);
        assert_eq!(d.push(D, &c, message(1), at(1)), None);
        let sent = d.push(D, &c, message(2), at(2)).unwrap();
        assert_eq!(sent.messages, [message(1), message(2)]);
    }

    #[test]
    fn a_controller_that_never_acknowledges_costs_bounded_memory() {
        let mut d = Digests::default();
        let c = config(i64::MAX / 1_000_000, i32::MAX, i64::MAX / 1_000_000);
        let message = |n: u32| number(&n.to_be_bytes());
        let lists = (0..200_000)
            .filter_map(|n| d.push(D, &c, message(n), at(0)))
            .map(|list| list.messages.len());
        assert_eq!(lists.collect::<Vec<_>>(), [MAX_LIST_SIZE; 12]);
        assert_eq!(d.states[&D].cached.len(), MAX_CACHED);
        assert_eq!(d.states[&D].sent.len(), MAX_CACHED / MAX_LIST_SIZE);
    }

    #[test]
    fn a_list_waits_no_longer_than_its_timeout() {
        let mut d = Digests::default();
        let c = config(100, 10, 0);
        d.push(D, &c, message(1), at(50));
        assert_eq!(d.poll(D, &c, at(149)), None);
        assert_eq!(d.poll(D, &c, at(150)).unwrap().messages, [message(1)]);
        assert_eq!(d.poll(D, &c, at(500)), None);
    }

    #[test]
    fn duplicates_wait_for_ack_or_its_timeout() {
        let mut d = Digests::default();
        let c = config(0, 1, 100);
        let first = d.push(D, &c, message(1), at(0)).unwrap();
        assert_eq!(d.push(D, &c, message(1), at(10)), None);
        d.acknowledge(D, first.list + 9);
        assert_eq!(d.push(D, &c, message(1), at(20)), None);
        d.acknowledge(D, first.list);
        assert!(d.push(D, &c, message(1), at(30)).is_some());
        assert_eq!(d.push(D, &c, message(1), at(40)), None);
        d.poll(D, &c, at(130));
        assert!(d.push(D, &c, message(1), at(131)).is_some());
    }

    #[test]
    fn what_is_switched_on_again_begins_anew() {
        let mut d = Digests::default();
        let c = config(0, 1, i64::MAX / 1_000_000);
        let again = SwitchedOn { time: 2, ..c };
        assert!(d.push(D, &c, message(1), at(0)).is_some());
        assert_eq!(d.push(D, &c, message(1), at(1)), None);
        assert!(d.push(D, &again, message(1), at(2)).is_some());
        // Nor is what waited sent.
        let waits = config(100, 10, 0);
        let again = SwitchedOn { time: 2, ..waits };
        d.push(D, &waits, message(2), at(0));
        assert_eq!(d.poll(D, &again, at(500)), None);
    }
}
