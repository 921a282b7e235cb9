//! A port on a network interface: packet sockets with rings in shared memory.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::PortError;
use super::counters::PortCounters;
use super::packet_tx::{ETHERNET, MAX_BY_RING, PacketTx};
use super::sys::{self, FanoutGroup, Link, RingLayout, RxRing, TxRing};
use super::vlan;

/// Most memory of one receive ring, whatever the MTU: the kernel allocates all
/// of it at once and never pages it out.
const MAX_RING_BYTES: usize = 32 << 20;

/// Frames of a transmit ring, a few bursts, and most memory for them.
const TX_FRAMES: usize = 512;
const MAX_TX_RING_BYTES: usize = 4 << 20;

/// Bytes beyond the MTU: Ethernet header and two VLAN tags.
const L2_OVERHEAD: usize = ETHERNET + 2 * vlan::TAG_LEN;

/// The receiving half, for one worker.
#[derive(Debug)]
pub(super) struct PacketRx {
    port: u16,
    interface: String,
    // Before the descriptor, so that it is unmapped first.
    ring: RxRing,
    fd: Arc<OwnedFd>,
    counters: Arc<PortCounters>,
}

/// Opens an interface for several workers, one pair of ends for each.
/// `ring_frames` is the number of packets the kernel can hold for a worker.
/// No packet comes in before the gates of all sockets have been opened
/// ([`sys::open_gate`]): from then on each comes to one of them.
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
/// returned.
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
    sys::close_gate(fd.as_fd()).map_err(failed("attach a filter"))?;
    sys::bind(fd.as_fd(), link.index, sys::ALL_PROTOCOLS)
        .map_err(failed("bind to the interface"))?;
    sys::set_promiscuous(fd.as_fd(), link.index).map_err(failed("switch to promiscuous mode"))?;
    let fanout = fanout
        .map(|group| sys::join_fanout(fd.as_fd(), group))
        .transpose()
        .map_err(failed("share the port between workers"))?;
    let tx_bytes = packet_bytes.min(MAX_BY_RING);
    let tx_frames = TX_FRAMES.min(MAX_TX_RING_BYTES / tx_bytes);
    let tx_ring = TxRing::open(link.index, RingLayout::new(tx_frames, tx_bytes))
        .inspect_err(|error| tracing::debug!(port, interface, %error, "no transmit ring"))
        .ok();
    let fd = Arc::new(fd);
    let tx = PacketTx::new(tx_ring, link.mtu, Arc::clone(&fd), counters);
    Ok((
        PacketRx {
            port,
            interface: interface.to_owned(),
            ring,
            fd,
            counters: Arc::clone(counters),
        },
        tx,
        fanout,
        link,
    ))
}

impl PacketRx {
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
                let (port, interface) = (self.port, &self.interface);
                if code == libc::ENETDOWN {
                    tracing::warn!(
                        port,
                        interface,
                        "the interface has been set down: nothing comes in until it is up again"
                    );
                } else {
                    tracing::warn!(
                        port,
                        interface,
                        "receiving from the interface failed: {error}"
                    );
                }
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
