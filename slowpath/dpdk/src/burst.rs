//! A fixed array of packet buffers, filled and emptied by queues and rings.

use std::{
    fmt,
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
};

use crate::Mbuf;

/// The usual number of packets in a burst.
pub const BURST: usize = 32;

/// Up to `N` packets, on the stack. Behaves as a slice of [`Mbuf`]; what is
/// left in it when it is dropped goes back to the pools.
pub struct Burst<const N: usize = BURST> {
    len: usize,
    bufs: [MaybeUninit<Mbuf>; N],
}

impl<const N: usize> Burst<N> {
    /// An empty burst.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            len: 0,
            bufs: [const { MaybeUninit::uninit() }; N],
        }
    }

    /// How many more packets fit.
    #[inline]
    #[must_use]
    pub const fn room(&self) -> usize {
        N - self.len
    }

    /// Whether no more packets fit.
    #[inline]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.len == N
    }

    /// Adds a packet at the end, or gives it back when the burst is full.
    ///
    /// # Errors
    ///
    /// The packet.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.bufs.get_mut(self.len) {
            Some(slot) => {
                slot.write(mbuf);
                self.len += 1;
                Ok(())
            }
            None => Err(mbuf),
        }
    }

    /// Takes the last packet out.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        let slot = self.bufs.get(self.len)?;
        // SAFETY: the slot was below the old length, so it is initialised, and the new
        // length excludes it.
        Some(unsafe { slot.assume_init_read() })
    }

    /// Takes all packets out, in order; packets that the iterator has not
    /// yielded are freed with it.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_, N> {
        let len = std::mem::take(&mut self.len);
        Drain {
            burst: self,
            next: 0,
            len,
        }
    }

    /// Gives all packets back to their pools.
    #[inline]
    pub fn clear(&mut self) {
        let len = std::mem::take(&mut self.len);
        if len > 0 {
            // SAFETY: the first `len` slots are initialised mbufs, which the new length
            // no longer counts; Mbuf is transparent over the pointer.
            unsafe {
                dpdk_sys::rte_pktmbuf_free_bulk(self.bufs.as_mut_ptr().cast(), len as u32);
            }
        }
    }

    /// Where the next packet goes.
    #[inline]
    pub(crate) fn spare_ptr(&mut self) -> *mut *mut dpdk_sys::rte_mbuf {
        // SAFETY: len is at most N.
        unsafe { self.bufs.as_mut_ptr().add(self.len).cast() }
    }

    /// The packets, as C takes them.
    #[inline]
    pub(crate) fn mbufs_ptr(&mut self) -> *mut *mut dpdk_sys::rte_mbuf {
        self.bufs.as_mut_ptr().cast()
    }

    /// Counts packets that C wrote at [`spare_ptr`](Self::spare_ptr).
    ///
    /// # Safety
    ///
    /// `count` is at most [`room`](Self::room), and that many owned mbufs were
    /// written.
    #[inline]
    pub(crate) unsafe fn assume_added(&mut self, count: usize) {
        debug_assert!(count <= self.room());
        self.len += count;
    }

    /// Forgets the first `count` packets, which C has taken, and moves the rest
    /// to the front.
    ///
    /// # Safety
    ///
    /// `count` is at most the length, and the first `count` mbufs are owned by
    /// someone else now.
    #[inline]
    pub(crate) unsafe fn assume_taken(&mut self, count: usize) {
        debug_assert!(count <= self.len);
        let rest = self.len - count;
        if rest > 0 && count > 0 {
            let base = self.bufs.as_mut_ptr();
            // SAFETY: both ranges are inside the array.
            unsafe { std::ptr::copy(base.add(count), base, rest) };
        }
        self.len = rest;
    }
}

impl<const N: usize> Default for Burst<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Drop for Burst<N> {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

impl<const N: usize> Deref for Burst<N> {
    type Target = [Mbuf];

    #[inline]
    fn deref(&self) -> &[Mbuf] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts(self.bufs.as_ptr().cast(), self.len) }
    }
}

impl<const N: usize> DerefMut for Burst<N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        // SAFETY: the first `len` slots are initialised.
        unsafe { std::slice::from_raw_parts_mut(self.bufs.as_mut_ptr().cast(), self.len) }
    }
}

impl<const N: usize> fmt::Debug for Burst<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Packets on their way out of a [`Burst`].
#[derive(Debug)]
pub struct Drain<'a, const N: usize> {
    burst: &'a mut Burst<N>,
    next: usize,
    len: usize,
}

impl<const N: usize> Iterator for Drain<'_, N> {
    type Item = Mbuf;

    #[inline]
    fn next(&mut self) -> Option<Mbuf> {
        if self.next == self.len {
            return None;
        }
        let slot = self.burst.bufs.get(self.next)?;
        self.next += 1;
        // SAFETY: slots from `next` to `len` are initialised and counted by nobody
        // else; `next` has moved past this one.
        Some(unsafe { slot.assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.len - self.next;
        (left, Some(left))
    }
}

impl<const N: usize> Drop for Drain<'_, N> {
    fn drop(&mut self) {
        for mbuf in self.by_ref() {
            drop(mbuf);
        }
    }
}
