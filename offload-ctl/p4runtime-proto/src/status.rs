//! The outcome of each update of a Write.
