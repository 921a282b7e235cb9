//! The P4Runtime server over gRPC on a loopback port, with the program
//! `testdata/p4rt/p4rt.p4` and ports inside the process.

mod arbitration;
mod packets;
mod pipeline;
mod profiles;
mod resources;
mod support;
mod tables;
