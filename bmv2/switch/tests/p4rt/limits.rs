//! What is too much is refused, and others are served meanwhile.

use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use prost_types::Any;
use tonic::Code;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_long_is_refused() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut big = l2(7, 2);
    big.metadata = vec![1; MAX_MESSAGE_BYTES];
    let error = c.write(vec![entry::insert(big)]).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error}");
    let all = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        ..Default::default()
    };
    assert_eq!(c.read_entries(all).await, []);
}

/// tonic's client takes 16 KiB of trailers unless told otherwise, and ends its
/// connection over four times as much; its controller would be primary no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_failures_leaves_the_connection_alone() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let updates = vec![entry::insert(l2(7, 2)); 1000];
    for _ in 0..20 {
        c.write(updates.clone()).await.unwrap_err();
        assert_eq!(c.read_entries(l2(7, 2)).await.len(), 1);
    }
    // Its stream would have ended with the connection.
    assert!(c.is_silent(std::time::Duration::from_millis(100)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_batch_of_failures_harms_nobody() {
    const COUNT: usize = 50_000;
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut other = bed.primary(2).await;
    assert_eq!(c.arbitration().await.1, Some(2));
    // All but the first fail. A client that takes long trailers learns of each.
    let endpoint = tonic::transport::Endpoint::new(format!("http://{}", bed.address)).unwrap();
    let endpoint = endpoint.http2_max_header_list_size(4 << 20);
    other.client = P4RuntimeClient::new(endpoint.connect().await.unwrap());
    let updates = vec![entry::insert(l2(7, 2)); COUNT];
    let codes = other
        .codes(updates.clone(), Atomicity::ContinueOnError)
        .await;
    assert_eq!(codes[0], Code::Ok);
    assert_eq!(codes[1..], vec![Code::AlreadyExists; COUNT - 1]);
    // Another may end its own connection over it, but nobody else's.
    let mut third = bed.client().await;
    third.write(other.request(updates)).await.unwrap_err();
    assert_eq!(c.read_entries(l2(7, 2)).await.len(), 1);
    assert_eq!(other.read_entries(l2(7, 2)).await.len(), 1);
    let wait = std::time::Duration::from_millis(100);
    assert!(c.is_silent(wait).await && other.is_silent(wait).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    // 16 controllers, and three times as many that never say who they are.
    let mut open = Vec::new();
    let mut refused = None;
    for _ in 0..100 {
        let (up, requests) = tokio::sync::mpsc::channel(1);
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        match bed.client().await.stream_channel(requests).await {
            Ok(stream) => open.push((up, stream)),
            Err(status) => {
                refused = Some(status.code());
                break;
            }
        }
    }
    assert_eq!((open.len(), refused), (63, Some(Code::ResourceExhausted)));
    c.write(vec![entry::insert(l2(7, 2))]).await.unwrap();
    drop(open);
    for _ in 0..500 {
        let (_up, requests) = tokio::sync::mpsc::channel(1);
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        if bed.client().await.stream_channel(requests).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the places of streams that have ended stay taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_nobody_takes_do_not_stop_the_switch() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let updates: Vec<_> = (0..1000)
        .map(|mac| {
            let mut entry = l2(mac, 2);
            entry.metadata = vec![7; 1000];
            entry::insert(entry)
        })
        .collect();
    c.write(updates).await.unwrap();
    // Each answer is far more than flow control lets through.
    let query: p4::Entity = p4::TableEntry::default().into();
    let request = p4::ReadRequest {
        device_id: DEVICE,
        entities: vec![query; 50],
        ..Default::default()
    };
    let mut client = bed.client().await;
    let mut stuck = Vec::new();
    let mut refused = 0;
    for _ in 0..80 {
        match client.read(request.clone()).await {
            Ok(answer) => stuck.push(answer),
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted);
                refused += 1;
            }
        }
    }
    assert_eq!((stuck.len(), refused), (64, 16));
    let updates: Vec<_> = (0..1000).map(|mac| entry::delete(l2(mac, 2))).collect();
    c.write(updates).await.unwrap();
    drop(stuck);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_comes_in_messages_that_clients_take() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut entries: Vec<p4::TableEntry> = (0..20).map(|mac| l2(mac, 2)).collect();
    for entry in &mut entries {
        entry.metadata = vec![7; 1 << 20];
        c.write(vec![entry::insert(entry.clone())]).await.unwrap();
    }
    // gRPC's own limit.
    let client = P4RuntimeClient::connect(format!("http://{}", bed.address));
    c.client = client.await.unwrap().max_decoding_message_size(4 << 20);
    let all = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        ..Default::default()
    };
    let (read, messages) = c.read_chunks(vec![all.into()]).await.unwrap();
    assert_eq!((read.len(), messages), (20, 20));
    for (read, entry) in read.into_iter().zip(entries) {
        assert_eq!(read, p4::entity::Entity::TableEntry(entry));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_stream_messages_are_refused_without_an_echo() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let long = p4::PacketOut {
        payload: vec![0; 1 << 20],
        metadata: [(1, vec![2]), (2, vec![0])]
            .map(|(metadata_id, value)| p4::PacketMetadata { metadata_id, value })
            .to_vec(),
    };
    c.send(Up::Packet(long)).await;
    match c.next().await.unwrap() {
        Down::Error(error) => {
            assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
            assert!(error.message.contains("65536"), "{}", error.message);
            let Some(p4::stream_error::Details::PacketOut(details)) = error.details else {
                panic!("no details: {error:?}");
            };
            assert_eq!(details.packet_out.unwrap().payload.len(), 256);
        }
        other => panic!("not an error: {other:?}"),
    }
    let other = Any {
        type_url: "é".repeat(1 << 20),
        value: vec![1; 1 << 20],
    };
    c.send(Up::Other(other)).await;
    match c.next().await.unwrap() {
        Down::Error(error) => {
            assert_eq!(error.canonical_code, Code::Unimplemented as i32);
            let Some(p4::stream_error::Details::Other(details)) = error.details else {
                panic!("no details: {error:?}");
            };
            let other = details.other.unwrap();
            assert_eq!(other.value.len(), 256);
            assert_eq!(other.type_url, "é".repeat(256));
        }
        other => panic!("not an error: {other:?}"),
    }
}
