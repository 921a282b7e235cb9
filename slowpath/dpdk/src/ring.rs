//! Lock-free rings of packets between two threads: one producer, one consumer.
//!
//! A worker that receives a packet of another worker's session hands it over
//! through such a ring. The two ends are two values; the ring goes when both
//! are gone, and packets still in it go back to their pools.

use std::{cell::Cell, marker::PhantomData, ptr::NonNull, sync::Arc};

use crate::{
    Burst, Eal, Mbuf,
    eal::c_string,
    error::{Errno, Error, Result},
    port::UnconfiguredPort,
};

/// Makes a ring for `capacity` packets. Names are unique in the process and at
/// most 28 bytes long.
///
/// # Errors
///
/// [`Error::RingCreate`]: no memory, name taken or too long, capacity zero.
pub fn create(_eal: Eal, name: &str, capacity: usize) -> Result<(Producer, Consumer)> {
    let ring = Arc::new(RingInner::create(name, capacity)?);
    Ok((
        Producer {
            ring: Arc::clone(&ring),
            _not_sync: PhantomData,
        },
        Consumer {
            ring,
            _not_sync: PhantomData,
        },
    ))
}

#[derive(Debug)]
struct RingInner {
    raw: NonNull<dpdk_sys::rte_ring>,
    capacity: usize,
}

// SAFETY: a ring is made for a producer and a consumer on different threads; the
// two ends below see to it that there is one of each.
unsafe impl Send for RingInner {}
// SAFETY: as above.
unsafe impl Sync for RingInner {}

impl RingInner {
    fn create(name: &str, capacity: usize) -> Result<Self> {
        let failed = |errno| Error::RingCreate {
            name: name.to_owned(),
            capacity,
            errno,
        };
        let c_name = c_string("ring name", name)?;
        let count = match u32::try_from(capacity) {
            Ok(count) if count > 0 => count,
            _ => return Err(failed(Errno::new(libc::EINVAL))),
        };
        // SAFETY: the name is NUL-terminated and copied by DPDK, which checks the
        // capacity.
        let raw = unsafe { dpdk_sys::shim_ring_create(c_name.as_ptr(), count) };
        let raw = NonNull::new(raw).ok_or_else(|| failed(Errno::last()))?;
        Ok(Self { raw, capacity })
    }

    fn len(&self) -> usize {
        // SAFETY: the ring is live; counting is allowed from any thread.
        unsafe { dpdk_sys::shim_ring_count(self.raw.as_ptr()) as usize }
    }
}

impl Drop for RingInner {
    fn drop(&mut self) {
        let mut burst: Burst = Burst::new();
        loop {
            // SAFETY: both ends are gone, so this is the only user; what comes out is
            // owned by the burst.
            unsafe {
                let count = dpdk_sys::shim_ring_dequeue_sc(
                    self.raw.as_ptr(),
                    burst.spare_ptr(),
                    burst.room() as u32,
                );
                burst.assume_added(count as usize);
            }
            if burst.is_empty() {
                break;
            }
            burst.clear();
        }
        // SAFETY: made by rte_ring_create, empty, and used by nobody any more.
        unsafe { dpdk_sys::rte_ring_free(self.raw.as_ptr()) }
    }
}

/// The end that packets go into. `Send`, not `Sync`.
#[derive(Debug)]
pub struct Producer {
    ring: Arc<RingInner>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Producer {
    /// Moves packets from the burst into the ring and returns how many went;
    /// the others stay in the burst, in order: the ring is full.
    #[inline]
    pub fn enqueue<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        // SAFETY: the ring is live and this is its one producer; the ring owns the
        // packets it took.
        unsafe {
            let count = dpdk_sys::shim_ring_enqueue_sp(
                self.ring.raw.as_ptr(),
                burst.mbufs_ptr(),
                burst.len() as u32,
            );
            burst.assume_taken(count as usize);
            count as usize
        }
    }

    /// Moves one packet into the ring, or gives it back when the ring is full.
    ///
    /// # Errors
    ///
    /// The packet.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> std::result::Result<(), Mbuf> {
        let mut burst: Burst<1> = Burst::new();
        burst.push(mbuf)?;
        self.enqueue(&mut burst);
        burst.pop().map_or(Ok(()), Err)
    }

    /// Packets in the ring; the consumer may take some at any moment.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many packets fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity
    }
}

/// The end that packets come out of. `Send`, not `Sync`.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<RingInner>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Consumer {
    /// Moves packets from the ring into the burst, as many as there are and fit,
    /// and returns how many.
    #[inline]
    pub fn dequeue<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        // SAFETY: the ring is live and this is its one consumer; the burst has room
        // for the packets and owns them.
        unsafe {
            let count = dpdk_sys::shim_ring_dequeue_sc(
                self.ring.raw.as_ptr(),
                burst.spare_ptr(),
                burst.room() as u32,
            );
            burst.assume_added(count as usize);
            count as usize
        }
    }

    /// Packets in the ring; the producer may add some at any moment.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Whether the ring is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many packets fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity
    }
}

/// A port made of rings, and the other ends of them: for tests and benchmarks
/// that put packets into a program and look at what comes out, without a
/// network.
#[derive(Debug)]
pub struct RingPort {
    /// The port, with as many queues as asked for.
    pub port: UnconfiguredPort,
    /// Packets put in here are received, by queue.
    pub to_rx: Vec<Producer>,
    /// Packets sent come out here, by queue.
    pub from_tx: Vec<Consumer>,
}

/// Makes a port of the `net_ring` driver with `queues` receive and transmit
/// queues of `capacity` packets each. The rings live as long as the process.
/// The port is called `net_ring_` and the name, which may have at most 18 bytes.
///
/// # Errors
///
/// [`Error::RingCreate`]; [`Error::Port`] when the driver refuses.
pub fn port(eal: Eal, name: &str, queues: u16, capacity: usize) -> Result<RingPort> {
    let mut to_rx = Vec::new();
    let mut from_tx = Vec::new();
    let mut rx_rings = Vec::new();
    let mut tx_rings = Vec::new();
    for queue in 0..queues {
        let (producer, consumer) = create(eal, &format!("{name}_rx{queue}"), capacity)?;
        rx_rings.push(consumer.ring.raw.as_ptr());
        // The driver is the consumer now, and has no end of life that this crate
        // sees: the ring stays.
        std::mem::forget(consumer);
        to_rx.push(producer);
        let (producer, consumer) = create(eal, &format!("{name}_tx{queue}"), capacity)?;
        tx_rings.push(producer.ring.raw.as_ptr());
        std::mem::forget(producer);
        from_tx.push(consumer);
    }
    let c_name = c_string("port name", name)?;
    // SAFETY: the rings are live for ever (forgotten ends above), the driver copies
    // the two arrays, and the name is NUL-terminated.
    let result = unsafe {
        dpdk_sys::shim_port_from_rings(
            c_name.as_ptr(),
            rx_rings.as_mut_ptr(),
            u32::from(queues),
            tx_rings.as_mut_ptr(),
            u32::from(queues),
        )
    };
    let id = u16::try_from(result).map_err(|_| Error::Port {
        port: name.to_owned(),
        operation: "make a port of rings",
        errno: Errno::new(result),
    })?;
    Ok(RingPort {
        port: UnconfiguredPort::claim(eal, id)?,
        to_rx,
        from_tx,
    })
}
