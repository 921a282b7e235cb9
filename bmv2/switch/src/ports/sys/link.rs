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

/// How many queues an interface uses. Those of the lowest numbers are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) struct Queues {
    /// To receive.
    pub(in crate::ports) receive: u32,
    /// To send.
    pub(in crate::ports) send: u32,
}

/// `struct ethtool_channels` of linux/ethtool.h: most of each kind, and how
/// many are in use.
#[repr(C)]
#[derive(Debug, Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

impl From<Channels> for Queues {
    /// A combined channel is a queue of each kind.
    fn from(channels: Channels) -> Self {
        Self {
            receive: channels.combined.saturating_add(channels.receive),
            send: channels.combined.saturating_add(channels.send),
        }
    }
}

/// Asks the driver for the queues in use; `None` if it does not tell.
pub(in crate::ports) fn queues(fd: BorrowedFd<'_>, interface: &str) -> io::Result<Option<Queues>> {
    const ETHTOOL_GCHANNELS: u32 = 0x3c;
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    let mut request = interface_request(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: SIOCETHTOOL with this command reads the name in `request`, which
    // is terminated, and writes what `ifru_data` points to, which has the
    // layout that it wants and outlives the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    match check(result) {
        Ok(()) => Ok(Some(channels.into())),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::super::{isolated::isolated, packet_socket};
    use super::*;

    #[test]
    fn combined_channels_are_queues_of_both_kinds() {
        let channels = Channels {
            combined: 8,
            receive: 2,
            ..Channels::default()
        };
        let queues = Queues {
            receive: 10,
            send: 8,
        };
        assert_eq!(Queues::from(channels), queues);
    }

    #[test]
    fn queues_are_those_that_an_interface_was_made_with() {
        let found = isolated(|| {
            let made = std::process::Command::new("ip")
                .args(["link", "add", "v0", "numrxqueues", "3", "numtxqueues", "2"])
                .args(["type", "veth", "peer", "name", "v1"])
                .status();
            made.is_ok_and(|status| status.success()).then(|| {
                let socket = packet_socket().unwrap();
                ["v0", "lo"].map(|name| queues(socket.as_fd(), name).unwrap())
            })
        });
        let Some(Some(found)) = found else {
            println!("SKIPPED: no veth pair in a network namespace of its own");
            return;
        };
        let made = Queues {
            receive: 3,
            send: 2,
        };
        // The loopback interface's driver does not tell.
        assert_eq!(found, [Some(made), None]);
    }
}
