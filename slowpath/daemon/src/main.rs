//! The slow path: first packets, sessions, requests to offload.

fn main() {}
