//! The process's status, put together from the workers' reports, the book and
//! the stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::Control;
use super::stream::Stream;
use crate::status::Status;

impl Control {
    /// The latest status.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// Puts the status together from the reports that are at home.
    pub(super) fn refresh(&mut self, now: Instant) {
        let mut counters = BTreeMap::new();
        let mut gauges = BTreeMap::new();
        let mut stuck = Vec::new();
        for (worker, link) in self.links.iter().enumerate() {
            match link.report() {
                Some(report) => report.add_to(worker, &mut counters, &mut gauges),
                None if link.is_stuck(now) => stuck.push(worker.to_string()),
                None => {}
            }
        }
        // A worker without a report must not make totals go back.
        if !stuck.is_empty() {
            counters.clone_from(&self.status.counters);
        }
        if let Some(more) = &self.more {
            more(&mut counters);
        }
        let book = self.book.counts();
        for (name, value) in [
            ("offload.requested", book.requested),
            ("offload.installed", book.installed),
            ("offload.rejected", book.rejected),
            ("offload.removed", book.removed),
            ("offload.evicted", book.evicted),
            ("offload.cancelled", book.cancelled),
            ("offload.adopted", book.adopted),
            ("offload.strays", book.strays),
            ("offload.resent", book.resent),
            ("offload_ctl.connections", self.connections),
        ] {
            counters.insert(name.to_owned(), value);
        }
        let fill = self.book.fill();
        let latency = self.book.latency();
        for (name, value) in [
            ("offloaded_sessions", fill.installed),
            ("offload_requested_sessions", fill.requested),
            ("offload_removing_sessions", fill.removing),
            ("offload_count", latency.len()),
            ("offload_p50_us", latency.value_at_quantile(0.5)),
            ("offload_p99_us", latency.value_at_quantile(0.99)),
            ("offload_max_us", latency.max()),
            ("config_version", self.version),
            ("workers", self.links.len() as u64),
            (
                "offload_ctl_connected",
                u64::from(self.stream == Stream::Attached),
            ),
            ("switch_up", u64::from(self.switch_up)),
        ] {
            gauges.insert(name.to_owned(), value);
        }
        let healthy = stuck.is_empty();
        let ready = healthy && self.version != 0 && self.adoption.opened;
        let detail = if !healthy {
            format!("no answer from worker {}", stuck.join(", "))
        } else if self.snapshot.is_none() {
            format!("no configuration yet; {}", self.trouble)
        } else if !self.adoption.opened {
            "waiting for offload-ctl to name the sessions that an earlier process left on the \
             switch"
                .to_owned()
        } else if !ready {
            "the workers take the configuration over".to_owned()
        } else {
            String::new()
        };
        self.status = Arc::new(Status {
            counters,
            gauges,
            ready,
            healthy,
            detail,
        });
    }
}
