//! Shows that softswitch behaves as bmv2 does.
//!
//! [`stf_suite`] compiles p4c's sample programs from a checkout that the user
//! has and runs their STF tests in memory. Below it, [`samples`] finds the
//! programs, [`compiler`] runs `p4c-bm2-ss`, and [`child`] runs a program with
//! a deadline.

pub mod child;
pub mod compiler;
pub mod differential;
pub mod samples;
pub mod stf_suite;
