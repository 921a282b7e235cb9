//! From P4Runtime, and the contract's entries, to the daemon's.

use p4_contract::tables::{self as t, AnyEntry};
use p4_contract::{ContractError, PortRole};
use p4runtime_proto::p4::v1::TableEntry;

use super::NS_PER_MS;
use crate::entry::{Entry, FwdKey, Key, RevKey, Role, Value};

/// The key of an idle notice.
pub(in crate::wire) fn flow_key(entry: &TableEntry) -> Result<Option<Key>, ContractError> {
    if entry.table_id == t::flow_fwd_v4::INFO.id {
        return t::flow_fwd_v4::Key::from_proto(entry).map(|key| Some(from_fwd(key)));
    }
    if entry.table_id == t::flow_rev_v4::INFO.id {
        return t::flow_rev_v4::Key::from_proto(entry).map(|key| Some(from_rev(key)));
    }
    Ok(None)
}

fn from_fwd(key: t::flow_fwd_v4::Key) -> Key {
    Key::FlowFwd(FwdKey {
        vip_id: key.vip_id,
        vip_port: key.vip_port,
        client_addr: key.client_addr.into(),
        client_port: key.client_port,
    })
}

fn from_rev(key: t::flow_rev_v4::Key) -> Key {
    Key::FlowRev(RevKey {
        local_id: key.local_id,
        local_port: key.local_port,
        protocol: key.protocol,
    })
}

/// Reads an entry from P4Runtime.
pub(in crate::wire) fn entry_from_proto(proto: &TableEntry) -> Result<Entry, ContractError> {
    let ms = |ns: i64| u32::try_from(ns / NS_PER_MS).unwrap_or(u32::MAX);
    Ok(match AnyEntry::from_proto(proto)? {
        AnyEntry::EgressPort(e) => Entry::new(
            Key::EgressPort { port: e.key.port },
            match e.action {
                t::egress_port::Action::Untagged => Value::Untagged,
                t::egress_port::Action::Tag { vid } => Value::Tag { vid },
            },
        ),
        AnyEntry::Nexthop(e) => Entry::new(
            Key::Nexthop {
                id: e.key.nexthop_id,
            },
            match e.action {
                t::nexthop::Action::Forward { port, smac, dmac } => {
                    Value::Forward { port, smac, dmac }
                }
                t::nexthop::Action::Vxlan {
                    port,
                    smac,
                    dmac,
                    src,
                    dst,
                } => Value::Vxlan {
                    port,
                    smac,
                    dmac,
                    src: src.into(),
                    dst: dst.into(),
                },
            },
        ),
        AnyEntry::NexthopMtu(e) => {
            let t::nexthop_mtu::Action::SetMtu { mtu } = e.action;
            let id = e.key.nexthop_id;
            Entry::new(Key::NexthopMtu { id }, Value::Mtu { mtu })
        }
        AnyEntry::RouteV4(e) => Entry::new(
            Key::RouteV4 {
                vni: e.key.vni,
                addr: e.key.dst.value.into(),
                // At most 32: the contract has checked it.
                len: e.key.dst.prefix_len as u8,
            },
            match e.action {
                t::route_v4::Action::SetNexthop { nexthop_id } => Value::ToNexthop { nexthop_id },
                t::route_v4::Action::ToCpu => Value::ToCpu,
            },
        ),
        AnyEntry::Slot(e) => {
            let t::slot::Action::ToLd { nexthop_id } = e.action;
            Entry::new(Key::Slot { slot: e.key.slot }, Value::ToLd { nexthop_id })
        }
        AnyEntry::Bucket(e) => {
            let t::bucket::Action::SetSlot { slot } = e.action;
            let (group, bucket) = (e.key.group, e.key.bucket);
            Entry::new(Key::Bucket { group, bucket }, Value::ToSlot { slot })
        }
        AnyEntry::Server(e) => {
            let t::server::Action::SetServer { addr, port } = e.action;
            let addr = addr.into();
            Entry::new(
                Key::Server {
                    id: e.key.server_id,
                },
                Value::Server { addr, port },
            )
        }
        AnyEntry::Local(e) => {
            let t::local::Action::SetLocal { addr } = e.action;
            let addr = addr.into();
            Entry::new(Key::Local { id: e.key.local_id }, Value::Local { addr })
        }
        AnyEntry::VipOut(e) => {
            let t::vip_out::Action::SetVipOut { addr } = e.action;
            let addr = addr.into();
            Entry::new(Key::VipOut { id: e.key.vip_id }, Value::VipOut { addr })
        }
        AnyEntry::Vtep(e) => Entry::new(
            Key::Vtep {
                addr: e.key.dst.into(),
            },
            Value::Decap,
        ),
        AnyEntry::LipV4(e) => {
            let t::lip_v4::Action::SetLip { local_id, slot } = e.action;
            let (vni, addr) = (e.key.vni, e.key.dst.into());
            Entry::new(Key::LipV4 { vni, addr }, Value::Lip { local_id, slot })
        }
        AnyEntry::VipAddrV4(e) => {
            let t::vip_addr_v4::Action::SetVipAddr { group } = e.action;
            let (vni, addr) = (e.key.vni, e.key.dst.into());
            Entry::new(Key::VipAddrV4 { vni, addr }, Value::VipAddr { group })
        }
        AnyEntry::VipV4(e) => {
            let t::vip_v4::Action::SetVip { vip_id, group } = e.action;
            Entry::new(
                Key::VipV4 {
                    vni: e.key.vni,
                    protocol: e.key.protocol,
                    addr: e.key.dst.into(),
                    port_low: e.key.port.low,
                    port_high: e.key.port.high,
                },
                Value::Vip { vip_id, group },
            )
        }
        AnyEntry::IngressPort(e) => {
            let t::ingress_port::Action::SetPort { role, vni, mac } = e.action;
            let role = match role {
                PortRole::Fabric => Role::Fabric,
                PortRole::Ld => Role::Ld,
                PortRole::Uplink | PortRole::None => Role::Uplink,
            };
            let (port, vid) = (e.key.port, e.key.vid);
            Entry::new(
                Key::IngressPort { port, vid },
                Value::Port { role, vni, mac },
            )
        }
        AnyEntry::FlowFwdV4(e) => {
            let t::flow_fwd_v4::Action::Fwd {
                server_id,
                local_id,
                local_port,
            } = e.action;
            Entry {
                key: from_fwd(e.key),
                value: Value::Fwd {
                    server_id,
                    local_id,
                    local_port,
                },
                idle_timeout_ms: ms(e.idle_timeout_ns),
            }
        }
        AnyEntry::FlowRevV4(e) => {
            let t::flow_rev_v4::Action::Rev {
                client_addr,
                client_port,
                vip_id,
                vip_port,
                server_id,
            } = e.action;
            Entry {
                key: from_rev(e.key),
                value: Value::Rev {
                    client_addr: client_addr.into(),
                    client_port,
                    vip_id,
                    vip_port,
                    server_id,
                },
                idle_timeout_ms: ms(e.idle_timeout_ns),
            }
        }
    })
}
