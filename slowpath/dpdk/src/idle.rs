//! Sleeping when there is nothing to do, and being woken.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There may be packets, in the queue or in a ring.
    Work,
    /// The time is over.
    Timeout,
}

/// Wakes one sleeping worker from other threads. Clones wake the same worker.
///
/// A call while the worker is awake costs one atomic read: it can follow every
/// hand-over through a ring.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: OwnedFd,
    armed: AtomicBool,
}

impl Waker {
    /// A waker.
    ///
    /// # Errors
    ///
    /// The system's, when it is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: creates a file descriptor.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(Arc::new(Inner {
            // SAFETY: a new descriptor that nobody else has.
            event: unsafe { OwnedFd::from_raw_fd(fd) },
            armed: AtomicBool::new(false),
        })))
    }

    /// Wakes the worker if it sleeps or is about to.
    #[inline]
    pub fn wake(&self) {
        // The fence pairs with the one in `wait`: either the worker sees what was put
        // into the ring before this call, or this thread sees the worker armed.
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.0.armed.load(Ordering::Relaxed) && self.0.armed.swap(false, Ordering::AcqRel) {
            let one: u64 = 1;
            // SAFETY: writes eight bytes from `one`. It can only fail when the counter is
            // full, and then the worker is awake already.
            unsafe {
                libc::write(self.0.event.as_raw_fd(), (&raw const one).cast(), 8);
            }
        }
    }

    fn disarm(&self) -> bool {
        let mut count: u64 = 0;
        let woken = !self.0.armed.swap(false, Ordering::AcqRel);
        if woken {
            // SAFETY: reads eight bytes into `count`; the descriptor does not block.
            unsafe {
                libc::read(self.0.event.as_raw_fd(), (&raw mut count).cast(), 8);
            }
        }
        woken
    }
}

pub(crate) fn wait(
    socket: Option<BorrowedFd<'_>>,
    limit: Duration,
    waker: Option<&Waker>,
    still_idle: impl FnOnce() -> bool,
) -> Wake {
    if let Some(waker) = waker {
        waker.0.armed.store(true, Ordering::Relaxed);
        std::sync::atomic::fence(Ordering::SeqCst);
    }
    let idle = still_idle();
    let readable = idle && poll(socket, waker, limit);
    let woken = waker.is_some_and(Waker::disarm);
    if readable || woken || !idle {
        Wake::Work
    } else {
        Wake::Timeout
    }
}

/// Whether a descriptor became readable within the limit.
fn poll(socket: Option<BorrowedFd<'_>>, waker: Option<&Waker>, limit: Duration) -> bool {
    let entry = |fd: i32| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // poll() ignores entries with a negative descriptor.
    let mut fds = [
        entry(socket.map_or(-1, |fd| fd.as_raw_fd())),
        entry(waker.map_or(-1, |waker| waker.0.event.as_raw_fd())),
    ];
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: the array has two entries; a null signal mask leaves it as it is.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &raw const limit, std::ptr::null()) };
    // An error (a signal) counts as work: the caller looks and comes back.
    ready != 0
}
