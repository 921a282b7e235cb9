//! Receive and transmit queues, each owned by one worker.

use std::{cell::Cell, marker::PhantomData, sync::Arc, time::Duration};

use crate::{
    Burst,
    idle::{self, Wake, Waker},
    port::PortInner,
};

/// A receive queue. One thread has it; it may be moved, not shared.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<PortInner>,
    port_id: u16,
    queue: u16,
    _not_sync: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(crate) fn new(port: Arc<PortInner>, queue: u16) -> Self {
        Self {
            port_id: port.id(),
            port,
            queue,
            _not_sync: PhantomData,
        }
    }

    /// Receives packets that are waiting, up to the burst's free room, and adds
    /// them to the burst; returns how many. Never waits.
    #[inline]
    pub fn rx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        let room = u16::try_from(burst.room()).unwrap_or(u16::MAX);
        // SAFETY: the port is started with this queue and stays so while `self` holds
        // it; `&mut self` and the single queue value make this the only user. The
        // burst has room for the packets, each of which is ours on return.
        unsafe {
            let count = dpdk_sys::shim_rx_burst(self.port_id, self.queue, burst.spare_ptr(), room);
            let count = usize::from(count);
            burst.assume_added(count);
            count
        }
    }

    /// Sleeps until a packet may be waiting, the waker is woken, or the time is
    /// over, whichever is first.
    ///
    /// On an AF_PACKET port the thread sleeps in the kernel and wakes with the
    /// first packet. Other drivers cannot tell: there it wakes by the waker or
    /// after `limit`, so the limit is then the latency that idling costs.
    /// `still_idle` is asked after the waker is armed: it is the place to look
    /// once more at rings that other workers fill.
    pub fn wait(
        &mut self,
        limit: Duration,
        waker: Option<&Waker>,
        still_idle: impl FnOnce() -> bool,
    ) -> Wake {
        idle::wait(
            self.port.socket_of_queue(self.queue),
            limit,
            waker,
            still_idle,
        )
    }

    /// Number of the queue in its port.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.queue
    }

    /// Number of the port, as in [`Mbuf::port`](crate::Mbuf::port).
    #[must_use]
    pub fn port_id(&self) -> u16 {
        self.port_id
    }
}

/// A transmit queue. One thread has it; it may be moved, not shared.
#[derive(Debug)]
pub struct TxQueue {
    // Keeps the port started.
    _port: Arc<PortInner>,
    port_id: u16,
    queue: u16,
    _not_sync: PhantomData<Cell<()>>,
}

impl TxQueue {
    pub(crate) fn new(port: Arc<PortInner>, queue: u16) -> Self {
        Self {
            port_id: port.id(),
            _port: port,
            queue,
            _not_sync: PhantomData,
        }
    }

    /// Hands packets to the port and returns how many it took. Those it did not
    /// take stay in the burst, in order, to be tried again or to be dropped and
    /// counted.
    ///
    /// Drivers may still drop what they took; that is counted in
    /// [`PortStats::tx_errors`](crate::PortStats::tx_errors).
    #[inline]
    pub fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        let len = u16::try_from(burst.len()).unwrap_or(u16::MAX);
        // SAFETY: the port is started with this queue and stays so while `self` holds
        // it; `&mut self` and the single queue value make this the only user. The
        // driver takes ownership of the first `count` packets.
        unsafe {
            let count = dpdk_sys::shim_tx_burst(self.port_id, self.queue, burst.mbufs_ptr(), len);
            let count = usize::from(count);
            burst.assume_taken(count);
            count
        }
    }

    /// Number of the queue in its port.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.queue
    }

    /// Number of the port.
    #[must_use]
    pub fn port_id(&self) -> u16 {
        self.port_id
    }
}
