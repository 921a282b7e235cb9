//! What the lab found: checks, a table for people, JSON for programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;

use crate::books::Books;

/// One thing that must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What must hold.
    pub name: String,
    /// Whether it did.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
    /// How long it took.
    pub seconds: f64,
}

/// The 1 GiB transfer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Transfer {
    /// Length.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// Packets the switch rewrote.
    pub switch_packets: u64,
    /// Packets that went to the load director.
    pub slow_path_packets: u64,
    /// The switch's share, 0 to 1.
    pub switch_share: f64,
}

/// Time from the request to the acknowledgement of both directions, µs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OffloadLatency {
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// How many were measured.
    pub count: u64,
}

/// Packets of one VIP.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VipPackets {
    /// From clients, on both ways.
    pub received: u64,
    /// From clients, rewritten by the switch.
    pub switch_to_servers: u64,
    /// From servers, rewritten by the switch.
    pub switch_to_clients: u64,
}

/// All that the lab found; `target/lab/summary.json` has it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The switch that ran.
    pub target: String,
    /// Every check held.
    pub ok: bool,
    /// Wall time of the lab, builds excluded.
    pub seconds: f64,
    /// The switch's counters after the main job, read back.
    pub switch: Books,
    /// `switch.unaccounted_packets`, here so that no one misses it.
    pub unaccounted_packets: i64,
    /// Packets that the kernel delivered and the switch never counted.
    pub missed_before_switch: i64,
    /// The load director's totals after the main job.
    pub slow_path: BTreeMap<String, u64>,
    /// The large transfer.
    pub transfer: Transfer,
    /// How fast offloading is.
    pub offload_latency: OffloadLatency,
    /// Packets of offloaded sessions that the load director still had on its
    /// way when both directions were acknowledged: all that can be reordered.
    pub switchover_late_packets: u64,
    /// Packets of each VIP after the main job, as the switch counted them.
    pub vips: BTreeMap<String, VipPackets>,
    /// Downloads by server.
    pub downloads_by_server: BTreeMap<String, usize>,
    /// Throughput that iperf3 saw, Mbit/s: to the server, from the server.
    pub iperf3_mbits: (f64, f64),
    /// What must hold.
    pub checks: Vec<Check>,
}

/// Collects checks and shows progress.
pub struct Report {
    /// What was found so far.
    pub summary: Summary,
    started: Instant,
    spinner: indicatif::ProgressBar,
}

impl Report {
    /// A report that has found nothing yet.
    pub fn new(target: &str) -> Self {
        let spinner = indicatif::ProgressBar::new_spinner();
        spinner.enable_steady_tick(std::time::Duration::from_millis(120));
        Self {
            summary: Summary {
                target: target.to_owned(),
                ..Summary::default()
            },
            started: Instant::now(),
            spinner,
        }
    }

    /// Runs a step that must succeed for the rest to make sense.
    ///
    /// # Errors
    /// The step's own.
    pub fn step<T>(&mut self, what: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.spinner.set_message(what.to_owned());
        let start = Instant::now();
        let result = f().with_context(|| what.to_owned());
        let seconds = start.elapsed().as_secs_f64();
        match &result {
            Ok(_) => self.line(&format!("  ok    {what} ({seconds:.1} s)")),
            Err(_) => self.line(&format!("  FAIL  {what} ({seconds:.1} s)")),
        }
        result
    }

    /// Runs a check: its failure is recorded and the lab goes on. The closure
    /// gets the summary to note what it read.
    pub fn check(&mut self, name: &str, f: impl FnOnce(&mut Summary) -> Result<String>) {
        self.spinner.set_message(name.to_owned());
        let start = Instant::now();
        let result = crate::interrupt::check().and_then(|()| f(&mut self.summary));
        let seconds = start.elapsed().as_secs_f64();
        let (ok, detail) = match result {
            Ok(detail) => (true, detail),
            Err(error) => (false, format!("{error:#}")),
        };
        let mark = if ok { "ok  " } else { "FAIL" };
        self.line(&format!("  {mark}  {name} ({seconds:.1} s): {detail}"));
        self.summary.checks.push(Check {
            name: name.to_owned(),
            ok,
            detail,
            seconds,
        });
    }

    fn line(&self, text: &str) {
        // The spinner hides its lines where there is no terminal.
        if self.spinner.is_hidden() {
            println!("{text}");
        } else {
            self.spinner.println(text);
        }
    }

    /// Ends the progress, prints the tables and writes the JSON.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn finish(&mut self, path: &Path) -> Result<bool> {
        self.spinner.finish_and_clear();
        self.summary.seconds = self.started.elapsed().as_secs_f64();
        self.summary.unaccounted_packets = self.summary.switch.unaccounted_packets;
        self.summary.ok =
            !self.summary.checks.is_empty() && self.summary.checks.iter().all(|check| check.ok);
        print_tables(&self.summary);
        let json = serde_json::to_string_pretty(&self.summary)?;
        std::fs::write(path, json).with_context(|| format!("can't write {}", path.display()))?;
        println!("\nThe same facts: {}", path.display());
        for check in self.summary.checks.iter().filter(|check| !check.ok) {
            println!("failed: {}: {}", check.name, check.detail);
        }
        Ok(self.summary.ok)
    }
}

fn print_tables(summary: &Summary) {
    let switch = &summary.switch;
    println!(
        "\nWhere packets went, after the main job (read from {}):\n",
        summary.target
    );
    let mut table = new_table();
    table.set_header(["", "packets", "share"]);
    let mut row = |what: &str, packets: u64| {
        table.add_row([
            Cell::new(what),
            Cell::new(grouped(packets)).set_alignment(CellAlignment::Right),
            Cell::new(share(packets, switch.entered)).set_alignment(CellAlignment::Right),
        ]);
    };
    row("entered the switch", switch.entered);
    row(
        "  rewritten by the switch, to servers",
        switch.path("FAST_FWD"),
    );
    row(
        "  rewritten by the switch, to clients",
        switch.path("FAST_REV"),
    );
    row("  to the slow path, from clients", switch.path("STEER_VIP"));
    row("  to the slow path, from servers", switch.path("STEER_LIP"));
    row("  to the slow path, too big", switch.path("STEER_MTU"));
    row("  from the slow path, routed", switch.path("FROM_LD"));
    row("  routed, of no VIP", switch.path("ROUTED"));
    row(
        "  to and from offload-ctl (ARP, ...)",
        switch.punted + switch.entered_from_cpu,
    );
    for (reason, packets) in &switch.dropped {
        row(&format!("  dropped by the switch: {reason}"), *packets);
    }
    println!("{table}");
    for (name, vip) in &summary.vips {
        println!(
            "VIP {name}: {} from clients, of these {} rewritten by the switch ({}); {} back",
            grouped(vip.received),
            grouped(vip.switch_to_servers),
            share(vip.switch_to_servers, vip.received),
            grouped(vip.switch_to_clients)
        );
    }
    println!(
        "unaccounted: {}   lost before the switch: {}",
        switch.unaccounted_packets, summary.missed_before_switch
    );
    let drops: Vec<String> = summary
        .slow_path
        .iter()
        .filter(|(name, packets)| name.starts_with("drop.") && **packets > 0)
        .map(|(name, packets)| {
            format!("{} {}", name.trim_start_matches("drop."), grouped(*packets))
        })
        .collect();
    println!(
        "slow path: received {}, forwarded {}, dropped: {}",
        grouped(
            summary
                .slow_path
                .get("rx_packets")
                .copied()
                .unwrap_or_default()
        ),
        grouped(
            summary
                .slow_path
                .get("forwarded_packets")
                .copied()
                .unwrap_or_default()
        ),
        if drops.is_empty() {
            "none".to_owned()
        } else {
            drops.join(", ")
        }
    );
    println!(
        "1 GiB transfer: {:.2} % of packets by the switch, {:.1} s   iperf3: {:.0} and {:.0} Mbit/s",
        summary.transfer.switch_share * 100.0,
        summary.transfer.seconds,
        summary.iperf3_mbits.0,
        summary.iperf3_mbits.1
    );
    println!(
        "offload latency: p50 {} µs, p99 {} µs over {} sessions   late at switch-over: {} packets",
        summary.offload_latency.p50_us,
        summary.offload_latency.p99_us,
        summary.offload_latency.count,
        summary.switchover_late_packets
    );
    println!("\nWhat must hold:\n");
    let mut table = new_table();
    table.set_header(["", "check", "seen"]);
    for check in &summary.checks {
        table.add_row([
            if check.ok { "ok" } else { "FAIL" },
            &check.name,
            &check.detail,
        ]);
    }
    println!("{table}");
}

/// A table without lines between rows, as wide as a terminal commonly is.
fn new_table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.remove_style(comfy_table::TableComponent::HorizontalLines);
    table.remove_style(comfy_table::TableComponent::MiddleIntersections);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(100);
    table
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.2} %", part as f64 * 100.0 / whole as f64)
}

/// A number with blanks between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1 000");
        assert_eq!(grouped(1_234_567), "1 234 567");
    }

    #[test]
    fn a_report_without_checks_is_not_ok() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("sluice-report-{}.json", std::process::id()));
        assert!(!Report::new("none").finish(&path).unwrap());
        let mut report = Report::new("none");
        report.check("holds", |_| Ok("yes".into()));
        assert!(report.finish(&path).unwrap());
        report.check("does not", |_| anyhow::bail!("no"));
        assert!(!report.finish(&path).unwrap());
        let read: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read["ok"], false);
        assert_eq!(read["checks"][1]["name"], "does not");
    }
}
