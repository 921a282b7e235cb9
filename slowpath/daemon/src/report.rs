//! What a worker counted, as one consistent copy made between two bursts.
//!
//! The control thread sends an empty report through the command ring, the
//! worker fills it in and sends it back: no lock, no sharing, no allocation
//! after the first.

use std::collections::BTreeMap;

use session_engine::{Counters, DropReason, Gauges, VipStats};

use crate::drops::FrameDrop;

/// Frames, counted around the engine. The books balance:
/// `received + redirected_in = forwarded + replied + redirected_out + drops`,
/// the engine's drops included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Received from the port.
    pub received: u64,
    /// Taken from other workers.
    pub redirected_in: u64,
    /// Sent: rewritten packets.
    pub forwarded: u64,
    /// Sent: this LD's own answers (ICMP).
    pub replied: u64,
    /// Handed to other workers.
    pub redirected_out: u64,
    /// By [`FrameDrop::index`].
    pub drops: [u64; FrameDrop::COUNT],
}

impl FrameCounters {
    /// Frames dropped outside the engine.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Frames.
    pub frames: FrameCounters,
    /// The engine's totals.
    pub engine: Counters,
    /// The engine's momentary values.
    pub gauges: Gauges,
    /// By VIP.
    pub vips: Vec<VipStats>,
    /// Share of the time since the previous report that went into packets,
    /// in thousandths.
    pub busy_permille: u64,
    /// Events that wait for room in the ring to the control thread.
    pub events_waiting: u64,
    /// Sessions logged as closed.
    pub closed: u64,
}

impl Report {
    /// Frames that came in and went nowhere; zero unless there is a bug.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let f = &self.frames;
        let came = f.received + f.redirected_in;
        let went = f.forwarded + f.replied + f.redirected_out + f.dropped() + self.engine.dropped();
        came.wrapping_sub(went) as i64
    }

    /// Adds the report to totals by name. Names are those of `offload.proto`.
    pub fn add_to(
        &self,
        worker: usize,
        counters: &mut BTreeMap<String, u64>,
        gauges: &mut BTreeMap<String, u64>,
    ) {
        let mut add = |name: String, value: u64| {
            let total = counters.entry(name).or_insert(0);
            *total = total.saturating_add(value);
        };
        let f = &self.frames;
        let e = &self.engine;
        for (name, value) in [
            ("rx_packets", f.received),
            ("forwarded_packets", f.forwarded),
            ("replied_packets", f.replied),
            ("redirected_packets", f.redirected_out),
            ("redirected_in_packets", f.redirected_in),
            ("switchover_late_packets", e.late_packets),
            ("sessions_created", e.sessions_created),
            ("sessions_closed", e.sessions_closed),
            ("sessions_expired", e.sessions_expired),
            ("sessions_evicted", e.sessions_evicted),
            ("sessions_killed", e.sessions_killed),
            ("sessions_adopted", e.sessions_adopted),
            ("sessions_reused", e.sessions_reused),
            ("engine.forwarded", e.forwarded),
            ("engine.forwarded_replies", e.forwarded_replies),
            ("engine.offload_requests", e.offload_requests),
            ("engine.offload_removals", e.offload_removals),
            ("engine.offload_resent", e.offload_resent),
            ("engine.offload_stale", e.offload_stale),
        ] {
            add(name.to_owned(), value);
        }
        for (reason, count) in FrameDrop::ALL.iter().zip(&f.drops) {
            add(format!("drop.{}", reason.name()), *count);
        }
        for (reason, count) in DropReason::ALL.iter().zip(&e.drops) {
            add(format!("drop.{}", reason.name()), *count);
        }
        for v in &self.vips {
            for (name, value) in [
                ("fwd_packets", v.fwd_packets),
                ("fwd_bytes", v.fwd_bytes),
                ("rev_packets", v.rev_packets),
                ("rev_bytes", v.rev_bytes),
            ] {
                add(format!("vip.{}.{name}", v.vip_id), value);
            }
        }
        let mut add = |name: String, value: u64| *gauges.entry(name).or_insert(0) += value;
        let g = &self.gauges;
        for (name, value) in [
            ("sessions", g.sessions),
            ("engine_offloaded_sessions", g.offloaded),
            ("local_ports_in_use", g.ports_in_use),
            ("local_ports_quarantined", g.ports_resting),
            ("session_records", g.records),
        ] {
            add(name.to_owned(), value.into());
        }
        for v in &self.vips {
            add(format!("vip.{}.sessions", v.vip_id), v.sessions.into());
        }
        add(
            "unaccounted_packets".to_owned(),
            self.unaccounted().unsigned_abs(),
        );
        add(format!("worker.{worker}.busy_permille"), self.busy_permille);
        add(
            format!("worker.{worker}.events_waiting"),
            self.events_waiting,
        );
        add(format!("worker.{worker}.rx_packets"), f.received);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_over_workers() {
        let mut report = Report::default();
        report.frames.received = 10;
        report.frames.forwarded = 4;
        report.frames.replied = 1;
        report.frames.redirected_out = 2;
        report.frames.drops[FrameDrop::TxFull.index()] = 1;
        report.engine.drops[DropReason::NoSession.index()] = 2;
        report.vips.push(VipStats {
            vip_id: 3,
            fwd_packets: 5,
            sessions: 1,
            ..VipStats::default()
        });
        assert_eq!(report.unaccounted(), 0);
        let mut counters = BTreeMap::new();
        let mut gauges = BTreeMap::new();
        report.add_to(0, &mut counters, &mut gauges);
        report.add_to(1, &mut counters, &mut gauges);
        assert_eq!(counters["rx_packets"], 20);
        assert_eq!(counters["drop.tx_full"], 2);
        assert_eq!(counters["drop.no_session"], 4);
        assert_eq!(counters["drop.no_slot"], 0);
        assert_eq!(counters["vip.3.fwd_packets"], 10);
        assert_eq!(gauges["vip.3.sessions"], 2);
        assert_eq!(gauges["unaccounted_packets"], 0);
        report.frames.received += 1;
        assert_eq!(report.unaccounted(), 1);
    }
}
