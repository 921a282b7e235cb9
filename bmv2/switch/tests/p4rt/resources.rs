//! Counters, meters, registers, replication and digests.

use std::time::Duration;

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use tonic::Code;

use crate::support::*;

fn counter(index: Option<i64>, data: Option<(i64, i64)>) -> p4::CounterEntry {
    let counter_id = info().counters[0].preamble.as_ref().unwrap().id;
    p4::CounterEntry {
        counter_id,
        index: index.map(|index| p4::Index { index }),
        data: data.map(|(packet_count, byte_count)| p4::CounterData {
            packet_count,
            byte_count,
        }),
    }
}

fn meter(index: Option<i64>, config: Option<p4::MeterConfig>) -> p4::MeterEntry {
    p4::MeterEntry {
        meter_id: info().meters[0].preamble.as_ref().unwrap().id,
        index: index.map(|index| p4::Index { index }),
        config,
        counter_data: None,
    }
}

fn register(index: Option<i64>, value: Option<u32>) -> p4::RegisterEntry {
    p4::RegisterEntry {
        register_id: info().registers[0].preamble.as_ref().unwrap().id,
        index: index.map(|index| p4::Index { index }),
        data: value.map(|value| p4::P4Data {
            data: Some(p4::p4_data::Data::Bitstring(
                p4runtime_proto::bytestring::encode(value.into()),
            )),
        }),
    }
}

const RATES: p4::MeterConfig = p4::MeterConfig {
    cir: 1000,
    cburst: 100,
    pir: 2000,
    pburst: 200,
    eburst: 0,
};

#[tokio::test(flavor = "multi_thread")]
async fn counters_count_and_can_be_written() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
    for _ in 0..3 {
        bed.send(1, &frame(7, 1));
        assert!(bed.receive(2).await.is_some());
    }
    let read = c.read(counter(Some(1), None)).await.unwrap();
    assert_eq!(
        read,
        [Entity::CounterEntry(counter(Some(1), Some((3, 192))))]
    );
    let mut query = l2(7, 0);
    query.counter_data = Some(p4::CounterData::default());
    let counted = c.read_entries(query).await;
    let data = p4::CounterData {
        packet_count: 3,
        byte_count: 192,
    };
    assert_eq!(counted[0].counter_data, Some(data));
    // Not asked for, not answered.
    assert_eq!(c.read_entries(l2(7, 0)).await[0].counter_data, None);

    // A wildcard reads all cells; index 0 is a cell.
    assert_eq!(c.read(counter(None, None)).await.unwrap().len(), 64);
    assert_eq!(c.read(counter(Some(0), None)).await.unwrap().len(), 1);
    let everything = p4::CounterEntry::default();
    assert_eq!(c.read(everything).await.unwrap().len(), 64);

    let written = counter(Some(1), Some((10, 20)));
    assert_eq!(c.write_one(entry::modify(written)).await, Code::Ok);
    let read = c.read(counter(Some(1), None)).await.unwrap();
    assert_eq!(read, [Entity::CounterEntry(written)]);
    assert_eq!(
        c.write_one(entry::insert(written)).await,
        Code::InvalidArgument
    );
    for (index, code) in [(64, Code::OutOfRange), (-1, Code::InvalidArgument)] {
        let bad = counter(Some(index), Some((1, 1)));
        assert_eq!(c.write_one(entry::modify(bad)).await, code);
    }

    // The direct counter by its own entity.
    let key = p4::TableEntry {
        action: None,
        ..l2(7, 0)
    };
    let direct = |data| p4::DirectCounterEntry {
        table_entry: Some(key.clone()),
        data,
    };
    let read = c.read(direct(None)).await.unwrap();
    assert_eq!(read, [Entity::DirectCounterEntry(direct(Some(data)))]);
    let reset = direct(Some(p4::CounterData::default()));
    assert_eq!(c.write_one(entry::modify(reset.clone())).await, Code::Ok);
    let read = c.read(p4::DirectCounterEntry::default()).await.unwrap();
    assert_eq!(read, [Entity::DirectCounterEntry(reset)]);
    let absent = p4::DirectCounterEntry {
        table_entry: Some(l2(8, 0)),
        data: Some(data),
    };
    assert_eq!(c.write_one(entry::modify(absent)).await, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn meters_are_configured_and_read() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let configured = meter(Some(3), Some(RATES));
    assert_eq!(c.write_one(entry::modify(configured)).await, Code::Ok);
    let read = c.read(meter(Some(3), None)).await.unwrap();
    assert_eq!(read, [Entity::MeterEntry(configured)]);
    let read = c.read(meter(Some(4), None)).await.unwrap();
    assert_eq!(read, [Entity::MeterEntry(meter(Some(4), None))]);
    assert_eq!(c.read(meter(None, None)).await.unwrap().len(), 16);
    // Unset: green again.
    assert_eq!(
        c.write_one(entry::modify(meter(Some(3), None))).await,
        Code::Ok
    );
    let read = c.read(meter(Some(3), None)).await.unwrap();
    assert_eq!(read, [Entity::MeterEntry(meter(Some(3), None))]);
    let bad = [
        p4::MeterConfig { pir: 999, ..RATES },
        p4::MeterConfig { cir: -1, ..RATES },
        p4::MeterConfig { eburst: 1, ..RATES },
    ];
    for config in bad {
        let update = entry::modify(meter(Some(3), Some(config)));
        assert_eq!(c.write_one(update).await, Code::InvalidArgument);
    }

    // A direct meter within its entry.
    let mut rule = p4::TableEntry {
        table_id: table_id("MyIngress.acl"),
        priority: 1,
        action: Some(action("MyIngress.allow", &[])),
        meter_config: Some(RATES),
        ..Default::default()
    };
    assert_eq!(c.write_one(entry::insert(rule.clone())).await, Code::Ok);
    let query = p4::TableEntry {
        table_id: rule.table_id,
        meter_config: Some(p4::MeterConfig::default()),
        ..Default::default()
    };
    assert_eq!(c.read_entries(query.clone()).await, [rule.clone()]);
    rule.meter_config = None;
    assert_eq!(c.write_one(entry::modify(rule.clone())).await, Code::Ok);
    assert_eq!(c.read_entries(query).await, [rule]);
}

#[tokio::test(flavor = "multi_thread")]
async fn registers_are_written_by_both_sides() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let written = register(Some(5), Some(0x1234_5678));
    assert_eq!(c.write_one(entry::modify(written.clone())).await, Code::Ok);
    let read = c.read(register(Some(5), None)).await.unwrap();
    assert_eq!(read, [Entity::RegisterEntry(written)]);
    // The program notes the length of the last packet of each port.
    c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
    bed.send(1, &frame(7, 1));
    assert!(bed.receive(2).await.is_some());
    let read = c.read(register(Some(1), None)).await.unwrap();
    assert_eq!(read, [Entity::RegisterEntry(register(Some(1), Some(64)))]);
    assert_eq!(c.read(register(None, None)).await.unwrap().len(), 32);
    let wide = p4::RegisterEntry {
        data: Some(p4::P4Data {
            data: Some(p4::p4_data::Data::Bitstring(vec![1, 0, 0, 0, 0])),
        }),
        ..register(Some(5), None)
    };
    assert_eq!(c.write_one(entry::modify(wide)).await, Code::OutOfRange);
    let outside = register(Some(32), Some(1));
    assert_eq!(c.write_one(entry::modify(outside)).await, Code::OutOfRange);
}

#[tokio::test(flavor = "multi_thread")]
async fn meters_count_what_got_each_colour() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
    // Room for one packet of 64 bytes in the committed bucket and for two in the
    // other; the rates fill neither.
    let small = p4::MeterConfig {
        cir: 0,
        cburst: 64,
        pir: 0,
        pburst: 128,
        eburst: 0,
    };
    let asked = Some(p4::MeterCounterData::default());
    let cell = meter(Some(1), Some(small));
    assert_eq!(c.write_one(entry::modify(cell)).await, Code::Ok);
    for _ in 0..5 {
        bed.send(1, &frame(7, 1));
        assert!(bed.receive(2).await.is_some());
    }
    let of = |packet_count: i64| {
        Some(p4::CounterData {
            packet_count,
            byte_count: 64 * packet_count,
        })
    };
    let with = |counter_data| {
        [Entity::MeterEntry(p4::MeterEntry {
            counter_data,
            ..cell
        })]
    };
    let query = p4::MeterEntry {
        counter_data: asked,
        ..meter(Some(1), None)
    };
    let counted = p4::MeterCounterData {
        green: of(1),
        yellow: of(1),
        red: of(3),
    };
    assert_eq!(c.read(query).await.unwrap(), with(Some(counted)));
    // Not asked for, not answered.
    assert_eq!(c.read(meter(Some(1), None)).await.unwrap(), with(None));
    // They can be cleared, and not set; rates do not clear them.
    let write = |counter_data| {
        entry::modify(p4::MeterEntry {
            counter_data,
            ..cell
        })
    };
    let code = c.write_one(write(Some(counted))).await;
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(c.write_one(write(None)).await, Code::Ok);
    assert_eq!(c.read(query).await.unwrap(), with(Some(counted)));
    assert_eq!(c.write_one(write(asked)).await, Code::Ok);
    let zero = p4::MeterCounterData {
        green: of(0),
        yellow: of(0),
        red: of(0),
    };
    assert_eq!(c.read(query).await.unwrap(), with(Some(zero)));
    // The whole array, in the order of its cells.
    let all = p4::MeterEntry {
        counter_data: asked,
        ..meter(None, None)
    };
    bed.send(1, &frame(7, 1));
    assert!(bed.receive(2).await.is_some());
    let greens: Vec<i64> = c
        .read(all)
        .await
        .unwrap()
        .iter()
        .map(|entity| match entity {
            Entity::MeterEntry(meter) => {
                let counts = meter.counter_data.unwrap();
                counts.green.unwrap().packet_count
            }
            other => panic!("not a meter: {other:?}"),
        })
        .collect();
    let mut expected = vec![0; 16];
    expected[1] = 1;
    assert_eq!(greens, expected);
}

/// An entry with a meter: one packet fits, and no second.
fn rule() -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id("MyIngress.acl"),
        priority: 1,
        r#match: vec![entry::optional(3, 1)],
        action: Some(action("MyIngress.allow", &[])),
        meter_config: Some(p4::MeterConfig {
            cir: 0,
            cburst: 1,
            pir: 0,
            pburst: 1,
            eburst: 0,
        }),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_meters_count_what_got_each_colour() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let rule = rule();
    let default = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action: Some(action("NoAction", &[])),
        ..Default::default()
    };
    c.write(vec![entry::insert(rule.clone()), entry::modify(default)])
        .await
        .unwrap();
    for id in 0..3 {
        bed.send(1, &ipv4(0x0a01_0203, 0x0a00_0001, 17, id));
    }
    // Nothing overtakes: the marker is the last packet.
    c.write(vec![entry::insert(l2(0x77, 2))]).await.unwrap();
    bed.send(1, &frame(0x77, 1));
    assert!(bed.receive(2).await.is_some());
    let of = |packet_count: i64| {
        Some(p4::CounterData {
            packet_count,
            byte_count: 64 * packet_count,
        })
    };
    let counted = p4::MeterCounterData {
        green: of(1),
        yellow: of(0),
        red: of(2),
    };
    let query = p4::TableEntry {
        meter_counter_data: Some(p4::MeterCounterData::default()),
        meter_config: None,
        ..rule.clone()
    };
    let read = c.read_entries(query.clone()).await;
    assert_eq!(read[0].meter_counter_data, Some(counted));
    assert_eq!(read[0].meter_config, None, "not asked for");
    let direct = |config, counter_data| p4::DirectMeterEntry {
        table_entry: Some(p4::TableEntry {
            action: None,
            meter_config: None,
            ..rule.clone()
        }),
        config,
        counter_data,
    };
    let asked = Some(p4::MeterCounterData::default());
    let read = c.read(direct(None, asked)).await.unwrap();
    let expected = direct(rule.meter_config, Some(counted));
    assert_eq!(read, [Entity::DirectMeterEntry(expected)]);
    let clear = direct(rule.meter_config, asked);
    assert_eq!(c.write_one(entry::modify(clear)).await, Code::Ok);
    let read = c.read_entries(query.clone()).await;
    let counts = read[0].meter_counter_data.unwrap();
    assert_eq!((counts.green, counts.red), (of(0), of(0)));
    // A new entry in the same place counts from 0.
    let again = [entry::delete(rule.clone()), entry::insert(rule)];
    bed.send(1, &ipv4(0x0a01_0203, 0x0a00_0001, 17, 9));
    bed.send(1, &frame(0x77, 1));
    assert!(bed.receive(2).await.is_some());
    c.write(again.to_vec()).await.unwrap();
    let counts = c.read_entries(query).await[0].meter_counter_data.unwrap();
    assert_eq!((counts.green, counts.red), (of(0), of(0)));
}

/// bmv2 leaves the counter and the meter of an entry alone when it refuses a
/// second one with its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_entry_changes_neither_counter_nor_meter() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let count = |packet_count| {
        Some(p4::CounterData {
            packet_count,
            byte_count: 0,
        })
    };
    let counted = |count| p4::TableEntry {
        counter_data: count,
        ..l2(7, 2)
    };
    let metered = |config| p4::TableEntry {
        meter_config: config,
        ..rule()
    };
    let other = p4::MeterConfig { cburst: 7, ..RATES };
    let updates = vec![
        entry::insert(counted(count(10))),
        entry::insert(metered(Some(RATES))),
        entry::insert(counted(count(99))),
        entry::insert(metered(Some(other))),
        entry::insert(l2(8, 2)),
        entry::modify(p4::TableEntry {
            counter_data: count(5),
            ..l2(9, 2)
        }),
    ];
    let codes = c.codes(updates, Atomicity::ContinueOnError).await;
    assert_eq!(
        codes,
        [
            Code::Ok,
            Code::Ok,
            Code::AlreadyExists,
            Code::AlreadyExists,
            Code::Ok,
            Code::NotFound
        ]
    );
    let read = c.read_entries(counted(count(0))).await;
    assert_eq!(read[0].counter_data, count(10));
    let read = c.read_entries(metered(Some(RATES))).await;
    assert_eq!(read[0].meter_config, Some(RATES));
}

fn group(id: u32, replicas: &[(u8, u32)]) -> p4::PacketReplicationEngineEntry {
    let replicas = replicas.iter().map(|&(port, instance)| p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(vec![port])),
        instance,
        backup_replicas: vec![],
    });
    p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
            multicast_group_id: id,
            replicas: replicas.collect(),
            metadata: vec![9],
        })),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn multicast_copies_packets() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let entry = group(5, &[(2, 1), (3, 1)]);
    assert_eq!(
        c.write_one(entry::modify(entry.clone())).await,
        Code::NotFound
    );
    assert_eq!(c.write_one(entry::insert(entry.clone())).await, Code::Ok);
    assert_eq!(
        c.write_one(entry::insert(entry.clone())).await,
        Code::AlreadyExists
    );
    let all = group(0, &[]);
    let wanted = Entity::PacketReplicationEngineEntry(entry.clone());
    assert_eq!(c.read(all).await.unwrap(), [wanted]);

    let mut flood = l2(0xffff_ffff_ffff, 0);
    flood.action = Some(action("MyIngress.flood", &[5]));
    c.write(vec![entry::insert(flood)]).await.unwrap();
    let packet = frame(0xffff_ffff_ffff, 1);
    bed.send(1, &packet);
    assert_eq!(bed.receive(2).await, Some(packet.clone()));
    assert_eq!(bed.receive(3).await, Some(packet));

    for bad in [
        group(0, &[(1, 1)]),
        group(6, &[(1, 1), (1, 1)]),
        group(6, &[(1, 70_000)]),
    ] {
        assert_eq!(c.write_one(entry::insert(bad)).await, Code::InvalidArgument);
    }
    assert_eq!(c.write_one(entry::delete(group(5, &[]))).await, Code::Ok);
    assert_eq!(c.read(group(0, &[])).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_replica_stands_in_for_a_port_that_is_down() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let backup = |port, instance| p4::BackupReplica {
        port: vec![port],
        instance,
    };
    let with = |backups: Vec<p4::BackupReplica>| {
        let mut entry = group(5, &[(2, 1)]);
        if let Some(Replication::MulticastGroupEntry(group)) = &mut entry.r#type {
            group.replicas[0].backup_replicas = backups;
        }
        entry
    };
    for bad in [
        vec![backup(2, 7)],
        vec![backup(3, 7), backup(3, 7)],
        vec![backup(3, 70_000)],
    ] {
        assert_eq!(
            c.write_one(entry::insert(with(bad))).await,
            Code::InvalidArgument
        );
    }
    let entry = with(vec![backup(9, 2), backup(3, 3)]);
    assert_eq!(c.write_one(entry::insert(entry.clone())).await, Code::Ok);
    let mut flood = l2(0xffff_ffff_ffff, 0);
    flood.action = Some(action("MyIngress.flood", &[5]));
    c.write(vec![entry::insert(flood)]).await.unwrap();
    let packet = frame(0xffff_ffff_ffff, 1);
    bed.send(1, &packet);
    assert_eq!(bed.receive(2).await, Some(packet.clone()));
    bed.switch.set_port_up(2, false);
    // Port 9 has no interface: the next one.
    bed.send(1, &packet);
    assert_eq!(bed.receive(3).await, Some(packet.clone()));
    bed.switch.set_port_up(2, true);
    bed.send(1, &packet);
    assert_eq!(bed.receive(2).await, Some(packet));
    let wanted = Entity::PacketReplicationEngineEntry(entry);
    assert_eq!(c.read(group(0, &[])).await.unwrap(), [wanted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clone_sessions_are_kept() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let session = |id, length| p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::CloneSessionEntry(p4::CloneSessionEntry {
            session_id: id,
            replicas: vec![p4::Replica {
                port_kind: Some(p4::replica::PortKind::EgressPort(2)),
                instance: 0,
                backup_replicas: vec![],
            }],
            class_of_service: 3,
            packet_length_bytes: length,
        })),
    };
    assert_eq!(c.write_one(entry::insert(session(100, 64))).await, Code::Ok);
    assert_eq!(
        c.write_one(entry::modify(session(100, 128))).await,
        Code::Ok
    );
    let read = c.read(session(100, 0)).await.unwrap();
    assert_eq!(
        read,
        [Entity::PacketReplicationEngineEntry(session(100, 128))]
    );
    assert_eq!(
        c.write_one(entry::insert(session(0, 0))).await,
        Code::InvalidArgument
    );
    assert_eq!(
        c.write_one(entry::insert(session(1, -1))).await,
        Code::InvalidArgument
    );
    assert_eq!(
        c.write_one(entry::insert(session(0x8000, 0))).await,
        Code::OutOfRange
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_listed_and_acknowledged() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let digest_id = info().digests[0].preamble.as_ref().unwrap().id;
    let learn = p4::TableEntry {
        table_id: table_id("MyIngress.smac"),
        r#match: vec![entry::exact(1, 0x0102)],
        action: Some(action("MyIngress.learn", &[])),
        ..Default::default()
    };
    let config = p4::DigestEntry {
        digest_id,
        config: Some(p4::digest_entry::Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: 60_000_000_000,
        }),
    };
    c.write(vec![entry::insert(learn)]).await.unwrap();
    // Not switched on: nothing comes.
    bed.send(1, &frame(9, 0x0102));
    assert!(c.is_silent(Duration::from_millis(300)).await);

    c.write(vec![entry::insert(config)]).await.unwrap();
    assert_eq!(c.read(config).await.unwrap(), [Entity::DigestEntry(config)]);
    bed.send(2, &frame(9, 0x0102));
    let Down::Digest(list) = c.next().await.unwrap() else {
        panic!("not a digest");
    };
    let bits = |bytes: &[u8]| p4::P4Data {
        data: Some(p4::p4_data::Data::Bitstring(bytes.to_vec())),
    };
    let values = p4::P4StructLike {
        members: vec![bits(&[1, 2]), bits(&[2])],
    };
    assert_eq!(
        list.data,
        [p4::P4Data {
            data: Some(p4::p4_data::Data::Struct(values))
        }]
    );
    assert!(list.timestamp > 1_600_000_000_000_000_000);
    // The same again is suppressed until it is acknowledged.
    bed.send(2, &frame(9, 0x0102));
    assert!(c.is_silent(Duration::from_millis(300)).await);
    let ack = p4::DigestListAck {
        digest_id,
        list_id: list.list_id,
    };
    c.send(Up::DigestAck(ack)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    bed.send(2, &frame(9, 0x0102));
    let Down::Digest(next) = c.next().await.unwrap() else {
        panic!("not a digest");
    };
    assert!(next.list_id > list.list_id);

    let unknown = p4::DigestListAck {
        digest_id: digest_id + 1,
        list_id: 1,
    };
    c.send(Up::DigestAck(unknown)).await;
    let Down::Error(error) = c.next().await.unwrap() else {
        panic!("not an error");
    };
    assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
    assert!(matches!(
        error.details,
        Some(p4::stream_error::Details::DigestListAck(_))
    ));
    assert_eq!(c.write_one(entry::delete(config)).await, Code::Ok);
    assert_eq!(c.write_one(entry::delete(config)).await, Code::NotFound);
}
