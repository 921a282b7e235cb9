//! Whole packets through the switch, byte for byte.

mod build;
mod externs;
mod gateway;
mod gateway_path;
mod tables;
