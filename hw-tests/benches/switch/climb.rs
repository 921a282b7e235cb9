//! Ever higher rates, until too many packets are lost, and then no rate at all.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

/// How long each rate is offered.
const STEP: Duration = Duration::from_millis(1200);

/// Rates that are offered, packets a second: each half as much again.
const FIRST_RATE: f64 = 5_000.0;
const FACTOR: f64 = 1.5;
const LAST_RATE: f64 = 3_000_000.0;

/// Loss up to this share counts as none: a scheduler's hiccup, not a limit.
const NO_LOSS: f64 = 0.001;

/// Loss beyond this share ends the climb.
const TOO_MUCH_LOSS: f64 = 0.2;

/// What became of one offered rate.
pub struct Step {
    pub offered: f64,
    pub sent: u64,
    pub received: u64,
    pub took: Duration,
    /// CPU time of the switch's process.
    pub cpu: Duration,
}

impl Step {
    fn loss(&self) -> f64 {
        1.0 - self.received as f64 / self.sent as f64
    }

    fn sent_rate(&self) -> f64 {
        self.sent as f64 / self.took.as_secs_f64()
    }

    fn received_rate(&self) -> f64 {
        self.received as f64 / self.took.as_secs_f64()
    }

    fn cpu_per_packet(&self) -> f64 {
        let us = self.cpu.as_secs_f64() * 1e6 / self.received.max(1) as f64;
        (us * 1000.0).round() / 1000.0
    }

    fn json(&self) -> Value {
        json!({
            "offered_pps": self.offered.round(),
            "sent": self.sent,
            "received": self.received,
            "seconds": self.took.as_secs_f64(),
            "cpu_seconds": self.cpu.as_secs_f64(),
            "cpu_us_per_packet": self.cpu_per_packet(),
        })
    }
}

/// Offers ever more packets until too many are lost, or no more can be made; in
/// the end as many as can be made.
pub fn climb(mut offer: impl FnMut(f64) -> Result<Step>) -> Result<Value> {
    let mut steps = Vec::new();
    let mut rate = FIRST_RATE;
    while rate < LAST_RATE {
        let mut step = offer(rate)?;
        if step.loss() > NO_LOSS {
            // A limit shows twice, what disturbed only once.
            let again = offer(rate)?;
            if again.loss() < step.loss() {
                step = again;
            }
        }
        let (loss, short) = (step.loss(), step.sent_rate() < 0.9 * rate);
        steps.push(step);
        if loss > TOO_MUCH_LOSS || short {
            break;
        }
        rate *= FACTOR;
    }
    let best = steps
        .iter()
        .filter(|step| step.loss() <= NO_LOSS)
        .max_by(|a, b| a.received_rate().total_cmp(&b.received_rate()));
    let most = steps
        .iter()
        .max_by(|a, b| a.received_rate().total_cmp(&b.received_rate()));
    let overload = offer(f64::INFINITY)?;
    Ok(json!({
        // Absent on a machine so busy that every rate loses packets.
        "lossless_pps": best.map(|step| step.received_rate().round()),
        "lossless_cpu_us_per_packet": best.map(Step::cpu_per_packet),
        "first_cpu_us_per_packet": steps.first().map(Step::cpu_per_packet),
        "max_received_pps": most.map(|step| step.received_rate().round()),
        "max_received_cpu_us_per_packet": most.map(Step::cpu_per_packet),
        "overload_sent_pps": overload.sent_rate().round(),
        "overload_pps": overload.received_rate().round(),
        "overload_cpu_us_per_packet": overload.cpu_per_packet(),
        "steps": steps.iter().map(Step::json).collect::<Vec<_>>(),
    }))
}

/// Sends for the time of a step, paced: never more than a burst ahead of the
/// rate, which may be infinite. `send` sends a burst, and says how many packets of it were taken.
pub fn pace(
    burst: usize,
    rate: f64,
    mut send: impl FnMut() -> Result<usize>,
) -> Result<(u64, Duration)> {
    let mut sent = 0_u64;
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        if elapsed >= STEP {
            return Ok((sent, elapsed));
        }
        let due = (elapsed.as_secs_f64() * rate) as u64;
        if due < sent + burst as u64 {
            // The processors are the switch's meanwhile.
            let wait = (sent + burst as u64 - due) as f64 / rate;
            std::thread::sleep(Duration::from_secs_f64(wait));
            continue;
        }
        sent += send()? as u64;
    }
}

/// Waits until `count` stays as it is; returns it.
pub fn settled(count: impl Fn() -> Result<u64>) -> Result<u64> {
    let mut before = count()?;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = count()?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
}
