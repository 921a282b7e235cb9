//! Ethernet addresses as text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A unicast Ethernet address, in the order it has on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// Why a text is no unicast Ethernet address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MacError {
    /// Not six pairs of hexadecimal digits.
    #[error("\"{0}\" is no Ethernet address; write six pairs like 02:00:00:00:01:01")]
    Form(String),
    /// Group bit set, or all zero.
    #[error(
        "\"{0}\" is no unicast Ethernet address; the first byte must be even and not all may be zero"
    )]
    NotUnicast(String),
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || MacError::Form(text.to_owned());
        let mut bytes = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(form)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(form());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| form())?;
        }
        if parts.next().is_some() {
            return Err(form());
        }
        if bytes[0] & 1 == 1 || bytes == [0; 6] {
            return Err(MacError::NotUnicast(text.to_owned()));
        }
        Ok(Self(bytes))
    }
}

impl Mac {
    /// The address as a 48-bit number, first byte most significant.
    pub fn to_u64(self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        let mac: Mac = "02:00:00:AB:01:fe".parse().unwrap();
        assert_eq!(mac.0, [2, 0, 0, 0xab, 1, 0xfe]);
        assert_eq!(mac.to_string(), "02:00:00:ab:01:fe");
        assert_eq!(mac.to_u64(), 0x0200_00ab_01fe);
    }

    #[test]
    fn refuses_group_addresses_and_odd_forms() {
        assert!(matches!(
            "01:00:5e:00:00:01".parse::<Mac>(),
            Err(MacError::NotUnicast(_))
        ));
        assert!(matches!(
            "00:00:00:00:00:00".parse::<Mac>(),
            Err(MacError::NotUnicast(_))
        ));
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "2:0:0:0:0:0",
            "+2:00:00:00:00:00",
        ] {
            assert!(
                matches!(text.parse::<Mac>(), Err(MacError::Form(_))),
                "{text}"
            );
        }
    }
}
