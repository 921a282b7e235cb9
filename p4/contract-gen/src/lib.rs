//! Compiles the P4 program and writes what Rust needs to know of it.
//!
//! Tables, keys, actions, counters and controller headers come from P4Info,
//! constants and enums from the sources (P4Info has no constants, and only
//! some of the enums). [`manifest`] records which sources gave which outputs,
//! so that [`check`] can tell, without a P4 compiler, whether what is
//! committed belongs together.

pub mod check;
pub mod compile;
pub mod generate;
pub mod layout;
pub mod manifest;
pub mod model;
pub mod programs;
pub mod render;
pub mod source;
