//! Machine words that expressions are computed in.

use num_bigint::BigInt;

use crate::ir::bits::{self, Loc, mask64, mask128};

/// A machine word that an expression is computed in.
pub(crate) trait Word:
    Copy
    + Eq
    + Ord
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
    + std::ops::Not<Output = Self>
{
    const BITS: u32;
    const ZERO: Self;
    fn load(image: &[u8], loc: Loc) -> Self;
    fn from_u64(v: u64) -> Self;
    fn from_u128(v: u128) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// The divisor is not zero.
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn is_negative(self) -> bool;
    fn shl(self, by: u32) -> Self;
    fn shr(self, by: u32) -> Self;
    /// Shifts right, copies of the sign coming in.
    fn sar(self, by: u32) -> Self;
    fn mask(width: u32) -> Self;
    /// From the sign of the low `width` bits upward.
    fn extend(self, width: u32) -> Self {
        if width == 0 || width >= Self::BITS {
            return self;
        }
        self.shl(Self::BITS - width).sar(Self::BITS - width)
    }
    fn from_big(v: &BigInt) -> Self;
}

macro_rules! word {
    ($ty:ty, $signed:ty, $load:path, $mask:path) => {
        impl Word for $ty {
            const BITS: u32 = <$ty>::BITS;
            const ZERO: Self = 0;
            #[inline(always)]
            fn load(image: &[u8], loc: Loc) -> Self {
                $load(image, loc)
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                v as Self
            }
            #[inline(always)]
            fn from_u128(v: u128) -> Self {
                v as Self
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                self.checked_div(other).unwrap_or(0)
            }
            fn rem(self, other: Self) -> Self {
                self.checked_rem(other).unwrap_or(0)
            }
            fn is_negative(self) -> bool {
                (self as $signed) < 0
            }
            #[inline(always)]
            fn shl(self, by: u32) -> Self {
                self.checked_shl(by).unwrap_or(0)
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                self.checked_shr(by).unwrap_or(0)
            }
            #[inline(always)]
            fn sar(self, by: u32) -> Self {
                ((self as $signed) >> by.min(Self::BITS - 1)) as Self
            }
            #[inline(always)]
            fn mask(width: u32) -> Self {
                $mask(width)
            }
            fn from_big(v: &BigInt) -> Self {
                let mut bytes = [if v.sign() == num_bigint::Sign::Minus {
                    0xff
                } else {
                    0
                }; size_of::<Self>()];
                for (to, from) in bytes.iter_mut().zip(v.to_signed_bytes_le()) {
                    *to = from;
                }
                Self::from_le_bytes(bytes)
            }
        }
    };
}

word!(u64, i64, bits::load64, mask64);
word!(u128, i128, bits::load128, mask128);
