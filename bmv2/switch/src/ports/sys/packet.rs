//! Packet sockets (packet(7)): their options, and `sendmmsg`.

#![allow(
    unsafe_code,
    reason = "packet socket options and sendmmsg have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, send};

use super::{check, get_option, set_option};

/// A packet socket that receives nothing until [`bind`].
pub(in crate::ports) fn packet_socket() -> io::Result<OwnedFd> {
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

/// Every protocol, in [`bind`].
pub(in crate::ports) const ALL_PROTOCOLS: u16 = libc::ETH_P_ALL as u16;

/// Binds to an interface. Of what comes in, the socket gets packets of this
/// protocol (an EtherType); of protocol 0 none.
pub(in crate::ports) fn bind(fd: BorrowedFd<'_>, interface: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
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
pub(in crate::ports) fn set_promiscuous(fd: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let membership = libc::packet_mreq {
        mr_ifindex: i32::try_from(interface).map_err(|_| io::ErrorKind::InvalidInput)?,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(
        fd,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &membership,
    )
}

/// Not what this host sends on the interface, only what it receives.
pub(in crate::ports) fn ignore_outgoing(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
}

/// Which fan-out group a socket joins. Its own type since every 16-bit number
/// is the id of a group: the first one after boot gets 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ports) enum FanoutGroup {
    /// A new one.
    New,
    /// The one with this id.
    Existing(u16),
}

/// Spreads the packets of an interface over several sockets by flow; returns
/// the group. The socket must be bound.
pub(in crate::ports) fn join_fanout(
    fd: BorrowedFd<'_>,
    group: FanoutGroup,
) -> io::Result<FanoutGroup> {
    // From linux/if_packet.h.
    const UNIQUE_ID: u32 = 0x2000;
    const IGNORE_OUTGOING: u32 = 0x4000;
    let (id, unique) = match group {
        FanoutGroup::New => (0, UNIQUE_ID),
        FanoutGroup::Existing(id) => (id, 0),
    };
    let join = |flags: u32| {
        let kind = libc::PACKET_FANOUT_HASH | unique | flags;
        let value = (u32::from(id) | kind << 16).cast_signed();
        set_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)
    };
    // The group has a hook of its own, which knows nothing of the socket's
    // wish to ignore outgoing packets; older kernels do not know the flag.
    join(IGNORE_OUTGOING).or_else(|_| join(0))?;
    let joined: u32 = get_option(fd, libc::PACKET_FANOUT)?;
    Ok(FanoutGroup::Existing((joined & 0xffff) as u16))
}

/// Lets no packet into the socket until [`open_gate`]. A socket that is bound
/// but has not joined its fan-out group yet receives on its own what the group
/// receives too.
pub(in crate::ports) fn close_gate(fd: BorrowedFd<'_>) -> io::Result<()> {
    // "Return 0": keep no byte of any packet (socket(7), SO_ATTACH_FILTER).
    let mut filter = [libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: 0,
    }];
    let program = libc::sock_fprog {
        len: 1,
        filter: filter.as_mut_ptr(),
    };
    // The kernel copies the filter within the call.
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Takes the filter of [`close_gate`] away.
pub(in crate::ports) fn open_gate(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
}

/// Packets dropped by the kernel since the last call.
pub(in crate::ports) fn take_drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let [_packets, drops]: [u32; 2] = get_option(fd, libc::PACKET_STATISTICS)?;
    Ok(drops)
}

/// Most packets that one [`send_many`] takes.
pub(in crate::ports) const SEND_BATCH: usize = 64;

/// Sends the packets that `packet(0..count)` returns, at most [`SEND_BATCH`],
/// without blocking. Returns how many were sent.
pub(in crate::ports) fn send_many<'p>(
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

#[cfg(test)]
mod tests {
    use super::super::isolated::{LOOPBACK, isolated};
    use super::*;
    use std::os::fd::AsFd;

    fn received(fd: &OwnedFd) -> usize {
        let mut packets = 0;
        let mut buffer = [0; 256];
        while nix::unistd::read(fd, &mut buffer).is_ok() {
            packets += 1;
        }
        packets
    }

    /// Id 0 is a group like any other: the first one that is made after boot
    /// has it. Two sockets that both made a group of their own got every
    /// packet twice.
    #[test]
    fn sockets_of_a_group_share_its_packets() {
        let counts = isolated(|| {
            let open = |group| {
                let fd = packet_socket().unwrap();
                close_gate(fd.as_fd()).unwrap();
                ignore_outgoing(fd.as_fd()).unwrap();
                bind(fd.as_fd(), LOOPBACK, ALL_PROTOCOLS).unwrap();
                assert_eq!(join_fanout(fd.as_fd(), group).unwrap(), group);
                fd
            };
            let sockets = [0, 0, 7].map(|id| open(FanoutGroup::Existing(id)));
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let send = |packets: usize| {
                for _ in 0..packets {
                    sender.send_to(&[1], "127.0.0.1:9").unwrap();
                }
            };
            send(5);
            assert_eq!(sockets.each_ref().map(received), [0; 3], "the gate is open");
            for socket in &sockets {
                open_gate(socket.as_fd()).unwrap();
            }
            // ICMP errors answer only some of them: count ours by a filter of
            // the port instead.
            let port = sender.local_addr().unwrap().port().to_be_bytes();
            send(20);
            sockets.each_ref().map(|fd| {
                let mut packets = 0;
                let mut buffer = [0; 256];
                while let Ok(length) = nix::unistd::read(fd, &mut buffer) {
                    // Ethernet 14, IPv4 20, then UDP with its source port.
                    let udp = length == 43 && buffer[23] == 17;
                    packets += usize::from(udp && buffer[34..36] == port);
                }
                packets
            })
        });
        match counts {
            None => println!("SKIPPED: no network namespace of our own"),
            Some([first, second, other]) => {
                assert_eq!(first + second, 20, "shared by the group");
                assert_eq!(other, 20, "alone in its group");
            }
        }
    }
}
