//! Between the daemon's entries and the contract's.

mod decode;
mod encode;

use p4_contract::TableInfo;
use p4_contract::tables as t;

use crate::entry::Table;

pub(super) use decode::{entry_from_proto, flow_key};
pub(super) use encode::{entry_to_proto, key_to_proto};

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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::entry::{Entry, FwdKey, Key, RevKey, Role, Value};

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
