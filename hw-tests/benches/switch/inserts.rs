//! How fast entries are inserted by P4Runtime into a table of a million, and
//! whether packets are lost meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hw_tests::netns::received_frames;
use hw_tests::rig::{ADDRESS, Rig, test_end};
use hw_tests::scene::{self, CLIENT, SERVERS, UPLINK};
use hw_tests::target::{DEVICE, Target};
use hw_tests::wire::Wire;
use p4_contract::tables::flow_fwd_v4;
use p4_contract::{COOKIE, PIPELINE_JSON, p4info};
use p4runtime_client::entry;
use p4runtime_proto::p4::v1::Update;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use serde_json::{Map, Value, json};

use crate::raw::{self, RawClient};
use crate::traffic;

/// Entries that the table is declared for, and how many are written at most.
const SIZE: u32 = 1 << 20;
const ENTRIES: usize = 1_000_000;

/// Entries of requests that are made at a time.
const PORTION: usize = 50_000;

/// A batch size is given up after so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Packets a second that are offered while entries are written: half of what
/// bmv2 forwards when it has nothing else to do.
const RATE: f64 = 5_000.0;
const BURST: usize = 8;

/// The table that is filled.
const TABLE: &str = "flow_fwd_v4";

/// Batch sizes that begin with an empty table, and how far they fill it; then
/// one at a time in the table that is nearly full.
const RUNS: [(usize, usize); 3] = [(5_000, ENTRIES), (64, ENTRIES), (1_000, ENTRIES - 40_000)];

/// Entries of the forward flow table, all different.
fn updates(from: usize, count: usize) -> Vec<Update> {
    (from..from + count)
        .map(|number| {
            let flow = flow_fwd_v4::Entry {
                key: flow_fwd_v4::Key {
                    vip_id: 1,
                    vip_port: 80,
                    client_addr: CLIENT + 1 + (number >> 15) as u32,
                    client_port: (number & 0x7fff) as u16,
                },
                action: flow_fwd_v4::Action::Fwd {
                    server_id: 1,
                    local_id: 1,
                    local_port: (number & 0xffff) as u16,
                },
                idle_timeout_ns: 60_000_000_000,
            };
            entry::insert(flow.to_proto())
        })
        .collect()
}

/// Gives the switch the gateway's pipeline with a table of a million, empty.
fn enlarge(rig: &Rig) -> Result<()> {
    let mut info = p4info()?;
    let is_it = |name: &str| name.ends_with(TABLE);
    for table in &mut info.tables {
        if table.preamble.as_ref().is_some_and(|p| is_it(&p.name)) {
            table.size = i64::from(SIZE);
        }
    }
    let mut program: Value = serde_json::from_slice(PIPELINE_JSON)?;
    let pipelines = program.get_mut("pipelines").and_then(Value::as_array_mut);
    let tables = pipelines
        .context("the pipeline has no pipelines")?
        .iter_mut()
        .filter_map(|p| p.get_mut("tables")?.as_array_mut())
        .flatten();
    for table in tables {
        if table["name"].as_str().is_some_and(is_it) {
            table["max_size"] = json!(SIZE);
        }
    }
    let json = serde_json::to_vec(&program)?;
    let set = rig
        .controller
        .client
        .set_pipeline(Action::VerifyAndCommit, info, json, COOKIE);
    Ok(rig.controller.wait(set)?)
}

/// What was written in which time.
struct Written {
    entries: usize,
    took: Duration,
}

impl Written {
    fn rate(&self) -> f64 {
        (self.entries as f64 / self.took.as_secs_f64()).round()
    }
}

/// Writes entries in batches, one request at a time, from one client. Making
/// the requests is not timed.
fn fill(rig: &Rig, from: usize, until: usize, batch: usize) -> Result<Written> {
    let mut client = RawClient::connect(ADDRESS)?;
    let election = rig.controller.client.election_id();
    let mut written = Written {
        entries: 0,
        took: Duration::ZERO,
    };
    while from + written.entries < until && written.took < PATIENCE {
        let start = from + written.entries;
        let count = PORTION.min(until - start);
        let requests: Vec<Vec<u8>> = (start..start + count)
            .step_by(batch)
            .map(|at| {
                let updates = updates(at, batch.min(start + count - at));
                raw::request(DEVICE, election, updates)
            })
            .collect();
        let begin = Instant::now();
        client.write_all(requests)?;
        written.took += begin.elapsed();
        written.entries += count;
    }
    Ok(written)
}

/// Inserts a second by batch size, memory an entry, and packets lost.
pub fn measure(target: Target) -> Result<Value> {
    let mut rates = Map::new();
    let mut entries = Map::new();
    let mut bytes = None;
    {
        let rig = Rig::start(target, "bench-inserts", &[UPLINK], 1500)?;
        for (batch, until) in RUNS {
            enlarge(&rig)?;
            let before = resident(rig.process.id())?;
            let written = fill(&rig, 0, until, batch)?;
            if bytes.is_none() {
                let more = resident(rig.process.id())?.saturating_sub(before);
                bytes = Some(more / written.entries as u64);
            }
            rates.insert(batch.to_string(), json!(written.rate()));
            entries.insert(batch.to_string(), json!(written.entries));
            println!("{target}: {} inserts/s, {batch} a request", written.rate());
        }
        let (last, until) = RUNS[RUNS.len() - 1];
        let full = entries
            .get(&last.to_string())
            .and_then(Value::as_u64)
            .unwrap_or(until as u64) as usize;
        let written = fill(&rig, full, ENTRIES.min(full + 40_000), 1)?;
        rates.insert("1".into(), json!(written.rate()));
        entries.insert("1".into(), json!(written.entries));
        println!("{target}: {} inserts/s, 1 a request", written.rate());
    }
    let losses = match losses(target) {
        // It may end by an assertion of its sweep for idle entries.
        Err(error) if target == Target::Bmv2 => {
            println!("SKIPPED {target}, packets lost while entries are written: {error:#}");
            Value::Null
        }
        losses => losses?,
    };
    Ok(json!({
        "a_second": rates,
        "entries_written": entries,
        "resident_bytes_per_entry": bytes,
        "packets_meanwhile": losses,
    }))
}

/// Resident memory of a process in bytes.
fn resident(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = text.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    Ok(4096 * pages.unwrap_or(0_u64))
}

/// Packets that get lost while a million entries are written, 64 at a time.
fn losses(target: Target) -> Result<Value> {
    let mut rig = Rig::start(target, "bench-loss", &[UPLINK, SERVERS], scene::MTU)?;
    enlarge(&rig)?;
    rig.controller.insert(&scene::configuration())?;
    let entries: Vec<_> = (0..traffic::SESSIONS)
        .flat_map(|at| traffic::session(at).entries(0))
        .collect();
    rig.controller.insert(&entries)?;
    rig.wires.remove(&SERVERS);
    let wire = rig.wires.remove(&UPLINK).context("there is no uplink")?;
    let frames = traffic::frames(traffic::forward, 64)?;
    let before = received_frames(&test_end(SERVERS))?;
    let stop = AtomicBool::new(false);
    let (sent, written) = std::thread::scope(|scope| {
        let generator = scope.spawn(|| offer(&wire, &frames, &stop));
        let written = fill(&rig, 0, ENTRIES, 64);
        stop.store(true, Ordering::Relaxed);
        rig.process.check()?;
        match generator.join() {
            Ok(sent) => Ok((sent?, written?)),
            Err(_) => bail!("the generator panicked"),
        }
    })?;
    std::thread::sleep(Duration::from_millis(300));
    let received = received_frames(&test_end(SERVERS))? - before;
    let lost = sent.saturating_sub(received);
    println!(
        "{target}: {lost} of {sent} packets lost while {} entries were written ({} a second)",
        written.entries,
        written.rate()
    );
    Ok(json!({
        "entries_written": written.entries,
        "inserts_per_second": written.rate(),
        "packets_per_second": RATE,
        "sent": sent,
        "lost": lost,
    }))
}

/// Sends at the rate until told to stop; how many were sent.
fn offer(wire: &Wire, frames: &[Vec<u8>], stop: &AtomicBool) -> Result<u64> {
    let mut next = frames.iter().map(Vec::as_slice).cycle();
    let mut sent = 0;
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * RATE) as u64;
        if due < sent + BURST as u64 {
            std::thread::sleep(Duration::from_micros(500));
            continue;
        }
        let burst: Vec<&[u8]> = next.by_ref().take(BURST).collect();
        sent += wire.send_burst(&burst)? as u64;
    }
    Ok(sent)
}
