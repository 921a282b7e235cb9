//! The control thread, with workers that the test plays through their rings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use offload_api::v1::{Adopt, ctl_message::Message as Ctl, ld_message::Message as Ld};
use slowpath::control::{Control, Link, Rings, Shutdown, run};
use slowpath::message::{Command, Event};
use slowpath::status::Status;
use sluice_config::ApiAddress;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use crate::ctl::{Attached, FakeCtl};
use crate::{LIMIT, common};

pub(crate) struct World {
    rings: Vec<Rings>,
    notify: Arc<Notify>,
    pub(crate) shutdown: watch::Sender<Shutdown>,
    pub(crate) status: watch::Receiver<Arc<Status>>,
    pub(crate) control: JoinHandle<()>,
    pub(crate) path: PathBuf,
    // Removed at the end.
    _folder: tempfile::TempDir,
}

fn counting_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl World {
    pub(crate) fn new(workers: usize) -> Self {
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

    pub(crate) fn tell(&self, worker: usize, event: Event) {
        self.rings[worker].events.push(event).unwrap();
        self.notify.notify_one();
    }

    /// The next command apart from requests for reports, which are answered.
    pub(crate) async fn command(&self, worker: usize) -> Command {
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
    pub(crate) async fn assert_quiet(&self, worker: usize) {
        for _ in 0..100 {
            match self.rings[worker].commands.pop() {
                Some(Command::Report(report)) => self.tell(worker, Event::Report(report)),
                Some(command) => panic!("{command:?}"),
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    /// The lost connection has been noticed.
    pub(crate) async fn disconnected(&self) {
        let until = Instant::now() + LIMIT;
        while self.status.borrow().gauges.get("offload_ctl_connected") != Some(&0) {
            assert!(Instant::now() < until, "not noticed in time");
            for worker in 0..self.rings.len() {
                self.assert_quiet(worker).await;
            }
        }
    }

    /// Attached, configured and open; the workers have nothing of the past.
    pub(crate) async fn ready(workers: usize) -> (Self, FakeCtl, Attached) {
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
