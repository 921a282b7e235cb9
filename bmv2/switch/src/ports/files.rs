//! Ports that are files: packets come from one and go to another.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::PortError;
use super::counters::PortCounters;
use super::dataplane::Shared;
use super::pcap::{FilePacket, PcapReadError, PcapReader};
use super::sys::Wake;

/// How long the reader rests when the worker has enough to do.
const FULL_PAUSE: Duration = Duration::from_micros(200);
/// How long it waits at most before it looks whether the switch stops.
const STOP_PAUSE: Duration = Duration::from_millis(50);
/// Packets that the worker gets at once.
const BURST: usize = 64;
/// Bytes that end a burst: bounds memory when packets are long.
const BURST_BYTES: usize = 1 << 18;

/// Bursts that may wait for the worker.
pub(super) const BURSTS: usize = 16;

/// Packets of files, in the order in which they go into the switch.
#[derive(Debug, Default)]
pub(super) struct Burst {
    bytes: Vec<u8>,
    /// The port of each packet, and where it ends in `bytes`.
    packets: Vec<(u16, usize)>,
}

impl Burst {
    /// Port and bytes of each packet.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut start = 0;
        self.packets.iter().map(move |(port, end)| {
            let packet = &self.bytes[start..*end];
            start = *end;
            (*port, packet)
        })
    }

    fn push(&mut self, port: u16, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.packets.push((port, self.bytes.len()));
    }

    fn is_full(&self) -> bool {
        self.packets.len() >= BURST || self.bytes.len() >= BURST_BYTES
    }
}

/// The file that packets of one port come from.
#[derive(Debug)]
pub(super) struct Input {
    port: u16,
    path: PathBuf,
    counters: Arc<PortCounters>,
    /// Opens a pipe, which waits for its writer.
    opening: Option<JoinHandle<Result<PcapReader, PcapReadError>>>,
    /// `None` for a pipe that is not open yet, and at the end.
    reader: Option<PcapReader>,
    /// The next packet, unless the file has none any more.
    next: FilePacket,
    /// Packets that had been captured in part only.
    left_out: u64,
}

impl Input {
    /// Opens the file. A pipe is opened on a thread of its own: that waits for
    /// whoever writes it, who may open several in any order.
    pub(super) fn open(
        port: u16,
        path: &Path,
        counters: &Arc<PortCounters>,
    ) -> Result<Self, PortError> {
        let pipe = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
        let (opening, reader) = if pipe {
            let path = path.to_owned();
            let thread = std::thread::Builder::new()
                .name(format!("pipe-{port}"))
                .spawn(move || PcapReader::open(&path))
                .map_err(PortError::Thread)?;
            (Some(thread), None)
        } else {
            let opened = PcapReader::open(path).map_err(|source| PortError::File {
                port,
                path: path.to_owned(),
                source,
            })?;
            (None, Some(opened))
        };
        Ok(Self {
            port,
            path: path.to_owned(),
            counters: Arc::clone(counters),
            opening,
            reader,
            next: FilePacket::default(),
            left_out: 0,
        })
    }

    /// Waits until the file is open.
    fn begin(&mut self) {
        let Some(opening) = self.opening.take() else {
            return;
        };
        match opening.join().unwrap_or(Err(PcapReadError::Damaged)) {
            Ok(reader) => self.reader = Some(reader),
            Err(error) => self.fail(&error),
        }
    }

    /// Reads the next whole packet into `next`; before it has to wait for more
    /// of a pipe it calls `before_reading`.
    fn advance(&mut self, before_reading: &mut dyn FnMut()) {
        while let Some(reader) = &mut self.reader {
            match reader.next(&mut self.next, &mut *before_reading) {
                Ok(true) if (self.next.bytes.len() as u64) < u64::from(self.next.length) => {
                    self.left_out += 1;
                    if self.counters.truncated() == 0 {
                        let (port, path) = (self.port, self.path.display());
                        tracing::warn!(
                            port, %path,
                            "left out a packet that was captured in part only; all such are \
                             counted as rx_truncated in /stats (--http)"
                        );
                    }
                }
                Ok(true) => return,
                Ok(false) => self.end(),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn end(&mut self) {
        self.reader = None;
        if self.left_out > 1 {
            let (port, path, packets) = (self.port, self.path.display(), self.left_out);
            tracing::warn!(
                port, %path, packets,
                "left out the packets of this file that were captured in part only"
            );
        }
    }

    fn fail(&mut self, error: &dyn std::fmt::Display) {
        self.end();
        self.counters.file_damaged();
        let (port, path) = (self.port, self.path.display());
        tracing::error!(port, %path, "no more packets from this file: {error}");
    }
}

/// Waits, then feeds the packets of all files to the switch in the order of
/// their times, as fast as it takes them.
pub(super) fn feed(mut inputs: Vec<Input>, wait: Duration, shared: &Shared, wake: &Wake) {
    let begin = Instant::now() + wait;
    let stopped = || shared.stop.load(Ordering::Acquire);
    loop {
        if stopped() {
            return;
        }
        let left = begin.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(STOP_PAUSE));
    }
    inputs.sort_by_key(|input| input.port);
    // Whoever writes pipes may write no packet before all are open.
    for input in &mut inputs {
        input.begin();
    }
    for input in &mut inputs {
        input.advance(&mut || ());
    }
    let mut burst = Burst::default();
    while let Some(input) = earliest(&mut inputs) {
        input.counters.received(1, input.next.bytes.len() as u64);
        burst.push(input.port, &input.next.bytes);
        if burst.is_full() {
            hand_over(&mut burst, shared, wake);
        }
        input.advance(&mut || hand_over(&mut burst, shared, wake));
        if stopped() {
            return;
        }
    }
    hand_over(&mut burst, shared, wake);
    tracing::info!("all packets of the input files have been read");
}

/// Gives the worker what has been read, as soon as it has room for it, and
/// leaves the burst empty.
fn hand_over(burst: &mut Burst, shared: &Shared, wake: &Wake) {
    if burst.packets.is_empty() {
        return;
    }
    let mut waiting = std::mem::take(burst);
    while let Err(back) = shared.from_files.push(waiting) {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        waiting = back;
        wake.signal();
        std::thread::sleep(FULL_PAUSE);
    }
    wake.signal();
}

/// The input whose next packet has the earliest time; of several the lowest
/// port.
fn earliest(inputs: &mut [Input]) -> Option<&mut Input> {
    inputs
        .iter_mut()
        .filter(|input| input.reader.is_some())
        .min_by_key(|input| input.next.time)
}
