//! `slowpath.toml`: how a load director is started.

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::address::ApiAddress;
use crate::problem::{self, Invalid, Problem};

/// Most workers of one load director: the local port has four shard bits.
pub const MAX_WORKERS: u16 = 16;

/// A load director's start-up configuration. VIPs and servers come from
/// offload-ctl as a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowpath {
    /// Name of this LD, as gateway.toml has it.
    pub name: String,
    /// Address of offload-ctl's API.
    pub api: ApiAddress,
    /// Where metrics and health are served over HTTP; nowhere if absent.
    #[serde(default)]
    pub http: Option<SocketAddr>,
    /// Address of this LD's end of the tunnel.
    pub vtep: Ipv4Addr,
    /// Number of workers, one thread each.
    #[serde(default = "one")]
    pub workers: u16,
    /// DPDK's environment abstraction layer.
    pub eal: Eal,
    /// Behaviour without packets.
    #[serde(default)]
    pub idle: IdlePolicy,
    /// Most sessions of one worker.
    #[serde(default = "million")]
    pub sessions_per_worker: u32,
}

/// DPDK's environment abstraction layer (EAL) and the port to use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Eal {
    /// EAL arguments, the program's name excluded.
    pub args: Vec<String>,
    /// Name of the port as DPDK has it, like `net_af_packet0` or a PCI address.
    pub port: String,
    /// Largest IPv4 packet on the port including the tunnel's headers, bytes.
    #[serde(default = "mtu")]
    pub mtu: u16,
    /// Packet buffers for all workers.
    #[serde(default = "mbufs")]
    pub mbufs: u32,
    /// Descriptors of each receive and transmit queue.
    #[serde(default = "descriptors")]
    pub descriptors: u16,
}

/// How a worker behaves when nothing arrives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdlePolicy {
    /// Empty polls in a row before the first sleep.
    pub polls: u32,
    /// Longest sleep, µs; 0: never sleep (a core of its own).
    pub max_sleep_us: u32,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            polls: 256,
            max_sleep_us: 200,
        }
    }
}

fn one() -> u16 {
    1
}
fn million() -> u32 {
    1_000_000
}
fn mtu() -> u16 {
    1550
}
fn mbufs() -> u32 {
    16_384
}
fn descriptors() -> u16 {
    512
}

impl Slowpath {
    /// Reads and validates `slowpath.toml`.
    ///
    /// # Errors
    /// [`Invalid`] with everything that is wrong.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let config: Self = problem::parse(text)?;
        let mut problems = Vec::new();
        if config.name.is_empty() {
            problems.push(Problem::new(
                "name",
                "is empty",
                "write the LD's name in gateway.toml",
            ));
        }
        if !(1..=MAX_WORKERS).contains(&config.workers) {
            problems.push(Problem::new(
                "workers",
                format!("{} workers", config.workers),
                format!("write a number from 1 to {MAX_WORKERS}"),
            ));
        }
        if config.eal.port.is_empty() {
            problems.push(Problem::new(
                "eal.port",
                "is empty",
                "name the DPDK port, like net_af_packet0",
            ));
        }
        if config.eal.mtu < 626 {
            // 576 (RFC 791's least) and 50 bytes of tunnel.
            problems.push(Problem::new(
                "eal.mtu",
                format!(
                    "{} bytes leave no room for a packet in the tunnel",
                    config.eal.mtu
                ),
                "write at least 626; 1550 carries inner packets of 1500 bytes",
            ));
        }
        if config.sessions_per_worker == 0 {
            problems.push(Problem::new(
                "sessions_per_worker",
                "must not be 0",
                "write how many sessions a worker may hold",
            ));
        }
        if config.vtep.is_unspecified() || config.vtep.is_multicast() || config.vtep.is_broadcast()
        {
            problems.push(Problem::new(
                "vtep",
                format!("{} is no host's address", config.vtep),
                "write the address of this LD's end of the tunnel",
            ));
        }
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(Invalid { problems })
        }
    }
}
