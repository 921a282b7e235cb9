//! Over files: the switch reads packets from a pipe and writes them to a file
//! in memory (`--use-files`). What is left beside the switch's own work is a
//! copy or two of each packet, where over a link it is the kernel's way through
//! two network devices.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hw_tests::rig::{Rig, input_file, output_file};
use hw_tests::scene::{SERVERS, UPLINK};
use hw_tests::target::Target;
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::stat::Mode;
use serde_json::Value;

use crate::climb::{self, Step};
use crate::traffic;

/// Packets in one write of the generator.
const BURST: usize = 32;

/// Bytes before the first record of a pcap file, and before each packet
/// (draft-ietf-opsawg-pcap, 4 and 5).
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// Bytes that the pipe may hold, the most that Linux gives anyone.
const PIPE: i32 = 1 << 20;

/// Offers ever more packets of one length until too many are lost.
pub fn measure(target: Target, length: usize) -> Result<Value> {
    let folder = Folder::new(target, length)?;
    let mut pipe = folder.pipe(&input_file(UPLINK))?;
    pipe.write_all(&file_header())?;
    std::fs::write(folder.0.join(input_file(SERVERS)), file_header())?;

    let name = format!("bench-files-{length}");
    let mut rig = Rig::start_on_files(target, &name, &[UPLINK, SERVERS], &folder.0)?;
    traffic::install(&rig.controller)?;
    let output = Output {
        path: folder.0.join(output_file(SERVERS)),
        record: RECORD_HEADER + length,
    };
    check_logic(&mut pipe, &output, length)?;

    let frames = traffic::frames(traffic::forward, length)?;
    let bursts: Vec<Vec<u8>> = frames
        .chunks_exact(BURST)
        .map(|burst| burst.iter().flat_map(|frame| record(frame)).collect())
        .collect();
    let mut next = bursts.iter().cycle();
    climb::climb(|rate| {
        rig.process.check()?;
        // What was written before need not take memory any more.
        let before = output.packets()?;
        output.empty()?;
        let cpu_before = rig.process.cpu_time()?;
        let (sent, took) = climb::pace(BURST, rate, || {
            pipe.write_all(next.next().context("there are no frames")?)?;
            Ok(BURST)
        })?;
        Ok(Step {
            offered: rate,
            sent,
            received: climb::settled(|| output.packets())?.saturating_sub(before),
            took,
            cpu: rig.process.cpu_time()? - cpu_before,
        })
    })
}

/// Some frames of the run, compared whole.
fn check_logic(pipe: &mut File, output: &Output, length: usize) -> Result<()> {
    let mut expected = Vec::new();
    for at in (0..traffic::SESSIONS).step_by(64) {
        let session = traffic::session(at);
        pipe.write_all(&record(&traffic::forward(&session, length)?))?;
        expected.push(traffic::forward_out(&session, length)?);
        output.wait_for(expected.len())?;
    }
    let bytes = std::fs::read(&output.path)?;
    let found = bytes[FILE_HEADER..]
        .chunks(output.record)
        .map(|record| &record[RECORD_HEADER..]);
    ensure!(found.eq(&expected), "the switch forwards wrongly");
    Ok(())
}

/// The header of a pcap file, Ethernet and microseconds.
fn file_header() -> Vec<u8> {
    let mut bytes = 0xa1b2_c3d4_u32.to_ne_bytes().to_vec();
    bytes.extend([2_u16, 4].map(u16::to_ne_bytes).concat());
    bytes.extend([0_u32, 0, 262_144, 1].map(u32::to_ne_bytes).concat());
    bytes
}

/// A packet as pcap has it, at time 0: both switches then take it at once.
fn record(frame: &[u8]) -> Vec<u8> {
    let length = frame.len() as u32;
    let mut bytes = [0, 0, length, length].map(u32::to_ne_bytes).concat();
    bytes.extend(frame);
    bytes
}

/// What a switch writes.
struct Output {
    path: PathBuf,
    /// Bytes of a packet with its header.
    record: usize,
}

impl Output {
    /// Packets that were written since the start.
    fn packets(&self) -> Result<u64> {
        let bytes = self.path.metadata().map_or(0, |file| file.len());
        Ok(bytes.saturating_sub(FILE_HEADER as u64) / self.record as u64)
    }

    /// Gives the memory back. The switch goes on writing where it was, so the
    /// length grows as if nothing had happened.
    fn empty(&self) -> Result<()> {
        Ok(File::options().write(true).open(&self.path)?.set_len(0)?)
    }

    fn wait_for(&self, packets: usize) -> Result<()> {
        let start = Instant::now();
        while self.packets()? < packets as u64 {
            ensure!(
                start.elapsed() < Duration::from_secs(2),
                "no packet came out"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// A folder in memory, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(target: Target, length: usize) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let name = format!("bench-{target}-{length}-{}", std::process::id());
        let path = base.join(name);
        std::fs::create_dir(&path).with_context(|| format!("can't make {}", path.display()))?;
        Ok(Self(path))
    }

    /// A pipe that never ends while the result is open, and takes a lot.
    fn pipe(&self, name: &str) -> Result<File> {
        let path = self.0.join(name);
        nix::unistd::mkfifo(&path, Mode::S_IRWXU)?;
        // For reading too: to open it for writing alone would wait for a reader.
        let pipe = File::options().read(true).write(true).open(&path)?;
        fcntl(&pipe, FcntlArg::F_SETPIPE_SZ(PIPE))?;
        Ok(pipe)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
