//! Taking over the entries that an earlier process left on the switch, and
//! opening the workers once that is done.

use offload_api::v1::{FlowPair, adopted};

use super::Control;
use super::stream::Stream;
use crate::message::Command;

/// State of taking over an earlier process's sessions.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    /// Entries that wait for a configuration.
    held: Vec<FlowPair>,
    /// Entries with the workers.
    pending: usize,
    /// offload-ctl has named all.
    pub(super) complete: bool,
    /// Workers hand out ports.
    pub(super) opened: bool,
}

impl Control {
    /// offload-ctl names entries; `done` after the last of them.
    pub(super) fn named(&mut self, flows: Vec<FlowPair>, done: bool) {
        self.adoption.held.extend(flows);
        self.adoption.complete |= done;
        self.adopt();
    }

    /// Gives the entries that are held to the workers, if these have a
    /// configuration.
    pub(super) fn adopt(&mut self) {
        if self.snapshot.is_none() {
            return;
        }
        let workers = self.links.len();
        for flow in std::mem::take(&mut self.adoption.held) {
            // The local port says which worker gets the replies.
            let worker = (flow.local_port as usize & usize::from(crate::tunnel::SHARD_MASK))
                % workers.max(1);
            if let Some(link) = self.links.get_mut(worker) {
                link.send(Command::Adopt(Box::new(flow)));
                self.adoption.pending += 1;
            }
        }
        self.open_if_ready();
    }

    /// A worker has made a session of `flow`'s entries, or says why not.
    pub(super) fn adopted(&mut self, worker: u16, flow: FlowPair, result: Result<u64, String>) {
        self.adoption.pending = self.adoption.pending.saturating_sub(1);
        let adopt_id = flow.session_id;
        // A second Adopt of the same entries finds their port taken: by the
        // session that the first one made.
        let result = result.or_else(|why| self.book.find(&flow).ok_or(why));
        let (session_id, refused) = match result {
            Ok(session_id) => {
                self.book.adopt(worker, FlowPair { session_id, ..flow });
                (session_id, String::new())
            }
            Err(why) => {
                tracing::warn!(why, ?flow, "entries on the switch are not taken over");
                (0, why)
            }
        };
        if self.stream == Stream::Attached {
            self.adopted.push(adopted::One {
                adopt_id,
                session_id,
                refused,
            });
        }
        self.open_if_ready();
    }

    /// Lets the workers hand out ports once all entries are taken over (I1).
    fn open_if_ready(&mut self) {
        let a = &mut self.adoption;
        if !a.opened && a.complete && a.pending == 0 && self.snapshot.is_some() {
            a.opened = true;
            tracing::info!(adopted = self.book.counts().adopted, "ready for packets");
            self.tell_all(|| Command::Open);
        }
    }
}
