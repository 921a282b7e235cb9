//! The processor's time-stamp counter.

use std::time::Duration;

use crate::Eal;

/// The time-stamp counter and its rate. Cheap to copy; every worker has one.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    hz: u64,
}

impl Tsc {
    /// The counter as the EAL calibrated it.
    #[must_use]
    pub fn new(_eal: Eal) -> Self {
        // SAFETY: reads a number that the EAL set when it started.
        let hz = unsafe { dpdk_sys::rte_get_tsc_hz() };
        // Zero would mean that calibration failed; one keeps division defined.
        Self { hz: hz.max(1) }
    }

    /// The counter now, in ticks. Not ordered with respect to other
    /// instructions.
    #[inline]
    #[must_use]
    pub fn now(self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: RDTSC exists on every x86-64 processor and touches no memory.
        unsafe {
            core::arch::x86_64::_rdtsc()
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: reads a counter register.
        unsafe {
            dpdk_sys::shim_rdtsc()
        }
    }

    /// Ticks a second.
    #[must_use]
    pub fn hz(self) -> u64 {
        self.hz
    }

    /// A number of ticks as nanoseconds, rounded down.
    #[must_use]
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.hz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// A duration as ticks, rounded down.
    #[must_use]
    pub fn ticks(self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos() * u128::from(self.hz) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}
