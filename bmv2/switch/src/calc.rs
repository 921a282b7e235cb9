//! Hash and checksum algorithms of bmv2.

/// An algorithm, by the name that the JSON uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// Polynomial 0x8005, reflected, initial 0 (CRC-16/ARC).
    Crc16,
    /// Polynomial 0x04c11db7, reflected, initial and final all ones.
    Crc32,
    /// Polynomial 0x1021, initial 0xffff.
    CrcCcitt,
    /// Polynomial 0x07, initial 0.
    Crc8,
    /// Polynomial 0x1b, reflected, initial 0.
    Crc64,
    /// The Internet checksum (RFC 1071).
    Csum16,
    Xor16,
    Xor32,
    /// The first eight bytes.
    Identity,
    /// xxHash, 64 bits, seed 0.
    Xxh64,
}

impl Algorithm {
    /// By the JSON's name. The `custom` ones have bmv2's initial parameters.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "crc16" | "crc16_custom" => Self::Crc16,
            "crc32" | "crc32_custom" => Self::Crc32,
            "crcCCITT" => Self::CrcCcitt,
            "crc8_custom" => Self::Crc8,
            "crc64_custom" => Self::Crc64,
            "csum16" | "cksum16" => Self::Csum16,
            "xor16" => Self::Xor16,
            "xor32" => Self::Xor32,
            "identity" => Self::Identity,
            "xxh64" => Self::Xxh64,
            _ => return None,
        })
    }

    /// The hash of some bytes.
    pub(crate) fn compute(self, data: &[u8]) -> u64 {
        match self {
            Self::Crc16 => u64::from(crc16(data)),
            Self::Crc32 => u64::from(crc32(data)),
            Self::CrcCcitt => u64::from(data.iter().fold(0xffff_u16, |crc, &b| {
                table(&CCITT, (crc >> 8) as u8 ^ b) ^ (crc << 8)
            })),
            Self::Crc8 => u64::from(data.iter().fold(0u8, |crc, &b| table(&CRC8, crc ^ b))),
            Self::Crc64 => data
                .iter()
                .fold(0u64, |crc, &b| table(&CRC64, crc as u8 ^ b) ^ (crc >> 8)),
            Self::Csum16 => u64::from(csum16(data)),
            Self::Xor16 => data.chunks(2).fold(0, |x, c| x ^ big_endian(c, 2)),
            Self::Xor32 => data.chunks(4).fold(0, |x, c| x ^ big_endian(c, 4)),
            Self::Identity => {
                let n = data.len().min(8);
                big_endian(data.get(..n).unwrap_or(&[]), n)
            }
            Self::Xxh64 => xxh64(data),
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
    let mut sum = 0u64;
    let mut chunks = data.chunks_exact(4);
    for c in &mut chunks {
        if let Some(c) = c.first_chunk::<4>() {
            sum += u64::from(u32::from_be_bytes(*c));
        }
    }
    let rest = chunks.remainder();
    sum += match rest {
        [] => 0,
        [a] => u64::from(*a) << 8,
        [a, b] => u64::from(u16::from_be_bytes([*a, *b])),
        [a, b, c, ..] => u64::from(u16::from_be_bytes([*a, *b])) + (u64::from(*c) << 8),
    };
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn crc16(data: &[u8]) -> u16 {
    data.iter()
        .fold(0u16, |crc, &b| table(&ARC, crc as u8 ^ b) ^ (crc >> 8))
}

fn crc32(data: &[u8]) -> u32 {
    !data
        .iter()
        .fold(!0u32, |crc, &b| table(&CRC32, crc as u8 ^ b) ^ (crc >> 8))
}

fn table<T: Copy + Default>(table: &[T; 256], index: u8) -> T {
    table.get(usize::from(index)).copied().unwrap_or_default()
}

macro_rules! crc_table {
    ($name:ident, $ty:ty, reflected $poly:expr) => {
        static $name: [$ty; 256] = {
            let mut t = [0; 256];
            let mut i = 0;
            while i < 256 {
                let mut crc = i as $ty;
                let mut bit = 0;
                while bit < 8 {
                    crc = (crc >> 1) ^ (if crc & 1 == 1 { $poly } else { 0 });
                    bit += 1;
                }
                t[i] = crc;
                i += 1;
            }
            t
        };
    };
    ($name:ident, $ty:ty, $poly:expr) => {
        static $name: [$ty; 256] = {
            let mut t = [0; 256];
            let mut i = 0;
            while i < 256 {
                let mut crc = (i as $ty) << (<$ty>::BITS - 8);
                let mut bit = 0;
                while bit < 8 {
                    let top = crc >> (<$ty>::BITS - 1) == 1;
                    crc = (crc << 1) ^ (if top { $poly } else { 0 });
                    bit += 1;
                }
                t[i] = crc;
                i += 1;
            }
            t
        };
    };
}

crc_table!(ARC, u16, reflected 0xa001);
crc_table!(CRC32, u32, reflected 0xedb8_8320);
crc_table!(CRC64, u64, reflected 0xd800_0000_0000_0000);
crc_table!(CCITT, u16, 0x1021);
crc_table!(CRC8, u8, 0x07);

/// The constants of xxHash's 64-bit variant.
const P: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

fn xxh64(data: &[u8]) -> u64 {
    let [p1, p2, p3, p4, p5] = P;
    let round = |acc: u64, input: u64| {
        acc.wrapping_add(input.wrapping_mul(p2))
            .rotate_left(31)
            .wrapping_mul(p1)
    };
    let word = |c: &[u8]| c.first_chunk::<8>().map_or(0, |c| u64::from_le_bytes(*c));
    let mut rest = data;
    let mut hash = if data.len() >= 32 {
        let mut lanes = [p1.wrapping_add(p2), p2, 0, 0u64.wrapping_sub(p1)];
        let mut stripes = data.chunks_exact(32);
        for stripe in &mut stripes {
            for (lane, c) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round(*lane, word(c));
            }
        }
        rest = stripes.remainder();
        let start = lanes
            .iter()
            .zip([1, 7, 12, 18])
            .fold(0u64, |h, (lane, by)| h.wrapping_add(lane.rotate_left(by)));
        lanes.iter().fold(start, |h, &lane| {
            (h ^ round(0, lane)).wrapping_mul(p1).wrapping_add(p4)
        })
    } else {
        p5
    };
    hash = hash.wrapping_add(data.len() as u64);
    let mut words = rest.chunks_exact(8);
    for c in &mut words {
        hash = (hash ^ round(0, word(c)))
            .rotate_left(27)
            .wrapping_mul(p1)
            .wrapping_add(p4);
    }
    rest = words.remainder();
    if let Some((c, tail)) = rest.split_first_chunk::<4>() {
        hash = (hash ^ u64::from(u32::from_le_bytes(*c)).wrapping_mul(p1))
            .rotate_left(23)
            .wrapping_mul(p2)
            .wrapping_add(p3);
        rest = tail;
    }
    for &b in rest {
        hash = (hash ^ u64::from(b).wrapping_mul(p5))
            .rotate_left(11)
            .wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(p3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of a CRC catalogue is the CRC of these nine digits.
    const CHECK: &[u8] = b"123456789";

    #[test]
    fn crcs_have_their_check_values() {
        assert_eq!(Algorithm::Crc16.compute(CHECK), 0xbb3d);
        assert_eq!(Algorithm::Crc32.compute(CHECK), 0xcbf4_3926);
        assert_eq!(Algorithm::CrcCcitt.compute(CHECK), 0x29b1);
        assert_eq!(Algorithm::Crc8.compute(CHECK), 0xf4);
        // CRC-64/GO-ISO without its inversions.
        assert_eq!(Algorithm::Crc64.compute(b""), 0);
        assert_eq!(Algorithm::Crc64.compute(&[0x80]), 0xd800_0000_0000_0000);
    }

    #[test]
    fn the_checksum_of_a_known_ipv4_header() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x00, 0x00, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(Algorithm::Csum16.compute(&header), 0xb861);
        // RFC 1071's example, and an odd byte behind it.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(csum16(&words), !0xddf2);
        assert_eq!(csum16(&[0xff]), !0xff00);
        assert_eq!(csum16(&[]), 0xffff);
    }

    #[test]
    fn xxh64_of_known_strings() {
        assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(
            xxh64(b"Nobody inspects the spammish repetition"),
            0xfbce_a83c_8a37_8bf1
        );
    }

    #[test]
    fn short_input_is_padded_behind() {
        assert_eq!(
            Algorithm::Xor16.compute(&[0x12, 0x34, 0xab]),
            0x1234 ^ 0xab00
        );
        assert_eq!(
            Algorithm::Xor32.compute(&[1, 2, 3, 4, 5]),
            0x0102_0304 ^ 0x0500_0000
        );
        assert_eq!(Algorithm::Identity.compute(&[1, 2, 3]), 0x0001_0203);
        assert_eq!(
            Algorithm::Identity.compute(&[1, 2, 3, 4, 5, 6, 7, 8, 9]),
            0x0102_0304_0506_0708
        );
    }
}
