//! The AF_PACKET driver: what it does, how to configure it, and what this crate
//! adds to it.
//!
//! `net_af_packet` puts a DPDK port on a kernel interface (a veth in the lab)
//! through memory-mapped packet sockets. The facts below are of DPDK 22.11;
//! the tests of this crate hold those that matter.
//!
//! # Queues
//!
//! - `qpairs=N` opens N sockets in one fanout group of kind hash, with the
//!   flags *defragment* and *rollover*. The kernel hashes the outer addresses
//!   and ports, the same for both directions; the program cannot choose the
//!   queue, and `rte_flow` is not supported. VXLAN's outer source port decides
//!   for tunnelled packets, so a flow stays on a queue, but not on a particular
//!   one: packets of another worker's sessions must be expected and handed over
//!   through a [`ring`](crate::ring).
//! - *Rollover*: when the ring of the chosen queue is nearly full, the packet
//!   goes to another queue. Under overload a flow shows up on several workers,
//!   out of order.
//! - *Defragment*: the kernel reassembles IPv4 fragments before the sockets see
//!   them, also with one queue. The whole packet may be longer than the MTU and
//!   than a ring frame; see truncation. Fragments of inner packets in VXLAN are
//!   not touched.
//! - All queues must be polled: packets hashed to a queue that nobody reads
//!   fill its ring and are dropped there.
//!
//! # Rings and memory
//!
//! - `framesz` (default 2048) is one packet's place, `blocksz` (default: a
//!   page) what the kernel allocates at once, `framecnt` (default 512) the
//!   number of frames in each direction. The kernel wants `framesz` a multiple
//!   of 16, `blocksz` a multiple of the page size and `framecnt` a whole number
//!   of blocks; the driver lays frames out back to back, so `framesz` must
//!   divide `blocksz`. [`VdevArgs`] does this arithmetic.
//! - Each queue maps `2 * framesz * framecnt` bytes, locked: 2 MiB at the
//!   defaults.
//! - A frame received has `framesz - 66` bytes (1982 at the default), one sent
//!   `framesz - 32`. Buffers must have room for `framesz - 32` bytes, or the
//!   driver refuses the queue.
//! - **Truncation is silent**: a longer packet is cut to the ring frame, and
//!   the driver does not say so. TSO or GRO on the other end makes such
//!   packets: turn off `tso`, `gso` and `gro` on both ends of a veth. A packet
//!   whose IP length exceeds its frame must be dropped as truncated by whoever
//!   parses it.
//! - A packet longer than a transmit frame is dropped by the driver and counted
//!   in [`tx_errors`](crate::PortStats::tx_errors).
//!
//! # MTU
//!
//! The driver claims 1518 bytes as its largest frame whatever the ring holds,
//! so DPDK refuses an MTU above 1500 at configuration and later. The limit is
//! not enforced: with a larger ring frame, larger packets pass. This crate
//! therefore leaves the MTU to the kernel (`ip link set dev X mtu N`) and checks
//! at start that the ring frame, the buffers and the interface fit
//! [`PortConfig::mtu`](crate::PortConfig::mtu). A packet above the interface's
//! MTU (plus a VLAN tag) is dropped by the kernel when sent, without a count in
//! the driver: the socket option `PACKET_LOSS` skips it.
//!
//! # VLAN tags
//!
//! The kernel takes the outermost tag off and hands it over beside the packet;
//! the driver puts it back, so the program sees the frame as it was on the
//! wire, 802.1Q tag included. It always writes 0x8100: an outermost 802.1ad tag
//! (0x88a8) arrives as 0x8100, a limitation. Tags in packets to be sent are sent as they are.
//!
//! # Sending
//!
//! One `sendto` a burst starts transmission. `qdisc_bypass=1` is what the code
//! defaults to (its manual says 0): packets go to the interface's driver
//! directly, past queueing and past other packet sockets, so `tcpdump` on the
//! same interface does not show them. When the ring is full the call waits in
//! `poll`, which with this kind of socket returns at once, and then leaves the
//! rest unsent. When the kernel refuses the burst (interface down) the driver
//! frees it, says it was sent and counts
//! [`tx_errors`](crate::PortStats::tx_errors).
//!
//! # Receiving
//!
//! - The sockets work from [`Eal::init`](crate::Eal::init) on: packets that
//!   arrive before the port starts wait in the ring. Start drops them.
//! - A full ring drops packets in the kernel. The driver does not report these;
//!   this crate reads them from the sockets into
//!   [`rx_missed`](crate::PortStats::rx_missed).
//! - With no free buffer the driver leaves the packet in the ring: nothing is
//!   lost until the ring is full.
//! - The sockets also see what the host's kernel sends out of the interface. A
//!   socket filter, attached at start, leaves these out
//!   ([`PortConfig::ignore_outgoing`](crate::PortConfig::ignore_outgoing)).
//!   What the port itself sends never comes back to it.
//! - The kernel's own stack gets every received packet as well. It answers ARP,
//!   which is wanted, and would answer VXLAN packets to a UDP port that nobody
//!   listens on with ICMP port unreachable, which is not: whoever runs the port
//!   should bind a UDP socket to that port (and read nothing), or drop the
//!   packets in an ingress filter, which comes after the packet sockets.
//! - Checksums that the sender left to hardware arrive unfinished, and the
//!   driver does not say so: turn off `tx` checksum offload on the other end of
//!   a veth.
//!
//! # Waiting
//!
//! The sockets can be polled, so an idle worker sleeps until a packet comes:
//! [`RxQueue::wait`](crate::RxQueue::wait).
//!
//! # Life
//!
//! Stopping closes the sockets: a port that was stopped cannot be started
//! again, so this crate closes it as well and the process has no such port any
//! more. The interface is taken from the network namespace of the thread that
//! starts the EAL.

use std::{
    fmt, io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::error::{Error, Result};

/// Name of the driver.
pub const DRIVER: &str = "net_af_packet";

/// Default of the device argument `framesz`.
const DEFAULT_FRAME: u32 = 2048;

/// Bytes of a ring frame before a received packet: `tpacket2_hdr`, the socket
/// address and alignment (TPACKET_V2).
const RECEIVE_HEADER: u32 = 66;

/// Bytes of a ring frame before a packet to be sent: `tpacket2_hdr`, aligned.
const SEND_HEADER: u32 = 32;

/// Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: u32 = 22;

const PAGE: u32 = 4096;

/// Device arguments for an AF_PACKET port, consistent with each other.
///
/// ```
/// let args = dpdk::af_packet::VdevArgs::new(0, "veth0").queues(2).mtu(9000);
/// assert_eq!(
///     args.to_string(),
///     "net_af_packet0,iface=veth0,qpairs=2,framesz=16384,blocksz=16384,framecnt=512"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevArgs {
    index: u16,
    interface: String,
    queues: u16,
    mtu: u16,
    frames: u32,
}

impl VdevArgs {
    /// Port `net_af_packet<index>` on a kernel interface: one queue pair, MTU
    /// 1500, 512 frames in each direction.
    #[must_use]
    pub fn new(index: u16, interface: impl Into<String>) -> Self {
        Self {
            index,
            interface: interface.into(),
            queues: 1,
            mtu: 1500,
            frames: 512,
        }
    }

    /// Sets the number of queue pairs, at least one.
    #[must_use]
    pub fn queues(mut self, queues: u16) -> Self {
        self.queues = queues.max(1);
        self
    }

    /// Sets the largest IP packet to pass, in bytes.
    #[must_use]
    pub fn mtu(mut self, mtu: u16) -> Self {
        self.mtu = mtu;
        self
    }

    /// Sets the number of frames in each direction of each queue; rounded up to
    /// whole blocks.
    #[must_use]
    pub fn frames(mut self, frames: u32) -> Self {
        self.frames = frames.max(1);
        self
    }

    /// The EAL's name of the port.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{DRIVER}{}", self.index)
    }

    /// Bytes that a packet buffer needs, headroom included
    /// ([`PoolConfig::data_room`](crate::PoolConfig::data_room)).
    ///
    /// # Errors
    ///
    /// [`Error::AfPacketArguments`] when a buffer cannot be that large.
    pub fn data_room(&self) -> Result<u16> {
        let needed = self.frame_size() - SEND_HEADER + u32::from(crate::HEADROOM);
        u16::try_from(needed).map_err(|_| Error::AfPacketArguments {
            reason: format!(
                "an MTU of {} on {} needs packet buffers of {needed} bytes and the most is 65535; \
                 choose a smaller MTU",
                self.mtu, self.interface
            ),
        })
    }

    /// A power of two, so that it divides the page or is a multiple of it.
    fn frame_size(&self) -> u32 {
        (u32::from(self.mtu) + FRAME_OVERHEAD + RECEIVE_HEADER)
            .next_power_of_two()
            .max(DEFAULT_FRAME)
    }
}

impl fmt::Display for VdevArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.frame_size();
        let block = frame.max(PAGE);
        let frames = self.frames.next_multiple_of(block / frame);
        write!(
            f,
            "{DRIVER}{},iface={},qpairs={},framesz={frame},blocksz={block},framecnt={frames}",
            self.index, self.interface, self.queues
        )
    }
}

/// The ring frame's size in device arguments.
fn frame_size(device_arguments: &str) -> u32 {
    device_arguments
        .split(',')
        .filter_map(|argument| argument.split_once('='))
        .find(|(key, _)| key.trim() == "framesz")
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(DEFAULT_FRAME)
}

/// Largest frame that the port receives whole, in bytes.
pub(crate) fn receive_limit(device_arguments: &str) -> u32 {
    frame_size(device_arguments).saturating_sub(RECEIVE_HEADER)
}

/// Room for a packet that the driver wants of each buffer, in bytes.
pub(crate) fn receive_buffer(device_arguments: &str) -> u32 {
    frame_size(device_arguments).saturating_sub(SEND_HEADER)
}

/// What to write in the device arguments for an MTU.
pub(crate) fn frame_remedy(mtu: u16) -> String {
    let frame = VdevArgs::new(0, "").mtu(mtu).frame_size();
    format!(
        "give the device the arguments framesz={frame},blocksz={} and the pool buffers to match",
        frame.max(PAGE)
    )
}

/// Copies of the driver's sockets for one port, by queue.
#[derive(Debug)]
pub(crate) struct Sockets {
    index: u32,
    queues: Vec<OwnedFd>,
    /// The kernel's counter restarts when read.
    dropped: AtomicU64,
}

impl Sockets {
    /// Finds the sockets that the driver opened on an interface: packet sockets
    /// of this process bound to it and in the fanout group that the driver
    /// makes. The driver opens them in the order of the queues and the kernel
    /// gives the lowest free descriptor, so that order is the descriptors'.
    pub(crate) fn find(index: u32) -> io::Result<Self> {
        let mut descriptors: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        descriptors.sort_unstable();
        let mut queues = Vec::new();
        for fd in descriptors {
            if is_driver_socket(fd, index) {
                // SAFETY: the descriptor was a socket of the driver a moment ago, and the
                // driver closes it only when the port stops, which needs the claim that
                // the caller has.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                queues.push(fd.try_clone_to_owned()?);
            }
        }
        if queues.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("no packet socket on interface {index} in this process"),
            ));
        }
        let sockets = Self {
            index,
            queues,
            dropped: AtomicU64::new(0),
        };
        Ok(sockets)
    }

    pub(crate) fn of_queue(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        self.queues.get(usize::from(queue)).map(AsFd::as_fd)
    }

    /// Packets that the kernel dropped because a ring was full. The caller
    /// holds the port's control lock.
    pub(crate) fn drops(&self) -> io::Result<u64> {
        let mut new = 0;
        for socket in &self.queues {
            let stats: libc::tpacket_stats = get_option(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
            )?;
            new += u64::from(stats.tp_drops);
        }
        Ok(self.dropped.fetch_add(new, Ordering::Relaxed) + new)
    }

    /// Attaches the filter that leaves out packets this host sends.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        // Ancillary data of classic BPF: the packet's type as sll_pkttype has it.
        const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
        const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut program = [
            step(LOAD_WORD, 0, 0, PACKET_TYPE),
            step(JUMP_EQUAL, 0, 1, u32::from(libc::PACKET_OUTGOING)),
            step(RETURN, 0, 0, 0),
            step(RETURN, 0, 0, u32::MAX),
        ];
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        for socket in &self.queues {
            // SAFETY: the kernel copies the program; pointer and size are those of
            // `filter`, which points to `program`.
            let result = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_ATTACH_FILTER,
                    (&raw const filter).cast(),
                    size_of::<libc::sock_fprog>() as libc::socklen_t,
                )
            };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Name and MTU of the interface, asked in the sockets' network namespace.
    pub(crate) fn interface(&self) -> io::Result<(String, u32)> {
        let Some(socket) = self.queues.first() else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        // SAFETY: an ifreq of zeros is valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = i32::try_from(self.index).unwrap_or(0);
        ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME, &mut request)?;
        let name = crate::stats::fixed_string(&request.ifr_name);
        ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: SIOCGIFMTU has set this member of the union.
        let mtu = unsafe { request.ifr_ifru.ifru_mtu };
        Ok((name, u32::try_from(mtu).unwrap_or(0)))
    }
}

fn ioctl(fd: RawFd, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: both requests used here take a pointer to an ifreq and write into it.
    let result = unsafe { libc::ioctl(fd, code, std::ptr::from_mut(request)) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a descriptor is a socket that the driver opened on the interface.
fn is_driver_socket(fd: RawFd, index: u32) -> bool {
    if get_option::<i32>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).ok() != Some(libc::AF_PACKET) {
        return false;
    }
    // SAFETY: an address of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: address and length are of that type.
    let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut length) };
    if result != 0 || u32::try_from(address.sll_ifindex) != Ok(index) {
        return false;
    }
    // The driver numbers its group after the process and the interface.
    let group = (std::process::id() ^ index) & 0xffff;
    get_option::<u32>(fd, libc::SOL_PACKET, libc::PACKET_FANOUT)
        .is_ok_and(|fanout| fanout != 0 && fanout & 0xffff == group)
}

/// Reads a socket option of a plain type.
fn get_option<T: Copy>(fd: RawFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = mem::MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`.
    let result =
        unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: T is one of the integer types and structures of integers used above, for
    // which zeros and any bytes are valid.
    Ok(unsafe { value.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_arguments_satisfy_the_kernel_and_the_driver() {
        for mtu in [68, 576, 1500, 1600, 1960, 2000, 4000, 9000, 16_000] {
            for frames in [1, 3, 511, 512, 1000] {
                let args = VdevArgs::new(3, "x").mtu(mtu).frames(frames).to_string();
                let value = |key: &str| -> u32 {
                    args.split(',')
                        .find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
                        .unwrap()
                        .parse()
                        .unwrap()
                };
                let (frame, block, count) = (value("framesz"), value("blocksz"), value("framecnt"));
                assert_eq!(frame % 16, 0, "{args}");
                assert_eq!(block % 4096, 0, "{args}");
                assert_eq!(block % frame, 0, "{args}");
                assert_eq!(count % (block / frame), 0, "{args}");
                assert!(count >= frames, "{args}");
                assert!(frame >= u32::from(mtu) + 14 + 8 + 66, "{args}");
            }
        }
    }

    #[test]
    fn limits_follow_the_frame_size() {
        assert_eq!(receive_limit("iface=veth0"), 1982);
        assert_eq!(receive_limit("iface=veth0,framesz=4096,qpairs=2"), 4030);
        assert_eq!(receive_buffer("framesz=4096"), 4064);
        assert_eq!(VdevArgs::new(0, "a").data_room().unwrap(), 2016 + 128);
        assert!(VdevArgs::new(0, "a").mtu(u16::MAX).data_room().is_err());
    }
}
