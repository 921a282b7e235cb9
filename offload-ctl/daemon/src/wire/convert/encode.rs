//! From the daemon's entries to the contract's, and to P4Runtime.

use std::net::Ipv4Addr;

use p4_contract::tables::{self as t, AnyEntry};
use p4_contract::{Lpm, PortRole, Range};
use p4runtime_proto::p4::v1::TableEntry;

use super::NS_PER_MS;
use crate::entry::{Entry, FwdKey, Key, RevKey, Role, Value};

/// No two VIPs match one packet, so that one priority will do.
const VIP_PRIORITY: i32 = 1;

/// A key as a deletion or a read has it.
pub(in crate::wire) fn key_to_proto(key: &Key) -> TableEntry {
    match *key {
        Key::EgressPort { port } => t::egress_port::Key { port }.to_proto(),
        Key::Nexthop { id } => t::nexthop::Key { nexthop_id: id }.to_proto(),
        Key::NexthopMtu { id } => t::nexthop_mtu::Key { nexthop_id: id }.to_proto(),
        Key::RouteV4 { vni, addr, len } => route_key(vni, addr, len).to_proto(),
        Key::Slot { slot } => t::slot::Key { slot }.to_proto(),
        Key::Bucket { group, bucket } => t::bucket::Key { group, bucket }.to_proto(),
        Key::Server { id } => t::server::Key { server_id: id }.to_proto(),
        Key::Local { id } => t::local::Key { local_id: id }.to_proto(),
        Key::VipOut { id } => t::vip_out::Key { vip_id: id }.to_proto(),
        Key::Vtep { addr } => t::vtep::Key { dst: addr.into() }.to_proto(),
        Key::LipV4 { vni, addr } => t::lip_v4::Key {
            vni,
            dst: addr.into(),
        }
        .to_proto(),
        Key::VipAddrV4 { vni, addr } => t::vip_addr_v4::Key {
            vni,
            dst: addr.into(),
        }
        .to_proto(),
        Key::VipV4 {
            vni,
            protocol,
            addr,
            port_low,
            port_high,
        } => vip_key(vni, protocol, addr, port_low, port_high).to_proto(VIP_PRIORITY),
        Key::IngressPort { port, vid } => t::ingress_port::Key { port, vid }.to_proto(),
        Key::FlowFwd(key) => fwd_key(key).to_proto(),
        Key::FlowRev(key) => rev_key(key).to_proto(),
    }
}

fn route_key(vni: u32, addr: Ipv4Addr, len: u8) -> t::route_v4::Key {
    t::route_v4::Key {
        vni,
        dst: Lpm {
            value: addr.into(),
            prefix_len: len.into(),
        },
    }
}

fn vip_key(vni: u32, protocol: u8, addr: Ipv4Addr, low: u16, high: u16) -> t::vip_v4::Key {
    t::vip_v4::Key {
        vni,
        protocol,
        dst: addr.into(),
        port: Range { low, high },
    }
}

fn fwd_key(key: FwdKey) -> t::flow_fwd_v4::Key {
    t::flow_fwd_v4::Key {
        vip_id: key.vip_id,
        vip_port: key.vip_port,
        client_addr: key.client_addr.into(),
        client_port: key.client_port,
    }
}

fn rev_key(key: RevKey) -> t::flow_rev_v4::Key {
    t::flow_rev_v4::Key {
        local_id: key.local_id,
        local_port: key.local_port,
        protocol: key.protocol,
    }
}

/// The entry as P4Runtime has it; `None` if key and value are of two tables.
pub(in crate::wire) fn entry_to_proto(entry: &Entry) -> Option<TableEntry> {
    let idle_timeout_ns = i64::from(entry.idle_timeout_ms) * NS_PER_MS;
    let any: AnyEntry = match (entry.key, entry.value) {
        (Key::EgressPort { port }, value) => t::egress_port::Entry {
            key: t::egress_port::Key { port },
            action: match value {
                Value::Untagged => t::egress_port::Action::Untagged,
                Value::Tag { vid } => t::egress_port::Action::Tag { vid },
                _ => return None,
            },
        }
        .into(),
        (Key::Nexthop { id }, value) => t::nexthop::Entry {
            key: t::nexthop::Key { nexthop_id: id },
            action: match value {
                Value::Forward { port, smac, dmac } => {
                    t::nexthop::Action::Forward { port, smac, dmac }
                }
                Value::Vxlan {
                    port,
                    smac,
                    dmac,
                    src,
                    dst,
                } => t::nexthop::Action::Vxlan {
                    port,
                    smac,
                    dmac,
                    src: src.into(),
                    dst: dst.into(),
                },
                _ => return None,
            },
        }
        .into(),
        (Key::NexthopMtu { id }, Value::Mtu { mtu }) => t::nexthop_mtu::Entry {
            key: t::nexthop_mtu::Key { nexthop_id: id },
            action: t::nexthop_mtu::Action::SetMtu { mtu },
        }
        .into(),
        (Key::RouteV4 { vni, addr, len }, value) => t::route_v4::Entry {
            key: route_key(vni, addr, len),
            action: match value {
                Value::ToNexthop { nexthop_id } => t::route_v4::Action::SetNexthop { nexthop_id },
                Value::ToCpu => t::route_v4::Action::ToCpu,
                _ => return None,
            },
        }
        .into(),
        (Key::Slot { slot }, Value::ToLd { nexthop_id }) => t::slot::Entry {
            key: t::slot::Key { slot },
            action: t::slot::Action::ToLd { nexthop_id },
        }
        .into(),
        (Key::Bucket { group, bucket }, Value::ToSlot { slot }) => t::bucket::Entry {
            key: t::bucket::Key { group, bucket },
            action: t::bucket::Action::SetSlot { slot },
        }
        .into(),
        (Key::Server { id }, Value::Server { addr, port }) => t::server::Entry {
            key: t::server::Key { server_id: id },
            action: t::server::Action::SetServer {
                addr: addr.into(),
                port,
            },
        }
        .into(),
        (Key::Local { id }, Value::Local { addr }) => t::local::Entry {
            key: t::local::Key { local_id: id },
            action: t::local::Action::SetLocal { addr: addr.into() },
        }
        .into(),
        (Key::VipOut { id }, Value::VipOut { addr }) => t::vip_out::Entry {
            key: t::vip_out::Key { vip_id: id },
            action: t::vip_out::Action::SetVipOut { addr: addr.into() },
        }
        .into(),
        (Key::Vtep { addr }, Value::Decap) => t::vtep::Entry {
            key: t::vtep::Key { dst: addr.into() },
            action: t::vtep::Action::Decap,
        }
        .into(),
        (Key::LipV4 { vni, addr }, Value::Lip { local_id, slot }) => t::lip_v4::Entry {
            key: t::lip_v4::Key {
                vni,
                dst: addr.into(),
            },
            action: t::lip_v4::Action::SetLip { local_id, slot },
        }
        .into(),
        (Key::VipAddrV4 { vni, addr }, Value::VipAddr { group }) => t::vip_addr_v4::Entry {
            key: t::vip_addr_v4::Key {
                vni,
                dst: addr.into(),
            },
            action: t::vip_addr_v4::Action::SetVipAddr { group },
        }
        .into(),
        (
            Key::VipV4 {
                vni,
                protocol,
                addr,
                port_low,
                port_high,
            },
            Value::Vip { vip_id, group },
        ) => t::vip_v4::Entry {
            key: vip_key(vni, protocol, addr, port_low, port_high),
            action: t::vip_v4::Action::SetVip { vip_id, group },
            priority: VIP_PRIORITY,
        }
        .into(),
        (Key::IngressPort { port, vid }, Value::Port { role, vni, mac }) => {
            t::ingress_port::Entry {
                key: t::ingress_port::Key { port, vid },
                action: t::ingress_port::Action::SetPort {
                    role: role_to_p4(role),
                    vni,
                    mac,
                },
            }
            .into()
        }
        (
            Key::FlowFwd(key),
            Value::Fwd {
                server_id,
                local_id,
                local_port,
            },
        ) => t::flow_fwd_v4::Entry {
            key: fwd_key(key),
            action: t::flow_fwd_v4::Action::Fwd {
                server_id,
                local_id,
                local_port,
            },
            idle_timeout_ns,
        }
        .into(),
        (
            Key::FlowRev(key),
            Value::Rev {
                client_addr,
                client_port,
                vip_id,
                vip_port,
                server_id,
            },
        ) => t::flow_rev_v4::Entry {
            key: rev_key(key),
            action: t::flow_rev_v4::Action::Rev {
                client_addr: client_addr.into(),
                client_port,
                vip_id,
                vip_port,
                server_id,
            },
            idle_timeout_ns,
        }
        .into(),
        _ => return None,
    };
    Some(any.to_proto())
}

fn role_to_p4(role: Role) -> PortRole {
    match role {
        Role::Uplink => PortRole::Uplink,
        Role::Fabric => PortRole::Fabric,
        Role::Ld => PortRole::Ld,
    }
}
