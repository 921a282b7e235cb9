//! Any received bytes: readers never panic and agree with each other.

use p4runtime_proto::bytestring;

#[test]
fn readers_agree_with_the_canonical_form() {
    bolero::check!()
        .with_iterations(20_000)
        .with_type::<(Vec<u8>, u8)>()
        .for_each(|(bytes, bitwidth)| {
            let bitwidth = u32::from(*bitwidth);
            let canonical = bytestring::canonical(bytes);
            assert!(bytestring::is_canonical(&canonical));

            let fixed = bytestring::to_fixed(bytes, bitwidth);
            if let Ok(fixed) = &fixed {
                assert_eq!(fixed.len(), bytestring::byte_width(bitwidth));
                assert_eq!(bytestring::canonical(fixed), canonical);
            }
            if bitwidth <= 128 {
                let number = bytestring::to_u128(bytes, bitwidth);
                assert_eq!(number.is_ok(), fixed.is_ok());
                if let Ok(number) = number {
                    assert_eq!(bytestring::encode(number), canonical);
                }
            }
            if let Ok(fixed) = bytestring::to_fixed_signed(bytes, bitwidth) {
                assert_eq!(
                    bytestring::canonical_signed(&fixed),
                    bytestring::canonical_signed(bytes)
                );
            }
        });
}
