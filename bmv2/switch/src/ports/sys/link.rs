//! What the system says of a network interface.

#![allow(unsafe_code, reason = "interface ioctls have no safe wrapper")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// The MTU of an interface in bytes.
pub(in crate::ports) fn mtu(fd: BorrowedFd<'_>, interface: &str) -> io::Result<u32> {
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

/// Whether an interface is administratively up.
pub(in crate::ports) fn is_up(fd: BorrowedFd<'_>, interface: &str) -> io::Result<bool> {
    let mut request = interface_request(interface)?;
    // SAFETY: SIOCGIFFLAGS reads the name in `request`, which is terminated,
    // and writes its `ifru_flags`.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    check(result)?;
    // SAFETY: the call has just written this member of the union, and every
    // bit pattern is a valid integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

fn interface_request(interface: &str) -> io::Result<libc::ifreq> {
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
