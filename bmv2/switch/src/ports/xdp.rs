//! A port on a network interface by AF_XDP: packets come past the kernel's own
//! protocols.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;

use super::batch::TxBatch;
use super::counters::{PortCounters, TxLoss};
use super::sys::{self, Link, XDP_MAX_PACKET, XskSocket};
use super::vlan;
use super::{PortError, XdpProblem};

/// How often a full send ring is tried again.
const TX_RETRIES: u32 = 100;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Longest MTU: what a frame has room for besides an Ethernet header and two
/// VLAN tags.
const MAX_MTU: usize = XDP_MAX_PACKET - ETHERNET - 2 * vlan::TAG_LEN;

/// What both halves share.
#[derive(Debug)]
pub(super) struct XdpPort {
    // Detached first.
    _program: OwnedFd,
    /// Keeps the interface promiscuous.
    _promiscuous: OwnedFd,
    /// To wait with; the socket is the one behind the lock.
    fd: OwnedFd,
    socket: Mutex<XskSocket>,
    mtu: AtomicU32,
    /// The last packets could not be sent because the interface was down.
    down: AtomicBool,
    counters: Arc<PortCounters>,
}

/// The receiving half, for one worker.
#[derive(Debug)]
pub(super) struct XdpRx {
    shared: Arc<XdpPort>,
    /// Packets taken from the socket, so that it is not locked while they are
    /// processed: some may be for the same port.
    packets: TxBatch,
}

/// The sending half.
#[derive(Debug, Clone)]
pub(super) struct XdpTx {
    shared: Arc<XdpPort>,
}

/// Opens an interface. `ring_frames` is the number of packets the kernel can
/// hold.
pub(super) fn open(
    port: u16,
    interface: &str,
    ring_frames: usize,
    counters: &Arc<PortCounters>,
) -> Result<(XdpRx, XdpTx, Link), PortError> {
    let problem = |problem: XdpProblem| PortError::Xdp {
        port,
        interface: interface.to_owned(),
        problem,
    };
    let failed = |action: &'static str| move |source: io::Error| problem(why(action, source));
    let promiscuous = sys::packet_socket().map_err(failed("open a packet socket"))?;
    let link = sys::link(promiscuous.as_fd(), interface)
        .map_err(failed("look up the interface"))?
        .ok_or_else(|| PortError::NoInterface {
            port,
            interface: interface.to_owned(),
        })?;
    if link.mtu as usize > MAX_MTU {
        return Err(problem(XdpProblem::Mtu { mtu: link.mtu }));
    }
    let queues = sys::rx_queues(link.index).map_err(failed("count the receive queues"))?;
    if queues > 1 {
        return Err(problem(XdpProblem::Queues { queues }));
    }
    let socket = XskSocket::open(link.index, 0, ring_frames)
        .map_err(failed("open an AF_XDP socket on its queue 0"))?;
    let fd = socket.clone_fd().map_err(failed("share the socket"))?;
    let program = sys::attach_redirect(link.index, &[fd.as_fd()])
        .map_err(failed("load and attach an XDP program"))?;
    sys::set_promiscuous(promiscuous.as_fd(), link.index)
        .map_err(failed("switch to promiscuous mode"))?;
    let shared = Arc::new(XdpPort {
        _program: program,
        _promiscuous: promiscuous,
        fd,
        socket: Mutex::new(socket),
        mtu: AtomicU32::new(link.mtu),
        down: AtomicBool::new(false),
        counters: Arc::clone(counters),
    });
    let rx = XdpRx {
        shared: Arc::clone(&shared),
        packets: TxBatch::default(),
    };
    Ok((rx, XdpTx { shared }, link))
}

fn why(action: &'static str, source: io::Error) -> XdpProblem {
    match source.raw_os_error() {
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => XdpProblem::Unsupported,
        Some(libc::EPERM | libc::EACCES) => XdpProblem::NotPermitted { action },
        Some(libc::EBUSY) => XdpProblem::Busy,
        Some(libc::ENOBUFS) => XdpProblem::Locked,
        _ => XdpProblem::Io { action, source },
    }
}

impl XdpPort {
    /// Counts what the kernel lost since the last call.
    pub(super) fn count_losses(&self) -> io::Result<()> {
        let losses = self.socket.lock().take_losses()?;
        self.counters.missed(losses.rx);
        self.counters.lost(TxLoss::Refused, losses.tx);
        Ok(())
    }

    /// Notes the interface's MTU in bytes.
    pub(super) fn set_mtu(&self, mtu: u32) {
        self.mtu.store(mtu, Relaxed);
    }

    /// As for packet sockets, one 802.1Q tag may come on top.
    fn is_too_long(&self, packet: &[u8]) -> bool {
        let tag = match packet.get(12..14) {
            Some([0x81, 0x00]) => vlan::TAG_LEN,
            _ => 0,
        };
        let mtu = self.mtu.load(Relaxed) as usize;
        packet.len() > (mtu + ETHERNET + tag).min(XDP_MAX_PACKET)
    }
}

impl XdpRx {
    /// Gives up to `max` received packets to `sink`, or a few more; returns
    /// how many.
    pub(super) fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let Self { shared, packets } = self;
        packets.clear();
        while packets.len() < max {
            if shared.socket.lock().receive(|packet| packets.push(packet)) == 0 {
                break;
            }
        }
        for i in 0..packets.len() {
            sink(packets.packet(i));
        }
        if !packets.is_empty() {
            let counters = &shared.counters;
            counters.received(packets.len() as u64, packets.bytes() as u64);
        }
        packets.len()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }

    /// For reading the kernel's counters from elsewhere.
    pub(super) fn share(&self) -> Arc<XdpPort> {
        Arc::clone(&self.shared)
    }

    /// Gives the socket up: what is still in its ring is lost.
    pub(super) fn abandon(&self) {
        let mut lost = 0;
        loop {
            match self.shared.socket.lock().receive(|_| {}) {
                0 => break,
                packets => lost += packets as u64,
            }
        }
        self.shared.counters.missed(lost);
    }
}

impl XdpTx {
    /// Sends all packets of the batch, or counts them as lost.
    pub(super) fn send(&self, batch: &TxBatch) {
        let shared = &*self.shared;
        let mut socket = shared.socket.lock();
        if shared.down.load(Relaxed) {
            // Nothing more goes into the ring before the interface is up.
            if socket.kick().is_err_and(|error| is_down(&error)) {
                shared.counters.lost(TxLoss::PortDown, batch.len() as u64);
                return;
            }
            shared.down.store(false, Relaxed);
        }
        let mut bytes = 0;
        for i in 0..batch.len() {
            let packet = batch.packet(i);
            if shared.is_too_long(packet) {
                shared.counters.lost(TxLoss::TooLong, 1);
                continue;
            }
            if !socket.stage(packet) {
                shared.flush(&mut socket, std::mem::take(&mut bytes));
                if !socket.stage(packet) {
                    shared.counters.lost(TxLoss::QueueFull, 1);
                    continue;
                }
            }
            bytes += packet.len() as u64;
        }
        shared.flush(&mut socket, bytes);
    }
}

impl XdpPort {
    /// Sends what is staged, `bytes` long.
    fn flush(&self, socket: &mut XskSocket, bytes: u64) {
        let packets = socket.submit() as u64;
        let (mut retries, mut refused) = (0, 0);
        loop {
            match socket.kick() {
                Ok(()) => break,
                Err(error) if is_down(&error) => {
                    // They stay in the ring: the kernel sends them late, when
                    // the interface comes up, or never.
                    self.down.store(true, Relaxed);
                    self.counters.lost(TxLoss::PortDown, packets - refused);
                    self.counters.lost(TxLoss::Refused, refused);
                    return;
                }
                // One packet did not leave, others may wait behind it.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && refused < packets => {
                    refused += 1;
                }
                // The kernel sends so many at a time, or the queue is full.
                Err(_) if retries < TX_RETRIES => {
                    retries += 1;
                    if retries > packets as u32 / 32 + 1 {
                        std::thread::yield_now();
                    }
                }
                // They go with the next ones.
                Err(_) => break,
            }
        }
        self.counters.lost(TxLoss::Refused, refused);
        if packets > refused {
            // Which ones were refused is not said: their share of the bytes.
            let sent = packets - refused;
            self.counters.sent(sent, bytes * sent / packets);
        }
    }
}

fn is_down(error: &io::Error) -> bool {
    let down = [libc::ENETDOWN, libc::ENXIO, libc::ENODEV];
    error
        .raw_os_error()
        .is_some_and(|code| down.contains(&code))
}
