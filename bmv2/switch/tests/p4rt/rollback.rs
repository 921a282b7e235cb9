//! ROLLBACK_ON_ERROR (specification, "Batching and Ordering of Updates"):
//! whatever a batch changes, a failed one leaves everything as it was.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::table_action::Type;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use tonic::Code;

use crate::readable;
use crate::routes::{self, group, route};
use crate::support::*;

fn count(packet_count: i64, byte_count: i64) -> Option<p4::CounterData> {
    Some(p4::CounterData {
        byte_count,
        packet_count,
    })
}

fn member(id: u32, port: u128) -> p4::ActionProfileMember {
    routes::member(id, port, 9)
}

fn multicast(id: u32, port: u8) -> p4::Entity {
    p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
            multicast_group_id: id,
            replicas: vec![p4::Replica {
                instance: 1,
                port_kind: Some(p4::replica::PortKind::Port(vec![port])),
                ..Default::default()
            }],
            ..Default::default()
        })),
    }
    .into()
}

fn rule(priority: i32, meter: Option<p4::MeterConfig>) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id("MyIngress.acl"),
        priority,
        r#match: vec![entry::optional(3, 1)],
        action: Some(action("MyIngress.allow", &[])),
        meter_config: meter,
        ..Default::default()
    }
}

fn default_of(table: &str, action: Option<p4::TableAction>) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id(table),
        is_default_action: true,
        action,
        ..Default::default()
    }
}

const ONE: p4::MeterConfig = p4::MeterConfig {
    cir: 0,
    cburst: 1,
    pir: 0,
    pburst: 1,
    eburst: 0,
};

/// All that can be read.
async fn everything(c: &mut Controller) -> Vec<Entity> {
    c.read_chunks(readable::everything()).await.unwrap().0
}

fn port_meter(index: i64, config: Option<p4::MeterConfig>) -> p4::MeterEntry {
    p4::MeterEntry {
        meter_id: info().meters[0].preamble.as_ref().unwrap().id,
        index: Some(p4::Index { index }),
        config,
        counter_data: Some(p4::MeterCounterData::default()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_as_it_was() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut marked = l2(8, 3);
    marked.metadata = vec![1, 2, 3];
    let digest_id = info().digests[0].preamble.as_ref().unwrap().id;
    c.write(vec![
        entry::insert(l2(7, 2)),
        entry::insert(marked),
        entry::insert(rule(1, Some(ONE))),
        entry::insert(member(1, 2)),
        entry::insert(member(2, 3)),
        entry::insert(member(3, 3)),
        entry::insert(group(1, &[2, 3])),
        entry::insert(route(1, Type::ActionProfileMemberId(1))),
        entry::insert(route(2, Type::ActionProfileGroupId(1))),
        entry::insert(multicast(5, 2)),
        entry::modify(port_meter(1, Some(ONE))),
        entry::modify(default_of("MyIngress.l2", Some(action("NoAction", &[])))),
    ])
    .await
    .unwrap();
    // Packets leave their marks on counters, meters and registers.
    for id in 0..3 {
        bed.send(1, &ipv4(0x0a01_0001, 1, 17, id));
        assert!(bed.receive(2).await.is_some());
    }
    bed.send(1, &frame(7, 1));
    assert!(bed.receive(2).await.is_some());

    let before = everything(&mut c).await;
    let mut counted = l2(7, 3);
    counted.counter_data = count(100, 100);
    let updates = vec![
        entry::modify(counted),
        entry::delete(l2(8, 0)),
        entry::insert(l2(9, 3)),
        entry::delete(rule(1, None)),
        entry::insert(rule(1, None)),
        entry::modify(default_of(
            "MyIngress.l2",
            Some(action("MyIngress.punt", &[3])),
        )),
        entry::modify(default_of("MyIngress.l2", None)),
        // The entries' member and group go and come again, in other slots.
        entry::delete(route(1, Type::ActionProfileMemberId(0))),
        entry::delete(route(2, Type::ActionProfileMemberId(0))),
        entry::delete(group(1, &[])),
        entry::delete(member(1, 0)),
        entry::delete(member(2, 0)),
        entry::modify(member(3, 2)),
        entry::insert(member(9, 2)),
        entry::insert(group(9, &[9, 3])),
        entry::insert(route(9, Type::ActionProfileGroupId(9))),
        entry::modify(multicast(5, 3)),
        entry::insert(multicast(6, 3)),
        entry::modify(port_meter(1, None)),
        entry::modify(p4::CounterEntry {
            counter_id: info().counters[0].preamble.as_ref().unwrap().id,
            index: None,
            data: count(5, 5),
        }),
        entry::modify(p4::RegisterEntry {
            register_id: info().registers[0].preamble.as_ref().unwrap().id,
            index: None,
            data: Some(p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(vec![0x77])),
            }),
        }),
        entry::insert(p4::DigestEntry {
            digest_id,
            config: None,
        }),
    ];
    // Each of them would do something, and there is no route 77.
    let mut failing = updates.clone();
    failing.push(entry::delete(route(77, Type::ActionProfileMemberId(0))));
    failing.push(entry::insert(l2(10, 2)));
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let codes = c.codes(failing.clone(), atomicity).await;
        let mut expected = vec![Code::Aborted; failing.len()];
        expected[updates.len()] = Code::NotFound;
        assert_eq!(codes, expected, "{atomicity:?}");
        assert_eq!(everything(&mut c).await, before, "{atomicity:?}");
    }
    // Packets find what they found before: the route's member, and no token.
    bed.send(1, &ipv4(0x0a01_0001, 1, 17, 9));
    assert!(bed.receive(2).await.is_some());
    bed.send(1, &ipv4(0x0a02_0001, 1, 17, 9));
    assert!(bed.receive(3).await.is_some());
    let meter = p4::MeterEntry {
        config: None,
        ..port_meter(1, None)
    };
    let reds = match c.read(meter).await.unwrap().as_slice() {
        [Entity::MeterEntry(meter)] => meter.counter_data.unwrap().red.unwrap().packet_count,
        other => panic!("{other:?}"),
    };
    assert_eq!(reds, 6, "bytes fit no packet, before or after");

    let codes = c.codes(updates, Atomicity::RollbackOnError).await;
    assert!(codes.iter().all(|code| *code == Code::Ok), "{codes:?}");
    assert_ne!(everything(&mut c).await, before);
}

/// An update is whole or not at all in any batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_insert_leaves_the_counter_of_the_entry_that_is_there() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let with = |packets| {
        let mut entry = l2(7, 2);
        entry.counter_data = count(packets, 64 * packets);
        entry
    };
    let mut metered = rule(1, Some(ONE));
    for atomicity in [
        Atomicity::ContinueOnError,
        Atomicity::RollbackOnError,
        Atomicity::DataplaneAtomic,
    ] {
        let _ = c.codes(vec![entry::delete(l2(7, 0))], atomicity).await;
        let codes = c.codes(vec![entry::insert(with(3))], atomicity).await;
        assert_eq!(codes, [Code::Ok]);
        let codes = c.codes(vec![entry::insert(with(9))], atomicity).await;
        assert_eq!(codes, [Code::AlreadyExists], "{atomicity:?}");
        assert_eq!(c.read_entries(with(0)).await, [with(3)], "{atomicity:?}");

        metered.meter_config = Some(ONE);
        let _ = c
            .codes(vec![entry::delete(metered.clone())], atomicity)
            .await;
        let codes = c
            .codes(vec![entry::insert(metered.clone())], atomicity)
            .await;
        assert_eq!(codes, [Code::Ok]);
        metered.meter_config = Some(p4::MeterConfig { pburst: 9, ..ONE });
        let codes = c
            .codes(vec![entry::insert(metered.clone())], atomicity)
            .await;
        assert_eq!(codes, [Code::AlreadyExists], "{atomicity:?}");
        let read = c.read_entries(metered.clone()).await;
        assert_eq!(read[0].meter_config, Some(ONE), "{atomicity:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_batch_is_taken_back_too() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(1000, 2))]).await.unwrap();
    let before = everything(&mut c).await;
    let many: Vec<_> = (1..=1000).map(|mac| entry::insert(l2(mac, 3))).collect();
    let mut request = c.request(many);
    request.atomicity = Atomicity::RollbackOnError.into();
    // The client does not take the details of so many failures.
    assert!(c.client.write(request).await.is_err());
    assert_eq!(everything(&mut c).await, before);
}

/// More updates than are carried out at once, and failures among the first and
/// among the last of them.
#[tokio::test(flavor = "multi_thread")]
async fn failures_of_a_long_batch_are_told_of_the_right_updates() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(10, 2)), entry::insert(l2(71, 2))])
        .await
        .unwrap();
    let before = everything(&mut c).await;
    let many: Vec<_> = (1..=80).map(|mac| entry::insert(l2(mac, 3))).collect();

    let mut expected = vec![Code::Aborted; 80];
    expected[9] = Code::AlreadyExists;
    let codes = c.codes(many.clone(), Atomicity::RollbackOnError).await;
    assert_eq!(codes, expected);
    assert_eq!(everything(&mut c).await, before);

    let mut expected = vec![Code::Ok; 80];
    expected[9] = Code::AlreadyExists;
    expected[70] = Code::AlreadyExists;
    let codes = c.codes(many, Atomicity::ContinueOnError).await;
    assert_eq!(codes, expected);
    for (mac, port) in [(9, 3), (10, 2), (11, 3), (71, 2), (80, 3)] {
        assert_eq!(c.read_entries(l2(mac, 0)).await, [l2(mac, port)]);
    }
}
