//! How long packets wait while a million entries are inserted, what an insert
//! costs in memory, and how packets scale with workers. All within this
//! process: no ports, no gRPC.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use softswitch::{Switch, Timestamp};

use crate::ask::{self, Ask, Random, Rule, Writer};

const BURST: usize = 64;
/// Entries that are written.
const ENTRIES: u32 = 1_000_000;
/// Operations in one call.
const BATCHES: [usize; 4] = [1, 64, 1_000, 5_000];
/// The same for batches that packets see whole or not at all.
const ATOMIC: [usize; 3] = [64, 1_000, 4_096];
/// Entries that the packets hit; written before anything is timed.
const TARGETS: u32 = 4_096;
const STEP: Duration = Duration::from_secs(2);

/// Entry `number`: all different, in no order that a hash could like.
fn entry(number: u32) -> (Rule, Ask) {
    let a = number.wrapping_mul(2_654_435_761);
    let b = (number >> 7) as u16;
    let rule = Rule {
        fields: vec![ask::exact32(a), ask::exact16(b)],
        priority: 0,
        id: number + 1,
    };
    (rule, Ask { a, b, c: 0 })
}

/// Burst times in nanoseconds: waiting for the tables, and altogether.
struct Times {
    wait: Histogram<u64>,
    whole: Histogram<u64>,
    packets: u64,
    missed: u64,
    took: Duration,
}

fn run(switch: &Arc<Switch>, packets: &[Vec<u8>], stop: &AtomicBool) -> Result<Times> {
    let mut worker = switch.worker();
    let mut times = Times {
        wait: Histogram::new(3)?,
        whole: Histogram::new(3)?,
        packets: 0,
        missed: 0,
        took: Duration::ZERO,
    };
    let begin = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        for chunk in packets.chunks_exact(BURST) {
            let start = Instant::now();
            drop(worker.burst(Timestamp::default()));
            let waited = start.elapsed();
            let answered = ask::burst(&mut worker, chunk);
            let whole = start.elapsed();
            times.wait.record(waited.as_nanos() as u64)?;
            times.whole.record(whole.as_nanos() as u64)?;
            times.packets += BURST as u64;
            times.missed += BURST as u64 - answered;
        }
    }
    times.took = begin.elapsed();
    Ok(times)
}

impl Times {
    fn json(&self) -> Value {
        let us = |ns: u64| (ns as f64 / 100.0).round() / 10.0;
        let line = |h: &Histogram<u64>| {
            json!({
                "p50": us(h.value_at_quantile(0.5)),
                "p99": us(h.value_at_quantile(0.99)),
                "p99.9": us(h.value_at_quantile(0.999)),
                "p99.99": us(h.value_at_quantile(0.9999)),
                "max": us(h.max()),
            })
        };
        json!({
            "packets_per_second": (self.packets as f64 / self.took.as_secs_f64()).round(),
            "packets_without_answer": self.missed,
            "wait_us": line(&self.wait),
            "burst_us": line(&self.whole),
        })
    }
}

fn prepared() -> Result<(Arc<Switch>, Vec<Vec<u8>>)> {
    let switch = ask::switch()?;
    let writer = Writer::new(&switch, ask::EXACT)?;
    let mut packets = Vec::new();
    for number in 0..TARGETS {
        let (rule, q) = entry(number);
        ask::apply(&switch, &[writer.insert(&rule)])?;
        packets.push(q.packet(ask::EXACT.number));
    }
    Random(3).shuffle(&mut packets);
    Ok((switch, packets))
}

/// Inserts all entries in batches; the time that the switch took for them.
fn fill(switch: &Switch, batch: usize, atomic: bool) -> Result<Duration> {
    let writer = Writer::new(switch, ask::EXACT)?;
    let mut timed = Duration::ZERO;
    let mut number = TARGETS;
    while number < ENTRIES {
        // Made in portions, so that they take little memory beside the tables.
        let end = (number + 5_000 / batch.min(5_000) as u32 * batch as u32).min(ENTRIES);
        let ops: Vec<_> = (number..end).map(|n| writer.insert(&entry(n).0)).collect();
        let start = Instant::now();
        for batch in ops.chunks(batch) {
            if atomic {
                switch.apply_atomic(Timestamp::default(), batch)?;
            } else {
                ask::apply(switch, batch)?;
            }
        }
        timed += start.elapsed();
        number = end;
    }
    Ok(timed)
}

/// Resident memory of this process in bytes.
fn resident() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = text
        .split_whitespace()
        .nth(1)
        .context("/proc/self/statm is short")?
        .parse()?;
    Ok(pages * 4096.0)
}

/// Burst times alone, beside the same work on another switch, and while this
/// switch's table grows to a million entries.
pub fn measure() -> Result<Value> {
    let mut all = Map::new();
    let (switch, packets) = prepared()?;
    let alone = timed(&switch, &packets, || {
        std::thread::sleep(STEP);
        Ok(Duration::ZERO)
    })?;
    report(&mut all, "alone", &alone.0, None);
    let (other, _) = prepared()?;
    let beside = timed(&switch, &packets, || fill(&other, 64, false))?;
    report(&mut all, "beside_inserts_elsewhere", &beside.0, None);
    drop(other);
    let batches = BATCHES.map(|b| (b, false)).into_iter();
    for (batch, atomic) in batches.chain(ATOMIC.map(|b| (b, true))) {
        let (switch, packets) = prepared()?;
        let before = resident()?;
        let (times, took) = timed(&switch, &packets, || fill(&switch, batch, atomic))?;
        let bytes = (resident()? - before) / f64::from(ENTRIES - TARGETS);
        ensure!(times.missed == 0, "packets missed entries that are there");
        let rate = f64::from(ENTRIES - TARGETS) / took.as_secs_f64();
        let how = if atomic { "atomically_" } else { "" };
        let name = format!("while_inserting_{how}{batch}");
        report(&mut all, &name, &times, Some((rate, bytes)));
    }
    all.insert("workers".into(), workers(&switch, &packets)?);
    Ok(Value::Object(all))
}

fn report(all: &mut Map<String, Value>, name: &str, times: &Times, more: Option<(f64, f64)>) {
    let mut value = times.json();
    if let (Some((rate, bytes)), Some(map)) = (more, value.as_object_mut()) {
        map.insert("inserts_per_second".into(), json!(rate.round()));
        map.insert("bytes_per_entry".into(), json!(bytes.round()));
    }
    println!("{name}: {value}");
    all.insert(name.into(), value);
}

/// Runs packets while something else is done.
fn timed(
    switch: &Arc<Switch>,
    packets: &[Vec<u8>],
    work: impl FnOnce() -> Result<Duration>,
) -> Result<(Times, Duration)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| run(switch, packets, &stop));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let times = match runner.join() {
            Ok(times) => times?,
            Err(_) => anyhow::bail!("the worker panicked"),
        };
        Ok((times, done?))
    })
}

/// Packets a second by number of workers, all hitting the same entries.
fn workers(switch: &Arc<Switch>, packets: &[Vec<u8>]) -> Result<Value> {
    let mut rates = Map::new();
    for workers in [1, 2] {
        let stop = AtomicBool::new(false);
        let sum = std::thread::scope(|scope| -> Result<f64> {
            let runners: Vec<_> = (0..workers)
                .map(|_| scope.spawn(|| run(switch, packets, &stop)))
                .collect();
            std::thread::sleep(STEP);
            stop.store(true, Ordering::Relaxed);
            let mut sum = 0.0;
            for runner in runners {
                let Ok(times) = runner.join() else {
                    anyhow::bail!("a worker panicked")
                };
                let times = times?;
                sum += times.packets as f64 / times.took.as_secs_f64();
            }
            Ok(sum)
        })?;
        println!("{workers} workers: {sum:.0} packets/s");
        rates.insert(workers.to_string(), json!(sum.round()));
    }
    Ok(Value::Object(rates))
}
