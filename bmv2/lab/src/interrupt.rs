//! Ctrl-C and SIGTERM end the lab in order: what it waits for fails, and what
//! it made is removed on the way out.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Watches for SIGINT and SIGTERM on `runtime`.
///
/// # Errors
/// If the handlers can't be set.
pub fn watch(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let _guard = runtime.enter();
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    runtime.spawn(async move {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
        }
        INTERRUPTED.store(true, Ordering::Relaxed);
    });
    Ok(())
}

/// Fails once the lab was interrupted.
///
/// # Errors
/// If it was.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}
