//! The slow path of a load director (LD): first packets, sessions, and requests
//! to offload.
//!
//! ```text
//!  port queue n ──rx──► worker n ──tx──► port queue n
//!                        │    ▲ redirect rings (one per pair of workers)
//!              events ring    commands ring
//!                        ▼    │
//!                      control thread ◄──offload.v1──► offload-ctl
//! ```
//!
//! Read in this order:
//!
//! * [`tunnel`] reads the outer headers and turns them round in place.
//! * [`worker`] is the path of a frame; [`io`] is where frames come from.
//! * [`message`] is what workers and the control thread say to each other.
//! * [`control`] talks to offload-ctl; [`book`] is its memory of what is on the
//!   switch; [`snapshot`] and [`convert`] translate.
//! * [`preflight`] and [`start`] go from a configuration to running workers.
//! * [`report`], [`status`] and [`http`] are what the process says about itself.

#![forbid(unsafe_code)]

pub mod book;
pub mod clock;
pub mod control;
pub mod convert;
pub mod drops;
pub mod http;
pub mod io;
pub mod message;
pub mod preflight;
pub mod report;
pub mod snapshot;
pub mod start;
pub mod status;
pub mod tunnel;
pub mod worker;
