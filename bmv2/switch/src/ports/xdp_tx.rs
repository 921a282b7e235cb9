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
    /// The interface was too busy for the last packets: they are in the ring.
    waiting: bool,
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
            waiting: false,
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
            waiting: &mut self.waiting,
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

    /// Whether packets are in the ring that leave only when somebody asks again.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Asks again, once: others wait for their turn.
    pub(super) fn resume(&mut self) {
        match self.socket.lock().kick() {
            Ok(()) => self.waiting = false,
            // They leave when the interface is up.
            Err(error) if is_down(&error) => self.waiting = false,
            // One that was taken for sent.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                self.counters.lost(TxLoss::Refused, 1);
            }
            Err(_) => {}
        }
    }
}

/// How far the kernel has come with a send ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pushed {
    All,
    /// The interface is too busy for the rest.
    InPart,
    /// The interface is down. What is in the ring the kernel sends late, when
    /// it comes up, or never.
    Down,
}

/// Has the kernel send what is in the ring, the last `packets` of which are new;
/// also returns how many of them it refused.
fn push_out(packets: u64, mut kick: impl FnMut() -> io::Result<()>) -> (Pushed, u64) {
    let (mut retries, mut refused) = (0, 0);
    loop {
        match kick() {
            Ok(()) => return (Pushed::All, refused),
            Err(error) if is_down(&error) => return (Pushed::Down, refused),
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
            Err(_) => return (Pushed::InPart, refused),
        }
    }
}

/// A batch that is being sent.
struct Sending<'a> {
    socket: &'a mut XskSocket,
    counters: &'a PortCounters,
    down: &'a mut bool,
    waiting: &'a mut bool,
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
        let (pushed, refused) = push_out(packets, || self.socket.kick());
        *self.waiting = pushed == Pushed::InPart;
        if pushed == Pushed::Down {
            *self.down = true;
            self.counters.lost(TxLoss::PortDown, packets - refused);
            self.counters.lost(TxLoss::Refused, refused);
            return;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_busy_interface_leaves_waits_to_be_asked_for() {
        let error = |code| Err(io::Error::from_raw_os_error(code));
        // So many answers of each kind, then success.
        type Answers = &'static [(u32, i32)];
        let cases: [(u64, Answers, (Pushed, u64)); 6] = [
            (3, &[], (Pushed::All, 0)),
            (3, &[(KICKS, libc::EAGAIN)], (Pushed::All, 0)),
            (3, &[(KICKS + 1, libc::EAGAIN)], (Pushed::InPart, 0)),
            (3, &[(2, libc::EBUSY)], (Pushed::All, 2)),
            (
                3,
                &[(1, libc::EBUSY), (1, libc::ENETDOWN)],
                (Pushed::Down, 1),
            ),
            // No more are refused than there are.
            (1, &[(KICKS + 2, libc::EBUSY)], (Pushed::InPart, 1)),
        ];
        for (packets, answers, expected) in cases {
            let all = answers.iter();
            let mut all = all.flat_map(|&(count, code)| (0..count).map(move |_| code));
            let kick = || all.next().map_or(Ok(()), error);
            assert_eq!(push_out(packets, kick), expected, "{packets} {answers:?}");
        }
    }
}
