//! The slow path's whole cost of a packet, beside the least that a forwarder
//! can cost: `dpdk-testpmd` swapping the 5-tuple.
//!
//! `cargo bench -p slowpath --bench floor` writes `target/bench/floor.json` and
//! prints a table. Both programs run the same kind of port, bursts of 32, one
//! worker on one core, no huge pages, and the same number of packets going
//! round. The worker is the daemon's, with its real loop: tunnel headers,
//! engine, clock, counters, commands. Two kinds of port:
//!
//! - `net_ring`, looping to itself: 32 packets go round for ever. The cheapest
//!   port there is, and all buffers stay in the first cache.
//! - `net_null`: buffers are taken from the pool and given back. testpmd's
//!   packets are zeros there, so that its swap is one of MAC addresses only.
//!
//! What the worker has sent cannot be received again as it is. On the way in a
//! generator writes the headers of the next packet of the sequence into the
//! buffer: sessions are visited in a random order, uniformly. Its cost is
//! measured apart, as the difference of two loops without the worker, and
//! subtracted; the JSON has all figures.
//!
//! Time is processor time of the measuring thread, so that whatever else runs
//! on the machine costs only cache. Arguments: `--quick` (shorter), `--sessions
//! N` (only that number), `--cpu N` (processor of the worker).

#![allow(clippy::unwrap_used, clippy::expect_used)] // A measuring program.

mod testpmd;
mod traffic;

use std::cell::Cell;
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

use traffic::{Direction, Kind, LoopIo, Traffic};

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

    let devices = Kind::ALL.map(Kind::device);
    let args = devices
        .iter()
        .fold(EalArgs::without_huge_pages(256), EalArgs::vdev);
    let eal = Eal::init(&args)?;
    let mut runs = Vec::new();
    let mut floors = Vec::new();
    for kind in Kind::ALL {
        let config = PoolConfig {
            count: 8191,
            ..PoolConfig::default()
        };
        let pool = Mempool::create(eal, kind.driver(), config)?;
        let mut started = eal
            .port(&format!("{}0", kind.driver()))?
            .start(&PortConfig::default(), &[pool])?;
        let rx = started.rx.pop().context("the port has no receive queue")?;
        let tx = started.tx.pop().context("the port has no transmit queue")?;
        let (time, sizes) = (arguments.time, arguments.sessions.clone());
        let thread = dpdk::thread::spawn(eal, "worker-0", Some(cpu), move |registered| {
            registered?;
            let mut io = LoopIo::new(rx, tx);
            let mut runs = Vec::new();
            for sessions in sizes {
                runs.extend(measure(eal, pool, &mut io, kind, sessions, time)?);
            }
            anyhow::Ok(runs)
        })?;
        runs.extend(
            thread
                .join()
                .map_err(|_| anyhow!("the worker panicked"))??,
        );
        // After the thread is gone, so that both have the core to themselves.
        floors.push(testpmd::measure(kind, cpu, arguments.time)?);
    }
    report(&runs, &floors)
}

/// One figure.
struct Run {
    kind: Kind,
    sessions: u32,
    direction: Direction,
    /// ns a packet of the whole loop, of the generator in it, and of a loop that
    /// only receives and sends.
    total: f64,
    generator: f64,
    port: f64,
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
    kind: Kind,
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

    let sent = worker.io().sent();
    let mut runs = Vec::new();
    for direction in Direction::ALL {
        worker.io().circulate(&traffic, direction, kind, pool)?;
        let before = reported(&mut worker, &rings, &mut burst);
        let total = timed(time, &sent, || {
            worker.turn(&mut burst);
        })?;
        check(&before, &reported(&mut worker, &rings, &mut burst))?;
        let generated = timed(time, &sent, || worker.io().without_worker(true))?;
        let port = timed(time, &sent, || worker.io().without_worker(false))?;
        if kind == Kind::Ring {
            worker.io().drain();
        }
        runs.push(Run {
            kind,
            sessions,
            direction,
            total,
            generator: generated - port,
            port,
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

/// Runs `turn` for a time, after a fifth of it to warm up; ns of processor time
/// a packet sent.
fn timed(time: Duration, sent: &Cell<u64>, mut turn: impl FnMut()) -> anyhow::Result<f64> {
    const SELF: &str = "/proc/thread-self/schedstat";
    let mut run = |time: Duration| -> anyhow::Result<f64> {
        let sent_before = sent.get();
        let before = testpmd::processor_ns(SELF)?;
        let mut now = before;
        while now - before < time.as_nanos() as u64 {
            for _ in 0..TURNS {
                turn();
            }
            now = testpmd::processor_ns(SELF)?;
        }
        Ok((now - before) as f64 / (sent.get() - sent_before).max(1) as f64)
    };
    run(time / 5)?;
    run(time)
}

fn report(runs: &[Run], floors: &[Option<f64>]) -> anyhow::Result<()> {
    println!(
        "{:>9} {:>9} {:>9} {:>8} {:>10} {:>8} {:>8} {:>8}",
        "port", "sessions", "packets", "ns", "generator", "port ns", "net ns", "x floor"
    );
    let floor_of = |kind: Kind| {
        let at = Kind::ALL.iter().position(|k| *k == kind);
        at.and_then(|at| *floors.get(at)?)
    };
    let mut list = Vec::new();
    for run in runs {
        let ratio = floor_of(run.kind).map(|floor| run.net() / floor);
        println!(
            "{:>9} {:>9} {:>9} {:>8.1} {:>10.1} {:>8.1} {:>8.1} {:>8}",
            run.kind.driver(),
            run.sessions,
            run.direction.name(),
            run.total,
            run.generator,
            run.port,
            run.net(),
            ratio.map_or("-".to_owned(), |r| format!("{r:.2}")),
        );
        list.push(json!({
            "port": run.kind.driver(),
            "sessions": run.sessions,
            "packets": run.direction.name(),
            "total_ns": round(run.total),
            "generator_ns": round(run.generator),
            "port_ns": round(run.port),
            "net_ns": round(run.net()),
            "ratio": ratio.map(round),
        }));
    }
    let mut floor_list = serde_json::Map::new();
    for kind in Kind::ALL {
        let floor = floor_of(kind);
        match floor {
            Some(ns) => println!("dpdk-testpmd, 5-tuple swap, {}: {ns:.1} ns", kind.driver()),
            None => println!("dpdk-testpmd is not installed (Debian package dpdk-dev): no ratio"),
        }
        floor_list.insert(
            kind.driver().to_owned(),
            floor.map_or(Value::Null, |ns| json!(round(ns))),
        );
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let document = json!({
        "bench": "floor",
        "burst": slowpath::io::BURST,
        "dpdk": dpdk::version(),
        "load_average_after": load.trim(),
        "testpmd_5tswap_ns": floor_list,
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
