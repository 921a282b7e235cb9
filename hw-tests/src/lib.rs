//! What the packet suite, the "fast equals slow" test and the switch
//! benchmark share: a P4Runtime switch in a network namespace of its own,
//! with raw sockets on its ports.
//!
//! From the bottom up: [`netns`] and [`wire`] are the links, [`target`],
//! [`controller`] and [`rig`] the running switch ([`embedded`] is one without
//! links), [`frame`] builds packets, [`scene`] is the
//! gateway that the tests configure, [`books`] reads all counters, and
//! [`fixture`] states what a packet must cause.
//!
//! Expected packets are built from nothing by etherparse and by the RFCs, and
//! never derived from what a switch or the slow path put out.

pub mod books;
pub mod controller;
pub mod embedded;
pub mod fixture;
pub mod frame;
pub mod netns;
pub mod rig;
pub mod scene;
pub mod target;
pub mod wire;
