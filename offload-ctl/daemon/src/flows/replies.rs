//! What flows have to tell their LDs, gathered so that one message carries
//! many sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use offload_api::v1::{self, ctl_message::Message};

/// Name of an LD.
pub type LdName = Arc<str>;

/// Replies by LD.
#[derive(Debug, Default)]
pub struct Replies {
    by_ld: BTreeMap<LdName, ForLd>,
}

#[derive(Debug, Default)]
struct ForLd {
    installed: Vec<u64>,
    rejected: Vec<v1::rejected::One>,
    removed: Vec<v1::FlowTotals>,
    idle: Vec<u64>,
    evicted: BTreeMap<&'static str, Vec<v1::FlowTotals>>,
}

impl Replies {
    fn of(&mut self, ld: &LdName) -> &mut ForLd {
        self.by_ld.entry(ld.clone()).or_default()
    }

    /// Both directions are acknowledged.
    pub fn installed(&mut self, ld: &LdName, session: u64) {
        self.of(ld).installed.push(session);
    }

    /// It was not installed, and nothing of it is on the switch.
    pub fn rejected(
        &mut self,
        ld: &LdName,
        session_id: u64,
        reason: v1::RejectReason,
        detail: impl Into<String>,
    ) {
        self.of(ld).rejected.push(v1::rejected::One {
            session_id,
            reason: reason.into(),
            detail: detail.into(),
        });
    }

    /// The deletion of both directions is acknowledged.
    pub fn removed(&mut self, ld: &LdName, totals: v1::FlowTotals) {
        self.of(ld).removed.push(totals);
    }

    /// Both directions are idle.
    pub fn idle(&mut self, ld: &LdName, session: u64) {
        self.of(ld).idle.push(session);
    }

    /// Gone without having been asked.
    pub fn evicted(&mut self, ld: &LdName, totals: v1::FlowTotals, why: &'static str) {
        self.of(ld).evicted.entry(why).or_default().push(totals);
    }

    /// All messages since the last call.
    pub fn take(&mut self) -> Vec<(LdName, Message)> {
        let mut messages = Vec::new();
        for (ld, replies) in std::mem::take(&mut self.by_ld) {
            let mut push = |message| messages.push((ld.clone(), message));
            if !replies.installed.is_empty() {
                push(Message::Installed(v1::Installed {
                    session_ids: replies.installed,
                }));
            }
            if !replies.rejected.is_empty() {
                push(Message::Rejected(v1::Rejected {
                    sessions: replies.rejected,
                }));
            }
            if !replies.removed.is_empty() {
                push(Message::Removed(v1::Removed {
                    sessions: replies.removed,
                }));
            }
            if !replies.idle.is_empty() {
                push(Message::Idle(v1::Idle {
                    session_ids: replies.idle,
                }));
            }
            for (why, sessions) in replies.evicted {
                push(Message::Evicted(v1::Evicted {
                    sessions,
                    why: why.to_owned(),
                }));
            }
        }
        messages
    }
}
