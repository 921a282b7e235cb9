//! Cyclic redundancy checks: fast ones for what p4c emits, and any other of 8,
//! 16, 32 or 64 bits by its parameters.

/// Parameters of a CRC in the Rocksoft model, and the table that follows from
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crc {
    width: u32,
    init: u64,
    xor_out: u64,
    reflected: bool,
    table: Box<[u64; 256]>,
}

/// bmv2's names of CRCs: width, polynomial, initial value, what is xored at
/// the end, and whether bits are reflected in and out.
const NAMED: [(&str, u32, u64, u64, u64, bool); 38] = [
    ("crc_8", 8, 0x07, 0, 0, false),
    ("crc_8_darc", 8, 0x39, 0, 0, true),
    ("crc_8_i_code", 8, 0x1d, 0xfd, 0, false),
    ("crc_8_itu", 8, 0x07, 0, 0x55, false),
    ("crc_8_maxim", 8, 0x31, 0, 0, true),
    ("crc_8_rohc", 8, 0x07, 0xff, 0, true),
    ("crc_8_wcdma", 8, 0x9b, 0, 0, true),
    ("crc_16", 16, 0x8005, 0, 0, true),
    ("crc_16_buypass", 16, 0x8005, 0, 0, false),
    ("crc_16_dds_110", 16, 0x8005, 0x800d, 0, false),
    ("crc_16_dect", 16, 0x0589, 0, 0x0001, false),
    ("crc_16_dnp", 16, 0x3d65, 0, 0xffff, true),
    ("crc_16_en_13757", 16, 0x3d65, 0, 0xffff, false),
    ("crc_16_genibus", 16, 0x1021, 0xffff, 0xffff, false),
    ("crc_16_maxim", 16, 0x8005, 0, 0xffff, true),
    ("crc_16_mcrf4xx", 16, 0x1021, 0xffff, 0, true),
    ("crc_16_riello", 16, 0x1021, 0xb2aa, 0, true),
    ("crc_16_t10_dif", 16, 0x8bb7, 0, 0, false),
    ("crc_16_teledisk", 16, 0xa097, 0, 0, false),
    ("crc_16_usb", 16, 0x8005, 0xffff, 0xffff, true),
    ("x_25", 16, 0x1021, 0xffff, 0xffff, true),
    ("xmodem", 16, 0x1021, 0, 0, false),
    ("modbus", 16, 0x8005, 0xffff, 0, true),
    ("kermit", 16, 0x1021, 0, 0, true),
    ("crc_ccitt_false", 16, 0x1021, 0xffff, 0, false),
    ("crc_aug_ccitt", 16, 0x1021, 0x1d0f, 0, false),
    ("crc_32", 32, 0x04c1_1db7, 0xffff_ffff, 0xffff_ffff, true),
    (
        "crc_32_bzip2",
        32,
        0x04c1_1db7,
        0xffff_ffff,
        0xffff_ffff,
        false,
    ),
    ("crc_32c", 32, 0x1edc_6f41, 0xffff_ffff, 0xffff_ffff, true),
    ("crc_32d", 32, 0xa833_982b, 0xffff_ffff, 0xffff_ffff, true),
    ("crc_32_mpeg", 32, 0x04c1_1db7, 0xffff_ffff, 0, false),
    ("posix", 32, 0x04c1_1db7, 0, 0xffff_ffff, false),
    ("crc_32q", 32, 0x8141_41ab, 0, 0, false),
    ("jamcrc", 32, 0x04c1_1db7, 0xffff_ffff, 0, true),
    ("xfer", 32, 0xaf, 0, 0, false),
    ("crc_64", 64, 0x1b, 0, 0, true),
    (
        "crc_64_we",
        64,
        0x42f0_e1eb_a9ea_3693,
        u64::MAX,
        u64::MAX,
        false,
    ),
    ("crc_64_jones", 64, 0xad93_d235_94c9_35a9, u64::MAX, 0, true),
];

impl Crc {
    fn new(width: u32, poly: u64, init: u64, xor_out: u64, reflected: bool) -> Self {
        let mask = u64::MAX >> (64 - width);
        let mut table = Box::new([0u64; 256]);
        for (value, entry) in (0u64..).zip(table.iter_mut()) {
            let mut crc = value << (width - 8);
            for _ in 0..8 {
                let top = crc >> (width - 1) & 1 == 1;
                crc = (crc << 1) ^ if top { poly } else { 0 };
            }
            *entry = crc & mask;
        }
        Self {
            width,
            init: init & mask,
            xor_out: xor_out & mask,
            reflected,
            table,
        }
    }

    /// By bmv2's name, or by a description like
    /// `poly_0x18005_init_0x0_not_rev_xout_0xff`, where the polynomial has its
    /// leading one and the rest is optional.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        if let Some(&(_, width, poly, init, xor_out, reflected)) =
            NAMED.iter().find(|(n, ..)| *n == name)
        {
            return Some(Self::new(width, poly, init, xor_out, reflected));
        }
        let number = |text: &str| {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            // Also refuses a sign.
            let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
            u64::from_str_radix(digits, 16).ok().filter(|_| hex)
        };
        let (mut poly, mut init, mut xor_out, mut reflected) = (None, 0, 0, true);
        let mut words = name.split('_');
        while let Some(word) = words.next() {
            match word {
                "poly" => {
                    let digits = words.next()?.strip_prefix("0x1")?;
                    let width = u32::try_from(digits.len() * 4).ok()?;
                    poly = Some((width, number(digits)?));
                }
                "init" => init = number(words.next()?)?,
                "xout" => xor_out = number(words.next()?)?,
                "not" if words.next() == Some("rev") => reflected = false,
                _ => return None,
            }
        }
        match poly {
            Some((width @ (8 | 16 | 32 | 64), poly)) => {
                Some(Self::new(width, poly, init, xor_out, reflected))
            }
            _ => None,
        }
    }

    /// The CRC of some bytes.
    pub(crate) fn compute(&self, data: &[u8]) -> u64 {
        let mask = u64::MAX >> (64 - self.width);
        let mut crc = self.init;
        for &byte in data {
            let byte = if self.reflected {
                byte.reverse_bits()
            } else {
                byte
            };
            let index = byte ^ (crc >> (self.width - 8)) as u8;
            let entry = self.table.get(usize::from(index)).copied().unwrap_or(0);
            // Of eight bits nothing is left to shift.
            crc = (crc << 8) & mask ^ entry;
        }
        if self.reflected {
            crc = crc.reverse_bits() >> (64 - self.width);
        }
        crc ^ self.xor_out
    }
}

/// CRC-16/ARC: polynomial 0x8005, reflected, initial 0.
pub(crate) fn crc16(data: &[u8]) -> u16 {
    data.iter()
        .fold(0u16, |crc, &b| table(&ARC, crc as u8 ^ b) ^ (crc >> 8))
}

/// CRC-32/ISO-HDLC: polynomial 0x04c11db7, reflected, initial and final all
/// ones.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    !data
        .iter()
        .fold(!0u32, |crc, &b| table(&CRC32, crc as u8 ^ b) ^ (crc >> 8))
}

/// CRC-16/IBM-3740: polynomial 0x1021, initial all ones.
pub(crate) fn ccitt(data: &[u8]) -> u16 {
    data.iter().fold(0xffff_u16, |crc, &b| {
        table(&CCITT, (crc >> 8) as u8 ^ b) ^ (crc << 8)
    })
}

fn table<T: Copy + Default>(table: &[T; 256], index: u8) -> T {
    table.get(usize::from(index)).copied().unwrap_or_default()
}

macro_rules! crc_table {
    ($name:ident, $ty:ty, reflected $poly:expr) => {
        static $name: [$ty; 256] = {
            let mut t = [0; 256];
            let mut i = 0;
            while i < 256 {
                let mut crc = i as $ty;
                let mut bit = 0;
                while bit < 8 {
                    crc = (crc >> 1) ^ (if crc & 1 == 1 { $poly } else { 0 });
                    bit += 1;
                }
                t[i] = crc;
                i += 1;
            }
            t
        };
    };
    ($name:ident, $ty:ty, $poly:expr) => {
        static $name: [$ty; 256] = {
            let mut t = [0; 256];
            let mut i = 0;
            while i < 256 {
                let mut crc = (i as $ty) << (<$ty>::BITS - 8);
                let mut bit = 0;
                while bit < 8 {
                    let top = crc >> (<$ty>::BITS - 1) == 1;
                    crc = (crc << 1) ^ (if top { $poly } else { 0 });
                    bit += 1;
                }
                t[i] = crc;
                i += 1;
            }
            t
        };
    };
}

crc_table!(ARC, u16, reflected 0xa001);
crc_table!(CRC32, u32, reflected 0xedb8_8320);
crc_table!(CCITT, u16, 0x1021);

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of a CRC catalogue is the CRC of these nine digits.
    const CHECK: &[u8] = b"123456789";

    #[test]
    fn fast_ones_have_their_check_values() {
        assert_eq!(crc16(CHECK), 0xbb3d);
        assert_eq!(crc32(CHECK), 0xcbf4_3926);
        assert_eq!(ccitt(CHECK), 0x29b1);
    }

    /// Values of crcmod's table of predefined algorithms and of the catalogue
    /// of parametrised CRC algorithms.
    #[test]
    fn named_ones_have_their_check_values() {
        let want: [(&str, u64); 38] = [
            ("crc_8", 0xf4),
            ("crc_8_darc", 0x15),
            ("crc_8_i_code", 0x7e),
            ("crc_8_itu", 0xa1),
            ("crc_8_maxim", 0xa1),
            ("crc_8_rohc", 0xd0),
            ("crc_8_wcdma", 0x25),
            ("crc_16", 0xbb3d),
            ("crc_16_buypass", 0xfee8),
            ("crc_16_dds_110", 0x9ecf),
            ("crc_16_dect", 0x007e),
            ("crc_16_dnp", 0xea82),
            ("crc_16_en_13757", 0xc2b7),
            ("crc_16_genibus", 0xd64e),
            ("crc_16_maxim", 0x44c2),
            ("crc_16_mcrf4xx", 0x6f91),
            ("crc_16_riello", 0x63d0),
            ("crc_16_t10_dif", 0xd0db),
            ("crc_16_teledisk", 0x0fb3),
            ("crc_16_usb", 0xb4c8),
            ("x_25", 0x906e),
            ("xmodem", 0x31c3),
            ("modbus", 0x4b37),
            ("kermit", 0x2189),
            ("crc_ccitt_false", 0x29b1),
            ("crc_aug_ccitt", 0xe5cc),
            ("crc_32", 0xcbf4_3926),
            ("crc_32_bzip2", 0xfc89_1918),
            ("crc_32c", 0xe306_9283),
            ("crc_32d", 0x8731_5576),
            ("crc_32_mpeg", 0x0376_e6e7),
            ("posix", 0x765e_7680),
            ("crc_32q", 0x3010_bf7f),
            ("jamcrc", 0x340b_c6d9),
            ("xfer", 0xbd0b_e338),
            ("crc_64", 0x46a5_a938_8a5b_effe),
            ("crc_64_we", 0x62ec_59e3_f1a4_f00a),
            ("crc_64_jones", 0xcaa7_1716_8609_f281),
        ];
        for (name, value) in want {
            let crc = Crc::by_name(name).unwrap();
            assert_eq!(crc.compute(CHECK), value, "{name}");
        }
    }

    #[test]
    fn described_ones_are_those_of_their_parameters() {
        for (description, name) in [
            ("poly_0x18005", "crc_16"),
            ("poly_0x18005_not_rev", "crc_16_buypass"),
            ("poly_0x18005_init_0xffff_xout_0xffff", "crc_16_usb"),
            ("poly_0x107_init_0xff", "crc_8_rohc"),
            ("init_0xffffffff_poly_0x104c11db7_xout_ffffffff", "crc_32"),
            (
                "poly_0x142f0e1eba9ea3693_not_rev_init_0xffffffffffffffff_xout_0xffffffffffffffff",
                "crc_64_we",
            ),
        ] {
            assert_eq!(
                Crc::by_name(description),
                Crc::by_name(name),
                "{description}"
            );
        }
        for wrong in [
            "",
            "poly",
            "init_0x1",
            "poly_0x8005",
            "poly_0x1800",
            "poly_0x1800g",
            "poly_0x18005_lsb",
            "poly_0x18005_not",
            "poly_0x18005_not_it",
            "poly_0x1+8005_init_0x0",
            "poly_0x18005_init_-0x1",
            "crc_9",
        ] {
            assert_eq!(Crc::by_name(wrong), None, "{wrong:?}");
        }
    }
}
