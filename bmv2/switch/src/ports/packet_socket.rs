//! A port on a network interface: a packet socket with a receive ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::PortError;
use super::batch::TxBatch;
use super::counters::{PortCounters, TxLoss};
use super::sys::{self, FanoutGroup, Link, RingLayout, RxRing, SEND_BATCH};
use super::vlan;

/// How often a full transmit queue is tried again, and how long each wait for
/// room in it may last, in milliseconds.
const TX_RETRIES: u32 = 10;
const TX_WAIT_MS: u8 = 1;

/// Most memory of one receive ring, whatever the MTU: the kernel allocates all
/// of it at once and never pages it out.
const MAX_RING_BYTES: usize = 32 << 20;

/// Bytes beyond the MTU: Ethernet header and two VLAN tags.
const L2_OVERHEAD: usize = 14 + 2 * vlan::TAG_LEN;

/// The receiving half, for one worker.
#[derive(Debug)]
pub(super) struct PacketRx {
    port: u16,
    interface: String,
    // Before the descriptor, so that it is unmapped first.
    ring: RxRing,
    fd: Arc<OwnedFd>,
    counters: Arc<PortCounters>,
    /// Whether [`Self::start`] has something to do.
    gated: bool,
}

/// The sending half, for one worker.
#[derive(Debug)]
pub(super) struct PacketTx {
    fd: Arc<OwnedFd>,
    counters: Arc<PortCounters>,
}

/// Opens an interface for several workers, one pair of ends for each.
/// `ring_frames` is the number of packets the kernel can hold for a worker.
pub(super) fn open(
    port: u16,
    interface: &str,
    ring_frames: usize,
    workers: usize,
    counters: &Arc<PortCounters>,
) -> Result<Opened, PortError> {
    let mut group = (workers > 1).then_some(FanoutGroup::New);
    let mut ends = Vec::new();
    let mut link = None;
    for _ in 0..workers {
        let (rx, tx, joined, found) = open_one(port, interface, ring_frames, group, counters)?;
        group = joined;
        // If it changes meanwhile, the first one is what is found to be stale.
        link.get_or_insert(found);
        ends.push((rx, tx));
    }
    for (rx, _) in &ends {
        rx.start()?;
    }
    Ok(Opened { ends, link })
}

/// An interface that has been opened.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) ends: Vec<(PacketRx, PacketTx)>,
    /// What the interface was like.
    pub(super) link: Option<Link>,
}

/// Opens an interface for one worker. `fanout` is `None` for a single worker,
/// a new group for the first of several, and for the others what the first one
/// returned. With a group no packet comes in before [`PacketRx::start`].
fn open_one(
    port: u16,
    interface: &str,
    ring_frames: usize,
    fanout: Option<FanoutGroup>,
    counters: &Arc<PortCounters>,
) -> Result<(PacketRx, PacketTx, Option<FanoutGroup>, Link), PortError> {
    let failed = |action: &'static str| {
        move |source: io::Error| PortError::Io {
            port,
            interface: interface.to_owned(),
            action,
            source,
        }
    };
    let fd = sys::packet_socket().map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => PortError::NotPermitted {
            port,
            interface: interface.to_owned(),
        },
        _ => failed("open a packet socket")(source),
    })?;
    let link = sys::link(fd.as_fd(), interface)
        .map_err(failed("look up the interface"))?
        .ok_or_else(|| PortError::NoInterface {
            port,
            interface: interface.to_owned(),
        })?;
    if let Err(error) = sys::ignore_outgoing(fd.as_fd()) {
        // Before Linux 4.20; such packets are then skipped one by one.
        tracing::debug!(port, interface, %error, "outgoing packets are filtered here");
    }
    let packet_bytes = link.mtu as usize + L2_OVERHEAD;
    let ring_frames = ring_frames.min(MAX_RING_BYTES / packet_bytes);
    let layout = RingLayout::new(ring_frames, packet_bytes);
    let headroom = vlan::TAG_LEN as u32;
    let ring = RxRing::map(fd.as_fd(), layout, headroom).map_err(failed("map a receive ring"))?;
    if fanout.is_some() {
        sys::close_gate(fd.as_fd()).map_err(failed("attach a filter"))?;
    }
    sys::bind(fd.as_fd(), link.index).map_err(failed("bind to the interface"))?;
    sys::set_promiscuous(fd.as_fd(), link.index).map_err(failed("switch to promiscuous mode"))?;
    let fanout = fanout
        .map(|group| sys::join_fanout(fd.as_fd(), group))
        .transpose()
        .map_err(failed("share the port between workers"))?;
    let fd = Arc::new(fd);
    Ok((
        PacketRx {
            port,
            interface: interface.to_owned(),
            ring,
            fd: Arc::clone(&fd),
            counters: Arc::clone(counters),
            gated: fanout.is_some(),
        },
        PacketTx {
            fd,
            counters: Arc::clone(counters),
        },
        fanout,
        link,
    ))
}

impl PacketRx {
    /// Lets packets in, once all sockets of the port are in its group: from
    /// then on each packet comes to one of them.
    pub(super) fn start(&self) -> Result<(), PortError> {
        if !self.gated {
            return Ok(());
        }
        sys::open_gate(self.fd.as_fd()).map_err(|source| PortError::Io {
            port: self.port,
            interface: self.interface.clone(),
            action: "detach a filter",
            source,
        })
    }

    /// Gives up to `max` received packets to `sink`; returns how many.
    pub(super) fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let (mut packets, mut bytes) = (0usize, 0u64);
        while packets < max {
            let Some(mut frame) = self.ring.take() else {
                break;
            };
            let meta = frame.meta();
            if meta.outgoing {
                continue;
            }
            if meta.captured < meta.length {
                drop(frame);
                self.note_truncated(meta.length);
                continue;
            }
            let buffer = frame.buffer();
            let end = meta.start.saturating_add(meta.captured);
            let start = match meta.vlan {
                Some((tpid, tci)) => vlan::reinsert(buffer, meta.start, tpid, tci),
                None => Some(meta.start),
            };
            let Some(packet) = start.and_then(|start| buffer.get(start..end)) else {
                self.counters.truncated();
                continue;
            };
            packets += 1;
            bytes += packet.len() as u64;
            sink(packet);
            drop(frame);
            if meta.checksum_unfinished {
                self.note_unfinished();
            }
        }
        if packets > 0 {
            self.counters.received(packets as u64, bytes);
        }
        packets
    }

    /// Gives the socket up: what is still in its ring is lost.
    pub(super) fn abandon(mut self) {
        let mut lost = 0;
        while let Some(frame) = self.ring.take() {
            lost += u64::from(!frame.meta().outgoing);
        }
        self.counters.missed(lost);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The socket, for reading its statistics from elsewhere.
    pub(super) fn share_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// Takes the socket's pending error, so that `poll` can sleep again.
    pub(super) fn take_error(&self) {
        let error = nix::sys::socket::getsockopt(&self.fd, nix::sys::socket::sockopt::SocketError);
        match error {
            Ok(code) if code != 0 => {
                let error = io::Error::from_raw_os_error(code);
                tracing::warn!(port = self.port, interface = self.interface, %error, "port");
            }
            _ => {}
        }
    }

    #[cold]
    fn note_truncated(&self, length: usize) {
        if self.counters.truncated() == 0 {
            tracing::warn!(
                port = self.port,
                interface = self.interface,
                length,
                "dropped a packet longer than the interface's MTU; if the sender segments in \
                 hardware, switch that off at its end: `ethtool -K IFACE tx off tso off gso off`"
            );
        }
    }

    #[cold]
    fn note_unfinished(&self) {
        if self.counters.checksum_unfinished() == 0 {
            tracing::warn!(
                port = self.port,
                interface = self.interface,
                "a packet came without a finished checksum; \
                 switch checksum offload off at the sender: `ethtool -K IFACE tx off`"
            );
        }
    }
}

impl PacketTx {
    /// Sends all packets of the batch, or counts them as lost.
    pub(super) fn send(&self, batch: &TxBatch) {
        let (mut next, mut retries) = (0, 0);
        let (mut packets, mut bytes) = (0u64, 0u64);
        while next < batch.len() {
            let result = sys::send_many(self.fd.as_fd(), batch.len() - next, |i| {
                batch.packet(next + i)
            });
            match result {
                Ok(sent) => {
                    debug_assert!(sent <= SEND_BATCH);
                    for i in next..next + sent {
                        bytes += batch.packet(i).len() as u64;
                    }
                    packets += sent as u64;
                    next += sent;
                    retries = 0;
                }
                Err(error) if is_full(&error) && retries < TX_RETRIES => {
                    retries += 1;
                    self.wait_for_room();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // The error belongs to the first packet of the rest.
                    let (reason, lost) = match error.raw_os_error() {
                        Some(libc::EMSGSIZE) => (TxLoss::TooLong, 1),
                        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                            (TxLoss::PortDown, batch.len() - next)
                        }
                        _ if is_full(&error) => (TxLoss::QueueFull, batch.len() - next),
                        _ => (TxLoss::Refused, 1),
                    };
                    tracing::debug!(%error, lost, "packets not sent");
                    self.counters.lost(reason, lost as u64);
                    next += lost;
                }
            }
        }
        if packets > 0 {
            self.counters.sent(packets, bytes);
        }
    }

    fn wait_for_room(&self) {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
        let writable = matches!(poll(&mut fds, PollTimeout::from(TX_WAIT_MS)), Ok(1..));
        if writable {
            // ENOBUFS comes from the device's queue, which `poll` does not see.
            std::thread::yield_now();
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}
