//! A switch in memory that fails on demand, and an LD to talk to the core.

#![allow(dead_code)] // each test uses its part

pub mod ld;
pub mod switch;

use std::sync::Arc;
use std::time::Duration;

use offload_api::v1;
use offload_ctl::core::{AdminRequest, Core, Event, Settings};
use offload_ctl::dataplane::Connector;
use offload_ctl::grpc::Api;
use offload_ctl::session;
use offload_ctl::store::Store;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

#[allow(unused_imports)] // each test uses its part
pub use ld::Ld;
pub use switch::FakeSwitch;

/// The lab's gateway.toml.
pub const GATEWAY: &str = include_str!("../../../../config/samples/gateway.toml");

/// A running offload-ctl without sockets.
pub struct Daemon {
    pub events: mpsc::Sender<Event>,
    pub api: Api,
    tasks: Vec<JoinHandle<()>>,
}

pub fn settings() -> Settings {
    Settings {
        batch: 500,
        linger: Duration::from_millis(2),
        absent_ld_grace: Duration::from_secs(900),
        readback: None,
        arp_retry: Duration::from_millis(50),
        arp_refresh: Duration::from_secs(60),
        flow_capacity: 1000,
        target: "fake".to_owned(),
        cookie: 1,
    }
}

pub fn store_dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

impl Daemon {
    /// Starts on a store and a switch.
    pub fn start(dir: &TempDir, switch: &Arc<FakeSwitch>, settings: Settings) -> Self {
        Self::start_with(dir, switch.clone(), settings)
    }

    /// Starts on a store and any kind of switch.
    pub fn start_with(dir: &TempDir, switch: Arc<dyn Connector>, settings: Settings) -> Self {
        let store = Store::open(&dir.path().join("store")).unwrap();
        let (core, events) = Core::new(settings, store).unwrap();
        let tasks = vec![
            tokio::spawn(core.run()),
            tokio::spawn(session::run(switch, events.clone())),
        ];
        Self {
            api: Api::new(events.clone()),
            events,
            tasks,
        }
    }

    /// Starts with the lab's configuration and waits until the switch has it.
    pub async fn start_configured(dir: &TempDir, switch: &Arc<FakeSwitch>) -> Self {
        let daemon = Self::start(dir, switch, settings());
        daemon.apply(GATEWAY).await;
        daemon.converged().await;
        daemon
    }

    /// As by SIGKILL.
    pub async fn kill(self) {
        for task in &self.tasks {
            task.abort();
        }
        for task in self.tasks {
            let _ = task.await;
        }
    }

    pub async fn try_apply(&self, text: &str, dry_run: bool) -> v1::ApplyResponse {
        let request = v1::ApplyRequest {
            config_toml: text.to_owned(),
            dry_run,
            expected_version: 0,
        };
        self.api
            .ask(|reply| AdminRequest::Apply(request, reply))
            .await
            .unwrap()
    }

    pub async fn apply(&self, text: &str) -> v1::ApplyResponse {
        let response = self.try_apply(text, false).await;
        assert_eq!(response.problems, vec![]);
        response
    }

    pub async fn status(&self) -> v1::GetStatusResponse {
        self.api.ask(AdminRequest::GetStatus).await.unwrap()
    }

    pub async fn vips(&self) -> Vec<v1::VipStatus> {
        self.api
            .ask(|reply| AdminRequest::ListVips(v1::ListVipsRequest::default(), reply))
            .await
            .unwrap()
            .response
            .vips
    }

    /// Waits until the switch holds the configuration, next hops that nobody
    /// answers for aside.
    pub async fn converged(&self) {
        eventually("the switch has the configuration", async || {
            self.status().await.switch.unwrap().converged
        })
        .await;
    }

    pub async fn vip(&self, name: &str) -> v1::Vip {
        self.vips()
            .await
            .into_iter()
            .filter_map(|status| status.vip)
            .find(|vip| vip.name == name)
            .unwrap()
    }
}

/// Waits until something holds, 20 s at most: the machine may be busy.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(tokio::time::Instant::now() < until, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
