//! Memory that a packet socket and the kernel share: frames in blocks
//! (TPACKET_V2, packet(7) and the kernel's packet_mmap document).

#![allow(
    unsafe_code,
    reason = "a mapping shared with the kernel has no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::set_option;

/// Sizes of a ring. The kernel wants blocks of whole pages and frames
/// that do not cross them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) struct RingLayout {
    frame_size: usize,
    frames_per_block: usize,
    block_size: usize,
    blocks: usize,
}

/// Bytes of a frame that are not the packet's: header, address, alignment,
/// reserve.
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

    /// How many frames there are.
    pub(super) fn frames(&self) -> usize {
        self.frames_per_block * self.blocks
    }

    /// Where a frame begins.
    fn offset(&self, frame: usize) -> usize {
        (frame / self.frames_per_block) * self.block_size
            + (frame % self.frames_per_block) * self.frame_size
    }
}

/// The frames of one ring, mapped.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    layout: RingLayout,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Has the kernel make the ring, by PACKET_RX_RING or PACKET_TX_RING, and
    /// maps it. The socket must have no other ring.
    pub(super) fn new(fd: BorrowedFd<'_>, ring: i32, layout: RingLayout) -> io::Result<Self> {
        let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let request = libc::tpacket_req {
            tp_block_size: u32::try_from(layout.block_size).map_err(too_large)?,
            tp_block_nr: u32::try_from(layout.blocks).map_err(too_large)?,
            tp_frame_size: u32::try_from(layout.frame_size).map_err(too_large)?,
            tp_frame_nr: u32::try_from(layout.frames()).map_err(too_large)?,
        };
        set_option(fd, libc::SOL_PACKET, ring, &request)?;
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
        Ok(Self { base, layout })
    }

    pub(super) fn frames(&self) -> usize {
        self.layout.frames()
    }

    pub(super) fn frame_size(&self) -> usize {
        self.layout.frame_size
    }

    /// The frame after this one.
    pub(super) fn after(&self, index: usize) -> usize {
        if index + 1 == self.layout.frames() {
            0
        } else {
            index + 1
        }
    }

    /// Where a frame begins: aligned to 256, [`frame_size`](Self::frame_size)
    /// bytes long. `index` must be below [`frames`](Self::frames).
    #[inline(always)]
    pub(super) fn frame(&self, index: usize) -> NonNull<u8> {
        debug_assert!(index < self.layout.frames());
        // SAFETY: `index` is below the number of frames, so the offset is
        // within the mapping.
        unsafe { self.base.add(self.layout.offset(index)) }
    }

    /// The word by which both sides say whose the frame is.
    #[inline(always)]
    pub(super) fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: a frame begins with tp_status, a u32 at an address aligned
        // to 256, which both sides access atomically, and the mapping lives as
        // long as `self`.
        unsafe { AtomicU32::from_ptr(self.frame(index).as_ptr().cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made; whoever points into it
        // borrows it.
        unsafe {
            libc::munmap(
                self.base.as_ptr().cast(),
                self.layout.block_size * self.layout.blocks,
            );
        }
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
