//! Development tasks: lab, test, bench, p4, ci.

fn main() {}
