//! What Rust needs to know of the P4 program.
//!
//! The modules under `generated` are written by `p4-contract-gen` from the
//! program's P4Info and sources (`cargo xtask p4`) and are not edited. Each
//! table has a module in [`tables`] with its `Key`, its `Action` and its
//! `Entry`; entries become P4Runtime messages with `to_proto` and come back
//! with `from_proto`.
//!
//! A field holds the number that P4 has in it: an IPv4 address is a `u32` with
//! the first byte highest. Where P4 has fewer bits than the Rust type (a port
//! has 9, a VLAN id 12, a VNI 24, a MAC address 48) a number that does not fit
//! is sent as it is, and the switch refuses it.

mod compatible;
mod error;
mod generated;
mod info;
mod key;
mod pipeline;

pub use compatible::{ContractMismatch, compatible};
pub use error::ContractError;
pub use generated::{constants, counters, enums, packet_io, tables};
pub use info::{Counter, CounterUnit, DirectCounter, Row, TableInfo};
pub use key::{Lpm, Range};
pub use pipeline::{COOKIE, P4INFO_TEXT, PIPELINE_JSON, p4info};

pub use enums::{DropReason, Path, PortRole, PuntReason};
pub use packet_io::{PacketIn, PacketOut};
