//! Keyed hash of a client's flow.
//!
//! Two rounds of 64 x 64 -> 128-bit multiply and fold. The keys are secret, so
//! that a client cannot choose tuples that collide. A zero operand would wipe
//! out the other one; with a secret key it comes up once in 2^64.

/// Secret keys, from the caller's source of randomness.
#[derive(Clone, Copy, Debug)]
pub struct HashKeys(pub [u64; 4]);

impl HashKeys {
    /// Derives four keys from one seed (splitmix64's constants).
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut s = seed;
        Self(core::array::from_fn(|_| {
            s = s.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix64(s)
        }))
    }

    /// Hash of (network, protocol, client, VIP).
    #[inline(always)]
    #[must_use]
    pub const fn flow(&self, vni: u32, protocol: u8, client: (u32, u16), vip: (u32, u16)) -> u64 {
        let a = (client.0 as u64) << 32 | vip.0 as u64;
        let b =
            (client.1 as u64) << 48 | (vip.1 as u64) << 32 | (vni as u64) << 8 | protocol as u64;
        let h = fold(a ^ self.0[0], b ^ self.0[1]);
        fold(h ^ self.0[2], self.0[3])
    }
}

#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let p = a as u128 * b as u128;
    p as u64 ^ (p >> 64) as u64
}

/// Finaliser of splitmix64: a fixed bijection that spreads every input bit.
/// For tables that several workers and load directors must agree on.
#[must_use]
pub const fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_known_outputs() {
        // First outputs of splitmix64 seeded with 1234567.
        let k = HashKeys::from_seed(1_234_567).0;
        assert_eq!(k[0], 6_457_827_717_110_365_317);
        assert_eq!(k[1], 3_203_168_211_198_807_973);
        assert_eq!(k[2], 9_817_491_932_198_370_423);
    }

    #[test]
    fn every_field_matters_and_bits_are_balanced() {
        let k = HashKeys::from_seed(7);
        let base = k.flow(1, 6, (0x0a00_0001, 1000), (0x0a64_0001, 80));
        assert_ne!(base, k.flow(2, 6, (0x0a00_0001, 1000), (0x0a64_0001, 80)));
        assert_ne!(base, k.flow(1, 17, (0x0a00_0001, 1000), (0x0a64_0001, 80)));
        assert_ne!(base, k.flow(1, 6, (0x0a00_0002, 1000), (0x0a64_0001, 80)));
        assert_ne!(base, k.flow(1, 6, (0x0a00_0001, 1001), (0x0a64_0001, 80)));
        assert_ne!(base, k.flow(1, 6, (0x0a00_0001, 1000), (0x0a64_0002, 80)));
        assert_ne!(base, k.flow(1, 6, (0x0a00_0001, 1000), (0x0a64_0001, 81)));
        // Sequential clients: each output bit is set about half the time.
        let n = 4096_u32;
        for bit in 0..64 {
            let ones = (0..n)
                .filter(|i| k.flow(0, 6, (0x0a00_0000 + i, 1024), (1, 80)) >> bit & 1 == 1)
                .count();
            assert!((1800..2300).contains(&ones), "bit {bit}: {ones} of {n}");
        }
    }
}
