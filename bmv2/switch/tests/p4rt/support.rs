//! A switch with a server, and a controller for it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::{p4info, status};
use softswitch::p4rt::{Mode, P4RuntimeServer, ServerConfig, Tls};
use softswitch::ports::{ChannelPort, Clock, DataPlane, DataPlaneConfig, PortSpec, channel_port};
use softswitch::{Switch, SwitchConfig};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

pub(crate) const DEVICE: u64 = 1;
pub(crate) const CPU_PORT: u16 = 510;
pub(crate) const JSON: &str = include_str!("../../testdata/p4rt/p4rt.json");
pub(crate) const P4INFO: &str = include_str!("../../testdata/p4rt/p4rt.p4info.txtpb");
/// The successor of the program.
const NEXT_JSON: &str = include_str!("../../testdata/p4rt/next.json");
const NEXT_P4INFO: &str = include_str!("../../testdata/p4rt/next.p4info.txtpb");
/// Long enough for anything that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(5);

pub(crate) fn info() -> &'static P4Info {
    static INFO: OnceLock<P4Info> = OnceLock::new();
    INFO.get_or_init(|| p4info::from_text(P4INFO).unwrap())
}

pub(crate) fn config(cookie: u64) -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(info().clone()),
        p4_device_config: JSON.into(),
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie }),
    }
}

/// The successor of the program: it has a table `types`, no table `smac`, and
/// the parameters of `set_nexthop` the other way round.
pub(crate) fn next_config(cookie: u64) -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(p4info::from_text(NEXT_P4INFO).unwrap()),
        p4_device_config: NEXT_JSON.into(),
        cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie }),
    }
}

/// A running switch; ports 1, 2 and 3 are channels.
pub(crate) struct Bed {
    pub(crate) ports: Vec<ChannelPort>,
    pub(crate) plane: Arc<DataPlane>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) server: Arc<P4RuntimeServer>,
    pub(crate) address: String,
    _stop: oneshot::Sender<()>,
}

impl Bed {
    pub(crate) async fn start() -> Self {
        Self::start_in(Mode::Strict).await
    }

    pub(crate) async fn start_in(mode: Mode) -> Self {
        Self::start_with(mode, None).await
    }

    pub(crate) async fn start_with(mode: Mode, tls: Option<Tls>) -> Self {
        Self::start_as(ServerConfig {
            device_id: DEVICE,
            mode,
            tls,
            ..ServerConfig::default()
        })
        .await
    }

    pub(crate) async fn start_as(config: ServerConfig) -> Self {
        let switch = Switch::new(SwitchConfig {
            cpu_port: Some(CPU_PORT),
            ..SwitchConfig::default()
        });
        let clock = Clock::start();
        let server = Arc::new(P4RuntimeServer::new(config, &switch, clock).unwrap());
        let (mut ports, mut specs) = (Vec::new(), Vec::new());
        for port in 1..=3 {
            let (outer, end) = channel_port();
            ports.push(outer);
            specs.push(PortSpec::Channel { port, end });
        }
        let sink = Arc::clone(&server) as _;
        let plane = DataPlane::start(
            &switch,
            clock,
            specs,
            DataPlaneConfig::default(),
            Some(sink),
        )
        .unwrap();
        let plane = Arc::new(plane);
        server.attach(&plane);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serving.serve([listener], stopped).await.unwrap();
        });
        Self {
            ports,
            plane,
            switch,
            server,
            address,
            _stop: stop,
        }
    }

    pub(crate) async fn client(&self) -> P4RuntimeClient<Channel> {
        P4RuntimeClient::connect(format!("http://{}", self.address))
            .await
            .unwrap()
            .max_decoding_message_size(64 << 20)
    }

    /// A controller that has become primary.
    pub(crate) async fn primary(&self, election: u64) -> Controller {
        let mut controller = Controller::open(self.client().await, election).await;
        assert_eq!(controller.arbitration().await, (Code::Ok, Some(election)));
        controller
    }

    /// A primary that has pushed the program.
    pub(crate) async fn ready(&self) -> Controller {
        let mut controller = self.primary(1).await;
        controller.push(1).await.unwrap();
        controller
    }

    /// What a port sends within a moment.
    pub(crate) async fn receive(&self, port: u16) -> Option<Vec<u8>> {
        for _ in 0..500 {
            if let Some(packet) = self.ports[usize::from(port) - 1].try_receive() {
                return Some(packet);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }

    pub(crate) fn send(&self, port: u16, packet: &[u8]) {
        self.ports[usize::from(port) - 1]
            .send(packet.to_vec())
            .unwrap();
    }
}

/// A controller with its stream.
pub(crate) struct Controller {
    pub(crate) client: P4RuntimeClient<Channel>,
    pub(crate) election: u64,
    up: mpsc::Sender<p4::StreamMessageRequest>,
    down: Streaming<p4::StreamMessageResponse>,
}

pub(crate) fn election_id(low: u64) -> Option<p4::Uint128> {
    Some(p4::Uint128 { high: 0, low })
}

impl Controller {
    /// Opens a stream and sends the first arbitration message.
    pub(crate) async fn open(mut client: P4RuntimeClient<Channel>, election: u64) -> Self {
        let (up, requests) = mpsc::channel(16);
        let mut controller = {
            let requests = ReceiverStream::new(requests);
            let down = client.stream_channel(requests).await.unwrap().into_inner();
            Self {
                client,
                election,
                up,
                down,
            }
        };
        controller
            .send(Up::Arbitration(p4::MasterArbitrationUpdate {
                device_id: DEVICE,
                election_id: election_id(election),
                ..Default::default()
            }))
            .await;
        controller
    }

    pub(crate) async fn send(&mut self, update: Up) {
        self.up
            .send(p4::StreamMessageRequest {
                update: Some(update),
            })
            .await
            .unwrap();
    }

    /// The next message of the switch.
    pub(crate) async fn next(&mut self) -> Result<Down, Status> {
        let message = tokio::time::timeout(SOON, self.down.message()).await;
        let message = message.expect("no message came")?;
        let message = message.ok_or_else(|| Status::cancelled("the stream has ended"))?;
        Ok(message.update.unwrap())
    }

    /// Whether nothing comes for a while.
    pub(crate) async fn is_silent(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.down.message())
            .await
            .is_err()
    }

    /// The next message, an arbitration notice: its status and election id.
    pub(crate) async fn arbitration(&mut self) -> (Code, Option<u64>) {
        match self.next().await.unwrap() {
            Down::Arbitration(update) => (
                Code::from_i32(update.status.unwrap().code),
                update.election_id.map(|id| id.low),
            ),
            other => panic!("not a notice of arbitration: {other:?}"),
        }
    }

    pub(crate) async fn set_pipeline(
        &mut self,
        action: Action,
        config: Option<p4::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: election_id(self.election),
            action: action.into(),
            config,
            ..Default::default()
        };
        self.client
            .set_forwarding_pipeline_config(request)
            .await
            .map(|_| ())
    }

    pub(crate) async fn push(&mut self, cookie: u64) -> Result<(), Status> {
        self.set_pipeline(Action::VerifyAndCommit, Some(config(cookie)))
            .await
    }

    /// Pushes another program.
    pub(crate) async fn push_program(&mut self, json: &str, info: &str) -> Result<(), Status> {
        let config = p4::ForwardingPipelineConfig {
            p4info: Some(p4info::from_text(info).unwrap()),
            p4_device_config: json.into(),
            cookie: None,
        };
        self.set_pipeline(Action::VerifyAndCommit, Some(config))
            .await
    }

    pub(crate) fn request(&self, updates: Vec<p4::Update>) -> p4::WriteRequest {
        p4::WriteRequest {
            device_id: DEVICE,
            election_id: election_id(self.election),
            updates,
            ..Default::default()
        }
    }

    pub(crate) async fn write(&mut self, updates: Vec<p4::Update>) -> Result<(), Status> {
        let request = self.request(updates);
        self.client.write(request).await.map(|_| ())
    }

    /// The code of a single update.
    pub(crate) async fn write_one(&mut self, update: p4::Update) -> Code {
        self.codes(vec![update], Atomicity::ContinueOnError).await[0]
    }

    /// The code of each update.
    pub(crate) async fn codes(
        &mut self,
        updates: Vec<p4::Update>,
        atomicity: Atomicity,
    ) -> Vec<Code> {
        let count = updates.len();
        let mut request = self.request(updates);
        request.atomicity = atomicity.into();
        match self.client.write(request).await {
            Ok(_) => vec![Code::Ok; count],
            Err(error) => {
                assert_eq!(error.code(), Code::Unknown, "{error}");
                let errors = status::update_errors(&error).unwrap().unwrap();
                assert_eq!(errors.len(), count);
                errors.iter().map(p4::Error::grpc_code).collect()
            }
        }
    }

    pub(crate) async fn read(
        &mut self,
        entity: impl Into<p4::Entity>,
    ) -> Result<Vec<p4::entity::Entity>, Status> {
        let (entities, _) = self.read_chunks(vec![entity.into()]).await?;
        Ok(entities)
    }

    /// What the queries give, and in how many messages.
    pub(crate) async fn read_chunks(
        &mut self,
        entities: Vec<p4::Entity>,
    ) -> Result<(Vec<p4::entity::Entity>, usize), Status> {
        let request = p4::ReadRequest {
            device_id: DEVICE,
            entities,
            ..Default::default()
        };
        let mut stream = self.client.read(request).await?.into_inner();
        let (mut all, mut messages) = (Vec::new(), 0);
        while let Some(response) = stream.message().await? {
            messages += 1;
            all.extend(response.entities.into_iter().filter_map(|e| e.entity));
        }
        Ok((all, messages))
    }

    pub(crate) async fn read_entries(&mut self, query: p4::TableEntry) -> Vec<p4::TableEntry> {
        let entities = self.read(query).await.unwrap();
        entities
            .into_iter()
            .map(|entity| match entity {
                p4::entity::Entity::TableEntry(entry) => entry,
                other => panic!("not a table entry: {other:?}"),
            })
            .collect()
    }
}

/// Ids of the program, by name.
pub(crate) fn table_id(name: &str) -> u32 {
    let found = info()
        .tables
        .iter()
        .find(|t| t.preamble.as_ref().unwrap().name == name);
    found.unwrap().preamble.as_ref().unwrap().id
}

pub(crate) fn action_id(name: &str) -> u32 {
    let found = info()
        .actions
        .iter()
        .find(|a| a.preamble.as_ref().unwrap().name == name);
    found.unwrap().preamble.as_ref().unwrap().id
}

pub(crate) fn action(name: &str, params: &[u128]) -> p4::TableAction {
    let params = (1..).zip(params);
    let params = params.map(|(id, value)| p4runtime_proto::entry::param(id, *value));
    p4runtime_proto::entry::direct_action(action_id(name), params.collect())
}

/// An entry of the exact table `l2`.
pub(crate) fn l2(mac: u64, port: u16) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        r#match: vec![p4runtime_proto::entry::exact(1, mac.into())],
        action: Some(action("MyIngress.counted_forward", &[port.into()])),
        ..Default::default()
    }
}

/// An Ethernet frame without IP.
pub(crate) fn frame(dst: u64, src: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(&dst.to_be_bytes()[2..]);
    frame.extend(&src.to_be_bytes()[2..]);
    frame.extend([0x88, 0xb5]); // local experimental EtherType
    frame.resize(64, 0x5a);
    frame
}

/// An IPv4 packet; `dst` and `src` are addresses.
pub(crate) fn ipv4(dst: u32, src: u32, protocol: u8, id: u16) -> Vec<u8> {
    let mut packet = frame(0x0200_0000_0099, 0x0200_0000_0001);
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    let mut header = vec![0x45, 0, 0, 50];
    header.extend(id.to_be_bytes());
    header.extend([0, 0, 64, protocol, 0, 0]);
    header.extend(src.to_be_bytes());
    header.extend(dst.to_be_bytes());
    packet[14..34].copy_from_slice(&header);
    packet
}
