//! Multicast groups and clone sessions.

use std::collections::BTreeMap;

use crate::switch::port_state::PortsDown;
use crate::switch::{CloneSession, MulticastGroup, Replica};

/// All groups and sessions, with their copies in the order of output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replication {
    groups: BTreeMap<u16, (MulticastGroup, Copies)>,
    sessions: BTreeMap<u16, (CloneSession, Copies)>,
}

/// The copies that a group or session makes.
#[derive(Debug, Clone)]
struct Copies {
    /// For each replica, itself and those that stand in for it, the preferred
    /// first.
    chains: Vec<Vec<Replica>>,
    /// Those that are made now.
    order: Vec<Replica>,
}

impl Copies {
    fn new(
        replicas: &[Replica],
        mut backups: Vec<Vec<Replica>>,
        down: &PortsDown,
        before: &[Replica],
    ) -> Self {
        backups.resize_with(replicas.len(), Vec::new);
        let order = ordered(replicas, before);
        let mut chains: Vec<Vec<Replica>> = replicas
            .iter()
            .zip(backups)
            .map(|(first, rest)| std::iter::once(*first).chain(rest).collect())
            .collect();
        chains.sort_by_key(|c| order.iter().position(|r| Some(r) == c.first()));
        let mut copies = Self {
            chains,
            order: Vec::new(),
        };
        copies.choose(down);
        copies
    }

    /// The first of each chain whose port is up; the first of all if none is.
    /// Its port then drops the copy.
    fn choose(&mut self, down: &PortsDown) {
        self.order.clear();
        for chain in &self.chains {
            let up = chain.iter().find(|replica| !down.contains(replica.port));
            if let Some(chosen) = up.or(chain.first())
                && !self.order.contains(chosen)
            {
                self.order.push(*chosen);
            }
        }
    }

    /// The replicas as they are without backups.
    fn preferred(&self) -> Vec<Replica> {
        let first = |chain: &Vec<Replica>| chain.first().copied();
        self.chains.iter().filter_map(first).collect()
    }

    fn has_backups(&self) -> bool {
        self.chains.iter().any(|chain| chain.len() > 1)
    }
}

/// Instances one after the other, ports ascending within one; each pair once.
///
/// The order of instances is bmv2's, as far as it follows a rule: the last
/// that the controller names comes first, but after a change those that were
/// there (`before`) keep their places in front of new ones.
fn ordered(replicas: &[Replica], before: &[Replica]) -> Vec<Replica> {
    let mut instances: Vec<u16> = Vec::new();
    let mut add = |r: &Replica| {
        if !instances.contains(&r.instance) {
            instances.push(r.instance);
        }
    };
    let stays = |r: &&Replica| replicas.iter().any(|n| n.instance == r.instance);
    before.iter().filter(stays).for_each(&mut add);
    // Reversed, the last of a kind would count; it is the first that does.
    let firsts = replicas.iter().enumerate().filter(|(i, r)| {
        let earlier = replicas.get(..*i).unwrap_or(&[]);
        !earlier.iter().any(|e| e.instance == r.instance)
    });
    firsts.map(|(_, r)| r).rev().for_each(&mut add);
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
    pub(crate) fn set_group(
        &mut self,
        group: MulticastGroup,
        backups: Vec<Vec<Replica>>,
        down: &PortsDown,
    ) {
        let before = self.groups.get(&group.id).map(|(_, c)| c.preferred());
        let before = before.unwrap_or_default();
        let copies = Copies::new(&group.replicas, backups, down, &before);
        self.groups.insert(group.id, (group, copies));
    }

    /// Whether a change of a port's state changes any copies.
    pub(crate) fn has_backups(&self) -> bool {
        let of_groups = self.groups.values().map(|(_, copies)| copies);
        let mut all = of_groups.chain(self.sessions.values().map(|(_, copies)| copies));
        all.any(Copies::has_backups)
    }

    pub(crate) fn set_ports_down(&mut self, down: &PortsDown) {
        let of_groups = self.groups.values_mut().map(|(_, copies)| copies);
        let all = of_groups.chain(self.sessions.values_mut().map(|(_, copies)| copies));
        for copies in all.filter(|copies| copies.has_backups()) {
            copies.choose(down);
        }
    }

    pub(crate) fn delete_group(&mut self, id: u16) -> bool {
        self.groups.remove(&id).is_some()
    }

    pub(crate) fn groups(&self) -> Vec<MulticastGroup> {
        self.groups.values().map(|(g, _)| g.clone()).collect()
    }

    /// The copies of a group; none if it does not exist.
    pub(crate) fn group(&self, id: u16) -> &[Replica] {
        self.groups
            .get(&id)
            .map_or(&[], |(_, copies)| &copies.order)
    }

    pub(crate) fn set_session(
        &mut self,
        session: CloneSession,
        backups: Vec<Vec<Replica>>,
        down: &PortsDown,
    ) {
        let before = self.sessions.get(&session.id).map(|(_, c)| c.preferred());
        let before = before.unwrap_or_default();
        let copies = Copies::new(&session.replicas, backups, down, &before);
        self.sessions.insert(session.id, (session, copies));
    }

    pub(crate) fn delete_session(&mut self, id: u16) -> bool {
        self.sessions.remove(&id).is_some()
    }

    pub(crate) fn sessions(&self) -> Vec<CloneSession> {
        self.sessions.values().map(|(s, _)| s.clone()).collect()
    }

    /// The copies of a session and the length that they are cut to.
    pub(crate) fn session(&self, id: u16) -> Option<(&[Replica], usize)> {
        let (session, copies) = self.sessions.get(&id)?;
        let cut = match session.truncate_to {
            0 => usize::MAX,
            n => n as usize,
        };
        Some((&copies.order, cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn r(instance: u16, port: u16) -> Replica {
        Replica { instance, port }
    }

    #[test]
    fn a_backup_stands_in_while_the_preferred_ports_are_down() {
        let mut replication = Replication::default();
        let group = MulticastGroup {
            id: 1,
            replicas: vec![r(1, 1), r(2, 2)],
        };
        let backups = vec![vec![], vec![r(3, 3), r(4, 4)]];
        let mut down = PortsDown::default();
        replication.set_group(group.clone(), backups, &down);
        let mut with = |port, is_down| {
            down.set(port, is_down);
            replication.set_ports_down(&down);
            assert_eq!(replication.groups(), std::slice::from_ref(&group));
            replication.group(1).to_vec()
        };
        assert_eq!(with(2, true), [r(3, 3), r(1, 1)]);
        assert_eq!(with(3, true), [r(4, 4), r(1, 1)]);
        // All are down: the first, which its port drops.
        assert_eq!(with(4, true), [r(2, 2), r(1, 1)]);
        assert_eq!(with(3, false), [r(3, 3), r(1, 1)]);
        // Without a backup nothing changes.
        assert_eq!(with(1, true), [r(3, 3), r(1, 1)]);
        assert_eq!(with(2, false), [r(2, 2), r(1, 1)]);
    }

    #[test]
    fn copies_go_out_by_instance_then_port() {
        let order = ordered(&[r(7, 3), r(2, 9), r(7, 1), r(2, 4), r(7, 3)], &[]);
        assert_eq!(order, [r(2, 4), r(2, 9), r(7, 1), r(7, 3)]);
    }

    #[test]
    fn instances_that_stay_keep_their_places() {
        let mut all = Replication::default();
        let mut set = |replicas: &[Replica]| {
            let group = MulticastGroup {
                id: 1,
                replicas: replicas.to_vec(),
            };
            all.set_group(group, Vec::new(), &PortsDown::default());
            all.group(1).to_vec()
        };
        assert_eq!(set(&[r(1, 1), r(2, 1)]), [r(2, 1), r(1, 1)]);
        assert_eq!(
            set(&[r(1, 4), r(5, 1), r(6, 1), r(2, 1)]),
            [r(2, 1), r(1, 4), r(6, 1), r(5, 1)]
        );
        assert_eq!(set(&[r(1, 4), r(6, 2)]), [r(1, 4), r(6, 2)]);
    }
}
