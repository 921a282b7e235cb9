//! Multicast groups and clone sessions.

use std::collections::BTreeMap;

use crate::switch::{CloneSession, MulticastGroup, Replica};

/// All groups and sessions, with their copies in the order of output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replication {
    groups: BTreeMap<u16, (MulticastGroup, Vec<Replica>)>,
    sessions: BTreeMap<u16, (CloneSession, Vec<Replica>)>,
}

/// Instances in the order of their first appearance, ports ascending within
/// one; each pair once.
fn ordered(replicas: &[Replica]) -> Vec<Replica> {
    let mut instances: Vec<u16> = Vec::new();
    for r in replicas {
        if !instances.contains(&r.instance) {
            instances.push(r.instance);
        }
    }
    instances
        .into_iter()
        .flat_map(|i| {
            let mut of: Vec<Replica> = replicas
                .iter()
                .copied()
                .filter(|r| r.instance == i)
                .collect();
            of.sort_unstable();
            of.dedup();
            of
        })
        .collect()
}

impl Replication {
    pub(crate) fn set_group(&mut self, group: MulticastGroup) {
        let order = ordered(&group.replicas);
        self.groups.insert(group.id, (group, order));
    }

    pub(crate) fn delete_group(&mut self, id: u16) -> bool {
        self.groups.remove(&id).is_some()
    }

    pub(crate) fn groups(&self) -> Vec<MulticastGroup> {
        self.groups.values().map(|(g, _)| g.clone()).collect()
    }

    /// The copies of a group; none if it does not exist.
    pub(crate) fn group(&self, id: u16) -> &[Replica] {
        self.groups.get(&id).map_or(&[], |(_, order)| order)
    }

    pub(crate) fn set_session(&mut self, session: CloneSession) {
        let order = ordered(&session.replicas);
        self.sessions.insert(session.id, (session, order));
    }

    pub(crate) fn delete_session(&mut self, id: u16) -> bool {
        self.sessions.remove(&id).is_some()
    }

    pub(crate) fn sessions(&self) -> Vec<CloneSession> {
        self.sessions.values().map(|(s, _)| s.clone()).collect()
    }

    /// The copies of a session and the length that they are cut to.
    pub(crate) fn session(&self, id: u16) -> Option<(&[Replica], usize)> {
        let (session, order) = self.sessions.get(&id)?;
        let cut = match session.truncate_to {
            0 => usize::MAX,
            n => n as usize,
        };
        Some((order, cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_go_out_by_instance_then_port() {
        let r = |instance, port| Replica { instance, port };
        let order = ordered(&[r(7, 3), r(2, 9), r(7, 1), r(2, 4), r(7, 3)]);
        assert_eq!(order, [r(7, 1), r(7, 3), r(2, 4), r(2, 9)]);
    }
}
