//! The transmit ring of a packet socket: many packets in one system call, each
//! copied once.

#![allow(
    unsafe_code,
    reason = "frames shared with the kernel have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;

use super::ring::{Mapping, RingLayout};
use super::{bind, packet_socket, set_option};

/// Bytes of `virtio_net_hdr`: flags, GSO type, header length, GSO size, start
/// and offset of a checksum (linux/virtio_net.h).
const VNET_HEADER: usize = 10;
/// Where its header length is.
const VNET_HEADER_LENGTH: usize = 2;
/// Where the kernel looks for the virtio header in a frame: after the ring's
/// own header.
const DATA: usize = (size_of::<libc::tpacket2_hdr>()).next_multiple_of(16);

/// Nothing but what it sends: ETH_P_ALL would have the kernel queue every
/// packet of the interface on this socket too.
const NO_PROTOCOL: u16 = 0;

/// A socket that only sends, with its ring.
///
/// Frames between `oldest` and `next` have been staged; the kernel takes them
/// in order, and none of the others.
#[derive(Debug)]
pub(in crate::ports) struct TxRing {
    // Before the descriptor, so that it is unmapped first.
    frames: Mapping,
    fd: OwnedFd,
    oldest: usize,
    next: usize,
    staged: usize,
}

impl TxRing {
    /// A ring for the interface with this index.
    pub(in crate::ports) fn open(interface: u32, layout: RingLayout) -> io::Result<Self> {
        let fd = packet_socket()?;
        let option = |name, value: i32| set_option(fd.as_fd(), libc::SOL_PACKET, name, &value);
        option(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as i32,
        )?;
        // Without the virtio header a packet is sent as a reference to the
        // ring's page, which a veth's other end must copy and wait for.
        option(libc::PACKET_VNET_HDR, 1)?;
        let frames = Mapping::new(fd.as_fd(), libc::PACKET_TX_RING, layout)?;
        bind(fd.as_fd(), interface, NO_PROTOCOL)?;
        Ok(Self {
            frames,
            fd,
            oldest: 0,
            next: 0,
            staged: 0,
        })
    }

    /// Puts a packet into the ring; false if there is no room for it.
    pub(in crate::ports) fn stage(&mut self, packet: &[u8]) -> bool {
        let room = self.frames.frame_size() - DATA - VNET_HEADER;
        let status = self.frames.status(self.next);
        if packet.len() > room
            || self.staged == self.frames.frames()
            || status.load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE
        {
            return false;
        }
        // "All of it is header": the kernel copies so many bytes into the
        // packet's own memory. Longer ones than 16 bits can say exceed `room`.
        let header_length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        let mut vnet = [0; VNET_HEADER];
        vnet[VNET_HEADER_LENGTH..VNET_HEADER_LENGTH + 2]
            .copy_from_slice(&header_length.to_ne_bytes());
        let frame = self.frames.frame(self.next);
        let length = (VNET_HEADER + packet.len()) as u32;
        // SAFETY: the kernel does not touch a frame that is AVAILABLE, and
        // nothing else of this process points into it. It begins with a
        // tpacket2_hdr, suitably aligned, and `room` has been compared with
        // the packet's length, so that both copies end within the frame.
        unsafe {
            let header = frame.cast::<libc::tpacket2_hdr>().as_ptr();
            (&raw mut (*header).tp_len).write(length);
            let data = frame.as_ptr().add(DATA);
            data.copy_from_nonoverlapping(vnet.as_ptr(), VNET_HEADER);
            data.add(VNET_HEADER)
                .copy_from_nonoverlapping(packet.as_ptr(), packet.len());
        }
        status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.next = self.frames.after(self.next);
        self.staged += 1;
        true
    }

    /// Has the kernel send what is staged; returns how many packets still are.
    ///
    /// # Errors
    /// What kept the oldest of them. They stay in the ring, to be tried again
    /// or [withdrawn](Self::withdraw).
    pub(in crate::ports) fn kick(&mut self) -> io::Result<usize> {
        // SAFETY: no data and no address are given.
        let result = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        // Before anything else overwrites it.
        let error = (result < 0).then(io::Error::last_os_error);
        while self.staged > 0 && !self.is_waiting(self.oldest) {
            self.oldest = self.frames.after(self.oldest);
            self.staged -= 1;
        }
        match error {
            Some(error) if self.staged > 0 => Err(error),
            _ => Ok(self.staged),
        }
    }

    /// Takes back what is staged; returns how many packets.
    pub(in crate::ports) fn withdraw(&mut self) -> usize {
        // The kernel looks at frames within `kick` alone, and goes on with the
        // oldest one that it has not sent.
        let count = std::mem::take(&mut self.staged);
        let mut index = self.oldest;
        for _ in 0..count {
            let status = self.frames.status(index);
            status.store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            index = self.frames.after(index);
        }
        self.next = self.oldest;
        count
    }

    fn is_waiting(&self, index: usize) -> bool {
        let status = self.frames.status(index).load(Ordering::Acquire);
        // The kernel goes past no frame whose form it takes offence at.
        status == libc::TP_STATUS_SEND_REQUEST || status == libc::TP_STATUS_WRONG_FORMAT
    }
}

#[cfg(test)]
mod tests {
    use super::super::isolated::{LOOPBACK, isolated, set_loopback};
    use super::super::{ALL_PROTOCOLS, ignore_outgoing};
    use super::*;

    /// A frame of an EtherType for experiments (IEEE 802, 0x88b5) with a number
    /// in it, `length` bytes long.
    fn frame(number: u16, length: usize) -> Vec<u8> {
        let mut frame = vec![0; length];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..16].copy_from_slice(&number.to_be_bytes());
        frame
    }

    /// What has come in, frames of other kinds left out.
    fn received(fd: &OwnedFd) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 4096];
        let mut frames = Vec::new();
        loop {
            match nix::unistd::read(fd, &mut buffer) {
                Ok(length) if buffer[12..14] == [0x88, 0xb5] => {
                    frames.push(buffer[..length].to_vec());
                }
                // The interface was down meanwhile.
                Ok(_) | Err(nix::errno::Errno::ENETDOWN) => {}
                Err(_) => return frames,
            }
        }
    }

    fn open() -> (TxRing, OwnedFd) {
        let listener = packet_socket().unwrap();
        ignore_outgoing(listener.as_fd()).unwrap();
        bind(listener.as_fd(), LOOPBACK, ALL_PROTOCOLS).unwrap();
        let ring = TxRing::open(LOOPBACK, RingLayout::new(100, 2000)).unwrap();
        (ring, listener)
    }

    fn check(work: impl FnOnce() + Send + 'static) {
        if isolated(work).is_none() {
            println!("SKIPPED: no network namespace of our own");
        }
    }

    #[test]
    fn packets_leave_whole_and_in_order_many_times_round() {
        check(|| {
            let (mut ring, listener) = open();
            // 640 packets go more than once round any ring for 100.
            assert!(ring.frames.frames() < 640);
            for round in 0..10u16 {
                let wanted: Vec<_> = (0..64)
                    .map(|i| frame(round * 64 + i, 16 + usize::from(round * i) * 3))
                    .collect();
                for packet in &wanted {
                    assert!(ring.stage(packet));
                }
                assert_eq!(ring.kick().unwrap(), 0);
                assert_eq!(received(&listener), wanted);
            }
        });
    }

    #[test]
    fn what_cannot_leave_is_taken_back_and_the_next_packets_leave() {
        check(|| {
            let (mut ring, listener) = open();
            assert!(ring.stage(&frame(1, 60)));
            assert_eq!(ring.kick().unwrap(), 0);
            assert!(set_loopback("down"));
            assert!(ring.stage(&frame(2, 60)));
            assert!(ring.stage(&frame(3, 60)));
            let error = ring.kick().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
            assert_eq!(ring.withdraw(), 2);
            assert!(set_loopback("up"));
            assert!(ring.stage(&frame(4, 60)));
            assert_eq!(ring.kick().unwrap(), 0);
            assert_eq!(received(&listener), [frame(1, 60), frame(4, 60)]);
        });
    }

    /// An Ethernet header takes 14 bytes: the kernel minds what is shorter,
    /// and stays where it is until the frame is withdrawn.
    #[test]
    fn a_malformed_packet_holds_nothing_up_once_withdrawn() {
        check(|| {
            let (mut ring, listener) = open();
            for packet in [frame(1, 60), vec![0; 5], frame(2, 60)] {
                assert!(ring.stage(&packet));
            }
            let error = ring.kick().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
            assert_eq!(ring.withdraw(), 2, "the short one and the one behind it");
            assert!(ring.stage(&frame(3, 60)));
            assert_eq!(ring.kick().unwrap(), 0);
            assert_eq!(received(&listener), [frame(1, 60), frame(3, 60)]);
        });
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        check(|| {
            let (mut ring, listener) = open();
            let frames = ring.frames.frames();
            let staged = (0..).take_while(|i| ring.stage(&frame(*i, 60))).count();
            assert_eq!(staged, frames);
            assert!(!ring.stage(&frame(0, 2048)), "longer than a frame");
            let mut left = ring.kick().unwrap();
            while left > 0 {
                // The socket's buffer holds fewer than the ring.
                left = ring.kick().unwrap();
            }
            assert!(!received(&listener).is_empty());
            assert!(ring.stage(&frame(0, 60)));
        });
    }
}
