//! Multicast groups and clone sessions as bmv2's shell makes them: a group of
//! nodes, a node of ports.

use std::collections::BTreeMap;

use super::matching::{port, small};
use super::setup::Setup;
use crate::switch::{CloneSession, MulticastGroup, Replica};

/// What was made so far.
#[derive(Default)]
pub(super) struct Replication {
    /// By handle.
    nodes: Vec<Node>,
    /// The handles of each group's nodes.
    groups: BTreeMap<u16, Vec<usize>>,
    sessions: BTreeMap<u16, Session>,
}

/// Copies of one `egress_rid`.
struct Node {
    rid: u16,
    ports: Vec<u16>,
}

/// A mirroring session may have both.
#[derive(Default)]
struct Session {
    port: Option<u16>,
    group: Option<u16>,
}

impl Replication {
    fn replicas(&self, group: u16) -> Vec<Replica> {
        let handles = self.groups.get(&group).map_or(&[][..], Vec::as_slice);
        let nodes = handles.iter().filter_map(|&handle| self.nodes.get(handle));
        nodes
            .flat_map(|node| {
                node.ports.iter().map(|&port| Replica {
                    instance: node.rid,
                    port,
                })
            })
            .collect()
    }

    fn session(&mut self, id: &str) -> Result<&mut Session, String> {
        Ok(self.sessions.entry(small(id)?).or_default())
    }
}

impl Setup<'_> {
    /// A command about groups, nodes or sessions, with its arguments.
    pub(super) fn replicate(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        match (name, words) {
            ("mc_mgrp_create", [group]) => {
                self.replication.groups.entry(small(group)?).or_default();
            }
            ("mc_node_create", [rid, ports @ ..]) => {
                let (rid, ports) = (small(rid)?, ports_of(ports)?);
                self.replication.nodes.push(Node { rid, ports });
            }
            ("mc_node_update", [handle, ports @ ..]) => {
                let (handle, ports) = (small(handle)?, ports_of(ports)?);
                self.node(handle)?.ports = ports;
            }
            ("mc_node_associate", [group, handle]) => {
                let (group, handle) = (small(group)?, small(handle)?);
                self.node(handle)?;
                let nodes = self.replication.groups.get_mut(&group).ok_or_else(|| {
                    format!("there is no multicast group {group}: mc_mgrp_create makes it")
                })?;
                nodes.push(handle);
            }
            ("mirroring_add", [id, out]) => {
                let out = port(out)?;
                self.replication.session(id)?.port = Some(out);
            }
            ("mirroring_add_mc", [id, group]) => {
                let group = small(group)?;
                self.replication.session(id)?.group = Some(group);
            }
            ("mirroring_delete", [id]) => {
                let id = small(id)?;
                let removed = self.replication.sessions.remove(&id);
                removed.ok_or_else(|| no_session(id))?;
                self.switch.delete_clone_session(id);
            }
            ("mirroring_get", [id]) => {
                let id = small(id)?;
                let session = self.replication.sessions.get(&id);
                let session = session.ok_or_else(|| no_session(id))?;
                let to = [("port", session.port), ("multicast group", session.group)];
                let to = to.map(|(what, n)| n.map(|n| format!("{what} {n}")));
                let to: Vec<_> = to.into_iter().flatten().collect();
                (self.log)(&format!("clone session {id}: {}", to.join(", ")));
            }
            _ => return Err(format!("{name} is not supported")),
        }
        self.sync();
        Ok(())
    }

    fn node(&mut self, handle: usize) -> Result<&mut Node, String> {
        let nodes = &mut self.replication.nodes;
        nodes.get_mut(handle).ok_or_else(|| {
            format!(
                "there is no node {handle}: mc_node_create makes nodes, which are numbered from 0"
            )
        })
    }

    /// Brings groups and sessions to the switch.
    fn sync(&self) {
        let made = &self.replication;
        for &id in made.groups.keys() {
            let replicas = made.replicas(id);
            self.switch
                .set_multicast_group(MulticastGroup { id, replicas });
        }
        for (&id, session) in &made.sessions {
            let mut replicas = session.group.map_or_else(Vec::new, |g| made.replicas(g));
            replicas.extend(session.port.map(|port| Replica { instance: 0, port }));
            self.switch.set_clone_session(CloneSession {
                id,
                replicas,
                truncate_to: 0,
                class_of_service: 0,
            });
        }
    }
}

fn no_session(id: u16) -> String {
    format!("there is no clone session {id}: mirroring_add makes it")
}

fn ports_of(words: &[&str]) -> Result<Vec<u16>, String> {
    if words.contains(&"|") {
        return Err("link aggregation groups (after the |) are not supported".into());
    }
    words.iter().map(|word| port(word)).collect()
}
