//! The books of one port.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

/// Why a packet that the switch wanted to send did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxLoss {
    /// The transmit queue stayed full through all retries.
    QueueFull,
    /// The interface is down or gone.
    PortDown,
    /// Longer than the interface's MTU allows.
    TooLong,
    /// The system refused it for another reason.
    Refused,
}

/// What is known of the link behind a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// Packets can come and go.
    Up,
    /// The interface is down or has no carrier.
    Down,
    /// There is no such interface (any more).
    Gone,
}

/// Counters of a port, shared by its workers and whoever reads them.
#[derive(Debug, Default)]
pub(super) struct PortCounters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    rx_missed: AtomicU64,
    rx_truncated: AtomicU64,
    rx_checksum_unfinished: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    tx_queue_full: AtomicU64,
    tx_port_down: AtomicU64,
    tx_too_long: AtomicU64,
    tx_refused: AtomicU64,
    rx_file_damaged: AtomicU64,
    not_captured: AtomicU64,
    link: AtomicU8,
    reopened: AtomicU64,
}

impl PortCounters {
    pub(super) fn received(&self, packets: u64, bytes: u64) {
        self.rx_packets.fetch_add(packets, Relaxed);
        self.rx_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn missed(&self, packets: u64) {
        self.rx_missed.fetch_add(packets, Relaxed);
    }

    /// Counts a packet that did not fit the ring's frames; returns how many
    /// there were before.
    pub(super) fn truncated(&self) -> u64 {
        self.rx_truncated.fetch_add(1, Relaxed)
    }

    /// Counts a packet whose sender left the checksum to the hardware; returns
    /// how many there were before.
    pub(super) fn checksum_unfinished(&self) -> u64 {
        self.rx_checksum_unfinished.fetch_add(1, Relaxed)
    }

    pub(super) fn sent(&self, packets: u64, bytes: u64) {
        self.tx_packets.fetch_add(packets, Relaxed);
        self.tx_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn lost(&self, reason: TxLoss, packets: u64) {
        let counter = match reason {
            TxLoss::QueueFull => &self.tx_queue_full,
            TxLoss::PortDown => &self.tx_port_down,
            TxLoss::TooLong => &self.tx_too_long,
            TxLoss::Refused => &self.tx_refused,
        };
        counter.fetch_add(packets, Relaxed);
    }

    /// Counts an input file that could not be read to its end.
    pub(super) fn file_damaged(&self) {
        self.rx_file_damaged.fetch_add(1, Relaxed);
    }

    /// Counts packets that are missing from the capture files.
    pub(super) fn not_captured(&self, packets: u64) {
        if packets > 0 {
            self.not_captured.fetch_add(packets, Relaxed);
        }
    }

    /// Notes the state of the link; returns the one before.
    pub(super) fn set_link(&self, state: LinkState) -> LinkState {
        link_state(self.link.swap(state as u8, Relaxed))
    }

    /// Counts that the port was opened again.
    pub(super) fn reopened(&self) {
        self.reopened.fetch_add(1, Relaxed);
    }

    pub(super) fn snapshot(&self, port: u16, interface: &str) -> PortSnapshot {
        let tx_queue_full = self.tx_queue_full.load(Relaxed);
        let tx_port_down = self.tx_port_down.load(Relaxed);
        let tx_too_long = self.tx_too_long.load(Relaxed);
        let tx_refused = self.tx_refused.load(Relaxed);
        PortSnapshot {
            port,
            interface: interface.to_owned(),
            rx_packets: self.rx_packets.load(Relaxed),
            rx_bytes: self.rx_bytes.load(Relaxed),
            rx_missed: self.rx_missed.load(Relaxed),
            rx_truncated: self.rx_truncated.load(Relaxed),
            rx_checksum_unfinished: self.rx_checksum_unfinished.load(Relaxed),
            tx_packets: self.tx_packets.load(Relaxed),
            tx_bytes: self.tx_bytes.load(Relaxed),
            tx_dropped: tx_queue_full + tx_port_down + tx_too_long + tx_refused,
            tx_queue_full,
            tx_port_down,
            tx_too_long,
            tx_refused,
            rx_file_damaged: self.rx_file_damaged.load(Relaxed),
            not_captured: self.not_captured.load(Relaxed),
            link: link_state(self.link.load(Relaxed)),
            reopened: self.reopened.load(Relaxed),
        }
    }
}

fn link_state(number: u8) -> LinkState {
    match number {
        0 => LinkState::Up,
        1 => LinkState::Down,
        _ => LinkState::Gone,
    }
}

/// Totals of one port since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortSnapshot {
    /// The port's number.
    pub port: u16,
    /// The interface behind it.
    pub interface: String,
    /// Packets taken from the interface and given to the pipeline.
    pub rx_packets: u64,
    /// Bytes of those packets.
    pub rx_bytes: u64,
    /// Packets that the kernel dropped because the receive ring was full.
    pub rx_missed: u64,
    /// Packets dropped because they were longer than a frame of the receive
    /// ring, usually because the sender segments in hardware; of an input
    /// file: those that had been captured in part only.
    pub rx_truncated: u64,
    /// Packets received with a checksum that the sender left to the hardware;
    /// they are processed as they are.
    pub rx_checksum_unfinished: u64,
    /// Packets handed to the interface.
    pub tx_packets: u64,
    /// Bytes of those packets.
    pub tx_bytes: u64,
    /// Packets not sent: the sum of the four reasons that follow.
    pub tx_dropped: u64,
    /// Not sent: the transmit queue stayed full.
    pub tx_queue_full: u64,
    /// Not sent: the interface is down or gone.
    pub tx_port_down: u64,
    /// Not sent: longer than the MTU allows.
    pub tx_too_long: u64,
    /// Not sent: refused by the system for another reason.
    pub tx_refused: u64,
    /// 1 if the port's input file could not be read to its end.
    pub rx_file_damaged: u64,
    /// Packets, received or sent, that could not be written to the capture
    /// files.
    pub not_captured: u64,
    /// The link behind the port.
    pub link: LinkState,
    /// How often the interface was opened again, because it had gone and come
    /// back or its MTU had grown.
    pub reopened: u64,
}
