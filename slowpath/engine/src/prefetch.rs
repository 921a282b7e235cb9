//! The one place that needs an intrinsic: asking the cache for a line early.
#![allow(unsafe_code)] // The prefetch intrinsic takes a raw pointer.

/// Asks for the cache line of `slice[index]`. Does nothing beyond the end and
/// on processors without the instruction. Never faults, never changes memory.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = slice.get(index) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer comes from a live reference, and a prefetch of
        // any address is a hint without architectural effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(item).cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_index_is_harmless() {
        let v = [1_u64, 2, 3];
        for i in [0, 2, 3, usize::MAX] {
            super::prefetch(&v, i);
        }
        super::prefetch::<u8>(&[], 0);
        assert_eq!(v, [1, 2, 3]);
    }
}
