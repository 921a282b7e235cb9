//! What the control thread and the workers say to each other. Each direction of
//! each worker is a bounded ring, so that neither side ever waits for the other.

use std::sync::Arc;

use crate::snapshot::Config;
use offload_api::v1::{ExplainAnswer, FlowPair, FlowTotals, RejectReason, RemoveReason, Tuple};

use crate::report::Report;

/// Control thread to worker.
#[derive(Debug)]
pub enum Command {
    /// Work with this configuration from the next burst on.
    Configure(Arc<Config>),
    /// The sessions of an earlier process have been taken over: local ports may
    /// be handed out. Until then packets are dropped as `no_configuration`.
    Open,
    /// Both directions of the session are on the switch.
    Installed(u64),
    /// The session is not on the switch.
    Rejected(u64, RejectReason),
    /// The session's entries are gone, as asked.
    Removed(FlowTotals),
    /// Both directions of the session were idle on the switch.
    Idle(u64),
    /// The session's entries are gone, unasked.
    Evicted(FlowTotals),
    /// Whether the switch can take entries.
    SwitchState {
        /// It can.
        up: bool,
    },
    /// Make a session of entries found on the switch.
    Adopt(Box<FlowPair>),
    /// End sessions by VIP and server; 0 is any.
    Kill {
        /// The VIP.
        vip_id: u16,
        /// The server.
        server_id: u16,
    },
    /// Say what happens to a packet.
    Explain {
        /// Comes back with the answer.
        query_id: u64,
        /// The packet.
        tuple: Tuple,
    },
    /// Fill this in and send it back.
    Report(Box<Report>),
    /// End every session.
    Drain,
    /// Stop the thread. Sessions stay on the switch.
    Stop,
}

/// Worker to control thread.
#[derive(Debug)]
pub enum Event {
    /// Runs with the configuration of this version.
    Configured {
        /// The version.
        version: u64,
    },
    /// Wants a session on the switch.
    Install(FlowPair),
    /// Wants a session off the switch.
    Remove {
        /// The session.
        session_id: u64,
        /// Why.
        reason: RemoveReason,
    },
    /// Answer to [`Command::Adopt`].
    Adopted {
        /// The entries, with offload-ctl's id.
        flow: Box<FlowPair>,
        /// The session's id, or why there is none.
        result: Result<u64, String>,
    },
    /// Answer to [`Command::Explain`].
    Explained(Box<ExplainAnswer>),
    /// Answer to [`Command::Report`].
    Report(Box<Report>),
}
