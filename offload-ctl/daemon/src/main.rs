//! The controller: desired state, switch programming, offloaded flows.

fn main() {}
