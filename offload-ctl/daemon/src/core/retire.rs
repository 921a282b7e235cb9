//! Letting go of what was removed from the configuration once no established
//! connection can need it any more (I4).

use std::collections::HashSet;

use sluice_config::Timeouts;

use super::Core;
use crate::desired::{Intent, vip_identity};
use crate::ids::{Identity, Kind};

/// How often it is looked at, ms.
const PERIOD_MS: u64 = 1000;
/// Rest of an id that no session can carry, ms.
const PLAIN_REST_MS: u64 = 60_000;

impl Core {
    pub(super) fn tick_retire(&mut self, now: u64) {
        if now >= self.next_retire {
            self.next_retire = now + PERIOD_MS;
            self.flows
                .expire_absent(now, super::ms(self.settings.absent_ld_grace));
            // Before the switch was read nobody knows what it needs.
            if self.flows.is_known() {
                self.retire_vips(now);
                self.retire_locals(now);
                self.release_ids(now);
            }
        }
    }

    /// Whether the object has been without use for `rest_ms` on end.
    fn rested(&mut self, identity: &Identity, used: bool, now: u64, rest_ms: u64) -> bool {
        if used {
            self.unused_since.remove(identity);
            return false;
        }
        let since = *self.unused_since.entry(identity.clone()).or_insert(now);
        now.saturating_sub(since) >= rest_ms
    }

    fn retire_vips(&mut self, now: u64) {
        let mut done = Vec::new();
        for retiring in self.intent.version.retiring.clone() {
            let identity = vip_identity(&retiring.vip);
            let Some(id) = self.ids.find(&identity) else {
                done.push(identity);
                continue;
            };
            let gauge = format!("vip.{id}.sessions");
            let sessions = self.gauge_sum(&retiring.group.lds, &gauge);
            let used = self.flows.uses_vip(id) || sessions.is_some_and(|sessions| sessions > 0);
            // Where LDs tell, a second is enough; where they don't, a session
            // that nobody sees lasts as long as its timeout.
            let rest = match sessions {
                Some(0) => PERIOD_MS,
                _ => longest(&retiring.vip.timeouts),
            };
            if self.rested(&identity, used, now, rest) {
                tracing::info!(vip = retiring.vip.name, "removed VIP has no sessions left");
                done.push(identity);
            }
        }
        if done.is_empty() {
            return;
        }
        let mut version = self.intent.version.clone();
        version
            .retiring
            .retain(|retiring| !done.contains(&vip_identity(&retiring.vip)));
        self.intent = Intent::new(version, self.intent.gateway.clone());
        self.save_ids();
        self.rebuild();
    }

    fn retire_locals(&mut self, now: u64) {
        let rest = self.longest_timeout();
        let mut done = Vec::new();
        for local in self.intent.version.retiring_locals.clone() {
            let identity = crate::desired::local_identity(local.vni, local.addr);
            let id = self.ids.find(&identity);
            let used = id.is_some_and(|id| self.flows.uses_local(id));
            if self.rested(&identity, used, now, rest) {
                done.push((local.vni, local.addr));
            }
        }
        if done.is_empty() {
            return;
        }
        let mut version = self.intent.version.clone();
        version
            .retiring_locals
            .retain(|local| !done.contains(&(local.vni, local.addr)));
        self.intent = Intent::new(version, self.intent.gateway.clone());
        self.save_ids();
        self.rebuild();
    }

    fn release_ids(&mut self, now: u64) {
        let wanted: HashSet<Identity> = self.intent.identities(&self.ids);
        let candidates: Vec<(Kind, u16, Identity)> = self
            .ids
            .iter()
            .map(|(kind, id, identity)| (kind, id, identity.clone()))
            .collect();
        let longest = self.longest_timeout();
        let mut released = false;
        for (kind, id, identity) in candidates {
            let (used, rest) = match kind {
                Kind::Vip => (self.flows.uses_vip(id), 0),
                Kind::Local => (self.flows.uses_local(id), 0),
                Kind::Server => (self.flows.uses_server(id), longest),
                Kind::Nexthop => (self.desired.hops.contains_key(&id), PLAIN_REST_MS),
                Kind::Slot | Kind::Group => (false, PLAIN_REST_MS),
            };
            if wanted.contains(&identity) {
                continue;
            }
            if self.rested(&identity, used, now, rest) {
                self.unused_since.remove(&identity);
                self.ids.release(kind, id);
                released = true;
            }
        }
        if released {
            self.save_ids();
            self.rebuild();
        }
    }

    fn longest_timeout(&self) -> u64 {
        self.intent
            .effective
            .vips
            .iter()
            .map(|vip| longest(&vip.timeouts))
            .max()
            .unwrap_or(PLAIN_REST_MS)
    }
}

/// How long a session can go without a packet.
fn longest(timeouts: &Timeouts) -> u64 {
    let Timeouts {
        syn_ms,
        established_ms,
        fin_ms,
        time_wait_ms,
        close_ms,
        udp_ms,
        port_hold_ms: _,
    } = *timeouts;
    [
        syn_ms,
        established_ms,
        fin_ms,
        time_wait_ms,
        close_ms,
        udp_ms,
    ]
    .into_iter()
    .max()
    .map_or(0, u64::from)
}
