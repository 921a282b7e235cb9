//! System calls for packet sockets that have no safe wrapper elsewhere: the
//! memory-mapped receive ring (TPACKET_V2, packet(7) and the kernel's
//! packet_mmap document), its socket options, and `sendmmsg`.

#![allow(
    unsafe_code,
    reason = "mmap, ioctl and packet socket options have no safe wrapper; all of it is in this module"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::socket::{MsgFlags, send};

/// Wakes a worker that sleeps in `poll`.
#[derive(Debug)]
pub(super) struct Wake {
    fd: OwnedFd,
}

impl Wake {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; the result is checked before it
        // becomes an owned descriptor.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Makes the next or current `poll` return.
    pub(super) fn signal(&self) {
        // Fails only when the counter is about to overflow: then it is set
        // anyway.
        let _ = nix::unistd::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Takes all signals back.
    pub(super) fn clear(&self) {
        let _ = nix::unistd::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A packet socket that receives nothing until [`bind`].
pub(super) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers; the result is checked.
    let fd = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            0,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds to an interface, for all protocols.
pub(super) fn bind(fd: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer and the length describe `address`, which outlives
    // the call.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    check(result)
}

/// Every packet on the wire, whatever its destination address.
pub(super) fn set_promiscuous(fd: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: i32::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(fd, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Not what this host sends on the interface, only what it receives.
pub(super) fn ignore_outgoing(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::PACKET_IGNORE_OUTGOING, &1i32)
}

/// Spreads the packets of an interface over several sockets by flow. `group`
/// is 0 for a new group; returns the group's id.
pub(super) fn join_fanout(fd: BorrowedFd<'_>, group: u16) -> io::Result<u16> {
    // From linux/if_packet.h.
    const UNIQUE_ID: u32 = 0x2000;
    const IGNORE_OUTGOING: u32 = 0x4000;
    let unique = if group == 0 { UNIQUE_ID } else { 0 };
    let join = |flags: u32| {
        let kind = libc::PACKET_FANOUT_HASH | unique | flags;
        let value = (u32::from(group) | kind << 16).cast_signed();
        set_option(fd, libc::PACKET_FANOUT, &value)
    };
    // The group has a hook of its own, which knows nothing of the socket's
    // wish to ignore outgoing packets; older kernels do not know the flag.
    join(IGNORE_OUTGOING).or_else(|_| join(0))?;
    let joined: u32 = get_option(fd, libc::PACKET_FANOUT)?;
    Ok((joined & 0xffff) as u16)
}

/// Packets dropped by the kernel since the last call.
pub(super) fn take_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let [_packets, drops]: [u32; 2] = get_option(fd, libc::PACKET_STATISTICS)?;
    Ok(drops)
}

/// The MTU of an interface in bytes.
pub(super) fn mtu(fd: BorrowedFd<'_>, interface: &str) -> io::Result<u32> {
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

/// Whether an interface is administratively up.
pub(super) fn is_up(fd: BorrowedFd<'_>, interface: &str) -> io::Result<bool> {
    let mut request = interface_request(interface)?;
    // SAFETY: SIOCGIFFLAGS reads the name in `request`, which is terminated,
    // and writes its `ifru_flags`.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    check(result)?;
    // SAFETY: the call has just written this member of the union, and every
    // bit pattern is a valid integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

fn interface_request(interface: &str) -> io::Result<libc::ifreq> {
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

fn set_option<T: Copy>(fd: BorrowedFd<'_>, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, plain data that
    // outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

/// `T` must be integers or arrays of them: all bit patterns are valid.
fn get_option<T: Copy + Default>(fd: BorrowedFd<'_>, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`; the kernel writes
    // at most `length` bytes, and the callers in this module use integers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok(value)
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Most packets that one [`send_many`] takes.
pub(super) const SEND_BATCH: usize = 64;

/// Sends the packets that `packet(0..count)` returns, at most [`SEND_BATCH`],
/// without blocking. Returns how many were sent.
pub(super) fn send_many<'p>(
    fd: BorrowedFd<'_>,
    count: usize,
    packet: impl Fn(usize) -> &'p [u8],
) -> io::Result<usize> {
    let count = count.min(SEND_BATCH);
    if count == 1 {
        send(fd.as_raw_fd(), packet(0), MsgFlags::MSG_DONTWAIT)?;
        return Ok(1);
    }
    let mut vectors = [libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; SEND_BATCH];
    for (i, vector) in vectors.iter_mut().take(count).enumerate() {
        let bytes = packet(i);
        vector.iov_base = bytes.as_ptr().cast_mut().cast();
        vector.iov_len = bytes.len();
    }
    // SAFETY: all zeros is a valid mmsghdr: null pointers and zero lengths.
    let mut messages: [libc::mmsghdr; SEND_BATCH] = unsafe { std::mem::zeroed() };
    for (message, vector) in messages.iter_mut().zip(&mut vectors).take(count) {
        message.msg_hdr.msg_iov = std::ptr::from_mut(vector);
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `count` headers point to initialised vectors, which
    // point to packets borrowed for 'p; the kernel only reads the packets.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sizes of a receive ring. The kernel wants blocks of whole pages and frames
/// that do not cross them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingLayout {
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
    pub(super) fn new(frames: usize, packet_bytes: usize) -> Self {
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
pub(super) struct RxRing {
    base: NonNull<u8>,
    layout: RingLayout,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to a thread.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Sets the ring up on an unbound packet socket and maps it. `headroom`
    /// bytes before each packet stay free.
    pub(super) fn map(fd: BorrowedFd<'_>, layout: RingLayout, headroom: u32) -> io::Result<Self> {
        set_option(
            fd,
            libc::PACKET_VERSION,
            &libc::tpacket_versions::TPACKET_V2,
        )?;
        set_option(fd, libc::PACKET_RESERVE, &headroom)?;
        let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let request = libc::tpacket_req {
            tp_block_size: u32::try_from(layout.block_size).map_err(too_large)?,
            tp_block_nr: u32::try_from(layout.blocks).map_err(too_large)?,
            tp_frame_size: u32::try_from(layout.frame_size).map_err(too_large)?,
            tp_frame_nr: u32::try_from(layout.frames()).map_err(too_large)?,
        };
        set_option(fd, libc::PACKET_RX_RING, &request)?;
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
    pub(super) fn is_ready(&self) -> bool {
        self.status(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The next packet that the kernel has put into the ring.
    pub(super) fn take(&mut self) -> Option<RxFrame<'_>> {
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
pub(super) struct RxFrame<'r> {
    ring: &'r mut RxRing,
    index: usize,
    status: u32,
}

/// What the kernel says about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RxMeta {
    /// Where the packet begins in the frame.
    pub(super) start: usize,
    /// Bytes of the packet that are in the frame.
    pub(super) captured: usize,
    /// Bytes of the packet.
    pub(super) length: usize,
    /// TPID and TCI of a tag that was taken out.
    pub(super) vlan: Option<(u16, u16)>,
    /// The sender left the checksum to the hardware.
    pub(super) checksum_unfinished: bool,
    /// Sent by this host, not received.
    pub(super) outgoing: bool,
}

impl RxFrame<'_> {
    pub(super) fn meta(&self) -> RxMeta {
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
    pub(super) fn buffer(&mut self) -> &mut [u8] {
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

    #[test]
    fn wake_is_sticky_until_cleared() {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let wake = Wake::new().unwrap();
        let ready = |wake: &Wake| {
            let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::ZERO).unwrap()
        };
        assert_eq!(ready(&wake), 0);
        wake.signal();
        wake.signal();
        assert_eq!(ready(&wake), 1);
        wake.clear();
        assert_eq!(ready(&wake), 0);
    }
}
