//! What the system says of a network interface.

#![allow(unsafe_code, reason = "interface ioctls have no safe wrapper")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// The MTU of an interface in bytes.
fn mtu(fd: BorrowedFd<'_>, interface: &str) -> io::Result<u32> {
    let mut request = interface_request(interface)?;
    // SAFETY: SIOCGIFMTU reads the name in `request`, which is terminated, and
    // writes its `ifru_mtu`.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    check(result)?;
    // SAFETY: the call has just written this member of the union, and every
    // bit pattern is a valid integer.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The state of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) struct Link {
    /// Its index: another one after it was deleted and made again.
    pub(in crate::ports) index: u32,
    /// Its MTU in bytes.
    pub(in crate::ports) mtu: u32,
    /// Administratively up.
    pub(in crate::ports) up: bool,
    /// Up, and with a carrier.
    pub(in crate::ports) running: bool,
}

/// Looks an interface up; `None` if there is none of this name. Any socket of
/// the network namespace will do.
pub(in crate::ports) fn link(fd: BorrowedFd<'_>, interface: &str) -> io::Result<Option<Link>> {
    let gone = |error: &io::Error| {
        matches!(
            error.raw_os_error(),
            Some(libc::ENODEV | libc::ENXIO | libc::EINVAL)
        ) || error.kind() == io::ErrorKind::InvalidInput
    };
    let look = || -> io::Result<Link> {
        let flags = flags(fd, interface)?;
        Ok(Link {
            index: nix::net::if_::if_nametoindex(interface)?,
            mtu: mtu(fd, interface)?,
            up: flags & libc::IFF_UP != 0,
            running: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
        })
    };
    match look() {
        Ok(link) => Ok(Some(link)),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn flags(fd: BorrowedFd<'_>, interface: &str) -> io::Result<i32> {
    let mut request = interface_request(interface)?;
    // SAFETY: SIOCGIFFLAGS reads the name in `request`, which is terminated,
    // and writes its `ifru_flags`.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    check(result)?;
    // SAFETY: the call has just written this member of the union, and every
    // bit pattern is a valid integer.
    Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
}

pub(super) fn interface_request(interface: &str) -> io::Result<libc::ifreq> {
    let name = CString::new(interface).map_err(|_| io::ErrorKind::InvalidInput)?;
    let bytes = name.as_bytes_with_nul();
    let mut ifr_name = [0; libc::IFNAMSIZ];
    if bytes.len() > ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_mtu: 0 },
    })
}
