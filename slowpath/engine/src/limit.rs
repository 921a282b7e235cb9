//! A token bucket on ticks, for answers that anyone can provoke.

use crate::time::{TICK_MS, Tick};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    per_tick: u32,
    burst: u32,
    tokens: u32,
    filled: Tick,
}

impl TokenBucket {
    /// Lets `per_second` through on average, and as many in one go.
    pub(crate) fn new(per_second: u32) -> Self {
        let per_tick = (u64::from(per_second) * u64::from(TICK_MS)).div_ceil(1000) as u32;
        Self {
            per_tick,
            burst: per_second.max(per_tick),
            tokens: per_second.max(per_tick),
            filled: Tick(0),
        }
    }

    /// Takes a token; `false` when there is none.
    pub(crate) fn take(&mut self, now: Tick) -> bool {
        let passed = now.since(self.filled);
        if passed > 0 {
            self.filled = now;
            let more = passed.saturating_mul(self.per_tick);
            self.tokens = self.tokens.saturating_add(more).min(self.burst);
        }
        if self.tokens == 0 {
            return false;
        }
        self.tokens -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let mut b = TokenBucket::new(8);
        let take = |b: &mut TokenBucket, t| (0..100).filter(|_| b.take(Tick(t))).count();
        assert_eq!(take(&mut b, 0), 8);
        assert_eq!(take(&mut b, 0), 0);
        assert_eq!(take(&mut b, 1), 2);
        assert_eq!(take(&mut b, 3), 4);
        assert_eq!(take(&mut b, 1000), 8);
        assert_eq!(
            (0..9).filter(|_| TokenBucket::new(0).take(Tick(9))).count(),
            0
        );
    }
}
