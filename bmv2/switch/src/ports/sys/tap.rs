//! TAP devices (the kernel's tuntap document).

#![allow(
    unsafe_code,
    reason = "TUNSETIFF and SIOCSIFFLAGS have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use super::check;
use super::link::{flags, interface_request};

/// Makes a TAP device, or attaches to one that is there; whole frames come and
/// go without anything before them. It goes away with the descriptor, unless
/// it was made to stay.
pub(in crate::ports) fn open_tap(interface: &str) -> io::Result<OwnedFd> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = interface_request(interface)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which `request` is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    check(result)?;
    Ok(file.into())
}

/// Whether a descriptor from [`open_tap`] still has its device, which may have
/// another name or be in another network namespace by now.
pub(in crate::ports) fn has_tap(fd: BorrowedFd<'_>) -> bool {
    // Filled in by the kernel; the name in it does not matter.
    let Ok(mut request) = interface_request("") else {
        return false;
    };
    // SAFETY: TUNGETIFF writes an ifreq, which `request` is.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) };
    check(result).is_ok()
}

/// Sets an interface up. Any socket of the network namespace will do.
pub(in crate::ports) fn set_up(fd: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    let mut request = interface_request(interface)?;
    let wanted = flags(fd, interface)? | libc::IFF_UP;
    request.ifr_ifru.ifru_flags = wanted as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads the name and the flags in `request`.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(result)
}
