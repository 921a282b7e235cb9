//! What is said on the stream to offload-ctl, and in which order: Hello,
//! Welcome, Resync, then everything else as it comes up.

use std::time::{Duration, Instant};

use offload_api::API_REVISION;
use offload_api::v1::{Adopted, Heartbeat, Hello, Install, LdMessage, Remove, Welcome, ld_message};

use super::Control;
use crate::book;

/// Heartbeat interval until offload-ctl has named one.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);

/// State of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Down,
    /// Hello is out.
    Greeting,
    /// Welcome and Resync are done.
    Attached,
}

impl Control {
    /// A stream is being opened: queues Hello.
    pub fn up(&mut self) {
        // Until the entries of earlier processes are taken over this process
        // has no past worth knowing: a fresh id makes offload-ctl name them
        // again, should an earlier stream have broken in between.
        if !self.adoption.opened && self.connections > 0 {
            self.boot_id = (self.random)();
            self.adoption.complete = false;
        }
        self.connections += 1;
        self.stream = Stream::Greeting;
        self.outbox.clear();
        self.adopted.clear();
        self.say(ld_message::Message::Hello(Hello {
            name: self.name.clone(),
            boot_id: self.boot_id,
            workers: self.workers().into(),
            config_version: self.version,
            api_revision: API_REVISION,
            software: env!("CARGO_PKG_VERSION").to_owned(),
        }));
    }

    /// The stream is gone.
    pub fn down(&mut self, reason: &str) {
        if self.stream != Stream::Down {
            tracing::warn!(reason, "offload-ctl is away; forwarding goes on");
        } else if self.trouble != reason {
            tracing::warn!(reason, "cannot reach offload-ctl; trying again");
        }
        reason.clone_into(&mut self.trouble);
        self.stream = Stream::Down;
        self.outbox.clear();
        self.adopted.clear();
    }

    /// offload-ctl answers Hello: tells it what is believed on the switch.
    pub(super) fn welcome(&mut self, welcome: &Welcome, now: Instant) {
        if welcome.api_revision != API_REVISION {
            tracing::error!(
                ours = API_REVISION,
                theirs = welcome.api_revision,
                "offload-ctl speaks another revision of offload.v1: upgrade the older of the two"
            );
        }
        tracing::info!(new_boot = welcome.new_boot, "attached to offload-ctl");
        if welcome.heartbeat_ms > 0 {
            self.heartbeat = Duration::from_millis(welcome.heartbeat_ms.into());
        }
        self.next_heartbeat = now;
        self.trouble.clear();
        self.stream = Stream::Attached;
        for resync in self.book.resync() {
            self.say(ld_message::Message::Resync(resync));
        }
        if !welcome.new_boot {
            self.adoption.complete = true;
            self.adopt();
        }
    }

    /// Queues a message.
    pub(super) fn say(&mut self, message: ld_message::Message) {
        self.outbox.push_back(LdMessage {
            message: Some(message),
        });
    }

    /// Whether [`Control::next_message`] has something.
    #[must_use]
    pub fn has_output(&self) -> bool {
        match self.stream {
            Stream::Down => false,
            Stream::Greeting => !self.outbox.is_empty(),
            Stream::Attached => {
                !self.outbox.is_empty() || !self.adopted.is_empty() || self.book.has_output()
            }
        }
    }

    /// The next message for offload-ctl. What has gathered since the last one
    /// goes together, so batches grow with the load and nobody waits for more.
    pub fn next_message(&mut self, now: Instant) -> Option<LdMessage> {
        if self.stream == Stream::Down {
            return None;
        }
        if let Some(message) = self.outbox.pop_front() {
            return Some(message);
        }
        if self.stream != Stream::Attached {
            return None;
        }
        let message = if !self.adopted.is_empty() {
            let n = self.adopted.len().min(book::BATCH);
            ld_message::Message::Adopted(Adopted {
                sessions: self.adopted.drain(..n).collect(),
            })
        } else if let Some((session_ids, reason)) = self.book.take_removes() {
            ld_message::Message::Remove(Remove {
                session_ids,
                reason: reason.into(),
            })
        } else {
            let flows = self.book.take_installs(now);
            if flows.is_empty() {
                return None;
            }
            ld_message::Message::Install(Install { flows })
        };
        Some(LdMessage {
            message: Some(message),
        })
    }

    /// Queues a heartbeat when it is time for one.
    pub(super) fn heartbeat_if_due(&mut self, now: Instant) {
        if self.stream != Stream::Attached || now < self.next_heartbeat {
            return;
        }
        self.next_heartbeat = now + self.heartbeat;
        let status = self.status();
        self.say(ld_message::Message::Heartbeat(Heartbeat {
            counters: status.counters.clone().into_iter().collect(),
            gauges: status.gauges.clone().into_iter().collect(),
            healthy: status.healthy,
            health_detail: status.detail.clone(),
        }));
    }
}
