//! Entries of each kind of table against messages written out by hand, and
//! round trips of random entries.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use p4_contract::tables::{
    self, AnyEntry, egress_port, flow_fwd_v4, flow_rev_v4, ingress_port, nexthop, route_v4, vip_v4,
};
use p4_contract::{
    ContractError, DropReason, Lpm, P4INFO_TEXT, PacketIn, PacketOut, Path, PortRole, PuntReason,
    Range, Row, counters,
};
use p4runtime_proto::p4::v1::field_match::{
    Exact, FieldMatchType, Lpm as ProtoLpm, Range as ProtoRange,
};
use p4runtime_proto::p4::v1::{
    Action, FieldMatch, PacketMetadata, TableAction, TableEntry, action, table_action,
};
use proptest::prelude::*;

/// The id of an object, found in P4Info by nothing but its text: the line
/// before its name, which is the line before its short name.
fn id(alias: &str) -> u32 {
    let lines: Vec<&str> = P4INFO_TEXT.lines().map(str::trim).collect();
    let wanted = format!("alias: \"{alias}\"");
    let at = lines.iter().position(|line| *line == wanted).unwrap();
    lines[at - 2].strip_prefix("id: ").unwrap().parse().unwrap()
}

fn exact(field_id: u32, value: &[u8]) -> FieldMatch {
    let value = value.to_vec();
    FieldMatch {
        field_id,
        field_match_type: Some(FieldMatchType::Exact(Exact { value })),
    }
}

fn action(alias: &str, params: &[&[u8]]) -> Option<TableAction> {
    let params = (1..)
        .zip(params)
        .map(|(param_id, value)| action::Param {
            param_id,
            value: value.to_vec(),
        })
        .collect();
    let action_id = id(alias);
    Some(TableAction {
        r#type: Some(table_action::Type::Action(Action { action_id, params })),
    })
}

#[test]
fn a_service_on_a_range_of_ports() {
    let entry = vip_v4::Entry {
        key: vip_v4::Key {
            vni: 0,
            protocol: 6,
            dst: 0x0a64_000a,
            port: Range { low: 80, high: 443 },
        },
        action: vip_v4::Action::SetVip {
            vip_id: 0x0102,
            group: 1,
        },
        priority: 10,
    };
    let expected = TableEntry {
        table_id: id("vip_v4"),
        r#match: vec![
            exact(1, &[0]),
            exact(2, &[6]),
            exact(3, &[10, 100, 0, 10]),
            FieldMatch {
                field_id: 4,
                field_match_type: Some(FieldMatchType::Range(ProtoRange {
                    low: vec![80],
                    high: vec![1, 187],
                })),
            },
        ],
        action: action("set_vip", &[&[1, 2], &[1]]),
        priority: 10,
        ..TableEntry::default()
    };
    assert_eq!(entry.to_proto(), expected);
    assert_eq!(vip_v4::Entry::from_proto(&expected), Ok(entry));
    let deletion = TableEntry {
        action: None,
        ..expected
    };
    assert_eq!(entry.key.to_proto(10), deletion);
}

#[test]
fn a_service_on_all_ports_leaves_the_range_out() {
    let key = vip_v4::Key {
        vni: 9,
        protocol: 17,
        dst: 1,
        port: Range {
            low: 0,
            high: 0xffff,
        },
    };
    let message = key.to_proto(1);
    assert_eq!(
        message.r#match,
        [exact(1, &[9]), exact(2, &[17]), exact(3, &[1])]
    );
    assert_eq!(vip_v4::Key::from_proto(&message), Ok(key));
}

#[test]
fn a_flow_has_an_idle_timeout_and_no_priority() {
    let entry = flow_fwd_v4::Entry {
        key: flow_fwd_v4::Key {
            vip_id: 1,
            vip_port: 443,
            client_addr: 0xc000_0201,
            client_port: 0xffff,
        },
        action: flow_fwd_v4::Action::Fwd {
            server_id: 256,
            local_id: 2,
            local_port: 1024,
        },
        idle_timeout_ns: 900_000_000_000,
    };
    let expected = TableEntry {
        table_id: id("flow_fwd_v4"),
        r#match: vec![
            exact(1, &[1]),
            exact(2, &[1, 187]),
            exact(3, &[192, 0, 2, 1]),
            exact(4, &[255, 255]),
        ],
        action: action("fwd", &[&[1, 0], &[2], &[4, 0]]),
        idle_timeout_ns: 900_000_000_000,
        ..TableEntry::default()
    };
    assert_eq!(entry.to_proto(), expected);
    assert_eq!(flow_fwd_v4::Entry::from_proto(&expected), Ok(entry));
}

#[test]
fn a_reply_flow() {
    let entry = flow_rev_v4::Entry {
        key: flow_rev_v4::Key {
            local_id: 3,
            local_port: 2000,
            protocol: 17,
        },
        action: flow_rev_v4::Action::Rev {
            client_addr: 0x0a01_0002,
            client_port: 40000,
            vip_id: 1,
            vip_port: 53,
            server_id: 0,
        },
        idle_timeout_ns: 0,
    };
    let expected = TableEntry {
        table_id: id("flow_rev_v4"),
        r#match: vec![exact(1, &[3]), exact(2, &[7, 208]), exact(3, &[17])],
        action: action("rev", &[&[10, 1, 0, 2], &[156, 64], &[1], &[53], &[0]]),
        ..TableEntry::default()
    };
    assert_eq!(entry.to_proto(), expected);
    assert_eq!(flow_rev_v4::Entry::from_proto(&expected), Ok(entry));
}

#[test]
fn a_route_and_a_default_route() {
    let entry = route_v4::Entry {
        key: route_v4::Key {
            vni: 0x01_0000,
            dst: Lpm {
                value: 0x0a02_0000,
                prefix_len: 15,
            },
        },
        action: route_v4::Action::SetNexthop { nexthop_id: 7 },
    };
    let expected = TableEntry {
        table_id: id("route_v4"),
        r#match: vec![
            exact(1, &[1, 0, 0]),
            FieldMatch {
                field_id: 2,
                field_match_type: Some(FieldMatchType::Lpm(ProtoLpm {
                    value: vec![10, 2, 0, 0],
                    prefix_len: 15,
                })),
            },
        ],
        action: action("set_nexthop", &[&[7]]),
        ..TableEntry::default()
    };
    assert_eq!(entry.to_proto(), expected);
    assert_eq!(route_v4::Entry::from_proto(&expected), Ok(entry));

    let default = route_v4::Entry {
        key: route_v4::Key {
            vni: 0,
            dst: Lpm {
                value: 0,
                prefix_len: 0,
            },
        },
        action: route_v4::Action::ToCpu,
    };
    let message = default.to_proto();
    assert_eq!(message.r#match, [exact(1, &[0])]);
    assert_eq!(message.action, action("to_cpu", &[]));
    assert_eq!(route_v4::Entry::from_proto(&message), Ok(default));
}

#[test]
fn a_port_has_a_role() {
    let entry = ingress_port::Entry {
        key: ingress_port::Key {
            port: 5,
            vid: 0x0fff,
        },
        action: ingress_port::Action::SetPort {
            role: PortRole::Ld,
            vni: 0,
            mac: 0x0200_0000_0a05,
        },
    };
    let expected = TableEntry {
        table_id: id("ingress_port"),
        r#match: vec![exact(1, &[5]), exact(2, &[0x0f, 0xff])],
        action: action("set_port", &[&[3], &[0], &[2, 0, 0, 0, 10, 5]]),
        ..TableEntry::default()
    };
    assert_eq!(entry.to_proto(), expected);
    assert_eq!(ingress_port::Entry::from_proto(&expected), Ok(entry));

    let foreign = TableEntry {
        action: action("set_port", &[&[9], &[0], &[2]]),
        ..expected
    };
    assert_eq!(
        ingress_port::Entry::from_proto(&foreign),
        Err(ContractError::UnknownMember {
            enumeration: "PortRole",
            value: 9
        })
    );
}

#[test]
fn what_does_not_fit_is_named() {
    let good = egress_port::Entry {
        key: egress_port::Key { port: 4 },
        action: egress_port::Action::Tag { vid: 100 },
    }
    .to_proto();
    let error = |entry: &TableEntry| {
        egress_port::Entry::from_proto(entry)
            .unwrap_err()
            .to_string()
    };

    let other = vip_v4::INFO.all_entries();
    assert_eq!(
        error(&other),
        format!(
            "this is an entry of table {:#010x}, not of egress_port",
            id("vip_v4")
        )
    );
    let keyless = TableEntry {
        r#match: Vec::new(),
        ..good.clone()
    };
    assert_eq!(
        error(&keyless),
        "table egress_port: match field 1 is missing"
    );
    let wide = TableEntry {
        r#match: vec![exact(1, &[2, 0])],
        ..good.clone()
    };
    assert_eq!(
        error(&wide),
        "table egress_port: match field 1: the value needs 10 bits and its type has 9"
    );
    let idle = TableEntry {
        action: None,
        ..good.clone()
    };
    assert_eq!(error(&idle), "table egress_port: the entry has no action");
    let foreign = TableEntry {
        action: action("to_ld", &[&[1]]),
        ..good.clone()
    };
    assert_eq!(
        error(&foreign),
        format!("table egress_port has no action {:#010x}", id("to_ld"))
    );
    let short = TableEntry {
        action: action("tag", &[]),
        ..good
    };
    assert_eq!(
        error(&short),
        "table egress_port: action parameter 1 is missing"
    );
    assert_eq!(
        AnyEntry::from_proto(&TableEntry {
            table_id: 7,
            ..TableEntry::default()
        }),
        Err(ContractError::UnknownTable { id: 7 })
    );
}

#[test]
fn prefixes_and_ranges_are_checked() {
    let route = |value: &[u8], prefix_len| {
        let value = value.to_vec();
        let prefix = FieldMatchType::Lpm(ProtoLpm { value, prefix_len });
        let prefix = FieldMatch {
            field_id: 2,
            field_match_type: Some(prefix),
        };
        let key = TableEntry {
            r#match: vec![exact(1, &[0]), prefix],
            ..route_v4::INFO.all_entries()
        };
        route_v4::Key::from_proto(&key)
            .map(|key| key.dst)
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        route(&[10, 0, 0, 0], 8),
        Ok(Lpm {
            value: 0x0a00_0000,
            prefix_len: 8
        })
    );
    assert_eq!(
        route(&[10, 0, 0, 1], 8).unwrap_err(),
        "table route_v4: 0xa000001/8 is no prefix for dst"
    );
    assert_eq!(
        route(&[1], 33).unwrap_err(),
        "table route_v4: 0x1/33 is no prefix for dst"
    );

    let mut service = vip_v4::Key {
        vni: 0,
        protocol: 6,
        dst: 1,
        port: Range::only(80),
    }
    .to_proto(1);
    let bounds = ProtoRange {
        low: vec![81],
        high: vec![80],
    };
    service.r#match[3].field_match_type = Some(FieldMatchType::Range(bounds));
    assert_eq!(
        vip_v4::Key::from_proto(&service).unwrap_err().to_string(),
        "table vip_v4: 81 to 80 is no range for port"
    );
}

#[test]
fn packet_headers() {
    let field = |metadata_id, value: &[u8]| PacketMetadata {
        metadata_id,
        value: value.to_vec(),
    };
    let packet_in = PacketIn {
        ingress_port: 258,
        reason: PuntReason::Local,
    };
    let metadata = [field(1, &[1, 2]), field(2, &[2])];
    assert_eq!(packet_in.to_metadata(), metadata);
    assert_eq!(PacketIn::from_metadata(&metadata), Ok(packet_in));
    assert_eq!(PacketOut { egress_port: 3 }.to_metadata(), [field(1, &[3])]);
    assert_eq!(
        PacketIn::from_metadata(&metadata[..1])
            .unwrap_err()
            .to_string(),
        "packet_in: packet metadata 2 is missing"
    );
}

/// The names and numbers that were agreed on; a change breaks whoever reads
/// counters by them.
#[test]
fn enums_keep_their_numbers() {
    assert_eq!(u8::from(DropReason::ParserError), 1);
    assert_eq!(u8::from(DropReason::EgressUnknown), 18);
    assert_eq!(DropReason::try_from(14), Ok(DropReason::NoRoute));
    assert!(DropReason::try_from(19).is_err());
    assert_eq!(DropReason::MtuExceeded.to_string(), "MTU_EXCEEDED");
    assert_eq!(u8::from(Path::FastIncomplete), 10);
    let roles: Vec<&str> = PortRole::names().collect();
    assert_eq!(roles, ["NONE", "UPLINK", "FABRIC", "LD"]);
    let punts = PuntReason::ALL.map(u8::from);
    assert_eq!(punts, [0, 1, 2]);
}

#[test]
fn counters_are_read_by_id() {
    let drop = counters::DROP.cell(14);
    assert_eq!(drop.counter_id, id("drop"));
    assert_eq!(drop.index.unwrap().index, 14);
    assert_eq!(counters::DROP.size, 64);
    assert_eq!(counters::PATH.all_cells().index, None);
    assert_eq!(
        counters::VIP_RX.size,
        u64::from(p4_contract::constants::MAX_VIPS)
    );
    assert_eq!(counters::FLOW_FWD_V4_COUNTER.table_id, flow_fwd_v4::INFO.id);
    assert_eq!(
        flow_fwd_v4::INFO.direct_counter,
        Some(counters::FLOW_FWD_V4_COUNTER.id)
    );
}

#[test]
fn tables_know_their_names() {
    assert_eq!(tables::ALL.len(), 16);
    for table in tables::ALL {
        assert_eq!(table.id, id(table.name), "{}", table.name);
        assert!(table.full_name.ends_with(table.name));
        assert_eq!(table.id >> 24, 2, "P4Info ids of tables begin with 2");
    }
    assert_eq!(<nexthop::Entry as Row>::TABLE.size, 4096);
}

proptest! {
    #[test]
    fn any_next_hop_survives(nexthop_id: u16, port in 0u16..512, smac in 0u64..1 << 48,
                             dmac in 0u64..1 << 48, src: u32, dst: u32, tunnel: bool) {
        let key = nexthop::Key { nexthop_id };
        let action = if tunnel {
            nexthop::Action::Vxlan { port, smac, dmac, src, dst }
        } else {
            nexthop::Action::Forward { port, smac, dmac }
        };
        let entry = AnyEntry::from(nexthop::Entry { key, action });
        prop_assert_eq!(AnyEntry::from_proto(&entry.to_proto()), Ok(entry));
        prop_assert_eq!(entry.table(), nexthop::INFO);
    }

    #[test]
    fn any_service_survives(vni in 0u32..1 << 24, protocol: u8, dst: u32, low: u16, span: u16,
                            vip_id: u16, group: u16, priority in 1..=i32::MAX) {
        let port = Range { low, high: low.saturating_add(span) };
        let entry = vip_v4::Entry {
            key: vip_v4::Key { vni, protocol, dst, port },
            action: vip_v4::Action::SetVip { vip_id, group },
            priority,
        };
        prop_assert_eq!(vip_v4::Entry::from_proto(&entry.to_proto()), Ok(entry));
    }

    #[test]
    fn any_route_survives(vni in 0u32..1 << 24, value: u32, prefix_len in 0u32..=32, nexthop_id: u16) {
        let mask = if prefix_len == 0 { 0 } else { u32::MAX << (32 - prefix_len) };
        let dst = Lpm { value: value & mask, prefix_len };
        let entry = route_v4::Entry {
            key: route_v4::Key { vni, dst },
            action: route_v4::Action::SetNexthop { nexthop_id },
        };
        prop_assert_eq!(route_v4::Entry::from_proto(&entry.to_proto()), Ok(entry));
        let unmasked = route_v4::Key { vni, dst: Lpm { value, prefix_len } };
        prop_assert_eq!(unmasked.to_proto(), entry.key.to_proto());
    }
}
