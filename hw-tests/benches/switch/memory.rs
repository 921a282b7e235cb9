//! softswitch without links: the pipeline alone, on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hw_tests::embedded::Embedded;
use hw_tests::scene::{self, LD, SERVERS, Session, UPLINK};
use serde_json::{Map, Value, json};
use softswitch::Output;

use crate::{many, traffic};

/// Packets of one burst, as the port loop has them.
const BURST: usize = 64;

/// Each round is this long; the best of the rounds counts, since whatever
/// disturbs can only add.
const ROUND: Duration = Duration::from_millis(200);
const ROUNDS: usize = 4;

type Make = fn(&Session, usize) -> Result<Vec<u8>>;

/// Nanoseconds a packet by kind and length.
pub fn measure() -> Result<Value> {
    let mut switch = Embedded::start()?;
    switch.controller.insert(&scene::configuration())?;
    let entries: Vec<_> = (0..traffic::SESSIONS)
        .flat_map(|at| traffic::session(at).entries(0))
        .collect();
    switch.controller.insert(&entries)?;
    let kinds: [(&str, Make, u16, u16); 3] = [
        ("fast_forward", traffic::forward, UPLINK, SERVERS),
        ("fast_reply", traffic::reply, SERVERS, UPLINK),
        ("steer_to_ld", traffic::opening, UPLINK, LD),
    ];
    let mut all = Map::new();
    for (name, make, from, to) in kinds {
        let by_length = by_length(|length| {
            let frames = traffic::frames(make, length)?;
            time(&mut switch, &frames, from, to)
        })?;
        all.insert(name.into(), by_length);
    }
    switch.controller.insert(&many::entries())?;
    let by_length = by_length(|length| {
        let (frames, expected): (Vec<_>, Vec<_>) = many::frames(length)?.into_iter().unzip();
        for (frame, out) in frames.iter().zip(expected) {
            let sent = switch.pass(UPLINK, frame);
            ensure!(sent == [(SERVERS, out)], "the switch forwards wrongly");
        }
        time(&mut switch, &frames, UPLINK, SERVERS)
    })?;
    all.insert("fast_forward_many".into(), by_length);
    Ok(Value::Object(all))
}

/// What `time` takes for frames of each length, rounded.
fn by_length(mut time: impl FnMut(usize) -> Result<f64>) -> Result<Value> {
    let mut all = Map::new();
    for length in traffic::LENGTHS {
        let ns = time(length)?;
        all.insert(length.to_string(), json!((ns * 10.0).round() / 10.0));
    }
    Ok(Value::Object(all))
}

fn time(switch: &mut Embedded, frames: &[Vec<u8>], from: u16, to: u16) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (mut packets, mut right) = (0_u64, 0_u64);
        let start = Instant::now();
        while start.elapsed() < ROUND {
            for chunk in frames.chunks(BURST) {
                let mut burst = switch.worker.burst(switch.clock.now());
                for frame in chunk {
                    burst.process(from, frame, &mut |out| {
                        if let Output::Transmit { port, bytes } = out {
                            right += u64::from(port == to);
                            black_box(bytes);
                        }
                    });
                }
                packets += chunk.len() as u64;
            }
        }
        ensure!(right == packets, "{right} of {packets} went the right way");
        best = best.min(start.elapsed().as_nanos() as f64 / packets as f64);
    }
    Ok(best)
}
