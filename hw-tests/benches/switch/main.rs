//! Packets a second, CPU time a packet, and inserts a second of the switches.
//!
//! `cargo bench -p hw-tests --bench switch` prints a table and writes
//! `target/bench/switch.json`; an argument names the only target to measure,
//! or a part: `links`, `files` or `inserts` of all targets, `memory` for
//! softswitch's pipeline and `tables` or `lookups` for its tables in memory.
//! `links`, `files` and `inserts` take one target after them.
//! Every switch gets the same pipeline, the same flows and the same paced
//! generator, one after the other in one run, over veth pairs in a network
//! namespace and over files. What is measured is the flow-hit path of `gateway.json`: a
//! client's packets of offloaded sessions, rewritten and forwarded.
//!
//! Before anything is timed, frames are compared byte for byte with what must
//! leave: a switch that forwards fast and wrong is not measured.

mod ask;
mod climb;
mod files;
mod inserts;
mod links;
mod lookups;
mod many;
mod memory;
mod pause;
mod raw;
mod report;
mod traffic;

use anyhow::{Context, Result};
use hw_tests::netns;
use hw_tests::target::Target;
use serde_json::{Map, Value, json};

use report::{AF_XDP, FILES};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let only = arguments.next();
    match only.as_deref() {
        Some("tables") => return tables().map(|_| ()),
        Some("links") => return each(arguments.next(), |t| links(t).map(Value::Object)),
        Some("files") => return each(arguments.next(), |t| in_files(t).map(Value::Object)),
        Some("inserts") => return each(arguments.next(), inserts::measure),
        Some("memory") => {
            println!("{}", memory::measure()?);
            return Ok(());
        }
        Some("lookups") => return lookups::measure().map(|_| ()),
        _ => {}
    }
    let mut targets = Map::new();
    let tables = tables().context("tables")?;
    let memory = memory::measure().context("in memory")?;
    for target in Target::ALL {
        let name = target.to_string();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let measured = match missing(target) {
            Some(reason) => {
                println!("SKIPPED {name}: {reason}");
                json!({ "skipped": reason })
            }
            None => measure(target).with_context(|| name.clone())?,
        };
        targets.insert(name, measured);
    }
    let result = report::result(memory, tables, targets);
    report::print(&result);
    let path = report::write("switch", &result)?;
    println!("written to {}", path.display());
    Ok(())
}

/// Measures a part of one target, or of all.
fn each(only: Option<String>, part: fn(Target) -> Result<Value>) -> Result<()> {
    let wanted = |target: &Target| only.as_ref().is_none_or(|only| *only == target.to_string());
    for target in Target::ALL.into_iter().filter(wanted) {
        match missing(target) {
            Some(reason) => println!("SKIPPED {target}: {reason}"),
            None => println!("{target}: {}", part(target)?),
        }
    }
    Ok(())
}

/// Look-ups and inserts within this process.
fn tables() -> Result<Value> {
    let tables = json!({
        "lookups_10000_entries": lookups::measure().context("look-ups")?,
        "a_million_inserts": pause::measure().context("pauses")?,
    });
    report::write("switch-tables", &tables)?;
    Ok(tables)
}

fn missing(target: Target) -> Option<String> {
    if target == Target::Softswitch
        && let Err(error) = links::build_softswitch()
    {
        return Some(format!("{error:#}"));
    }
    netns::missing().or_else(|| target.program().err().map(|error| error.to_string()))
}

fn measure(target: Target) -> Result<Value> {
    println!("measuring {target} ({})", target.program()?.display());
    let mut frames = links(target)?;
    frames.extend(in_files(target)?);
    Ok(json!({
        "program": target.program()?,
        "frames": frames,
        "inserts": inserts::measure(target)?,
    }))
}

/// Packets through ports, by the length of their frames; by AF_XDP too where
/// the switch and the machine can.
fn links(target: Target) -> Result<Map<String, Value>> {
    let mut lengths = Map::new();
    for length in traffic::LENGTHS {
        lengths.insert(length.to_string(), links::measure(target, "", length)?);
    }
    if target == Target::Softswitch {
        for length in traffic::LENGTHS {
            let measured = links::measure(target, "xdp:", length).unwrap_or_else(|error| {
                println!("SKIPPED {target} by AF_XDP: {error:#}");
                Value::Null
            });
            lengths.insert(format!("{length}{AF_XDP}"), measured);
        }
    }
    Ok(lengths)
}

/// Packets through files, by the length of their frames.
fn in_files(target: Target) -> Result<Map<String, Value>> {
    traffic::LENGTHS
        .into_iter()
        .map(|length| Ok((format!("{length}{FILES}"), files::measure(target, length)?)))
        .collect()
}
