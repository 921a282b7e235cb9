//! Whether an interface computes checksums on transmission, from the kernel.
//!
//! sysfs does not tell; the ethtool ioctl does (linux/ethtool.h,
//! ETHTOOL_GTXCSUM).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// "Get TX hw csum enable" of linux/ethtool.h.
const ETHTOOL_GTXCSUM: u32 = 0x16;

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Whether tx-checksumming is on.
///
/// # Errors
/// The kernel's: no such interface, or it does not support the question.
pub(super) fn tx_checksum(name: &str) -> io::Result<bool> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "no name of an interface");
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(|b| b == 0) {
        return Err(invalid());
    }
    // Any socket carries the question.
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let mut value = EthtoolValue {
        cmd: ETHTOOL_GTXCSUM,
        data: 0,
    };
    ask(&socket, name, &mut value)?;
    Ok(value.data != 0)
}

#[allow(unsafe_code)] // one ioctl that no safe interface offers
fn ask(socket: &UdpSocket, name: &str, value: &mut EthtoolValue) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: the socket is open for the whole call; `request` holds a name
    // that ends in a zero (its length was checked) and a pointer to an
    // ethtool_value that lives longer than the call and is used by nobody else.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_answers_and_nonsense_does_not() {
        // Loopback never computes checksums in software: the kernel has the
        // feature fixed to on.
        assert!(tx_checksum("lo").unwrap());
        assert!(tx_checksum("nosuch0").is_err());
        assert!(tx_checksum("").is_err());
        assert!(tx_checksum("a-name-that-is-too-long").is_err());
    }
}
