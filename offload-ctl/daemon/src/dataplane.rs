//! What the daemon needs of a switch, apart from P4Runtime itself.
//!
//! `wire` implements it on P4Runtime; the tests implement it with a switch
//! in memory that fails on demand.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use crate::entry::{Entry, Key, Table};

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Add an entry whose key is not there.
    Insert(Entry),
    /// Change the entry with this key.
    Modify(Entry),
    /// Delete the entry with this key.
    Delete(Key),
}

impl Update {
    /// The key that the update is about.
    pub fn key(&self) -> Key {
        match self {
            Update::Insert(entry) | Update::Modify(entry) => entry.key,
            Update::Delete(key) => *key,
        }
    }
}

/// Why one update of a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The key to insert is there already.
    #[error("the entry exists already")]
    Exists,
    /// The key to change or delete is not there.
    #[error("there is no such entry")]
    NotFound,
    /// The table has no room.
    #[error("the table is full: {0}")]
    Full(String),
    /// The switch refuses the entry.
    #[error("the switch refuses the entry: {0}")]
    Refused(String),
}

/// The connection is gone or the call failed as a whole; what it did on the
/// switch is unknown until the tables have been read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Lost(pub String);

/// Outcome of each update of a batch, in its order.
pub type Outcomes = Vec<Result<(), UpdateError>>;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes, as the switch counts them.
    pub bytes: u64,
}

/// An entry as it was read from the switch, with its direct counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The entry.
    pub entry: Entry,
    /// What has hit it, where the build counts flows.
    pub count: Option<Count>,
    /// Time since the last packet hit it, ms, where the switch tells.
    pub idle_ms: Option<u64>,
}

/// An indexed counter of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// Packets in, by port.
    IngressPortRx,
    /// Packets out, by port.
    EgressPortTx,
    /// Drops, by reason.
    Drop,
    /// Ways through the switch.
    Path,
    /// Packets to a VIP.
    VipRx,
    /// Packets to a VIP that the switch rewrote itself.
    VipFastFwd,
    /// Replies of a VIP that the switch rewrote itself.
    VipFastRev,
    /// The same towards a server.
    ServerFastFwd,
    /// The same from a server.
    ServerFastRev,
}

/// Cells of counters that are not zero.
pub type Cells = BTreeMap<Counter, BTreeMap<u32, Count>>;

/// A switch that has the pipeline and accepts writes from us.
pub trait Dataplane: Send + Sync {
    /// Writes a batch; updates of one batch may be carried out in any order.
    fn write(&self, updates: Vec<Update>) -> BoxFuture<'_, Result<Outcomes, Lost>>;

    /// All entries of a table.
    fn read_table(&self, table: Table) -> BoxFuture<'_, Result<Vec<Reading>, Lost>>;

    /// These entries of the flow tables, as far as they exist, in any order.
    fn read_entries(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Reading>, Lost>>;

    /// Indexed counters in one go: the cells that are not zero.
    fn read_counters(&self, counters: Vec<Counter>) -> BoxFuture<'_, Result<Cells, Lost>>;

    /// Sends a frame out of a port.
    fn packet_out(&self, port: u16, frame: Vec<u8>) -> BoxFuture<'_, Result<(), Lost>>;
}

/// What a switch tells by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// These flow entries were not hit for their idle timeout.
    Idle(Vec<Key>),
    /// A frame was sent to the CPU.
    PacketIn {
        /// Port that it came in by.
        port: u16,
        /// Why, as the contract numbers it.
        reason: u8,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The session is over; nothing follows.
    Lost(String),
}

/// A switch, connected and with the right pipeline.
pub struct Connection {
    /// For writes and reads.
    pub dataplane: std::sync::Arc<dyn Dataplane>,
    /// What it tells by itself.
    pub notices: mpsc::Receiver<Notice>,
    /// Whether the pipeline had to be pushed, so that the tables were emptied.
    pub pushed: bool,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// It may work later: not reachable, another controller is primary.
    #[error("{0}")]
    Retry(String),
    /// It will not work until someone changes something.
    #[error("{0}")]
    Fatal(String),
}

/// Makes connections to one switch.
pub trait Connector: Send + Sync {
    /// Connects, becomes primary and sees that the pipeline is the right one.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>>;

    /// The switch's address, for people.
    fn target(&self) -> String;
}
