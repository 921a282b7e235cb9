//! What a test or an entries file does to a switch: entries, defaults, groups,
//! sessions and cells.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::matching::{bytes_of, field_index, field_match, number, pick, small};
use super::parse::{Call, Command, Comparison, Match};
use crate::control::{
    ActionCall, CounterTarget, EntryAction, EntryKey, FieldMatch, TableEntry, TableOp, Value,
};
use crate::program::{ActionId, MatchKind, Program, TableId};
use crate::switch::{CloneSession, MulticastGroup, Replica, Switch, Timestamp};

/// A switch and what was done to it so far.
pub(super) struct Setup<'a> {
    pub(super) switch: Arc<Switch>,
    pub(super) program: Arc<Program>,
    labels: BTreeMap<String, (TableId, EntryKey)>,
    added: Vec<(TableId, EntryKey)>,
    pub(super) nodes: Vec<(u16, Vec<u16>)>,
    pub(super) groups: BTreeMap<u16, Vec<Replica>>,
    pub(super) sessions: BTreeMap<u16, Session>,
    /// Members made in each action profile, and the members of its groups.
    pub(super) members: BTreeMap<u32, u32>,
    pub(super) profile_groups: BTreeMap<u32, Vec<Vec<u32>>>,
    pub(super) log: &'a mut dyn FnMut(&str),
}

/// A mirroring session as bmv2's shell has it.
#[derive(Default)]
pub(super) struct Session {
    pub(super) port: Option<u16>,
    pub(super) group: Option<u16>,
}

impl<'a> Setup<'a> {
    /// `None` if the switch has no program.
    pub(super) fn new(switch: Arc<Switch>, log: &'a mut dyn FnMut(&str)) -> Option<Self> {
        Some(Self {
            program: switch.program()?,
            switch,
            labels: BTreeMap::new(),
            added: Vec::new(),
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
            members: BTreeMap::new(),
            profile_groups: BTreeMap::new(),
            log,
        })
    }

    /// Carries out a command that is not about packets.
    pub(super) fn command(&mut self, c: &Command, now: Timestamp) -> Result<(), String> {
        match c {
            Command::Add {
                table,
                priority,
                matches,
                call,
                label,
            } => {
                let id = self.table(table)?;
                let key = self.key(id, *priority, matches)?;
                let action = EntryAction::Call(self.call(id, call)?);
                self.insert(id, key.clone(), action, now)?;
                if let Some(l) = label {
                    self.labels.insert(l.clone(), (id, key));
                }
                Ok(())
            }
            Command::RemoveAll => {
                for (table, key) in std::mem::take(&mut self.added) {
                    self.apply(TableOp::Delete { table, key }, now)?;
                }
                Ok(())
            }
            Command::SetDefault { table, call } => {
                let table = self.table(table)?;
                let action = EntryAction::Call(self.call(table, call)?);
                self.apply(TableOp::SetDefault { table, action }, now)
            }
            Command::Direct(name, words) => self.direct(name, words, now),
            Command::Wait => Ok(()),
            Command::Packet { .. }
            | Command::Expect { .. }
            | Command::NoPacket
            | Command::CheckCounter { .. } => {
                Err("a command about packets or counters; it belongs into a test".into())
            }
        }
    }

    pub(super) fn insert(
        &mut self,
        table: TableId,
        key: EntryKey,
        action: EntryAction,
        now: Timestamp,
    ) -> Result<(), String> {
        let entry = TableEntry {
            key: key.clone(),
            action,
            idle_timeout_ns: 0,
            cookie: 0,
            metadata: Vec::new(),
        };
        self.apply(TableOp::Insert { table, entry }, now)?;
        self.added.push((table, key));
        Ok(())
    }

    pub(super) fn apply(&self, op: TableOp, now: Timestamp) -> Result<(), String> {
        match self.switch.apply(now, &[op]).into_iter().next() {
            Some(Err(e)) => Err(e.to_string()),
            _ => Ok(()),
        }
    }

    pub(super) fn table(&self, name: &str) -> Result<TableId, String> {
        let tables = self.program.tables();
        let found = pick(tables.iter().map(|t| t.name.as_str()), name)
            .ok_or_else(|| format!("no table, or more than one, is named {name:?}"))?;
        Ok(TableId(u32::try_from(found).unwrap_or(u32::MAX)))
    }

    /// An action of a table.
    pub(super) fn action(&self, table: TableId, name: &str) -> Result<ActionId, String> {
        let info = self.program.tables().get(table.index());
        let actions = info.map_or(&[][..], |t| t.actions.as_slice());
        pick(actions.iter().map(|(n, _)| n.as_str()), name)
            .and_then(|i| actions.get(i))
            .map(|(_, id)| *id)
            .ok_or_else(|| format!("no action, or more than one, is named {name:?}"))
    }

    pub(super) fn call(&self, table: TableId, call: &Call) -> Result<ActionCall, String> {
        let id = self.action(table, &call.action)?;
        let params = self
            .program
            .actions()
            .get(id.index())
            .map_or(&[][..], |a| a.params.as_slice());
        let params = params
            .iter()
            .map(|p| {
                let arg = call.args.iter().find(|(n, _)| *n == p.name);
                let Some((_, n)) = arg else {
                    return Err(format!("the argument {:?} is missing", p.name));
                };
                bytes_of(&number(n)?)
            })
            .collect::<Result<_, String>>()?;
        Ok(ActionCall { action: id, params })
    }

    pub(super) fn key(
        &self,
        table: TableId,
        priority: Option<i32>,
        matches: &[(String, Match)],
    ) -> Result<EntryKey, String> {
        let info = self
            .program
            .tables()
            .get(table.index())
            .ok_or("no such table")?;
        let mut fields: Vec<FieldMatch> = info
            .key
            .iter()
            .map(|f| match f.kind {
                MatchKind::Exact => FieldMatch::Exact(Value::new()),
                _ => FieldMatch::Any,
            })
            .collect();
        for (name, m) in matches {
            let i = field_index(&info.key, name)
                .ok_or_else(|| format!("table {} has no key field {name:?}", info.name))?;
            if let (Some(slot), Some(f)) = (fields.get_mut(i), info.key.get(i)) {
                *slot = field_match(f, m)?;
            }
        }
        Ok(EntryKey {
            fields,
            priority: if info.needs_priority {
                priority.unwrap_or(0).saturating_add(1)
            } else {
                0
            },
        })
    }

    pub(super) fn counter(&self, name: &str) -> Result<crate::program::CounterId, String> {
        let i = pick(
            self.program.counters().iter().map(|c| c.name.as_str()),
            name,
        )
        .ok_or_else(|| format!("there is no counter {name:?}"))?;
        Ok(crate::program::CounterId(
            u32::try_from(i).unwrap_or(u32::MAX),
        ))
    }

    pub(super) fn register(&self, name: &str) -> Result<crate::program::RegisterId, String> {
        let i = pick(
            self.program.registers().iter().map(|r| r.name.as_str()),
            name,
        )
        .ok_or_else(|| format!("there is no register {name:?}"))?;
        Ok(crate::program::RegisterId(
            u32::try_from(i).unwrap_or(u32::MAX),
        ))
    }

    pub(super) fn meter(&self, name: &str) -> Result<crate::program::MeterId, String> {
        let i = pick(self.program.meters().iter().map(|m| m.name.as_str()), name)
            .ok_or_else(|| format!("there is no meter {name:?}"))?;
        Ok(crate::program::MeterId(
            u32::try_from(i).unwrap_or(u32::MAX),
        ))
    }

    /// Compares a counter: what is wrong with it, if anything.
    pub(super) fn check_counter(
        &self,
        counter: &str,
        target: &str,
        bytes: bool,
        check: Option<(Comparison, u64)>,
    ) -> Result<Option<String>, String> {
        let target = match self.labels.get(target) {
            Some((table, key)) => CounterTarget::Direct {
                table: *table,
                key: key.clone(),
            },
            None => CounterTarget::Indexed {
                counter: self.counter(counter)?,
                index: Some(small(target)?),
            },
        };
        let value = self
            .switch
            .read_counter(&target)
            .map_err(|e| e.to_string())?;
        let value = value.first().copied().unwrap_or_default();
        let n = if bytes { value.bytes } else { value.packets };
        let Some((comparison, wanted)) = check else {
            return Ok(None);
        };
        let holds = match comparison {
            Comparison::Eq => n == wanted,
            Comparison::Ne => n != wanted,
            Comparison::Lt => n < wanted,
            Comparison::Le => n <= wanted,
            Comparison::Gt => n > wanted,
            Comparison::Ge => n >= wanted,
        };
        if holds {
            return Ok(None);
        }
        Ok(Some(format!("the counter is {n}, compared with {wanted}")))
    }

    /// Brings groups and sessions to the switch.
    pub(super) fn sync(&self) {
        for (&id, replicas) in &self.groups {
            self.switch.set_multicast_group(MulticastGroup {
                id,
                replicas: replicas.clone(),
            });
        }
        for (&id, s) in &self.sessions {
            let mut replicas = s
                .group
                .and_then(|g| self.groups.get(&g))
                .cloned()
                .unwrap_or_default();
            replicas.extend(s.port.map(|port| Replica { instance: 0, port }));
            self.switch.set_clone_session(CloneSession {
                id,
                replicas,
                truncate_to: 0,
                class_of_service: 0,
            });
        }
    }
}
