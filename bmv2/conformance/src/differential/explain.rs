//! The differences that are meant. Each has an id; `docs/softswitch-differences.md`
//! says what it is about.

use super::step::{Outcome, Step};

/// A known difference.
pub struct Known {
    /// Its id in the documentation.
    pub id: &'static str,
    applies: fn(&Step, &Outcome, &Outcome) -> bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[];

/// The id of the explanation of a difference.
pub fn explain(
    _program: &str,
    step: &Step,
    ours: &Outcome,
    theirs: &Outcome,
) -> Option<&'static str> {
    KNOWN
        .iter()
        .find(|known| (known.applies)(step, ours, theirs))
        .map(|known| known.id)
}
