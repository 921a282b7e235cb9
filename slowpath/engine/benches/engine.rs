//! Cost of a packet and of a connection in the engine, in memory.
//!
//! `cargo bench -p session-engine` writes `target/bench/engine.json` and prints
//! a table. Arguments after `--`: `--quick` (no 10M run, fewer rounds) and
//! `--sessions N` (only that size). Packets are 60-byte TCP segments (IPv4 total
//! length 50) of sessions chosen uniformly at random. Only the engine's calls
//! are timed, not the preparation of packets; the clock is read once per 8,192
//! packets. Each figure is the median of its rounds.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A measuring program.

use std::{
    hint::black_box,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};
use session_engine::{
    DropReason, Engine, EngineConfig, HashKeys, Local, OffloadPolicy, PacketIn, Protocol,
    Scheduler, Server, ServerState, Snapshot, SnapshotSpec, Tick, Timeouts, Verdict, Vip,
};

const BURST: usize = 32;
/// Packets between two readings of the clock.
const BATCH: usize = 8192;
const LEN: usize = 50;
const VIP_ADDR: u32 = 0x0a64_000a;
const SERVERS: u32 = 100;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const SYN_ACK: u8 = 0x12;

/// Buffers a stride apart in one allocation, as a pool of packets has them.
struct Pool {
    bytes: Vec<u8>,
    stride: usize,
}

impl Pool {
    fn new(count: usize, stride: usize) -> Self {
        Self {
            bytes: vec![1; count * stride],
            stride,
        }
    }

    fn at(&mut self, i: usize) -> &mut [u8] {
        &mut self.bytes[i * self.stride..][..LEN]
    }
}

/// Ends of a packet, in host order.
#[derive(Clone, Copy, Default)]
struct Ends {
    src: u32,
    dst: u32,
    ports: u32,
}

const fn client(i: u32) -> (u32, u16) {
    // A thousand ports a client.
    (0x0b00_0000 + i / 1000, 10_000 + (i % 1000) as u16)
}

const fn request(i: u32) -> Ends {
    let (addr, port) = client(i);
    Ends {
        src: addr,
        dst: VIP_ADDR,
        ports: (port as u32) << 16 | 80,
    }
}

/// Writes a segment. Checksums are not valid, which changes nothing for the
/// incremental update.
fn write(b: &mut [u8], e: Ends, flags: u8) {
    b[..12].copy_from_slice(&[0x45, 0, 0, LEN as u8, 0, 1, 0x40, 0, 64, 6, 0x12, 0x34]);
    b[12..16].copy_from_slice(&e.src.to_be_bytes());
    b[16..20].copy_from_slice(&e.dst.to_be_bytes());
    b[20..24].copy_from_slice(&e.ports.to_be_bytes());
    b[32] = 0x50;
    b[33] = flags;
    b[36..38].copy_from_slice(&[0x56, 0x78]);
}

/// What the server would answer to a rewritten request.
fn answer(b: &[u8]) -> Ends {
    let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    Ends {
        src: word(16),
        dst: word(12),
        ports: word(20).rotate_left(16),
    }
}

fn engine(sessions: usize, timeouts: Timeouts) -> Engine {
    // Every block of every address may be open, and partly used.
    let locals = (sessions * 5 / 4).div_ceil(64_512).max(4);
    let spec = SnapshotSpec {
        version: 1,
        vips: vec![Vip {
            vip_id: 1,
            vni: 0,
            address: VIP_ADDR.into(),
            port_low: 80,
            port_high: 80,
            protocol: Protocol::Tcp,
            scheduler: Scheduler::RoundRobin,
            timeouts,
            offload: OffloadPolicy::default(),
            servers: (0..SERVERS)
                .map(|i| Server {
                    server_id: i as u16 + 1,
                    address: Ipv4Addr::from_bits(0x0a02_0000 + i),
                    port: 8080,
                    weight: 1,
                    state: ServerState::Up,
                    mtu: 1500,
                })
                .collect(),
            generation: 1,
            max_sessions: 0,
        }],
        locals: (0..locals)
            .map(|i| Local {
                local_id: i as u16 + 1,
                address: Ipv4Addr::from_bits(0x0a09_0000 + i as u32),
                vni: 0,
                slot: 1,
            })
            .collect(),
        client_mtu: 1500,
    };
    let mut config = EngineConfig::new(1, HashKeys::from_seed(0x5eed));
    config.max_records = (sessions as u32 * 5 / 4 + 512 * locals as u32).min(1 << 24);
    let mut e = Engine::new(config).unwrap();
    e.set_snapshot(Arc::new(Snapshot::build(spec).unwrap()));
    e
}

/// Runs `count` prepared packets through the engine by bursts.
fn run(e: &mut Engine, now: Tick, pool: &mut Pool, count: usize) -> Duration {
    let stride = pool.stride;
    let mut spent = Duration::ZERO;
    let mut verdicts = [Verdict::Drop(DropReason::Malformed); BURST];
    let start = Instant::now();
    for chunk in pool.bytes[..count * stride].chunks_mut(BURST * stride) {
        let mut buffers = chunk.chunks_mut(stride);
        let mut packets: [PacketIn<'_>; BURST] = std::array::from_fn(|_| PacketIn {
            data: buffers.next().map_or(&mut [][..], |b| &mut b[..LEN]),
            vni: 0,
            slot: 1,
            hops: 0,
        });
        e.process_burst(now, &mut packets, &mut verdicts);
        black_box(&verdicts);
    }
    spent += start.elapsed();
    e.tick(now);
    e.effects().for_each(drop);
    spent
}

/// The least that any rewrite costs here: read the tuple, swap it.
fn swap(pool: &mut Pool) -> Duration {
    let stride = pool.stride;
    let start = Instant::now();
    for b in pool.bytes[..BATCH * stride].chunks_mut(stride) {
        let h: &mut [u8; 40] = b.first_chunk_mut().unwrap();
        let e = answer(h);
        h[12..16].copy_from_slice(&e.src.to_be_bytes());
        h[16..20].copy_from_slice(&e.dst.to_be_bytes());
        h[20..24].copy_from_slice(&e.ports.to_be_bytes());
    }
    black_box(&pool.bytes);
    start.elapsed()
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

fn ns(d: Duration, packets: usize) -> f64 {
    d.as_secs_f64() * 1e9 / packets as f64
}

/// Opens `n` sessions through the handshake; gives the reply tuple of each and
/// how long single bursts of SYNs took.
fn open(e: &mut Engine, now: Tick, n: usize) -> (Vec<Ends>, Vec<u32>) {
    let mut replies = vec![Ends::default(); n];
    let mut pool = Pool::new(BURST, 64);
    let mut bursts = Vec::with_capacity(n / BURST + 1);
    for first in (0..n).step_by(BURST) {
        let count = BURST.min(n - first);
        for k in 0..count {
            write(pool.at(k), request((first + k) as u32), SYN);
        }
        bursts.push(run(e, now, &mut pool, count).as_nanos() as u32);
        for k in 0..count {
            let a = answer(pool.at(k));
            replies[first + k] = a;
            write(pool.at(k), a, SYN_ACK);
        }
        run(e, now, &mut pool, count);
        for k in 0..count {
            write(pool.at(k), request((first + k) as u32), ACK);
        }
        run(e, now, &mut pool, count);
    }
    assert_eq!(e.counters().dropped(), 0, "all sessions open");
    assert_eq!(e.gauges().sessions as usize, n);
    (replies, bursts)
}

fn packets(n: usize, rounds: usize) -> Value {
    let mut e = engine(n, Timeouts::default());
    let mut now = Tick(100);
    let (replies, mut bursts) = open(&mut e, now, n);
    bursts.sort_unstable();
    let at = |q: f64| f64::from(bursts[((bursts.len() - 1) as f64 * q) as usize]) / 1000.0;
    let mut out = json!({
        "sessions": n,
        "bytes_per_session": e.memory_bytes() as f64 / n as f64,
        "growth_burst_us": { "p50": at(0.5), "p99": at(0.99), "p99.99": at(0.9999), "max": at(1.0) },
    });
    let mut rng = SmallRng::seed_from_u64(7);
    for (buffers, stride) in [("hot", 64), ("spread", 2176)] {
        // "hot": 512 KiB of packets; "spread": as in a pool of 2 KiB buffers.
        let mut pool = Pool::new(BATCH, stride);
        for (kind, reply) in [("forward", 0), ("reply", 2), ("half", 1)] {
            let mut times = Vec::new();
            for round in 0..rounds {
                now = now + u32::from(round % 8 == 0);
                for k in 0..BATCH {
                    let i = rng.random_range(0..n);
                    if reply == 2 || (reply == 1 && k % 2 == 0) {
                        write(pool.at(k), replies[i], ACK);
                    } else {
                        write(pool.at(k), request(i as u32), ACK);
                    }
                }
                times.push(ns(run(&mut e, now, &mut pool, BATCH), BATCH));
            }
            out[format!("{kind}_ns_{buffers}_buffers")] = json!(median(times));
        }
        let times = (0..rounds)
            .map(|_| {
                for k in 0..BATCH {
                    write(pool.at(k), request(k as u32), ACK);
                }
                ns(swap(&mut pool), BATCH)
            })
            .collect();
        out[format!("swap_ns_{buffers}_buffers")] = json!(median(times));
    }
    // What every packet costs that finds no session: an ACK flood.
    let mut pool = Pool::new(BATCH, 64);
    let times = (0..rounds)
        .map(|_| {
            for k in 0..BATCH {
                write(
                    pool.at(k),
                    request(rng.random_range(0x4000_0000..0x6000_0000)),
                    ACK,
                );
            }
            ns(run(&mut e, now, &mut pool, BATCH), BATCH)
        })
        .collect();
    out["miss_ns_hot_buffers"] = json!(median(times));
    assert_eq!(e.counters().unaccounted(), 0);
    out
}

/// Whole connections: SYN, SYN-ACK, ACK, data, FIN, FIN. Expiry and the return
/// of ports included.
fn connections(total: usize) -> Value {
    let timeouts = Timeouts {
        time_wait_ms: 1_000,
        close_ms: 1_000,
        port_hold_ms: 500,
        ..Timeouts::default()
    };
    let per_tick = 100_000;
    let mut e = engine(1_000_000, timeouts);
    let mut spent = Duration::ZERO;
    let mut now = Tick(100);
    let mut in_tick = 0;
    let mut pool = Pool::new(BATCH, 64);
    let mut replies = vec![Ends::default(); BATCH];
    let mut done = 0;
    while done < total {
        let base = done as u32;
        // As many open at once as a few milliseconds of traffic.
        let mut step = |e: &mut Engine, up: bool, flags: u8| {
            for (k, reply) in replies.iter().enumerate() {
                let ends = if up { request(base + k as u32) } else { *reply };
                write(pool.at(k), ends, flags);
            }
            spent += run(e, now, &mut pool, BATCH);
            if flags == SYN {
                for (k, reply) in replies.iter_mut().enumerate() {
                    *reply = answer(pool.at(k));
                }
            }
        };
        step(&mut e, true, SYN);
        step(&mut e, false, SYN_ACK);
        step(&mut e, true, ACK);
        step(&mut e, true, ACK);
        step(&mut e, false, FIN);
        step(&mut e, true, FIN);
        let start = Instant::now();
        while e.tick(now) {}
        spent += start.elapsed();
        e.effects().for_each(drop);
        done += BATCH;
        in_tick += BATCH;
        if in_tick >= per_tick {
            in_tick = 0;
            now = now + 1;
        }
    }
    let c = e.counters();
    assert_eq!(c.dropped(), 0, "no packet lost");
    assert_eq!(c.sessions_created as usize, done);
    json!({
        "connections": done,
        "per_second": done as f64 / spent.as_secs_f64(),
        "ns_per_connection": ns(spent, done),
        "records": e.gauges().records,
    })
}

/// Times with and without huge pages: glibc asks for them when told to by its
/// environment, so the measurement runs in a process of its own.
fn child(pages: &str, args: &[String]) -> Value {
    let mut c = std::process::Command::new(std::env::current_exe().unwrap());
    c.args(args).env("SLUICE_BENCH_CHILD", pages);
    if pages == "huge" {
        c.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    let out = c.stderr(std::process::Stdio::inherit()).output().unwrap();
    assert!(out.status.success(), "the measuring process failed");
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let quick = args.iter().any(|a| a == "--quick");
    let only: Option<usize> = args
        .iter()
        .position(|a| a == "--sessions")
        .and_then(|i| args.get(i + 1)?.parse().ok());
    if std::env::var_os("SLUICE_BENCH_CHILD").is_some() {
        let rounds = if quick { 50 } else { 200 };
        let sizes = match only {
            Some(n) => vec![n],
            None if quick => vec![65_536, 1_000_000],
            None => vec![65_536, 1_000_000, 10_000_000],
        };
        let runs: Vec<Value> = sizes.into_iter().map(|n| packets(n, rounds)).collect();
        let conns = if only.is_some() {
            Value::Null
        } else {
            connections(if quick { 500_000 } else { 4_000_000 })
        };
        println!("{}", json!({ "packets": runs, "connections": conns }));
        return;
    }
    let result = json!({
        "what": "session engine in memory, IPv4 TCP FULLNAT, bursts of 32, 50-byte packets, uniform",
        "cpu": cpu(),
        "load_average_before": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "huge_pages": child("huge", &args),
        "small_pages": child("small", &args),
    });
    for pages in ["huge_pages", "small_pages"] {
        println!("{pages}");
        for r in result[pages]["packets"].as_array().into_iter().flatten() {
            println!("  {r}");
        }
        println!("  {}", result[pages]["connections"]);
    }
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("engine.json");
    std::fs::write(&file, serde_json::to_string_pretty(&result).unwrap()).unwrap();
    println!("written to target/bench/engine.json");
}

fn cpu() -> String {
    std::fs::read_to_string("/proc/cpuinfo")
        .unwrap_or_default()
        .lines()
        .find_map(|l| Some(l.strip_prefix("model name")?.split_once(": ")?.1.to_owned()))
        .unwrap_or_default()
}
