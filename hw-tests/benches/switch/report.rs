//! The result as JSON and as a table.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::traffic;

/// Everything, with the conditions and the ratios between the targets.
pub fn result(memory: Value, tables: Value, targets: Map<String, Value>) -> Value {
    let ours = targets.get("softswitch");
    let theirs = targets.get("bmv2");
    let ratio = |over: Option<f64>, under: Option<f64>| {
        Some(json!((over? / under? * 100.0).round() / 100.0))
    };
    let number = |target: Option<&Value>, path: &str| target?.pointer(path)?.as_f64();
    let mut ratios = Map::new();
    for length in traffic::LENGTHS {
        let pps = format!("/frames/{length}/lossless_pps");
        let most = format!("/frames/{length}/max_received_pps");
        let cpu = format!("/frames/{length}/lossless_cpu_us_per_packet");
        let first = format!("/frames/{length}/first_cpu_us_per_packet");
        let compared = [
            (
                "lossless_pps_times",
                ratio(number(ours, &pps), number(theirs, &pps)),
            ),
            (
                "max_pps_times",
                ratio(number(ours, &most), number(theirs, &most)),
            ),
            (
                "cpu_per_packet_less_times",
                ratio(number(theirs, &cpu), number(ours, &cpu)),
            ),
            (
                "first_cpu_per_packet_less_times",
                ratio(number(theirs, &first), number(ours, &first)),
            ),
        ];
        for (name, value) in compared {
            if let Some(value) = value {
                ratios.insert(format!("{name}_{length}"), value);
            }
        }
    }
    for batch in ["1", "64", "1000", "5000"] {
        let path = format!("/inserts/a_second/{batch}");
        if let Some(value) = ratio(number(ours, &path), number(theirs, &path)) {
            ratios.insert(format!("inserts_times_{batch}"), value);
        }
    }
    json!({
        "what": "gateway.json, flow-hit path, softswitch beside simple_switch_grpc",
        "conditions": conditions(),
        "memory_ns_per_packet": memory,
        "tables_in_memory": tables,
        "targets": targets,
        "ratios_softswitch_to_bmv2": ratios,
    })
}

fn conditions() -> Value {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = file("/proc/cpuinfo");
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map(|(_, model)| model.trim().to_owned());
    let date = Command::new("date").args(["-u", "+%FT%TZ"]).output();
    json!({
        "date": date.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).ok(),
        "kernel": file("/proc/sys/kernel/osrelease").trim(),
        "cores": std::thread::available_parallelism().map(usize::from).ok(),
        "processor": model,
        // Others at work on the machine make every figure worse.
        "load_average_after": file("/proc/loadavg").split_whitespace().next(),
        "links": "veth, both ends in one network namespace, checksum offload off",
        "generator": "sendmmsg bursts of 32, paced, on the same machine",
        "sessions": traffic::SESSIONS,
    })
}

/// Writes a file of this name in `target/bench`.
pub fn write(name: &str, result: &Value) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own
        .ancestors()
        .nth(3)
        .context("this program is not in a target directory")?
        .join("bench");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(result)?)
        .with_context(|| format!("can't write {}", path.display()))?;
    Ok(path)
}

/// The table for people.
pub fn print(result: &Value) {
    let number = |path: &str| result.pointer(path).and_then(Value::as_f64);
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"))
    };
    println!();
    let line = |what: &str, a: String, b: String, c: String| {
        println!("{what:<44} {a:>12} {b:>12} {c:>9}");
    };
    line(
        "over veth",
        "softswitch".into(),
        "bmv2".into(),
        "ratio".into(),
    );
    let row = |what: String, path: String, digits, ratio: String| {
        line(
            &what,
            shown(number(&format!("/targets/softswitch{path}")), digits),
            shown(number(&format!("/targets/bmv2{path}")), digits),
            shown(number(&format!("/ratios_softswitch_to_bmv2/{ratio}")), 1),
        );
    };
    for length in traffic::LENGTHS {
        let frames = format!("/frames/{length}");
        row(
            format!("packets/s without loss, {length} bytes"),
            format!("{frames}/lossless_pps"),
            0,
            format!("lossless_pps_times_{length}"),
        );
        row(
            format!("packets/s at most, {length} bytes"),
            format!("{frames}/max_received_pps"),
            0,
            format!("max_pps_times_{length}"),
        );
        row(
            format!("CPU us a packet without loss, {length} bytes"),
            format!("{frames}/lossless_cpu_us_per_packet"),
            2,
            format!("cpu_per_packet_less_times_{length}"),
        );
        row(
            format!("CPU us a packet at 5,000/s, {length} bytes"),
            format!("{frames}/first_cpu_us_per_packet"),
            2,
            format!("first_cpu_per_packet_less_times_{length}"),
        );
    }
    for batch in ["1", "64", "1000", "5000"] {
        row(
            format!("inserts/s, {batch} a request"),
            format!("/inserts/a_second/{batch}"),
            0,
            format!("inserts_times_{batch}"),
        );
    }
    println!();
    for kind in ["fast_forward", "fast_reply", "steer_to_ld"] {
        for length in traffic::LENGTHS {
            let ns = number(&format!("/memory_ns_per_packet/{kind}/{length}"));
            println!(
                "in memory, softswitch, {kind}, {length} bytes: {} ns a packet",
                shown(ns, 0)
            );
        }
    }
    println!();
}
