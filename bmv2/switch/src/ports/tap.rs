//! A port on a TAP device: the host's network stack is at the other end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;

use super::PortError;
use super::batch::TxBatch;
use super::counters::{PortCounters, TxLoss};
use super::sys::{self, Link};

/// Longest frame that the device hands over, in bytes: the greatest MTU, an
/// Ethernet header and two VLAN tags.
const MAX_FRAME: usize = 65_535 + 14 + 8;

/// The receiving half.
#[derive(Debug)]
pub(super) struct TapRx {
    fd: Arc<OwnedFd>,
    buffer: Vec<u8>,
    /// The device has been deleted: there is nothing to wait for.
    gone: bool,
    counters: Arc<PortCounters>,
}

/// The sending half.
#[derive(Debug, Clone)]
pub(super) struct TapTx {
    fd: Arc<OwnedFd>,
    counters: Arc<PortCounters>,
}

/// Makes the device and sets it up, or attaches to one that is there and
/// leaves it as it is.
pub(super) fn open(
    port: u16,
    interface: &str,
    counters: &Arc<PortCounters>,
) -> Result<(TapRx, TapTx, Option<Link>), PortError> {
    let failed = |action: &'static str| {
        move |source: io::Error| PortError::Io {
            port,
            interface: interface.to_owned(),
            action,
            source,
        }
    };
    if let Some(problem) = problem_of_name(interface) {
        return Err(PortError::TapName {
            port,
            interface: interface.to_owned(),
            problem,
        });
    }
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")
        .or_else(|_| std::net::UdpSocket::bind("[::]:0"))
        .map_err(failed("open a socket"))?;
    let before = sys::link(socket.as_fd(), interface).map_err(failed("look up the interface"))?;
    let fd = sys::open_tap(interface).map_err(|source| {
        let interface = interface.to_owned();
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => PortError::TapNotPermitted { port, interface },
            Some(libc::EBUSY) => PortError::TapInUse { port, interface },
            Some(libc::EINVAL) if before.is_some() => PortError::NotTap { port, interface },
            _ => failed("open /dev/net/tun for a TAP device")(source),
        }
    })?;
    if before.is_none() {
        sys::set_up(socket.as_fd(), interface).map_err(failed("set the TAP device up"))?;
    }
    let fd = Arc::new(fd);
    let rx = TapRx {
        fd: Arc::clone(&fd),
        buffer: vec![0; MAX_FRAME],
        gone: false,
        counters: Arc::clone(counters),
    };
    let link = sys::link(socket.as_fd(), interface).map_err(failed("look up the interface"))?;
    let counters = Arc::clone(counters);
    Ok((rx, TapTx { fd, counters }, link))
}

/// Why the kernel would take no device of this name, or give it another one.
fn problem_of_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("the name is empty");
    }
    if name.len() >= libc::IFNAMSIZ {
        return Some("names have at most 15 bytes");
    }
    let stranger = |c: char| c.is_ascii_whitespace() || matches!(c, '/' | ':' | '%' | '\0');
    if name.contains(stranger) || name == "." || name == ".." {
        return Some("names have no `/`, `:`, `%` or blank, and are not `.` or `..`");
    }
    None
}

impl TapRx {
    pub(super) fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let (mut packets, mut bytes) = (0, 0);
        while packets < max {
            match nix::unistd::read(&self.fd, &mut self.buffer) {
                Ok(length @ 1..) => {
                    packets += 1;
                    bytes += length as u64;
                    sink(&self.buffer[..length]);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EBADFD) => {
                    self.gone = true;
                    break;
                }
                _ => break,
            }
        }
        if packets > 0 {
            self.counters.received(packets as u64, bytes);
        }
        packets
    }

    /// What to wait for; nothing once the device has gone, of which `poll`
    /// would tell without end.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.gone).then(|| self.fd.as_fd())
    }

    /// The descriptor, to ask about its device.
    pub(super) fn share_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }
}

impl TapTx {
    pub(super) fn send(&self, batch: &TxBatch) {
        for i in 0..batch.len() {
            let packet = batch.packet(i);
            let result = loop {
                match nix::unistd::write(&self.fd, packet) {
                    Err(Errno::EINTR) => {}
                    other => break other,
                }
            };
            match result {
                Ok(_) => self.counters.sent(1, packet.len() as u64),
                // The device is down, or has been deleted.
                Err(Errno::EIO | Errno::EBADFD) => self.counters.lost(TxLoss::PortDown, 1),
                Err(Errno::EAGAIN | Errno::ENOBUFS) => self.counters.lost(TxLoss::QueueFull, 1),
                Err(_) => self.counters.lost(TxLoss::Refused, 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sys::isolated::isolated;
    use super::*;

    fn refusal(interface: &str) -> Option<String> {
        let result = open(1, interface, &Arc::default());
        result.err().map(|error| error.to_string())
    }

    #[test]
    fn names_that_no_device_can_have_are_told_from_others() {
        for (name, problem) in [
            ("sixteen-bytes-16", "15 bytes"),
            ("a/b", "`/`"),
            ("tap%d", "`%`"),
            ("..", "`..`"),
        ] {
            let text = refusal(name).unwrap();
            assert!(text.contains(name) && text.contains(problem), "{text}");
        }
        assert_eq!(problem_of_name("fifteen-bytes-1"), None);
    }

    #[test]
    fn what_is_in_the_way_of_a_device_is_said() {
        let found = isolated(|| {
            // Without /dev/net/tun, or the right to use it, nothing is to be seen.
            let held = open(2, "t0", &Arc::default()).ok()?;
            let texts = [refusal("lo")?, refusal("t0")?];
            drop(held);
            Some(texts)
        });
        let Some(Some([other, twice])) = found else {
            println!("SKIPPED: no TAP device in a network namespace of its own");
            return;
        };
        assert!(
            other.contains("lo is there and is no TAP device"),
            "{other}"
        );
        assert!(other.contains("-i 1@lo"), "{other}");
        assert!(twice.contains("the TAP device t0 is in use"), "{twice}");
    }
}
