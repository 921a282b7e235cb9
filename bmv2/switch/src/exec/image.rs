//! The bytes that a packet's headers and metadata live in.

use std::ops::{Deref, DerefMut};

use crate::ir::code::Byte;

/// Bytes that every image has at least: as far as 8 bytes at any [`Byte`]
/// reach, so that reading or writing them needs no check.
pub(super) const REACH: usize = Byte::MAX as usize + 8;

/// A packet's image: what its program uses of it, and more until there are
/// [`REACH`] bytes. The default is of no program and takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    /// Bytes that the program uses; it leaves those behind them alone.
    used: usize,
}

impl Image {
    /// Zeroes for so many bytes.
    pub(crate) fn new(used: usize) -> Self {
        Self {
            bytes: vec![0; used.max(REACH)],
            used,
        }
    }

    /// Zeroes all that the program uses.
    pub(super) fn clear(&mut self) {
        self.used_mut().fill(0);
    }

    fn used(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or(&[])
    }

    fn used_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.used).unwrap_or(&mut [])
    }

    /// The bytes that a [`Byte`] reaches; `None` only for the empty image of
    /// [`Image::default`].
    #[inline(always)]
    pub(super) fn reach(&mut self) -> Option<&mut [u8; REACH]> {
        self.bytes.first_chunk_mut()
    }
}

/// Only what is used is copied.
impl Clone for Image {
    fn clone(&self) -> Self {
        let mut new = Self::new(self.used);
        new.used_mut().copy_from_slice(self.used());
        new
    }

    fn clone_from(&mut self, other: &Self) {
        if self.used == other.used {
            self.used_mut().copy_from_slice(other.used());
        } else {
            *self = other.clone();
        }
    }
}

impl Deref for Image {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Image {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_short_offset_is_within_reach() {
        assert_eq!(Image::new(40).reach().map(|r| r.len()), Some(65_543));
        assert_eq!(Image::new(100_000).len(), 100_000);
        assert_eq!(Image::default().reach(), None);
    }

    #[test]
    fn a_copy_has_the_same_bytes_whatever_it_was_before() {
        let mut from = Image::new(3);
        from[..3].copy_from_slice(&[1, 2, 3]);
        assert_eq!(from.clone()[..4], [1, 2, 3, 0]);
        for mut to in [Image::default(), Image::new(3), Image::new(9)] {
            to.clone_from(&from);
            assert_eq!(to[..4], [1, 2, 3, 0]);
        }
        from.clear();
        assert_eq!(from[..4], [0, 0, 0, 0]);
    }
}
