//! The result as JSON and as a table.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::traffic;

/// What a length's results by AF_XDP have at the end of their name.
pub const AF_XDP: &str = "_af_xdp";
/// And those over files.
pub const FILES: &str = "_files";

/// Kinds of ports: the end of the name of softswitch's results, of bmv2's
/// results they stand beside, and what the table calls them.
const KINDS: [(&str, &str, &str); 3] = [
    ("", "", ""),
    (AF_XDP, "", ", AF_XDP"),
    (FILES, FILES, ", files"),
];

/// One number of the packets over one kind of ports.
struct Measure {
    key: &'static str,
    shown: &'static str,
    digits: usize,
    better: Better,
}

enum Better {
    More,
    Less,
}

const LINKS: [Measure; 7] = [
    Measure {
        key: "lossless_pps",
        shown: "packets/s without loss",
        digits: 0,
        better: Better::More,
    },
    Measure {
        key: "max_received_pps",
        shown: "packets/s at most",
        digits: 0,
        better: Better::More,
    },
    Measure {
        key: "max_received_cpu_us_per_packet",
        shown: "CPU us a packet there",
        digits: 2,
        better: Better::Less,
    },
    Measure {
        key: "lossless_cpu_us_per_packet",
        shown: "CPU us a packet without loss",
        digits: 2,
        better: Better::Less,
    },
    Measure {
        key: "overload_pps",
        shown: "packets/s when overloaded",
        digits: 0,
        better: Better::More,
    },
    Measure {
        key: "overload_cpu_us_per_packet",
        shown: "CPU us a packet when overloaded",
        digits: 2,
        better: Better::Less,
    },
    Measure {
        key: "first_cpu_us_per_packet",
        shown: "CPU us a packet at 5,000/s",
        digits: 2,
        better: Better::Less,
    },
];

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
        for (ours_by, theirs_by, _) in KINDS {
            for measure in &LINKS {
                let mine = number(ours, &format!("/frames/{length}{ours_by}/{}", measure.key));
                let other = number(
                    theirs,
                    &format!("/frames/{length}{theirs_by}/{}", measure.key),
                );
                let times = match measure.better {
                    Better::More => ratio(mine, other),
                    Better::Less => ratio(other, mine),
                };
                if let Some(times) = times {
                    let name = format!("{}_times_better_{length}{ours_by}", measure.key);
                    ratios.insert(name, times);
                }
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
        "files": "pcap, read from a pipe and written to a file in memory",
        "generator": "bursts of 32, paced but for overload, on the same machine; sendmmsg to links",
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
        "over veth (and files)",
        "softswitch".into(),
        "bmv2".into(),
        "ratio".into(),
    );
    let row = |what: String, ours: String, theirs: String, digits, ratio: String| {
        line(
            &what,
            shown(number(&format!("/targets/softswitch{ours}")), digits),
            shown(number(&format!("/targets/bmv2{theirs}")), digits),
            shown(number(&format!("/ratios_softswitch_to_bmv2/{ratio}")), 1),
        );
    };
    for length in traffic::LENGTHS {
        for (ours_by, theirs_by, by) in KINDS {
            for Measure {
                key, shown, digits, ..
            } in LINKS
            {
                row(
                    format!("{shown}, {length} bytes{by}"),
                    format!("/frames/{length}{ours_by}/{key}"),
                    format!("/frames/{length}{theirs_by}/{key}"),
                    digits,
                    format!("{key}_times_better_{length}{ours_by}"),
                );
            }
        }
    }
    for batch in ["1", "64", "1000", "5000"] {
        let path = format!("/inserts/a_second/{batch}");
        row(
            format!("inserts/s, {batch} a request"),
            path.clone(),
            path,
            0,
            format!("inserts_times_{batch}"),
        );
    }
    println!();
    for kind in [
        "fast_forward",
        "fast_forward_many",
        "fast_reply",
        "steer_to_ld",
    ] {
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
