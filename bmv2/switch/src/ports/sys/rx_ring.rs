//! The receive ring of a packet socket.

#![allow(
    unsafe_code,
    reason = "frames shared with the kernel have no safe wrapper"
)]

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use super::prefetch::prefetch;
use super::ring::{Mapping, RingLayout};
use super::set_option;

/// Cache lines of a frame that are asked for early: the kernel's header and 64
/// bytes of packet, which begin at byte 70 or so.
const PREFETCH_LINES: usize = 3;

/// A receive ring shared with the kernel.
#[derive(Debug)]
pub(in crate::ports) struct RxRing {
    frames: Mapping,
    next: usize,
}

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
        Ok(Self {
            frames: Mapping::new(fd, libc::PACKET_RX_RING, layout)?,
            next: 0,
        })
    }

    /// Whether [`Self::take`] would return a frame.
    pub(in crate::ports) fn is_ready(&self) -> bool {
        self.frames.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next packet that the kernel has put into the ring.
    pub(in crate::ports) fn take(&mut self) -> Option<RxFrame<'_>> {
        let index = self.next;
        let status = self.frames.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = self.frames.after(index);
        prefetch(self.frames.frame(self.next).as_ptr(), PREFETCH_LINES);
        Some(RxFrame {
            ring: self,
            index,
            status,
        })
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
        let frame = self.ring.frames.frame(self.index);
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
        let frame = self.ring.frames.frame(self.index);
        // SAFETY: the kernel does not touch the frame until it is given back,
        // the borrow of `self` keeps it from being given back, and the frame
        // is `frame_size` bytes long.
        unsafe { std::slice::from_raw_parts_mut(frame.as_ptr(), self.ring.frames.frame_size()) }
    }
}

impl Drop for RxFrame<'_> {
    fn drop(&mut self) {
        self.ring
            .frames
            .status(self.index)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}
