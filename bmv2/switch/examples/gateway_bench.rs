//! Time a packet on the gateway's flow-hit path, in memory.
//!
//! `gateway_bench [FLOWS] [PAYLOAD BYTES] [PACKETS]`

#[path = "../tests/core/build.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod build;
#[path = "../tests/core/gateway.rs"]
#[allow(dead_code, clippy::unwrap_used)]
mod gateway;

use softswitch::{Output, Timestamp};

fn main() {
    let arg = |i: usize, default: usize| {
        std::env::args()
            .nth(i)
            .and_then(|a| a.parse().ok())
            .unwrap_or(default)
    };
    let (flows, payload, packets) = (arg(1, 64_000), arg(2, 1_446), arg(3, 2_000_000));
    let switch = gateway::switch(u32::try_from(flows).unwrap_or(1));
    let frames: Vec<Vec<u8>> = (0..flows)
        .map(|i| gateway::request((i.wrapping_mul(7919) % flows) as u32, payload))
        .collect();
    let mut worker = switch.worker();
    let mut sent = 0u64;
    let mut bytes = 0usize;
    let mut once = |n: usize| {
        let start = cpu_ns();
        let mut at = 0;
        while at < n {
            let mut burst = worker.burst(Timestamp::from_micros(at as u64));
            for i in at..(at + 64).min(n) {
                burst.process(1, &frames[i % frames.len()], &mut |o| {
                    if let Output::Transmit { bytes: b, .. } = o {
                        sent += 1;
                        bytes += b.len();
                    }
                });
            }
            at += 64;
        }
        (cpu_ns() - start) as f64 / n as f64
    };
    once(packets / 10);
    for _ in 0..3 {
        println!("{:.0} ns of CPU a packet", once(packets));
    }
    println!("{sent} sent, {bytes} bytes");
}

/// CPU time of this thread in nanoseconds: other load on the machine does not
/// count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().unwrap_or("0");
    first.parse().unwrap_or(0)
}
