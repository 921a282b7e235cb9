//! What a port is, how it is to be run, and whether the two fit.

use crate::{
    Mempool,
    af_packet::{self, Sockets},
    error::{Errno, Error, Result},
    mbuf::HEADROOM,
    port::af_packet_error,
    stats::fixed_string,
};

/// Ethernet header and two VLAN tags, in bytes; the FCS is not counted.
const FRAME_OVERHEAD: u32 = 14 + 2 * 4;

/// How a port is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues, one for each worker.
    pub rx_queues: u16,
    /// Transmit queues, one for each worker.
    pub tx_queues: u16,
    /// Descriptors of each receive queue; the driver may round. Without effect
    /// on `net_af_packet`, whose ring is set by its device argument `framecnt`.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue; as above.
    pub tx_descriptors: u16,
    /// Largest IP packet to be received and sent, in bytes. Checked against the
    /// port, the buffers and, for an AF_PACKET port, the interface.
    pub mtu: u16,
    /// Receive frames for any MAC address.
    pub promiscuous: bool,
    /// For an AF_PACKET port: do not receive copies of what this host's kernel
    /// sends out of the interface (its ARP answers, for instance).
    pub ignore_outgoing: bool,
}

impl Default for PortConfig {
    /// One queue each way of 1024 descriptors, MTU 1500.
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: 1500,
            promiscuous: false,
            ignore_outgoing: true,
        }
    }
}

/// What a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The EAL's name, such as `net_af_packet0` or a PCI address.
    pub name: String,
    /// The driver's name, such as `net_af_packet`.
    pub driver: String,
    /// Index of the kernel interface behind the port, if there is one.
    pub interface_index: Option<u32>,
    /// Receive queues the port can have.
    pub max_rx_queues: u16,
    /// Transmit queues the port can have.
    pub max_tx_queues: u16,
    /// Largest MTU the port can pass, in bytes of IP packet with two VLAN tags.
    pub max_mtu: u16,
    /// Largest frame the port can pass, in bytes without FCS.
    pub max_frame: u32,
    /// Whether the port can spread packets over queues by a hash it is told.
    pub rss: bool,
    /// The device arguments it was made with.
    pub device_arguments: String,
    /// NUMA node, if known.
    pub numa_node: Option<u32>,
}

pub(crate) fn port_name(id: u16) -> Option<String> {
    // RTE_ETH_NAME_MAX_LEN is 64; the rest is margin.
    let mut name = [0; 256];
    // SAFETY: the buffer is larger than any port name.
    let result = unsafe { dpdk_sys::rte_eth_dev_get_name_by_port(id, name.as_mut_ptr()) };
    (result == 0).then(|| fixed_string(&name))
}

pub(crate) fn read_info(id: u16, name: String) -> Result<PortInfo> {
    let mut raw = dpdk_sys::shim_port_info {
        driver: [0; 32],
        if_index: 0,
        max_rx_pktlen: 0,
        min_mtu: 0,
        max_mtu: 0,
        max_rx_queues: 0,
        max_tx_queues: 0,
        rss_types: 0,
        socket: 0,
    };
    // SAFETY: `raw` is a structure of that type.
    let result = unsafe { dpdk_sys::shim_port_info(id, &raw mut raw) };
    if result != 0 {
        return Err(Error::Port {
            port: name,
            operation: "read what it is",
            errno: Errno::new(result),
        });
    }
    // SAFETY: null, or a NUL-terminated string that lives as long as the device.
    let device_arguments = unsafe {
        let text = dpdk_sys::shim_port_devargs(id);
        if text.is_null() {
            String::new()
        } else {
            std::ffi::CStr::from_ptr(text)
                .to_string_lossy()
                .into_owned()
        }
    };
    let driver = fixed_string(&raw.driver);
    // The AF_PACKET driver states a frame limit of 1518 bytes whatever its ring was
    // made for; the ring is what counts.
    let max_frame = if driver == af_packet::DRIVER {
        af_packet::receive_limit(&device_arguments)
    } else {
        raw.max_rx_pktlen
    };
    let by_frame = u16::try_from(max_frame.saturating_sub(FRAME_OVERHEAD)).unwrap_or(u16::MAX);
    Ok(PortInfo {
        name,
        driver,
        interface_index: (raw.if_index != 0).then_some(raw.if_index),
        max_rx_queues: raw.max_rx_queues,
        max_tx_queues: raw.max_tx_queues,
        max_mtu: by_frame.min(raw.max_mtu),
        max_frame,
        rss: raw.rss_types != 0,
        device_arguments,
        numa_node: u32::try_from(raw.socket).ok(),
    })
}

pub(crate) fn check_queues(info: &PortInfo, config: &PortConfig) -> Result<()> {
    for (direction, wanted, available) in [
        ("receive", config.rx_queues, info.max_rx_queues),
        ("transmit", config.tx_queues, info.max_tx_queues),
    ] {
        if wanted > available {
            return Err(Error::TooManyQueues {
                port: info.name.clone(),
                direction,
                wanted,
                available,
            });
        }
    }
    Ok(())
}

pub(crate) fn check_frame(info: &PortInfo, config: &PortConfig) -> Result<()> {
    let needed = u32::from(config.mtu) + FRAME_OVERHEAD;
    // Network cards' limits leave out VLAN tags, or allow for them silently.
    let fits = if info.driver == af_packet::DRIVER {
        needed <= info.max_frame
    } else {
        u32::from(config.mtu) + 14 <= info.max_frame
    };
    if fits {
        return Ok(());
    }
    let remedy = if info.driver == af_packet::DRIVER {
        af_packet::frame_remedy(config.mtu)
    } else {
        "configure a smaller MTU or use another port".to_owned()
    };
    Err(Error::FrameTooLarge {
        port: info.name.clone(),
        mtu: config.mtu,
        needed,
        limit: info.max_frame,
        remedy,
    })
}

pub(crate) fn check_pools(info: &PortInfo, config: &PortConfig, pools: &[Mempool]) -> Result<()> {
    let frame = if info.driver == af_packet::DRIVER {
        af_packet::receive_buffer(&info.device_arguments)
    } else {
        u32::from(config.mtu) + FRAME_OVERHEAD
    };
    let needed = frame + u32::from(HEADROOM);
    let smallest = pools.iter().map(Mempool::data_room).min().unwrap_or(0);
    if config.rx_queues > 0 && u32::from(smallest) < needed {
        return Err(Error::BufferTooSmall {
            port: info.name.clone(),
            needed,
            available: smallest,
        });
    }
    Ok(())
}

pub(crate) fn check_interface(
    info: &PortInfo,
    config: &PortConfig,
    sockets: &Sockets,
) -> Result<()> {
    let (interface, actual) = sockets
        .interface()
        .map_err(|source| af_packet_error(&info.name, "read the interface's MTU", source))?;
    if actual < u32::from(config.mtu) {
        return Err(Error::InterfaceMtu {
            port: info.name.clone(),
            interface,
            actual,
            wanted: config.mtu,
        });
    }
    Ok(())
}
