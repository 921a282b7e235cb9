//! Waking a thread that sleeps in `poll`.

#![allow(
    unsafe_code,
    reason = "eventfd has no safe wrapper in the version of nix that is used"
)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Wakes a worker that sleeps in `poll`.
#[derive(Debug)]
pub(in crate::ports) struct Wake {
    fd: OwnedFd,
}

impl Wake {
    pub(in crate::ports) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the result is checked before it
        // becomes an owned descriptor.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Makes the next or current `poll` return.
    pub(in crate::ports) fn signal(&self) {
        // Fails only when the counter is about to overflow: then it is set
        // anyway.
        let _ = nix::unistd::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes all signals back.
    pub(in crate::ports) fn clear(&self) {
        let _ = nix::unistd::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_is_sticky_until_cleared() {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let wake = Wake::new().unwrap();
        let ready = |wake: &Wake| {
            let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::ZERO).unwrap()
        };
        assert_eq!(ready(&wake), 0);
        wake.signal();
        wake.signal();
        assert_eq!(ready(&wake), 1);
        wake.clear();
        assert_eq!(ready(&wake), 0);
    }
}
