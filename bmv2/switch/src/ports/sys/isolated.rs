//! A network namespace for a test.

/// Runs on a thread in a network namespace of its own, where the loopback
/// interface, of index [`LOOPBACK`], is up; `None` if that is not allowed.
pub(in crate::ports) fn isolated<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let thread = std::thread::spawn(|| {
        use nix::sched::{CloneFlags, unshare};
        unshare(CloneFlags::CLONE_NEWNET).ok()?;
        set_loopback("up").then(work)
    });
    thread.join().unwrap()
}

/// The first interface of every namespace.
pub(super) const LOOPBACK: u32 = 1;

/// Sets the loopback interface `up` or `down`; whether that worked.
pub(super) fn set_loopback(state: &str) -> bool {
    let status = std::process::Command::new("ip")
        .args(["link", "set", "lo", state])
        .status();
    status.is_ok_and(|status| status.success())
}
