//! Choosing a server. Pure functions and small states, one copy a worker.

mod maglev;
mod wrr;

pub use maglev::{Maglev, table_size};
pub use wrr::SmoothWrr;

/// How a VIP spreads its sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// One after the other, whatever the weight (unless it is zero).
    #[default]
    RoundRobin,
    /// In proportion to the weights, interleaved as evenly as possible.
    WeightedRoundRobin,
    /// By the client's address, through a Maglev table.
    SourceHash,
}
