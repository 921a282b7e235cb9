//! Where compatible mode differs from the specification: what is expected of it
//! was seen from bmv2 1.15.5.

use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::counter_spec::Unit;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::status::update_errors;
use softswitch::p4rt::Mode;
use tonic::Code;

use crate::support::*;

/// The program with counters of another unit.
fn with_unit(unit: Unit) -> p4::ForwardingPipelineConfig {
    let mut config = config(1);
    let info = config.p4info.as_mut().unwrap();
    for spec in info
        .counters
        .iter_mut()
        .map(|c| &mut c.spec)
        .chain(info.direct_counters.iter_mut().map(|c| &mut c.spec))
    {
        spec.as_mut().unwrap().unit = unit.into();
    }
    config
}

fn cell(index: i64, data: Option<(i64, i64)>) -> p4::CounterEntry {
    p4::CounterEntry {
        counter_id: info().counters[0].preamble.as_ref().unwrap().id,
        index: Some(p4::Index { index }),
        data: data.map(|(packets, bytes)| count(packets, bytes)),
    }
}

fn count(packet_count: i64, byte_count: i64) -> p4::CounterData {
    p4::CounterData {
        byte_count,
        packet_count,
    }
}

/// Mode, unit; what a cell reads after packets and bytes were written to it,
/// and after a packet of 64 bytes.
type Case = (Mode, Unit, (i64, i64), (i64, i64));

#[tokio::test(flavor = "multi_thread")]
async fn a_write_changes_what_the_counter_counts() {
    let cases: [Case; 4] = [
        (Mode::Strict, Unit::Bytes, (10, 1000), (11, 1064)),
        (Mode::Compat, Unit::Bytes, (0, 1000), (1, 1064)),
        (Mode::Compat, Unit::Packets, (10, 0), (11, 64)),
        (Mode::Compat, Unit::Both, (10, 1000), (11, 1064)),
    ];
    for (mode, unit, written, counted) in cases {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.primary(1).await;
        let action = Action::VerifyAndCommit;
        c.set_pipeline(action, Some(with_unit(unit))).await.unwrap();
        let host = l2(7, 2);
        let direct = |data| p4::DirectCounterEntry {
            table_entry: Some(p4::TableEntry {
                action: None,
                ..host.clone()
            }),
            data,
        };
        c.write(vec![
            entry::modify(cell(1, Some((10, 1000)))),
            entry::insert(p4::TableEntry {
                counter_data: Some(count(10, 1000)),
                ..host.clone()
            }),
        ])
        .await
        .unwrap();
        for (packets, bytes) in [written, counted] {
            let read = c.read(cell(1, None)).await.unwrap();
            let expected = cell(1, Some((packets, bytes)));
            assert_eq!(read, [Entity::CounterEntry(expected)], "{mode:?} {unit:?}");
            let read = c.read(direct(None)).await.unwrap();
            let expected = direct(Some(count(packets, bytes)));
            assert_eq!(
                read,
                [Entity::DirectCounterEntry(expected)],
                "{mode:?} {unit:?}"
            );
            bed.send(1, &frame(7, 1));
            assert!(bed.receive(2).await.is_some());
        }
        // What is not counted stays: bmv2 has counted two packets here.
        c.write(vec![
            entry::modify(cell(1, Some((0, 0)))),
            entry::modify(direct(Some(count(0, 0)))),
        ])
        .await
        .unwrap();
        let rest = match (mode, unit) {
            (Mode::Compat, Unit::Bytes) => (2, 0),
            (Mode::Compat, Unit::Packets) => (0, 128),
            _ => (0, 0),
        };
        let read = c.read(cell(1, None)).await.unwrap();
        assert_eq!(read, [Entity::CounterEntry(cell(1, Some(rest)))]);
        let read = c.read(direct(None)).await.unwrap();
        let expected = direct(Some(count(rest.0, rest.1)));
        assert_eq!(read, [Entity::DirectCounterEntry(expected)]);
        // All cells at once.
        let all = p4::CounterEntry {
            index: None,
            ..cell(0, Some((5, 500)))
        };
        c.write(vec![entry::modify(all)]).await.unwrap();
        let (packets, bytes) = match (mode, unit) {
            (Mode::Compat, Unit::Bytes) => (rest.0, 500),
            (Mode::Compat, Unit::Packets) => (5, rest.1),
            _ => (5, 500),
        };
        let read = c.read(cell(1, None)).await.unwrap();
        let expected = cell(1, Some((packets, bytes)));
        assert_eq!(read, [Entity::CounterEntry(expected)]);
    }
}

fn group(id: u32) -> p4::Entity {
    p4::PacketReplicationEngineEntry {
        r#type: Some(
            p4::packet_replication_engine_entry::Type::MulticastGroupEntry(
                p4::MulticastGroupEntry {
                    multicast_group_id: id,
                    replicas: vec![p4::Replica {
                        port_kind: Some(p4::replica::PortKind::Port(vec![1])),
                        ..Default::default()
                    }],
                    ..Default::default()
                },
            ),
        ),
    }
    .into()
}

/// An entry whose packets go to group 5.
fn flooded() -> p4::TableEntry {
    p4::TableEntry {
        action: Some(action("MyIngress.flood", &[5])),
        ..l2(7, 0)
    }
}

/// bmv2's server forgets them, its replication engine does not.
#[tokio::test(flavor = "multi_thread")]
async fn groups_outlive_a_pipeline_unknown() {
    for (mode, goes_on) in [(Mode::Strict, false), (Mode::Compat, true)] {
        for way in [
            &[Action::VerifyAndCommit][..],
            &[Action::VerifyAndSave, Action::Commit],
        ] {
            let bed = Bed::start_in(mode).await;
            let mut c = bed.ready().await;
            c.write(vec![entry::insert(group(5))]).await.unwrap();
            for &action in way {
                let config = (action != Action::Commit).then(|| config(2));
                c.set_pipeline(action, config).await.unwrap();
            }
            let case = format!("{mode:?}, {way:?}");
            assert!(c.read(group(5)).await.is_err(), "{case}");
            for gone in [entry::modify(group(5)), entry::delete(group(5))] {
                assert_eq!(c.write_one(gone).await, Code::NotFound, "{case}");
            }
            c.write(vec![entry::insert(flooded())]).await.unwrap();
            if goes_on {
                bed.send(2, &frame(7, 1));
                assert_eq!(bed.receive(1).await, Some(frame(7, 1)), "{case}");
            }
            // Again it has one copy.
            assert_eq!(
                c.write_one(entry::insert(group(5))).await,
                Code::Ok,
                "{case}"
            );
            for source in [2, 3] {
                bed.send(2, &frame(7, source));
                assert_eq!(bed.receive(1).await, Some(frame(7, source)), "{case}");
            }
        }
    }
}

/// A group that is written to a saved pipeline replicates once that runs.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_a_saved_pipeline_replicate() {
    for mode in [Mode::Strict, Mode::Compat] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        let action = Action::VerifyAndSave;
        c.set_pipeline(action, Some(config(2))).await.unwrap();
        let written = vec![entry::insert(group(5)), entry::insert(flooded())];
        c.write(written).await.unwrap();
        c.set_pipeline(Action::Commit, None).await.unwrap();
        assert_eq!(c.read(group(5)).await.unwrap().len(), 1, "{mode:?}");
        bed.send(2, &frame(7, 1));
        assert_eq!(bed.receive(1).await, Some(frame(7, 1)), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_read_has_no_details_for_each_query() {
    for mode in [Mode::Strict, Mode::Compat] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        c.write(vec![entry::insert(group(5))]).await.unwrap();
        let queries = vec![group(5), group(88), cell(1 << 20, None).into()];
        let status = c.read_chunks(queries).await.unwrap_err();
        let each = update_errors(&status).unwrap();
        let codes = each.map(|each| each.iter().map(p4::Error::grpc_code).collect::<Vec<_>>());
        match mode {
            Mode::Strict => {
                assert_eq!(status.code(), Code::Unknown);
                let expected = vec![Code::Ok, Code::NotFound, Code::OutOfRange];
                assert_eq!(codes, Some(expected));
            }
            // The first failure is that of the call, and the end of it.
            Mode::Compat => {
                assert_eq!((status.code(), codes), (Code::NotFound, None));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_groups_that_are_not_there() {
    let profile = info().action_profiles[0].preamble.as_ref().unwrap().id;
    let member = p4::ActionProfileMember {
        action_profile_id: profile,
        member_id: 9,
        action: None,
    };
    let group = p4::ActionProfileGroup {
        action_profile_id: profile,
        group_id: 9,
        ..Default::default()
    };
    let one_shot = p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        r#match: vec![entry::lpm(1, 0x0a01_0000, 16, 32).unwrap()],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::ActionProfileActionSet(
                p4::ActionProfileActionSet {
                    action_profile_actions: vec![p4::ActionProfileAction {
                        action: match action("MyIngress.set_nexthop", &[2, 9]).r#type {
                            Some(p4::table_action::Type::Action(action)) => Some(action),
                            _ => None,
                        },
                        weight: 1,
                        watch_kind: None,
                    }],
                    ..Default::default()
                },
            )),
        }),
        ..Default::default()
    };
    for (mode, absent, in_one_shot) in [
        (Mode::Strict, Code::NotFound, Code::Ok),
        (Mode::Compat, Code::Ok, Code::InvalidArgument),
    ] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        let mut code = async |query: p4::Entity| match c.read(query).await {
            Ok(found) => {
                assert_eq!(found, []);
                Code::Ok
            }
            Err(status) => match update_errors(&status).unwrap() {
                Some(each) => each[0].grpc_code(),
                None => status.code(),
            },
        };
        assert_eq!(code(member.clone().into()).await, absent, "{mode:?}");
        assert_eq!(code(group.clone().into()).await, absent, "{mode:?}");
        let mut writer = bed.primary(2).await;
        writer
            .write(vec![entry::insert(one_shot.clone())])
            .await
            .unwrap();
        let all = [
            p4::ActionProfileMember::default().into(),
            p4::ActionProfileGroup::default().into(),
        ];
        for query in all {
            assert_eq!(code(query).await, in_one_shot, "{mode:?}");
        }
        writer
            .write(vec![entry::delete(one_shot.clone())])
            .await
            .unwrap();
        assert_eq!(
            code(p4::ActionProfileMember::default().into()).await,
            Code::Ok
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_default_action_has_a_default_entry() {
    for (mode, count) in [(Mode::Strict, 0), (Mode::Compat, 1)] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        let default = p4::TableEntry {
            table_id: table_id("MyIngress.routes"),
            is_default_action: true,
            ..Default::default()
        };
        let read = c.read_entries(default.clone()).await;
        assert_eq!(read, vec![default; count], "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_not_there_reads_as_nothing() {
    for (mode, answer) in [(Mode::Strict, None), (Mode::Compat, Some(true))] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.primary(1).await;
        let action = Action::VerifyAndCommit;
        c.set_pipeline(action, Some(config(1))).await.unwrap();
        let read = c.read(l2(7, 0)).await;
        let nothing = read.map(|entities| entities.is_empty());
        assert_eq!(nothing.ok(), answer, "{mode:?}");
    }
}

/// An entry's meter stays as it is when the entry is modified without one; the
/// specification resets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_modified_entry_keeps_its_meter() {
    let config_of_meter = p4::MeterConfig {
        cir: 0,
        cburst: 3,
        pir: 0,
        pburst: 6,
        eburst: 0,
    };
    let with = |meter_config| p4::TableEntry {
        table_id: table_id("MyIngress.acl"),
        priority: 1,
        r#match: vec![entry::optional(3, 1)],
        action: Some(action("MyIngress.allow", &[])),
        meter_config,
        ..Default::default()
    };
    let kept = Some(config_of_meter);
    for (mode, expected) in [(Mode::Strict, None), (Mode::Compat, kept)] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.primary(1).await;
        let action = Action::VerifyAndCommit;
        c.set_pipeline(action, Some(config(1))).await.unwrap();
        c.write(vec![entry::insert(with(kept)), entry::modify(with(None))])
            .await
            .unwrap();
        let read = c.read_entries(with(kept)).await;
        assert_eq!(read[0].meter_config, expected, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_without_a_value_is_set_to_0() {
    for (mode, left) in [(Mode::Strict, 10), (Mode::Compat, 0)] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.primary(1).await;
        let action = Action::VerifyAndCommit;
        c.set_pipeline(action, Some(config(1))).await.unwrap();
        let counted = p4::TableEntry {
            counter_data: Some(count(10, 10)),
            ..l2(7, 2)
        };
        let direct = p4::DirectCounterEntry {
            table_entry: Some(l2(7, 2)),
            data: None,
        };
        let updates = vec![
            entry::insert(counted.clone()),
            entry::modify(direct),
            entry::modify(cell(1, Some((10, 10)))),
            entry::modify(cell(1, None)),
        ];
        c.write(updates).await.unwrap();
        let read = c.read_entries(counted).await;
        assert_eq!(read[0].counter_data, Some(count(left, left)), "{mode:?}");
        let read = c.read(cell(1, None)).await.unwrap();
        let expected = cell(1, Some((left, left)));
        assert_eq!(read, [Entity::CounterEntry(expected)], "{mode:?}");
    }
}

/// `max_size` and `max_group_size` of a group's profile, and what an INSERT and
/// then a MODIFY with 0 give.
#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_a_group_may_be_left_out_of_a_modify() {
    use crate::routes::{group, member};
    for (mode, code) in [
        (Mode::Strict, Code::InvalidArgument),
        (Mode::Compat, Code::Ok),
    ] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        let members = (1..=4).map(|id| entry::insert(member(id, 2, id.into())));
        c.write(members.collect()).await.unwrap();
        let sized = |max_size, members: &[u32]| p4::ActionProfileGroup {
            max_size,
            ..group(1, members)
        };
        c.write(vec![entry::insert(sized(3, &[1]))]).await.unwrap();
        let modified = entry::modify(sized(0, &[1, 2]));
        assert_eq!(c.write_one(modified).await, code, "{mode:?}");
        let expected = match mode {
            Mode::Strict => sized(3, &[1]),
            Mode::Compat => sized(3, &[1, 2]),
        };
        let read = c.read(group(1, &[])).await.unwrap();
        assert_eq!(read, [Entity::ActionProfileGroup(expected)], "{mode:?}");
        // Another size is refused by both, and the size that was holds.
        let other = entry::modify(sized(2, &[1]));
        assert_eq!(c.write_one(other).await, Code::InvalidArgument, "{mode:?}");
        let full = match mode {
            Mode::Strict => Code::InvalidArgument,
            Mode::Compat => Code::ResourceExhausted,
        };
        let all = entry::modify(sized(0, &[1, 2, 3, 4]));
        assert_eq!(c.write_one(all).await, full, "{mode:?}");
    }
}

/// bmv2's server takes -1 for "no limit", and -1 everywhere for "all green".
#[tokio::test(flavor = "multi_thread")]
async fn meters_without_limit() {
    let rates = |cburst, pir, pburst| p4::MeterConfig {
        cir: 0,
        cburst,
        pir,
        pburst,
        eburst: 0,
    };
    let nothing = p4::MeterConfig {
        cir: -1,
        ..rates(-1, -1, -1)
    };
    let meter = |config| p4::MeterEntry {
        meter_id: info().meters[0].preamble.as_ref().unwrap().id,
        index: Some(p4::Index { index: 1 }),
        config,
        counter_data: None,
    };
    let rule = |meter_config| p4::TableEntry {
        table_id: table_id("MyIngress.acl"),
        priority: 1,
        action: Some(action("MyIngress.allow", &[])),
        meter_config,
        ..Default::default()
    };
    for (mode, code) in [
        (Mode::Strict, Code::InvalidArgument),
        (Mode::Compat, Code::Ok),
    ] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        let limits = meter(Some(rates(64, 0, 128)));
        let rule_with = |config| rule(Some(config));
        c.write(vec![
            entry::modify(limits),
            entry::insert(rule_with(rates(1, 0, 2))),
        ])
        .await
        .unwrap();
        for wrong in [rates(-2, 0, 2), rates(1, -2, 2), rates(1, 0, -2)] {
            let update = entry::modify(meter(Some(wrong)));
            assert_eq!(c.write_one(update).await, Code::InvalidArgument, "{mode:?}");
        }
        for (config, expected) in [
            (rates(64, -1, -1), Some(rates(64, -1, -1))),
            (nothing, None),
        ] {
            let update = entry::modify(meter(Some(config)));
            assert_eq!(c.write_one(update).await, code, "{mode:?} {config:?}");
            let update = entry::modify(rule_with(config));
            assert_eq!(c.write_one(update).await, code, "{mode:?} {config:?}");
            if mode == Mode::Strict {
                continue;
            }
            let read = c.read(meter(None)).await.unwrap();
            assert_eq!(read, [Entity::MeterEntry(meter(expected))]);
            let read = c.read_entries(rule(Some(p4::MeterConfig::default()))).await;
            assert_eq!(read, [rule(expected)]);
        }
    }
}

/// bmv2's server looks for the entry before it looks whether it may go; in the
/// specification nothing may.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_in_a_constant_table_is_not_found() {
    let bed = Bed::start_in(Mode::Compat).await;
    let mut c = bed.ready().await;
    let entry = |class| p4::TableEntry {
        table_id: table_id("MyIngress.classes"),
        r#match: vec![entry::exact(1, class)],
        action: Some(action("MyIngress.set_class", &[5])),
        ..Default::default()
    };
    let absent = entry::delete(entry(6));
    assert_eq!(c.write_one(absent).await, Code::NotFound);
}
