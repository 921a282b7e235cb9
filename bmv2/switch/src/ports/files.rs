//! Ports that are files: packets come from one and go to another.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::PortError;
use super::counters::PortCounters;
use super::dataplane::Shared;
use super::pcap::{FilePacket, PcapReader};
use super::sys::Wake;

/// How long the reader rests when the worker has enough to do.
const FULL_PAUSE: Duration = Duration::from_micros(200);
/// How long it waits at most before it looks whether the switch stops.
const STOP_PAUSE: Duration = Duration::from_millis(50);

/// The file that packets of one port come from.
#[derive(Debug)]
pub(super) struct Input {
    port: u16,
    path: PathBuf,
    counters: Arc<PortCounters>,
    /// `None` for a pipe that is opened later, and at the end.
    reader: Option<PcapReader>,
    next: Option<FilePacket>,
}

impl Input {
    /// Opens the file; a pipe only later, since that waits for a writer.
    pub(super) fn open(
        port: u16,
        path: &Path,
        counters: &Arc<PortCounters>,
    ) -> Result<Self, PortError> {
        let pipe = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
        let reader = if pipe {
            None
        } else {
            let opened = PcapReader::open(path).map_err(|source| PortError::File {
                port,
                path: path.to_owned(),
                source,
            })?;
            Some(opened)
        };
        Ok(Self {
            port,
            path: path.to_owned(),
            counters: Arc::clone(counters),
            reader,
            next: None,
        })
    }

    fn begin(&mut self) {
        if self.reader.is_none() {
            match PcapReader::open(&self.path) {
                Ok(reader) => self.reader = Some(reader),
                Err(error) => self.fail(&error),
            }
        }
        self.advance();
    }

    /// Reads the next whole packet into `next`.
    fn advance(&mut self) {
        self.next = None;
        while let Some(reader) = &mut self.reader {
            match reader.next() {
                Ok(Some(packet)) if (packet.bytes.len() as u64) < u64::from(packet.length) => {
                    if self.counters.truncated() == 0 {
                        let path = self.path.display();
                        tracing::warn!(%path, "left out a packet that was captured in part only");
                    }
                }
                Ok(Some(packet)) => {
                    self.next = Some(packet);
                    return;
                }
                Ok(None) => self.reader = None,
                Err(error) => self.fail(&error),
            }
        }
    }

    fn fail(&mut self, error: &dyn std::fmt::Display) {
        self.reader = None;
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
    for input in &mut inputs {
        input.begin();
    }
    while let Some(input) = earliest(&mut inputs) {
        let Some(packet) = input.next.take() else {
            return;
        };
        input.counters.received(1, packet.bytes.len() as u64);
        let mut waiting = (input.port, packet.bytes);
        while let Err(back) = shared.from_files.push(waiting) {
            waiting = back;
            if stopped() {
                return;
            }
            wake.signal();
            std::thread::sleep(FULL_PAUSE);
        }
        wake.signal();
        input.advance();
    }
    tracing::info!("all packets of the input files have been read");
}

/// The input whose next packet has the earliest time; of several the lowest
/// port.
fn earliest(inputs: &mut [Input]) -> Option<&mut Input> {
    inputs
        .iter_mut()
        .filter(|input| input.next.is_some())
        .min_by_key(|input| input.next.as_ref().map(|packet| packet.time))
}
