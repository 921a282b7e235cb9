//! How a client connects.

use std::time::Duration;

use p4runtime_proto::p4::v1::Role;

use crate::tls::Tls;

/// Everything that [`Client::connect_with`](crate::Client::connect_with) needs.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// `http://host:port`, `host:port` or `unix:/path`; with [`Self::tls`]
    /// `https://host:port` or `host:port`.
    pub address: String,
    /// TLS; `None` for plaintext.
    pub tls: Option<Tls>,
    /// Which of the server's devices to control.
    pub device_id: u64,
    /// The highest id of all connected controllers makes a primary.
    pub election_id: u128,
    /// The role to take; `None` for the default role, which may do anything.
    pub role: Option<Role>,
    /// How long each call may take.
    pub deadlines: Deadlines,
    /// How many events wait for their reader. When they are this many,
    /// packet-ins are dropped and counted; other events hold up the stream.
    pub event_capacity: usize,
    /// How many messages to the switch wait on the stream; beyond that,
    /// packet-outs wait too.
    pub send_capacity: usize,
}

impl ConnectOptions {
    /// The default role, deadlines and capacities.
    pub fn new(address: impl Into<String>, device_id: u64, election_id: u128) -> Self {
        Self {
            address: address.into(),
            tls: None,
            device_id,
            election_id,
            role: None,
            deadlines: Deadlines::default(),
            event_capacity: 4096,
            send_capacity: 1024,
        }
    }
}

/// How long each kind of call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Connecting, 5 s.
    pub connect: Duration,
    /// The first answer to arbitration, 5 s.
    pub arbitration: Duration,
    /// One Write, 10 s.
    pub write: Duration,
    /// One Read with all its chunks, 30 s.
    pub read: Duration,
    /// Setting or getting a pipeline, 60 s: loading a program is slow on
    /// hardware.
    pub pipeline: Duration,
    /// Capabilities, and handing a message to the stream, 5 s.
    pub other: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            arbitration: Duration::from_secs(5),
            write: Duration::from_secs(10),
            read: Duration::from_secs(30),
            pipeline: Duration::from_secs(60),
            other: Duration::from_secs(5),
        }
    }
}
