//! Asking the cache for packets before they are processed. Another processor
//! has written them, so that waiting for them takes as long as a table look-up.

#![allow(unsafe_code, reason = "the prefetch intrinsic takes a raw pointer")]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks the cache for so many lines from `start` on. It need not point to
/// anything. Does nothing on processors without the instruction.
#[inline(always)]
pub(in crate::ports) fn prefetch(start: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = start.wrapping_add(line * LINE);
        // SAFETY: a prefetch of any address is a hint without effect on
        // memory, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, lines);
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn any_address_is_harmless() {
        let bytes = [7u8; 3];
        for start in [bytes.as_ptr(), std::ptr::null(), usize::MAX as *const u8] {
            prefetch(start, 3);
        }
        assert_eq!(bytes, [7; 3]);
    }
}
