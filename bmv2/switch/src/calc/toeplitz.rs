//! The Toeplitz hash of receive-side scaling.

/// bmv2's key until one is set over its Thrift interface, which this switch
/// does not have: all hashes are 0.
pub(crate) const DEFAULT_KEY: [u8; 4] = [0; 4];

/// The hash of some bytes. A key that is too short for the input begins again.
pub(crate) fn toeplitz(key: &[u8], data: &[u8]) -> u32 {
    let mut key_bits = key
        .iter()
        .cycle()
        .flat_map(|byte| (0..8).rev().map(move |i| u32::from(byte >> i & 1)));
    // The 32 bits of the key that begin at the current bit of the input.
    let mut window = key_bits.by_ref().take(32).fold(0u32, |w, b| w << 1 | b);
    let mut hash = 0;
    for byte in data {
        for i in (0..8).rev() {
            if byte >> i & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | key_bits.next().unwrap_or(0);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and cases of Microsoft's "Verifying the RSS hash calculation".
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn input<const N: usize>(src: [u8; N], dst: [u8; N], ports: Option<(u16, u16)>) -> Vec<u8> {
        let mut bytes = [src, dst].concat();
        if let Some((src, dst)) = ports {
            bytes.extend(src.to_be_bytes());
            bytes.extend(dst.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn rss_over_ipv4() {
        for (src, dst, ports, alone, with_ports) in [
            (
                [66, 9, 149, 187],
                [161, 142, 100, 80],
                (2794, 1766),
                0x323e_8fc2,
                0x51cc_c178,
            ),
            (
                [199, 92, 111, 2],
                [65, 69, 140, 83],
                (14230, 4739),
                0xd718_262a,
                0xc626_b0ea,
            ),
            (
                [24, 19, 198, 95],
                [12, 22, 207, 184],
                (12898, 38024),
                0xd2d0_a5de,
                0x5c2b_394a,
            ),
        ] {
            assert_eq!(toeplitz(&KEY, &input(src, dst, None)), alone);
            assert_eq!(toeplitz(&KEY, &input(src, dst, Some(ports))), with_ports);
        }
    }

    #[test]
    fn rss_over_ipv6() {
        let src = "3ffe:2501:200:1fff::7".parse::<std::net::Ipv6Addr>();
        let dst = "3ffe:2501:200:3::1".parse::<std::net::Ipv6Addr>();
        let (src, dst) = (src.unwrap().octets(), dst.unwrap().octets());
        assert_eq!(toeplitz(&KEY, &input(src, dst, None)), 0x2cc1_8cd5);
        let ports = Some((2794, 1766));
        assert_eq!(toeplitz(&KEY, &input(src, dst, ports)), 0x4020_7d3d);
    }

    #[test]
    fn nothing_hashes_with_the_default_key() {
        assert_eq!(toeplitz(&DEFAULT_KEY, &[0xff; 70]), 0);
    }
}
