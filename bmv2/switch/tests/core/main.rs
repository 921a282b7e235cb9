//! Whole packets through the switch, byte for byte.

mod build;
mod expressions;
mod externs;
mod gateway;
mod gateway_path;
mod tables;
