//! Ranges over more than 64 bits, with the program `testdata/tables.p4`.

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use p4runtime_proto::{entry, p4info};
use tonic::Code;

use crate::support::*;

const JSON: &str = include_str!("../../testdata/tables.json");
const P4INFO: &str = include_str!("../../testdata/tables.p4info.txtpb");

/// An address in `2001:db8::/32` by its other 96 bits.
fn address(low: u128) -> u128 {
    (0x2001_0db8 << 96) | low
}

/// A number without leading zeros, as P4Runtime wants it.
fn canonical(n: u128) -> Vec<u8> {
    let bytes = n.to_be_bytes();
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    bytes[zeros.min(15)..].to_vec()
}

/// An entry of `range_wide` that answers `id`.
fn range(low: u128, high: u128, priority: i32, id: u8) -> p4::TableEntry {
    let info = p4info::from_text(P4INFO).unwrap();
    let mut tables = info.tables.iter().map(|t| t.preamble.as_ref().unwrap());
    let mut actions = info.actions.iter().map(|a| a.preamble.as_ref().unwrap());
    p4::TableEntry {
        table_id: tables.find(|t| t.alias == "range_wide").unwrap().id,
        r#match: vec![p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(FieldMatchType::Range(p4::field_match::Range {
                low: canonical(low),
                high: canonical(high),
            })),
        }],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::Action(p4::Action {
                action_id: actions.find(|a| a.alias == "found").unwrap().id,
                params: vec![p4::action::Param {
                    param_id: 1,
                    value: vec![id],
                }],
            })),
        }),
        priority,
        ..Default::default()
    }
}

/// The packet that asks `range_wide` for `c`, with an answer of zero.
fn ask(c: u128, answer: u8) -> Vec<u8> {
    let mut packet = vec![8, 0, 0, 0, 0, 0, 0];
    packet.extend_from_slice(&c.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, answer]);
    packet
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_ipv6_addresses_are_written_matched_and_read() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    c.push_program(JSON, P4INFO).await.unwrap();

    // The first one ends within a word, the second crosses the words.
    let near = range(address(0x10), address(0xfff), 20, 1);
    let across = range(address(u128::from(u64::MAX)), address(1 << 65), 10, 2);
    let high = range(1 << 127, u128::MAX - 1, 1, 3);
    for entry in [&near, &across, &high] {
        assert_eq!(c.write_one(entry::insert(entry.clone())).await, Code::Ok);
        assert_eq!(c.read_entries(entry.clone()).await, [entry.clone()]);
    }
    let again = entry::insert(across.clone());
    assert_eq!(c.write_one(again).await, Code::AlreadyExists);
    for (c, answer) in [
        (address(0xf), 0),
        (address(0x10), 1),
        (address(0xfff), 1),
        (address(0x1000), 0),
        (address(u128::from(u64::MAX) - 1), 0),
        (address(u128::from(u64::MAX)), 2),
        (address(1 << 64), 2),
        (address(1 << 65), 2),
        (address((1 << 65) + 1), 0),
        (u128::MAX, 0),
        (u128::MAX - 1, 3),
        ((1 << 127) - 1, 0),
    ] {
        bed.send(1, &ask(c, 0));
        assert_eq!(bed.receive(1).await, Some(ask(c, answer)), "{c:x}");
    }

    // An empty range, the whole range, and an end of 129 bits.
    let empty = range(address(1 << 64), address(1), 1, 9);
    let whole = range(0, u128::MAX, 1, 9);
    for (entry, code) in [
        (empty, Code::InvalidArgument),
        (whole, Code::InvalidArgument),
    ] {
        assert_eq!(c.write_one(entry::insert(entry)).await, code);
    }
    let mut long = range(0, 1, 1, 9);
    if let Some(FieldMatchType::Range(r)) = &mut long.r#match[0].field_match_type {
        r.high = [vec![1], vec![0; 16]].concat();
    }
    assert_eq!(c.write_one(entry::insert(long)).await, Code::OutOfRange);

    // Without it, what lay below it is found no more.
    assert_eq!(c.write_one(entry::delete(across)).await, Code::Ok);
    bed.send(1, &ask(address(1 << 64), 0));
    assert_eq!(bed.receive(1).await, Some(ask(address(1 << 64), 0)));
}
