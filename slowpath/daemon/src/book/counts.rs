//! How many sessions the book has seen and has.

use super::State;

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Installations asked for by workers.
    pub requested: u64,
    /// Installations acknowledged.
    pub installed: u64,
    /// Installations refused.
    pub rejected: u64,
    /// Removals acknowledged.
    pub removed: u64,
    /// Entries lost without having been asked to go.
    pub evicted: u64,
    /// Requests that ended before they were sent.
    pub cancelled: u64,
    /// Entries of an earlier process taken over.
    pub adopted: u64,
    /// Acknowledgements of sessions that are not in the book.
    pub strays: u64,
    /// Requests and removals sent again, because no answer came or because the
    /// connection was lost.
    pub resent: u64,
}

/// Sessions in the book by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// On the way to the switch.
    pub requested: u64,
    /// On the switch.
    pub installed: u64,
    /// On the way out.
    pub removing: u64,
}

impl Fill {
    pub(super) fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Requested { .. } => &mut self.requested,
            State::Installed => &mut self.installed,
            State::Removing { .. } => &mut self.removing,
        }
    }
}
