//! Typed configuration of Sluice: what operators want ([`Gateway`]) and how
//! each process is started ([`OffloadCtl`], [`Slowpath`]).
//!
//! A file is read in two steps. Parsing refuses what is no TOML, an unknown
//! field or a value of the wrong form; validation then looks at the whole and
//! collects every [`Problem`] at once, so that people mend a file in one go.
//! What comes out can be trusted: addresses are addresses, names resolve, no
//! two VIPs claim one packet.

mod address;
mod gateway;
mod mac;
mod offload_ctl;
mod ports;
mod problem;
mod slowpath;

pub use address::{AddressError, ApiAddress};
pub use gateway::{
    Gateway, Group, Ld, Neighbor, OffloadPolicy, Port, PortRole, Protocol, Route, Scheduler,
    Server, ServerState, Switch, Timeouts, Vip, limits,
};
pub use mac::{Mac, MacError};
pub use offload_ctl::{Flows, Neighbors, OffloadCtl, P4Runtime, Pipeline, Readback};
pub use ports::{PortRange, PortRangeError};
pub use problem::{Invalid, Problem};
pub use slowpath::{Eal, IdlePolicy, MAX_WORKERS, Slowpath};
