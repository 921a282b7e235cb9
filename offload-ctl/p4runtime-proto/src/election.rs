//! Election ids: 128-bit numbers that the protocol carries in two halves.

use crate::p4::v1::Uint128;

impl From<u128> for Uint128 {
    fn from(id: u128) -> Self {
        Self {
            high: (id >> 64) as u64,
            low: id as u64,
        }
    }
}

impl From<Uint128> for u128 {
    fn from(id: Uint128) -> Self {
        u128::from(id.high) << 64 | u128::from(id.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_half_counts_first() {
        let id = Uint128 { high: 1, low: 2 };
        assert_eq!(u128::from(id), (1 << 64) + 2);
        assert_eq!(Uint128::from((1 << 64) + 2), id);
    }
}
