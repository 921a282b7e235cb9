//! Requests of any content never make the P4Runtime server panic or hang. The
//! requests are well-formed ones whose bytes were changed here and there, sent
//! over gRPC to a server with the program `testdata/p4rt/p4rt.p4`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod served;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::Duration;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4info;
use prost::Message;
use softswitch::p4rt::Mode;
use tonic::{Code, Status};

use served::{ELECTION, JSON, P4INFO, PANICKED, Target, entities};

const PROGRAMS: [(&str, &str); 3] = [
    (JSON, P4INFO),
    (
        include_str!("../testdata/p4rt/digests.json"),
        include_str!("../testdata/p4rt/digests.p4info.txtpb"),
    ),
    (
        include_str!("../testdata/p4rt/translated.json"),
        include_str!("../testdata/p4rt/translated.p4info.txtpb"),
    ),
];

/// Changes to the bytes of a message: positions (taken modulo its length) and
/// new values; the last one may also cut it short.
type Changes = (Vec<(u16, u8)>, Option<u16>);

fn mutate(seed: &[u8], (edits, cut): &Changes) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    // Few, so that most messages can still be decoded.
    for (position, value) in edits.iter().take(edits.len() % 6) {
        if !bytes.is_empty() {
            let at = usize::from(*position) % bytes.len();
            bytes[at] = *value;
        }
    }
    if let Some(cut) = cut
        && edits.len() % 4 == 3
    {
        bytes.truncate(usize::from(*cut));
    }
    bytes
}

/// Waits for a call and looks at how it ended.
fn check<T>(target: &Target, call: impl Future<Output = Result<T, Status>>) {
    let limit = Duration::from_secs(10);
    let result = target
        .runtime
        .block_on(async { tokio::time::timeout(limit, call).await });
    let result = result.expect("the call hangs");
    if let Err(status) = result {
        let broken = [Code::Internal, Code::Unavailable, Code::Cancelled];
        assert!(!broken.contains(&status.code()), "{status}");
    }
    assert!(!PANICKED.load(Ordering::SeqCst), "something panicked");
}

#[test]
fn requests_of_any_content_are_answered() {
    requests(Mode::Strict, 4000);
}

#[test]
fn requests_of_any_content_are_answered_in_compatible_mode() {
    requests(Mode::Compat, 2000);
}

fn requests(mode: Mode, iterations: usize) {
    // A panic ends the test; nothing broken is used after it.
    let target = AssertUnwindSafe(Target::start_in(mode));
    let entities = entities();
    let kinds = [0, 1, 2, 3];
    bolero::check!()
        .with_type::<(u8, u8, u8, Changes)>()
        .with_iterations(iterations)
        .for_each(|(entity, kind, atomicity, changes)| {
            let target: &Target = &target;
            let seed = &entities[usize::from(*entity) % entities.len()];
            let bytes = mutate(&seed.encode_to_vec(), changes);
            let Ok(entity) = p4::Entity::decode(bytes.as_slice()) else {
                return;
            };
            let update = p4::Update {
                r#type: kinds[usize::from(*kind) % kinds.len()],
                entity: Some(entity.clone()),
            };
            let write = p4::WriteRequest {
                device_id: 1,
                election_id: ELECTION,
                // Twice, so that something can fail behind something else.
                updates: vec![update.clone(), update],
                atomicity: i32::from(*atomicity % 3),
                ..Default::default()
            };
            let mut client = target.client.clone();
            check(target, client.write(write));
            let read = p4::ReadRequest {
                device_id: 1,
                entities: vec![entity],
                ..Default::default()
            };
            check(target, async {
                let mut stream = client.read(read).await?.into_inner();
                while stream.message().await?.is_some() {}
                Ok(())
            });
        });
}

/// One stream message of every kind.
fn stream_messages() -> Vec<p4::StreamMessageRequest> {
    use p4::stream_message_request::Update;
    let info = p4info::from_text(P4INFO).unwrap();
    let arbitration = |low, role: &str| {
        Update::Arbitration(p4::MasterArbitrationUpdate {
            device_id: 1,
            role: (!role.is_empty()).then(|| p4::Role {
                name: role.into(),
                ..Default::default()
            }),
            election_id: Some(p4::Uint128 { high: 0, low }),
            status: None,
        })
    };
    let metadata = |metadata_id, value| p4::PacketMetadata {
        metadata_id,
        value: vec![value],
    };
    let all = [
        arbitration(2, ""),
        arbitration(3, "learner"),
        Update::Packet(p4::PacketOut {
            payload: vec![0xff; 64],
            metadata: vec![metadata(1, 2), metadata(2, 0)],
        }),
        Update::DigestAck(p4::DigestListAck {
            digest_id: info.digests[0].preamble.as_ref().unwrap().id,
            list_id: 1,
        }),
        Update::Other(prost_types::Any {
            type_url: "type.example.org/nothing".into(),
            value: vec![1, 2, 3],
        }),
    ];
    let wrap = |update| p4::StreamMessageRequest {
        update: Some(update),
    };
    let mut all: Vec<_> = all.into_iter().map(wrap).collect();
    all.push(p4::StreamMessageRequest { update: None });
    all
}

#[test]
fn stream_messages_of_any_content_are_handled() {
    // A panic ends the test; nothing broken is used after it.
    let target = AssertUnwindSafe(Target::start_in(Mode::Strict));
    let seeds: Vec<Vec<u8>> = stream_messages()
        .iter()
        .map(Message::encode_to_vec)
        .collect();
    bolero::check!()
        .with_type::<Vec<(u8, Changes)>>()
        .with_iterations(1000)
        .for_each(|messages| {
            let target: &Target = &target;
            let messages: Vec<p4::StreamMessageRequest> = messages
                .iter()
                .take(8)
                .filter_map(|(seed, changes)| {
                    let seed = &seeds[usize::from(*seed) % seeds.len()];
                    Message::decode(mutate(seed, changes).as_slice()).ok()
                })
                .collect();
            let mut client = target.client.clone();
            check(target, async {
                let requests = tokio_stream::iter(messages);
                let mut answers = client.stream_channel(requests).await?.into_inner();
                // The stream ends after the last message, in whatever way.
                while let Ok(Some(_)) = answers.message().await {}
                client
                    .capabilities(p4::CapabilitiesRequest::default())
                    .await?;
                Ok(())
            });
        });
}

#[test]
fn pipelines_of_any_content_are_verified() {
    // A panic ends the test; nothing broken is used after it.
    let target = AssertUnwindSafe(Target::start_in(Mode::Strict));
    let programs = PROGRAMS.map(|(json, info)| (json, p4info::from_text(info).unwrap()));
    bolero::check!()
        .with_type::<(u8, bool, Changes)>()
        .with_iterations(300)
        .for_each(|(which, program, changes)| {
            let target: &Target = &target;
            let (json, info) = &programs[usize::from(*which) % programs.len()];
            let mut config = p4::ForwardingPipelineConfig {
                p4info: Some(info.clone()),
                p4_device_config: json.as_bytes().into(),
                cookie: None,
            };
            if *program {
                config.p4_device_config = mutate(json.as_bytes(), changes);
            } else {
                let bytes = mutate(&info.encode_to_vec(), changes);
                let Ok(info) = Message::decode(bytes.as_slice()) else {
                    return;
                };
                config.p4info = Some(info);
            }
            let request = p4::SetForwardingPipelineConfigRequest {
                device_id: 1,
                election_id: ELECTION,
                action: Action::Verify.into(),
                config: Some(config),
                ..Default::default()
            };
            let mut client = target.client.clone();
            check(target, client.set_forwarding_pipeline_config(request));
        });
}
