//! Hash and checksum algorithms of bmv2.

mod crc;
mod toeplitz;
mod turn;
mod xxh64;

use std::sync::Arc;

use crc::Crc;
use turn::{Consistent, Turn};

/// An algorithm, by the name that the JSON uses.
#[derive(Debug, Clone)]
pub(crate) enum Algorithm {
    /// CRC-16/ARC.
    Crc16,
    /// CRC-32/ISO-HDLC.
    Crc32,
    /// CRC-16/IBM-3740.
    CrcCcitt,
    /// Any other CRC.
    Crc(Arc<Crc>),
    /// The Internet checksum (RFC 1071).
    Csum16,
    Xor16,
    Xor32,
    /// The first eight bytes.
    Identity,
    /// xxHash, 64 bits, seed 0.
    Xxh64,
    /// Receive-side scaling's hash with bmv2's key.
    Toeplitz,
    /// The number of calculations so far.
    RoundRobin(Arc<Turn>),
    /// The same, but for each input what it got first.
    RoundRobinConsistent(Arc<Consistent>),
    /// A random number. v1model has it, bmv2 refuses it.
    Random,
}

impl Algorithm {
    /// By the JSON's name. The `custom` ones have bmv2's initial parameters.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "crc16" | "crc16_custom" => Self::Crc16,
            "crc32" | "crc32_custom" => Self::Crc32,
            "crcCCITT" => Self::CrcCcitt,
            "csum16" | "cksum16" => Self::Csum16,
            "xor16" => Self::Xor16,
            "xor32" => Self::Xor32,
            "identity" => Self::Identity,
            "xxh64" => Self::Xxh64,
            "toeplitz" => Self::Toeplitz,
            "round_robin" => Self::RoundRobin(Arc::default()),
            "round_robin_consistent" => Self::RoundRobinConsistent(Arc::default()),
            "random" => Self::Random,
            other => Self::Crc(Arc::new(Crc::by_name(match other {
                "crc8_custom" => "crc_8",
                "crc64_custom" => "crc_64",
                other => other,
            })?)),
        })
    }

    /// The hash of some bytes; `random` is called by the one algorithm that
    /// needs it.
    pub(crate) fn compute(&self, data: &[u8], random: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Crc16 => u64::from(crc::crc16(data)),
            Self::Crc32 => u64::from(crc::crc32(data)),
            Self::CrcCcitt => u64::from(crc::ccitt(data)),
            Self::Crc(crc) => crc.compute(data),
            Self::Csum16 => u64::from(csum16(data)),
            Self::Xor16 => data.chunks(2).fold(0, |x, c| x ^ big_endian(c, 2)),
            Self::Xor32 => data.chunks(4).fold(0, |x, c| x ^ big_endian(c, 4)),
            Self::Identity => {
                let n = data.len().min(8);
                big_endian(data.get(..n).unwrap_or(&[]), n)
            }
            Self::Xxh64 => xxh64::xxh64(data),
            Self::Toeplitz => u64::from(toeplitz::toeplitz(&toeplitz::DEFAULT_KEY, data)),
            Self::RoundRobin(turn) => turn.next(),
            Self::RoundRobinConsistent(turns) => turns.of(data),
            Self::Random => random(),
        }
    }
}

/// Bytes as a big-endian number of `size` bytes, zeros behind them.
fn big_endian(bytes: &[u8], size: usize) -> u64 {
    (0..size).fold(0, |v, i| {
        (v << 8) | u64::from(bytes.get(i).copied().unwrap_or(0))
    })
}

/// The Internet checksum: the complement of the one's complement sum.
pub(crate) fn csum16(data: &[u8]) -> u16 {
    complement16(sum16(data))
}

/// The sum of bytes as big-endian 16-bit words, as [`complement16`] takes it:
/// sums of pieces may be added, if all pieces but the last are whole words.
/// That of less than 4 GiB does not overflow.
pub(crate) fn sum16(data: &[u8]) -> u64 {
    let mut sum = 0u64;
    let mut rest = data;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        let word = u64::from_be_bytes(*eight);
        sum += (word >> 32) + (word & 0xffff_ffff);
        rest = behind;
    }
    if let Some((four, behind)) = rest.split_first_chunk::<4>() {
        sum += u64::from(u32::from_be_bytes(*four));
        rest = behind;
    }
    if let Some((two, behind)) = rest.split_first_chunk::<2>() {
        sum += u64::from(u16::from_be_bytes(*two));
        rest = behind;
    }
    sum + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

/// The complement of a sum, its carries added.
pub(crate) fn complement16(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash of some bytes by an algorithm's name.
    fn hash(name: &str, data: &[u8]) -> u64 {
        let algorithm = Algorithm::by_name(name).unwrap();
        algorithm.compute(data, || panic!("{name} is not random"))
    }

    /// The input of the check values of CRC catalogues.
    const CHECK: &[u8] = b"123456789";

    #[test]
    fn names_of_bmv2_are_known() {
        for (name, check) in [
            ("crc16", 0xbb3d),
            ("crc16_custom", 0xbb3d),
            ("crc32", 0xcbf4_3926),
            ("crc32_custom", 0xcbf4_3926),
            ("crcCCITT", 0x29b1),
            ("crc8_custom", 0xf4),
            ("crc64_custom", 0x46a5_a938_8a5b_effe),
            ("crc_32c", 0xe306_9283),
            ("poly_0x11021_not_rev", 0x31c3),
            ("toeplitz", 0),
        ] {
            assert_eq!(hash(name, CHECK), check, "{name}");
        }
        assert!(Algorithm::by_name("crc17").is_none());
    }

    #[test]
    fn the_checksum_of_a_known_ipv4_header() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(hash("csum16", &header), 0xb861);
        // RFC 1071's example, and an odd byte behind it.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(csum16(&words), !0xddf2);
        assert_eq!(csum16(&[0xff]), !0xff00);
        assert_eq!(csum16(&[]), 0xffff);
        // In pieces.
        for at in (0..=20).step_by(2) {
            let (a, b) = header.split_at(at);
            assert_eq!(complement16(sum16(a) + sum16(b)), 0xb861);
        }
    }

    #[test]
    fn short_input_is_padded_behind() {
        assert_eq!(hash("xor16", &[0x12, 0x34, 0xab]), 0x1234 ^ 0xab00);
        assert_eq!(hash("xor32", &[1, 2, 3, 4, 5]), 0x0102_0304 ^ 0x0500_0000);
        assert_eq!(hash("identity", &[1, 2, 3]), 0x0001_0203);
        assert_eq!(
            hash("identity", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
            0x0102_0304_0506_0708
        );
    }

    #[test]
    fn each_calculation_takes_turns_of_its_own() {
        let (a, b) = (
            Algorithm::by_name("round_robin").unwrap(),
            Algorithm::by_name("round_robin").unwrap(),
        );
        let next = |x: &Algorithm| x.compute(CHECK, || 0);
        assert_eq!([next(&a), next(&a), next(&b), next(&a)], [0, 1, 0, 2]);
        assert_eq!(next(&Algorithm::by_name("random").unwrap()), 0);
        assert_eq!(Algorithm::Random.compute(CHECK, || 77), 77);
    }
}
