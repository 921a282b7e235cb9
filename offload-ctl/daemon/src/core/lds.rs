//! Load directors: who is connected, what they were told.

use std::sync::Arc;

use offload_api::API_REVISION;
use offload_api::v1::{self, ctl_message, ld_message};
use tokio::sync::mpsc;
use tonic::Status;

use super::{Core, unix_ms};
use crate::desired;
use crate::flows::LdName;

/// How often an LD is expected to send a heartbeat.
const HEARTBEAT_MS: u32 = 1000;

/// Where messages to an LD go; an error ends the stream.
pub type LdConnection = mpsc::Sender<Result<v1::CtlMessage, Status>>;

/// What happens on an LD's stream.
pub enum LdEvent {
    /// The first message has come.
    Hello {
        /// Number of the stream.
        stream: u64,
        /// The message.
        hello: v1::Hello,
        /// For the answers.
        sender: LdConnection,
    },
    /// A later message has come.
    Message {
        /// Number of the stream.
        stream: u64,
        /// The message.
        message: ld_message::Message,
    },
    /// The stream has ended.
    Gone {
        /// Number of the stream.
        stream: u64,
    },
}

/// An LD that has connected at least once.
#[derive(Default)]
pub(super) struct Ld {
    stream: u64,
    sender: Option<LdConnection>,
    pub(super) boot_id: u64,
    pub(super) acked: u64,
    pub(super) snapshot_error: String,
    sent: Option<v1::Snapshot>,
    pub(super) last: Option<v1::Heartbeat>,
    pub(super) last_unix_ms: u64,
    pub(super) software: String,
    pub(super) workers: u32,
}

impl Ld {
    pub(super) fn connected(&self) -> bool {
        self.sender.is_some()
    }
}

impl Core {
    pub(super) fn ld_event(&mut self, event: LdEvent) {
        match event {
            LdEvent::Hello {
                stream,
                hello,
                sender,
            } => {
                if let Err(status) = self.hello(stream, &hello, &sender) {
                    tracing::warn!(ld = hello.name, why = status.message(), "ld refused");
                    let _ = sender.try_send(Err(status));
                }
            }
            LdEvent::Message { stream, message } => self.message(stream, message),
            LdEvent::Gone { stream } => {
                let name = self.by_stream(stream);
                if let Some(name) = name {
                    tracing::warn!(ld = %name, "ld is gone");
                    self.drop_ld(&name);
                }
            }
        }
    }

    fn by_stream(&self, stream: u64) -> Option<LdName> {
        self.lds
            .iter()
            .find(|(_, ld)| ld.stream == stream && ld.connected())
            .map(|(name, _)| name.clone())
    }

    fn drop_ld(&mut self, name: &LdName) {
        let now = self.now();
        if let Some(ld) = self.lds.get_mut(name) {
            ld.sender = None;
        }
        self.flows.ld_gone(name, now);
    }

    fn hello(
        &mut self,
        stream: u64,
        hello: &v1::Hello,
        sender: &LdConnection,
    ) -> Result<(), Status> {
        if hello.api_revision != API_REVISION {
            let older = if hello.api_revision < API_REVISION {
                "slowpath"
            } else {
                "offload-ctl"
            };
            return Err(Status::failed_precondition(format!(
                "slowpath speaks offload.v1 revision {}, offload-ctl {API_REVISION}; upgrade {older}",
                hello.api_revision
            )));
        }
        let configured = self.intent.effective.lds.iter();
        if !configured.clone().any(|ld| ld.name == hello.name) {
            let known: Vec<&str> = configured.map(|ld| ld.name.as_str()).collect();
            return Err(Status::failed_precondition(if self.is_empty() {
                "no configuration was applied yet; run `sluice apply gateway.toml`".to_owned()
            } else {
                format!(
                    "there is no ld \"{}\" in gateway.toml (there are: {}); correct `name` in slowpath.toml or add the ld",
                    hello.name,
                    known.join(", ")
                )
            }));
        }
        let name: LdName = Arc::from(hello.name.as_str());
        let stored = self.store.boot(&name);
        let new_boot = !matches!(stored, Ok(Some(boot)) if boot == hello.boot_id);
        if new_boot {
            self.store
                .set_boot(&name, hello.boot_id)
                .map_err(|error| Status::unavailable(error.to_string()))?;
        }
        if let Some(old) = self.lds.get_mut(&name).and_then(|ld| ld.sender.take()) {
            let _ = old.try_send(Err(Status::aborted(
                "another process has connected under this LD's name",
            )));
        }
        tracing::info!(ld = %name, new_boot, workers = hello.workers, software = hello.software, "ld connected");
        let ld = self.lds.entry(name.clone()).or_default();
        *ld = Ld {
            stream,
            sender: Some(sender.clone()),
            boot_id: hello.boot_id,
            acked: hello.config_version,
            software: hello.software.clone(),
            workers: hello.workers,
            last_unix_ms: unix_ms(),
            ..Ld::default()
        };
        self.flows.ld_hello(&name, new_boot);
        self.tell(
            &name,
            ctl_message::Message::Welcome(v1::Welcome {
                api_revision: API_REVISION,
                heartbeat_ms: HEARTBEAT_MS,
                new_boot,
            }),
        );
        self.send_snapshot(&name);
        let state = self.switch_state();
        self.tell(&name, ctl_message::Message::SwitchState(state));
        Ok(())
    }

    fn message(&mut self, stream: u64, message: ld_message::Message) {
        let Some(name) = self.by_stream(stream) else {
            return;
        };
        match message {
            ld_message::Message::Hello(_) => {
                tracing::warn!(ld = %name, "a second Hello on one stream");
            }
            ld_message::Message::Heartbeat(heartbeat) => {
                if let Some(ld) = self.lds.get_mut(&name) {
                    ld.last = Some(heartbeat);
                    ld.last_unix_ms = unix_ms();
                }
            }
            ld_message::Message::Install(install) => {
                self.with_flows(|book, ids| book.install(&name, install.flows, ids));
            }
            ld_message::Message::Remove(remove) => self.flows.remove(&name, &remove.session_ids),
            ld_message::Message::Resync(resync) => {
                self.with_flows(|book, ids| book.resync(&name, resync, ids));
            }
            ld_message::Message::Adopted(adopted) => self.flows.adopted(&name, adopted),
            ld_message::Message::Explain(answer) => self.explained(&answer),
            ld_message::Message::SnapshotAck(ack) => {
                if let Some(ld) = self.lds.get_mut(&name) {
                    if ack.error.is_empty() {
                        ld.acked = ack.version;
                    } else {
                        tracing::warn!(ld = %name, version = ack.version, error = ack.error, "snapshot refused");
                    }
                    ld.snapshot_error = ack.error;
                }
            }
        }
    }

    /// Sends a message; an LD that does not read is disconnected.
    pub(super) fn tell(&mut self, name: &LdName, message: ctl_message::Message) {
        let Some(sender) = self.lds.get(name).and_then(|ld| ld.sender.clone()) else {
            return;
        };
        let message = v1::CtlMessage {
            message: Some(message),
        };
        if sender.try_send(Ok(message)).is_err() {
            tracing::warn!(ld = %name, "ld does not read its messages, disconnecting it");
            self.drop_ld(name);
        }
    }

    pub(super) fn connected_lds(&self) -> Vec<LdName> {
        self.lds
            .iter()
            .filter(|(_, ld)| ld.connected())
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn send_snapshot(&mut self, name: &LdName) {
        let snapshot = desired::snapshot(&self.intent, &self.ids, name);
        let Some(snapshot) = snapshot else {
            let gone = Status::failed_precondition(
                "this LD was removed from gateway.toml; stop slowpath or add the ld again",
            );
            if let Some(sender) = self.lds.get_mut(name).and_then(|ld| ld.sender.take()) {
                let _ = sender.try_send(Err(gone));
            }
            self.drop_ld(name);
            return;
        };
        if let Some(ld) = self.lds.get_mut(name) {
            ld.sent = Some(snapshot.clone());
        }
        self.tell(name, ctl_message::Message::Snapshot(snapshot));
    }

    /// Sends snapshots to all LDs after a change of the intent.
    pub(super) fn send_snapshots(&mut self) {
        for name in self.connected_lds() {
            self.send_snapshot(&name);
        }
    }

    fn switch_state(&self) -> v1::SwitchState {
        v1::SwitchState {
            up: self.switch.is_up(),
            detail: self.switch.detail.clone(),
        }
    }

    pub(super) fn tell_switch_state(&mut self) {
        let state = self.switch_state();
        for name in self.connected_lds() {
            self.tell(&name, ctl_message::Message::SwitchState(state.clone()));
        }
    }

    /// Sends the flow book's answers and what new processes have to adopt.
    pub(super) fn send_to_lds(&mut self) {
        for (name, message) in self.flows.take_replies() {
            self.tell(&name, message);
        }
        for name in self.connected_lds() {
            if let Some(flows) = self.flows.take_adoptions(&name) {
                tracing::info!(ld = %name, sessions = flows.len(), "handing sessions on the switch to the new process");
                let chunks: Vec<Vec<v1::FlowPair>> =
                    flows.chunks(1000).map(<[v1::FlowPair]>::to_vec).collect();
                for flows in chunks {
                    let adopt = v1::Adopt { flows, done: false };
                    self.tell(&name, ctl_message::Message::Adopt(adopt));
                }
                let done = v1::Adopt {
                    flows: Vec::new(),
                    done: true,
                };
                self.tell(&name, ctl_message::Message::Adopt(done));
            }
        }
    }

    /// Value of a gauge that all connected LDs of a group report; `None` if
    /// one is away or does not report it.
    pub(super) fn gauge_sum(&self, lds: &[String], gauge: &str) -> Option<u64> {
        let mut sum = 0;
        for name in lds {
            let ld = self.lds.get(name.as_str()).filter(|ld| ld.connected())?;
            sum += ld.last.as_ref()?.gauges.get(gauge)?;
        }
        Some(sum)
    }
}
