//! The lab: namespaces, processes, traffic and the report.

fn main() {}
