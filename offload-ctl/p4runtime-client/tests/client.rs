//! The client against a server whose answers the test sets.

mod fake;

use std::time::Duration;

use fake::{Fake, notice, refused};
use p4runtime_client::{
    Arbitration, BatchLimits, Client, ConnectOptions, Disconnect, Error, Event, Events,
    UpdateStatus,
};
use p4runtime_proto::entry::{delete, exact, insert, metadata, modify};
use p4runtime_proto::p4::config::v1::{P4Info, PkgInfo};
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Asked;
use p4runtime_proto::p4::v1::stream_message_response::Update as Told;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    DigestList, Entity, IdleTimeoutNotification, PacketIn, PacketOut, Role, StreamError,
    TableEntry, Update,
};
use tokio::time::timeout;
use tonic::{Code, Status};

const DEVICE: u64 = 1;
const SOON: Duration = Duration::from_secs(5);

fn entry(key: u128) -> TableEntry {
    TableEntry {
        table_id: 0x0200_0001,
        r#match: vec![exact(1, key)],
        ..TableEntry::default()
    }
}

fn inserts(count: u128) -> Vec<Update> {
    (0..count).map(|key| insert(entry(key))).collect()
}

async fn next(events: &mut Events) -> Option<Event> {
    timeout(SOON, events.recv()).await.ok().flatten()
}

/// Until `done`, or some seconds.
async fn eventually(mut done: impl FnMut() -> bool) -> bool {
    for _ in 0..500 {
        if done() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn the_only_controller_is_primary() {
    let fake = Fake::start().await.unwrap();
    let id = (3 << 64) + 9;
    let (client, mut events) = Client::connect(&fake.url(), DEVICE, id, None)
        .await
        .unwrap();

    let primary = Arbitration {
        primary: true,
        primary_id: Some(id),
    };
    assert_eq!(next(&mut events).await, Some(Event::Arbitration(primary)));
    assert!(client.is_primary() && client.is_connected());
    assert_eq!(client.arbitration(), Some(primary));
    let capabilities = client.capabilities().await.unwrap();
    assert_eq!(capabilities.p4runtime_api_version, "1.4.1");
}

#[tokio::test]
async fn a_backup_learns_who_is_primary_and_takes_over() {
    let fake = Fake::start().await.unwrap();
    fake.state().primary = Some(10);
    let (client, mut events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    let backup = Arbitration {
        primary: false,
        primary_id: Some(10),
    };
    assert_eq!(next(&mut events).await, Some(Event::Arbitration(backup)));
    assert!(!client.is_primary());

    fake.state()
        .write_answers
        .push_back(Err(Status::permission_denied("not primary")));
    let error = client
        .write(inserts(1), Atomicity::ContinueOnError)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::NotPrimary {
                method: "Write",
                primary_id: Some(10),
                ..
            }
        ),
        "{error}"
    );

    client.set_election_id(11).await.unwrap();
    let taken = Arbitration {
        primary: true,
        primary_id: Some(11),
    };
    assert_eq!(next(&mut events).await, Some(Event::Arbitration(taken)));
    assert!(client.is_primary());
    client
        .write(inserts(1), Atomicity::ContinueOnError)
        .await
        .unwrap();
    let written = fake.state().writes.pop().unwrap();
    assert_eq!(written.election_id, Some(11.into()));

    // The switch has no primary any more.
    fake.tell(notice(Code::NotFound, Some(11))).await;
    next(&mut events).await.unwrap();
    assert!(!client.is_primary());
}

#[tokio::test]
async fn a_refused_election_id_is_explained() {
    let fake = Fake::start().await.unwrap();
    fake.state().refuse = Some(Status::invalid_argument("election id in use"));
    let error = Client::connect(&fake.url(), DEVICE, 5, None)
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument));
    let text = error.to_string();
    assert!(text.contains("give each controller an id"), "{text}");
}

#[tokio::test]
async fn nobody_listening_is_explained() {
    // Bound and dropped, so that nothing listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Client::connect(&format!("http://{address}"), DEVICE, 1, None)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Connect { .. }));
    let text = error.to_string();
    assert!(text.contains("nothing listens there"), "{text}");

    let directory = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", directory.path().join("no.sock").display());
    let error = Client::connect(&address, DEVICE, 1, None)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("there is no such socket"), "{text}");
}

#[tokio::test]
async fn updates_carry_device_role_and_election_id() {
    let fake = Fake::start().await.unwrap();
    let role = Role {
        name: "forwarding".into(),
        ..Role::default()
    };
    let (client, _events) = Client::connect(&fake.url(), 7, 5, Some(role.clone()))
        .await
        .unwrap();
    let outcome = client
        .write(inserts(2), Atomicity::RollbackOnError)
        .await
        .unwrap();
    assert!(outcome.all_applied());
    assert_eq!(outcome.statuses.len(), 2);

    let state = fake.state();
    let written = &state.writes[0];
    assert_eq!(written.device_id, 7);
    assert_eq!(written.role, "forwarding");
    assert_eq!(written.election_id, Some(5.into()));
    assert_eq!(written.atomicity(), Atomicity::RollbackOnError);
    assert_eq!(written.updates, inserts(2));
    let Asked::Arbitration(asked) = &state.asked[0] else {
        panic!("the first message is {:?}", state.asked[0]);
    };
    assert_eq!(asked.device_id, 7);
    assert_eq!(asked.role, Some(role));
}

#[tokio::test]
async fn each_update_has_its_own_outcome() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    let failed = [(0, Code::ResourceExhausted), (2, Code::AlreadyExists)];
    fake.state()
        .write_answers
        .push_back(Err(refused(3, &failed)));

    let outcome = client
        .write(inserts(3), Atomicity::ContinueOnError)
        .await
        .unwrap();
    let codes: Vec<_> = outcome.statuses.iter().map(UpdateStatus::code).collect();
    assert_eq!(
        codes,
        [
            Some(Code::ResourceExhausted),
            Some(Code::Ok),
            Some(Code::AlreadyExists)
        ]
    );
    let failure = outcome.failures().next().unwrap();
    assert_eq!(failure.1.message, "update 0");
}

/// The account of a large batch is far beyond the 16 KiB that HTTP/2 headers
/// usually may have.
#[tokio::test]
async fn the_account_of_a_large_batch_arrives() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    let count = BatchLimits::UPDATES;
    let failed: Vec<_> = (0..count).map(|index| (index, Code::NotFound)).collect();
    fake.state()
        .write_answers
        .push_back(Err(refused(count, &failed)));
    let outcome = client
        .write_batched(inserts(count as u128), BatchLimits::default())
        .await
        .unwrap();
    assert_eq!(outcome.failures().count(), count);
    assert_eq!(fake.state().writes.len(), 1);
}

#[tokio::test]
async fn an_account_that_does_not_fit_is_an_error() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    fake.state()
        .write_answers
        .push_back(Err(refused(2, &[(0, Code::NotFound)])));
    let error = client
        .write(inserts(3), Atomicity::ContinueOnError)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Account { .. }));
    let text = error.to_string();
    assert!(text.contains("2 outcomes for 3 items"), "{text}");
}

#[tokio::test]
async fn a_slow_switch_meets_the_deadline() {
    let fake = Fake::start().await.unwrap();
    let mut options = ConnectOptions::new(fake.url(), DEVICE, 5);
    options.deadlines.write = Duration::from_millis(50);
    options.deadlines.read = Duration::from_millis(50);
    let (client, _events) = Client::connect_with(options).await.unwrap();
    fake.state().delay = Duration::from_secs(2);
    let error = client
        .write(inserts(1), Atomicity::ContinueOnError)
        .await
        .unwrap_err();
    assert!(matches!(
        error,
        Error::Deadline {
            method: "Write",
            ..
        }
    ));
    let error = client.read(vec![entry(1).into()]).await.unwrap_err();
    assert!(matches!(error, Error::Deadline { method: "Read", .. }));

    // What a batched write does not know, it says.
    let limits = BatchLimits {
        updates: 2,
        ..BatchLimits::default()
    };
    let error = client.write_batched(inserts(3), limits).await.unwrap_err();
    let Error::Interrupted { outcome, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(
        outcome.statuses,
        [
            UpdateStatus::Unknown,
            UpdateStatus::Unknown,
            UpdateStatus::NotAttempted
        ]
    );
}

#[tokio::test]
async fn updates_of_one_entity_go_out_in_order() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    let updates = vec![
        insert(entry(1)),
        insert(entry(2)),
        modify(entry(1)),
        delete(entry(1)),
        delete(entry(2)),
    ];
    // The second request fails in part; positions are those of the whole list.
    fake.state().write_answers = [Ok(()), Err(refused(1, &[(0, Code::NotFound)])), Ok(())].into();
    let outcome = client
        .write_batched(updates.clone(), BatchLimits::default())
        .await
        .unwrap();
    let failures: Vec<_> = outcome.failures().map(|(at, e)| (at, e.code)).collect();
    assert_eq!(failures, [(2, Code::NotFound)]);

    let requests: Vec<_> = fake
        .state()
        .writes
        .iter()
        .map(|write| write.updates.clone())
        .collect();
    assert_eq!(
        requests,
        [&updates[..2], &updates[2..3], &updates[3..]].map(<[Update]>::to_vec)
    );
}

#[tokio::test]
async fn a_request_that_is_too_large_is_halved() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    fake.state().max_updates = Some(3);
    let outcome = client
        .write_batched(inserts(20), BatchLimits::default())
        .await
        .unwrap();
    assert!(outcome.all_applied());
    assert_eq!(outcome.statuses.len(), 20);
    // 20 and 10 and 5 are refused, 2 fits, and the limit is kept.
    let sizes: Vec<_> = fake
        .state()
        .writes
        .iter()
        .map(|w| w.updates.len())
        .collect();
    assert_eq!(sizes, [2; 10]);
    let keys: Vec<_> = fake
        .state()
        .writes
        .iter()
        .flat_map(|write| write.updates.clone())
        .collect();
    assert_eq!(keys, inserts(20));
}

#[tokio::test]
async fn halving_ends_with_an_error() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    fake.state().max_updates = Some(0);
    let error = client
        .write_batched(inserts(3), BatchLimits::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted));
}

#[tokio::test]
async fn a_batched_write_says_where_it_stopped() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    fake.state().write_answers = [
        Err(refused(2, &[(1, Code::AlreadyExists)])),
        Err(Status::permission_denied("another took over")),
    ]
    .into();
    let limits = BatchLimits {
        updates: 2,
        ..BatchLimits::default()
    };
    let error = client.write_batched(inserts(5), limits).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("stopped after 2 of 5"), "{text}");
    let Error::Interrupted { outcome, source } = error else {
        panic!("{error}");
    };
    assert!(matches!(*source, Error::NotPrimary { .. }));
    let codes: Vec<_> = outcome.statuses.iter().map(UpdateStatus::code).collect();
    assert_eq!(
        codes,
        [Some(Code::Ok), Some(Code::AlreadyExists), None, None, None]
    );
    assert_eq!(outcome.statuses[2], UpdateStatus::NotAttempted);
}

#[tokio::test]
async fn a_read_collects_all_chunks() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    let entities: Vec<Entity> = (0..5).map(|key| entry(key).into()).collect();
    fake.state().chunks = vec![entities[..2].to_vec(), vec![], entities[2..].to_vec()];
    let read = client
        .read(vec![TableEntry::default().into()])
        .await
        .unwrap();
    assert_eq!(read, entities);

    // A read that breaks off is no read, whatever came before.
    fake.state().read_end = Some(Status::unavailable("restarting"));
    let error = client
        .read(vec![TableEntry::default().into()])
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable));

    fake.state().read_end = Some(refused(2, &[(1, Code::InvalidArgument)]));
    let queries = vec![entry(1).into(), Entity::default()];
    let error = client.read(queries).await.unwrap_err();
    let Error::PerUpdate(failures) = error else {
        panic!("{error}");
    };
    assert_eq!(failures.failed[0].0, 1);
    assert_eq!(failures.failed[0].1.code, Code::InvalidArgument);
}

#[tokio::test]
async fn large_answers_are_accepted() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    let large = TableEntry {
        metadata: vec![7; 8 * 1024 * 1024],
        ..TableEntry::default()
    };
    fake.state().chunks = vec![vec![large.clone().into()]];
    let read = client
        .read(vec![TableEntry::default().into()])
        .await
        .unwrap();
    assert_eq!(read, [large.into()]);
}

#[tokio::test]
async fn pipelines_are_set_and_read_back() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    assert_eq!(client.get_pipeline(ResponseType::All).await.unwrap(), None);

    let p4info = P4Info {
        pkg_info: Some(PkgInfo {
            arch: "v1model".into(),
            ..PkgInfo::default()
        }),
        ..P4Info::default()
    };
    client
        .set_pipeline(Action::VerifyAndCommit, p4info.clone(), vec![1, 2], 77)
        .await
        .unwrap();
    let config = client
        .get_pipeline(ResponseType::All)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(config.p4info, Some(p4info));
    assert_eq!(config.p4_device_config, [1, 2]);
    assert_eq!(config.cookie.unwrap().cookie, 77);

    client.commit_pipeline().await.unwrap();
    let state = fake.state();
    assert_eq!(state.set_requests[0].action(), Action::VerifyAndCommit);
    assert_eq!(state.set_requests[0].election_id, Some(5.into()));
    assert_eq!(state.set_requests[1].action(), Action::Commit);
    assert_eq!(state.set_requests[1].config, None);
}

#[tokio::test]
async fn everything_on_the_stream_becomes_an_event() {
    let fake = Fake::start().await.unwrap();
    let (_client, mut events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    next(&mut events).await.unwrap();

    fake.tell(Told::Packet(PacketIn {
        payload: vec![1, 2, 3],
        metadata: vec![metadata(1, 4)],
    }))
    .await;
    let digest = DigestList {
        digest_id: 1,
        list_id: 2,
        ..DigestList::default()
    };
    fake.tell(Told::Digest(digest.clone())).await;
    fake.tell(Told::IdleTimeoutNotification(IdleTimeoutNotification {
        table_entry: vec![entry(9)],
        timestamp: 0,
    }))
    .await;
    let rejected = StreamError {
        canonical_code: 3,
        ..StreamError::default()
    };
    fake.tell(Told::Error(rejected.clone())).await;

    let told = [
        Event::PacketIn {
            payload: vec![1, 2, 3],
            metadata: vec![metadata(1, 4)],
        },
        Event::Digest(digest),
        Event::IdleTimeout(vec![entry(9)]),
        Event::StreamError(rejected),
    ];
    for event in told {
        assert_eq!(next(&mut events).await, Some(event));
    }
}

#[tokio::test]
async fn packets_and_acknowledgements_go_out() {
    let fake = Fake::start().await.unwrap();
    let (client, _events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    client
        .packet_out(vec![1, 2], vec![metadata(1, 9)])
        .await
        .unwrap();
    client.acknowledge_digest(3, 4).await.unwrap();
    assert!(eventually(|| fake.state().asked.len() == 3).await);
    let state = fake.state();
    assert_eq!(
        state.asked[1],
        Asked::Packet(PacketOut {
            payload: vec![1, 2],
            metadata: vec![metadata(1, 9)],
        })
    );
    assert!(matches!(
        &state.asked[2],
        Asked::DigestAck(ack) if ack.digest_id == 3 && ack.list_id == 4
    ));
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_the_events() {
    let fake = Fake::start().await.unwrap();
    let (client, mut events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    next(&mut events).await.unwrap();
    fake.fail_stream(Status::aborted("pipeline reloaded")).await;
    let reason = Disconnect::Failed {
        code: Code::Aborted,
        message: "pipeline reloaded".into(),
    };
    let ended = Event::Disconnected {
        reason: reason.clone(),
    };
    assert_eq!(next(&mut events).await, Some(ended));
    assert_eq!(next(&mut events).await, None);
    assert!(!client.is_primary() && !client.is_connected());
    let error = client.packet_out(vec![], vec![]).await.unwrap_err();
    assert!(matches!(error, Error::Disconnected { reason: told, .. } if told == reason));

    // The server still answers; without a stream nothing is written to it.
    let error = client
        .write(inserts(1), Atomicity::ContinueOnError)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Disconnected { .. }));
    assert_eq!(fake.state().writes, []);
    assert_eq!(client.read(vec![entry(1).into()]).await.unwrap(), []);
}

#[tokio::test]
async fn a_stream_that_is_closed_ends_the_events() {
    let fake = Fake::start().await.unwrap();
    let (_client, mut events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    next(&mut events).await.unwrap();
    fake.close_stream();
    assert_eq!(
        next(&mut events).await,
        Some(Event::Disconnected {
            reason: Disconnect::Closed
        })
    );
}

#[tokio::test]
async fn packets_nobody_reads_are_counted_and_arbitration_still_passes() {
    let fake = Fake::start().await.unwrap();
    let mut options = ConnectOptions::new(fake.url(), DEVICE, 5);
    options.event_capacity = 4;
    let (client, mut events) = Client::connect_with(options).await.unwrap();
    for byte in 0..10 {
        fake.tell(Told::Packet(PacketIn {
            payload: vec![byte],
            metadata: vec![],
        }))
        .await;
    }
    fake.tell(notice(Code::AlreadyExists, Some(8))).await;
    // The first notice and three packets fill the queue.
    assert!(eventually(|| client.packet_ins_dropped() == 7).await);
    assert!(eventually(|| !client.is_primary()).await);

    next(&mut events).await.unwrap();
    for byte in 0..3 {
        let Some(Event::PacketIn { payload, .. }) = next(&mut events).await else {
            panic!("packet {byte} is missing");
        };
        assert_eq!(payload, [byte]);
    }
    assert!(matches!(
        next(&mut events).await,
        Some(Event::Arbitration(Arbitration { primary: false, .. }))
    ));
}

#[tokio::test]
async fn dropping_the_client_closes_the_stream() {
    let fake = Fake::start().await.unwrap();
    let (client, mut events) = Client::connect(&fake.url(), DEVICE, 5, None).await.unwrap();
    next(&mut events).await.unwrap();
    let to_client = fake.state().to_client.clone().unwrap();
    drop(client);
    assert_eq!(next(&mut events).await, None);
    assert!(eventually(|| to_client.is_closed()).await);
}
