//! What Rust needs to know of the P4 program, generated from its P4Info.
