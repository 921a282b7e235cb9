//! Where a worker's packets come from and go to, as traits, so that the worker
//! can be run over plain memory.

use std::ops::DerefMut;
use std::time::Duration;

/// Most packets that are handled together.
pub const BURST: usize = dpdk::BURST;

/// One frame, from its Ethernet header.
pub trait Packet {
    /// The frame's bytes.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Cuts the frame off after `len` bytes; `false`, with nothing changed, if
    /// it is shorter than that.
    fn truncate(&mut self, len: usize) -> bool;
    /// Whether all of the frame lies in [`Packet::bytes_mut`].
    fn is_contiguous(&self) -> bool;
    /// Hints that the bytes will be read soon.
    fn prefetch(&self) {}
}

/// Up to [`BURST`] frames in order.
pub trait Burst: DerefMut<Target = [Self::Packet]> + Default {
    /// What a frame is.
    type Packet: Packet;
    /// Adds a frame.
    ///
    /// # Errors
    /// The frame, if the burst is full.
    fn push(&mut self, packet: Self::Packet) -> Result<(), Self::Packet>;
    /// Takes all frames out, in order. Those not taken are dropped.
    fn drain(&mut self) -> impl Iterator<Item = Self::Packet>;
    /// Drops all frames.
    fn clear(&mut self);
}

/// One worker's ends of its queue pair and of the redirect rings.
pub trait PacketIo {
    /// Frames in order.
    type Burst: Burst;

    /// Adds waiting frames to `burst`; says how many.
    fn receive(&mut self, burst: &mut Self::Burst) -> usize;
    /// Hands frames to the port and says how many it took; the others stay in
    /// `burst`, in order.
    fn send(&mut self, burst: &mut Self::Burst) -> usize;
    /// Hands a frame to another worker.
    ///
    /// # Errors
    /// The frame, if the ring to that worker is full.
    fn redirect(
        &mut self,
        to: u16,
        packet: <Self::Burst as Burst>::Packet,
    ) -> Result<(), <Self::Burst as Burst>::Packet>;
    /// Called after a burst in which frames went to other workers: `woken` has
    /// a bit for each.
    fn wake(&mut self, woken: u32);
    /// Adds frames that other workers have handed over to `burst`; says how
    /// many.
    fn receive_redirected(&mut self, burst: &mut Self::Burst) -> usize;
    /// Sleeps until something may have arrived, the worker is woken, or `limit`
    /// is over. `idle` is asked once more just before.
    fn wait(&mut self, limit: Duration, idle: impl FnOnce() -> bool);
}

impl Packet for dpdk::Mbuf {
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
    #[inline]
    fn truncate(&mut self, len: usize) -> bool {
        match self.len().checked_sub(len).map(u16::try_from) {
            Some(Ok(0)) => true,
            Some(Ok(excess)) => self.trim(excess).is_some(),
            _ => false,
        }
    }
    #[inline]
    fn is_contiguous(&self) -> bool {
        self.segments() == 1
    }
    #[inline]
    fn prefetch(&self) {
        self.prefetch_data();
    }
}

impl Burst for dpdk::Burst<BURST> {
    type Packet = dpdk::Mbuf;
    #[inline]
    fn push(&mut self, packet: dpdk::Mbuf) -> Result<(), dpdk::Mbuf> {
        self.push(packet)
    }
    #[inline]
    fn drain(&mut self) -> impl Iterator<Item = dpdk::Mbuf> {
        self.drain()
    }
    #[inline]
    fn clear(&mut self) {
        self.clear();
    }
}

/// [`PacketIo`] over a queue pair of a DPDK port and DPDK rings.
#[derive(Debug)]
pub struct PortIo {
    /// The queue pair.
    pub rx: dpdk::RxQueue,
    /// The queue pair.
    pub tx: dpdk::TxQueue,
    /// Rings to the other workers, by worker; none to this one.
    pub outgoing: Vec<Option<dpdk::ring::Producer>>,
    /// Rings from the other workers.
    pub incoming: Vec<dpdk::ring::Consumer>,
    /// The ring to look at first next time, so that none starves.
    pub next: usize,
    /// Everybody's wakers, by worker.
    pub wakers: Vec<dpdk::Waker>,
    /// This worker's place in `wakers`.
    pub worker: u16,
}

impl PacketIo for PortIo {
    type Burst = dpdk::Burst<BURST>;

    #[inline]
    fn receive(&mut self, burst: &mut Self::Burst) -> usize {
        self.rx.rx_burst(burst)
    }

    #[inline]
    fn send(&mut self, burst: &mut Self::Burst) -> usize {
        self.tx.tx_burst(burst)
    }

    #[inline]
    fn redirect(&mut self, to: u16, packet: dpdk::Mbuf) -> Result<(), dpdk::Mbuf> {
        match self.outgoing.get_mut(usize::from(to)) {
            Some(Some(ring)) => ring.push(packet),
            _ => Err(packet),
        }
    }

    fn wake(&mut self, woken: u32) {
        for (worker, waker) in self.wakers.iter().enumerate() {
            if woken >> worker & 1 == 1 {
                waker.wake();
            }
        }
    }

    #[inline]
    fn receive_redirected(&mut self, burst: &mut Self::Burst) -> usize {
        let mut count = 0;
        for _ in 0..self.incoming.len() {
            self.next = (self.next + 1) % self.incoming.len();
            if let Some(ring) = self.incoming.get_mut(self.next)
                && !ring.is_empty()
            {
                count += ring.dequeue(burst);
            }
        }
        count
    }

    fn wait(&mut self, limit: Duration, idle: impl FnOnce() -> bool) {
        let waker = self.wakers.get(usize::from(self.worker));
        let incoming = &self.incoming;
        self.rx.wait(limit, waker, || {
            incoming.iter().all(dpdk::ring::Consumer::is_empty) && idle()
        });
    }
}
