//! Over links: how many packets get through, and what CPU time they take.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hw_tests::netns::received_frames;
use hw_tests::rig::{Rig, test_end};
use hw_tests::scene::{self, SERVERS, UPLINK};
use hw_tests::target::Target;
use serde_json::Value;

use crate::climb::{self, Step};
use crate::traffic;

/// Frames in one system call of the generator.
const BURST: usize = 32;

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
    traffic::install(&rig.controller)?;
    check_logic(&mut rig, length)?;
    // Frames that arrive are counted by the kernel from here on; a socket that
    // nobody reads would cost the switch time.
    rig.wires.remove(&SERVERS);
    let frames = traffic::frames(traffic::forward, length)?;
    climb::climb(|rate| offer(&mut rig, &frames, rate))
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

/// Sends at a rate, and waits until what is under way has arrived. What the
/// link does not take is not tried again.
fn offer(rig: &mut Rig, frames: &[Vec<u8>], rate: f64) -> Result<Step> {
    rig.process.check()?;
    let count = || received_frames(&test_end(SERVERS));
    let before = count()?;
    let cpu_before = rig.process.cpu_time()?;
    let mut next = frames.iter().map(Vec::as_slice).cycle();
    let wire = rig.wire(UPLINK)?;
    let (sent, took) = climb::pace(BURST, rate, || {
        let burst: Vec<&[u8]> = next.by_ref().take(BURST).collect();
        wire.send_burst(&burst)
    })?;
    Ok(Step {
        offered: rate,
        sent,
        received: climb::settled(count)? - before,
        took,
        cpu: rig.process.cpu_time()? - cpu_before,
    })
}
