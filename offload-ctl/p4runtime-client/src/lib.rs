//! A P4Runtime client: arbitration, pipeline, batched writes, reads, packet I/O.
//!
//! [`Client::connect`] opens the stream channel and takes part in arbitration;
//! what the switch sends comes as [`Event`]s. The client does not reconnect by
//! itself: after [`Event::Disconnected`] the owner connects again, because only
//! it knows what has to be read back and written anew.
//!
//! Every call has a deadline ([`Deadlines`]). The outcome of a write is told
//! update by update ([`WriteOutcome`]), from the codes of the protocol and never
//! from words.

mod batch;
mod channel;
mod client;
mod error;
mod event;
mod key;
mod options;
mod outcome;
mod stream;
mod tls;

pub use batch::BatchLimits;
pub use channel::open as open_channel;
pub use client::Client;
pub use error::Error;
pub use event::{Arbitration, Disconnect, Event, Events};
pub use key::{EntityKey, entity_key};
pub use options::{ConnectOptions, Deadlines};
pub use outcome::{Failures, UpdateError, UpdateStatus, WriteOutcome};
pub use p4runtime_proto::entry;
pub use tls::{Tls, TlsFileError};
