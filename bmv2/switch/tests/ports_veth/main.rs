//! Ports on real interfaces: two hosts in network namespaces of their own talk
//! through the switch. The kernel on both ends is the judge: it hands a datagram
//! to the socket only if every byte came through. Tagged frames, which the
//! kernel may not be able to make, go from tap to tap.
//!
//! Needs root, `ip` and `ethtool`; prints SKIPPED otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod hosts;
mod namespaces;
mod sockets;
mod switch;
mod taps;
mod xdp;
mod xdp_queues;

/// The hosts, by the ports that they are at.
const HOSTS: [u16; 2] = [1, 2];
