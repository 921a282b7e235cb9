//! AF_XDP sockets (the kernel's af_xdp document): the rings and the memory that
//! packets are in. The crate `xdp` has the rings; that a packet does not
//! outlive its memory is seen to here.

#![allow(
    unsafe_code,
    reason = "the crate leaves it to its user that packets do not outlive their memory"
)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab as _};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{CompletionRing, RingConfigBuilder, RxRing, Umem, WakableFillRing, WakableTxRing};

/// Longest packet in bytes: a frame is a page, of which the kernel keeps 256
/// bytes (XDP_PACKET_HEADROOM).
pub(in crate::ports) const XDP_MAX_PACKET: usize = 4096 - 256;
/// Packets that move between a ring and this side at a time.
const MOVE: usize = 64;
/// Frames for packets to send.
const TX_FRAMES: u32 = 1024;

/// A socket on one queue of an interface.
pub(in crate::ports) struct XskSocket {
    // The order of the fields is that in which they are dropped: the memory
    // comes last.
    received: HeapSlab,
    to_send: HeapSlab,
    socket: XdpSocket,
    rx: RxRing,
    fill: WakableFillRing,
    tx: WakableTxRing,
    completion: CompletionRing,
    umem: Umem,
    /// Frames that the fill ring had no room for.
    owed: usize,
    /// What [`Self::take_losses`] has told already.
    told: XskLosses,
}

// SAFETY: what keeps the fields from being sent are packets, pointers into the
// memory that this value owns; nothing of it is tied to a thread.
unsafe impl Send for XskSocket {}

impl std::fmt::Debug for XskSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XskSocket").finish_non_exhaustive()
    }
}

/// Packets that the kernel lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::ports) struct XskLosses {
    /// Received: the receive ring was full, or there was no frame for it.
    pub(in crate::ports) rx: u64,
    /// To be sent: the kernel took offence at the descriptor.
    pub(in crate::ports) tx: u64,
}

impl XskSocket {
    /// Opens a socket in copy mode on queue `queue` of the interface with this
    /// index. About `frames` received packets have room.
    pub(in crate::ports) fn open(interface: u32, queue: u32, frames: usize) -> io::Result<Self> {
        let rx_frames = u32::try_from(frames.clamp(64, 8192)).unwrap_or(8192);
        // Rings are powers of two. Twice as many places as frames: the kernel
        // says late which places it has done with.
        let ring = rx_frames.next_power_of_two() * 2;
        let config = UmemCfgBuilder {
            frame_size: FrameSize::FourK,
            frame_count: rx_frames + TX_FRAMES,
            ..UmemCfgBuilder::default()
        };
        let umem = config.build().map_err(io::Error::other)?;
        let mut umem = Umem::map(umem)?;
        let rings = RingConfigBuilder {
            rx_count: ring,
            fill_count: ring,
            tx_count: TX_FRAMES * 2,
            completion_count: TX_FRAMES * 2,
        };
        let rings = rings.build().map_err(io::Error::other)?;
        let mut builder = XdpSocketBuilder::new().map_err(system_error)?;
        let (rings, mut flags) = builder
            .build_wakable_rings(&umem, rings)
            .map_err(system_error)?;
        flags.force_copy();
        let mut fill = rings.fill_ring;
        // SAFETY: `umem` is dropped after the socket: by the order of the
        // fields, and here too, where it is declared before the socket.
        unsafe { fill.enqueue(&mut umem, rx_frames as usize, false)? };
        let socket = builder
            .bind(NicIndex(interface), queue, flags)
            .map_err(system_error)?;
        let (Some(rx), Some(tx)) = (rings.rx_ring, rings.tx_ring) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(Self {
            received: HeapSlab::with_capacity(MOVE),
            to_send: HeapSlab::with_capacity(MOVE),
            socket,
            rx,
            fill,
            tx,
            completion: rings.completion_ring,
            umem,
            owed: 0,
            told: XskLosses::default(),
        })
    }

    /// A descriptor of the socket to wait for packets with.
    pub(in crate::ports) fn clone_fd(&self) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor is open as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }.try_clone_to_owned()
    }

    /// Gives the packets that have come in to `sink`, at most 64 or so;
    /// returns how many.
    pub(in crate::ports) fn receive(&mut self, mut sink: impl FnMut(&[u8])) -> usize {
        // SAFETY: the packets stay in `received`, which is emptied below.
        let count = unsafe { self.rx.recv(&self.umem, &mut self.received) };
        while let Some(packet) = self.received.pop_back() {
            sink(&packet);
            self.umem.free_packet(packet);
        }
        let wanted = self.owed + count;
        if wanted > 0 {
            // SAFETY: `umem` is dropped after the socket. In copy mode the
            // kernel needs no waking, so the call cannot fail.
            let done = unsafe { self.fill.enqueue(&mut self.umem, wanted, false) };
            self.owed = wanted - done.unwrap_or(0);
        }
        count
    }

    /// Puts a packet where [`Self::submit`] takes it from. False if there is
    /// no room before packets have been submitted and sent, or if it is
    /// longer than [`XDP_MAX_PACKET`].
    pub(in crate::ports) fn stage(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > XDP_MAX_PACKET || self.to_send.available() == 0 {
            return false;
        }
        self.completion.dequeue(&mut self.umem, MOVE);
        // What is owed to the fill ring is not for sending.
        if self.umem.allocatable() <= self.owed {
            return false;
        }
        // SAFETY: the packet goes into `to_send`, which is dropped before
        // `umem`, or back.
        let Some(mut packet) = (unsafe { self.umem.alloc() }) else {
            return false;
        };
        if packet.append(bytes).is_err() {
            self.umem.free_packet(packet);
            return false;
        }
        match self.to_send.push_front(packet) {
            None => true,
            Some(packet) => {
                self.umem.free_packet(packet);
                false
            }
        }
    }

    /// Hands the staged packets to the send ring; returns how many.
    /// [`Self::kick`] sends them.
    pub(in crate::ports) fn submit(&mut self) -> usize {
        // SAFETY: `umem` is dropped after the socket.
        unsafe { self.tx.send(&mut self.to_send, false) }.unwrap_or(0)
    }

    /// Has the kernel send what is in the send ring; `WouldBlock` if it has
    /// not sent all.
    pub(in crate::ports) fn kick(&self) -> io::Result<()> {
        // SAFETY: no data and no address are given.
        let result = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        match result {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// What the kernel lost since the last call.
    pub(in crate::ports) fn take_losses(&mut self) -> io::Result<XskLosses> {
        let now = self.socket.statistics().map_err(system_error)?;
        let now = XskLosses {
            rx: now.rx_dropped + now.rx_ring_full + now.rx_invalid_descs,
            tx: now.tx_invalid_descs,
        };
        let then = std::mem::replace(&mut self.told, now);
        Ok(XskLosses {
            rx: now.rx.saturating_sub(then.rx),
            tx: now.tx.saturating_sub(then.tx),
        })
    }
}

/// How many receive queues the interface uses.
pub(in crate::ports) fn rx_queues(interface: u32) -> io::Result<u32> {
    Ok(NicIndex(interface).queue_counts()?.rx_count())
}

fn system_error(error: SocketError) -> io::Error {
    match error {
        SocketError::SocketCreation(inner)
        | SocketError::Bind(inner)
        | SocketError::SetSockOpt { inner, .. }
        | SocketError::GetSockOpt { inner, .. }
        | SocketError::RingMap { inner, .. } => inner,
    }
}
