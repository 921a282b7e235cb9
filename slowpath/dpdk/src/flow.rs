//! Steering by the network card: `rte_flow`, as much as Sluice needs.
//!
//! Packets for a load director arrive in VXLAN, and the outer UDP source port
//! carries the worker's number in some of its bits. One rule a worker brings
//! them to that worker's queue. Ports without such rules (`net_af_packet`,
//! `net_null`, `net_ring`) say [`Error::NotSupported`]; packets then cross
//! between workers through [`ring`](crate::ring)s.

use std::{ffi::c_void, ptr::NonNull, sync::Arc};

use crate::{
    error::{Errno, Error, Result},
    port::PortInner,
    stats::fixed_string,
};

/// Matches IPv4 UDP packets by some bits of the outer source port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSourceMatch {
    /// Value of the bits.
    pub port: u16,
    /// Which bits.
    pub mask: u16,
    /// The destination port (4789 for VXLAN); `None` is any.
    pub destination: Option<u16>,
}

/// A rule in a port; dropping it removes it.
#[derive(Debug)]
pub struct FlowRule {
    port: Arc<PortInner>,
    raw: NonNull<c_void>,
}

// SAFETY: the pointer is only given back to DPDK, under the port's lock.
unsafe impl Send for FlowRule {}

const OPERATION: &str = "steering by the outer UDP source port";

impl FlowRule {
    pub(crate) fn validate(port: &PortInner, matches: UdpSourceMatch, queue: u16) -> Result<()> {
        call(port, matches, queue, None)
    }

    pub(crate) fn create(
        port: Arc<PortInner>,
        matches: UdpSourceMatch,
        queue: u16,
    ) -> Result<Self> {
        let mut raw: *mut c_void = std::ptr::null_mut();
        call(&port, matches, queue, Some(&mut raw))?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { port, raw }),
            None => Err(port.port_error("create a flow rule", Errno::new(libc::EINVAL))),
        }
    }
}

/// Validates, and with a place for the rule also creates.
fn call(
    port: &PortInner,
    matches: UdpSourceMatch,
    queue: u16,
    rule: Option<&mut *mut c_void>,
) -> Result<()> {
    let _control = port.control();
    let mut error = no_error();
    let validate_only = i32::from(rule.is_none());
    let rule = rule.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the port is ours and started; `rule` is null or points to a pointer,
    // and `error` to a structure of that type.
    let result = unsafe {
        dpdk_sys::shim_flow_udp_source(
            port.id(),
            queue,
            matches.port,
            matches.mask,
            matches.destination.unwrap_or(0),
            validate_only,
            rule,
            &raw mut error,
        )
    };
    if result == 0 {
        return Ok(());
    }
    let errno = Errno::new(result);
    if errno.is_not_supported() {
        return Err(Error::NotSupported {
            port: port.name().to_owned(),
            driver: port.driver().to_owned(),
            operation: OPERATION,
        });
    }
    Err(Error::FlowRefused {
        port: port.name().to_owned(),
        message: fixed_string(&error.message),
        errno,
    })
}

fn no_error() -> dpdk_sys::shim_flow_error {
    dpdk_sys::shim_flow_error {
        kind: 0,
        message: [0; 128],
    }
}

impl Drop for FlowRule {
    fn drop(&mut self) {
        let _control = self.port.control();
        let mut error = no_error();
        // SAFETY: the rule was created on this port and is destroyed once.
        let result = unsafe {
            dpdk_sys::shim_flow_destroy(self.port.id(), self.raw.as_ptr(), &raw mut error)
        };
        if result != 0 {
            tracing::warn!(
                port = self.port.name(),
                errno = %Errno::new(result),
                message = fixed_string(&error.message),
                "a flow rule was not removed"
            );
        }
    }
}
