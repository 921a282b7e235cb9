//! Sessions, scheduling and NAT, without I/O or a clock.
//!
//! An [`Engine`] is one worker's share of a layer-4 load balancer in FULLNAT
//! mode for TCP and UDP over IPv4: a client's packets to a virtual address are
//! sent to a real server from a local address and port, and the replies find
//! their way back by that port. Engines share nothing but the immutable
//! [`Snapshot`] of the configuration.
//!
//! Packets go in by bursts ([`Engine::process_burst`]), are rewritten in place,
//! and come out with a [`Verdict`] each; what has to be told to others collects
//! as [`Effect`]s. Time comes in as [`Tick`]s, housekeeping happens in
//! [`Engine::tick`], a bounded piece at a time.
//!
//! Where to read on: `burst` is the path of a packet, `session` how sessions
//! begin and end, `offload` their life in the switch, `ports` and `index` the
//! two look-up structures, `expiry` the sweep.

mod addr_map;
mod api;
mod burst;
mod counters;
mod drops;
mod engine;
mod expiry;
mod explain;
mod hash;
mod icmp;
mod index;
mod limit;
mod offload;
mod ports;
mod prefetch;
mod record;
mod rewrite;
pub mod sched;
mod session;
mod snapshot;
mod state;
mod time;

pub use api::{
    AdoptError, Adoption, CloseReason, ClosedSession, Effect, FlowPair, Offloaded, PacketIn,
    Redirect, RejectReason, RemoveReason, SessionId, Totals, Verdict,
};
pub use counters::{Counters, Gauges, VipStats};
pub use drops::DropReason;
pub use engine::{Engine, EngineConfig, EngineError};
pub use explain::{Explanation, SessionInfo, Tuple};
pub use hash::HashKeys;
pub use ports::{FIRST_PORT, PortUse, SHARDS};
pub use sched::Scheduler;
pub use snapshot::{
    Local, OffloadPolicy, Protocol, Server, ServerState, Snapshot, SnapshotError, SnapshotSpec,
    Timeouts, Vip, source_hash,
};
pub use state::{Direction, Offload, State};
pub use time::{TICK_MS, Tick, ticks};
