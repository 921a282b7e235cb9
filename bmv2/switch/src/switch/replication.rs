//! Multicast groups and clone sessions. They outlive pipelines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CloneSession, MulticastGroup, Replica, Switch};
use crate::replication::Replication;

impl Switch {
    pub(super) fn change_replication<R>(&self, change: impl FnOnce(&mut Replication) -> R) -> R {
        let mut guard = self.replication.write();
        let result = change(Arc::make_mut(&mut guard));
        self.replication_generation.fetch_add(1, Ordering::Release);
        result
    }

    /// Adds or replaces a multicast group.
    pub fn set_multicast_group(&self, group: MulticastGroup) {
        self.set_multicast_group_with_backups(group, Vec::new());
    }

    /// Adds or replaces a multicast group. `backups` are for each of the
    /// group's replicas those that stand in for it, the preferred first, while
    /// its port is down (see [`Self::set_port_up`]). While all are down the
    /// replica itself is made.
    pub fn set_multicast_group_with_backups(
        &self,
        group: MulticastGroup,
        backups: Vec<Vec<Replica>>,
    ) {
        let down = self.ports_down.lock();
        self.change_replication(|r| r.set_group(group, backups, &down));
    }

    /// Removes a multicast group; false if there was none.
    pub fn delete_multicast_group(&self, id: u16) -> bool {
        self.change_replication(|r| r.delete_group(id))
    }

    /// All multicast groups, by id.
    pub fn multicast_groups(&self) -> Vec<MulticastGroup> {
        self.replication.read().groups()
    }

    /// Adds or replaces a clone session.
    pub fn set_clone_session(&self, session: CloneSession) {
        self.set_clone_session_with_backups(session, Vec::new());
    }

    /// Adds or replaces a clone session with stand-ins for its replicas, as
    /// [`Self::set_multicast_group_with_backups`].
    pub fn set_clone_session_with_backups(
        &self,
        session: CloneSession,
        backups: Vec<Vec<Replica>>,
    ) {
        let down = self.ports_down.lock();
        self.change_replication(|r| r.set_session(session, backups, &down));
    }

    /// Removes a clone session; false if there was none.
    pub fn delete_clone_session(&self, id: u16) -> bool {
        self.change_replication(|r| r.delete_session(id))
    }

    /// All clone sessions, by id.
    pub fn clone_sessions(&self) -> Vec<CloneSession> {
        self.replication.read().sessions()
    }
}
