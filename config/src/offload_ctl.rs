//! `offload-ctl.toml`: how the controller is started.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::address::ApiAddress;
use crate::problem::{self, Invalid, Problem};

/// The controller's start-up configuration. What it should make of the switch
/// is not here but in [`crate::Gateway`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadCtl {
    /// The switch.
    #[serde(default)]
    pub p4runtime: P4Runtime,
    /// Where `offload.v1` is served.
    pub api: Vec<ApiAddress>,
    /// Where metrics and health are served over HTTP; nowhere if absent.
    #[serde(default)]
    pub http: Option<SocketAddr>,
    /// File of the embedded store.
    pub store: PathBuf,
    /// The pipeline to load; the one built in if absent.
    #[serde(default)]
    pub pipeline: Option<Pipeline>,
    /// How offloaded flows are written.
    #[serde(default)]
    pub flows: Flows,
    /// How the switch is compared with what is wanted.
    #[serde(default)]
    pub readback: Readback,
    /// How next hops are resolved.
    #[serde(default)]
    pub neighbors: Neighbors,
}

/// The switch that offload-ctl programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct P4Runtime {
    /// Address of its P4Runtime server.
    pub address: ApiAddress,
    /// P4Runtime device id.
    pub device_id: u64,
    /// Low 64 bits of the election id; the highest wins.
    pub election_id: u64,
    /// TLS to the switch; plaintext if absent.
    pub tls: Option<P4RuntimeTls>,
}

/// How the switch is known, and how offload-ctl makes itself known. All files
/// are PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct P4RuntimeTls {
    /// The CA that has signed the switch's certificate.
    pub ca: PathBuf,
    /// The name in that certificate; the address if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// offload-ctl's own certificate with its key, if the switch asks for one.
    #[serde(default)]
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The certificate with its chain.
    pub certificate: PathBuf,
    /// Its key, not encrypted.
    pub key: PathBuf,
}

impl Default for P4Runtime {
    fn default() -> Self {
        Self {
            address: ApiAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 9559))),
            device_id: 1,
            election_id: 1,
            tls: None,
        }
    }
}

/// A pipeline other than the one built in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// The target's configuration: for bmv2 the compiler's JSON.
    pub device_config: PathBuf,
    /// P4Info in protobuf text format.
    pub p4info: PathBuf,
}

/// How offloaded flows are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flows {
    /// Most updates in one P4Runtime Write.
    pub batch: usize,
    /// How long a request waits for company, ms.
    pub linger_ms: u64,
    /// How long entries of an LD that went away are kept, s.
    pub absent_ld_grace_s: u64,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            batch: 500,
            linger_ms: 2,
            absent_ld_grace_s: 900,
        }
    }
}

/// How the switch is compared with what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Readback {
    /// Time between two comparisons, s; 0 for never.
    pub interval_s: u64,
}

impl Default for Readback {
    fn default() -> Self {
        Self { interval_s: 30 }
    }
}

/// How next hops are resolved (ARP, RFC 826).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Neighbors {
    /// Time between two requests for a next hop that is not resolved, ms.
    pub retry_ms: u64,
    /// Time after which a resolved next hop is asked again, s.
    pub refresh_s: u64,
}

impl Default for Neighbors {
    fn default() -> Self {
        Self {
            retry_ms: 500,
            refresh_s: 60,
        }
    }
}

impl OffloadCtl {
    /// Reads and validates `offload-ctl.toml`.
    ///
    /// # Errors
    /// [`Invalid`] with everything that is wrong.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let config: Self = problem::parse(text)?;
        let mut problems = Vec::new();
        if config.api.is_empty() {
            problems.push(Problem::new(
                "api",
                "no address to serve offload.v1 on",
                "add one, like \"unix:/run/sluice/offload.sock\"",
            ));
        }
        for (field, value) in [
            ("flows.batch", config.flows.batch as u64),
            ("neighbors.retry_ms", config.neighbors.retry_ms),
            ("neighbors.refresh_s", config.neighbors.refresh_s),
            ("p4runtime.election_id", config.p4runtime.election_id),
        ] {
            if value == 0 {
                problems.push(Problem::new(
                    field,
                    "must not be 0",
                    "write a number from 1",
                ));
            }
        }
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(Invalid { problems })
        }
    }
}
