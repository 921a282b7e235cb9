//! A worker's ends of a port, whatever is behind it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;

use super::batch::TxBatch;
use super::channel::ChannelEnd;
use super::clock::Clock;
use super::counters::{PortCounters, TxLoss};
use super::packet_socket::PacketRx;
use super::packet_tx::PacketTx;
use super::pcap::PcapWriter;
use super::tap::{TapRx, TapTx};
use super::xdp::XdpRx;
use super::xdp_tx::XdpTx;

/// Where packets come from.
#[derive(Debug)]
pub(super) enum RxQueue {
    Packet(PacketRx),
    Tap(TapRx),
    Xdp(XdpRx),
    Channel(ChannelEnd, Arc<PortCounters>),
}

impl RxQueue {
    fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        match self {
            Self::Packet(rx) => rx.receive(max, sink),
            Self::Tap(rx) => rx.receive(max, sink),
            Self::Xdp(rx) => rx.receive(max, sink),
            Self::Channel(end, counters) => {
                let mut packets = 0;
                while packets < max
                    && let Some(packet) = end.receive()
                {
                    counters.received(1, packet.len() as u64);
                    sink(&packet);
                    packets += 1;
                }
                packets
            }
        }
    }
}

/// Where packets go.
#[derive(Debug)]
pub(super) enum TxQueue {
    Packet(PacketTx),
    Tap(TapTx),
    Xdp(XdpTx),
    Channel(ChannelEnd, Arc<PortCounters>),
    File(Arc<Mutex<PcapWriter>>, Arc<PortCounters>),
}

impl TxQueue {
    fn send(&mut self, batch: &TxBatch) {
        match self {
            Self::Packet(tx) => tx.send(batch),
            Self::Tap(tx) => tx.send(batch),
            Self::Xdp(tx) => tx.send(batch),
            Self::Channel(end, counters) => {
                for i in 0..batch.len() {
                    let packet = batch.packet(i);
                    if end.send(packet) {
                        counters.sent(1, packet.len() as u64);
                    } else {
                        counters.lost(TxLoss::QueueFull, 1);
                    }
                }
            }
            Self::File(writer, counters) => {
                let lost = write(&mut writer.lock(), batch);
                counters.lost(TxLoss::Refused, lost);
                if lost == 0 {
                    counters.sent(batch.len() as u64, batch.bytes() as u64);
                }
            }
        }
    }
}

fn write(writer: &mut PcapWriter, batch: &TxBatch) -> u64 {
    let now = Clock::unix_nanos();
    for i in 0..batch.len() {
        writer.push(batch.packet(i), now);
    }
    writer.flush()
}

/// A file with the packets of a port in one direction.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    pub(super) writer: Arc<Mutex<PcapWriter>>,
    pub(super) counters: Arc<PortCounters>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct RxEnd {
    pub(super) port: u16,
    pub(super) queue: RxQueue,
    pub(super) capture: Option<Capture>,
}

impl RxEnd {
    /// Gives up to `max` received packets to `sink`; returns how many.
    pub(super) fn receive(&mut self, max: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let Some(capture) = &self.capture else {
            return self.queue.receive(max, sink);
        };
        let now = Clock::unix_nanos();
        let mut writer = capture.writer.lock();
        let packets = self.queue.receive(max, |packet| {
            writer.push(packet, now);
            sink(packet);
        });
        capture.counters.not_captured(writer.flush());
        packets
    }

    pub(super) fn is_ready(&mut self) -> bool {
        match &mut self.queue {
            RxQueue::Packet(rx) => rx.is_ready(),
            RxQueue::Xdp(rx) => rx.is_ready(),
            // Only reading tells.
            RxQueue::Tap(_) => true,
            RxQueue::Channel(end, _) => !end.is_empty(),
        }
    }

    /// What to wait for in `poll`, if packets do not come with a wake-up.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.queue {
            RxQueue::Packet(rx) => Some(rx.fd()),
            RxQueue::Tap(rx) => rx.fd(),
            RxQueue::Xdp(rx) => Some(rx.fd()),
            RxQueue::Channel(..) => None,
        }
    }

    /// Takes a pending error, so that `poll` can sleep again.
    pub(super) fn take_error(&self) {
        match &self.queue {
            RxQueue::Packet(rx) => rx.take_error(),
            RxQueue::Tap(_) | RxQueue::Xdp(_) | RxQueue::Channel(..) => {}
        }
    }
}

/// The sending end.
#[derive(Debug)]
pub(super) struct TxEnd {
    pub(super) queue: TxQueue,
    pub(super) capture: Option<Capture>,
}

impl TxEnd {
    /// Sends all packets of the batch, or counts them as lost.
    pub(super) fn send(&mut self, batch: &TxBatch) {
        if let Some(capture) = &self.capture {
            let lost = write(&mut capture.writer.lock(), batch);
            capture.counters.not_captured(lost);
        }
        self.queue.send(batch);
    }

    /// Whether packets that were sent still wait for the interface.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.queue, TxQueue::Xdp(tx) if tx.is_waiting())
    }

    /// Tries to have them leave.
    pub(super) fn resume(&mut self) {
        if let TxQueue::Xdp(tx) = &mut self.queue {
            tx.resume();
        }
    }
}
