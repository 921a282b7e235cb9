//! Packets in files: writing pcap, reading pcap and pcapng.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

/// Magic of pcap files whose times are in microseconds.
const MAGIC: u32 = 0xa1b2_c3d4;
/// Longest packet that a file says it may hold, as libpcap writes it.
const SNAPLEN: u32 = 262_144;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

const READ_BUFFER: usize = 1 << 16;
/// Most memory for one record of an input file.
const MAX_RECORD: usize = 4 << 20;

/// Writes packets to a pcap file (version 2.4, microseconds, Ethernet, this
/// machine's byte order), as libpcap does.
#[derive(Debug)]
pub(super) struct PcapWriter {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Packets in the buffer.
    waiting: u64,
    /// Bytes of the file up to the last whole record; the header counts as
    /// one, and is written again with the first packet if it failed.
    whole: u64,
    complained: bool,
}

impl PcapWriter {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// If there can be no such file. A full disk is not an error here: see
    /// [`Self::flush`].
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut this = Self {
            file: File::create(path)?,
            path: path.to_owned(),
            buffer: Vec::new(),
            waiting: 0,
            whole: 0,
            complained: false,
        };
        this.flush();
        Ok(this)
    }

    /// Adds a packet, received or sent so many nanoseconds after the Unix
    /// epoch.
    pub(super) fn push(&mut self, packet: &[u8], unix_nanos: i64) {
        let (seconds, nanos) = (
            unix_nanos.div_euclid(1_000_000_000),
            unix_nanos.rem_euclid(1_000_000_000),
        );
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        // The format has 32 bits, which libpcap reads as unsigned.
        for field in [seconds as u32, (nanos / 1_000) as u32, length, length] {
            self.buffer.extend(field.to_ne_bytes());
        }
        self.buffer.extend_from_slice(packet);
        self.waiting += 1;
    }

    /// Writes what waits. Returns how many packets could not be written: they
    /// are lost, and the file still ends with a whole record.
    pub(super) fn flush(&mut self) -> u64 {
        let packets = std::mem::take(&mut self.waiting);
        let result = if self.whole == 0 {
            let mut bytes = header();
            bytes.extend_from_slice(&self.buffer);
            self.write(&bytes)
        } else {
            let bytes = std::mem::take(&mut self.buffer);
            let result = self.write(&bytes);
            self.buffer = bytes;
            result
        };
        self.buffer.clear();
        let Err(error) = result else { return 0 };
        // A file that is no plain one (a pipe) cannot be cut.
        let cut = self.file.set_len(self.whole);
        let _ = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.whole)));
        if !std::mem::replace(&mut self.complained, true) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "packets are missing from the file");
        }
        packets
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.whole += bytes.len() as u64;
        Ok(())
    }
}

fn header() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    bytes.extend(MAGIC.to_ne_bytes());
    for field in [2u16, 4] {
        bytes.extend(field.to_ne_bytes());
    }
    // Time zone and accuracy are always zero.
    for field in [0, 0, SNAPLEN, ETHERNET] {
        bytes.extend(field.to_ne_bytes());
    }
    bytes
}

/// Why a file of packets cannot be read (on).
#[derive(Debug, thiserror::Error)]
pub enum PcapReadError {
    /// The system refused.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Not a file of packets.
    #[error("it is neither pcap nor pcapng")]
    Format,
    /// Fewer bytes than the file itself says.
    #[error("it ends in the middle of a packet")]
    Truncated,
    /// A length that no packet has.
    #[error("it has a record longer than {MAX_RECORD} bytes")]
    TooLong,
    /// The reader found something else wrong.
    #[error("it is damaged")]
    Damaged,
}

/// A packet of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FilePacket {
    /// Nanoseconds since an origin that is the same for the whole file.
    pub(super) time: u64,
    pub(super) bytes: Vec<u8>,
    /// Bytes that it had when it was captured.
    pub(super) length: u32,
}

impl FilePacket {
    fn set(&mut self, time: u64, bytes: &[u8], length: u32) {
        self.time = time;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.length = length;
    }
}

/// Reads packets from a pcap or pcapng file, or a pipe with the like.
pub(super) struct PcapReader {
    inner: Box<dyn PcapReaderIterator + Send>,
    /// Nanoseconds of a unit of time: of the file, or of each of its
    /// interfaces.
    units: Units,
    /// Bytes of the reader's buffer, which grows for a record that needs it.
    capacity: usize,
}

impl std::fmt::Debug for PcapReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapReader").finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Units {
    Micros,
    Nanos,
    /// Units a second, by interface.
    Interfaces(Vec<u64>),
}

impl PcapReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// If it is not there or no file of packets.
    pub(super) fn open(path: &Path) -> Result<Self, PcapReadError> {
        Self::new(File::open(path)?)
    }

    pub(super) fn new(mut source: impl Read + Send + 'static) -> Result<Self, PcapReadError> {
        // A pipe may deliver the header in pieces; the reader wants it whole.
        let mut start = Vec::new();
        source.by_ref().take(24).read_to_end(&mut start)?;
        if let Some(length) = section_length(&start) {
            let rest = length.saturating_sub(start.len()).min(READ_BUFFER / 2);
            source.by_ref().take(rest as u64).read_to_end(&mut start)?;
        }
        let whole = io::Cursor::new(start).chain(source);
        let inner = create_reader(READ_BUFFER, whole).map_err(|_| PcapReadError::Format)?;
        Ok(Self {
            inner,
            units: Units::Micros,
            capacity: READ_BUFFER,
        })
    }

    /// Reads the next packet into `packet`, whose memory is used again; false
    /// at the end. `before_reading` is called each time before the file itself
    /// is read, which a pipe may make a long wait.
    ///
    /// # Errors
    /// What is wrong with the file; there is no going on.
    pub(super) fn next(
        &mut self,
        packet: &mut FilePacket,
        mut before_reading: impl FnMut(),
    ) -> Result<bool, PcapReadError> {
        loop {
            match self.inner.next() {
                Ok((size, block)) => {
                    let found = self.units.block(&block, packet);
                    self.inner.consume(size);
                    if found? {
                        return Ok(true);
                    }
                }
                Err(PcapError::Eof) => return Ok(false),
                Err(PcapError::Incomplete(_)) => {
                    before_reading();
                    self.inner.refill().map_err(|_| damaged())?;
                }
                Err(PcapError::BufferTooSmall) => {
                    self.capacity *= 2;
                    if self.capacity > MAX_RECORD {
                        return Err(PcapReadError::TooLong);
                    }
                    self.inner.grow(self.capacity);
                    before_reading();
                    self.inner.refill().map_err(|_| damaged())?;
                }
                Err(PcapError::UnexpectedEof) => return Err(PcapReadError::Truncated),
                Err(PcapError::ReadError) => return Err(damaged()),
                Err(PcapError::HeaderNotRecognized) => return Err(PcapReadError::Format),
                Err(_) => return Err(PcapReadError::Damaged),
            }
        }
    }
}

/// The length of the section header block that a pcapng file begins with.
fn section_length(start: &[u8]) -> Option<usize> {
    let word = |at: usize| -> Option<[u8; 4]> { start.get(at..at + 4)?.try_into().ok() };
    if word(0)? != [0x0a, 0x0d, 0x0d, 0x0a] {
        return None;
    }
    let length = match word(8)? {
        [0x1a, 0x2b, 0x3c, 0x4d] => u32::from_be_bytes(word(4)?),
        _ => u32::from_le_bytes(word(4)?),
    };
    Some(length as usize)
}

fn damaged() -> PcapReadError {
    io::Error::other("the read failed").into()
}

impl Units {
    /// Takes a block of the file in; whether it is a packet.
    fn block(
        &mut self,
        block: &PcapBlockOwned<'_>,
        packet: &mut FilePacket,
    ) -> Result<bool, PcapReadError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                if header.is_nanosecond_precision() {
                    *self = Self::Nanos;
                }
                Ok(false)
            }
            PcapBlockOwned::Legacy(record) => {
                let unit = if matches!(self, Self::Nanos) {
                    1
                } else {
                    1_000
                };
                let below = u64::from(record.ts_usec).saturating_mul(unit);
                let time = u64::from(record.ts_sec) * 1_000_000_000 + below;
                packet.set(time, record.data, record.origlen);
                Ok(true)
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                *self = Self::Interfaces(Vec::new());
                Ok(false)
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                if let Self::Interfaces(units) = self {
                    // 0 means more than 64 bits.
                    units.push(interface.ts_resolution().unwrap_or(0));
                }
                Ok(false)
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(record)) => {
                let unit = match self {
                    Self::Interfaces(units) => units.get(record.if_id as usize).copied(),
                    _ => None,
                };
                let unit = unit.filter(|unit| *unit > 0).unwrap_or(1_000_000);
                let time = u64::from(record.ts_high) << 32 | u64::from(record.ts_low);
                let nanos = u128::from(time) * 1_000_000_000 / u128::from(unit);
                let bytes = record.data.get(..record.caplen as usize);
                packet.set(
                    u64::try_from(nanos).unwrap_or(u64::MAX),
                    bytes.ok_or(PcapReadError::Damaged)?,
                    record.origlen,
                );
                Ok(true)
            }
            PcapBlockOwned::NG(Block::SimplePacket(record)) => {
                let length = record.origlen as usize;
                let bytes = record.data.get(..length.min(record.data.len()));
                packet.set(0, bytes.unwrap_or_default(), record.origlen);
                Ok(true)
            }
            PcapBlockOwned::NG(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Result<Vec<FilePacket>, PcapReadError> {
        let mut reader = PcapReader::new(io::Cursor::new(bytes.to_vec()))?;
        let (mut packets, mut packet) = (Vec::new(), FilePacket::default());
        while reader.next(&mut packet, || ())? {
            packets.push(packet.clone());
        }
        Ok(packets)
    }

    /// The file format as draft-ietf-opsawg-pcap has it, in either byte order
    /// and with either unit of time.
    fn by_hand(big: bool, magic: u32) -> Vec<u8> {
        let word = |n: u32| {
            if big {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let half = |n: u16| {
            if big {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let mut bytes = word(magic).to_vec();
        bytes.extend(half(2).into_iter().chain(half(4)));
        bytes.extend([0, 0, 65535, 1].map(word).concat());
        bytes.extend([7, 5, 3, 3].map(word).concat());
        bytes.extend([1, 2, 3]);
        bytes.extend([8, 0, 2, 60].map(word).concat());
        bytes.extend([4, 5]);
        bytes
    }

    #[test]
    fn pcap_is_read_in_all_its_kinds() {
        for (big, magic, time) in [
            (false, 0xa1b2_c3d4, 7_000_005_000),
            (true, 0xa1b2_c3d4, 7_000_005_000),
            (false, 0xa1b2_3c4d, 7_000_000_005),
            (true, 0xa1b2_3c4d, 7_000_000_005),
        ] {
            let packets = read_all(&by_hand(big, magic)).unwrap();
            let wanted = [
                FilePacket {
                    time,
                    bytes: vec![1, 2, 3],
                    length: 3,
                },
                FilePacket {
                    time: 8_000_000_000,
                    bytes: vec![4, 5],
                    length: 60,
                },
            ];
            assert_eq!(packets, wanted);
        }
    }

    /// Blocks as draft-ietf-opsawg-pcapng has them: section header, interface
    /// (times in microseconds), a packet of three bytes.
    #[test]
    fn pcapng_is_read() {
        let words: [u32; 7 + 5] = [
            0x0a0d_0d0a,
            28,
            0x1a2b_3c4d,
            1,
            !0,
            !0,
            28, // version 1.0
            1,
            20,
            1,
            0,
            20,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        for word in [6u32, 36, 0, 0, 1_000_007, 3, 3] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([9, 8, 7, 0]);
        bytes.extend(36u32.to_le_bytes());
        let packets = read_all(&bytes).unwrap();
        let wanted = FilePacket {
            time: 1_000_007_000,
            bytes: vec![9, 8, 7],
            length: 3,
        };
        assert_eq!(packets, [wanted]);
    }

    #[test]
    fn damaged_files_are_refused() {
        assert!(matches!(read_all(&[]), Err(PcapReadError::Format)));
        assert!(matches!(read_all(&[7; 100]), Err(PcapReadError::Format)));
        let whole = by_hand(false, MAGIC);
        for length in 25..whole.len() {
            // Behind the first record (24 + 16 + 3) the file is whole.
            let result = read_all(&whole[..length]);
            match length {
                43 => assert_eq!(result.unwrap().len(), 1),
                _ => assert!(matches!(result, Err(PcapReadError::Truncated)), "{length}"),
            }
        }
        let mut huge = whole;
        huge[32..36].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
        assert!(read_all(&huge).is_err());
        let mut long = by_hand(false, MAGIC);
        long[32..36].copy_from_slice(&(100u32 << 20).to_le_bytes());
        long.resize(8 << 20, 0);
        assert!(read_all(&long).is_err());
    }

    /// Whatever a file holds, reading ends, and gives no more than is there.
    #[test]
    fn fuzz_reading() {
        bolero::check!()
            .with_iterations(3_000)
            .with_type::<(u8, Vec<(u16, u8)>, Vec<u8>)>()
            .for_each(|(kind, changes, tail)| {
                let mut bytes = match kind % 4 {
                    0 => Vec::new(),
                    1 => by_hand(false, MAGIC),
                    2 => by_hand(true, 0xa1b2_3c4d),
                    _ => [
                        0x0a0d_0d0au32,
                        28,
                        0x1a2b_3c4d,
                        1,
                        !0,
                        !0,
                        28,
                        1,
                        20,
                        1,
                        0,
                        20,
                        6,
                        36,
                    ]
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect(),
                };
                bytes.extend(tail);
                for (at, byte) in changes {
                    let length = bytes.len().max(1);
                    if let Some(place) = bytes.get_mut(usize::from(*at) % length) {
                        *place = *byte;
                    }
                }
                if let Ok(packets) = read_all(&bytes) {
                    let total: usize = packets.iter().map(|p| p.bytes.len()).sum();
                    assert!(total <= bytes.len());
                }
            });
    }

    #[test]
    fn long_packets_are_read() {
        let mut bytes = by_hand(false, MAGIC);
        bytes.truncate(24);
        let length = 200_000u32;
        for word in [0, 0, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(std::iter::repeat_n(0x5a, length as usize));
        let packets = read_all(&bytes).unwrap();
        assert_eq!(packets.len(), 1);
        assert_eq!(packets[0].bytes, vec![0x5a; length as usize]);
    }

    #[test]
    fn what_is_written_is_laid_out_as_libpcap_does() {
        let path = std::env::temp_dir().join(format!("softswitch-{}.pcap", std::process::id()));
        let mut writer = PcapWriter::create(&path).unwrap();
        writer.push(&[0xaa, 0xbb], 1_700_000_000_123_456_789);
        writer.push(&[0xcc], -1);
        assert_eq!(writer.flush(), 0);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let words = |range: std::ops::Range<usize>| -> Vec<u32> {
            let words = bytes[range].chunks(4);
            words
                .map(|w| u32::from_ne_bytes(w.try_into().unwrap()))
                .collect()
        };
        assert_eq!(words(0..4), [0xa1b2_c3d4]);
        assert_eq!(
            bytes[4..8],
            [2u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat()
        );
        assert_eq!(words(8..24), [0, 0, 262_144, 1]);
        assert_eq!(words(24..40), [1_700_000_000, 123_456, 2, 2]);
        assert_eq!(bytes[40..42], [0xaa, 0xbb]);
        assert_eq!(words(42..58), [u32::MAX, 999_999, 1, 1]);
        assert_eq!(bytes[58..], [0xcc]);
    }

    #[test]
    fn a_full_disk_is_counted() {
        let mut writer = PcapWriter::create(Path::new("/dev/full")).unwrap();
        writer.push(&[1], 0);
        writer.push(&[2], 0);
        assert_eq!(writer.flush(), 2);
        assert_eq!(writer.flush(), 0);
    }
}
