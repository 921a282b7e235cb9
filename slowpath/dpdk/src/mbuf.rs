//! One packet buffer.

use std::{fmt, ptr::NonNull};

use dpdk_sys as sys;

/// Bytes before the packet in a fresh or received buffer: room for an outer
/// header (VXLAN over IPv6 and a VLAN tag takes 74).
pub const HEADROOM: u16 = sys::SHIM_MBUF_HEADROOM as u16;

const BUF_ADDR: usize = sys::SHIM_MBUF_BUF_ADDR as usize;
const DATA_OFF: usize = sys::SHIM_MBUF_DATA_OFF as usize;
const NB_SEGS: usize = sys::SHIM_MBUF_NB_SEGS as usize;
const PORT: usize = sys::SHIM_MBUF_PORT as usize;
const PKT_LEN: usize = sys::SHIM_MBUF_PKT_LEN as usize;
const DATA_LEN: usize = sys::SHIM_MBUF_DATA_LEN as usize;
const BUF_LEN: usize = sys::SHIM_MBUF_BUF_LEN as usize;

/// A packet buffer, owned; dropping it gives it back to its pool.
///
/// The packet's bytes are contiguous, with free room before (`headroom`) and
/// behind (`tailroom`). A driver that scatters packets over several buffers
/// (none is configured to) yields [`segments`](Self::segments) above one; then
/// `data` is the first part only and nothing can be appended or trimmed.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: the buffer has one owner, this value, and pools take buffers back
// from any thread.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// Takes over an mbuf.
    ///
    /// # Safety
    ///
    /// It is a live mbuf with one reference, which becomes the value's.
    pub(crate) unsafe fn from_raw(raw: NonNull<sys::rte_mbuf>) -> Self {
        Self(raw)
    }

    #[inline]
    fn read<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: the mbuf is live and ours; the offset and width of each field used
        // here were checked by the C compiler (enum shim_layout and its assertions).
        unsafe { self.0.as_ptr().byte_add(offset).cast::<T>().read() }
    }

    #[inline]
    fn write<T: Copy>(&mut self, offset: usize, value: T) {
        // SAFETY: as in `read`, and `&mut self` is the only access.
        unsafe { self.0.as_ptr().byte_add(offset).cast::<T>().write(value) }
    }

    #[inline]
    fn data_ptr(&self) -> *mut u8 {
        let base: *mut u8 = self.read(BUF_ADDR);
        // SAFETY: data_off is at most buf_len, so the result is inside the buffer or
        // one past its end.
        unsafe { base.add(usize::from(self.read::<u16>(DATA_OFF))) }
    }

    #[inline]
    fn set_lengths(&mut self, data: u16, packet: u32) {
        self.write(DATA_LEN, data);
        self.write(PKT_LEN, packet);
    }

    /// Length of [`data`](Self::data), in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.read::<u16>(DATA_LEN))
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the whole packet over all segments, in bytes.
    #[inline]
    #[must_use]
    pub fn packet_len(&self) -> u32 {
        self.read(PKT_LEN)
    }

    /// Number of buffers the packet is spread over; one in Sluice's
    /// configuration.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> u16 {
        self.read(NB_SEGS)
    }

    /// Number of the port that received the packet.
    #[inline]
    #[must_use]
    pub fn port(&self) -> u16 {
        self.read(PORT)
    }

    /// The packet.
    #[inline]
    #[must_use]
    pub fn data(&self) -> &[u8] {
        // SAFETY: data_off + data_len is at most buf_len (kept by DPDK and by the
        // methods below), the bytes are initialised memory of the pool, and nobody
        // else has this buffer.
        unsafe { std::slice::from_raw_parts(self.data_ptr(), self.len()) }
    }

    /// The packet, to be changed.
    #[inline]
    #[must_use]
    pub fn data_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `data`, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.data_ptr(), self.len()) }
    }

    /// Free bytes before the packet.
    #[inline]
    #[must_use]
    pub fn headroom(&self) -> u16 {
        self.read(DATA_OFF)
    }

    /// Free bytes behind the packet, zero if it has several segments.
    #[inline]
    #[must_use]
    pub fn tailroom(&self) -> u16 {
        if self.segments() != 1 {
            return 0;
        }
        self.read::<u16>(BUF_LEN)
            .saturating_sub(self.read(DATA_OFF))
            .saturating_sub(self.read(DATA_LEN))
    }

    /// Makes room for `count` bytes at the front and returns them, contents
    /// undefined (but initialised); `None`, and nothing changed, when the
    /// headroom is smaller.
    #[inline]
    #[must_use]
    pub fn prepend(&mut self, count: u16) -> Option<&mut [u8]> {
        let offset = self.headroom().checked_sub(count)?;
        let data = self.read::<u16>(DATA_LEN).checked_add(count)?;
        let packet = self.packet_len().checked_add(u32::from(count))?;
        self.write(DATA_OFF, offset);
        self.set_lengths(data, packet);
        self.data_mut().get_mut(..usize::from(count))
    }

    /// Removes `count` bytes at the front; `None`, and nothing changed, when
    /// there are fewer.
    #[inline]
    #[must_use]
    pub fn adj(&mut self, count: u16) -> Option<()> {
        let data = self.read::<u16>(DATA_LEN).checked_sub(count)?;
        let packet = self.packet_len().checked_sub(u32::from(count))?;
        let offset = self.headroom().checked_add(count)?;
        self.write(DATA_OFF, offset);
        self.set_lengths(data, packet);
        Some(())
    }

    /// Adds `count` bytes at the end and returns them, contents undefined (but
    /// initialised); `None`, and nothing changed, when the tailroom is smaller.
    #[inline]
    #[must_use]
    pub fn append(&mut self, count: u16) -> Option<&mut [u8]> {
        if count > self.tailroom() {
            return None;
        }
        let old: u16 = self.read(DATA_LEN);
        let data = old.checked_add(count)?;
        let packet = self.packet_len().checked_add(u32::from(count))?;
        self.set_lengths(data, packet);
        self.data_mut().get_mut(usize::from(old)..)
    }

    /// Removes `count` bytes at the end; `None`, and nothing changed, when
    /// there are fewer or the packet has several segments.
    #[inline]
    #[must_use]
    pub fn trim(&mut self, count: u16) -> Option<()> {
        if self.segments() != 1 {
            return None;
        }
        let data = self.read::<u16>(DATA_LEN).checked_sub(count)?;
        let packet = self.packet_len().checked_sub(u32::from(count))?;
        self.set_lengths(data, packet);
        Some(())
    }

    /// Asks the processor to fetch the buffer's header, which the methods above
    /// read.
    #[inline]
    pub fn prefetch_header(&self) {
        prefetch(self.0.as_ptr().cast());
    }

    /// Asks the processor to fetch the first cache line of the packet. Reads
    /// the header, so that one should be there already.
    #[inline]
    pub fn prefetch_data(&self) {
        prefetch(self.data_ptr());
    }

    #[cfg(test)]
    pub(crate) fn as_ptr(&mut self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it cannot fault at any address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value owns the mbuf's one reference.
        unsafe { sys::shim_pktmbuf_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mbuf")
            .field("port", &self.port())
            .field("len", &self.len())
            .field("segments", &self.segments())
            .field("headroom", &self.headroom())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Eal, EalArgs, Mempool, PoolConfig};

    const DATA_ROOM: u16 = 256 + HEADROOM;

    /// DPDK's own functions on one buffer and this module's on another must
    /// agree on success and on the resulting lengths and offsets. The sequence
    /// is fixed; its requests go beyond every limit often.
    #[test]
    fn changes_of_length_agree_with_dpdk() {
        let eal = Eal::init(&EalArgs::without_huge_pages(32)).unwrap();
        let config = PoolConfig {
            count: 15,
            cache: 0,
            data_room: DATA_ROOM,
        };
        let pool = Mempool::create(eal, "mbuf_test", config).unwrap();
        let mut ours = pool.alloc().unwrap();
        let mut theirs = pool.alloc().unwrap();
        let mut state: u32 = 0x1234_5678;
        let mut refused = [0_u32; 4];
        let mut done = [0_u32; 4];
        for step in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = (state >> 8) as u16 % 300;
            let operation = (state >> 24) as usize % 4;
            let raw = theirs.as_ptr();
            // SAFETY: `raw` is a live mbuf of ours.
            let (ours_worked, theirs_worked) = unsafe {
                match operation {
                    0 => (
                        ours.prepend(count).is_some(),
                        !sys::shim_pktmbuf_prepend(raw, count).is_null(),
                    ),
                    1 => (
                        ours.adj(count).is_some(),
                        !sys::shim_pktmbuf_adj(raw, count).is_null(),
                    ),
                    2 => (
                        ours.append(count).is_some(),
                        !sys::shim_pktmbuf_append(raw, count).is_null(),
                    ),
                    _ => (
                        ours.trim(count).is_some(),
                        sys::shim_pktmbuf_trim(raw, count) == 0,
                    ),
                }
            };
            assert_eq!(ours_worked, theirs_worked, "step {step}");
            let counters = if ours_worked { &mut done } else { &mut refused };
            counters[operation] += 1;
            assert_eq!(ours.len(), theirs.len(), "step {step}");
            assert_eq!(ours.packet_len(), theirs.packet_len(), "step {step}");
            assert_eq!(ours.headroom(), theirs.headroom(), "step {step}");
            assert_eq!(ours.tailroom(), theirs.tailroom(), "step {step}");
            assert_eq!(
                usize::from(ours.headroom()) + ours.len() + usize::from(ours.tailroom()),
                usize::from(DATA_ROOM),
                "step {step}"
            );
        }
        assert!(done.iter().all(|&n| n > 100), "{done:?}");
        assert!(refused.iter().all(|&n| n > 100), "{refused:?}");
    }
}
