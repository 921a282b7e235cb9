//! The least a forwarder on this crate can cost, beside `dpdk-testpmd`.
//!
//! Two loops over bursts of 32, on one worker thread, without huge pages:
//!
//! - `io`: packets of `net_null` are received and sent as they are;
//! - `swap`: packets go round in `net_ring0` for ever, with MAC addresses, IPv4
//!   addresses and UDP ports swapped each time (testpmd calls it `5tswap`).
//!
//! `--testpmd` then runs `dpdk-testpmd` (Debian package dpdk-dev) in the same
//! mode and prints the ratio. Both use one core for forwarding. What is measured
//! is processor time, so that other work on the machine disturbs less.
//!
//! ```text
//! cargo run --release -p dpdk --example floor -- --mode swap --testpmd
//! ```

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use dpdk::{Burst, Eal, EalArgs, Mempool, PoolConfig, PortConfig, RxQueue, Tsc, TxQueue, thread};

#[derive(Parser)]
#[command(about = "Measures the floor: forwarding with no work, or with a 5-tuple swap")]
struct Arguments {
    /// What the loop does.
    #[arg(long, value_enum, default_value_t = Mode::Io)]
    mode: Mode,
    /// How long to measure, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Bursts of 32 packets that go round (swap only).
    #[arg(long, default_value_t = 1)]
    bursts: u16,
    /// Processor for the loop.
    #[arg(long)]
    cpu: Option<usize>,
    /// Also run dpdk-testpmd and print the ratio.
    #[arg(long)]
    testpmd: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Io,
    Swap,
}

impl Mode {
    fn device(self) -> &'static str {
        match self {
            Self::Io => "net_null0",
            Self::Swap => "net_ring0",
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let ours = measure(&arguments)?;
    println!("this crate:   {}", rate(ours));
    if arguments.testpmd {
        let theirs = testpmd(&arguments)?;
        println!("dpdk-testpmd: {}", rate(theirs));
        println!("ratio: {:.2} (this crate / dpdk-testpmd)", ours / theirs);
    }
    Ok(())
}

fn rate(nanoseconds: f64) -> String {
    format!("{nanoseconds:7.2} ns/packet {:8.2} Mpps", 1e3 / nanoseconds)
}

/// Processor time of a thread in nanoseconds, from its directory in /proc.
fn processor_time(directory: &Path) -> Result<u64> {
    let path = directory.join("schedstat");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let first = text.split_whitespace().next().unwrap_or_default();
    first
        .parse()
        .with_context(|| format!("{} has no time", path.display()))
}

/// Processor time a packet of the loop over this crate, in nanoseconds.
fn measure(arguments: &Arguments) -> Result<f64> {
    let mode = arguments.mode;
    let eal = Eal::init(&EalArgs::without_huge_pages(256).vdev(mode.device()))?;
    let pool = Mempool::create(
        eal,
        "packets",
        PoolConfig {
            count: 16_383,
            ..PoolConfig::default()
        },
    )?;
    let mut started = eal
        .port(mode.device())?
        .start(&PortConfig::default(), &[pool])?;
    let mut rx = started.rx.pop().context("the port has no receive queue")?;
    let mut tx = started.tx.pop().context("the port has no transmit queue")?;
    if matches!(mode, Mode::Swap) {
        fill(&pool, &mut tx, arguments.bursts)?;
    }
    let time = Duration::from_secs(arguments.seconds.into());
    let worker = thread::spawn(eal, "floor", arguments.cpu, move |registered| {
        registered?;
        let tsc = Tsc::new(eal);
        let mut run = |time| match mode {
            Mode::Io => forward(&mut rx, &mut tx, tsc, time, None),
            Mode::Swap => forward(&mut rx, &mut tx, tsc, time, Some(swap)),
        };
        run(time / 10);
        let thread = Path::new("/proc/thread-self");
        let start = processor_time(thread)?;
        let packets = run(time);
        let spent = processor_time(thread)? - start;
        Ok(spent as f64 / packets as f64)
    })?;
    match worker.join() {
        Ok(result) => result,
        Err(_) => bail!("the worker thread panicked"),
    }
}

/// Receives and sends for a time; returns the number of packets.
fn forward(
    rx: &mut RxQueue,
    tx: &mut TxQueue,
    tsc: Tsc,
    time: Duration,
    work: Option<fn(&mut [u8])>,
) -> u64 {
    let mut packets: u64 = 0;
    let mut burst: Burst = Burst::new();
    let start = tsc.now();
    let limit = tsc.ticks(time);
    let mut elapsed = 0;
    while elapsed < limit {
        // Looking at the clock costs more than a packet.
        for _ in 0..1024 {
            rx.rx_burst(&mut burst);
            if let Some(work) = work {
                each(&mut burst, work);
            }
            packets += tx.tx_burst(&mut burst) as u64;
            // Neither port refuses packets; if one did, they would be lost here.
            burst.clear();
        }
        elapsed = tsc.now() - start;
    }
    packets
}

/// Works on each packet while the processor fetches the next.
#[inline]
fn each(burst: &mut Burst, work: impl Fn(&mut [u8])) {
    if let Some(first) = burst.first() {
        first.prefetch_data();
    }
    for index in 0..burst.len() {
        if let Some(next) = burst.get(index + 1) {
            next.prefetch_data();
        }
        if let Some(mbuf) = burst.get_mut(index) {
            work(mbuf.data_mut());
        }
    }
}

/// Swaps MAC addresses and, of IPv4, addresses and ports.
fn swap(frame: &mut [u8]) {
    exchange(frame, 0, 6, 6);
    let is_ipv4 = frame.get(12..14) == Some(&[8, 0]);
    let Some(header) = frame.get(14).map(|first| usize::from(first & 15) * 4) else {
        return;
    };
    if !is_ipv4 {
        return;
    }
    let protocol = frame.get(23).copied();
    exchange(frame, 26, 4, 4);
    if matches!(protocol, Some(6 | 17)) {
        exchange(frame, 14 + header, 2, 2);
    }
}

/// Exchanges `length` bytes at `at` with those `distance` behind.
fn exchange(frame: &mut [u8], at: usize, length: usize, distance: usize) {
    if let Some(both) = frame.get_mut(at..at + distance + length) {
        let (first, second) = both.split_at_mut(distance);
        first.swap_with_slice(second);
    }
}

/// Puts UDP packets of 64 bytes into the ring, as testpmd's --tx-first does.
fn fill(pool: &Mempool, tx: &mut TxQueue, bursts: u16) -> Result<()> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([
        0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2,
    ]);
    frame.extend([0, 9, 0, 9, 0, 30, 0, 0]);
    frame.resize(64, 0);
    for _ in 0..bursts {
        let mut burst: Burst = Burst::new();
        while !burst.is_full() {
            if burst.push(pool.alloc_with(&frame)?).is_err() {
                break;
            }
        }
        tx.tx_burst(&mut burst);
        if !burst.is_empty() {
            bail!("the ring of the port is full: give fewer --bursts");
        }
    }
    Ok(())
}

/// Processor time a packet of testpmd in the same mode, in nanoseconds.
fn testpmd(arguments: &Arguments) -> Result<f64> {
    let forward = match arguments.mode {
        Mode::Io => "--forward-mode=io",
        Mode::Swap => "--forward-mode=5tswap",
    };
    let mut command = Command::new("dpdk-testpmd");
    command
        .args(["--no-huge", "--no-shconf", "-m", "256", "--no-pci"])
        .args(["--no-telemetry", "-l", "0,1"])
        .arg(format!("--vdev={}", arguments.mode.device()))
        .args(["--", "--port-topology=loop", "--nb-cores=1"])
        .args(["--total-num-mbufs=16384", "--stats-period=1", forward]);
    if matches!(arguments.mode, Mode::Swap) {
        if arguments.bursts != 1 {
            bail!("testpmd puts one burst into the ring; compare with --bursts 1");
        }
        command.arg("--tx-first");
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run dpdk-testpmd; install the Debian package dpdk-dev")?;
    let output = child.stdout.take().context("dpdk-testpmd has no output")?;
    let tasks = PathBuf::from(format!("/proc/{}/task", child.id()));
    let mut samples = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what dpdk-testpmd writes")?;
        let Some(rest) = line.trim().strip_prefix("RX-packets:") else {
            continue;
        };
        let number = rest.split_whitespace().next().unwrap_or_default();
        let packets: u64 = number
            .parse()
            .context("dpdk-testpmd prints no number of packets")?;
        let mut time = 0;
        for task in std::fs::read_dir(&tasks).context("dpdk-testpmd is gone")? {
            time += processor_time(&task?.path())?;
        }
        samples.push((packets, time));
        // The first is from the start of the program.
        if samples.len() > arguments.seconds as usize + 1 {
            break;
        }
    }
    child.kill().context("cannot stop dpdk-testpmd")?;
    child.wait().context("cannot wait for dpdk-testpmd")?;
    match (samples.get(1), samples.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => {
            Ok((last.1 - first.1) as f64 / (last.0 - first.0) as f64)
        }
        _ => bail!("dpdk-testpmd forwarded nothing; run it by hand to see why"),
    }
}
