//! A software P4 switch that runs what p4c-bm2-ss emits and speaks P4Runtime.
//!
//! # As a library
//!
//! [`Switch::load`] reads the JSON that `p4c-bm2-ss` wrote, checks it and
//! lowers it once into a typed, flat representation that runs. [`Switch::apply`]
//! and its neighbours read and change tables, counters, meters, registers and
//! replication while packets flow. Packets are pushed through it
//!
//! - by hand: a [`Worker`] for each thread, [`Worker::process`] for one packet
//!   or [`Worker::burst`] for many, [`Worker::trace`] to see a packet's path;
//! - by ports: [`ports::DataPlane`] opens interfaces, TAP devices, capture files
//!   or queues within the process, and runs workers of its own;
//! - by a controller: [`p4rt::P4RuntimeServer`] serves P4Runtime for a switch.
//!
//! No part of the core reads a clock or opens a socket: time comes in with
//! every burst.
//!
//! ```
//! use softswitch::{
//!     ActionCall, EntryAction, EntryKey, FieldMatch, Output, Switch, SwitchConfig, TableEntry,
//!     TableOp, Timestamp, Value,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let json = std::fs::read("examples/embed/router.json")?;
//! let switch = Switch::load(&json, SwitchConfig::default())?;
//!
//! // 10.2.0.0/16 leaves by port 2, to the MAC address 02:00:00:00:00:09.
//! let program = switch.program().unwrap();
//! let table = program.table_by_name("In.route").unwrap();
//! let action = program.tables()[table.index()].action_by_name("In.forward").unwrap();
//! let entry = TableEntry {
//!     key: EntryKey {
//!         fields: vec![FieldMatch::Lpm {
//!             value: Value::from_slice(&[10, 2, 0, 0]),
//!             prefix_len: 16,
//!         }],
//!         priority: 0,
//!     },
//!     action: EntryAction::Call(ActionCall {
//!         action,
//!         params: vec![Value::from_slice(&[2]), Value::from_slice(&[2, 0, 0, 0, 0, 9])],
//!     }),
//!     idle_timeout_ns: 0,
//!     cookie: 0,
//!     metadata: Vec::new(),
//! };
//! let now = Timestamp::from_nanos(0);
//! assert_eq!(switch.apply(now, &[TableOp::Insert { table, entry }]), [Ok(())]);
//!
//! let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
//! packet.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 3, 4]);
//! let mut sent = Vec::new();
//! switch.worker().process(1, &packet, now, &mut |out: Output<'_>| match out {
//!     Output::Transmit { port, bytes } => sent.push((port, bytes[22])),
//!     Output::PacketIn { .. } => {}
//!     Output::Dropped { reason } => println!("dropped: {}", reason.name()),
//! });
//! // Out of port 2, its TTL one less.
//! assert_eq!(sent, [(2, 63)]);
//! # Ok(())
//! # }
//! ```
//!
//! `examples/embed` does the same with ports and prints the packet's path.
//!
//! # Inside
//!
//! `load` parses the document, `lower` checks it and makes the program of `ir`,
//! `exec` runs that on packets, against the entries in `tables`. Around this
//! core are `ports`, `p4rt` and, in the program, the command line.

pub mod control;
pub mod p4rt;
pub mod ports;
pub mod program;
pub mod stf;
pub mod switch;
pub mod trace;
pub mod worker;

mod calc;
mod counters;
mod exec;
mod ir;
mod load;
mod lower;
mod meters;
mod registers;
mod replication;
mod tables;

pub use control::{
    ActionCall, ColourCounts, CounterTarget, CounterValue, DefaultState, EntryAction, EntryKey,
    EntryState, FieldMatch, Group, GroupMember, Member, MeterConfig, MeterTarget, ReadCursor,
    Selection, TableEntry, TableError, TableOp, Value,
};
pub use program::{
    ActionId, CounterId, DigestId, LoadError, MatchKind, MeterId, ProfileId, Program, RegisterId,
    TableId,
};
pub use switch::{
    BatchError, CloneSession, Digest, DigestValue, DropReason, IdleNotice, MulticastGroup, Output,
    Replica, Switch, SwitchConfig, SwitchStats, Timestamp,
};
pub use trace::TraceEvent;
pub use worker::{Burst, Worker};
