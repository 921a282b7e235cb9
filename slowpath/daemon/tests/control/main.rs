//! The control thread against an offload-ctl that the test plays, over a real
//! stream on a Unix socket. The workers are played by the test as well, through
//! their rings.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "../common/mod.rs"]
mod common;
mod ctl;
mod offload;
mod shutdown;
mod startup;
mod workers;
mod world;

use std::time::Duration;

use offload_api::v1::{FlowPair, FlowTotals};

/// Nothing here takes longer, unless it hangs.
const LIMIT: Duration = Duration::from_secs(10);

fn flow(id: u64, local_port: u32) -> FlowPair {
    FlowPair {
        session_id: id,
        vip_id: 1,
        vip_port: 80,
        protocol: 6,
        client_addr: 0x0a01_0002,
        client_port: 40_000,
        server_id: 1,
        local_id: 1,
        local_port,
        idle_timeout_ms: 10_000,
        generation: 1,
    }
}

fn totals(id: u64, packets: u64) -> FlowTotals {
    FlowTotals {
        session_id: id,
        fwd_packets: packets,
        ..FlowTotals::default()
    }
}

fn ids(flows: &[FlowPair]) -> Vec<u64> {
    flows.iter().map(|f| f.session_id).collect()
}
