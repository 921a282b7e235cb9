//! The configuration's way: from offload-ctl's snapshot to all workers, and
//! their consent back.

use std::sync::Arc;

use offload_api::v1::{Snapshot, SnapshotAck, ld_message};

use super::Control;
use super::stream::Stream;
use crate::message::Command;
use crate::snapshot;

impl Control {
    /// Gives the workers a snapshot of offload-ctl, or refuses it.
    pub(super) fn configure(&mut self, snapshot: Snapshot) {
        let version = snapshot.version;
        if self.snapshot.as_ref() == Some(&snapshot) {
            if self.configuring == 0 {
                self.acknowledge(version, String::new());
            }
            return;
        }
        match snapshot::build(&snapshot) {
            Ok(config) => {
                tracing::info!(
                    version,
                    vips = snapshot.vips.len(),
                    locals = snapshot.locals.len(),
                    "new configuration"
                );
                let config = Arc::new(config);
                self.tell_all(|| Command::Configure(Arc::clone(&config)));
                self.configuring = self.links.len();
                self.snapshot = Some(snapshot);
                // A worker sees its commands in order: the configuration first.
                self.adopt();
            }
            Err(error) => {
                tracing::error!(version, %error, "the configuration is refused");
                self.acknowledge(version, error.to_string());
            }
        }
    }

    /// A worker runs with this version.
    pub(super) fn configured(&mut self, version: u64) {
        let latest = self.snapshot.as_ref().map(|s| s.version);
        // Acknowledgements of a snapshot that was replaced meanwhile do not
        // count.
        if latest == Some(version) {
            self.configuring = self.configuring.saturating_sub(1);
            if self.configuring == 0 {
                self.version = version;
                self.acknowledge(version, String::new());
            }
        }
    }

    /// An empty `error` means that all workers run with it.
    fn acknowledge(&mut self, version: u64, error: String) {
        if self.stream == Stream::Attached || self.stream == Stream::Greeting {
            self.say(ld_message::Message::SnapshotAck(SnapshotAck {
                version,
                error,
            }));
        }
    }
}
