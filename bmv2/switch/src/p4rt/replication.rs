//! The packet replication engine: multicast groups and clone sessions
//! (specification, "PacketReplicationEngineEntry").

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::replica::PortKind;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use tonic::Code;

use super::canonical;
use super::fault::{Fault, Outcome};
use super::sdn_port;
use crate::{CloneSession, MulticastGroup, Replica, Switch};

/// bmv2 keeps the low 15 bits of a clone session's id.
const MAX_SESSION: u32 = 0x7fff;

/// The entries as they were written.
#[derive(Debug, Default, Clone)]
pub(super) struct Replication {
    groups: BTreeMap<u32, p4::MulticastGroupEntry>,
    sessions: BTreeMap<u32, p4::CloneSessionEntry>,
}

impl Replication {
    pub(super) fn write(
        &mut self,
        switch: &Switch,
        kind: UpdateType,
        entry: p4::PacketReplicationEngineEntry,
    ) -> Outcome<()> {
        match entry.r#type {
            Some(Type::MulticastGroupEntry(group)) => self.write_group(switch, kind, group),
            Some(Type::CloneSessionEntry(session)) => self.write_session(switch, kind, session),
            None => Err(Fault::invalid("the replication entry has no type")),
        }
    }

    fn write_group(
        &mut self,
        switch: &Switch,
        kind: UpdateType,
        mut group: p4::MulticastGroupEntry,
    ) -> Outcome<()> {
        let id = group.multicast_group_id;
        let place = format!("multicast group {id}");
        if id == 0 {
            return Err(Fault::invalid("a multicast group cannot have the id 0"));
        }
        let core_id = u16::try_from(id).map_err(|_| {
            Fault::out_of_range(format!("{place}: the greatest id is {}", u16::MAX))
        })?;
        check_existence(&place, kind, self.groups.contains_key(&id))?;
        if kind == UpdateType::Delete {
            switch.delete_multicast_group(core_id);
            self.groups.remove(&id);
            return Ok(());
        }
        let (replicas, backups) = decode_replicas(&place, switch, &group.replicas)?;
        let core = MulticastGroup {
            id: core_id,
            replicas,
        };
        switch.set_multicast_group_with_backups(core, backups);
        canonical::replicas(&mut group.replicas);
        self.groups.insert(id, group);
        Ok(())
    }

    fn write_session(
        &mut self,
        switch: &Switch,
        kind: UpdateType,
        mut session: p4::CloneSessionEntry,
    ) -> Outcome<()> {
        let id = session.session_id;
        let place = format!("clone session {id}");
        if id == 0 {
            return Err(Fault::invalid("a clone session cannot have the id 0"));
        }
        let core_id = u16::try_from(id)
            .ok()
            .filter(|_| id <= MAX_SESSION)
            .ok_or_else(|| {
                Fault::out_of_range(format!("{place}: the greatest id is {MAX_SESSION}"))
            })?;
        check_existence(&place, kind, self.sessions.contains_key(&id))?;
        if kind == UpdateType::Delete {
            switch.delete_clone_session(core_id);
            self.sessions.remove(&id);
            return Ok(());
        }
        let (replicas, backups) = decode_replicas(&place, switch, &session.replicas)?;
        let truncate_to = u32::try_from(session.packet_length_bytes)
            .map_err(|_| Fault::invalid(format!("{place}: packet_length_bytes is negative")))?;
        let core = CloneSession {
            id: core_id,
            replicas,
            truncate_to,
            class_of_service: session.class_of_service,
        };
        switch.set_clone_session_with_backups(core, backups);
        canonical::replicas(&mut session.replicas);
        self.sessions.insert(id, session);
        Ok(())
    }

    /// Of the entries that a query asks for, the first one with an id beyond
    /// `after`, and its id. An id of 0 asks for all.
    pub(super) fn next(
        &self,
        query: &p4::PacketReplicationEngineEntry,
        after: Option<u32>,
    ) -> Outcome<Option<(u32, p4::PacketReplicationEngineEntry)>> {
        let found = match &query.r#type {
            Some(Type::MulticastGroupEntry(group)) => {
                let id = group.multicast_group_id;
                select(&self.groups, "multicast group", id, after)?
                    .map(|(id, entry)| (id, Type::MulticastGroupEntry(entry)))
            }
            Some(Type::CloneSessionEntry(session)) => {
                select(&self.sessions, "clone session", session.session_id, after)?
                    .map(|(id, entry)| (id, Type::CloneSessionEntry(entry)))
            }
            None => return Err(Fault::invalid("the replication entry has no type")),
        };
        Ok(found.map(|(id, entry)| {
            let r#type = Some(entry);
            (id, p4::PacketReplicationEngineEntry { r#type })
        }))
    }

    /// Writes all entries to another switch, in place of those that it has with
    /// the same ids.
    pub(super) fn move_to(&mut self, switch: &Switch) -> Outcome<()> {
        let old = std::mem::take(self);
        for group in old.groups.into_values() {
            self.write_group(switch, UpdateType::Insert, group)?;
        }
        for session in old.sessions.into_values() {
            self.write_session(switch, UpdateType::Insert, session)?;
        }
        Ok(())
    }

    /// Takes over the groups and sessions that are in the switch and that nobody
    /// wrote by P4Runtime. Session 0, which P4Runtime cannot name, stays
    /// unknown.
    pub(super) fn adopt(&mut self, switch: &Switch) {
        for group in switch.multicast_groups() {
            let id = u32::from(group.id);
            let message = || p4::MulticastGroupEntry {
                multicast_group_id: id,
                replicas: group.replicas.iter().map(encode_replica).collect(),
                ..p4::MulticastGroupEntry::default()
            };
            self.groups.entry(id).or_insert_with(message);
        }
        for session in switch.clone_sessions() {
            let id = u32::from(session.id);
            let message = || p4::CloneSessionEntry {
                session_id: id,
                replicas: session.replicas.iter().map(encode_replica).collect(),
                class_of_service: session.class_of_service,
                packet_length_bytes: i32::try_from(session.truncate_to).unwrap_or(i32::MAX),
            };
            if id != 0 {
                self.sessions.entry(id).or_insert_with(message);
            }
        }
    }

    /// Removes all entries from the switch.
    pub(super) fn clear(&mut self, switch: &Switch) {
        for group in switch.multicast_groups() {
            switch.delete_multicast_group(group.id);
        }
        for session in switch.clone_sessions() {
            switch.delete_clone_session(session.id);
        }
        *self = Self::default();
    }
}

fn encode_replica(replica: &Replica) -> p4::Replica {
    p4::Replica {
        instance: replica.instance.into(),
        port_kind: Some(PortKind::Port(sdn_port::to_bytes(replica.port))),
        backup_replicas: Vec::new(),
    }
}

fn select<T: Clone>(
    map: &BTreeMap<u32, T>,
    what: &str,
    id: u32,
    after: Option<u32>,
) -> Outcome<Option<(u32, T)>> {
    if id != 0 {
        return match (map.get(&id), after) {
            (_, Some(_)) => Ok(None),
            (Some(found), None) => Ok(Some((id, found.clone()))),
            (None, None) => Err(Fault::not_found(format!("there is no {what} {id}"))),
        };
    }
    let beyond = after.map_or(Bound::Unbounded, Bound::Excluded);
    let next = map.range((beyond, Bound::Unbounded)).next();
    Ok(next.map(|(id, found)| (*id, found.clone())))
}

fn check_existence(place: &str, kind: UpdateType, exists: bool) -> Outcome<()> {
    match (kind, exists) {
        (UpdateType::Insert, true) => Err(Fault::new(
            Code::AlreadyExists,
            format!("{place} exists already"),
        )),
        (UpdateType::Modify | UpdateType::Delete, false) => {
            Err(Fault::not_found(format!("{place} does not exist")))
        }
        (UpdateType::Unspecified, _) => Err(Fault::invalid("the update has no type")),
        _ => Ok(()),
    }
}

/// Most replicas of a group or session, backups included: bounds the work for
/// one packet.
const MAX_REPLICAS: usize = 1 << 14;

/// The replicas, and for each of them its backups.
fn decode_replicas(
    place: &str,
    switch: &Switch,
    given: &[p4::Replica],
) -> Outcome<(Vec<Replica>, Vec<Vec<Replica>>)> {
    let count: usize = given.iter().map(|r| 1 + r.backup_replicas.len()).sum();
    if count > MAX_REPLICAS {
        return Err(Fault::new(
            Code::ResourceExhausted,
            format!("{place}: it has {count} replicas, the most are {MAX_REPLICAS}"),
        ));
    }
    let mut seen = BTreeSet::new();
    let mut one = |port: u16, instance: u32| {
        let instance = u16::try_from(instance)
            .map_err(|_| Fault::invalid(format!("{place}: instance {instance} is too great")))?;
        if !seen.insert((port, instance)) {
            return Err(Fault::invalid(format!(
                "{place}: port {port} with instance {instance} is given twice"
            )));
        }
        Ok(Replica { instance, port })
    };
    let config = switch.config();
    let (mut replicas, mut backups) = (Vec::new(), Vec::new());
    for replica in given {
        let port = match &replica.port_kind {
            Some(PortKind::EgressPort(port)) => {
                sdn_port::from_number(place, config, (*port).into())?
            }
            Some(PortKind::Port(bytes)) => sdn_port::from_bytes(place, config, bytes)?,
            None => return Err(Fault::invalid(format!("{place}: a replica has no port"))),
        };
        replicas.push(one(port, replica.instance)?);
        let mut stand_ins = Vec::new();
        for backup in &replica.backup_replicas {
            let own = sdn_port::from_bytes(place, config, &backup.port)?;
            if own == port {
                return Err(Fault::invalid(format!(
                    "{place}: a backup has the port {port} of its own replica"
                )));
            }
            stand_ins.push(one(own, backup.instance)?);
        }
        backups.push(stand_ins);
    }
    Ok((replicas, backups))
}
