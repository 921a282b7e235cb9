//! The sending half of an AF_XDP port.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::batch::TxBatch;
use super::counters::{PortCounters, TxLoss};
use super::sys::{XDP_MAX_PACKET, XskSocket};
use super::vlan;
use super::xdp::XdpPort;

/// How often the kernel is asked again to send what is in the ring.
const KICKS: u32 = 100;
/// How often one batch waits for room, and how long each time.
const WAITS: u32 = 20;
const WAIT: Duration = Duration::from_micros(50);

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// Sends for one worker.
#[derive(Debug)]
pub(super) struct XdpTx {
    /// Always the same one, so that the packets of a flow stay in order.
    socket: Arc<Mutex<XskSocket>>,
    /// The last packets could not be sent because the interface was down.
    down: bool,
    port: Arc<XdpPort>,
    counters: Arc<PortCounters>,
}

impl XdpTx {
    /// `socket` must have been opened with room for packets to send, on a queue
    /// that the interface has to send by.
    pub(super) fn new(
        socket: Arc<Mutex<XskSocket>>,
        port: &Arc<XdpPort>,
        counters: &Arc<PortCounters>,
    ) -> Self {
        Self {
            socket,
            down: false,
            port: Arc::clone(port),
            counters: Arc::clone(counters),
        }
    }

    /// Sends all packets of the batch, or counts them as lost.
    pub(super) fn send(&mut self, batch: &TxBatch) {
        let mut socket = self.socket.lock();
        let mut sending = Sending {
            socket: &mut socket,
            counters: &self.counters,
            down: &mut self.down,
            staged_bytes: 0,
            waits: WAITS,
        };
        let max_untagged = self.port.max_untagged();
        if !sending.is_up() {
            self.counters.lost(TxLoss::PortDown, batch.len() as u64);
            return;
        }
        for i in 0..batch.len() {
            let packet = batch.packet(i);
            let tag = match packet.get(12..14) {
                Some([0x81, 0x00]) => vlan::TAG_LEN,
                _ => 0,
            };
            if packet.len() > (max_untagged + tag).min(XDP_MAX_PACKET) {
                self.counters.lost(TxLoss::TooLong, 1);
                continue;
            }
            if !sending.stage(packet) {
                let reason = if *sending.down {
                    TxLoss::PortDown
                } else {
                    TxLoss::QueueFull
                };
                self.counters.lost(reason, 1);
            }
        }
        sending.flush();
    }
}

/// A batch that is being sent.
struct Sending<'a> {
    socket: &'a mut XskSocket,
    counters: &'a PortCounters,
    down: &'a mut bool,
    /// Length of what is staged.
    staged_bytes: u64,
    /// How often to wait for room.
    waits: u32,
}

impl Sending<'_> {
    /// Nothing goes into the ring before an interface that was down is up.
    fn is_up(&mut self) -> bool {
        if *self.down && !self.socket.kick().is_err_and(|error| is_down(&error)) {
            *self.down = false;
        }
        !*self.down
    }

    /// False if there is no room, even after some time.
    fn stage(&mut self, packet: &[u8]) -> bool {
        let mut flushed = false;
        while !*self.down {
            if self.socket.stage(packet) {
                self.staged_bytes += packet.len() as u64;
                return true;
            }
            if !flushed {
                self.flush();
                flushed = true;
            } else if self.waits > 0 {
                // What was sent has not left the interface yet.
                self.waits -= 1;
                std::thread::sleep(WAIT);
            } else {
                break;
            }
        }
        false
    }

    /// Sends what is staged.
    fn flush(&mut self) {
        let packets = self.socket.submit() as u64;
        let bytes = std::mem::take(&mut self.staged_bytes);
        let (mut retries, mut refused) = (0, 0);
        loop {
            match self.socket.kick() {
                Ok(()) => break,
                Err(error) if is_down(&error) => {
                    // They stay in the ring: the kernel sends them late, when
                    // the interface comes up, or never.
                    *self.down = true;
                    self.counters.lost(TxLoss::PortDown, packets - refused);
                    self.counters.lost(TxLoss::Refused, refused);
                    return;
                }
                // One packet did not leave, others may wait behind it.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && refused < packets => {
                    refused += 1;
                }
                // The kernel sends so many at a time, or the queue is full.
                Err(_) if retries < KICKS => {
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
