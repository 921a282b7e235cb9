//! The worker's clock, from outside.

/// A counter that only rises.
pub trait Clock {
    /// Ticks since some moment.
    fn now(&self) -> u64;
    /// Ticks a second.
    fn hz(&self) -> u64;
}

impl Clock for dpdk::Tsc {
    #[inline]
    fn now(&self) -> u64 {
        dpdk::Tsc::now(*self)
    }
    fn hz(&self) -> u64 {
        dpdk::Tsc::hz(*self)
    }
}
