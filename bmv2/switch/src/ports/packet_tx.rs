//! The sending half of a packet socket's port.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::batch::TxBatch;
use super::counters::{PortCounters, TxLoss};
use super::sys::{self, SEND_BATCH, TxRing};

/// How often a full transmit queue is tried again, and how long each wait for
/// room in it may last, in milliseconds.
const TX_RETRIES: u32 = 10;
const TX_WAIT_MS: u8 = 1;

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// Longest packet that goes by the ring, in bytes. The kernel makes one piece
/// of memory for each, which it may not find for much longer ones.
pub(super) const MAX_BY_RING: usize = 1 << 14;

/// Sends for one worker.
#[derive(Debug)]
pub(super) struct PacketTx {
    /// `None` if the kernel would not have one.
    ring: Option<TxRing>,
    /// Lengths of packets that go by the ring, in bytes. About others the
    /// kernel decides one by one: a ring leaves out its checks.
    ring_lengths: RangeInclusive<usize>,
    fd: Arc<OwnedFd>,
    counters: Arc<PortCounters>,
}

impl PacketTx {
    /// Sends by the ring what an interface of this MTU takes in any case, and
    /// all else by the socket.
    pub(super) fn new(
        ring: Option<TxRing>,
        mtu: u32,
        fd: Arc<OwnedFd>,
        counters: &Arc<PortCounters>,
    ) -> Self {
        Self {
            ring,
            ring_lengths: ETHERNET..=(mtu as usize + ETHERNET).min(MAX_BY_RING),
            fd,
            counters: Arc::clone(counters),
        }
    }

    /// Sends all packets of the batch, or counts them as lost.
    pub(super) fn send(&mut self, batch: &TxBatch) {
        let mut rest = 0..batch.len();
        while !rest.is_empty() {
            let staged = self.stage(batch, rest.clone());
            let next = if staged > 0 {
                let end = rest.start + staged;
                let sent = self.kick(batch, rest.start..end);
                // The kernel can say better by a call for each what it minds.
                self.send_singly(batch, rest.start + sent..end);
                end
            } else {
                let by_ring = |i: &usize| self.suits_ring(batch.packet(*i));
                // The first one did not get into the ring, suitable or not.
                let end = (rest.start + 1..rest.end).find(by_ring);
                let end = end.unwrap_or(rest.end);
                self.send_singly(batch, rest.start..end);
                end
            };
            rest.start = next;
        }
    }

    fn suits_ring(&self, packet: &[u8]) -> bool {
        self.ring.is_some() && self.ring_lengths.contains(&packet.len())
    }

    /// Stages packets up to the first one that the ring has no room for or
    /// that does not suit it; returns how many.
    fn stage(&mut self, batch: &TxBatch, packets: Range<usize>) -> usize {
        let Some(ring) = &mut self.ring else {
            return 0;
        };
        packets
            .map(|i| batch.packet(i))
            .take_while(|p| self.ring_lengths.contains(&p.len()) && ring.stage(p))
            .count()
    }

    /// Sends what has been staged; returns how many packets, from the first
    /// one on. The others have been taken out of the ring.
    fn kick(&mut self, batch: &TxBatch, staged: Range<usize>) -> usize {
        let Some(ring) = &mut self.ring else {
            return 0;
        };
        let left = match ring.kick() {
            Ok(0) => 0,
            Ok(_) => ring.withdraw(),
            Err(error) => {
                tracing::debug!(%error, "packets not sent by the ring");
                ring.withdraw()
            }
        };
        let sent = staged.len().saturating_sub(left);
        let bytes = (staged.start..staged.start + sent).map(|i| batch.packet(i).len() as u64);
        self.counters.sent(sent as u64, bytes.sum());
        sent
    }

    fn send_singly(&self, batch: &TxBatch, packets: Range<usize>) {
        let (mut next, mut retries) = (packets.start, 0);
        let (mut sent, mut bytes) = (0u64, 0u64);
        while next < packets.end {
            let result = sys::send_many(self.fd.as_fd(), packets.end - next, |i| {
                batch.packet(next + i)
            });
            match result {
                Ok(count) => {
                    debug_assert!(count <= SEND_BATCH);
                    for i in next..next + count {
                        bytes += batch.packet(i).len() as u64;
                    }
                    sent += count as u64;
                    next += count;
                    retries = 0;
                }
                Err(error) if is_full(&error) && retries < TX_RETRIES => {
                    retries += 1;
                    self.wait_for_room();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // The error belongs to the first packet of the rest.
                    let (reason, lost) = match error.raw_os_error() {
                        Some(libc::EMSGSIZE) => (TxLoss::TooLong, 1),
                        Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                            (TxLoss::PortDown, packets.end - next)
                        }
                        _ if is_full(&error) => (TxLoss::QueueFull, packets.end - next),
                        _ => (TxLoss::Refused, 1),
                    };
                    tracing::debug!(%error, lost, "packets not sent");
                    self.counters.lost(reason, lost as u64);
                    next += lost;
                }
            }
        }
        if sent > 0 {
            self.counters.sent(sent, bytes);
        }
    }

    fn wait_for_room(&self) {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
        let writable = matches!(poll(&mut fds, PollTimeout::from(TX_WAIT_MS)), Ok(1..));
        if writable {
            // ENOBUFS comes from the device's queue, which `poll` does not see.
            std::thread::yield_now();
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}
