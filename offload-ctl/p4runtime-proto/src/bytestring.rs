//! Values as P4Runtime bytestrings (specification, section "Bytestrings").
//!
//! A bytestring is a big-endian integer of any length. What is sent is
//! canonical: the shortest string that holds the value, one zero byte for
//! zero. What is received may be longer and is judged by its value alone, so
//! that peers with different versions of a program still understand each
//! other.

use tonic::Code;

/// Why a bytestring does not hold a value of the wanted type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BytestringError {
    /// The string is empty, which the specification forbids for numbers.
    #[error("an empty bytestring is not a number: send one zero byte for 0")]
    Empty,
    /// The value needs more bits than its type has.
    #[error("the value needs {needed} bits and its type has {bitwidth}")]
    OutOfRange {
        /// Bits in the smallest type that holds the value.
        needed: u64,
        /// Bits that P4Info gives the type.
        bitwidth: u32,
    },
}

impl BytestringError {
    /// The canonical code for a server to answer with: `OUT_OF_RANGE`.
    pub fn code(&self) -> Code {
        Code::OutOfRange
    }
}

/// The canonical bytestring of an unsigned number.
pub fn encode(value: u128) -> Vec<u8> {
    canonical(&value.to_be_bytes())
}

/// The canonical form of an unsigned big-endian number of any length.
///
/// An empty string counts as zero.
pub fn canonical(bytes: &[u8]) -> Vec<u8> {
    match significant(bytes) {
        [] => vec![0],
        digits => digits.to_vec(),
    }
}

/// The canonical form of a two's complement big-endian number of any length.
///
/// An empty string counts as zero.
pub fn canonical_signed(bytes: &[u8]) -> Vec<u8> {
    match significant_signed(bytes) {
        [] => vec![0],
        digits => digits.to_vec(),
    }
}

/// Whether `bytes` is the shortest string for its unsigned value.
pub fn is_canonical(bytes: &[u8]) -> bool {
    match bytes {
        [] => false,
        [_] => true,
        [first, ..] => *first != 0,
    }
}

/// Reads an unsigned number of at most `bitwidth` bits into `ceil(bitwidth/8)`
/// big-endian bytes.
///
/// # Errors
/// [`BytestringError`] when the string is empty or the value does not fit.
pub fn to_fixed(bytes: &[u8], bitwidth: u32) -> Result<Vec<u8>, BytestringError> {
    let digits = fitting(bytes, bitwidth)?;
    let mut fixed = vec![0; byte_width(bitwidth)];
    let start = fixed.len() - digits.len();
    fixed[start..].copy_from_slice(digits);
    Ok(fixed)
}

/// Reads a two's complement number of at most `bitwidth` bits into
/// `ceil(bitwidth/8)` big-endian bytes, sign-extended.
///
/// # Errors
/// [`BytestringError`] when the string is empty or the value does not fit.
pub fn to_fixed_signed(bytes: &[u8], bitwidth: u32) -> Result<Vec<u8>, BytestringError> {
    if bytes.is_empty() {
        return Err(BytestringError::Empty);
    }
    let digits = significant_signed(bytes);
    let negative = digits[0] & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    // Copies of the sign bit above the one that is needed.
    let copies = u64::from((digits[0] ^ fill).leading_zeros()) - 1;
    let needed = digits.len() as u64 * 8 - copies;
    if needed > u64::from(bitwidth) {
        return Err(BytestringError::OutOfRange { needed, bitwidth });
    }
    let mut fixed = vec![fill; byte_width(bitwidth)];
    let start = fixed.len() - digits.len();
    fixed[start..].copy_from_slice(digits);
    Ok(fixed)
}

/// Reads an unsigned number of at most `bitwidth` bits.
///
/// # Errors
/// [`BytestringError`] when the string is empty or the value does not fit into
/// `bitwidth` bits or into 128.
pub fn to_u128(bytes: &[u8], bitwidth: u32) -> Result<u128, BytestringError> {
    let digits = fitting(bytes, bitwidth.min(u128::BITS))?;
    Ok(digits
        .iter()
        .fold(0, |value, byte| value << 8 | u128::from(*byte)))
}

/// Reads an unsigned number of at most `bitwidth` bits.
///
/// # Errors
/// [`BytestringError`] when the string is empty or the value does not fit into
/// `bitwidth` bits or into 64.
pub fn to_u64(bytes: &[u8], bitwidth: u32) -> Result<u64, BytestringError> {
    let digits = fitting(bytes, bitwidth.min(u64::BITS))?;
    Ok(digits
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// Bytes that hold `bitwidth` bits.
pub fn byte_width(bitwidth: u32) -> usize {
    bitwidth.div_ceil(8) as usize
}

/// The string without its leading zero bytes; empty for zero.
fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// The string without the leading bytes that only repeat the sign.
fn significant_signed(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && let [second, ..] = rest
        && matches!((first, second & 0x80), (0, 0) | (0xff, 0x80))
    {
        bytes = rest;
    }
    bytes
}

/// The significant bytes of a value that fits into `bitwidth` bits.
fn fitting(bytes: &[u8], bitwidth: u32) -> Result<&[u8], BytestringError> {
    if bytes.is_empty() {
        return Err(BytestringError::Empty);
    }
    let digits = significant(bytes);
    let needed = digits.first().map_or(0, |first| {
        digits.len() as u64 * 8 - u64::from(first.leading_zeros())
    });
    if needed > u64::from(bitwidth) {
        return Err(BytestringError::OutOfRange { needed, bitwidth });
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's table of valid encodings.
    #[test]
    fn accepts_what_the_specification_calls_valid() {
        for (width, string, value) in [
            (8, &[0x63][..], 99),
            (16, &[0x00, 0x63], 99),
            (16, &[0x63], 99),
            (16, &[0x30, 0x64], 12388),
            (16, &[0x00, 0x30, 0x64], 12388),
            (12, &[0x00, 0x63], 99),
            (12, &[0x00, 0x00, 0x63], 99),
            (8, &[0x00], 0),
        ] {
            assert_eq!(
                to_u128(string, width),
                Ok(value),
                "bit<{width}> {string:x?}"
            );
            assert_eq!(to_u64(string, width), Ok(value as u64));
        }
        for (width, string, fixed) in [
            (8, &[0x63][..], &[0x63][..]),
            (8, &[0x9d], &[0x9d]),
            (8, &[0xff, 0x9d], &[0x9d]),
            (12, &[0xfd, 0x1d], &[0xfd, 0x1d]),
            (16, &[0x00, 0x00], &[0x00, 0x00]),
            (16, &[0x00], &[0x00, 0x00]),
            (16, &[0xff], &[0xff, 0xff]),
        ] {
            assert_eq!(
                to_fixed_signed(string, width).as_deref(),
                Ok(fixed),
                "int<{width}> {string:x?}"
            );
        }
    }

    /// The specification's table of invalid encodings.
    #[test]
    fn rejects_what_the_specification_calls_invalid() {
        let too_wide = |needed, bitwidth| Err(BytestringError::OutOfRange { needed, bitwidth });
        assert_eq!(to_fixed(&[0x01, 0x63], 8), too_wide(9, 8));
        assert_eq!(to_fixed(&[], 8), Err(BytestringError::Empty));
        assert_eq!(to_fixed(&[0x01, 0x00, 0x63], 16), too_wide(17, 16));
        assert_eq!(to_fixed(&[0x10, 0x63], 12), too_wide(13, 12));
        assert_eq!(to_fixed(&[0x01, 0x00, 0x63], 12), too_wide(17, 12));
        assert_eq!(to_fixed(&[0x00, 0x40, 0x63], 12), too_wide(15, 12));
        // 128 and -129 need nine bits in two's complement.
        assert_eq!(to_fixed_signed(&[0x00, 0x80], 8), too_wide(9, 8));
        assert_eq!(to_fixed_signed(&[0xff, 0x7f], 8), too_wide(9, 8));
        assert_eq!(to_fixed_signed(&[], 8), Err(BytestringError::Empty));
        assert_eq!(BytestringError::Empty.code(), Code::OutOfRange);
    }

    #[test]
    fn integer_readers_stop_at_their_own_width() {
        let too_wide = |needed, bitwidth| Err(BytestringError::OutOfRange { needed, bitwidth });
        assert_eq!(to_u64(&[1; 9], 128), too_wide(65, 64));
        assert_eq!(to_u64(&[0xff; 8], 128), Ok(u64::MAX));
        let mut wide = vec![1];
        wide.extend([0; 16]);
        assert_eq!(
            to_u128(&wide, 256),
            Err(BytestringError::OutOfRange {
                needed: 129,
                bitwidth: 128,
            })
        );
        assert_eq!(to_u128(&[0xff; 16], 128), Ok(u128::MAX));
    }

    #[test]
    fn writes_the_shortest_string() {
        assert_eq!(encode(0), [0]);
        assert_eq!(encode(0xff), [0xff]);
        assert_eq!(encode(0x100), [1, 0]);
        assert_eq!(encode(u128::MAX), [0xff; 16]);
        assert_eq!(canonical(&[]), [0]);
        assert_eq!(canonical(&[0, 0, 7, 0]), [7, 0]);
        assert_eq!(canonical_signed(&[0xff, 0x9d]), [0x9d]);
        assert_eq!(canonical_signed(&[0xff, 0x1d]), [0xff, 0x1d]);
        assert_eq!(canonical_signed(&[0x00, 0x80]), [0x00, 0x80]);
        assert_eq!(canonical_signed(&[0x00, 0x00]), [0x00]);
        assert_eq!(canonical_signed(&[0xff, 0xff]), [0xff]);
        assert!(is_canonical(&[0]) && is_canonical(&[1, 0]));
        assert!(!is_canonical(&[]) && !is_canonical(&[0, 1]));
    }

    #[test]
    fn pads_to_the_byte_width_of_the_type() {
        assert_eq!(to_fixed(&[1], 48).as_deref(), Ok(&[0, 0, 0, 0, 0, 1][..]));
        assert_eq!(to_fixed(&[0; 40], 9).as_deref(), Ok(&[0, 0][..]));
        assert_eq!(byte_width(9), 2);
        assert_eq!(byte_width(0), 0);
    }
}
