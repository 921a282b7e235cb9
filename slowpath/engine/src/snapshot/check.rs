//! What a configuration must not hold.

use std::{collections::HashMap, net::Ipv4Addr};

use thiserror::Error;

use super::spec::{SnapshotSpec, Vip};

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// An identifier of zero.
    #[error("{what}[{at}]: the identifier is zero, which stands for none")]
    ZeroId {
        /// vip, server or local.
        what: &'static str,
        /// Index in its list (of the first such VIP for servers).
        at: usize,
    },
    /// Two objects with one identifier.
    #[error("two {what}s have the identifier {id}")]
    DuplicateId {
        /// vip, server or local.
        what: &'static str,
        /// The identifier.
        id: u16,
    },
    /// A VNI of more than 24 bits.
    #[error("{what} {id}: network {vni} does not fit 24 bits")]
    BadVni {
        /// vip or local.
        what: &'static str,
        /// Its identifier.
        id: u16,
        /// The network.
        vni: u32,
    },
    /// A port range that is empty or starts at zero.
    #[error("vip {vip_id}: the port range {low}-{high} is empty or starts at 0")]
    BadPortRange {
        /// The VIP.
        vip_id: u16,
        /// First port.
        low: u16,
        /// Last port.
        high: u16,
    },
    /// Two VIPs claim a port.
    #[error("vips {a} and {b} overlap on the same network, address, protocol and port")]
    Overlap {
        /// One VIP.
        a: u16,
        /// The other.
        b: u16,
    },
    /// A VIP with a port range and a server with a port of its own.
    #[error("vip {vip_id} has a port range: server {server_id} must keep the port (port 0)")]
    PortNotKept {
        /// The VIP.
        vip_id: u16,
        /// The server.
        server_id: u16,
    },
    /// A local address that is also a server's or a VIP's.
    #[error("local {local_id}: {address} is also the address of {other}")]
    LocalInUse {
        /// The local address's identifier.
        local_id: u16,
        /// The address.
        address: Ipv4Addr,
        /// What else has it.
        other: String,
    },
    /// Two local addresses with one network and address.
    #[error("locals {a} and {b} have the same network and address")]
    DuplicateLocal {
        /// One.
        a: u16,
        /// The other.
        b: u16,
    },
}

pub(super) fn check_vips(vips: &[Vip]) -> Result<(), SnapshotError> {
    let mut ids = HashMap::new();
    let mut server_ids = HashMap::new();
    for (i, vip) in vips.iter().enumerate() {
        if vip.vip_id == 0 {
            return Err(SnapshotError::ZeroId { what: "vip", at: i });
        }
        if ids.insert(vip.vip_id, i).is_some() {
            return Err(SnapshotError::DuplicateId {
                what: "vip",
                id: vip.vip_id,
            });
        }
        if vip.vni >= 1 << 24 {
            return Err(SnapshotError::BadVni {
                what: "vip",
                id: vip.vip_id,
                vni: vip.vni,
            });
        }
        if vip.port_low == 0 || vip.port_low > vip.port_high {
            return Err(SnapshotError::BadPortRange {
                vip_id: vip.vip_id,
                low: vip.port_low,
                high: vip.port_high,
            });
        }
        for s in &vip.servers {
            if s.server_id == 0 {
                return Err(SnapshotError::ZeroId {
                    what: "server",
                    at: i,
                });
            }
            if server_ids.insert(s.server_id, i).is_some() {
                return Err(SnapshotError::DuplicateId {
                    what: "server",
                    id: s.server_id,
                });
            }
            if vip.port_low != vip.port_high && s.port != 0 {
                return Err(SnapshotError::PortNotKept {
                    vip_id: vip.vip_id,
                    server_id: s.server_id,
                });
            }
        }
    }
    Ok(())
}

pub(super) fn check_locals(spec: &SnapshotSpec) -> Result<(), SnapshotError> {
    let mut ids = HashMap::new();
    let mut by_address = HashMap::new();
    let mut taken = HashMap::new();
    for vip in &spec.vips {
        taken.insert((vip.vni, vip.address), format!("vip {}", vip.vip_id));
        for s in &vip.servers {
            taken.insert((vip.vni, s.address), format!("server {}", s.server_id));
        }
    }
    for (i, l) in spec.locals.iter().enumerate() {
        if l.local_id == 0 {
            return Err(SnapshotError::ZeroId {
                what: "local",
                at: i,
            });
        }
        if ids.insert(l.local_id, i).is_some() {
            return Err(SnapshotError::DuplicateId {
                what: "local",
                id: l.local_id,
            });
        }
        if l.vni >= 1 << 24 {
            return Err(SnapshotError::BadVni {
                what: "local",
                id: l.local_id,
                vni: l.vni,
            });
        }
        if let Some(other) = taken.get(&(l.vni, l.address)) {
            return Err(SnapshotError::LocalInUse {
                local_id: l.local_id,
                address: l.address,
                other: other.clone(),
            });
        }
        if let Some(a) = by_address.insert((l.vni, l.address), l.local_id) {
            return Err(SnapshotError::DuplicateLocal { a, b: l.local_id });
        }
    }
    Ok(())
}
