//! Between the daemon's entries and the contract's.

use std::net::Ipv4Addr;

use p4_contract::tables::{self as t, AnyEntry};
use p4_contract::{ContractError, Lpm, PortRole, Range, TableInfo};
use p4runtime_proto::p4::v1::TableEntry;

use crate::entry::{Entry, FwdKey, Key, RevKey, Role, Table, Value};

/// No two VIPs match one packet, so that one priority will do.
const VIP_PRIORITY: i32 = 1;
const NS_PER_MS: i64 = 1_000_000;

/// The contract's description of a table.
pub fn info(table: Table) -> TableInfo {
    match table {
        Table::EgressPort => t::egress_port::INFO,
        Table::Nexthop => t::nexthop::INFO,
        Table::NexthopMtu => t::nexthop_mtu::INFO,
        Table::RouteV4 => t::route_v4::INFO,
        Table::Slot => t::slot::INFO,
        Table::Bucket => t::bucket::INFO,
        Table::Server => t::server::INFO,
        Table::Local => t::local::INFO,
        Table::VipOut => t::vip_out::INFO,
        Table::Vtep => t::vtep::INFO,
        Table::LipV4 => t::lip_v4::INFO,
        Table::VipAddrV4 => t::vip_addr_v4::INFO,
        Table::VipV4 => t::vip_v4::INFO,
        Table::IngressPort => t::ingress_port::INFO,
        Table::FlowFwdV4 => t::flow_fwd_v4::INFO,
        Table::FlowRevV4 => t::flow_rev_v4::INFO,
    }
}

/// A key as a deletion or a read has it.
pub(super) fn key_to_proto(key: &Key) -> TableEntry {
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
pub(super) fn entry_to_proto(entry: &Entry) -> Option<TableEntry> {
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

/// The key of an idle notice.
pub(super) fn flow_key(entry: &TableEntry) -> Result<Option<Key>, ContractError> {
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
pub(super) fn entry_from_proto(proto: &TableEntry) -> Result<Entry, ContractError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn every_entry() -> Vec<Entry> {
        let addr = Ipv4Addr::new(10, 1, 2, 3);
        let dst = Ipv4Addr::new(10, 3, 0, 2);
        let (smac, dmac) = (0x0200_0000_0101, 0x0200_0000_0199);
        let vip = |port_low, port_high| Key::VipV4 {
            vni: 0,
            protocol: 6,
            addr,
            port_low,
            port_high,
        };
        let role = |role| Value::Port {
            role,
            vni: 0xab_cdef,
            mac: smac,
        };
        let mut entries: Vec<Entry> = [
            (Key::EgressPort { port: 5 }, Value::Untagged),
            (Key::EgressPort { port: 509 }, Value::Tag { vid: 100 }),
            (
                Key::Nexthop { id: 1 },
                Value::Forward {
                    port: 2,
                    smac,
                    dmac,
                },
            ),
            (
                Key::Nexthop { id: 2 },
                Value::Vxlan {
                    port: 5,
                    smac,
                    dmac,
                    src: addr,
                    dst,
                },
            ),
            (Key::NexthopMtu { id: 1 }, Value::Mtu { mtu: 1500 }),
            (
                Key::RouteV4 {
                    vni: 0,
                    addr: Ipv4Addr::UNSPECIFIED,
                    len: 0,
                },
                Value::ToNexthop { nexthop_id: 1 },
            ),
            (
                Key::RouteV4 {
                    vni: 7,
                    addr,
                    len: 32,
                },
                Value::ToCpu,
            ),
            (Key::Slot { slot: 4 }, Value::ToLd { nexthop_id: 2 }),
            (
                Key::Bucket {
                    group: 1,
                    bucket: 255,
                },
                Value::ToSlot { slot: 4 },
            ),
            (Key::Server { id: 9 }, Value::Server { addr, port: 0 }),
            (Key::Local { id: 9 }, Value::Local { addr }),
            (Key::VipOut { id: 9 }, Value::VipOut { addr }),
            (Key::Vtep { addr }, Value::Decap),
            (
                Key::LipV4 { vni: 0, addr },
                Value::Lip {
                    local_id: 3,
                    slot: 4,
                },
            ),
            (Key::VipAddrV4 { vni: 0, addr }, Value::VipAddr { group: 1 }),
            (
                vip(80, 80),
                Value::Vip {
                    vip_id: 1,
                    group: 1,
                },
            ),
            (
                vip(1, 65_535),
                Value::Vip {
                    vip_id: 2,
                    group: 1,
                },
            ),
            (Key::IngressPort { port: 1, vid: 0 }, role(Role::Uplink)),
            (Key::IngressPort { port: 2, vid: 9 }, role(Role::Fabric)),
            (Key::IngressPort { port: 5, vid: 0 }, role(Role::Ld)),
        ]
        .into_iter()
        .map(|(key, value)| Entry::new(key, value))
        .collect();
        entries.push(Entry {
            key: Key::FlowFwd(FwdKey {
                vip_id: 1,
                vip_port: 80,
                client_addr: addr,
                client_port: 40_000,
            }),
            value: Value::Fwd {
                server_id: 9,
                local_id: 3,
                local_port: 2048,
            },
            idle_timeout_ms: 900_000,
        });
        entries.push(Entry {
            key: Key::FlowRev(RevKey {
                local_id: 3,
                local_port: 2048,
                protocol: 6,
            }),
            value: Value::Rev {
                client_addr: addr,
                client_port: 40_000,
                vip_id: 1,
                vip_port: 80,
                server_id: 9,
            },
            idle_timeout_ms: 900_000,
        });
        entries
    }

    #[test]
    fn every_entry_comes_back_as_it_went() {
        for entry in every_entry() {
            let proto = entry_to_proto(&entry).unwrap();
            assert_eq!(proto.table_id, info(entry.key.table()).id);
            assert_eq!(entry_from_proto(&proto).unwrap(), entry);
        }
    }

    #[test]
    fn a_key_alone_names_the_same_entry() {
        for entry in every_entry() {
            let (full, key) = (entry_to_proto(&entry).unwrap(), key_to_proto(&entry.key));
            assert_eq!(
                (key.table_id, key.r#match, key.priority),
                (full.table_id, full.r#match, full.priority)
            );
            assert!(key.action.is_none());
        }
    }

    #[test]
    fn a_value_of_another_table_is_no_entry() {
        let entry = Entry::new(Key::Slot { slot: 1 }, Value::Mtu { mtu: 1500 });
        assert_eq!(entry_to_proto(&entry), None);
    }
}
