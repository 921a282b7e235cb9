//! Servers and VIPs come and go while traffic runs (I4).

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use offload_api::v1::set_server_state_request::Action;

use super::{GATEWAY, Lab};
use crate::books;
use crate::report::Report;
use crate::traffic::wait_for;

/// A VIP that the lab adds and removes.
const EXTRA: &str = "
[[vip]]
name = \"extra\"
address = \"10.100.0.11\"
port = 80
protocol = \"tcp\"
group = \"edge\"
timeouts = { fin_ms = 3000, time_wait_ms = 2000, close_ms = 1000, port_hold_ms = 1000 }

  [[vip.server]]
  name = \"s2\"
  address = \"10.2.2.2\"
  port = 8080
";

/// Changes the configuration under traffic and records what must hold.
pub fn run(lab: &mut Lab, report: &mut Report) {
    report.check(
        "servers and VIPs added and removed: no connection breaks",
        |_| changes(lab),
    );
    report.check(
        "a drained server gets nothing new, an undrained one does",
        |_| drain(lab),
    );
    report.check("after the changes nothing is left", |_| {
        books::wait_for_rest(&lab.admin, Duration::from_secs(40))?;
        Ok("no entry, no session, no local port in use".into())
    });
}

fn changes(lab: &mut Lab) -> Result<String> {
    let without = |server: &str| {
        let block = format!(
            "  [[vip.server]]\n  name    = \"{server}\"\n  address = \"10.2.{}.2\"\n  port    = 8080\n",
            server.trim_start_matches('s')
        );
        assert!(
            GATEWAY.contains(&block),
            "the sample no longer has {block:?}"
        );
        GATEWAY.replacen(&block, "", 1)
    };
    let downloads = (0..3)
        .map(|number| lab.offloaded_download(&format!("churn-{number}")))
        .collect::<Result<Vec<_>>>()?;
    let extended = format!("{GATEWAY}{EXTRA}");
    let mut probes = 0;
    // Round robin put one of the downloads on each server, so each removal
    // takes the server of one away.
    for config in [
        &without("s1"),
        &extended,
        &without("s2"),
        GATEWAY,
        &without("s3"),
        GATEWAY,
    ] {
        apply(lab, config)?;
        let server = lab.probe().context("a new connection after a change")?;
        let removed = ["s1", "s2", "s3"]
            .into_iter()
            .find(|name| without(name) == *config);
        ensure!(
            removed != Some(server.as_str()),
            "a new connection went to {server}, which was removed"
        );
        probes += 1;
    }
    let mut slowest = 0.0f64;
    let mut servers = std::collections::BTreeSet::new();
    for download in downloads {
        let done = download.finish()?;
        slowest = slowest.max(done.seconds);
        servers.insert(done.server);
    }
    Ok(format!(
        "{probes} changes, downloads from {servers:?} completed, the slowest in {slowest:.1} s"
    ))
}

fn drain(lab: &mut Lab) -> Result<String> {
    lab.admin.set_server("web", "s2", Action::Drain)?;
    lab.wait_until_ready(Duration::from_secs(10))?;
    for _ in 0..6 {
        let server = lab.probe()?;
        ensure!(server != "s2", "a new connection went to s2, which drains");
    }
    lab.admin.set_server("web", "s2", Action::Up)?;
    lab.wait_until_ready(Duration::from_secs(10))?;
    for probe in 1..=6 {
        if lab.probe()? == "s2" {
            return Ok(format!(
                "s2 served none of 6 while draining, then probe {probe}"
            ));
        }
    }
    bail!("s2 served none of 6 after it was undrained")
}

/// Applies a configuration and waits until the load director works with it.
fn apply(lab: &mut Lab, config: &str) -> Result<()> {
    let response = lab.admin.apply(config, false)?;
    ensure!(
        response.problems.is_empty(),
        "refused: {:?}",
        response.problems
    );
    ensure!(!response.changes.is_empty(), "the change changed nothing");
    let admin = &lab.admin;
    wait_for(
        "the load director has the change",
        Duration::from_secs(10),
        || Ok(admin.ld()?.config_version == response.version),
    )?;
    Ok(())
}
