//! What this process says about itself: in heartbeats and over HTTP.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Counters, gauges and health at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Monotonic totals, by the names that `offload.proto` gives.
    pub counters: BTreeMap<String, u64>,
    /// Momentary values.
    pub gauges: BTreeMap<String, u64>,
    /// Whether packets are handled: configured, and all workers run.
    pub ready: bool,
    /// Whether all workers run.
    pub healthy: bool,
    /// Why not, for people; empty if all is well.
    pub detail: String,
}

impl Status {
    /// The status in Prometheus's text format (version 0.0.4).
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut out = String::new();
        let mut last = String::new();
        for (kind, values) in [("counter", &self.counters), ("gauge", &self.gauges)] {
            let mut lines: Vec<(String, String, u64)> = values
                .iter()
                .map(|(name, value)| {
                    let (metric, labels) = metric(name, kind);
                    (metric, labels, *value)
                })
                .collect();
            lines.sort();
            for (metric, labels, value) in lines {
                if metric != last {
                    let _ = writeln!(out, "# TYPE {metric} {kind}");
                    last.clone_from(&metric);
                }
                let _ = writeln!(out, "{metric}{labels} {value}");
            }
        }
        let _ = writeln!(
            out,
            "# TYPE sluice_slowpath_ready gauge\nsluice_slowpath_ready {}",
            u8::from(self.ready)
        );
        out
    }
}

/// Metric name and labels of a counter or gauge.
fn metric(name: &str, kind: &str) -> (String, String) {
    let total = if kind == "counter" { "_total" } else { "" };
    let prefix = "sluice_slowpath";
    if let Some(reason) = name.strip_prefix("drop.") {
        return (
            format!("{prefix}_dropped_packets{total}"),
            format!("{{reason=\"{}\"}}", clean(reason)),
        );
    }
    for label in ["vip", "worker"] {
        if let Some((id, rest)) = name
            .strip_prefix(label)
            .and_then(|rest| rest.strip_prefix('.'))
            .and_then(|rest| rest.split_once('.'))
        {
            return (
                format!("{prefix}_{label}_{}{total}", clean(rest)),
                format!("{{{label}=\"{}\"}}", clean(id)),
            );
        }
    }
    (format!("{prefix}_{}{total}", clean(name)), String::new())
}

/// Only what a metric name may hold.
fn clean(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_prometheus() {
        let status = Status {
            counters: [
                ("rx_packets", 7),
                ("drop.no_session", 2),
                ("drop.tx_full", 1),
                ("vip.3.fwd_packets", 4),
                ("vip.12.fwd_packets", 5),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into(),
            gauges: [
                ("worker.0.busy_percent".to_owned(), 12),
                ("sessions".to_owned(), 3),
            ]
            .into(),
            ready: true,
            healthy: true,
            detail: String::new(),
        };
        assert_eq!(
            status.prometheus(),
            "# TYPE sluice_slowpath_dropped_packets_total counter\n\
             sluice_slowpath_dropped_packets_total{reason=\"no_session\"} 2\n\
             sluice_slowpath_dropped_packets_total{reason=\"tx_full\"} 1\n\
             # TYPE sluice_slowpath_rx_packets_total counter\n\
             sluice_slowpath_rx_packets_total 7\n\
             # TYPE sluice_slowpath_vip_fwd_packets_total counter\n\
             sluice_slowpath_vip_fwd_packets_total{vip=\"12\"} 5\n\
             sluice_slowpath_vip_fwd_packets_total{vip=\"3\"} 4\n\
             # TYPE sluice_slowpath_sessions gauge\n\
             sluice_slowpath_sessions 3\n\
             # TYPE sluice_slowpath_worker_busy_percent gauge\n\
             sluice_slowpath_worker_busy_percent{worker=\"0\"} 12\n\
             # TYPE sluice_slowpath_ready gauge\n\
             sluice_slowpath_ready 1\n"
        );
    }
}
