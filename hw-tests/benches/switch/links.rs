//! Over links: how many packets get through, and what CPU time they take.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hw_tests::netns::received_frames;
use hw_tests::rig::{Rig, test_end};
use hw_tests::scene::{self, SERVERS, UPLINK};
use hw_tests::target::Target;
use hw_tests::wire::Wire;
use serde_json::{Value, json};

use crate::traffic;

/// Frames in one system call of the generator.
const BURST: usize = 32;

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

/// Builds softswitch with the optimisation that this benchmark has.
pub fn build_softswitch() -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "bench"])
        .args(["--package", "softswitch", "--bin", "softswitch"])
        .status()
        .context("can't run cargo")?;
    ensure!(status.success(), "softswitch can't be built ({status})");
    Ok(())
}

/// Offers ever more packets of one length until too many are lost. `kind` is
/// that of the ports, as [`Rig::start_with`] has it.
pub fn measure(target: Target, kind: &str, length: usize) -> Result<Value> {
    let name = format!("bench-{length}");
    let mut rig = Rig::start_with(target, kind, &name, &[UPLINK, SERVERS], scene::MTU)?;
    rig.controller.insert(&scene::configuration())?;
    let entries: Vec<_> = (0..traffic::SESSIONS)
        .flat_map(|at| traffic::session(at).entries(0))
        .collect();
    rig.controller.insert(&entries)?;
    check_logic(&mut rig, length)?;
    // Frames that arrive are counted by the kernel from here on; a socket that
    // nobody reads would cost the switch time.
    rig.wires.remove(&SERVERS);
    let frames = traffic::frames(traffic::forward, length)?;
    let mut steps = Vec::new();
    let mut rate = FIRST_RATE;
    while rate < LAST_RATE {
        let mut step = offer(&mut rig, &frames, rate)?;
        if step.loss() > NO_LOSS {
            // A limit shows twice, what disturbed only once.
            let again = offer(&mut rig, &frames, rate)?;
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
    Ok(json!({
        // Absent on a machine so busy that every rate loses packets.
        "lossless_pps": best.map(|step| step.received_rate().round()),
        "lossless_cpu_us_per_packet": best.map(Step::cpu_per_packet),
        "first_cpu_us_per_packet": steps.first().map(Step::cpu_per_packet),
        "max_received_pps": most.map(|step| step.received_rate().round()),
        "max_received_cpu_us_per_packet": most.map(Step::cpu_per_packet),
        "steps": steps.iter().map(Step::json).collect::<Vec<_>>(),
    }))
}

/// Some frames of the run, compared whole.
fn check_logic(rig: &mut Rig, length: usize) -> Result<()> {
    for at in (0..traffic::SESSIONS).step_by(64) {
        let session = traffic::session(at);
        rig.wire(UPLINK)?
            .send(&traffic::forward(&session, length)?)?;
        let found = rig.wire(SERVERS)?.receive(Duration::from_secs(2))?;
        let expected = traffic::forward_out(&session, length)?;
        ensure!(found == Some(expected), "the switch forwards wrongly");
    }
    Ok(())
}

/// What became of one offered rate.
struct Step {
    offered: f64,
    sent: u64,
    received: u64,
    took: Duration,
    cpu: Duration,
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

/// Sends at a rate, and waits until what is under way has arrived.
fn offer(rig: &mut Rig, frames: &[Vec<u8>], rate: f64) -> Result<Step> {
    rig.process.check()?;
    let before = received_frames(&test_end(SERVERS))?;
    let cpu_before = rig.process.cpu_time()?;
    let (sent, took) = generate(rig.wire(UPLINK)?, frames, rate)?;
    let mut received = received_frames(&test_end(SERVERS))?;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let now = received_frames(&test_end(SERVERS))?;
        if now == received {
            break;
        }
        received = now;
    }
    Ok(Step {
        offered: rate,
        sent,
        received: received - before,
        took,
        cpu: rig.process.cpu_time()? - cpu_before,
    })
}

/// Sends for the time of a step, paced: never more than a burst ahead of the
/// rate, and what the link does not take is not tried again.
fn generate(wire: &Wire, frames: &[Vec<u8>], rate: f64) -> Result<(u64, Duration)> {
    let mut next = frames.iter().map(Vec::as_slice).cycle();
    let mut sent = 0_u64;
    let start = Instant::now();
    loop {
        let elapsed = start.elapsed();
        if elapsed >= STEP {
            return Ok((sent, elapsed));
        }
        let due = (elapsed.as_secs_f64() * rate) as u64;
        if due < sent + BURST as u64 {
            // The processors are the switch's meanwhile.
            let wait = (sent + BURST as u64 - due) as f64 / rate;
            std::thread::sleep(Duration::from_secs_f64(wait));
            continue;
        }
        let burst: Vec<&[u8]> = next.by_ref().take(BURST).collect();
        sent += wire.send_burst(&burst)? as u64;
    }
}
