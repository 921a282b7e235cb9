//! A port on a network interface by AF_XDP: packets come past the kernel's own
//! protocols.
//!
//! Each receive queue of the interface has a socket, which one worker reads, so
//! that the packets of a flow stay in order as the interface keeps them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use super::counters::{PortCounters, TxLoss};
use super::sys::{
    self, Link, Queues, Redirect, XDP_MAX_PACKET, XskFrames, XskMode, XskRx, XskSocket,
};
use super::vlan;
use super::xdp_tx::{ETHERNET, XdpTx};
use super::{PortError, XdpProblem};

/// Most receive queues: each takes a few MiB that are never paged out.
const MAX_QUEUES: u32 = 64;
/// Fewest packets that a queue has room for, if the port has for so many.
const MIN_QUEUE_FRAMES: usize = 512;
/// Room for packets under way to the interface.
const SEND_FRAMES: usize = 1024;

/// Longest MTU: what a frame has room for besides an Ethernet header and two
/// VLAN tags.
const MAX_MTU: usize = XDP_MAX_PACKET - ETHERNET - 2 * vlan::TAG_LEN;

/// How often and after how long a queue in use is tried again: the kernel lets
/// it go some time after its socket was closed.
const BUSY_RETRIES: u32 = 20;
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// What all ends share.
#[derive(Debug)]
pub(super) struct XdpPort {
    // Detached first.
    redirect: Redirect,
    /// Keeps the interface promiscuous.
    promiscuous: OwnedFd,
    port: u16,
    interface: String,
    index: u32,
    mode: XskMode,
    /// Room for received packets in each queue.
    frames: usize,
    /// That of each receive queue.
    sockets: Mutex<Vec<Arc<Mutex<XskSocket>>>>,
    /// The number of receive queues that could not be served, if there is one.
    refused: AtomicU32,
    mtu: AtomicU32,
    counters: Arc<PortCounters>,
}

/// The receiving end of a queue, for one worker.
#[derive(Debug)]
pub(super) struct XdpRx {
    queue: XskRx,
    /// To wait with.
    fd: OwnedFd,
    counters: Arc<PortCounters>,
}

/// An interface that has been opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) port: Arc<XdpPort>,
    /// Of each worker, the queues that it reads and where it sends.
    pub(super) ends: Vec<(Vec<XdpRx>, XdpTx)>,
    /// What the interface was like.
    pub(super) link: Link,
}

/// Opens all receive queues of an interface. `ring_frames` is the number of
/// packets the kernel can hold for each worker.
pub(super) fn open(
    port: u16,
    interface: &str,
    ring_frames: usize,
    workers: usize,
    counters: &Arc<PortCounters>,
) -> Result<Opened, PortError> {
    let problem = |problem: XdpProblem| PortError::Xdp {
        port,
        interface: interface.to_owned(),
        problem,
    };
    let failed = |action: &'static str| move |source: io::Error| problem(why(action, source));
    let promiscuous = sys::packet_socket().map_err(failed("open a packet socket"))?;
    let link = sys::link(promiscuous.as_fd(), interface)
        .map_err(failed("look up the interface"))?
        .ok_or_else(|| PortError::NoInterface {
            port,
            interface: interface.to_owned(),
        })?;
    if link.mtu as usize > MAX_MTU {
        return Err(problem(XdpProblem::Mtu { mtu: link.mtu }));
    }
    let queues =
        sys::queues(promiscuous.as_fd(), interface).map_err(failed("count the receive queues"))?;
    let wanted = Wanted {
        interface: link.index,
        queues,
        ring_frames,
        workers,
    };
    let opened = match wanted.open(XskMode::ZeroCopy) {
        Err(no_zero_copy) => {
            tracing::debug!(port, interface, %no_zero_copy, "no zero-copy");
            wanted.open(XskMode::Copy)
        }
        opened => opened,
    };
    let OpenQueues {
        sockets,
        fds,
        redirect,
        mode,
        frames,
    } = opened.map_err(problem)?;
    sys::set_promiscuous(promiscuous.as_fd(), link.index)
        .map_err(failed("switch to promiscuous mode"))?;
    tracing::info!(
        port,
        interface,
        queues = sockets.len(),
        zero_copy = mode == XskMode::ZeroCopy,
        "receiving by AF_XDP"
    );
    // Of a driver that tells nothing, only the first one is known to exist.
    let send_queues = queues.map_or(1, |queues| queues.send.max(1) as usize);
    let senders: Vec<_> = sockets.iter().take(workers.min(send_queues)).collect();
    let shared = Arc::new(XdpPort {
        redirect,
        promiscuous,
        port,
        interface: interface.to_owned(),
        index: link.index,
        mode,
        frames,
        sockets: Mutex::new(sockets.clone()),
        refused: AtomicU32::new(0),
        mtu: AtomicU32::new(link.mtu),
        counters: Arc::clone(counters),
    });
    let mut ends: Vec<_> = (0..workers)
        .map(|worker| {
            let socket = senders[worker % senders.len()];
            let tx = XdpTx::new(Arc::clone(socket), &shared, counters);
            (Vec::new(), tx)
        })
        .collect();
    for (queue, (socket, fd)) in sockets.into_iter().zip(fds).enumerate() {
        let rx = XdpRx::new(socket, fd, counters);
        ends[queue % workers].0.push(rx);
    }
    Ok(Opened {
        port: shared,
        ends,
        link,
    })
}

/// What is to be opened.
struct Wanted {
    /// Index of the interface.
    interface: u32,
    /// `None` if the driver does not tell.
    queues: Option<Queues>,
    ring_frames: usize,
    workers: usize,
}

struct OpenQueues {
    sockets: Vec<Arc<Mutex<XskSocket>>>,
    /// To wait with, in the same order.
    fds: Vec<OwnedFd>,
    redirect: Redirect,
    mode: XskMode,
    /// Room for received packets in each.
    frames: usize,
}

impl Wanted {
    fn open(&self, mode: XskMode) -> Result<OpenQueues, XdpProblem> {
        let queues = self.queues.map(|queues| queues.receive.max(1));
        if let Some(queues) = queues
            && queues > MAX_QUEUES
        {
            return Err(XdpProblem::Queues { queues });
        }
        let frames = share(self.ring_frames, queues.unwrap_or(1), self.workers);
        let (mut sockets, mut fds) = (Vec::new(), Vec::new());
        for queue in 0..queues.unwrap_or(MAX_QUEUES) {
            let frames = XskFrames {
                receive: frames,
                // As many as there are workers are for sending too.
                send: if (queue as usize) < self.workers {
                    SEND_FRAMES
                } else {
                    0
                },
            };
            let (socket, fd) = match open_queue(self.interface, queue, frames, mode) {
                // There are no more.
                Err(XdpProblem::Io { source, .. })
                    if queues.is_none()
                        && queue > 0
                        && source.raw_os_error() == Some(libc::EINVAL) =>
                {
                    break;
                }
                opened => opened?,
            };
            sockets.push(socket);
            fds.push(fd);
        }
        let borrowed: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
        // Only a driver's own XDP has zero-copy.
        let native = mode == XskMode::ZeroCopy;
        let redirect = Redirect::attach(self.interface, native, MAX_QUEUES, &borrowed)
            .map_err(|source| why("load and attach an XDP program", source))?;
        Ok(OpenQueues {
            sockets,
            fds,
            redirect,
            mode,
            frames,
        })
    }
}

/// What each queue gets of the room that a port has for each worker.
fn share(ring_frames: usize, queues: u32, workers: usize) -> usize {
    let of_a_worker = (queues as usize).div_ceil(workers.max(1));
    (ring_frames / of_a_worker).max(ring_frames.min(MIN_QUEUE_FRAMES))
}

fn open_queue(
    interface: u32,
    queue: u32,
    frames: XskFrames,
    mode: XskMode,
) -> Result<(Arc<Mutex<XskSocket>>, OwnedFd), XdpProblem> {
    let mut retries = 0;
    let socket = loop {
        match XskSocket::open(interface, queue, frames, mode) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && retries < BUSY_RETRIES => {
                retries += 1;
                std::thread::sleep(BUSY_WAIT);
            }
            opened => break opened.map_err(|source| why("open an AF_XDP socket", source))?,
        }
    };
    let fd = socket
        .clone_fd()
        .map_err(|source| why("share a socket", source))?;
    Ok((Arc::new(Mutex::new(socket)), fd))
}

fn why(action: &'static str, source: io::Error) -> XdpProblem {
    match source.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => XdpProblem::Unsupported,
        Some(libc::EPERM | libc::EACCES) => XdpProblem::NotPermitted { action },
        Some(libc::EBUSY) => XdpProblem::Busy,
        Some(libc::ENOBUFS) => XdpProblem::Locked,
        _ => XdpProblem::Io { action, source },
    }
}

impl XdpPort {
    /// Counts what the kernel lost since the last call.
    pub(super) fn count_losses(&self) -> io::Result<()> {
        for socket in &*self.sockets.lock() {
            let losses = socket.lock().take_losses()?;
            self.counters.missed(losses.rx);
            self.counters.lost(TxLoss::Refused, losses.tx);
        }
        Ok(())
    }

    /// Sends what stayed in the send rings while the interface was down, now
    /// and not with the next packet, whenever that is.
    pub(super) fn send_late(&self) {
        for socket in &*self.sockets.lock() {
            if let Err(error) = socket.lock().kick() {
                tracing::debug!(port = self.port, %error, "packets are not sent");
            }
        }
    }

    /// Notes the interface's MTU in bytes.
    pub(super) fn set_mtu(&self, mtu: u32) {
        let before = self.mtu.swap(mtu, Relaxed);
        if mtu != before && mtu as usize > MAX_MTU {
            tracing::warn!(
                port = self.port,
                interface = self.interface,
                mtu,
                "packets that an MTU of {MAX_MTU} bytes does not allow are lost: \
                 `ip link set {} mtu {MAX_MTU}`, or use the port without `xdp:`",
                self.interface
            );
        }
    }

    /// Longest packet to send in bytes. As for packet sockets, one 802.1Q tag
    /// may come on top.
    pub(super) fn max_untagged(&self) -> usize {
        self.mtu.load(Relaxed) as usize + ETHERNET
    }

    /// Opens receive queues that the interface has got; returns an end for
    /// each, and its number. The kernel takes no queue away that has a socket.
    pub(super) fn follow_queues(&self) -> Vec<(usize, XdpRx)> {
        let Ok(Some(queues)) = sys::queues(self.promiscuous.as_fd(), &self.interface) else {
            return Vec::new();
        };
        let mut sockets = self.sockets.lock();
        let known = sockets.len() as u32;
        if queues.receive <= known {
            self.refused.store(0, Relaxed);
            return Vec::new();
        }
        let opened = if queues.receive > MAX_QUEUES {
            Err(XdpProblem::Queues {
                queues: queues.receive,
            })
        } else {
            (known..queues.receive)
                .map(|queue| self.open_further(queue))
                .collect::<Result<Vec<_>, _>>()
        };
        let (port, interface) = (self.port, &self.interface);
        match opened {
            Ok(new) => {
                tracing::info!(
                    port,
                    interface,
                    queues = queues.receive,
                    "the interface has more receive queues"
                );
                sockets.extend(new.iter().map(|(socket, _)| Arc::clone(socket)));
                (known as usize..)
                    .zip(new)
                    .map(|(queue, (socket, fd))| (queue, XdpRx::new(socket, fd, &self.counters)))
                    .collect()
            }
            Err(problem) => {
                // Tried again at the next look, but said once.
                if self.refused.swap(queues.receive, Relaxed) != queues.receive {
                    tracing::error!(
                        port,
                        interface,
                        served = known,
                        "the interface has more receive queues, whose packets do not reach \
                         the switch: AF_XDP {problem}"
                    );
                }
                Vec::new()
            }
        }
    }

    fn open_further(&self, queue: u32) -> Result<(Arc<Mutex<XskSocket>>, OwnedFd), XdpProblem> {
        let frames = XskFrames {
            receive: self.frames,
            send: 0,
        };
        let (socket, fd) = open_queue(self.index, queue, frames, self.mode)?;
        self.redirect
            .add(queue, fd.as_fd())
            .map_err(|source| why("send a queue's packets to its socket", source))?;
        Ok((socket, fd))
    }
}

impl XdpRx {
    fn new(socket: Arc<Mutex<XskSocket>>, fd: OwnedFd, counters: &Arc<PortCounters>) -> Self {
        Self {
            queue: XskRx::new(socket),
            fd,
            counters: Arc::clone(counters),
        }
    }

    pub(super) fn is_ready(&mut self) -> bool {
        self.queue.is_ready()
    }

    /// Gives up to `max` received packets to `sink`, or a few more; returns
    /// how many.
    pub(super) fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let mut bytes = 0;
        let packets = self.queue.receive(max, |packet| {
            bytes += packet.len() as u64;
            sink(packet);
        });
        if packets > 0 {
            self.counters.received(packets as u64, bytes);
        }
        packets
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn the_queues_of_a_worker_share_its_room() {
        assert_eq!(share(8192, 1, 1), 8192);
        assert_eq!(share(8192, 4, 1), 2048);
        // Three queues for one of the workers, two for the other.
        assert_eq!(share(9000, 5, 2), 3000);
        assert_eq!(share(8192, 2, 4), 8192);
        // Not so few that a burst is too much, but no more than are wanted.
        assert_eq!(share(8192, 64, 1), 512);
        assert_eq!(share(100, 4, 1), 100);
    }
}
