//! The Internet checksum: full (RFC 1071) and incremental (RFC 1624, equation 3).
//!
//! A [`Delta`] is the one's complement difference that a rewrite makes to a
//! sum. It is computed once for a session and applied to every packet; the
//! opposite rewrite has the complement as its delta.

/// Adds `bytes` to a running one's complement sum. An odd last byte counts as
/// the high half of a word (RFC 1071). Only the last of several pieces may be odd.
#[must_use]
pub fn sum(bytes: &[u8], start: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total = words
        .iter()
        .fold(start, |acc, w| acc + u64::from(u32::from_be_bytes(*w)));
    total += match rest {
        [a, b, c] => u64::from(u16::from_be_bytes([*a, *b])) + (u64::from(*c) << 8),
        [a, b] => u64::from(u16::from_be_bytes([*a, *b])),
        [a] => u64::from(*a) << 8,
        _ => 0,
    };
    total
}

/// Folds a running sum to 16 bits with end-around carry.
#[must_use]
pub const fn fold(sum: u64) -> u16 {
    let s = (sum & 0xffff_ffff) + (sum >> 32);
    let s = (s & 0xffff) + ((s >> 16) & 0xffff) + (s >> 32);
    let s = (s & 0xffff) + (s >> 16);
    let s = (s & 0xffff) + (s >> 16);
    s as u16
}

/// The checksum field's value for `bytes`, whose checksum field is zero.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes, 0))
}

/// Whether `bytes`, checksum field included, sum to a valid checksum.
#[must_use]
pub fn is_valid(bytes: &[u8]) -> bool {
    fold(sum(bytes, 0)) == 0xffff
}

/// The sum over the IPv4 pseudo header (RFC 9293 section 3.1, RFC 768).
#[must_use]
pub fn pseudo_sum_v4(src: [u8; 4], dst: [u8; 4], protocol: u8, l4_len: u16) -> u64 {
    u64::from(u32::from_be_bytes(src))
        + u64::from(u32::from_be_bytes(dst))
        + u64::from(protocol)
        + u64::from(l4_len)
}

/// A one's complement difference between two versions of some header fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u16);

impl Delta {
    /// No change.
    pub const ZERO: Self = Self(0);

    /// Restores a delta kept as [`Delta::bits`].
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The delta as a number, to be kept in a session record.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Adds the change of a 16-bit field.
    #[must_use]
    pub const fn with_u16(self, old: u16, new: u16) -> Self {
        Self(fold(self.0 as u64 + (!old) as u64 + new as u64))
    }

    /// Adds the change of an aligned 32-bit field.
    #[must_use]
    pub const fn with_u32(self, old: u32, new: u32) -> Self {
        Self(fold(self.0 as u64 + (!old) as u64 + new as u64))
    }

    /// Adds another delta.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(fold(self.0 as u64 + other.0 as u64))
    }

    /// The delta of the opposite rewrite.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self(!self.0)
    }

    /// RFC 1624 equation 3: `HC' = ~(~HC + ~m + m')`.
    #[must_use]
    pub const fn apply(self, checksum: u16) -> u16 {
        let s = (!checksum) as u32 + self.0 as u32;
        !((s & 0xffff) as u16).wrapping_add((s >> 16) as u16)
    }

    /// As [`Delta::apply`] for UDP over IPv4 (RFC 768): a checksum of zero
    /// means "none" and stays; a computed zero is sent as `0xffff`.
    #[must_use]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            c => c,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc1071_worked_example() {
        // RFC 1071 section 3: 0001 f203 f4f5 f6f7 sums to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes, 0)), 0xddf2);
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn odd_lengths_pad_with_zero() {
        for n in 0..9_usize {
            let bytes: Vec<u8> = (1..=n as u8).map(|b| b.wrapping_mul(37)).collect();
            let mut padded = bytes.clone();
            if n % 2 == 1 {
                padded.push(0);
            }
            let slow: u64 = padded
                .chunks(2)
                .map(|c| u64::from(c[0]) << 8 | u64::from(c[1]))
                .sum();
            assert_eq!(fold(sum(&bytes, 0)), fold(slow), "length {n}");
        }
    }

    #[test]
    fn rfc1624_worked_example() {
        // RFC 1624 section 4: HC = dd2f, m = 5555, m' = 3285 gives 0000.
        assert_eq!(Delta::ZERO.with_u16(0x5555, 0x3285).apply(0xdd2f), 0x0000);
    }

    #[test]
    fn fold_takes_the_largest_sum() {
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0x0001_ffff_ffff), fold(0x1_ffff_ffff));
        assert_eq!(fold(0xffff_ffff), 0xffff);
        assert_eq!(fold(0x1_0000), 1);
    }

    #[test]
    fn udp_zero_stays_and_computed_zero_becomes_ffff() {
        let d = Delta::ZERO.with_u16(0x5555, 0x3285);
        assert_eq!(d.apply_udp(0), 0);
        assert_eq!(d.apply_udp(0xdd2f), 0xffff);
    }

    #[test]
    fn reversed_undoes() {
        for hc in [0x0000, 0x0001, 0x1234, 0xfffe] {
            let d = Delta::ZERO
                .with_u32(0x0a00_0001, 0xc0a8_6401)
                .with_u16(80, 40001);
            assert_eq!(d.reversed().apply(d.apply(hc)), hc);
        }
    }
}
