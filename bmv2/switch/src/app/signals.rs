//! Which signals end the switch.

use anyhow::Context as _;
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The signals that end the switch: SIGTERM, and SIGINT unless whoever started
/// the switch has it ignored, as a shell without job control does for what it
/// runs in the background.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    pub(super) fn new() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let interrupt = if is_ignored(Signal::SIGINT) {
            tracing::debug!("SIGINT is ignored, as it was when the switch was started");
            None
        } else {
            Some(signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?)
        };
        Ok(Self {
            terminate,
            interrupt,
        })
    }

    /// Waits for one of them.
    pub(super) async fn wait(mut self) {
        let interrupt = async {
            match &mut self.interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = interrupt => {}
        }
    }
}

/// Whether this process ignores a signal.
fn is_ignored(signal: Signal) -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| ignored(&status) & (1 << (signal as i32 - 1)) != 0)
}

/// The signals that a process ignores (proc(5)), a bit for each.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn ignored_signals_are_found() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\n";
        assert_eq!(ignored(status), 0x1003);
        assert_eq!(ignored("Name:\tsoftswitch\n"), 0);
    }
}
