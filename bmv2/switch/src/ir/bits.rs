//! Reading and writing bit fields of the image.
//!
//! The image has [`SLACK`] bytes behind its last field, so that a wide load at
//! any field stays inside.

/// Bytes behind the image's last field.
pub(crate) const SLACK: usize = 32;

/// A field of up to 128 bits, ready to be loaded.
///
/// `shift` is how far right a big-endian load at `byte` must be moved: a load
/// of 8 bytes where `span <= 8`, else of 16 bytes (fields that straddle more
/// than 16 bytes are not described by a `Loc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loc {
    pub(crate) byte: u32,
    pub(crate) shift: u8,
    /// Bytes that the load takes: 1, 2, 4, 8 or 16.
    pub(crate) load: u8,
    pub(crate) width: u8,
    /// The rest of the word is always zero: a store need not keep it.
    pub(crate) alone: bool,
}

impl Loc {
    /// The location of `width` bits at bit offset `bit`; `None` if they need
    /// more than one 16-byte load.
    pub(crate) fn new(bit: u32, width: u32) -> Option<Self> {
        if width == 0 || width > 128 {
            return None;
        }
        let byte = bit / 8;
        let used = bit % 8 + width;
        let load = match used {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            33..=64 => 8,
            65..=128 => 16,
            _ => return None,
        };
        Some(Self {
            byte,
            shift: u8::try_from(u32::from(load) * 8 - used).ok()?,
            load,
            width: u8::try_from(width).ok()?,
            alone: false,
        })
    }

    /// The location of `width` bits at bit offset `bit` within one aligned
    /// 64-bit word: always the same kind of load.
    pub(crate) fn in_word(bit: u32, width: u32, alone: bool) -> Option<Self> {
        let word = bit / 64;
        Some(Self {
            byte: word * 8,
            shift: u8::try_from((word * 64 + 64).checked_sub(bit + width)?).ok()?,
            load: 8,
            width: u8::try_from(width).ok()?,
            alone,
        })
    }

    /// Whether the value fits 64 bits.
    pub(crate) fn is_word(self) -> bool {
        self.width <= 64
    }
}

/// Ones in the low `width` bits.
pub(crate) const fn mask64(width: u32) -> u64 {
    if width >= 64 {
        u64::MAX
    } else {
        (1 << width) - 1
    }
}

/// Ones in the low `width` bits.
pub(crate) const fn mask128(width: u32) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}

macro_rules! load {
    ($image:expr, $byte:expr, $ty:ty) => {{
        const N: usize = size_of::<$ty>();
        let mut word = [0; N];
        if let Some(bytes) = $image.get($byte..$byte + N) {
            word.copy_from_slice(bytes);
        }
        <$ty>::from_be_bytes(word)
    }};
}

/// 8 bytes of the image; zero beyond it.
#[inline(always)]
pub(crate) fn load_word(image: &[u8], byte: u32) -> u64 {
    load!(image, byte as usize, u64)
}

macro_rules! store {
    ($image:expr, $byte:expr, $ty:ty, $value:expr) => {{
        const N: usize = size_of::<$ty>();
        if let Some(bytes) = $image
            .get_mut($byte..)
            .and_then(|s| s.first_chunk_mut::<N>())
        {
            *bytes = <$ty>::to_be_bytes($value);
        }
    }};
}

/// [`mask64`] for widths from 1 to 64.
#[inline(always)]
fn low_mask(width: u8) -> u64 {
    u64::MAX >> (64u32.wrapping_sub(u32::from(width)) & 63)
}

/// Loads a field; the low 64 bits of it if it is wider.
#[inline(always)]
pub(crate) fn load64(image: &[u8], loc: Loc) -> u64 {
    let byte = loc.byte as usize;
    if loc.load == 8 {
        return (load!(image, byte, u64) >> loc.shift) & low_mask(loc.width);
    }
    let raw = match loc.load {
        1 => u64::from(load!(image, byte, u8)),
        2 => u64::from(load!(image, byte, u16)),
        4 => u64::from(load!(image, byte, u32)),
        _ => return load128(image, loc) as u64,
    };
    (raw >> loc.shift) & low_mask(loc.width)
}

/// Loads a field.
#[inline]
pub(crate) fn load128(image: &[u8], loc: Loc) -> u128 {
    if loc.load <= 8 {
        return u128::from(load64(image, loc));
    }
    (load!(image, loc.byte as usize, u128) >> loc.shift) & mask128(u32::from(loc.width))
}

/// Writes bytes into the image; those beyond it are lost.
#[inline(always)]
pub(crate) fn store_bytes<const N: usize>(image: &mut [u8], byte: u16, bytes: [u8; N]) {
    let to = image.get_mut(usize::from(byte)..);
    if let Some(to) = to.and_then(|s| s.first_chunk_mut()) {
        *to = bytes;
    }
}

/// Stores the low bits of a value into a field that has its word to itself.
#[inline(always)]
pub(crate) fn store_word(image: &mut [u8], loc: Loc, value: u64) {
    store!(image, loc.byte as usize, u64, value & low_mask(loc.width));
}

/// Stores the low bits of a value into a field, leaving its neighbours alone.
#[inline(always)]
pub(crate) fn store64(image: &mut [u8], loc: Loc, value: u64) {
    let byte = loc.byte as usize;
    if loc.alone {
        return store_word(image, loc, value);
    }
    let mask = mask64(u32::from(loc.width));
    macro_rules! put {
        ($ty:ty) => {{
            if u32::from(loc.width) == <$ty>::BITS {
                store!(image, byte, $ty, value as $ty)
            } else {
                let old = load!(image, byte, $ty);
                let keep = !((mask << loc.shift) as $ty);
                store!(
                    image,
                    byte,
                    $ty,
                    (old & keep) | (((value & mask) << loc.shift) as $ty)
                )
            }
        }};
    }
    match loc.load {
        1 => put!(u8),
        2 => put!(u16),
        4 => put!(u32),
        8 => put!(u64),
        _ => store128(image, loc, u128::from(value)),
    }
}

/// Stores the low bits of a value into a field, leaving its neighbours alone.
#[inline]
pub(crate) fn store128(image: &mut [u8], loc: Loc, value: u128) {
    if loc.load <= 8 {
        return store64(image, loc, value as u64);
    }
    let byte = loc.byte as usize;
    let mask = mask128(u32::from(loc.width));
    let old = load!(image, byte, u128);
    store!(
        image,
        byte,
        u128,
        (old & !(mask << loc.shift)) | ((value & mask) << loc.shift)
    );
}

/// Copies `width` bits from `src` at `src_bit` to `dst` at `dst_bit`; bits
/// beyond either slice are taken as zero or lost.
pub(crate) fn copy_bits(dst: &mut [u8], dst_bit: usize, src: &[u8], src_bit: usize, width: usize) {
    if dst_bit.is_multiple_of(8) && src_bit.is_multiple_of(8) && width.is_multiple_of(8) {
        let (d, s, n) = (dst_bit / 8, src_bit / 8, width / 8);
        if let (Some(to), Some(from)) = (dst.get_mut(d..d + n), src.get(s..s + n)) {
            to.copy_from_slice(from);
            return;
        }
    }
    let mut done = 0;
    while done < width {
        // Never across a byte of the destination.
        let at = dst_bit + done;
        let step = (8 - at % 8).min(width - done);
        let bits = read_byte_bits(src, src_bit + done, step);
        if let Some(byte) = dst.get_mut(at / 8) {
            let shift = 8 - at % 8 - step;
            let mask = ((1u16 << step) - 1) as u8;
            *byte = (*byte & !(mask << shift)) | ((bits & mask) << shift);
        }
        done += step;
    }
}

/// Up to 8 bits at a bit offset.
fn read_byte_bits(src: &[u8], bit: usize, width: usize) -> u8 {
    let first = u16::from(src.get(bit / 8).copied().unwrap_or(0));
    let second = u16::from(src.get(bit / 8 + 1).copied().unwrap_or(0));
    let both = (first << 8) | second;
    ((both >> (16 - bit % 8 - width)) & ((1 << width) - 1)) as u8
}

/// Reads `width` (at most 64) bits of a slice at a bit offset; bits beyond it
/// read as zero.
pub(crate) fn read_bits(src: &[u8], bit: usize, width: usize) -> u64 {
    let mut buffer = [0u8; 8];
    copy_bits(&mut buffer, 64 - width.min(64), src, bit, width.min(64));
    u64::from_be_bytes(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, the way nobody would run it.
    fn slow_bits(src: &[u8], bit: usize, width: usize) -> u128 {
        (0..width).fold(0, |v, i| {
            let b = bit + i;
            (v << 1) | u128::from((src[b / 8] >> (7 - b % 8)) & 1)
        })
    }

    #[test]
    fn every_field_is_read_and_written_alone() {
        let base: Vec<u8> = (0..64u32).map(|i| (i * 37 + 11) as u8).collect();
        for bit in 0..16 {
            for width in 1..=128u32 {
                let Some(loc) = Loc::new(bit, width) else {
                    assert!(bit % 8 + width > 128);
                    continue;
                };
                let want = slow_bits(&base, bit as usize, width as usize);
                assert_eq!(load128(&base, loc), want, "bit {bit} width {width}");
                assert_eq!(load64(&base, loc), want as u64);
                let mut image = base.clone();
                store128(&mut image, loc, !want);
                let mut expect = base.clone();
                for i in bit..bit + width {
                    expect[i as usize / 8] ^= 1 << (7 - i % 8);
                }
                assert_eq!(image, expect, "bit {bit} width {width}");
                let mut copied = vec![0xa5; 64];
                let mut slow = copied.clone();
                copy_bits(&mut copied, 13, &base, bit as usize, width as usize);
                for i in 0..width as usize {
                    let v = slow_bits(&base, bit as usize + i, 1) as u8;
                    let b = 13 + i;
                    slow[b / 8] = (slow[b / 8] & !(1 << (7 - b % 8))) | (v << (7 - b % 8));
                }
                assert_eq!(copied, slow);
            }
        }
    }
}
