//! Direct counters and meters of default entries (specification, "Default
//! Entry": apart from what it names, "the default entry is treated like a
//! regular entry, including with regards to direct resources").

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use softswitch::p4rt::Mode;
use tonic::Code;

use crate::support::*;

fn default_of(table: &str) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id(table),
        is_default_action: true,
        ..Default::default()
    }
}

fn count(packet_count: i64, byte_count: i64) -> Option<p4::CounterData> {
    Some(p4::CounterData {
        byte_count,
        packet_count,
    })
}

/// The default entry of `l2` in the message of a direct counter.
fn misses(data: Option<p4::CounterData>) -> p4::DirectCounterEntry {
    p4::DirectCounterEntry {
        table_entry: Some(default_of("MyIngress.l2")),
        data,
    }
}

/// Waits until all packets before it have been processed.
async fn settle(bed: &Bed) {
    bed.send(1, &frame(7, 1));
    assert!(bed.receive(2).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_are_counted() {
    for mode in [Mode::Strict, Mode::Compat] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.ready().await;
        c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
        let read = c.read(misses(None)).await.unwrap();
        assert_eq!(read, [Entity::DirectCounterEntry(misses(count(0, 0)))]);
        for _ in 0..3 {
            bed.send(1, &frame(8, 1));
        }
        settle(&bed).await;
        let read = c.read(misses(None)).await.unwrap();
        assert_eq!(read, [Entity::DirectCounterEntry(misses(count(3, 192)))]);
        // A wildcard means the entries, as with table entries; and the default
        // entries of all tables can be asked for.
        let mut hit = misses(count(1, 64));
        hit.table_entry = Some(p4::TableEntry {
            action: None,
            ..l2(7, 0)
        });
        let read = c.read(p4::DirectCounterEntry::default()).await.unwrap();
        assert_eq!(read, [Entity::DirectCounterEntry(hit)]);
        let mut all = misses(None);
        all.table_entry.as_mut().unwrap().table_id = 0;
        let read = c.read(all).await.unwrap();
        assert_eq!(read, [Entity::DirectCounterEntry(misses(count(3, 192)))]);

        // In the table entry: only if asked for.
        let query = p4::TableEntry {
            counter_data: count(0, 0),
            ..default_of("MyIngress.l2")
        };
        let dropping = |counter_data| p4::TableEntry {
            action: Some(action("MyIngress.drop", &[])),
            counter_data,
            ..default_of("MyIngress.l2")
        };
        let read = c.read_entries(query.clone()).await;
        assert_eq!(read, [dropping(count(3, 192))]);
        let read = c.read_entries(default_of("MyIngress.l2")).await;
        assert_eq!(read, [dropping(None)]);

        // Written both ways; without data nothing changes.
        let write = misses(count(10, 1000));
        assert_eq!(c.write_one(entry::modify(write)).await, Code::Ok);
        assert_eq!(c.write_one(entry::modify(misses(None))).await, Code::Ok);
        assert_eq!(
            c.read_entries(query.clone()).await,
            [dropping(count(10, 1000))]
        );
        let mut punting = dropping(None);
        punting.action = Some(action("MyIngress.punt", &[1]));
        punting.metadata = vec![1, 2];
        let update = entry::modify(punting.clone());
        assert_eq!(c.write_one(update).await, Code::Ok);
        punting.counter_data = count(10, 1000);
        assert_eq!(c.read_entries(query.clone()).await, [punting.clone()]);
        punting.counter_data = count(5, 50);
        let update = entry::modify(punting.clone());
        assert_eq!(c.write_one(update).await, Code::Ok);
        assert_eq!(c.read_entries(query.clone()).await, [punting]);
        // A reset takes it all back.
        let reset = entry::modify(default_of("MyIngress.l2"));
        assert_eq!(c.write_one(reset).await, Code::Ok);
        assert_eq!(c.read_entries(query).await, [dropping(count(0, 0))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_default_entries_do_not_have() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut keyed = misses(count(1, 1));
    keyed.table_entry.as_mut().unwrap().r#match = l2(7, 0).r#match;
    let mut prioritised = misses(count(1, 1));
    prioritised.table_entry.as_mut().unwrap().priority = 1;
    let mut uncounted = misses(count(1, 1));
    uncounted.table_entry = Some(default_of("MyIngress.acl"));
    let unmetered = p4::DirectMeterEntry {
        table_entry: Some(default_of("MyIngress.l2")),
        ..Default::default()
    };
    let in_entry = p4::TableEntry {
        action: Some(action("NoAction", &[])),
        counter_data: count(1, 1),
        ..default_of("MyIngress.acl")
    };
    let bad = [
        entry::modify(keyed.clone()),
        entry::modify(prioritised.clone()),
        entry::modify(uncounted.clone()),
        entry::modify(misses(count(-1, 0))),
        entry::insert(misses(count(1, 1))),
        entry::delete(misses(None)),
        entry::modify(unmetered.clone()),
        entry::modify(in_entry),
    ];
    for update in bad {
        let text = format!("{update:?}");
        assert_eq!(c.write_one(update).await, Code::InvalidArgument, "{text}");
    }
    for query in [keyed, prioritised, uncounted] {
        assert!(c.read(query).await.is_err());
    }
    assert!(c.read(unmetered).await.is_err());
    // A refused write changes nothing, not even in part: these rates make no
    // sense.
    let mut half = p4::TableEntry {
        action: Some(action("MyIngress.drop", &[])),
        meter_config: Some(p4::MeterConfig {
            cir: -1,
            ..Default::default()
        }),
        ..default_of("MyIngress.acl")
    };
    let update = entry::modify(half.clone());
    assert_eq!(c.write_one(update).await, Code::InvalidArgument);
    half.action = Some(action("NoAction", &[]));
    half.meter_config = None;
    assert_eq!(c.read_entries(default_of("MyIngress.acl")).await, [half]);
}

/// Rates of 0, so that only the bursts count: one packet is green, one yellow.
const ONE_AND_ONE: p4::MeterConfig = p4::MeterConfig {
    cir: 0,
    cburst: 1,
    pir: 0,
    pburst: 2,
    eburst: 0,
};

fn colours(green: i64, yellow: i64, red: i64) -> Option<p4::MeterCounterData> {
    Some(p4::MeterCounterData {
        green: count(green, 64 * green),
        yellow: count(yellow, 64 * yellow),
        red: count(red, 64 * red),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_are_metered_and_survive_another_program() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
    let meter = |config, counter_data| p4::DirectMeterEntry {
        table_entry: Some(default_of("MyIngress.acl")),
        config,
        counter_data,
    };
    let query = meter(None, colours(0, 0, 0));
    // Without rates there is no colour, so nothing is counted.
    bed.send(1, &ipv4(1, 1, 17, 0));
    settle(&bed).await;
    let read = c.read(query.clone()).await.unwrap();
    assert_eq!(read, [Entity::DirectMeterEntry(query.clone())]);
    let configure = meter(Some(ONE_AND_ONE), None);
    assert_eq!(c.write_one(entry::modify(configure)).await, Code::Ok);
    for id in 0..4 {
        bed.send(1, &ipv4(1, 1, 17, id));
    }
    settle(&bed).await;
    let counted = meter(Some(ONE_AND_ONE), colours(1, 1, 2));
    let read = c.read(query.clone()).await.unwrap();
    assert_eq!(read, [Entity::DirectMeterEntry(counted.clone())]);
    let in_entry = p4::TableEntry {
        meter_config: Some(p4::MeterConfig::default()),
        meter_counter_data: colours(0, 0, 0),
        ..default_of("MyIngress.acl")
    };
    let doing = p4::TableEntry {
        action: Some(action("NoAction", &[])),
        meter_config: Some(ONE_AND_ONE),
        meter_counter_data: colours(1, 1, 2),
        ..default_of("MyIngress.acl")
    };
    assert_eq!(c.read_entries(in_entry.clone()).await, [doing]);
    // They can be cleared, and not set.
    let set = meter(Some(ONE_AND_ONE), colours(1, 0, 0));
    assert_eq!(c.write_one(entry::modify(set)).await, Code::InvalidArgument);

    // The counter and the rates are carried over to another program.
    bed.send(1, &frame(8, 1));
    settle(&bed).await;
    let misses_before = c.read(misses(None)).await.unwrap();
    let reconcile = Action::ReconcileAndCommit;
    c.set_pipeline(reconcile, Some(next_config(2)))
        .await
        .unwrap();
    assert_eq!(c.read(misses(None)).await.unwrap(), misses_before);
    let query = meter(None, None);
    let configured = meter(Some(ONE_AND_ONE), None);
    let read = c.read(query.clone()).await.unwrap();
    assert_eq!(read, [Entity::DirectMeterEntry(configured)]);

    // A MODIFY without rates takes them away (specification, "Direct
    // Resources").
    let plain = p4::TableEntry {
        action: Some(action("NoAction", &[])),
        ..default_of("MyIngress.acl")
    };
    assert_eq!(c.write_one(entry::modify(plain)).await, Code::Ok);
    let read = c.read(query.clone()).await.unwrap();
    assert_eq!(read, [Entity::DirectMeterEntry(query)]);
}

/// "The server must return a PERMISSION_DENIED" (specification, "Default Entry"),
/// also where only P4Info has it constant.
#[tokio::test(flavor = "multi_thread")]
async fn a_constant_default_entry_cannot_be_modified() {
    for mode in [Mode::Strict, Mode::Compat] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.primary(1).await;
        let mut fixed = config(1);
        let table = &mut fixed.p4info.as_mut().unwrap().tables[0];
        assert_eq!(table.preamble.as_ref().unwrap().name, "MyIngress.l2");
        table.const_default_action_id = action_id("MyIngress.drop");
        c.set_pipeline(Action::VerifyAndCommit, Some(fixed))
            .await
            .unwrap();
        let before = c.read_entries(default_of("MyIngress.l2")).await;
        assert!(before[0].is_const, "{before:?}");
        let punt = p4::TableEntry {
            action: Some(action("NoAction", &[])),
            ..default_of("MyIngress.l2")
        };
        for change in [punt, default_of("MyIngress.l2")] {
            let code = c.write_one(entry::modify(change)).await;
            assert_eq!(code, Code::PermissionDenied);
        }
        assert_eq!(c.read_entries(default_of("MyIngress.l2")).await, before);
    }
}
