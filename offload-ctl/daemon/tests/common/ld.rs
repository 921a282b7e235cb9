//! A load director that says what the test tells it to.

use std::time::Duration;

use offload_api::API_REVISION;
use offload_api::v1::{self, ctl_message, ld_message};
use offload_ctl::core::{Event, LdEvent};
use tokio::sync::mpsc;
use tonic::Status;

use super::Daemon;

pub struct Ld {
    stream: u64,
    events: mpsc::Sender<Event>,
    inbox: mpsc::Receiver<Result<v1::CtlMessage, Status>>,
    pub snapshot: v1::Snapshot,
    pub new_boot: bool,
}

static STREAMS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1_000_000);

impl Ld {
    /// Says Hello and hears Welcome, Snapshot and SwitchState.
    pub async fn attach(daemon: &Daemon, boot_id: u64) -> Self {
        Self::try_attach(daemon, "ld1", boot_id).await.unwrap()
    }

    pub async fn try_attach(daemon: &Daemon, name: &str, boot_id: u64) -> Result<Self, Status> {
        let stream = STREAMS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (sender, inbox) = mpsc::channel(4096);
        let hello = v1::Hello {
            name: name.to_owned(),
            boot_id,
            workers: 2,
            config_version: 0,
            api_revision: API_REVISION,
            software: "test".to_owned(),
        };
        daemon
            .events
            .send(Event::Ld(LdEvent::Hello {
                stream,
                hello,
                sender,
            }))
            .await
            .unwrap();
        let mut ld = Self {
            stream,
            events: daemon.events.clone(),
            inbox,
            snapshot: v1::Snapshot::default(),
            new_boot: false,
        };
        let ctl_message::Message::Welcome(welcome) = ld.hear().await? else {
            panic!("Welcome comes first");
        };
        ld.new_boot = welcome.new_boot;
        let ctl_message::Message::Snapshot(snapshot) = ld.hear().await? else {
            panic!("Snapshot comes second");
        };
        ld.snapshot = snapshot;
        let ctl_message::Message::SwitchState(_) = ld.hear().await? else {
            panic!("SwitchState comes third");
        };
        Ok(ld)
    }

    /// Attaches and has nothing to tell.
    pub async fn attach_empty(daemon: &Daemon, boot_id: u64) -> Self {
        let ld = Self::attach(daemon, boot_id).await;
        ld.resync(vec![], vec![]).await;
        ld
    }

    pub async fn say(&self, message: ld_message::Message) {
        let event = LdEvent::Message {
            stream: self.stream,
            message,
        };
        self.events.send(Event::Ld(event)).await.unwrap();
    }

    pub async fn install(&self, flows: Vec<v1::FlowPair>) {
        self.say(ld_message::Message::Install(v1::Install { flows }))
            .await;
    }

    pub async fn remove(&self, session_ids: Vec<u64>) {
        self.say(ld_message::Message::Remove(v1::Remove {
            session_ids,
            reason: v1::RemoveReason::Closed.into(),
        }))
        .await;
    }

    pub async fn resync(&self, flows: Vec<v1::FlowPair>, removing: Vec<u64>) {
        self.say(ld_message::Message::Resync(v1::Resync {
            flows,
            removing,
            done: true,
        }))
        .await;
    }

    /// The stream breaks.
    pub async fn leave(self) {
        let event = LdEvent::Gone {
            stream: self.stream,
        };
        self.events.send(Event::Ld(event)).await.unwrap();
    }

    /// The next message, within 20 s.
    pub async fn hear(&mut self) -> Result<ctl_message::Message, Status> {
        let message = tokio::time::timeout(Duration::from_secs(20), self.inbox.recv())
            .await
            .expect("a message comes");
        Ok(message
            .expect("the stream is open")?
            .message
            .expect("no message is empty"))
    }

    /// The next message that is not about the switch or the configuration.
    pub async fn answer(&mut self) -> ctl_message::Message {
        loop {
            match self.hear().await.unwrap() {
                ctl_message::Message::SwitchState(_) => {}
                ctl_message::Message::Snapshot(snapshot) => self.snapshot = snapshot,
                ctl_message::Message::Adopt(adopt) if adopt.flows.is_empty() => {}
                message => return message,
            }
        }
    }

    /// Whether a message waits.
    pub fn has_mail(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Nothing but news of switch and configuration comes within `ms`.
    pub async fn silent_for(&mut self, ms: u64) {
        let until = tokio::time::Instant::now() + Duration::from_millis(ms);
        while let Ok(message) = tokio::time::timeout_at(until, self.inbox.recv()).await {
            match message.unwrap().unwrap().message.unwrap() {
                ctl_message::Message::SwitchState(_) | ctl_message::Message::Snapshot(_) => {}
                ctl_message::Message::Adopt(adopt) if adopt.flows.is_empty() => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    pub async fn installed(&mut self) -> Vec<u64> {
        match self.answer().await {
            ctl_message::Message::Installed(installed) => installed.session_ids,
            other => panic!("not Installed: {other:?}"),
        }
    }

    /// Hears until all of these are installed, in any number of messages.
    pub async fn all_installed(&mut self, mut wanted: Vec<u64>) {
        while !wanted.is_empty() {
            let got = self.installed().await;
            for id in got {
                let at = wanted.iter().position(|other| *other == id);
                wanted.swap_remove(at.expect("asked for"));
            }
        }
    }

    pub async fn removed(&mut self) -> Vec<v1::FlowTotals> {
        match self.answer().await {
            ctl_message::Message::Removed(removed) => removed.sessions,
            other => panic!("not Removed: {other:?}"),
        }
    }

    pub async fn rejected(&mut self) -> Vec<v1::rejected::One> {
        match self.answer().await {
            ctl_message::Message::Rejected(rejected) => rejected.sessions,
            other => panic!("not Rejected: {other:?}"),
        }
    }

    /// A session of VIP "web" from client port `client_port`.
    pub fn flow(&self, session_id: u64, client_port: u32) -> v1::FlowPair {
        let web = self.snapshot.vips.iter().find(|v| v.name == "web").unwrap();
        let local = &self.snapshot.locals[client_port as usize % self.snapshot.locals.len()];
        v1::FlowPair {
            session_id,
            vip_id: web.vip_id,
            vip_port: 80,
            protocol: 6,
            client_addr: 0x0a01_0002,
            client_port,
            server_id: web.servers[client_port as usize % web.servers.len()].server_id,
            local_id: local.local_id,
            local_port: 1024 + client_port % 60_000,
            idle_timeout_ms: 10_000,
            generation: web.generation,
        }
    }
}
