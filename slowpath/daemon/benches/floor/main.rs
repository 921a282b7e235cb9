//! The slow path's whole cost of a packet, beside the least that a forwarder
//! can cost: `dpdk-testpmd` swapping the 5-tuple.
//!
//! `cargo bench -p slowpath --bench floor` writes `target/bench/floor.json` and
//! prints a table. Both programs run a port of `net_ring` that loops to itself,
//! bursts of 32, one worker on one core, no huge pages, and as many packets
//! going round. The worker is the daemon's, with its real loop: tunnel headers,
//! engine, clock, counters, commands.
//!
//! What the worker has sent cannot be received again as it is. Between sending
//! and receiving, a generator writes the headers of the next packet of the
//! sequence into the buffer: sessions are visited in a random order, uniformly.
//! Its cost is measured apart, in the same loop without the worker, and
//! subtracted; the JSON has both figures.
//!
//! Time is processor time of the measuring thread, so that whatever else runs
//! on the machine costs only cache. Arguments: `--quick` (shorter), `--sessions
//! N` (only that number), `--cpu N` (processor of the worker).

#![allow(clippy::unwrap_used, clippy::expect_used)] // A measuring program.

mod testpmd;
mod traffic;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use dpdk::{Eal, EalArgs, Mempool, PoolConfig, PortConfig, Tsc};
use serde_json::{Value, json};
use session_engine::{Engine, EngineConfig, HashKeys};
use slowpath::control::Rings;
use slowpath::message::{Command, Event};
use slowpath::report::Report;
use slowpath::worker::{Setup, Turn, Worker};

use traffic::{Direction, LoopIo, Traffic};

/// Packets that go round, as with testpmd's `--tx-first`.
const CIRCULATING: usize = 32;
/// Turns of the loop between two looks at the clock.
const TURNS: usize = 1024;

struct Arguments {
    time: Duration,
    sessions: Vec<u32>,
    cpu: Option<usize>,
}

impl Arguments {
    fn parse() -> anyhow::Result<Self> {
        let mut out = Self {
            time: Duration::from_secs(2),
            sessions: vec![65_536, 1_000_000],
            cpu: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => {
                    out.time = Duration::from_millis(500);
                    out.sessions.truncate(1);
                }
                "--sessions" => out.sessions = vec![args.next().context("--sessions N")?.parse()?],
                "--cpu" => out.cpu = Some(args.next().context("--cpu N")?.parse()?),
                // Cargo's own.
                "--bench" => {}
                other => bail!("there is no option {other}"),
            }
        }
        Ok(out)
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = arguments.cpu.unwrap_or(processors - 1);

    let eal = Eal::init(&EalArgs::without_huge_pages(256).vdev("net_ring0"))?;
    let config = PoolConfig {
        count: 16_383,
        ..PoolConfig::default()
    };
    let pool = Mempool::create(eal, "packets", config)?;
    let mut started = eal
        .port("net_ring0")?
        .start(&PortConfig::default(), &[pool])?;
    let rx = started.rx.pop().context("the port has no receive queue")?;
    let tx = started.tx.pop().context("the port has no transmit queue")?;
    let (time, sizes) = (arguments.time, arguments.sessions.clone());
    let thread = dpdk::thread::spawn(eal, "worker-0", Some(cpu), move |registered| {
        registered?;
        let mut io = LoopIo::new(rx, tx);
        let mut runs = Vec::new();
        for sessions in sizes {
            runs.extend(measure(eal, pool, &mut io, sessions, time)?);
        }
        anyhow::Ok(runs)
    })?;
    let runs = thread
        .join()
        .map_err(|_| anyhow!("the worker panicked"))??;
    // After the threads are gone, so that both have the core to themselves.
    let floor = testpmd::measure(cpu, time)?;
    report(&runs, floor)
}

/// One figure.
struct Run {
    sessions: u32,
    direction: Direction,
    /// ns a packet of the whole loop, and of the generator in it.
    total: f64,
    generator: f64,
}

impl Run {
    fn net(&self) -> f64 {
        self.total - self.generator
    }
}

fn measure(
    eal: Eal,
    pool: Mempool,
    io: &mut LoopIo,
    sessions: u32,
    time: Duration,
) -> anyhow::Result<Vec<Run>> {
    let rings = Rings::new();
    let setup = Setup {
        worker: 0,
        workers: 1,
        vtep: traffic::LD_VTEP.into(),
        rings: rings.clone(),
        notify: Arc::default(),
    };
    let engine = Engine::new(EngineConfig {
        max_records: sessions * 5 / 4 + 200_000,
        ..EngineConfig::new(1, HashKeys::from_seed(1))
    })?;
    let config = slowpath::snapshot::build(&traffic::snapshot(sessions))?;
    rings
        .commands
        .push(Command::Configure(Arc::new(config)))
        .unwrap();
    rings.commands.push(Command::Open).unwrap();
    // The worker borrows the port by turns: its queues are moved in and out.
    let mut worker = Worker::new(setup, io.take(), Tsc::new(eal), engine);
    let mut burst = dpdk::Burst::new();
    // Frames come before commands in a turn: the configuration first.
    worker.turn(&mut burst);
    let traffic = Traffic::establish(sessions, pool, |frames| {
        worker.io().feed(frames);
        while worker.io().is_feeding() {
            assert_ne!(worker.turn(&mut burst), Turn::Stop);
        }
        worker.io().captured()
    })?;

    let mut runs = Vec::new();
    for direction in Direction::ALL {
        worker
            .io()
            .circulate(&traffic, direction, pool, CIRCULATING)?;
        let before = reported(&mut worker, &rings, &mut burst);
        let mut turn = || {
            worker.turn(&mut burst);
        };
        timed(time / 5, &mut turn)?;
        let sent_before = LoopIo::sent();
        let spent = timed(time, &mut turn)?;
        let packets = LoopIo::sent() - sent_before;
        let after = reported(&mut worker, &rings, &mut burst);
        check(&before, &after)?;

        let mut generator = || worker.io().only_generate();
        timed(time / 5, &mut generator)?;
        let generated_before = LoopIo::sent();
        let generator_spent = timed(time, &mut generator)?;
        let generated = LoopIo::sent() - generated_before;
        worker.io().drain();
        runs.push(Run {
            sessions,
            direction,
            total: spent / packets as f64,
            generator: generator_spent / generated as f64,
        });
    }
    io.give_back(worker.into_io());
    Ok(runs)
}

fn reported(
    worker: &mut Worker<LoopIo, Tsc>,
    rings: &Rings,
    burst: &mut dpdk::Burst,
) -> Box<Report> {
    rings
        .commands
        .push(Command::Report(Box::default()))
        .unwrap();
    loop {
        worker.turn(burst);
        while let Some(event) = rings.events.pop() {
            if let Event::Report(report) = event {
                return report;
            }
        }
    }
}

/// Every packet that came in went out: a loop that drops is fast and worthless.
fn check(before: &Report, after: &Report) -> anyhow::Result<()> {
    let received = after.frames.received - before.frames.received;
    let forwarded = after.frames.forwarded - before.frames.forwarded;
    if received != forwarded || received == 0 || after.unaccounted() != 0 {
        bail!("{received} packets came and {forwarded} were forwarded: {after:#?}");
    }
    Ok(())
}

/// Runs `turn` for a time; ns of processor time that it took.
fn timed(time: Duration, turn: &mut impl FnMut()) -> anyhow::Result<f64> {
    let before = testpmd::processor_ns("/proc/thread-self/schedstat")?;
    let mut now = before;
    while now - before < time.as_nanos() as u64 {
        for _ in 0..TURNS {
            turn();
        }
        now = testpmd::processor_ns("/proc/thread-self/schedstat")?;
    }
    Ok((now - before) as f64)
}

fn report(runs: &[Run], floor: Option<f64>) -> anyhow::Result<()> {
    println!(
        "{:>9} {:>8} {:>9} {:>10} {:>9} {:>7}",
        "sessions", "packets", "ns", "generator", "net ns", "x floor"
    );
    let mut list = Vec::new();
    for run in runs {
        let ratio = floor.map(|floor| run.net() / floor);
        println!(
            "{:>9} {:>8} {:>9.1} {:>10.1} {:>9.1} {:>7}",
            run.sessions,
            run.direction.name(),
            run.total,
            run.generator,
            run.net(),
            ratio.map_or("-".to_owned(), |r| format!("{r:.2}")),
        );
        list.push(json!({
            "sessions": run.sessions,
            "packets": run.direction.name(),
            "total_ns": round(run.total),
            "generator_ns": round(run.generator),
            "net_ns": round(run.net()),
            "ratio": ratio.map(round),
        }));
    }
    match floor {
        Some(floor) => println!("dpdk-testpmd, 5-tuple swap: {floor:.1} ns"),
        None => println!("dpdk-testpmd is not installed (Debian package dpdk-dev): no ratio"),
    }
    let document = json!({
        "bench": "floor",
        "port": "net_ring, looping to itself",
        "burst": 32,
        "circulating": CIRCULATING,
        "dpdk": dpdk::version(),
        "testpmd_5tswap_ns": floor.map_or(Value::Null, |f| json!(round(f))),
        "goal": "at most 1.6 times the floor at 65536 sessions",
        "runs": list,
    });
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let path = target.join("bench/floor.json");
    std::fs::create_dir_all(target.join("bench"))?;
    std::fs::write(&path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
