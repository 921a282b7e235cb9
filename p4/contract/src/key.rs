//! Key elements that are more than a value.

/// A key element that matches the numbers with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpm<T> {
    /// The prefix. Bits behind it count as zero.
    pub value: T,
    /// Bits that have to match; 0 matches everything.
    pub prefix_len: u32,
}

/// A key element that matches the numbers between two bounds, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range<T> {
    /// The least number that matches.
    pub low: T,
    /// The greatest number that matches.
    pub high: T,
}

impl<T: Copy> Range<T> {
    /// The range that holds only `value`.
    pub fn only(value: T) -> Self {
        Self {
            low: value,
            high: value,
        }
    }
}
