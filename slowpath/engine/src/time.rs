//! Time as the caller tells it.

use std::ops::{Add, Sub};

/// Milliseconds in a tick.
pub const TICK_MS: u32 = 250;

/// A point in time, in ticks of 250 ms since a moment of the caller's choice.
/// Must not go backwards. Thirty-four years fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u32);

impl Tick {
    /// The tick that holds `ms` milliseconds since the chosen moment.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self((ms / TICK_MS as u64) as u32)
    }

    /// Ticks since `earlier`, zero if that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u32> for Tick {
    type Output = Self;
    fn add(self, ticks: u32) -> Self {
        Self(self.0.saturating_add(ticks))
    }
}

impl Sub<u32> for Tick {
    type Output = Self;
    fn sub(self, ticks: u32) -> Self {
        Self(self.0.saturating_sub(ticks))
    }
}

/// Whole ticks that last at least `ms` milliseconds.
#[must_use]
pub const fn ticks(ms: u32) -> u32 {
    ms.div_ceil(TICK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_down_to_a_tick_and_up_to_a_span() {
        assert_eq!(Tick::from_millis(999), Tick(3));
        assert_eq!(Tick::from_millis(1000), Tick(4));
        assert_eq!(ticks(0), 0);
        assert_eq!(ticks(1), 1);
        assert_eq!(ticks(250), 1);
        assert_eq!(ticks(251), 2);
        assert_eq!(Tick(5).since(Tick(9)), 0);
    }
}
