//! Counters of a port.

use std::ffi::CStr;

use crate::error::{Errno, Result};
use crate::port::PortInner;

/// The counters every driver has. Since the port started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets the port dropped because nobody took them in time: the queue was
    /// full. For an AF_PACKET port this is the kernel's count for its sockets
    /// (the driver itself reports none).
    pub rx_missed: u64,
    /// Packets of an AF_PACKET port from before its start, which were dropped;
    /// not among the others.
    pub rx_before_start: u64,
    /// Packets received with an error and dropped.
    pub rx_errors: u64,
    /// Times no buffer was free for a received packet. Whether the packet is
    /// lost depends on the driver: `net_af_packet` leaves it in its ring.
    pub rx_no_mbuf: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that the driver took and could not send.
    pub tx_errors: u64,
}

/// One driver-specific counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedStat {
    /// The driver's name for it.
    pub name: String,
    /// Its value.
    pub value: u64,
}

impl PortInner {
    pub(crate) fn read_stats(&self) -> Result<PortStats> {
        let mut raw = dpdk_sys::shim_port_stats {
            rx_packets: 0,
            rx_bytes: 0,
            rx_missed: 0,
            rx_errors: 0,
            rx_no_mbuf: 0,
            tx_packets: 0,
            tx_bytes: 0,
            tx_errors: 0,
        };
        // SAFETY: the port is ours and the pointer is to a structure of that type.
        let result = unsafe { dpdk_sys::shim_port_stats(self.id(), &raw mut raw) };
        self.check("read its counters", result)?;
        let kernel = match self.kernel_drops() {
            Some(drops) => {
                drops.map_err(|source| self.af_packet_error("read the drops", source))?
            }
            None => 0,
        };
        let stale = self.stale();
        Ok(PortStats {
            rx_packets: raw.rx_packets.saturating_sub(stale.packets),
            rx_bytes: raw.rx_bytes.saturating_sub(stale.bytes),
            rx_missed: raw.rx_missed + kernel.saturating_sub(stale.missed),
            rx_before_start: stale.packets + stale.missed,
            rx_errors: raw.rx_errors,
            rx_no_mbuf: raw.rx_no_mbuf,
            tx_packets: raw.tx_packets,
            tx_bytes: raw.tx_bytes,
            tx_errors: raw.tx_errors,
        })
    }

    pub(crate) fn read_extended_stats(&self) -> Result<Vec<ExtendedStat>> {
        const OPERATION: &str = "read its extended counters";
        // SAFETY: with no array the call only returns the number of counters.
        let count = unsafe { dpdk_sys::rte_eth_xstats_get(self.id(), std::ptr::null_mut(), 0) };
        let count =
            u32::try_from(count).map_err(|_| self.port_error(OPERATION, Errno::new(count)))?;
        let size = count as usize;
        let mut values = vec![dpdk_sys::rte_eth_xstat { id: 0, value: 0 }; size];
        let mut names = vec![dpdk_sys::rte_eth_xstat_name { name: [0; NAME] }; size];
        // SAFETY: both arrays have `count` elements.
        let (got_values, got_names) = unsafe {
            (
                dpdk_sys::rte_eth_xstats_get(self.id(), values.as_mut_ptr(), count),
                dpdk_sys::rte_eth_xstats_get_names(self.id(), names.as_mut_ptr(), count),
            )
        };
        for got in [got_values, got_names] {
            if usize::try_from(got) != Ok(size) {
                return Err(self.port_error(OPERATION, Errno::new(got.min(-libc::EAGAIN))));
            }
        }
        Ok(values
            .iter()
            .filter_map(|stat| {
                let name = names.get(usize::try_from(stat.id).ok()?)?;
                Some(ExtendedStat {
                    name: fixed_string(&name.name),
                    value: stat.value,
                })
            })
            .collect())
    }
}

/// RTE_ETH_XSTATS_NAME_SIZE, as the bindings have it.
const NAME: usize = size_of::<dpdk_sys::rte_eth_xstat_name>();

/// A C string in a fixed array; one that fills the array has no NUL.
pub(crate) fn fixed_string(array: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|&byte| byte as u8).collect();
    match CStr::from_bytes_until_nul(&bytes) {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    }
}
