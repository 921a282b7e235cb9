//! A P4Runtime server with the program `testdata/p4rt/p4rt.p4`, for requests
//! that chance makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::{entry, p4info};
use softswitch::p4rt::{Mode, P4RuntimeServer, ServerConfig};
use softswitch::ports::{Clock, DataPlane, DataPlaneConfig};
use softswitch::{Switch, SwitchConfig};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

pub(crate) const JSON: &str = include_str!("../../testdata/p4rt/p4rt.json");
pub(crate) const P4INFO: &str = include_str!("../../testdata/p4rt/p4rt.p4info.txtpb");

/// Whether any thread has panicked.
pub(crate) static PANICKED: AtomicBool = AtomicBool::new(false);

fn pipeline() -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(p4info::from_text(P4INFO).unwrap()),
        p4_device_config: JSON.into(),
        cookie: None,
    }
}

/// One entity of every kind that the program has.
pub(crate) fn entities() -> Vec<p4::Entity> {
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

/// A server with the program, and its primary.
pub(crate) struct Target {
    pub(crate) runtime: Runtime,
    pub(crate) client: P4RuntimeClient<Channel>,
    _plane: Arc<DataPlane>,
    _stream: tokio::sync::mpsc::Sender<p4::StreamMessageRequest>,
}

pub(crate) const ELECTION: Option<p4::Uint128> = Some(p4::Uint128 { high: 0, low: 1 });

impl Target {
    pub(crate) fn start_in(mode: Mode) -> Self {
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
            tokio::spawn(async move { server.serve([listener], std::future::pending()).await });
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
}
