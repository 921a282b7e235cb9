//! Parsing and rewriting packets in place.
