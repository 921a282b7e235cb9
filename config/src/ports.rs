//! A transport port or an inclusive range of them: `80`, `"80"`, `"8000-8010"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An inclusive range of transport ports; never holds port 0, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    low: u16,
    high: u16,
}

/// Why a text is no port or port range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} is no port or port range; write a number from 1 to 65535 or \"LOW-HIGH\"")]
pub struct PortRangeError(String);

impl PortRange {
    /// The range from `low` to `high`, both included.
    ///
    /// # Errors
    /// If `low` is 0 or greater than `high`.
    pub fn new(low: u16, high: u16) -> Result<Self, PortRangeError> {
        if low == 0 || low > high {
            return Err(PortRangeError(format!("{low}-{high}")));
        }
        Ok(Self { low, high })
    }

    /// The first port.
    pub fn low(self) -> u16 {
        self.low
    }

    /// The last port.
    pub fn high(self) -> u16 {
        self.high
    }

    /// Whether this is one port only.
    pub fn is_single(self) -> bool {
        self.low == self.high
    }

    /// Whether some port is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Whether `port` is in the range.
    pub fn contains(self, port: u16) -> bool {
        (self.low..=self.high).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || PortRangeError(format!("\"{text}\""));
        let number = |part: &str| part.trim().parse::<u16>().map_err(|_| error());
        let (low, high) = match text.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(text)?, number(text)?),
        };
        Self::new(low, high).map_err(|_| error())
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            write!(f, "{}", self.low)
        } else {
            write!(f, "{}-{}", self.low, self.high)
        }
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = PortRange;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port number or \"LOW-HIGH\"")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<PortRange, E> {
                u16::try_from(value)
                    .ok()
                    .and_then(|port| PortRange::new(port, port).ok())
                    .ok_or_else(|| E::custom(PortRangeError(value.to_string())))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<PortRange, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_single() {
            serializer.serialize_u16(self.low)
        } else {
            serializer.collect_str(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_and_ranges() {
        assert_eq!("80".parse(), PortRange::new(80, 80));
        assert_eq!("8000-8010".parse(), PortRange::new(8000, 8010));
        assert_eq!("8000 - 8010".parse(), PortRange::new(8000, 8010));
        for text in ["", "0", "65536", "9-8", "0-5", "-5", "5-", "a"] {
            assert!(text.parse::<PortRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn knows_overlap_at_the_edges() {
        let range = |low, high| PortRange::new(low, high).unwrap();
        assert!(range(1, 5).overlaps(range(5, 9)));
        assert!(!range(1, 5).overlaps(range(6, 9)));
        assert!(range(1, 65535).overlaps(range(80, 80)));
        assert!(range(80, 90).contains(90) && !range(80, 90).contains(91));
    }
}
