//! The two parts of simple_switch_grpc's command line.

use std::ffi::{OsStr, OsString};

/// The option whose value may be left out.
const PCAP: &str = "--pcap";

/// A command line: options of bmv2, then those of its target behind a `--`.
/// Here both may stand in either part.
#[derive(Debug)]
pub(super) struct Line {
    common: Vec<OsString>,
    target: Vec<OsString>,
}

impl Line {
    pub(super) fn new(args: Vec<OsString>) -> Self {
        let mut parts = args.split(|arg| arg == "--");
        let common = parts.next().unwrap_or_default().to_vec();
        let target = parts.flatten().cloned().collect();
        Self { common, target }
    }

    /// All arguments, without what separates them.
    pub(super) fn args(&self) -> Vec<OsString> {
        let mut args = self.common.clone();
        // What follows the `--` is not its value.
        if let Some(last) = args.last_mut()
            && last == PCAP
        {
            last.push("=.");
        }
        args.extend_from_slice(&self.target);
        args
    }

    /// Leaves out an argument that nobody knows, if it is one for the target;
    /// false if it is not. bmv2 goes on without options too that its target
    /// does not know.
    pub(super) fn leave_out(&mut self, unknown: &str) -> bool {
        let at = self
            .target
            .iter()
            .position(|arg| is_or_assigns(arg, unknown));
        at.map(|at| self.target.remove(at)).is_some()
    }
}

/// Whether an argument is `name` or `name=VALUE`.
fn is_or_assigns(arg: &OsStr, name: &str) -> bool {
    let rest = arg.to_str().and_then(|arg| arg.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}
