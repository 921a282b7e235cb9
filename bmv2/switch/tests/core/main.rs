//! Whole packets through the switch, byte for byte.

// Helpers of tests may fail the test.
#![allow(clippy::unwrap_used)]

mod atomic;
mod build;
mod checksums;
mod commands;
mod copies;
mod expressions;
mod externs;
mod gateway;
mod gateway_path;
mod loading;
mod lookup;
mod meters;
mod primitives;
mod queues;
mod recent;
mod small;
mod tables;
mod undo;
mod v1model;
mod workers;
