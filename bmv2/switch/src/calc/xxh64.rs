//! xxHash, 64 bits.

/// The constants of xxHash's 64-bit variant.
const P: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The hash of some bytes with seed 0.
pub(crate) fn xxh64(data: &[u8]) -> u64 {
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

    #[test]
    fn known_strings() {
        assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(
            xxh64(b"Nobody inspects the spammish repetition"),
            0xfbce_a83c_8a37_8bf1
        );
    }
}
