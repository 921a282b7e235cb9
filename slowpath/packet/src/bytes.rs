//! Reads and writes of big-endian fields at an offset.
//!
//! Offsets come from a parse of the same bytes. A read beyond the end gives
//! zero and a write beyond the end does nothing, so that no input can panic.

/// The 16-bit field at `at`.
#[inline(always)]
#[must_use]
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..).and_then(|b| b.first_chunk::<2>()) {
        Some(b) => u16::from_be_bytes(*b),
        None => 0,
    }
}

/// The 32-bit field at `at`.
#[inline(always)]
#[must_use]
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(|b| b.first_chunk::<4>()) {
        Some(b) => u32::from_be_bytes(*b),
        None => 0,
    }
}

/// Writes the 16-bit field at `at`.
#[inline(always)]
pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(b) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<2>()) {
        *b = value.to_be_bytes();
    }
}

/// Writes the 32-bit field at `at`.
#[inline(always)]
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(b) = bytes.get_mut(at..).and_then(|b| b.first_chunk_mut::<4>()) {
        *b = value.to_be_bytes();
    }
}
