//! Sessions, scheduling and NAT, without I/O or a clock.
