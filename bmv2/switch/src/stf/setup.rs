//! What a test or an entries file does to the tables of a switch.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::matching::{bytes_of, field_index, field_match, number, pick};
use super::parse::{Call, Command, Match};
use super::replication::Replication;
use super::{Priorities, Priority};
use crate::control::{ActionCall, EntryAction, EntryKey, FieldMatch, TableEntry, TableOp, Value};
use crate::program::{ActionId, MatchKind, Program, TableId};
use crate::switch::{Switch, Timestamp};

/// A switch and what was done to it so far.
pub(super) struct Setup<'a> {
    pub(super) switch: Arc<Switch>,
    pub(super) program: Arc<Program>,
    pub(super) labels: BTreeMap<String, (TableId, EntryKey)>,
    pub(super) added: Vec<(TableId, EntryKey)>,
    pub(super) priorities: Priorities,
    pub(super) replication: Replication,
    /// Members made in each action profile, and the members of its groups.
    pub(super) members: BTreeMap<u32, u32>,
    pub(super) profile_groups: BTreeMap<u32, Vec<Vec<u32>>>,
    pub(super) log: &'a mut dyn FnMut(&str),
}

impl<'a> Setup<'a> {
    /// `None` if the switch has no program.
    pub(super) fn new(switch: Arc<Switch>, log: &'a mut dyn FnMut(&str)) -> Option<Self> {
        Some(Self {
            program: switch.program()?,
            switch,
            labels: BTreeMap::new(),
            added: Vec::new(),
            priorities: Priorities::new(),
            replication: Replication::default(),
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
        let found = pick("table", tables.iter().map(|t| t.name.as_str()), name)?;
        Ok(TableId(u32::try_from(found).unwrap_or(u32::MAX)))
    }

    /// An action of a table.
    pub(super) fn action(&self, table: TableId, name: &str) -> Result<ActionId, String> {
        let info = self.program.tables().get(table.index());
        let info = info.ok_or("no such table")?;
        let kind = format!("action of table {}", info.name);
        let names = info.actions.iter().map(|(n, _)| n.as_str());
        let found = info.actions.get(pick(&kind, names, name)?);
        found
            .map(|(_, id)| *id)
            .ok_or_else(|| "no such action".into())
    }

    pub(super) fn call(&self, table: TableId, call: &Call) -> Result<ActionCall, String> {
        let id = self.action(table, &call.action)?;
        let params = self
            .program
            .actions()
            .get(id.index())
            .map_or(&[][..], |a| a.params.as_slice());
        for (i, (name, _)) in call.args.iter().enumerate() {
            if !params.iter().any(|p| p.name == *name) {
                let known = listed(params.iter().map(|p| p.name.as_str()));
                return Err(format!(
                    "action {} has no parameter {name:?}; it has {known}",
                    call.action
                ));
            }
            if call.args.iter().take(i).any(|(earlier, _)| earlier == name) {
                return Err(format!("the argument {name:?} is given twice"));
            }
        }
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
        &mut self,
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
        let mut given = vec![false; fields.len()];
        for (name, m) in matches {
            let i = field_index(&info.key, name).ok_or_else(|| {
                let known = listed(info.key.iter().map(|f| f.name.as_str()));
                format!(
                    "table {} has no key field {name:?}; it has {known}",
                    info.name
                )
            })?;
            let slots = (fields.get_mut(i), given.get_mut(i), info.key.get(i));
            if let (Some(slot), Some(given), Some(f)) = slots {
                if std::mem::replace(given, true) {
                    return Err(format!("the key field {} is given twice", f.name));
                }
                *slot = field_match(f, m)?;
            }
        }
        if !info.needs_priority {
            return Ok(EntryKey {
                fields,
                priority: 0,
            });
        }
        let written = priority.unwrap_or(0);
        // The switch has none below 1.
        let priority = written.saturating_add(1);
        self.priorities
            .insert((table, priority), Priority::HigherWins(written));
        Ok(EntryKey { fields, priority })
    }
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}
