//! Ports: finding, starting and watching them.

use std::{
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Burst, Eal, ExtendedStat, FlowRule, Mempool, PortStats, RxQueue, TxQueue, UdpSourceMatch,
    af_packet::{self, Sockets},
    eal::c_string,
    error::{Errno, Error, Result},
    port_info::{
        PortConfig, PortInfo, check_frame, check_interface, check_pools, check_queues, port_name,
        read_info,
    },
};

/// State of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether there is a link.
    pub up: bool,
    /// Speed in Mbit/s, if known. Virtual ports say 10000.
    pub speed_mbps: Option<u32>,
    /// Whether both directions work at once.
    pub full_duplex: bool,
}

/// Ports in use in this process, by number.
static CLAIMED: Mutex<Vec<u16>> = Mutex::new(Vec::new());

/// The right to use a port; at most one for each.
#[derive(Debug)]
struct Claim(u16);

impl Claim {
    fn take(id: u16) -> Option<Self> {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        if claimed.contains(&id) {
            return None;
        }
        claimed.push(id);
        Some(Self(id))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        claimed.retain(|&id| id != self.0);
    }
}

impl Eal {
    /// Names of the ports there are, in the order of their numbers.
    #[must_use]
    pub fn port_names(self) -> Vec<String> {
        let mut names = Vec::new();
        let mut next = 0;
        loop {
            // SAFETY: looks through a table; the result is at most RTE_MAX_ETHPORTS.
            let id = unsafe { dpdk_sys::shim_next_port(next) };
            if u32::from(id) >= dpdk_sys::SHIM_MAX_ETHPORTS {
                return names;
            }
            names.extend(port_name(id));
            next = id + 1;
        }
    }

    /// Takes a port by its name.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchPort`], [`Error::PortInUse`].
    pub fn port(self, name: &str) -> Result<UnconfiguredPort> {
        let c_name = c_string("port name", name)?;
        let mut id = 0;
        // SAFETY: the name is NUL-terminated and `id` is where the number goes.
        let result =
            unsafe { dpdk_sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &raw mut id) };
        if result != 0 {
            return Err(Error::NoSuchPort {
                name: name.to_owned(),
                present: self.port_names(),
            });
        }
        UnconfiguredPort::claim(self, id)
    }
}

/// A port that is ours and not started.
#[derive(Debug)]
pub struct UnconfiguredPort {
    claim: Claim,
    info: PortInfo,
}

impl UnconfiguredPort {
    pub(crate) fn claim(_eal: Eal, id: u16) -> Result<Self> {
        let name = port_name(id).ok_or_else(|| Error::NoSuchPort {
            name: format!("number {id}"),
            present: Vec::new(),
        })?;
        let Some(claim) = Claim::take(id) else {
            return Err(Error::PortInUse { name });
        };
        let info = read_info(id, name)?;
        Ok(Self { claim, info })
    }

    /// What the port is.
    #[must_use]
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Configures and starts the port. Receive queue `n` takes its buffers from
    /// pool `n` modulo the number of pools. Packets that an AF_PACKET port
    /// collected before this call are dropped and counted
    /// ([`PortStats::rx_before_start`]).
    ///
    /// # Errors
    ///
    /// Before anything is changed: [`Error::TooManyQueues`],
    /// [`Error::FrameTooLarge`], [`Error::BufferTooSmall`] (also without a
    /// pool), [`Error::InterfaceMtu`]. Then [`Error::Port`] or
    /// [`Error::AfPacket`] when the driver or the kernel refuses; the port is
    /// closed then.
    pub fn start(self, config: &PortConfig, pools: &[Mempool]) -> Result<Started> {
        let Self { claim, info } = self;
        check_queues(&info, config)?;
        check_frame(&info, config)?;
        check_pools(&info, config, pools)?;
        let sockets = match info.interface_index {
            Some(index) if info.driver == af_packet::DRIVER => Some(
                Sockets::find(index)
                    .map_err(|source| af_packet_error(&info.name, "find them", source))?,
            ),
            _ => None,
        };
        if let Some(sockets) = &sockets {
            check_interface(&info, config, sockets)?;
        }
        let mut inner = PortInner {
            claim,
            info,
            control: Mutex::new(()),
            sockets,
            stale: Stale::default(),
        };
        inner.configure(config, pools)?;
        inner.settle(config)?;
        let inner = Arc::new(inner);
        Ok(Started {
            rx: (0..config.rx_queues)
                .map(|queue| RxQueue::new(Arc::clone(&inner), queue))
                .collect(),
            tx: (0..config.tx_queues)
                .map(|queue| TxQueue::new(Arc::clone(&inner), queue))
                .collect(),
            port: Port(inner),
        })
    }
}

pub(crate) fn af_packet_error(
    port: &str,
    operation: &'static str,
    source: std::io::Error,
) -> Error {
    Error::AfPacket {
        port: port.to_owned(),
        operation,
        source,
    }
}

/// A port just started, and its queues to be given to the workers.
#[derive(Debug)]
pub struct Started {
    /// For control: counters, link, rules.
    pub port: Port,
    /// Receive queues by number.
    pub rx: Vec<RxQueue>,
    /// Transmit queues by number.
    pub tx: Vec<TxQueue>,
}

/// A started port, for control from any thread. The port stops and closes when
/// all handles and queues are gone.
#[derive(Clone, Debug)]
pub struct Port(Arc<PortInner>);

impl Port {
    /// Number of the port, as in [`Mbuf::port`](crate::Mbuf::port).
    #[must_use]
    pub fn id(&self) -> u16 {
        self.0.id()
    }

    /// What the port is.
    #[must_use]
    pub fn info(&self) -> &PortInfo {
        &self.0.info
    }

    /// The counters every port has.
    ///
    /// # Errors
    ///
    /// [`Error::Port`], [`Error::AfPacket`].
    pub fn stats(&self) -> Result<PortStats> {
        let _control = self.0.control();
        self.0.read_stats()
    }

    /// All counters the driver has, by its own names. The place to look for
    /// drops that the common counters do not name.
    ///
    /// # Errors
    ///
    /// [`Error::Port`].
    pub fn extended_stats(&self) -> Result<Vec<ExtendedStat>> {
        let _control = self.0.control();
        self.0.read_extended_stats()
    }

    /// State of the link, without waiting for it.
    ///
    /// # Errors
    ///
    /// [`Error::Port`].
    pub fn link(&self) -> Result<Link> {
        let _control = self.0.control();
        let mut raw = dpdk_sys::shim_link {
            speed_mbps: 0,
            up: 0,
            full_duplex: 0,
        };
        // SAFETY: the port is ours and `raw` is a structure of that type.
        let result = unsafe { dpdk_sys::shim_port_link(self.id(), &raw mut raw) };
        self.0.check("read the state of its link", result)?;
        Ok(Link {
            up: raw.up != 0,
            speed_mbps: (raw.speed_mbps != u32::MAX && raw.speed_mbps != 0)
                .then_some(raw.speed_mbps),
            full_duplex: raw.full_duplex != 0,
        })
    }

    /// The MAC address.
    ///
    /// # Errors
    ///
    /// [`Error::Port`].
    pub fn mac(&self) -> Result<[u8; 6]> {
        let mut mac = [0; 6];
        // SAFETY: the port is ours and the array has room for an address.
        let result = unsafe { dpdk_sys::shim_port_mac(self.id(), mac.as_mut_ptr()) };
        self.0.check("read its MAC address", result)?;
        Ok(mac)
    }

    /// The MTU in bytes of IP packet: the kernel interface's for an AF_PACKET
    /// port.
    ///
    /// # Errors
    ///
    /// [`Error::Port`], [`Error::AfPacket`].
    pub fn mtu(&self) -> Result<u32> {
        if let Some(sockets) = &self.0.sockets {
            let (_, mtu) = sockets
                .interface()
                .map_err(|source| self.0.af_packet_error("read the interface's MTU", source))?;
            return Ok(mtu);
        }
        let mut mtu = 0;
        // SAFETY: the port is ours and `mtu` is where the number goes.
        let result = unsafe { dpdk_sys::rte_eth_dev_get_mtu(self.id(), &raw mut mtu) };
        self.0.check("read its MTU", result)?;
        Ok(mtu.into())
    }

    /// Whether the port receives frames for any MAC address.
    ///
    /// # Errors
    ///
    /// [`Error::Port`].
    pub fn promiscuous(&self) -> Result<bool> {
        // SAFETY: the port is ours.
        let result = unsafe { dpdk_sys::rte_eth_promiscuous_get(self.id()) };
        self.0
            .check("read its promiscuous mode", result.min(0))
            .map(|()| result == 1)
    }

    /// Sets whether the port receives frames for any MAC address.
    ///
    /// # Errors
    ///
    /// [`Error::Port`].
    pub fn set_promiscuous(&self, on: bool) -> Result<()> {
        self.0.set_promiscuous(on)
    }

    /// Asks the driver whether it would take a steering rule.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] when it has no such rules,
    /// [`Error::FlowRefused`] when it does not take this one.
    pub fn check_flow(&self, matches: UdpSourceMatch, queue: u16) -> Result<()> {
        FlowRule::validate(&self.0, matches, queue)
    }

    /// Steers matching packets to a receive queue while the rule lives.
    ///
    /// # Errors
    ///
    /// As [`check_flow`](Self::check_flow).
    pub fn add_flow(&self, matches: UdpSourceMatch, queue: u16) -> Result<FlowRule> {
        FlowRule::create(Arc::clone(&self.0), matches, queue)
    }
}

/// A started port. Dropping it stops and closes the port.
#[derive(Debug)]
pub(crate) struct PortInner {
    claim: Claim,
    info: PortInfo,
    /// Control calls on one port must not overlap.
    control: Mutex<()>,
    sockets: Option<Sockets>,
    stale: Stale,
}

/// What waited in an AF_PACKET port's rings when it started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stale {
    /// Packets that the driver has counted as received.
    pub(crate) packets: u64,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// Packets that did not even find room in the rings.
    pub(crate) missed: u64,
}

impl PortInner {
    pub(crate) fn stale(&self) -> Stale {
        self.stale
    }

    pub(crate) fn id(&self) -> u16 {
        self.claim.0
    }

    pub(crate) fn name(&self) -> &str {
        &self.info.name
    }

    pub(crate) fn driver(&self) -> &str {
        &self.info.driver
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn socket_of_queue(&self, queue: u16) -> Option<BorrowedFd<'_>> {
        self.sockets.as_ref()?.of_queue(queue)
    }

    pub(crate) fn kernel_drops(&self) -> Option<std::io::Result<u64>> {
        self.sockets.as_ref().map(Sockets::drops)
    }

    pub(crate) fn port_error(&self, operation: &'static str, errno: Errno) -> Error {
        Error::Port {
            port: self.info.name.clone(),
            operation,
            errno,
        }
    }

    pub(crate) fn af_packet_error(&self, operation: &'static str, source: std::io::Error) -> Error {
        af_packet_error(&self.info.name, operation, source)
    }

    pub(crate) fn check(&self, operation: &'static str, result: i32) -> Result<()> {
        if result == 0 {
            Ok(())
        } else {
            Err(self.port_error(operation, Errno::new(result)))
        }
    }

    fn configure(&self, config: &PortConfig, pools: &[Mempool]) -> Result<()> {
        let id = self.id();
        let raw = dpdk_sys::shim_port_conf {
            rx_queues: config.rx_queues,
            tx_queues: config.tx_queues,
            // The AF_PACKET driver refuses more than 1500 and passes what fits its ring.
            mtu: if self.sockets.is_some() {
                0
            } else {
                config.mtu
            },
            rss: 1,
        };
        let mut rx_descriptors = config.rx_descriptors;
        let mut tx_descriptors = config.tx_descriptors;
        // SAFETY: the port is claimed, so nobody else configures it or has queues of it;
        // the pointers are to values of those types.
        unsafe {
            self.check(
                "be configured",
                dpdk_sys::shim_port_configure(id, &raw const raw),
            )?;
            self.check(
                "adjust the number of descriptors",
                dpdk_sys::shim_port_descriptors(
                    id,
                    &raw mut rx_descriptors,
                    &raw mut tx_descriptors,
                ),
            )?;
        }
        for (queue, pool) in (0..config.rx_queues).zip(pools.iter().cycle()) {
            // SAFETY: as above; the pool lives for ever.
            let result =
                unsafe { dpdk_sys::shim_rx_queue_setup(id, queue, rx_descriptors, pool.as_ptr()) };
            self.check("set up a receive queue", result)?;
        }
        for queue in 0..config.tx_queues {
            // SAFETY: as above.
            let result = unsafe { dpdk_sys::shim_tx_queue_setup(id, queue, tx_descriptors) };
            self.check("set up a transmit queue", result)?;
        }
        // SAFETY: as above.
        self.check("start", unsafe { dpdk_sys::rte_eth_dev_start(id) })?;
        if config.promiscuous {
            self.set_promiscuous(true)?;
        }
        Ok(())
    }

    /// Puts an AF_PACKET port's sockets in order and empties them.
    fn settle(&mut self, config: &PortConfig) -> Result<()> {
        let Some(sockets) = &self.sockets else {
            return Ok(());
        };
        if config.ignore_outgoing {
            sockets
                .ignore_outgoing()
                .map_err(|source| self.af_packet_error("leave out what the host sends", source))?;
        }
        let mut stale = Stale::default();
        for queue in 0..config.rx_queues {
            drain(self.id(), queue, &mut stale);
        }
        stale.missed = sockets
            .drops()
            .map_err(|source| self.af_packet_error("read the drops", source))?;
        self.stale = stale;
        Ok(())
    }

    fn set_promiscuous(&self, on: bool) -> Result<()> {
        let _control = self.control();
        // SAFETY: the port is ours.
        let result = unsafe {
            if on {
                dpdk_sys::rte_eth_promiscuous_enable(self.id())
            } else {
                dpdk_sys::rte_eth_promiscuous_disable(self.id())
            }
        };
        self.check("set its promiscuous mode", result)
    }
}

/// Drops what waits in a receive queue, at most as much as a large ring holds.
fn drain(port: u16, queue: u16, stale: &mut Stale) {
    const MOST: u64 = 1 << 16;
    let mut burst: Burst = Burst::new();
    let end = stale.packets + MOST;
    while stale.packets < end {
        let room = u16::try_from(burst.room()).unwrap_or(u16::MAX);
        // SAFETY: the port is started, its queues were not given out yet, and the burst
        // has room.
        unsafe {
            let count = dpdk_sys::shim_rx_burst(port, queue, burst.spare_ptr(), room);
            burst.assume_added(usize::from(count));
        }
        if burst.is_empty() {
            break;
        }
        stale.packets += burst.len() as u64;
        stale.bytes += burst
            .iter()
            .map(|mbuf| u64::from(mbuf.packet_len()))
            .sum::<u64>();
        burst.clear();
    }
}

impl Drop for PortInner {
    fn drop(&mut self) {
        // Copies of the driver's sockets would keep them open.
        self.sockets = None;
        let id = self.id();
        // SAFETY: no queue is left (each holds this value alive), so nobody receives or
        // sends. Stopping a port that did not start does nothing.
        let (stopped, closed) = unsafe {
            (
                dpdk_sys::rte_eth_dev_stop(id),
                dpdk_sys::rte_eth_dev_close(id),
            )
        };
        if stopped != 0 || closed != 0 {
            tracing::warn!(
                port = self.name(),
                stopped,
                closed,
                "port did not close cleanly"
            );
        }
    }
}
