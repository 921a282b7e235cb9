//! Shows that softswitch behaves as bmv2 does.
//!
//! [`stf_suite`] compiles p4c's sample programs from a checkout that the user
//! has and runs their STF tests in memory; [`load_suite`] only loads them, but
//! all. Below them, [`samples`] finds the programs, [`compiler`] runs
//! `p4c-bm2-ss`, and [`child`] runs a program with a deadline.
//! [`differential`] runs softswitch and bmv2 side by side.

pub mod child;
pub mod compiler;
pub mod differential;
mod each;
pub mod load_suite;
pub mod samples;
pub mod stf_suite;
