//! A packet socket's receive ring in shared memory (TPACKET_V2, packet(7) and
//! the kernel's packet_mmap document).

#![allow(
    unsafe_code,
    reason = "a mapping shared with the kernel has no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::set_option;

/// Sizes of a receive ring. The kernel wants blocks of whole pages and frames
/// that do not cross them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) struct RingLayout {
    frame_size: usize,
    frames_per_block: usize,
    block_size: usize,
    blocks: usize,
}

/// Bytes of a frame before the packet: header, address, alignment, reserve.
const FRAME_OVERHEAD: usize = 128;
const BLOCK_SIZE: usize = 1 << 18;

impl RingLayout {
    /// A ring for at least `frames` packets of up to `packet_bytes` bytes.
    pub(in crate::ports) fn new(frames: usize, packet_bytes: usize) -> Self {
        let frame_size = (packet_bytes + FRAME_OVERHEAD)
            .next_multiple_of(256)
            .min(BLOCK_SIZE);
        let frames_per_block = BLOCK_SIZE / frame_size;
        Self {
            frame_size,
            frames_per_block,
            block_size: BLOCK_SIZE,
            blocks: frames.max(1).div_ceil(frames_per_block),
        }
    }

    fn frames(&self) -> usize {
        self.frames_per_block * self.blocks
    }

    fn offset(&self, frame: usize) -> usize {
        (frame / self.frames_per_block) * self.block_size
            + (frame % self.frames_per_block) * self.frame_size
    }
}

/// A receive ring shared with the kernel.
#[derive(Debug)]
pub(in crate::ports) struct RxRing {
    base: NonNull<u8>,
    layout: RingLayout,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Sets the ring up on an unbound packet socket and maps it. `headroom`
    /// bytes before each packet stay free.
    pub(in crate::ports) fn map(
        fd: BorrowedFd<'_>,
        layout: RingLayout,
        headroom: u32,
    ) -> io::Result<Self> {
        set_option(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &libc::tpacket_versions::TPACKET_V2,
        )?;
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RESERVE, &headroom)?;
        let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let request = libc::tpacket_req {
            tp_block_size: u32::try_from(layout.block_size).map_err(too_large)?,
            tp_block_nr: u32::try_from(layout.blocks).map_err(too_large)?,
            tp_frame_size: u32::try_from(layout.frame_size).map_err(too_large)?,
            tp_frame_nr: u32::try_from(layout.frames()).map_err(too_large)?,
        };
        set_option(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new shared mapping of the whole ring; the kernel checks
        // that the length is exactly the ring's.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                layout.block_size * layout.blocks,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            base,
            layout,
            next: 0,
        })
    }

    /// Whether [`Self::take`] would return a frame.
    pub(in crate::ports) fn is_ready(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next packet that the kernel has put into the ring.
    pub(in crate::ports) fn take(&mut self) -> Option<RxFrame<'_>> {
        let index = self.next;
        let status = self.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = if index + 1 == self.layout.frames() {
            0
        } else {
            index + 1
        };
        Some(RxFrame {
            ring: self,
            index,
            status,
        })
    }

    fn frame(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.layout.frames());
        // SAFETY: `index` is below the number of frames (`next` wraps there),
        // so the offset is within the mapping.
        unsafe { self.base.add(self.layout.offset(index)) }
    }

    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a frame begins with tp_status, a u32 at an address aligned
        // to 256, which both sides access atomically, and the mapping lives as
        // long as `self`.
        unsafe { AtomicU32::from_ptr(self.frame(index).as_ptr().cast()) }
    }
}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `map` made; no frame is borrowed,
        // since frames borrow the ring.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.layout.block_size * self.layout.blocks,
            );
        }
    }
}

/// A received packet in the ring; dropping it gives the frame back to the
/// kernel.
#[derive(Debug)]
pub(in crate::ports) struct RxFrame<'r> {
    ring: &'r mut RxRing,
    index: usize,
    status: u32,
}

/// What the kernel says about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) struct RxMeta {
    /// Where the packet begins in the frame.
    pub(in crate::ports) start: usize,
    /// Bytes of the packet that are in the frame.
    pub(in crate::ports) captured: usize,
    /// Bytes of the packet.
    pub(in crate::ports) length: usize,
    /// TPID and TCI of a tag that was taken out.
    pub(in crate::ports) vlan: Option<(u16, u16)>,
    /// The sender left the checksum to the hardware.
    pub(in crate::ports) checksum_unfinished: bool,
    /// Sent by this host, not received.
    pub(in crate::ports) outgoing: bool,
}

impl RxFrame<'_> {
    pub(in crate::ports) fn meta(&self) -> RxMeta {
        let frame = self.ring.frame(self.index);
        // SAFETY: the kernel has handed the frame over (TP_STATUS_USER was
        // read with acquire order), so it no longer writes to it; it begins
        // with a tpacket2_hdr of integers, suitably aligned.
        let header = unsafe { frame.cast::<libc::tpacket2_hdr>().read() };
        // SAFETY: as above; the address follows the header, which is 32 bytes
        // long and needs no more alignment.
        let address = unsafe {
            frame
                .add(size_of::<libc::tpacket2_hdr>())
                .cast::<libc::sockaddr_ll>()
                .read()
        };
        let vlan = (self.status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let tpid = if self.status & libc::TP_STATUS_VLAN_TPID_VALID != 0 {
                header.tp_vlan_tpid
            } else {
                0x8100
            };
            (tpid, header.tp_vlan_tci)
        });
        RxMeta {
            start: usize::from(header.tp_mac),
            captured: header.tp_snaplen as usize,
            length: header.tp_len as usize,
            vlan,
            checksum_unfinished: self.status & libc::TP_STATUS_CSUMNOTREADY != 0,
            outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
        }
    }

    /// The whole frame, headers of the ring included.
    pub(in crate::ports) fn buffer(&mut self) -> &mut [u8] {
        let frame = self.ring.frame(self.index);
        // SAFETY: the kernel does not touch the frame until it is given back,
        // the borrow of `self` keeps it from being given back, and the frame
        // is `frame_size` bytes long.
        unsafe { std::slice::from_raw_parts_mut(frame.as_ptr(), self.ring.layout.frame_size) }
    }
}

impl Drop for RxFrame<'_> {
    fn drop(&mut self) {
        self.ring
            .status(self.index)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stay_within_blocks() {
        for (frames, bytes) in [(4096, 1522), (100, 9018), (1, 60), (7, 65_536)] {
            let layout = RingLayout::new(frames, bytes);
            assert!(layout.frames() >= frames);
            assert!(layout.frame_size >= bytes + FRAME_OVERHEAD);
            assert_eq!(layout.frame_size % 16, 0);
            let mut end = 0;
            for i in 0..layout.frames() {
                let offset = layout.offset(i);
                assert!(offset >= end, "frame {i} overlaps the one before");
                end = offset + layout.frame_size;
                assert_eq!(offset / BLOCK_SIZE, (end - 1) / BLOCK_SIZE);
            }
            assert!(end <= layout.block_size * layout.blocks);
        }
    }
}
