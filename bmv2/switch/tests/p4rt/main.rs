//! The P4Runtime server over gRPC on a loopback port, with the program
//! `testdata/p4rt/p4rt.p4` and ports inside the process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cloned_ref_to_slice_refs,
    reason = "a test fails by panicking"
)]

mod adoption;
mod arbitration;
mod canonical;
mod compat;
mod defaults;
mod digests;
mod keepalive;
mod limits;
mod meters;
mod packets;
mod pipeline;
mod preinitialized;
mod profiles;
mod ranges;
#[path = "../readable/mod.rs"]
mod readable;
mod reads;
mod resources;
mod rollback;
mod routes;
mod sizes;
mod support;
mod tables;
mod tls;
mod translation;
mod value_sets;
