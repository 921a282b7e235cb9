//! The controller: desired state, switch programming, offloaded flows.
//!
//! offload-ctl is the only P4Runtime primary of a switch. Operators' intent
//! comes in by `offload.v1`'s Admin service, load directors by its Offload
//! service; out go table entries, snapshots and answers. The parts that decide
//! (`desired`, `flows`, `reconcile`, `neighbors`) are state machines without
//! I/O, [`core`] ties them together, and [`dataplane::Dataplane`] is all that
//! they know of a switch.

pub mod books;
pub mod core;
pub mod dataplane;
pub mod desired;
pub mod entry;
pub mod flows;
pub mod frames;
pub mod grpc;
pub mod http;
pub mod ids;
pub mod maglev;
pub mod neighbors;
pub mod reconcile;
pub mod serve;
pub mod session;
pub mod store;
pub mod wire;
