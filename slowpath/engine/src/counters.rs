//! What the engine counts.

use crate::drops::DropReason;

/// Totals since the start. The books balance:
/// `packets = forwarded + replies + redirected + all drops`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Packets handled.
    pub packets: u64,
    /// Rewritten and sent on, client to server.
    pub forwarded: u64,
    /// Rewritten and sent on, server to client.
    pub forwarded_replies: u64,
    /// Answered by ICMP.
    pub answered: u64,
    /// Handed to another worker.
    pub redirected: u64,
    /// By [`DropReason::index`].
    pub drops: [u64; DropReason::COUNT],
    /// Sessions opened (adopted ones included).
    pub sessions_created: u64,
    /// Sessions ended.
    pub sessions_closed: u64,
    /// Ended because they expired.
    pub sessions_expired: u64,
    /// Ended early under pressure.
    pub sessions_evicted: u64,
    /// Ended by the operator or by a drain's cut-off.
    pub sessions_killed: u64,
    /// Taken over from the switch.
    pub sessions_adopted: u64,
    /// A closing session's record that a new SYN used again.
    pub sessions_reused: u64,
    /// Install requests (repeats included).
    pub offload_requests: u64,
    /// Installed.
    pub offload_installed: u64,
    /// Rejected.
    pub offload_rejected: u64,
    /// Removal requests (repeats included).
    pub offload_removals: u64,
    /// Removed, or gone without being asked.
    pub offload_removed: u64,
    /// Requests repeated because no answer came.
    pub offload_resent: u64,
    /// Answers about sessions that are no more.
    pub offload_stale: u64,
    /// Packets of sessions whose entries were acknowledged: on their way while
    /// the switch took over.
    pub late_packets: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            packets: 0,
            forwarded: 0,
            forwarded_replies: 0,
            answered: 0,
            redirected: 0,
            drops: [0; DropReason::COUNT],
            sessions_created: 0,
            sessions_closed: 0,
            sessions_expired: 0,
            sessions_evicted: 0,
            sessions_killed: 0,
            sessions_adopted: 0,
            sessions_reused: 0,
            offload_requests: 0,
            offload_installed: 0,
            offload_rejected: 0,
            offload_removals: 0,
            offload_removed: 0,
            offload_resent: 0,
            offload_stale: 0,
            late_packets: 0,
        }
    }
}

impl Counters {
    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Packets dropped for one reason.
    #[must_use]
    pub const fn drops_of(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()]
    }

    /// Packets handled but not accounted for; zero unless there is a bug.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let out = self.forwarded
            + self.forwarded_replies
            + self.answered
            + self.redirected
            + self.dropped();
        self.packets.wrapping_sub(out) as i64
    }
}

/// Momentary values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Sessions.
    pub sessions: u32,
    /// Sessions whose entries are requested, installed or being removed.
    pub offloaded: u32,
    /// Local ports that rest.
    pub ports_resting: u32,
    /// Local ports taken, resting ones included.
    pub ports_in_use: u32,
    /// Records that memory was taken for.
    pub records: u32,
}

/// Packets and bytes of one VIP in this engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VipStats {
    /// VIP's identifier.
    pub vip_id: u16,
    /// Sessions.
    pub sessions: u32,
    /// Packets from clients.
    pub fwd_packets: u64,
    /// Bytes from clients.
    pub fwd_bytes: u64,
    /// Packets from servers.
    pub rev_packets: u64,
    /// Bytes from servers.
    pub rev_bytes: u64,
}
