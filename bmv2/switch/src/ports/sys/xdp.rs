//! AF_XDP sockets (the kernel's af_xdp document): the rings and the memory that
//! packets are in. The crate `xdp` has the rings; that a packet does not
//! outlive its memory is seen to here.

#![allow(
    unsafe_code,
    reason = "the crate leaves it to its user that packets do not outlive their memory"
)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab as _};
use xdp::socket::{SocketError, XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{CompletionRing, RingConfigBuilder, RxRing, Umem, WakableFillRing, WakableTxRing};

use super::prefetch::prefetch;

/// Longest packet in bytes: a frame is a page, of which the kernel keeps 256
/// bytes (XDP_PACKET_HEADROOM).
pub(in crate::ports) const XDP_MAX_PACKET: usize = 4096 - 256;
/// Packets that move between a ring and this side at a time.
const MOVE: usize = 64;
/// Cache lines of a packet that are asked for early: all of a short one.
const PREFETCH_LINES: usize = 2;
/// Fewest and most frames for packets that come in, or that go out.
const FRAMES: std::ops::RangeInclusive<usize> = 64..=8192;

/// How packets get between the interface and a socket's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) enum XskMode {
    /// The driver has the hardware use the memory. Only some drivers do.
    ZeroCopy,
    /// The kernel copies them, whatever the driver.
    Copy,
}

/// A socket on one queue of an interface.
pub(in crate::ports) struct XskSocket {
    // The order of the fields is that in which they are dropped: the memory
    // comes last.
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
    mode: XskMode,
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

/// How many packets of each direction a socket has room for, about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) struct XskFrames {
    /// Received, until they are processed.
    pub(in crate::ports) receive: usize,
    /// Under way to the interface; 0 if the socket is not for sending.
    pub(in crate::ports) send: usize,
}

impl XskSocket {
    /// Opens a socket on queue `queue` of the interface with this index. It is
    /// an error if that is in use, or if the driver cannot do as `mode` says.
    pub(in crate::ports) fn open(
        interface: u32,
        queue: u32,
        frames: XskFrames,
        mode: XskMode,
    ) -> io::Result<Self> {
        let within = |frames: usize| frames.clamp(*FRAMES.start(), *FRAMES.end()) as u32;
        let rx_frames = within(frames.receive);
        let tx_frames = frames.send.min(*FRAMES.end()) as u32;
        // Rings are powers of two. Twice as many places as frames: the kernel
        // says late which places it has done with.
        let rx_ring = rx_frames.next_power_of_two() * 2;
        let tx_ring = within(frames.send).next_power_of_two() * 2;
        let config = UmemCfgBuilder {
            frame_size: FrameSize::FourK,
            frame_count: rx_frames + tx_frames,
            ..UmemCfgBuilder::default()
        };
        let umem = config.build().map_err(io::Error::other)?;
        let mut umem = Umem::map(umem)?;
        let rings = RingConfigBuilder {
            rx_count: rx_ring,
            fill_count: rx_ring,
            tx_count: tx_ring,
            completion_count: tx_ring,
        };
        let rings = rings.build().map_err(io::Error::other)?;
        let mut builder = XdpSocketBuilder::new().map_err(system_error)?;
        let (rings, mut flags) = builder
            .build_wakable_rings(&umem, rings)
            .map_err(system_error)?;
        match mode {
            XskMode::ZeroCopy => flags.force_zerocopy(),
            XskMode::Copy => flags.force_copy(),
        }
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
            to_send: HeapSlab::with_capacity(MOVE),
            socket,
            rx,
            fill,
            tx,
            completion: rings.completion_ring,
            umem,
            owed: 0,
            told: XskLosses::default(),
            mode,
        })
    }

    /// A descriptor of the socket to wait for packets with.
    pub(in crate::ports) fn clone_fd(&self) -> io::Result<OwnedFd> {
        // SAFETY: the descriptor is open as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }.try_clone_to_owned()
    }

    /// Moves packets that have come in to `taken`, as many as have room there.
    fn take(&mut self, taken: &mut HeapSlab) {
        // SAFETY: [`XskRx`] keeps them no longer than this socket.
        unsafe { self.rx.recv(&self.umem, taken) };
    }

    /// Lets the kernel use the memory of packets again that [`Self::take`] gave.
    fn give_back(&mut self, processed: &mut HeapSlab) {
        let mut wanted = self.owed;
        while let Some(packet) = processed.pop_back() {
            self.umem.free_packet(packet);
            wanted += 1;
        }
        // SAFETY: `umem` is dropped after the socket. Without a wake-up the
        // call does not fail.
        let done = unsafe { self.fill.enqueue(&mut self.umem, wanted, false) }.unwrap_or(0);
        self.owed = wanted - done;
        if done > 0 && self.mode == XskMode::ZeroCopy {
            self.wake_receiving();
        }
    }

    /// Tells a driver that may have stopped for want of frames that there are
    /// some again.
    fn wake_receiving(&self) {
        // SAFETY: no memory is given to write to. A failure needs no answer:
        // the interface is down, or the driver is busy already.
        unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
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

/// Takes packets from a socket. While they are processed the socket is not
/// locked: some may leave by it.
pub(in crate::ports) struct XskRx {
    /// Packets in the socket's memory, so they are dropped before it.
    taken: HeapSlab,
    processed: HeapSlab,
    socket: Arc<Mutex<XskSocket>>,
}

// SAFETY: as for `XskSocket`, which owns the memory that the packets are in and
// lives as long as this value.
unsafe impl Send for XskRx {}

impl std::fmt::Debug for XskRx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XskRx").finish_non_exhaustive()
    }
}

impl XskRx {
    pub(in crate::ports) fn new(socket: Arc<Mutex<XskSocket>>) -> Self {
        Self {
            taken: HeapSlab::with_capacity(MOVE),
            processed: HeapSlab::with_capacity(MOVE),
            socket,
        }
    }

    /// Whether there are packets to [`receive`](Self::receive).
    pub(in crate::ports) fn is_ready(&mut self) -> bool {
        if self.taken.is_empty() {
            self.socket.lock().take(&mut self.taken);
        }
        !self.taken.is_empty()
    }

    /// Gives `max` packets that have come in to `sink`, or up to 64 more if
    /// that many are there; returns how many.
    pub(in crate::ports) fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < max && self.is_ready() {
            count += self.taken.len();
            let mut next = self.taken.pop_back();
            while let Some(packet) = next {
                next = self.taken.pop_back();
                if let Some(next) = &next {
                    prefetch(next.as_ptr(), PREFETCH_LINES);
                }
                sink(&packet);
                // Has room: it is as large as `taken`.
                self.processed.push_front(packet);
            }
            self.socket.lock().give_back(&mut self.processed);
        }
        count
    }
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
