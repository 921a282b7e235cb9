//! Table entries: what is written reads back; what is wrong is refused with
//! the right code.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use tonic::Code;

use crate::support::*;

fn with_match(mut entry: p4::TableEntry, kind: FieldMatchType) -> p4::TableEntry {
    entry.r#match[0].field_match_type = Some(kind);
    entry
}

fn all_of(table: &str) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id(table),
        ..Default::default()
    }
}

fn acl(priority: i32, fields: Vec<p4::FieldMatch>) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id("MyIngress.acl"),
        r#match: fields,
        priority,
        action: Some(action("MyIngress.drop", &[])),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_read_back_as_written() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut exact = l2(0x0000_0000_0102, 3);
    exact.controller_metadata = 42;
    exact.metadata = vec![0, 1, 2];
    exact.idle_timeout_ns = 3_000_000_001;
    let mixed = acl(
        7,
        vec![
            entry::ternary(1, 0x0a00_0000, 0xff00_0000).unwrap(),
            entry::range(2, 6, 17, 8).unwrap(),
            entry::optional(3, 1),
        ],
    );
    let anything = acl(3, vec![]);
    c.write(vec![
        entry::insert(exact.clone()),
        entry::insert(mixed.clone()),
        entry::insert(anything.clone()),
    ])
    .await
    .unwrap();
    assert_eq!(c.read_entries(exact.clone()).await, [exact.clone()]);
    let mut acls = c.read_entries(all_of("MyIngress.acl")).await;
    acls.sort_by_key(|entry| -entry.priority);
    assert_eq!(acls, [mixed.clone(), anything.clone()]);
    // The whole switch: constant entries too, default entries not.
    let all = c.read_entries(p4::TableEntry::default()).await;
    assert_eq!(all.len(), 3 + 2);
    let constant = all.iter().filter(|entry| entry.is_const).count();
    assert_eq!(constant, 2);

    // Filters.
    let mut query = all_of("MyIngress.acl");
    query.priority = 3;
    assert_eq!(c.read_entries(query).await, [anything]);
    let mut query = all_of("MyIngress.l2");
    query.controller_metadata = 42;
    assert_eq!(c.read_entries(query.clone()).await, [exact]);
    query.controller_metadata = 43;
    assert_eq!(c.read_entries(query).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn existence_is_checked() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    assert_eq!(c.write_one(entry::modify(l2(1, 2))).await, Code::NotFound);
    assert_eq!(c.write_one(entry::delete(l2(1, 2))).await, Code::NotFound);
    assert_eq!(c.write_one(entry::insert(l2(1, 2))).await, Code::Ok);
    assert_eq!(
        c.write_one(entry::insert(l2(1, 3))).await,
        Code::AlreadyExists
    );
    assert_eq!(c.read_entries(l2(1, 0)).await, [l2(1, 2)]);
    assert_eq!(c.write_one(entry::modify(l2(1, 3))).await, Code::Ok);
    assert_eq!(c.read_entries(l2(1, 0)).await, [l2(1, 3)]);
    // Only the key counts for a DELETE.
    let mut key = l2(1, 3);
    key.action = Some(p4::TableAction::default());
    assert_eq!(c.write_one(entry::delete(key)).await, Code::Ok);
    let error = c.read(l2(1, 0)).await.unwrap_err();
    let errors = p4runtime_proto::status::update_errors(&error)
        .unwrap()
        .unwrap();
    assert_eq!(errors[0].grpc_code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytestrings_are_judged_by_value() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let exact = |bytes: &[u8]| {
        with_match(
            l2(1, 1),
            FieldMatchType::Exact(p4::field_match::Exact {
                value: bytes.to_vec(),
            }),
        )
    };
    // Leading zeros are fine, also beyond the width; the answer is canonical.
    let long = exact(&[0, 0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(c.write_one(entry::insert(long.clone())).await, Code::Ok);
    assert_eq!(c.read_entries(long).await, [exact(&[9])]);
    assert_eq!(
        c.write_one(entry::insert(exact(&[]))).await,
        Code::OutOfRange
    );
    let wide = exact(&[1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(c.write_one(entry::insert(wide)).await, Code::OutOfRange);
    // 512 does not fit bit<9>.
    let mut port = l2(2, 1);
    port.action = Some(action("MyIngress.counted_forward", &[512]));
    assert_eq!(c.write_one(entry::insert(port)).await, Code::OutOfRange);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_entries_are_refused() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let lpm = |value: u32, prefix_len| p4::FieldMatch {
        field_id: 1,
        field_match_type: Some(FieldMatchType::Lpm(p4::field_match::Lpm {
            value: value.to_be_bytes().to_vec(),
            prefix_len,
        })),
    };
    let route = |field: p4::FieldMatch| p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        r#match: vec![field],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::ActionProfileMemberId(1)),
        }),
        ..Default::default()
    };
    let ternary = |value, mask: u32| p4::FieldMatch {
        field_id: 1,
        field_match_type: Some(FieldMatchType::Ternary(p4::field_match::Ternary {
            value: u32::to_be_bytes(value).to_vec(),
            mask: mask.to_be_bytes().to_vec(),
        })),
    };
    let range = |low: u8, high: u8| p4::FieldMatch {
        field_id: 2,
        field_match_type: Some(FieldMatchType::Range(p4::field_match::Range {
            low: vec![low],
            high: vec![high],
        })),
    };
    let edit = |change: fn(&mut p4::TableEntry)| {
        let mut entry = l2(1, 1);
        change(&mut entry);
        entry
    };
    let cases = [
        ("no such table", edit(|e| e.table_id = 0x0200_0001)),
        ("no table", edit(|e| e.table_id = 0)),
        ("exact field missing", edit(|e| e.r#match.clear())),
        (
            "field twice",
            edit(|e| e.r#match.push(e.r#match[0].clone())),
        ),
        ("unknown field", edit(|e| e.r#match[0].field_id = 2)),
        (
            "no match type",
            edit(|e| e.r#match[0].field_match_type = None),
        ),
        ("priority without need", edit(|e| e.priority = 1)),
        ("no action", edit(|e| e.action = None)),
        (
            "action of another table",
            edit(|e| e.action = Some(action("MyIngress.allow", &[]))),
        ),
        (
            "no parameter",
            edit(|e| e.action = Some(action("MyIngress.counted_forward", &[]))),
        ),
        (
            "too many parameters",
            edit(|e| e.action = Some(action("MyIngress.counted_forward", &[1, 2]))),
        ),
        (
            "member in a direct table",
            edit(|e| {
                e.action.as_mut().unwrap().r#type =
                    Some(p4::table_action::Type::ActionProfileMemberId(1));
            }),
        ),
        ("negative timeout", edit(|e| e.idle_timeout_ns = -1)),
        ("is_const", edit(|e| e.is_const = true)),
        (
            "time_since_last_hit",
            edit(|e| e.time_since_last_hit = Some(p4::table_entry::IdleTimeout::default())),
        ),
        (
            "meter without one",
            edit(|e| e.meter_config = Some(p4::MeterConfig::default())),
        ),
        ("timeout not supported", {
            let mut entry = acl(1, vec![]);
            entry.idle_timeout_ns = 1;
            entry
        }),
        ("priority missing", acl(0, vec![])),
        ("priority negative", acl(-1, vec![])),
        ("mask 0", acl(1, vec![ternary(0, 0)])),
        (
            "value outside the mask",
            acl(1, vec![ternary(0x0101, 0xff00)]),
        ),
        ("whole range", acl(1, vec![range(0, 255)])),
        ("range upside down", acl(1, vec![range(2, 1)])),
        ("action in an indirect table", {
            let mut entry = route(lpm(0x0a00_0000, 8));
            entry.action = Some(action("MyIngress.drop", &[]));
            entry
        }),
        ("prefix of length 0", route(lpm(0, 0))),
        ("prefix too long", route(lpm(0, 33))),
        ("prefix negative", route(lpm(0, -1))),
        ("bits behind the prefix", route(lpm(0x0a00_0001, 8))),
    ];
    for (what, entry) in cases {
        let code = c.write_one(entry::insert(entry)).await;
        // The member of a well-formed route would be missing.
        assert_eq!(code, Code::InvalidArgument, "{what}");
    }
    assert_eq!(
        c.write_one(p4::Update::default()).await,
        Code::InvalidArgument
    );
    let untyped = p4::Update {
        r#type: 0,
        ..entry::insert(l2(1, 1))
    };
    assert_eq!(c.write_one(untyped).await, Code::InvalidArgument);
    assert_eq!(c.read_entries(all_of("MyIngress.l2")).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_and_constants_are_kept() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut entry = l2(1, 1);
    entry.action = Some(action("MyIngress.drop", &[])); // @defaultonly
    assert_eq!(
        c.write_one(entry::insert(entry)).await,
        Code::PermissionDenied
    );

    let default = |action| p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action,
        ..Default::default()
    };
    let tableonly = default(Some(action("MyIngress.flood", &[1])));
    assert_eq!(
        c.write_one(entry::modify(tableonly)).await,
        Code::PermissionDenied
    );

    let constant = p4::TableEntry {
        table_id: table_id("MyIngress.classes"),
        r#match: vec![entry::exact(1, 5)],
        action: Some(action("MyIngress.set_class", &[5])),
        ..Default::default()
    };
    assert_eq!(
        c.write_one(entry::insert(constant.clone())).await,
        Code::PermissionDenied
    );
    let mut known = constant;
    known.r#match = vec![entry::exact(1, 0xb8)];
    assert_eq!(
        c.write_one(entry::modify(known.clone())).await,
        Code::PermissionDenied
    );
    assert_eq!(
        c.write_one(entry::delete(known.clone())).await,
        Code::PermissionDenied
    );
    // Anything but a MODIFY of direct resources, whatever else is wrong with it.
    let mut absent = known.clone();
    absent.r#match = vec![entry::exact(1, 6)];
    assert_eq!(
        c.write_one(entry::delete(absent.clone())).await,
        Code::PermissionDenied
    );
    absent.action = None;
    assert_eq!(
        c.write_one(entry::insert(absent)).await,
        Code::PermissionDenied
    );
    known.action = None;
    assert_eq!(c.write_one(entry::modify(known)).await, Code::Ok);
    let const_default = p4::TableEntry {
        table_id: table_id("MyIngress.classes"),
        is_default_action: true,
        action: Some(action("MyIngress.set_class", &[5])),
        ..Default::default()
    };
    assert_eq!(
        c.write_one(entry::modify(const_default)).await,
        Code::PermissionDenied
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn default_entries_can_be_changed_and_reset() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let default = |action| p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action,
        ..Default::default()
    };
    let original = default(Some(action("MyIngress.drop", &[])));
    assert_eq!(c.read_entries(default(None)).await, [original.clone()]);
    let punt = default(Some(action("MyIngress.punt", &[9])));
    assert_eq!(
        c.write_one(entry::insert(punt.clone())).await,
        Code::InvalidArgument
    );
    assert_eq!(
        c.write_one(entry::delete(punt.clone())).await,
        Code::InvalidArgument
    );
    assert_eq!(c.write_one(entry::modify(punt.clone())).await, Code::Ok);
    assert_eq!(c.read_entries(default(None)).await, [punt]);
    assert_eq!(c.write_one(entry::modify(default(None))).await, Code::Ok);
    assert_eq!(c.read_entries(default(None)).await, [original]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_table_says_so() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let rules = (1..=5).map(|priority| entry::insert(acl(priority, vec![])));
    let codes = c.codes(rules.collect(), Atomicity::ContinueOnError).await;
    assert_eq!(codes[..4], [Code::Ok; 4]);
    assert_eq!(codes[4], Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_update_stops_no_other() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let updates = vec![
        entry::insert(l2(1, 1)),
        entry::insert(l2(1, 2)),
        entry::delete(l2(9, 1)),
        entry::insert(l2(2, 2)),
    ];
    let codes = c.codes(updates, Atomicity::ContinueOnError).await;
    assert_eq!(
        codes,
        [Code::Ok, Code::AlreadyExists, Code::NotFound, Code::Ok]
    );
    assert_eq!(c.read_entries(all_of("MyIngress.l2")).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_leaves_no_trace() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut counted = l2(1, 1);
    counted.counter_data = Some(p4::CounterData {
        byte_count: 500,
        packet_count: 5,
    });
    counted.controller_metadata = 8;
    c.write(vec![
        entry::insert(counted.clone()),
        entry::insert(l2(2, 2)),
    ])
    .await
    .unwrap();
    let updates = vec![
        entry::modify(l2(2, 3)),
        entry::delete(l2(1, 1)),
        entry::insert(l2(3, 3)),
        entry::insert(l2(3, 1)), // fails
        entry::insert(l2(4, 1)),
    ];
    let codes = c.codes(updates.clone(), Atomicity::RollbackOnError).await;
    let expected = [
        Code::Aborted,
        Code::Aborted,
        Code::Aborted,
        Code::AlreadyExists,
        Code::Aborted,
    ];
    assert_eq!(codes, expected);
    let mut query = all_of("MyIngress.l2");
    query.counter_data = Some(p4::CounterData::default());
    let mut entries = c.read_entries(query).await;
    entries.sort_by_key(|entry| {
        entry.r#match[0]
            .field_match_type
            .clone()
            .map(|m| format!("{m:?}"))
    });
    let mut second = l2(2, 2);
    second.counter_data = Some(p4::CounterData::default());
    assert_eq!(entries, [counted, second]);

    let good = updates[..3].to_vec();
    let codes = c.codes(good, Atomicity::RollbackOnError).await;
    assert_eq!(codes, [Code::Ok; 3]);
    assert_eq!(c.read_entries(l2(2, 0)).await, [l2(2, 3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dataplane_atomic_batches_are_all_or_none() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let batch = vec![entry::insert(l2(1, 2)), entry::insert(l2(2, 2))];
    let codes = c.codes(batch, Atomicity::DataplaneAtomic).await;
    assert_eq!(codes, [Code::Ok; 2]);
    let codes = c
        .codes(
            vec![entry::modify(l2(1, 3)), entry::insert(l2(2, 3))],
            Atomicity::DataplaneAtomic,
        )
        .await;
    assert_eq!(codes, [Code::Aborted, Code::AlreadyExists]);
    assert_eq!(c.read_entries(l2(1, 0)).await, [l2(1, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_answers_come_in_chunks() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    const COUNT: u64 = 100_000;
    for start in (0..COUNT).step_by(5_000) {
        let batch = (start..start + 5_000).map(|mac| entry::insert(l2(mac, 1)));
        c.write(batch.collect()).await.unwrap();
    }
    let query = all_of("MyIngress.l2");
    let (entities, messages) = c.read_chunks(vec![query.into()]).await.unwrap();
    assert_eq!(entities.len() as u64, COUNT);
    assert!(messages > 10, "{messages}");
    let keys: std::collections::HashSet<_> = entities
        .iter()
        .map(|entity| match entity {
            p4::entity::Entity::TableEntry(entry) => entry::read_exact(entry, 1, 48).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(keys.len() as u64, COUNT);
}

/// Of a deletion only the key counts, and that the entry is not said to be
/// constant (specification, "TableEntry").
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_needs_the_key_alone() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let host = l2(1, 1);
    c.write(vec![entry::insert(host.clone())]).await.unwrap();
    let constant = p4::TableEntry {
        is_const: true,
        ..host.clone()
    };
    assert_eq!(
        c.write_one(entry::delete(constant)).await,
        Code::InvalidArgument
    );
    let nonsense = p4::TableEntry {
        action: Some(p4runtime_proto::entry::direct_action(99, Vec::new())),
        idle_timeout_ns: -5,
        time_since_last_hit: Some(p4::table_entry::IdleTimeout::default()),
        meter_config: Some(p4::MeterConfig::default()),
        counter_data: Some(p4::CounterData {
            byte_count: -1,
            packet_count: -1,
        }),
        ..host
    };
    assert_eq!(c.write_one(entry::delete(nonsense)).await, Code::Ok);
    assert_eq!(c.read_entries(all_of("MyIngress.l2")).await, []);
}

/// What the program fixes is marked: entries of tables with `const entries`, and
/// default entries that are `const` (`is_const` in `p4runtime.proto`).
#[tokio::test(flavor = "multi_thread")]
async fn what_is_constant_is_marked() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    for (table, is_const) in [("MyIngress.classes", true), ("MyIngress.l2", false)] {
        let default = p4::TableEntry {
            is_default_action: true,
            ..all_of(table)
        };
        let marks = |entries: Vec<p4::TableEntry>| -> Vec<bool> {
            entries.iter().map(|entry| entry.is_const).collect()
        };
        assert_eq!(marks(c.read_entries(default).await), [is_const], "{table}");
        let entries = marks(c.read_entries(all_of(table)).await);
        assert_eq!(
            entries.iter().all(|mark| *mark),
            is_const || entries.is_empty()
        );
    }
}

/// A default entry has no match, no priority and no idle time (specification,
/// "Default Entry" and "Idle-timeout").
#[tokio::test(flavor = "multi_thread")]
async fn a_query_for_a_default_entry_names_the_table_alone() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let default = p4::TableEntry {
        is_default_action: true,
        ..all_of("MyIngress.l2")
    };
    assert_eq!(c.read_entries(default.clone()).await.len(), 1);
    for wrong in [
        p4::TableEntry {
            priority: 1,
            ..default.clone()
        },
        p4::TableEntry {
            r#match: vec![entry::exact(1, 5)],
            ..default.clone()
        },
        p4::TableEntry {
            time_since_last_hit: Some(p4::table_entry::IdleTimeout::default()),
            ..default
        },
    ] {
        let status = c.read(wrong).await.unwrap_err();
        let errors = p4runtime_proto::status::update_errors(&status).unwrap();
        assert_eq!(errors.unwrap()[0].grpc_code(), Code::InvalidArgument);
    }
}
