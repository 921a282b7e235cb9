//! Requests of any content never make the P4Runtime server panic or hang. The
//! requests are well-formed ones whose bytes were changed here and there, sent
//! over gRPC to a server with the program `testdata/p4rt/p4rt.p4`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::{entry, p4info};
use prost::Message;
use softswitch::p4rt::{Mode, P4RuntimeServer, ServerConfig};
use softswitch::ports::{Clock, DataPlane, DataPlaneConfig};
use softswitch::{Switch, SwitchConfig};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::Channel;
use tonic::{Code, Status};

const JSON: &str = include_str!("../testdata/p4rt/p4rt.json");
const P4INFO: &str = include_str!("../testdata/p4rt/p4rt.p4info.txtpb");

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

static PANICKED: AtomicBool = AtomicBool::new(false);

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

fn pipeline() -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(p4info::from_text(P4INFO).unwrap()),
        p4_device_config: JSON.into(),
        cookie: None,
    }
}

/// One entity of every kind that the program has.
fn entities() -> Vec<p4::Entity> {
    let info = p4info::from_text(P4INFO).unwrap();
    let table = |position: usize| info.tables[position].preamble.as_ref().unwrap().id;
    let action = |position: usize| info.tables[position].action_refs[0].id;
    let profile = info.action_profiles[0].preamble.as_ref().unwrap().id;
    let nexthop = p4::Action {
        action_id: action(3),
        params: vec![entry::param(1, 2), entry::param(2, 0x0200_0000_0001)],
    };
    let table_entry = |position, fields, action| p4::TableEntry {
        table_id: table(position),
        r#match: fields,
        action: Some(p4::TableAction {
            r#type: Some(action),
        }),
        ..Default::default()
    };
    let call = |position, params| {
        p4::table_action::Type::Action(p4::Action {
            action_id: action(position),
            params,
        })
    };
    let mut l2 = table_entry(
        0,
        vec![entry::exact(1, 7)],
        call(0, vec![entry::param(1, 3)]),
    );
    l2.idle_timeout_ns = 5_000_000_000;
    l2.counter_data = Some(p4::CounterData {
        byte_count: 1,
        packet_count: 2,
    });
    l2.metadata = vec![1, 2, 3];
    let mut acl = table_entry(
        2,
        vec![
            entry::ternary(1, 0x0a00_0000, 0xff00_0000).unwrap(),
            entry::range(2, 6, 17, 8).unwrap(),
            entry::optional(3, 1),
        ],
        call(2, vec![]),
    );
    acl.priority = 9;
    acl.meter_config = Some(p4::MeterConfig {
        cir: 1,
        cburst: 2,
        pir: 3,
        pburst: 4,
        eburst: 0,
    });
    acl.meter_counter_data = Some(p4::MeterCounterData::default());
    let route = table_entry(
        3,
        vec![entry::lpm(1, 0x0a00_0000, 8, 32).unwrap()],
        p4::table_action::Type::ActionProfileActionSet(p4::ActionProfileActionSet {
            action_profile_actions: vec![p4::ActionProfileAction {
                action: Some(nexthop.clone()),
                weight: 3,
                watch_kind: Some(p4::action_profile_action::WatchKind::WatchPort(vec![2])),
            }],
            ..Default::default()
        }),
    );
    let index = Some(p4::Index { index: 3 });
    let key = p4::TableEntry {
        table_id: table(0),
        r#match: vec![entry::exact(1, 7)],
        ..Default::default()
    };
    let replica = p4::Replica {
        port_kind: Some(p4::replica::PortKind::Port(vec![2])),
        instance: 1,
        backup_replicas: vec![p4::BackupReplica {
            port: vec![3],
            instance: 2,
        }],
    };
    vec![
        l2.into(),
        acl.into(),
        route.into(),
        p4::CounterEntry {
            counter_id: info.counters[0].preamble.as_ref().unwrap().id,
            index,
            data: Some(p4::CounterData::default()),
        }
        .into(),
        p4::DirectCounterEntry {
            table_entry: Some(key),
            data: Some(p4::CounterData::default()),
        }
        .into(),
        p4::MeterEntry {
            meter_id: info.meters[0].preamble.as_ref().unwrap().id,
            index,
            config: Some(p4::MeterConfig::default()),
            counter_data: Some(p4::MeterCounterData::default()),
        }
        .into(),
        p4::RegisterEntry {
            register_id: info.registers[0].preamble.as_ref().unwrap().id,
            index,
            data: Some(p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(vec![1])),
            }),
        }
        .into(),
        p4::ActionProfileMember {
            action_profile_id: profile,
            member_id: 1,
            action: Some(nexthop),
        }
        .into(),
        p4::ActionProfileGroup {
            action_profile_id: profile,
            group_id: 1,
            members: vec![p4::action_profile_group::Member {
                member_id: 1,
                weight: 2,
                watch_kind: Some(p4::action_profile_group::member::WatchKind::Watch(2)),
            }],
            max_size: 4,
        }
        .into(),
        p4::MulticastGroupEntry {
            multicast_group_id: 1,
            replicas: vec![replica.clone()],
            metadata: vec![],
        }
        .into(),
        p4::CloneSessionEntry {
            session_id: 1,
            replicas: vec![replica],
            class_of_service: 0,
            packet_length_bytes: 64,
        }
        .into(),
        p4::DigestEntry {
            digest_id: info.digests[0].preamble.as_ref().unwrap().id,
            config: Some(p4::digest_entry::Config::default()),
        }
        .into(),
    ]
}

struct Target {
    runtime: Runtime,
    client: P4RuntimeClient<Channel>,
    _plane: Arc<DataPlane>,
    _stream: tokio::sync::mpsc::Sender<p4::StreamMessageRequest>,
}

const ELECTION: Option<p4::Uint128> = Some(p4::Uint128 { high: 0, low: 1 });

impl Target {
    fn start() -> Self {
        Self::start_in(Mode::Strict)
    }

    fn start_in(mode: Mode) -> Self {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICKED.store(true, Ordering::SeqCst);
            hook(info);
        }));
        let runtime = Runtime::new().unwrap();
        let switch = Switch::new(SwitchConfig {
            cpu_port: Some(510),
            ..SwitchConfig::default()
        });
        let clock = Clock::start();
        let config = ServerConfig {
            mode,
            ..ServerConfig::default()
        };
        let server = Arc::new(P4RuntimeServer::new(config, &switch, clock).unwrap());
        let sink = Arc::clone(&server) as _;
        let plane = DataPlane::start(
            &switch,
            clock,
            vec![],
            DataPlaneConfig::default(),
            Some(sink),
        )
        .unwrap();
        let plane = Arc::new(plane);
        server.attach(&plane);
        server.preload(pipeline()).unwrap();
        let (client, stream) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
            let mut client = P4RuntimeClient::connect(address).await.unwrap();
            let (stream, requests) = tokio::sync::mpsc::channel(16);
            let arbitration = p4::MasterArbitrationUpdate {
                device_id: 1,
                election_id: ELECTION,
                ..Default::default()
            };
            let message = p4::stream_message_request::Update::Arbitration(arbitration);
            let message = p4::StreamMessageRequest {
                update: Some(message),
            };
            stream.send(message).await.unwrap();
            let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
            let mut answers = client.stream_channel(requests).await.unwrap().into_inner();
            answers.message().await.unwrap().unwrap();
            tokio::spawn(async move { while let Ok(Some(_)) = answers.message().await {} });
            (client, stream)
        });
        Self {
            runtime,
            client,
            _plane: plane,
            _stream: stream,
        }
    }

    /// Waits for a call and looks at how it ended.
    fn check<T>(&self, call: impl Future<Output = Result<T, Status>>) {
        let limit = Duration::from_secs(10);
        let result = self
            .runtime
            .block_on(async { tokio::time::timeout(limit, call).await });
        let result = result.expect("the call hangs");
        if let Err(status) = result {
            let broken = [Code::Internal, Code::Unavailable, Code::Cancelled];
            assert!(!broken.contains(&status.code()), "{status}");
        }
        assert!(!PANICKED.load(Ordering::SeqCst), "something panicked");
    }
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
            target.check(client.write(write));
            let read = p4::ReadRequest {
                device_id: 1,
                entities: vec![entity],
                ..Default::default()
            };
            target.check(async {
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
    let target = AssertUnwindSafe(Target::start());
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
            target.check(async {
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
    let target = AssertUnwindSafe(Target::start());
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
            target.check(client.set_forwarding_pipeline_config(request));
        });
}
