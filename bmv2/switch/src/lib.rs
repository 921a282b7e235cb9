//! A software P4 switch that runs what p4c-bm2-ss emits and speaks P4Runtime.
//!
//! The life of a program: [`Program::load`] reads the JSON that `p4c-bm2-ss`
//! wrote, checks it and lowers it once into a typed, flat representation;
//! [`Switch::install`] makes it the running pipeline; [`Worker`]s push packets
//! through it; [`Switch::apply`] and its neighbours change tables while
//! packets flow.
//!
//! ```no_run
//! use softswitch::{Output, Program, Switch, SwitchConfig, Timestamp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let program = Program::load(&std::fs::read("router.json")?)?;
//! let switch = Switch::new(SwitchConfig::default());
//! switch.install(program);
//! let mut worker = switch.worker();
//! let packet = [0u8; 64];
//! worker.process(1, &packet, Timestamp::from_nanos(0), &mut |out: Output<'_>| {
//!     if let Output::Transmit { port, bytes } = out {
//!         println!("{} bytes out of port {port}", bytes.len());
//!     }
//! });
//! # Ok(())
//! # }
//! ```

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
    ActionCall, ColourCounts, CounterTarget, CounterValue, EntryAction, EntryKey, EntryState,
    FieldMatch, Group, GroupMember, Member, MeterConfig, MeterTarget, ReadCursor, TableEntry,
    TableError, TableOp, Value,
};
pub use program::{
    ActionId, CounterId, DigestId, LoadError, MatchKind, MeterId, ProfileId, Program, RegisterId,
    TableId,
};
pub use switch::{
    BatchError, CloneSession, Digest, DropReason, IdleNotice, MulticastGroup, Output, Replica,
    Switch, SwitchConfig, SwitchStats, Timestamp,
};
pub use trace::TraceEvent;
pub use worker::{Burst, Worker};
