//! Long Reads, and what others may do meanwhile.

use std::time::Duration;

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::table_action::Type;
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::support::*;

/// More entries than an answer has before writes are let in.
const MANY: u64 = 40_000;

async fn fill(c: &mut Controller) {
    for start in (0..MANY).step_by(5_000) {
        let batch = (start..start + 5_000).map(|mac| entry::insert(l2(mac, 1)));
        c.write(batch.collect()).await.unwrap();
    }
}

fn all_of(table: &str) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id(table),
        ..Default::default()
    }
}

fn read_of(queries: Vec<p4::TableEntry>) -> p4::ReadRequest {
    p4::ReadRequest {
        device_id: DEVICE,
        entities: queries.into_iter().map(Into::into).collect(),
        ..Default::default()
    }
}

/// What takes minutes and finds nothing keeps nobody waiting for long, and ends
/// when its client leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_finds_nothing_does_not_stop_the_switch() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    fill(&mut c).await;
    let nothing = p4::TableEntry {
        controller_metadata: 12_345,
        ..all_of("MyIngress.l2")
    };
    let request = read_of(vec![nothing; 20_000]);
    let mut others = Vec::new();
    for _ in 0..3 {
        let mut other = bed.client().await;
        let answer = other.read(request.clone()).await.unwrap();
        others.push((other, answer));
    }
    // Each of these waits once for the reads, half a second.
    let soon = Duration::from_secs(20);
    for port in 2..6 {
        let write = c.write(vec![entry::modify(l2(7, port))]);
        timeout(soon, write).await.unwrap().unwrap();
    }
    let capabilities = c.client.capabilities(p4::CapabilitiesRequest::default());
    timeout(soon, capabilities).await.unwrap().unwrap();
    let _late = timeout(soon, bed.primary(2)).await.unwrap();
    drop(others);
    // Their places are free again: 64 fit.
    let one = read_of(vec![l2(7, 0)]);
    let free = async {
        loop {
            let mut answers = Vec::new();
            for _ in 0..64 {
                answers.push(c.client.read(one.clone()).await);
            }
            if answers.iter().all(Result::is_ok) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(soon, free).await.unwrap();
}

/// A client that lets little through before it takes what has come.
async fn narrow(bed: &Bed) -> P4RuntimeClient<Channel> {
    let endpoint = Endpoint::new(format!("http://{}", bed.address)).unwrap();
    let endpoint = endpoint
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(65_535);
    P4RuntimeClient::new(endpoint.connect().await.unwrap())
}

/// What is read is of one program to the end, or it ends with an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_does_not_go_on_with_another_pipeline() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    fill(&mut c).await;
    let request = p4::ReadRequest {
        device_id: DEVICE,
        entities: vec![
            all_of("MyIngress.l2").into(),
            p4::CounterEntry::default().into(),
        ],
        ..Default::default()
    };
    let mut reader = narrow(&bed).await;
    let mut answer = reader.read(request).await.unwrap().into_inner();
    answer.message().await.unwrap().unwrap();
    c.push(2).await.unwrap();
    let error = loop {
        match answer.message().await {
            Ok(Some(message)) => {
                let mut entities = message.entities.into_iter().filter_map(|e| e.entity);
                assert!(entities.all(|e| matches!(e, Entity::TableEntry(_))));
            }
            Ok(None) => panic!("the answer is whole"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::Aborted, "{error}");
}

/// An action set that comes in during a Read is answered as it was written
/// (specification, "One Shot Action Selector Programming").
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_during_a_read_is_read_as_it_was_written() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    fill(&mut c).await;
    let queries = vec![all_of("MyIngress.l2"), all_of("MyIngress.routes")];
    let mut reader = narrow(&bed).await;
    let mut answer = reader.read(read_of(queries)).await.unwrap().into_inner();
    // The rest is not taken: the routes are not read yet.
    answer.message().await.unwrap().unwrap();
    let hop = action("MyIngress.set_nexthop", &[2, 0x99]);
    let Some(Type::Action(hop)) = hop.r#type else {
        panic!("not an action");
    };
    let set = p4::ActionProfileActionSet {
        action_profile_actions: vec![p4::ActionProfileAction {
            action: Some(hop),
            weight: 1,
            watch_kind: None,
        }],
        ..Default::default()
    };
    let route = p4::TableEntry {
        r#match: vec![entry::lpm(1, 0x0a01_0000, 16, 32).unwrap()],
        action: Some(p4::TableAction {
            r#type: Some(Type::ActionProfileActionSet(set)),
        }),
        ..all_of("MyIngress.routes")
    };
    c.write(vec![entry::insert(route.clone())]).await.unwrap();
    let mut routes = Vec::new();
    while let Some(message) = answer.message().await.unwrap() {
        let entities = message.entities.into_iter().filter_map(|e| e.entity);
        routes.extend(entities.filter_map(|entity| match entity {
            Entity::TableEntry(entry) if entry.table_id == route.table_id => Some(entry),
            _ => None,
        }));
    }
    assert_eq!(routes, [route]);
}

/// With table id 0 "no other filter can be used" (specification, "Wildcard
/// Reads").
#[tokio::test(flavor = "multi_thread")]
async fn a_query_for_all_tables_has_no_filter() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
    let plain = c.read_entries(p4::TableEntry::default()).await;
    assert!(plain.contains(&l2(7, 2)), "{plain:?}");
    let filters = [
        p4::TableEntry {
            priority: 7,
            ..Default::default()
        },
        p4::TableEntry {
            controller_metadata: 9,
            metadata: vec![1],
            ..Default::default()
        },
    ];
    for filter in filters {
        assert_eq!(c.read_entries(filter).await, plain);
    }
}
