//! Two-rate three-colour meters, colour-blind, as bmv2 has them.
//!
//! A bucket's tokens follow from the time since the meter was made, not since
//! the last packet, so that rounding never adds up.

use parking_lot::Mutex;

use crate::control::{ColourCounts, MeterConfig};
use crate::program::Unit;
use crate::switch::Timestamp;

/// Colours as v1model numbers them.
pub(crate) const GREEN: u64 = 0;
pub(crate) const YELLOW: u64 = 1;
pub(crate) const RED: u64 = 2;

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Units a second.
    rate: u64,
    burst: u64,
    tokens: u64,
    /// Tokens since the origin of time when `tokens` was brought up to date.
    seen: u64,
}

impl Bucket {
    fn new(rate: u64, burst: u64) -> Self {
        Self {
            rate,
            burst,
            tokens: burst,
            seen: 0,
        }
    }

    /// Takes tokens if there are enough.
    fn take(&mut self, micros: u64, amount: u64) -> bool {
        let since = u128::from(micros) * u128::from(self.rate) / 1_000_000;
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let new = since.saturating_sub(self.seen);
        self.seen = since.max(self.seen);
        self.tokens = self.tokens.saturating_add(new).min(self.burst);
        match self.tokens.checked_sub(amount) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    config: Option<MeterConfig>,
    peak: Bucket,
    committed: Bucket,
    /// What got each colour.
    counts: ColourCounts,
}

impl State {
    fn colour(&mut self, unit: Unit, bytes: u64, now: Timestamp) -> u64 {
        if self.config.is_none() {
            return GREEN;
        }
        let amount = match unit {
            Unit::Packets => 1,
            Unit::Bytes => bytes,
        };
        let micros = now.as_micros();
        if !self.peak.take(micros, amount) {
            RED
        } else if !self.committed.take(micros, amount) {
            YELLOW
        } else {
            GREEN
        }
    }
}

/// One meter.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<State>);

impl Meter {
    /// Sets the rates; buckets start full. `None`: everything is green.
    pub(crate) fn configure(&self, config: Option<MeterConfig>) {
        let mut s = self.0.lock();
        s.config = config;
        if let Some(c) = config {
            s.peak = Bucket::new(c.pir, c.pburst);
            s.committed = Bucket::new(c.cir, c.cburst);
        }
    }

    /// The rates, if set.
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.0.lock().config
    }

    /// What got each colour since the meter was made or they were cleared.
    pub(crate) fn counts(&self) -> ColourCounts {
        self.0.lock().counts
    }

    /// Starts counting anew.
    pub(crate) fn clear_counts(&self) {
        self.0.lock().counts = ColourCounts::default();
    }

    /// The colour of a packet of `bytes` bytes.
    pub(crate) fn execute(&self, unit: Unit, bytes: u64, now: Timestamp) -> u64 {
        let mut s = self.0.lock();
        let colour = s.colour(unit, bytes, now);
        let count = match colour {
            GREEN => &mut s.counts.green,
            YELLOW => &mut s.counts.yellow,
            _ => &mut s.counts.red,
        };
        count.packets = count.packets.wrapping_add(1);
        count.bytes = count.bytes.wrapping_add(bytes);
        colour
    }
}

/// An array of meters.
#[derive(Debug)]
pub(crate) struct MeterArray {
    pub(crate) unit: Unit,
    pub(crate) cells: Vec<Meter>,
}

impl MeterArray {
    pub(crate) fn new(unit: Unit, size: u32) -> Self {
        Self {
            unit,
            cells: (0..size).map(|_| Meter::default()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::CounterValue;

    #[test]
    fn colours_follow_the_buckets() {
        let m = Meter::default();
        let at = Timestamp::from_micros;
        assert_eq!(m.execute(Unit::Packets, 100, at(0)), GREEN, "unconfigured");
        m.configure(Some(MeterConfig {
            cir: 1_000,
            cburst: 2,
            pir: 2_000,
            pburst: 3,
        }));
        // Two fit both buckets, the third only the peak one, the fourth none.
        let burst: Vec<u64> = (0..4)
            .map(|_| m.execute(Unit::Packets, 100, at(0)))
            .collect();
        assert_eq!(burst, [GREEN, GREEN, YELLOW, RED]);
        // After 500 us the peak bucket has one more token, the other none.
        assert_eq!(m.execute(Unit::Packets, 100, at(500)), YELLOW);
        assert_eq!(m.execute(Unit::Packets, 100, at(999)), RED);
        // At 1 ms both have one.
        assert_eq!(m.execute(Unit::Packets, 100, at(1_000)), GREEN);
        assert_eq!(m.execute(Unit::Packets, 100, at(1_000)), RED);
        let of = |packets: u64| CounterValue {
            packets,
            bytes: packets * 100,
        };
        let counts = ColourCounts {
            green: of(4),
            yellow: of(2),
            red: of(3),
        };
        assert_eq!(m.counts(), counts);
        m.configure(None);
        assert_eq!(m.counts(), counts, "the rates are another thing");
        m.clear_counts();
        assert_eq!(m.counts(), ColourCounts::default());
    }

    #[test]
    fn bytes_are_counted_in_bytes() {
        let m = Meter::default();
        m.configure(Some(MeterConfig {
            cir: 1,
            cburst: 100,
            pir: 1,
            pburst: 150,
        }));
        assert_eq!(
            m.execute(Unit::Bytes, 100, Timestamp::from_micros(0)),
            GREEN
        );
        assert_eq!(
            m.execute(Unit::Bytes, 60, Timestamp::from_micros(0)),
            RED,
            "nothing is taken"
        );
        assert_eq!(
            m.execute(Unit::Bytes, 50, Timestamp::from_micros(0)),
            YELLOW
        );
    }
}
