//! The control thread against an offload-ctl that the test plays, over a real
//! stream on a Unix socket. The workers are played by the test as well, through
//! their rings.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use offload_api::v1::{
    self, Adopt, CtlMessage, FlowPair, FlowTotals, Installed, LdMessage, Removed, Welcome,
    ctl_message::Message as Ctl, ld_message::Message as Ld, offload_server,
};
use slowpath::control::{Control, Link, Rings, Shutdown, run};
use slowpath::message::{Command, Event};
use slowpath::status::Status;
use sluice_config::ApiAddress;
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::{Request, Response, Streaming};

/// Nothing here takes longer, unless it hangs.
const LIMIT: Duration = Duration::from_secs(10);

// -------------------------------------------------------- a played offload-ctl

struct Service(mpsc::Sender<Attached>);

/// One stream of the LD.
struct Attached {
    from_ld: Streaming<LdMessage>,
    to_ld: mpsc::Sender<Result<CtlMessage, tonic::Status>>,
}

#[tonic::async_trait]
impl offload_server::Offload for Service {
    type AttachStream = Pin<Box<ReceiverStream<Result<CtlMessage, tonic::Status>>>>;

    async fn attach(
        &self,
        request: Request<Streaming<LdMessage>>,
    ) -> Result<Response<Self::AttachStream>, tonic::Status> {
        let (to_ld, stream) = mpsc::channel(64);
        let attached = Attached {
            from_ld: request.into_inner(),
            to_ld,
        };
        self.0.send(attached).await.unwrap();
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

struct FakeCtl {
    streams: mpsc::Receiver<Attached>,
    server: JoinHandle<()>,
}

impl FakeCtl {
    fn start(path: &Path) -> Self {
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).unwrap();
        let (streams_in, streams) = mpsc::channel(4);
        let service = offload_server::OffloadServer::new(Service(streams_in));
        let server = tokio::spawn(async move {
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(UnixListenerStream::new(listener))
                .await
                .unwrap();
        });
        Self { streams, server }
    }

    async fn accept(&mut self) -> Attached {
        tokio::time::timeout(LIMIT, self.streams.recv())
            .await
            .expect("no stream in time")
            .unwrap()
    }

    /// As `kill -9`: no goodbye.
    async fn kill(self, attached: Attached) {
        self.server.abort();
        drop(attached);
        let _ = self.server.await;
    }
}

impl Attached {
    /// The next message apart from heartbeats.
    async fn next(&mut self) -> Ld {
        loop {
            let message = tokio::time::timeout(LIMIT, self.from_ld.message())
                .await
                .expect("no message in time")
                .unwrap()
                .expect("the stream ended")
                .message
                .unwrap();
            if !matches!(message, Ld::Heartbeat(_)) {
                return message;
            }
        }
    }

    async fn heartbeat_with(&mut self, ready: impl Fn(&v1::Heartbeat) -> bool) -> v1::Heartbeat {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let message = tokio::time::timeout(LIMIT, self.from_ld.message())
                .await
                .expect("no message in time")
                .unwrap()
                .unwrap();
            if let Some(Ld::Heartbeat(heartbeat)) = message.message
                && ready(&heartbeat)
            {
                return heartbeat;
            }
        }
        panic!("no such heartbeat");
    }

    async fn say(&self, message: Ctl) {
        self.to_ld
            .send(Ok(CtlMessage {
                message: Some(message),
            }))
            .await
            .unwrap();
    }

    /// Hello, Welcome and an empty Resync.
    async fn greet(&mut self, new_boot: bool) -> v1::Hello {
        let Ld::Hello(hello) = self.next().await else {
            panic!("Hello comes first");
        };
        self.say(Ctl::Welcome(Welcome {
            api_revision: offload_api::API_REVISION,
            heartbeat_ms: 100,
            new_boot,
        }))
        .await;
        hello
    }
}

// ------------------------------------------------------------- played workers

struct World {
    rings: Vec<Rings>,
    notify: Arc<Notify>,
    shutdown: watch::Sender<Shutdown>,
    status: watch::Receiver<Arc<Status>>,
    control: JoinHandle<()>,
    path: PathBuf,
    // Removed at the end.
    _folder: tempfile::TempDir,
}

fn counting_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl World {
    fn new(workers: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("offload.sock");
        let rings: Vec<Rings> = (0..workers).map(|_| Rings::new()).collect();
        let links = rings
            .iter()
            .map(|r| Link::new(r.clone(), Box::new(|| {}), Instant::now()))
            .collect();
        let notify = Arc::new(Notify::new());
        let (shutdown, stopped) = watch::channel(Shutdown::No);
        let (status_in, status) = watch::channel(Arc::default());
        let control = Control::new("ld1".to_owned(), links, counting_id, Instant::now());
        let control = tokio::spawn(run(
            control,
            ApiAddress::Unix(path.clone()),
            Arc::clone(&notify),
            stopped,
            status_in,
        ));
        Self {
            rings,
            notify,
            shutdown,
            status,
            control,
            path,
            _folder: folder,
        }
    }

    fn tell(&self, worker: usize, event: Event) {
        self.rings[worker].events.push(event).unwrap();
        self.notify.notify_one();
    }

    /// The next command apart from requests for reports, which are answered.
    async fn command(&self, worker: usize) -> Command {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            match self.rings[worker].commands.pop() {
                Some(Command::Report(report)) => self.tell(worker, Event::Report(report)),
                Some(command) => return command,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        panic!("no command in time");
    }

    /// There is no command (but for reports) for a while.
    async fn assert_quiet(&self, worker: usize) {
        for _ in 0..100 {
            match self.rings[worker].commands.pop() {
                Some(Command::Report(report)) => self.tell(worker, Event::Report(report)),
                Some(command) => panic!("{command:?}"),
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    /// The lost connection has been noticed.
    async fn disconnected(&self) {
        let until = Instant::now() + LIMIT;
        while self.status.borrow().gauges.get("offload_ctl_connected") != Some(&0) {
            assert!(Instant::now() < until, "not noticed in time");
            for worker in 0..self.rings.len() {
                self.assert_quiet(worker).await;
            }
        }
    }

    /// Attached, configured and open; the workers have nothing of the past.
    async fn ready(workers: usize) -> (Self, FakeCtl, Attached) {
        let world = Self::new(workers);
        let mut ctl = FakeCtl::start(&world.path);
        let mut ld = ctl.accept().await;
        ld.greet(true).await;
        assert!(matches!(ld.next().await, Ld::Resync(r) if r.done && r.flows.is_empty()));
        ld.say(Ctl::Snapshot(common::snapshot())).await;
        ld.say(Ctl::Adopt(Adopt {
            flows: vec![],
            done: true,
        }))
        .await;
        for worker in 0..workers {
            assert!(matches!(world.command(worker).await, Command::Configure(c) if c.version == 7));
            assert!(matches!(world.command(worker).await, Command::Open));
            world.tell(worker, Event::Configured { version: 7 });
        }
        let Ld::SnapshotAck(ack) = ld.next().await else {
            panic!("SnapshotAck");
        };
        assert_eq!((ack.version, ack.error.as_str()), (7, ""));
        (world, ctl, ld)
    }
}

fn flow(id: u64, local_port: u32) -> FlowPair {
    FlowPair {
        session_id: id,
        vip_id: 1,
        vip_port: 80,
        protocol: 6,
        client_addr: 0x0a01_0002,
        client_port: 40_000,
        server_id: 1,
        local_id: 1,
        local_port,
        idle_timeout_ms: 10_000,
        generation: 1,
    }
}

fn totals(id: u64, packets: u64) -> FlowTotals {
    FlowTotals {
        session_id: id,
        fwd_packets: packets,
        ..FlowTotals::default()
    }
}

fn ids(flows: &[FlowPair]) -> Vec<u64> {
    flows.iter().map(|f| f.session_id).collect()
}

// ---------------------------------------------------------------------- tests

#[tokio::test]
async fn ports_are_handed_out_only_after_everything_was_taken_over() {
    let world = World::new(2);
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let hello = ld.greet(true).await;
    assert_eq!((hello.name.as_str(), hello.workers), ("ld1", 2));
    assert_eq!(hello.config_version, 0);
    assert_eq!(hello.api_revision, offload_api::API_REVISION);
    assert!(matches!(ld.next().await, Ld::Resync(_)));

    // Entries arrive before the configuration and are held until then.
    ld.say(Ctl::Adopt(Adopt {
        flows: vec![flow(900, 2001)],
        done: false,
    }))
    .await;
    world.assert_quiet(1).await;
    ld.say(Ctl::Snapshot(common::snapshot())).await;
    assert!(matches!(world.command(0).await, Command::Configure(_)));
    assert!(matches!(world.command(1).await, Command::Configure(_)));
    // Port 2001 has shard 1: worker 1 of 2.
    assert!(matches!(world.command(1).await, Command::Adopt(f) if *f == flow(900, 2001)));
    ld.say(Ctl::Adopt(Adopt {
        flows: vec![flow(901, 2002)],
        done: true,
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Adopt(f) if *f == flow(901, 2002)));
    world.assert_quiet(0).await;
    world.assert_quiet(1).await;
    world.tell(
        1,
        Event::Adopted {
            flow: Box::new(flow(900, 2001)),
            result: Ok(55),
        },
    );
    world.assert_quiet(1).await;
    world.tell(
        0,
        Event::Adopted {
            flow: Box::new(flow(901, 2002)),
            result: Err("the VIP is not configured".to_owned()),
        },
    );
    assert!(matches!(world.command(0).await, Command::Open));
    assert!(matches!(world.command(1).await, Command::Open));

    let mut told = Vec::new();
    while told.len() < 2 {
        match ld.next().await {
            Ld::Adopted(adopted) => told.extend(adopted.sessions),
            other => panic!("{other:?}"),
        }
    }
    told.sort_by_key(|one| one.adopt_id);
    assert_eq!((told[0].adopt_id, told[0].session_id), (900, 55));
    assert_eq!(told[0].refused, "");
    assert_eq!(told[1].adopt_id, 901);
    assert_eq!(told[1].refused, "the VIP is not configured");

    // What was taken over is on the switch, as far as this process knows.
    ld.say(Ctl::Idle(v1::Idle {
        session_ids: vec![55],
    }))
    .await;
    assert!(matches!(world.command(1).await, Command::Idle(55)));
}

#[tokio::test]
async fn offload_there_and_back() {
    let (world, _ctl, mut ld) = World::ready(2).await;
    world.tell(0, Event::Install(flow(1, 2000)));
    world.tell(1, Event::Install(flow(2, 2001)));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        match ld.next().await {
            Ld::Install(install) => asked.extend(install.flows),
            other => panic!("{other:?}"),
        }
    }
    asked.sort_by_key(|f| f.session_id);
    assert_eq!(asked, [flow(1, 2000), flow(2, 2001)]);
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![1],
    }))
    .await;
    ld.say(Ctl::Rejected(v1::Rejected {
        sessions: vec![v1::rejected::One {
            session_id: 2,
            reason: v1::RejectReason::TableFull.into(),
            detail: "flow_fwd_v4 is full".to_owned(),
        }],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Installed(1)));
    assert!(matches!(
        world.command(1).await,
        Command::Rejected(2, v1::RejectReason::TableFull)
    ));
    let heartbeat = {
        // Reports have to come back for the figures to be renewed.
        let answer = async {
            loop {
                world.assert_quiet(0).await;
                world.assert_quiet(1).await;
            }
        };
        tokio::select! {
            heartbeat = ld.heartbeat_with(|h| h.gauges.get("offload_count") == Some(&1)) => heartbeat,
            () = answer => unreachable!(),
        }
    };
    assert!(heartbeat.healthy);
    assert_eq!(heartbeat.gauges["offloaded_sessions"], 1);
    assert!(heartbeat.gauges["offload_p50_us"] > 0);
    assert!(heartbeat.gauges["offload_p99_us"] >= heartbeat.gauges["offload_p50_us"]);
    assert_eq!(heartbeat.counters["offload.requested"], 2);
    assert_eq!(heartbeat.counters["offload.rejected"], 1);
    assert_eq!(heartbeat.counters["rx_packets"], 0);
    assert!(world.status.borrow().ready);

    world.tell(
        0,
        Event::Remove {
            session_id: 1,
            reason: v1::RemoveReason::Closed,
        },
    );
    let Ld::Remove(remove) = ld.next().await else {
        panic!("Remove");
    };
    assert_eq!(remove.session_ids, [1]);
    assert_eq!(remove.reason(), v1::RemoveReason::Closed);
    ld.say(Ctl::Removed(Removed {
        sessions: vec![totals(1, 42)],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Removed(t) if t == totals(1, 42)));
}

#[tokio::test]
async fn a_restarted_controller_is_told_everything_again() {
    let (world, ctl, mut ld) = World::ready(1).await;
    for id in 1..=3 {
        world.tell(0, Event::Install(flow(id, 2000 + id as u32)));
    }
    let mut asked = 0;
    while asked < 3 {
        if let Ld::Install(install) = ld.next().await {
            asked += install.flows.len();
        }
    }
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![1, 2],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Installed(1)));
    assert!(matches!(world.command(0).await, Command::Installed(2)));
    world.tell(
        0,
        Event::Remove {
            session_id: 2,
            reason: v1::RemoveReason::Closed,
        },
    );
    assert!(matches!(ld.next().await, Ld::Remove(_)));
    ctl.kill(ld).await;
    world.disconnected().await;

    // Meanwhile work goes on: a new session, and the end of one.
    world.tell(0, Event::Install(flow(4, 2004)));
    world.tell(0, Event::Install(flow(5, 2005)));
    world.tell(
        0,
        Event::Remove {
            session_id: 5,
            reason: v1::RemoveReason::Closed,
        },
    );
    // Session 5 was never told to anybody: its port is free at once. The port
    // of session 2 is not.
    assert!(matches!(world.command(0).await, Command::Removed(t) if t == totals(5, 0)));
    world.assert_quiet(0).await;

    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let hello = ld.greet(false).await;
    assert_eq!(hello.config_version, 7);
    let Ld::Resync(resync) = ld.next().await else {
        panic!("Resync");
    };
    assert_eq!(ids(&resync.flows), [1, 3]);
    assert_eq!(resync.removing, [2]);
    assert!(resync.done);
    let (mut installs, mut removes) = (Vec::new(), Vec::new());
    while installs.len() < 2 || removes.is_empty() {
        match ld.next().await {
            Ld::Install(install) => installs.extend(ids(&install.flows)),
            Ld::Remove(remove) => removes.extend(remove.session_ids),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((installs, removes), (vec![3, 4], vec![2]));
    ld.say(Ctl::Removed(Removed {
        sessions: vec![totals(2, 9)],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Removed(t) if t == totals(2, 9)));

    // The same configuration again changes nothing and is acknowledged.
    ld.say(Ctl::Snapshot(common::snapshot())).await;
    assert!(matches!(ld.next().await, Ld::SnapshotAck(ack) if ack.version == 7));
    world.assert_quiet(0).await;
}

#[tokio::test]
async fn the_boot_id_stays_unless_nothing_was_taken_over_yet() {
    let world = World::new(1);
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let first = ld.greet(true).await.boot_id;
    // Lost before the sessions of the past were named.
    ctl.kill(ld).await;
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let second = ld.greet(true).await.boot_id;
    assert_ne!(first, second);
    ld.say(Ctl::Snapshot(common::snapshot())).await;
    ld.say(Ctl::Adopt(Adopt {
        flows: vec![],
        done: true,
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Configure(_)));
    assert!(matches!(world.command(0).await, Command::Open));
    ctl.kill(ld).await;
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    assert_eq!(ld.greet(false).await.boot_id, second);
}

#[tokio::test]
async fn a_bad_configuration_is_refused_and_the_old_one_stays() {
    let (world, _ctl, mut ld) = World::ready(1).await;
    let mut bad = common::snapshot();
    bad.version = 8;
    bad.vips[1].vip_id = 1;
    ld.say(Ctl::Snapshot(bad)).await;
    let Ld::SnapshotAck(ack) = ld.next().await else {
        panic!("SnapshotAck");
    };
    assert_eq!(ack.version, 8);
    assert_eq!(ack.error, "two vips have the identifier 1");
    world.assert_quiet(0).await;
}

#[tokio::test]
async fn questions_go_to_all_workers_and_one_answer_comes_back() {
    let (world, _ctl, mut ld) = World::ready(2).await;
    ld.say(Ctl::Explain(v1::ExplainQuery {
        query_id: 77,
        tuple: Some(v1::Tuple {
            dst_port: 80,
            ..v1::Tuple::default()
        }),
    }))
    .await;
    for worker in 0..2 {
        assert!(matches!(
            world.command(worker).await,
            Command::Explain { query_id: 77, tuple } if tuple.dst_port == 80
        ));
    }
    world.tell(
        0,
        Event::Explained(Box::new(v1::ExplainAnswer {
            query_id: 77,
            facts: vec!["no session on worker 0".to_owned()],
            ..v1::ExplainAnswer::default()
        })),
    );
    let found = v1::ExplainAnswer {
        query_id: 77,
        found: true,
        worker: 1,
        ..v1::ExplainAnswer::default()
    };
    world.tell(1, Event::Explained(Box::new(found.clone())));
    assert!(matches!(ld.next().await, Ld::Explain(answer) if answer == found));

    // Nobody knows it: what all of them say.
    ld.say(Ctl::Explain(v1::ExplainQuery {
        query_id: 78,
        tuple: None,
    }))
    .await;
    for worker in 0..2 {
        assert!(matches!(
            world.command(worker).await,
            Command::Explain { query_id: 78, .. }
        ));
        world.tell(
            worker,
            Event::Explained(Box::new(v1::ExplainAnswer {
                query_id: 78,
                facts: vec![format!("no session on worker {worker}")],
                ..v1::ExplainAnswer::default()
            })),
        );
    }
    let Ld::Explain(answer) = ld.next().await else {
        panic!("ExplainAnswer");
    };
    assert!(!answer.found);
    assert_eq!(
        answer.facts,
        ["no session on worker 0", "no session on worker 1"]
    );
}

#[tokio::test]
async fn switch_state_kills_and_evictions_reach_the_workers() {
    let (world, _ctl, mut ld) = World::ready(2).await;
    ld.say(Ctl::SwitchState(v1::SwitchState {
        up: false,
        detail: "the switch is away".to_owned(),
    }))
    .await;
    ld.say(Ctl::Kill(v1::Kill {
        vip_id: 1,
        server_id: 2,
    }))
    .await;
    for worker in 0..2 {
        assert!(matches!(
            world.command(worker).await,
            Command::SwitchState { up: false }
        ));
        assert!(matches!(
            world.command(worker).await,
            Command::Kill {
                vip_id: 1,
                server_id: 2
            }
        ));
    }
    world.tell(1, Event::Install(flow(3, 2001)));
    assert!(matches!(ld.next().await, Ld::Install(_)));
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![3],
    }))
    .await;
    ld.say(Ctl::Evicted(v1::Evicted {
        sessions: vec![totals(3, 4)],
        why: "the switch was restarted".to_owned(),
    }))
    .await;
    assert!(matches!(world.command(1).await, Command::Installed(3)));
    assert!(matches!(world.command(1).await, Command::Evicted(t) if t == totals(3, 4)));
}

#[tokio::test]
async fn a_stop_leaves_the_switch_alone_and_a_drain_empties_it() {
    let (world, _ctl, mut ld) = World::ready(1).await;
    world.tell(0, Event::Install(flow(1, 2000)));
    assert!(matches!(ld.next().await, Ld::Install(_)));
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![1],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Installed(1)));
    world.shutdown.send(Shutdown::Drain).unwrap();
    assert!(matches!(world.command(0).await, Command::Drain));
    world.assert_quiet(0).await;
    world.tell(
        0,
        Event::Remove {
            session_id: 1,
            reason: v1::RemoveReason::Kill,
        },
    );
    assert!(matches!(ld.next().await, Ld::Remove(_)));
    world.assert_quiet(0).await;
    ld.say(Ctl::Removed(Removed {
        sessions: vec![totals(1, 1)],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Removed(_)));
    assert!(matches!(world.command(0).await, Command::Stop));
    tokio::time::timeout(LIMIT, world.control)
        .await
        .unwrap()
        .unwrap();

    let (world, _ctl, mut ld) = World::ready(1).await;
    world.tell(0, Event::Install(flow(1, 2000)));
    assert!(matches!(ld.next().await, Ld::Install(_)));
    world.shutdown.send(Shutdown::Stop).unwrap();
    assert!(matches!(world.command(0).await, Command::Stop));
    tokio::time::timeout(LIMIT, world.control)
        .await
        .unwrap()
        .unwrap();
    // The stream ends without a Remove.
    loop {
        match ld.from_ld.message().await {
            Ok(Some(LdMessage {
                message: Some(Ld::Heartbeat(_)),
            })) => {}
            Ok(Some(other)) => panic!("{other:?}"),
            Ok(None) | Err(_) => break,
        }
    }
}

#[tokio::test]
async fn a_stuck_worker_makes_the_process_unhealthy() {
    let (world, _ctl, _ld) = World::ready(2).await;
    // Worker 1 never answers.
    let mut status = world.status.clone();
    let unhealthy = async {
        loop {
            world.assert_quiet(0).await;
            let now = status.borrow_and_update().clone();
            if !now.healthy && now.detail.contains("worker") {
                return now;
            }
        }
    };
    let status = tokio::time::timeout(LIMIT, unhealthy).await.unwrap();
    assert_eq!(status.detail, "no answer from worker 1");
    assert!(!status.ready);
}
