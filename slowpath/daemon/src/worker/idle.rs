//! How long a worker sleeps when nothing arrives.

use std::time::Duration;

use sluice_config::IdlePolicy;

/// First sleep.
const FIRST: Duration = Duration::from_micros(10);

/// Counts empty polls, then says how long to sleep: twice as long each time, up
/// to the policy's limit.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    polls: u32,
    most: Duration,
    empty: u32,
    sleep: Duration,
}

impl Idle {
    /// By the policy.
    #[must_use]
    pub fn new(policy: &IdlePolicy) -> Self {
        Self {
            polls: policy.polls,
            most: Duration::from_micros(policy.max_sleep_us.into()),
            empty: 0,
            sleep: FIRST,
        }
    }

    /// There was work.
    #[inline]
    pub fn busy(&mut self) {
        self.empty = 0;
        self.sleep = FIRST;
    }

    /// There was none: how long to sleep, if at all.
    #[inline]
    pub fn idle(&mut self) -> Option<Duration> {
        if self.most.is_zero() {
            return None;
        }
        if self.empty < self.polls {
            self.empty += 1;
            return None;
        }
        let sleep = self.sleep.min(self.most);
        self.sleep = (self.sleep * 2).min(self.most);
        Some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_first_then_sleeps_longer_and_longer() {
        let mut idle = Idle::new(&IdlePolicy {
            polls: 2,
            max_sleep_us: 35,
        });
        let us = |idle: &mut Idle| idle.idle().map(|d| d.as_micros());
        assert_eq!(us(&mut idle), None);
        assert_eq!(us(&mut idle), None);
        assert_eq!(us(&mut idle), Some(10));
        assert_eq!(us(&mut idle), Some(20));
        assert_eq!(us(&mut idle), Some(35));
        assert_eq!(us(&mut idle), Some(35));
        idle.busy();
        assert_eq!(us(&mut idle), None);
    }

    #[test]
    fn never_sleeps_on_a_core_of_its_own() {
        let mut idle = Idle::new(&IdlePolicy {
            polls: 0,
            max_sleep_us: 0,
        });
        for _ in 0..100 {
            assert_eq!(idle.idle(), None);
        }
    }
}
