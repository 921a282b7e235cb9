//! Pools of packet buffers.

use std::ptr::NonNull;

use crate::{
    Burst, Eal, Mbuf,
    eal::c_string,
    error::{Errno, Error, Result},
    mbuf::HEADROOM,
};

/// Size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of buffers. A power of two minus one uses memory best.
    pub count: u32,
    /// Free buffers that each registered thread keeps for itself; at most 512
    /// and two thirds of `count`.
    pub cache: u32,
    /// Bytes of each buffer, [`HEADROOM`] included.
    pub data_room: u16,
}

impl Default for PoolConfig {
    /// 8191 buffers of 2048 bytes plus headroom: about 19 MiB.
    fn default() -> Self {
        Self {
            count: 8191,
            cache: 256,
            data_room: 2048 + HEADROOM,
        }
    }
}

/// A pool of packet buffers.
///
/// A pool lives until the process ends, so that no [`Mbuf`] can outlive it: it
/// is a handle that can be copied, and making pools again and again would use
/// up memory. Make them at start.
#[derive(Clone, Copy, Debug)]
pub struct Mempool {
    raw: NonNull<dpdk_sys::rte_mempool>,
    data_room: u16,
}

// SAFETY: pools are made for use by any number of threads (multi-producer,
// multi-consumer ring and a cache per registered thread), and are never freed.
unsafe impl Send for Mempool {}
// SAFETY: as above.
unsafe impl Sync for Mempool {}

impl Mempool {
    /// Makes a pool on any NUMA node. Names are unique in the process and at
    /// most 26 bytes long.
    ///
    /// # Errors
    ///
    /// [`Error::PoolCreate`]: no memory, name taken or too long, cache too
    /// large.
    pub fn create(_eal: Eal, name: &str, config: PoolConfig) -> Result<Self> {
        const ANY_SOCKET: i32 = -1;
        let c_name = c_string("pool name", name)?;
        // SAFETY: the name is NUL-terminated and copied by DPDK; the other arguments
        // are numbers that it checks.
        let raw = unsafe {
            dpdk_sys::rte_pktmbuf_pool_create(
                c_name.as_ptr(),
                config.count,
                config.cache,
                0,
                config.data_room,
                ANY_SOCKET,
            )
        };
        let raw = NonNull::new(raw).ok_or_else(|| Error::PoolCreate {
            name: name.to_owned(),
            count: config.count,
            data_room: config.data_room,
            errno: Errno::last(),
        })?;
        Ok(Self {
            raw,
            data_room: config.data_room,
        })
    }

    /// Takes a buffer, empty.
    ///
    /// # Errors
    ///
    /// [`Error::PoolExhausted`].
    #[inline]
    pub fn alloc(&self) -> Result<Mbuf> {
        // SAFETY: the pool lives for ever.
        let raw = unsafe { dpdk_sys::shim_pktmbuf_alloc(self.raw.as_ptr()) };
        match NonNull::new(raw) {
            // SAFETY: a new mbuf: one segment, one reference, ours.
            Some(raw) => Ok(unsafe { Mbuf::from_raw(raw) }),
            None => Err(Error::PoolExhausted { wanted: 1 }),
        }
    }

    /// Takes a buffer and copies `frame` into it.
    ///
    /// # Errors
    ///
    /// [`Error::PoolExhausted`]; [`Error::FrameTooLong`] when the frame does not
    /// fit behind the headroom.
    pub fn alloc_with(&self, frame: &[u8]) -> Result<Mbuf> {
        let mut mbuf = self.alloc()?;
        let target = u16::try_from(frame.len())
            .ok()
            .and_then(|length| mbuf.append(length));
        match target {
            Some(target) => {
                target.copy_from_slice(frame);
                Ok(mbuf)
            }
            None => Err(Error::FrameTooLong {
                length: frame.len(),
                room: mbuf.tailroom(),
            }),
        }
    }

    /// Takes `count` empty buffers and adds them to the burst: all or none.
    ///
    /// # Errors
    ///
    /// [`Error::PoolExhausted`], also when the burst has no room for them.
    pub fn alloc_bulk<const N: usize>(&self, burst: &mut Burst<N>, count: usize) -> Result<()> {
        let exhausted = Error::PoolExhausted { wanted: count };
        if count > burst.room() {
            return Err(exhausted);
        }
        let Ok(c_count) = u32::try_from(count) else {
            return Err(exhausted);
        };
        // SAFETY: the burst has room for `count` pointers; on success DPDK has written
        // that many new mbufs of one segment and one reference, which are ours.
        unsafe {
            let result =
                dpdk_sys::shim_pktmbuf_alloc_bulk(self.raw.as_ptr(), burst.spare_ptr(), c_count);
            if result != 0 {
                return Err(exhausted);
            }
            burst.assume_added(count);
        }
        Ok(())
    }

    /// Free buffers, those in the threads' caches included. Walks all caches:
    /// for statistics, not for the fast path.
    #[must_use]
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives for ever; DPDK allows the call at any time.
        unsafe { dpdk_sys::rte_mempool_avail_count(self.raw.as_ptr()) }
    }

    /// Buffers in use.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives for ever; DPDK allows the call at any time.
        unsafe { dpdk_sys::rte_mempool_in_use_count(self.raw.as_ptr()) }
    }

    /// Bytes of each buffer, [`HEADROOM`] included.
    #[must_use]
    pub fn data_room(&self) -> u16 {
        self.data_room
    }

    pub(crate) fn as_ptr(self) -> *mut dpdk_sys::rte_mempool {
        self.raw.as_ptr()
    }
}
