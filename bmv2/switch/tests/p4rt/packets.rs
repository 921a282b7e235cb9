//! Packets from and to the controller, and idle notices.

use std::time::Duration;

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use tonic::Code;

use crate::support::*;

fn packet_out(port: u128, payload: &[u8]) -> Up {
    Up::Packet(p4::PacketOut {
        payload: payload.to_vec(),
        metadata: vec![entry::metadata(1, port), entry::metadata(2, 0)],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_from_the_controller_leave_their_port() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let payload = frame(1, 2);
    c.send(packet_out(3, &payload)).await;
    assert_eq!(bed.receive(3).await, Some(payload));
    let stats = bed.plane.snapshot();
    assert_eq!((stats.packet_outs, stats.ports[2].tx_packets), (1, 1));
    assert_eq!(stats.ports[2].tx_bytes, 64);

    // To a port that does not exist: counted, not lost in silence.
    c.send(packet_out(200, &frame(1, 2))).await;
    c.send(packet_out(2, &frame(1, 2))).await;
    assert!(bed.receive(2).await.is_some());
    assert_eq!(bed.plane.snapshot().no_such_port, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_packet_outs_are_reported() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut b = Controller::open(bed.client().await, 0).await;
    assert_eq!(b.arbitration().await.0, Code::AlreadyExists);
    let cases = [
        (vec![entry::metadata(1, 2)], Code::InvalidArgument),
        (
            vec![
                entry::metadata(1, 2),
                entry::metadata(2, 0),
                entry::metadata(7, 0),
            ],
            Code::InvalidArgument,
        ),
        (
            vec![entry::metadata(1, 512), entry::metadata(2, 0)],
            Code::OutOfRange,
        ),
    ];
    for (metadata, code) in cases {
        let wrong = p4::PacketOut {
            payload: frame(1, 2),
            metadata,
        };
        c.send(Up::Packet(wrong.clone())).await;
        let Down::Error(error) = c.next().await.unwrap() else {
            panic!("not an error");
        };
        assert_eq!(error.canonical_code, code as i32, "{}", error.message);
        let details = p4::stream_error::Details::PacketOut(p4::PacketOutError {
            packet_out: Some(wrong),
        });
        assert_eq!(error.details, Some(details));
    }
    b.send(packet_out(2, &frame(1, 2))).await;
    let Down::Error(error) = b.next().await.unwrap() else {
        panic!("not an error");
    };
    assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
    assert_eq!(bed.plane.snapshot().packet_outs, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_for_the_controller_go_to_the_primary() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut b = Controller::open(bed.client().await, 0).await;
    assert_eq!(b.arbitration().await.0, Code::AlreadyExists);
    let punt = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action: Some(action("MyIngress.punt", &[0x55])),
        ..Default::default()
    };
    c.write(vec![entry::modify(punt)]).await.unwrap();
    let packet = frame(0x1234, 0x5678);
    bed.send(2, &packet);
    let Down::Packet(received) = c.next().await.unwrap() else {
        panic!("not a packet");
    };
    assert_eq!(received.payload, packet);
    assert_eq!(
        received.metadata,
        [entry::metadata(1, 2), entry::metadata(2, 0x55)]
    );
    assert!(b.is_silent(Duration::from_millis(100)).await);
    assert_eq!(bed.plane.snapshot().packet_ins, 1);

    // Nobody is primary: the loss is counted.
    drop(c);
    assert_eq!(b.arbitration().await.0, Code::NotFound);
    bed.send(2, &packet);
    for _ in 0..500 {
        if bed.plane.snapshot().packet_ins_lost == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the packet was not counted as lost");
}

/// A PacketIn has all the metadata of P4Info (specification, "Packet I/O"); a
/// packet that is too short for that is lost, and counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_packet_shorter_than_its_header_is_no_packet_in() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let mut config = config(1);
    let headers = &mut config.p4info.as_mut().unwrap().controller_packet_metadata;
    let packet_in = headers
        .iter_mut()
        .find(|header| header.preamble.as_ref().unwrap().name == "packet_in");
    packet_in.unwrap().metadata[0].bitwidth = 8 * 100;
    let commit = Action::VerifyAndCommit;
    c.set_pipeline(commit, Some(config)).await.unwrap();
    let punt = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action: Some(action("MyIngress.punt", &[0x55])),
        ..Default::default()
    };
    c.write(vec![entry::modify(punt)]).await.unwrap();
    bed.send(2, &frame(0x1234, 0x5678));
    for _ in 0..500 {
        if bed.server.messages_lost() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bed.server.messages_lost(), 1);
    assert!(c.is_silent(Duration::from_millis(100)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_entries_are_reported_and_hits_keep_them_alive() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut idle = l2(1, 2);
    idle.idle_timeout_ns = 200_000_000;
    idle.controller_metadata = 77;
    idle.metadata = vec![1, 2, 3];
    let mut busy = l2(2, 2);
    busy.idle_timeout_ns = 3_000_000_000;
    c.write(vec![
        entry::insert(idle.clone()),
        entry::insert(busy),
        entry::insert(l2(3, 2)),
    ])
    .await
    .unwrap();
    let Down::IdleTimeoutNotification(notice) = c.next().await.unwrap() else {
        panic!("not an idle notice");
    };
    assert!(notice.timestamp > 1_600_000_000_000_000_000);
    assert_eq!(notice.table_entry.len(), 1);
    let entry = &notice.table_entry[0];
    assert_eq!(
        (entry.table_id, &entry.r#match),
        (idle.table_id, &idle.r#match)
    );
    assert_eq!(entry.controller_metadata, 77);
    assert_eq!(entry.metadata, [1, 2, 3]);
    assert_eq!(entry.idle_timeout_ns, 200_000_000);
    // The entry stays until the controller removes it.
    let mut query = l2(1, 2);
    query.time_since_last_hit = Some(p4::table_entry::IdleTimeout::default());
    let read = c.read_entries(query.clone()).await;
    let since = read[0].time_since_last_hit.as_ref().unwrap().elapsed_ns;
    assert!((200_000_000..5_000_000_000).contains(&since), "{since}");
    // A hit starts the clock anew.
    bed.send(1, &frame(1, 9));
    assert!(bed.receive(2).await.is_some());
    let read = c.read_entries(query).await;
    let after = read[0].time_since_last_hit.as_ref().unwrap().elapsed_ns;
    assert!(after < 200_000_000, "{after}");
}

/// What DATAPLANE_ATOMIC rests on: no packet is processed during a pause, and
/// none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn packets_wait_while_the_data_plane_pauses() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(1, 2))]).await.unwrap();
    let pause = bed.plane.pause();
    bed.send(1, &frame(1, 9));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(bed.plane.snapshot().received, 0);
    assert!(bed.ports[1].try_receive().is_none());
    drop(pause);
    assert!(bed.receive(2).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_books_balance() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(1, 2))]).await.unwrap();
    for dst in [1, 1, 5] {
        bed.send(1, &frame(dst, 9));
    }
    assert!(bed.receive(2).await.is_some());
    assert!(bed.receive(2).await.is_some());
    let mut stats = bed.plane.snapshot();
    for _ in 0..500 {
        if stats.received == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        stats = bed.plane.snapshot();
    }
    assert_eq!((stats.received, stats.transmitted), (3, 2));
    assert_eq!(stats.dropped["ingress_drop"], 1);
    assert_eq!(stats.dropped.values().sum::<u64>(), 1);
    assert_eq!(stats.ports[0].rx_packets, 3);
    assert_eq!(stats.ports[1].tx_packets, 2);
}
