//! A raw socket on one interface: whole frames out and in.

use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders, SockFlag, SockProtocol,
    SockType, bind, recvmsg, send, sendmmsg, setsockopt, socket, sockopt,
};

/// Has the kernel tell, beside each frame, the VLAN tag it took out.
#[derive(Debug, Clone, Copy)]
struct AuxData;

nix::setsockopt_impl!(
    AuxData,
    libc::SOL_PACKET,
    libc::PACKET_AUXDATA,
    bool,
    sockopt::SetBool
);

/// `struct tpacket_auxdata` (linux/if_packet.h): status, two lengths (32 bits
/// each), two offsets, the tag and its type (16 bits each).
const AUXDATA_BYTES: usize = 20;
const VLAN_TCI_AT: usize = 16;
const VLAN_TPID_AT: usize = 18;
/// `TP_STATUS_VLAN_VALID`.
const VLAN_VALID: u32 = 1 << 4;

/// Longest frame that a test sends or takes.
const LONGEST: usize = 16 * 1024;

/// A raw socket bound to one interface.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    buffer: Vec<u8>,
    control: Vec<u8>,
}

impl Wire {
    /// Opens an interface of this thread's namespace.
    ///
    /// # Errors
    /// If there is no such interface, or no right to open it.
    pub fn open(interface: &str) -> Result<Self> {
        let address = link_address(interface)?;
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::EthAll,
        )
        .context("can't open a raw socket")?;
        setsockopt(&socket, AuxData, &true).context("PACKET_AUXDATA")?;
        setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20)).context("SO_RCVBUFFORCE")?;
        setsockopt(&socket, sockopt::SndBuf, &(4 << 20)).context("SO_SNDBUF")?;
        // The address has no protocol, so the socket's own stays.
        bind(socket.as_raw_fd(), &address)
            .with_context(|| format!("can't bind a raw socket to {interface}"))?;
        let mut wire = Self {
            socket,
            buffer: vec![0; LONGEST],
            control: vec![0; 256],
        };
        // Until it was bound the socket heard all interfaces.
        while wire.try_receive()?.is_some() {}
        Ok(wire)
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// If the kernel refuses it, for instance because it is longer than the
    /// interface allows.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let sent = send(self.socket.as_raw_fd(), frame, MsgFlags::empty())
            .with_context(|| format!("can't send a frame of {} bytes", frame.len()))?;
        if sent != frame.len() {
            bail!("only {sent} of {} bytes were sent", frame.len());
        }
        Ok(())
    }

    /// Sends many frames in one system call and says how many were taken;
    /// fewer when the interface's queue is full.
    ///
    /// # Errors
    /// If the kernel refuses them for another reason.
    pub fn send_burst(&self, frames: &[&[u8]]) -> Result<usize> {
        let mut headers = MultiHeaders::<LinkAddr>::preallocate(frames.len(), None);
        let slices: Vec<[IoSlice<'_>; 1]> = frames.iter().map(|f| [IoSlice::new(f)]).collect();
        let addresses = vec![None; frames.len()];
        let sent = sendmmsg(
            self.socket.as_raw_fd(),
            &mut headers,
            &slices,
            addresses,
            [],
            MsgFlags::empty(),
        );
        match sent {
            Ok(results) => Ok(results.count()),
            Err(Errno::EAGAIN | Errno::ENOBUFS) => Ok(0),
            Err(error) => Err(error).context("can't send a burst"),
        }
    }

    /// The next frame that arrives within `patience`, with its VLAN tag.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(frame) = self.try_receive()? {
                return Ok(Some(frame));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            // Rounded up, so that the last millisecond does not spin.
            let wait =
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, wait) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("poll"),
            }
        }
    }

    fn try_receive(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            let message = match recvmsg::<LinkAddr>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut self.control),
                MsgFlags::MSG_TRUNC,
            ) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error).context("can't read a raw socket"),
            };
            let outgoing = message
                .address
                .is_some_and(|a| a.pkttype() == libc::PACKET_OUTGOING);
            let tag = message.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::Unknown(unknown) => vlan_tag(&unknown.data_bytes),
                _ => None,
            });
            let length = message.bytes;
            if outgoing {
                continue;
            }
            let Some(bytes) = self.buffer.get(..length) else {
                bail!("a frame of {length} bytes arrived, {LONGEST} is the longest that tests use");
            };
            let mut frame = bytes.to_vec();
            if let Some(tag) = tag
                && frame.len() >= 12
            {
                frame.splice(12..12, tag);
            }
            return Ok(Some(frame));
        }
    }
}

/// The ports at which something has arrived, as soon as there is one; none
/// after `patience`.
///
/// # Errors
/// If the kernel refuses.
pub fn ready(wires: &BTreeMap<u16, Wire>, patience: Duration) -> Result<Vec<u16>> {
    let mut fds: Vec<PollFd<'_>> = wires
        .values()
        .map(|wire| PollFd::new(wire.socket.as_fd(), PollFlags::POLLIN))
        .collect();
    let wait = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, wait) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error).context("poll"),
    }
    Ok(wires
        .keys()
        .zip(&fds)
        .filter(|(_, fd)| fd.any().unwrap_or(false))
        .map(|(port, _)| *port)
        .collect())
}

/// The four bytes of a tag that the kernel took out of a frame.
fn vlan_tag(auxdata: &[u8]) -> Option<[u8; 4]> {
    let half = |at: usize| {
        Some(u16::from_ne_bytes(
            auxdata.get(at..at + 2)?.try_into().ok()?,
        ))
    };
    if auxdata.len() < AUXDATA_BYTES {
        return None;
    }
    let status = u32::from_ne_bytes(auxdata.get(..4)?.try_into().ok()?);
    if status & VLAN_VALID == 0 {
        return None;
    }
    let tpid = half(VLAN_TPID_AT)?.to_be_bytes();
    let tci = half(VLAN_TCI_AT)?.to_be_bytes();
    Some([tpid[0], tpid[1], tci[0], tci[1]])
}

fn link_address(interface: &str) -> Result<LinkAddr> {
    nix::ifaddrs::getifaddrs()
        .context("can't list the interfaces")?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .with_context(|| format!("no interface {interface}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_back_in_network_order() {
        let mut auxdata = [0_u8; AUXDATA_BYTES];
        auxdata[..4].copy_from_slice(&(VLAN_VALID | 1).to_ne_bytes());
        auxdata[16..18].copy_from_slice(&0x201e_u16.to_ne_bytes());
        auxdata[18..20].copy_from_slice(&0x8100_u16.to_ne_bytes());
        assert_eq!(vlan_tag(&auxdata), Some([0x81, 0x00, 0x20, 0x1e]));
        auxdata[..4].copy_from_slice(&1_u32.to_ne_bytes());
        assert_eq!(vlan_tag(&auxdata), None);
        assert_eq!(vlan_tag(&auxdata[..12]), None);
    }
}
