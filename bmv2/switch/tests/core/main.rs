//! Whole packets through the switch, byte for byte.

mod build;
mod gateway;
mod gateway_path;
