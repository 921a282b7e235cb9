//! Three-colour meters, colour-blind: of two rates (RFC 2698), as bmv2 has
//! them, and of a single rate (RFC 2697).
//!
//! A bucket's tokens follow from the time since the meter was made, not since
//! the last packet, so that rounding never adds up.

use parking_lot::Mutex;

use crate::control::{ColourCounts, CounterValue, MeterConfig};
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

    /// Adds the tokens of the time that has passed; returns those that did not
    /// fit.
    fn fill(&mut self, micros: u64) -> u64 {
        let since = u128::from(micros) * u128::from(self.rate) / 1_000_000;
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        let new = since.saturating_sub(self.seen);
        self.seen = since.max(self.seen);
        self.add(new)
    }

    fn add(&mut self, tokens: u64) -> u64 {
        let all = self.tokens.saturating_add(tokens);
        self.tokens = all.min(self.burst);
        all - self.tokens
    }

    /// Takes tokens if there are enough.
    fn take(&mut self, amount: u64) -> bool {
        match self.tokens.checked_sub(amount) {
            Some(rest) => {
                self.tokens = rest;
                true
            }
            None => false,
        }
    }
}

/// A meter's rates, tokens and counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    config: Option<MeterConfig>,
    committed: Bucket,
    /// The peak bucket; with a single rate the excess bucket.
    other: Bucket,
    /// What got each colour.
    counts: ColourCounts,
}

impl State {
    /// Adds what another has counted.
    pub(crate) fn add_counts(&mut self, other: &Self) {
        let add = |to: &mut CounterValue, more: CounterValue| {
            to.packets = to.packets.wrapping_add(more.packets);
            to.bytes = to.bytes.wrapping_add(more.bytes);
        };
        add(&mut self.counts.green, other.counts.green);
        add(&mut self.counts.yellow, other.counts.yellow);
        add(&mut self.counts.red, other.counts.red);
    }

    fn colour(&mut self, unit: Unit, bytes: u64, now: Timestamp) -> u64 {
        let Some(config) = self.config else {
            return GREEN;
        };
        let amount = match unit {
            Unit::Packets => 1,
            Unit::Bytes => bytes,
        };
        let micros = now.as_micros();
        let left_over = self.committed.fill(micros);
        if config.eburst.is_some() {
            // What the committed bucket has no room for goes to the other.
            self.other.add(left_over);
            if self.committed.take(amount) {
                GREEN
            } else if self.other.take(amount) {
                YELLOW
            } else {
                RED
            }
        } else {
            self.other.fill(micros);
            if !self.other.take(amount) {
                RED
            } else if !self.committed.take(amount) {
                YELLOW
            } else {
                GREEN
            }
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
            s.committed = Bucket::new(c.cir, c.cburst);
            s.other = match c.eburst {
                Some(eburst) => Bucket::new(0, eburst),
                None => Bucket::new(c.pir, c.pburst),
            };
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

    /// All there is to it now.
    pub(crate) fn state(&self) -> State {
        *self.0.lock()
    }

    /// Puts back all that it was.
    pub(crate) fn restore(&self, old: &State) {
        *self.0.lock() = *old;
    }

    /// Puts back rates and tokens. What was counted since stays.
    pub(crate) fn restore_rates(&self, old: &State) {
        let mut s = self.0.lock();
        *s = State {
            counts: s.counts,
            ..*old
        };
    }

    /// Puts back what was counted before they were cleared, beside what was
    /// counted since.
    pub(crate) fn restore_counts(&self, old: &State) {
        self.0.lock().add_counts(old);
    }

    /// As [`Meter::execute`] for a meter with rates; `None` for one without.
    pub(crate) fn execute_if_set(&self, unit: Unit, bytes: u64, now: Timestamp) -> Option<u64> {
        self.config()?;
        Some(self.execute(unit, bytes, now))
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
            eburst: None,
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

    /// A meter of one rate, as RFC 2697 has it.
    fn single_rate(cir: u64, cburst: u64, eburst: u64) -> Meter {
        let m = Meter::default();
        m.configure(Some(MeterConfig {
            cir,
            cburst,
            pir: cir,
            pburst: cburst,
            eburst: Some(eburst),
        }));
        m
    }

    /// The colours of packets, each with its time in milliseconds and its size.
    fn colours(m: &Meter, packets: &[(u64, u64)]) -> Vec<u64> {
        let colour =
            |&(ms, bytes): &(u64, u64)| m.execute(Unit::Bytes, bytes, Timestamp::from_millis(ms));
        packets.iter().map(colour).collect()
    }

    #[test]
    fn with_a_single_rate_the_excess_bucket_gets_what_the_other_cannot_hold() {
        // CIR 1000 bytes a second, CBS 1500, EBS 3000: both buckets start full.
        let m = single_rate(1_000, 1_500, 3_000);
        // Tc 1500 -> 0; then Te 3000 -> 1500 -> 0; then nothing is left.
        let burst = [(0, 1_500), (0, 1_500), (0, 1_500), (0, 1)];
        assert_eq!(colours(&m, &burst), [GREEN, YELLOW, YELLOW, RED]);
        // One second brings 1000 tokens, all to Tc: no packet of 1001 passes,
        // and a red one takes nothing.
        assert_eq!(
            colours(&m, &[(1_000, 1_001), (1_000, 1_000), (1_000, 1)]),
            [RED, GREEN, RED]
        );
        // Two seconds more: 2000 tokens, 1500 to Tc and the 500 left over to Te.
        let after = [501, 1_000, 500, 500, 500, 499].map(|bytes| (3_000, bytes));
        assert_eq!(colours(&m, &after), [GREEN, RED, GREEN, YELLOW, RED, GREEN]);
        // After an hour both are full again, and no fuller.
        let burst = [1_500, 3_000, 1].map(|bytes| (3_600_000, bytes));
        assert_eq!(colours(&m, &burst), [GREEN, YELLOW, RED]);
    }

    /// What P4Runtime (1.5, "MeterEntry & DirectMeterEntry") says of the rates
    /// that a meter of one rate and two colours may have: all types mark alike.
    #[test]
    fn without_an_excess_burst_both_kinds_mark_alike() {
        let one = single_rate(1_000, 200, 0);
        let two = Meter::default();
        two.configure(Some(MeterConfig {
            cir: 1_000,
            cburst: 200,
            pir: 1_000,
            pburst: 200,
            eburst: None,
        }));
        let packets = [
            (0, 150),
            (0, 60),
            (0, 50),
            (30, 30),
            (30, 1),
            (999, 201),
            (999, 200),
        ];
        let expected = [GREEN, RED, GREEN, GREEN, RED, RED, GREEN];
        assert_eq!(colours(&one, &packets), expected);
        assert_eq!(colours(&two, &packets), expected);
    }

    #[test]
    fn bytes_are_counted_in_bytes() {
        let m = Meter::default();
        m.configure(Some(MeterConfig {
            cir: 1,
            cburst: 100,
            pir: 1,
            pburst: 150,
            eburst: None,
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
