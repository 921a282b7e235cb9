//! `kill -9` of each process in the middle of a download.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Lab;
use crate::books::{self, Books};
use crate::report::Report;
use crate::traffic::wait_for;

const READY: Duration = Duration::from_secs(30);
/// How long a killed process stays away.
const AWAY: Duration = Duration::from_millis(1500);

/// Kills each process once and records what must hold.
pub fn run(lab: &mut Lab, report: &mut Report) {
    report.check(
        "kill -9 of offload-ctl: the download completes, entries are adopted",
        |_| offload_ctl(lab),
    );
    report.check(
        "kill -9 of slowpath: offloaded flows go on, and end in order",
        |_| slowpath(lab),
    );
    report.check(
        "kill -9 of the switch: pipeline, configuration and flows come back",
        |_| switch(lab),
    );
    report.check(
        "after the failures nothing is left and the books balance",
        |_| {
            books::wait_for_rest(&lab.admin, Duration::from_secs(60))?;
            let books = Books::settled(&lab.admin)?;
            ensure!(books.entered > 0, "the switch has counted nothing");
            ensure!(
                books.unaccounted_packets == 0,
                "{} packets unaccounted",
                books.unaccounted_packets
            );
            Ok(format!(
                "{} entered since the switch's restart, 0 unaccounted",
                books.entered
            ))
        },
    );
}

fn offload_ctl(lab: &mut Lab) -> Result<String> {
    let download = lab.offloaded_download("kill-offload-ctl")?;
    let before = Books::read(&lab.admin)?;
    lab.stack
        .offload_ctl
        .take()
        .context("not running")?
        .kill_9()?;
    let arrived = download.progress();
    std::thread::sleep(AWAY);
    let meanwhile = download.progress() - arrived;
    ensure!(meanwhile > 0, "nothing arrived while offload-ctl was away");
    lab.stack.start_offload_ctl(&lab.topology)?;
    let ready = lab.wait_until_ready(READY)?;
    let after = Books::read(&lab.admin)?;
    // Counters that went on are the proof that nothing was wiped.
    ensure!(
        after.fast() > before.fast() && after.flow_entries.0 > 0 && after.flow_entries.1 > 0,
        "fast packets {} then {}, entries {:?} then {:?}",
        before.fast(),
        after.fast(),
        before.flow_entries,
        after.flow_entries
    );
    let slow_before = after.slow();
    let done = download.finish()?;
    let slow = Books::read(&lab.admin)?.slow() - slow_before;
    // Only the end of the connection is the slow path's.
    ensure!(
        slow < 100,
        "{slow} packets took the slow path after the restart"
    );
    lab.probe().context("a new connection after the restart")?;
    Ok(format!(
        "ready after {:.1} s, {meanwhile} bytes meanwhile, download {:.1} s",
        ready.as_secs_f64(),
        done.seconds
    ))
}

fn slowpath(lab: &mut Lab) -> Result<String> {
    let download = lab.offloaded_download("kill-slowpath")?;
    lab.stack.slowpath.take().context("not running")?.kill_9()?;
    let arrived = download.progress();
    std::thread::sleep(AWAY);
    let meanwhile = download.progress() - arrived;
    ensure!(
        meanwhile > 1 << 20,
        "only {meanwhile} bytes arrived while slowpath was away"
    );
    lab.stack.start_slowpath(&lab.topology)?;
    let ready = lab.wait_until_ready(READY)?;
    let done = download.finish()?;
    let admin = &lab.admin;
    // It comes with a heartbeat.
    wait_for("the session is adopted", Duration::from_secs(5), || {
        Ok(admin.ld()?.counter("sessions_adopted") > 0)
    })?;
    lab.probe().context("a new connection after the restart")?;
    Ok(format!(
        "{meanwhile} bytes meanwhile, ready after {:.1} s, {} session adopted, download {:.1} s",
        ready.as_secs_f64(),
        lab.admin.ld()?.counter("sessions_adopted"),
        done.seconds
    ))
}

fn switch(lab: &mut Lab) -> Result<String> {
    let download = lab.offloaded_download("kill-switch")?;
    lab.stack.switch.take().context("not running")?.kill_9()?;
    std::thread::sleep(AWAY);
    lab.stack.start_switch(&lab.topology)?;
    let ready = lab.wait_until_ready(READY)?;
    let admin = &lab.admin;
    let back = wait_for("the flows are back on the switch", READY, || {
        let books = Books::read(admin)?;
        Ok(books.flow_entries.0 > 0 && books.flow_entries.1 > 0 && books.fast() > 0)
    })?;
    let done = download.finish()?;
    lab.probe().context("a new connection after the restart")?;
    Ok(format!(
        "ready after {:.1} s, flows back after {:.1} s more, download {:.1} s",
        ready.as_secs_f64(),
        back.as_secs_f64(),
        done.seconds
    ))
}
