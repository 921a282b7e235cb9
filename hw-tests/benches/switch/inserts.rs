//! How fast entries are inserted by P4Runtime.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hw_tests::rig::Rig;
use hw_tests::scene::{CLIENT, UPLINK};
use hw_tests::target::Target;
use p4_contract::tables::flow_fwd_v4;
use p4runtime_client::entry;
use p4runtime_proto::p4::v1::{Update, write_request::Atomicity};
use serde_json::{Map, Value, json};

/// Updates in one request, and how many are written in all at most.
const BATCHES: [(usize, usize); 3] = [(1, 4_000), (64, 60_000), (1_000, 150_000)];

/// A batch size is given up after so long.
const PATIENCE: Duration = Duration::from_secs(4);

/// Entries of the forward flow table, all different.
fn updates(from: usize, count: usize) -> Vec<Update> {
    (from..from + count)
        .map(|number| {
            let flow = flow_fwd_v4::Entry {
                key: flow_fwd_v4::Key {
                    vip_id: 1,
                    vip_port: 80,
                    client_addr: CLIENT + (number >> 15) as u32,
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

/// Inserts a second by batch size: one request at a time, from one client.
/// Building the messages is not timed, sending them is.
pub fn measure(target: Target) -> Result<Value> {
    let rig = Rig::start(target, "bench-inserts", &[UPLINK], 1500)?;
    let mut rates = Map::new();
    let mut written = 0;
    for (batch, most) in BATCHES {
        let mut timed = Duration::ZERO;
        let mut done = 0;
        while done < most && timed < PATIENCE {
            let updates = updates(written, batch.min(most - done));
            let count = updates.len();
            let start = Instant::now();
            let write = rig
                .controller
                .client
                .write(updates, Atomicity::ContinueOnError);
            let outcome = rig.controller.wait(write)?;
            timed += start.elapsed();
            ensure!(outcome.all_applied(), "an insert was refused");
            written += count;
            done += count;
        }
        let rate = (done as f64 / timed.as_secs_f64()).round();
        rates.insert(batch.to_string(), json!(rate));
    }
    Ok(Value::Object(rates))
}
