//! Changing entries and default actions.
//!
//! What the program alone decides about an operation is done beforehand,
//! without the tables ([`prepare`]); packets wait only for the rest.

use smallvec::SmallVec;

use super::key::Encoded;
use super::params::pack_params;
use super::profile::Slot;
use super::table::{DefaultEntry, Kind, Stored, Table, split_head};
use super::undo::{Log, Undo};
use super::{Tables, name};
use crate::control::{ActionCall, EntryAction, EntryKey, TableEntry, TableError, TableOp};
use crate::program::{Program, TableId, TableInfo};
use crate::switch::Timestamp;

/// An operation, as far as it could be prepared without the tables.
#[derive(Debug)]
pub(crate) enum Prepared<'o> {
    /// Adds an entry.
    Insert(NewEntry<'o>),
    /// Changes an entry.
    Modify(NewEntry<'o>),
    /// Removes an entry, unless the program's entries are constant.
    Delete(TableId, Encoded, Result<(), TableError>),
    /// Everything else.
    Other(&'o TableOp),
}

/// An entry ready to be stored.
#[derive(Debug)]
pub(crate) struct NewEntry<'o> {
    table: TableId,
    key: Encoded,
    /// What it does, or why it is refused once its key has been looked up.
    action: Result<Planned, TableError>,
    entry: &'o TableEntry,
}

/// An action, as far as the program alone decides it.
#[derive(Debug)]
enum Planned {
    Stored(Stored),
    Member(u32),
    Group(u32),
}

/// Prepares an operation.
///
/// # Errors
/// Why it is refused whatever the tables hold.
pub(crate) fn prepare<'o>(program: &Program, op: &'o TableOp) -> Result<Prepared<'o>, TableError> {
    Ok(match op {
        TableOp::Insert { table, entry } => {
            let mut new = NewEntry::prepare(program, *table, entry, false)?;
            new.action = Ok(new.action?);
            Prepared::Insert(new)
        }
        TableOp::Modify { table, entry } => {
            Prepared::Modify(NewEntry::prepare(program, *table, entry, false)?)
        }
        TableOp::Delete { table, key } => {
            let (info, key) = encode(program, *table, key)?;
            let allowed = if info.is_const {
                Err(immutable(info, "the entry list"))
            } else {
                Ok(())
            };
            Prepared::Delete(*table, key, allowed)
        }
        other => Prepared::Other(other),
    })
}

impl<'o> NewEntry<'o> {
    /// `initial` entries come from the program itself.
    fn prepare(
        program: &Program,
        table: TableId,
        entry: &'o TableEntry,
        initial: bool,
    ) -> Result<Self, TableError> {
        let (info, key) = encode(program, table, &entry.key)?;
        let action = if info.is_const && !initial {
            Err(immutable(info, "the entry list"))
        } else {
            check_timeout(info, entry).and_then(|()| plan(program, info, &entry.action))
        };
        Ok(Self {
            table,
            key,
            action,
            entry,
        })
    }

    fn action(&self) -> Result<&Planned, TableError> {
        self.action.as_ref().map_err(Clone::clone)
    }
}

/// An entry's key in words.
pub(super) fn encode<'p>(
    program: &'p Program,
    table: TableId,
    key: &EntryKey,
) -> Result<(&'p TableInfo, Encoded), TableError> {
    let info = Tables::info(program, table)?;
    if info.key.is_empty() {
        return Err(TableError::Invalid {
            place: name(info),
            what: "it has no key, so it has no entries".into(),
        });
    }
    let layout = program.ir.tables.get(table.index()).map(|t| &t.layout);
    match layout {
        Some(l) => Ok((info, l.encode(&info.name, key)?)),
        None => Err(TableError::NoSuchObject {
            what: "table",
            id: table.0,
        }),
    }
}

/// Checks an action against a table.
fn plan(program: &Program, info: &TableInfo, action: &EntryAction) -> Result<Planned, TableError> {
    match (action, info.profile) {
        (EntryAction::Call(call), _) => {
            if !info.actions.iter().any(|(_, a)| *a == call.action) {
                let action = program
                    .actions
                    .get(call.action.index())
                    .map_or("?", |a| a.name.as_str());
                return Err(TableError::Invalid {
                    place: name(info),
                    what: format!("{action} (id {}) is not one of its actions", call.action.0),
                });
            }
            Ok(Planned::Stored(Stored {
                kind: Kind::Call,
                value: call.action.0,
                params: pack_params(&name(info), program, call)?,
            }))
        }
        (EntryAction::Member(id), Some(_)) => Ok(Planned::Member(*id)),
        (EntryAction::Group(id), Some(_)) => Ok(Planned::Group(*id)),
        (_, None) => Err(TableError::Invalid {
            place: name(info),
            what: "it has no action profile; entries must name an action".into(),
        }),
    }
}

impl Tables {
    /// Finds the member or group that an action names.
    fn settle(&self, info: &TableInfo, planned: &Planned) -> Result<Stored, TableError> {
        let slot = |kind, value| Stored {
            kind,
            value,
            params: SmallVec::new(),
        };
        let profile = |t: &TableInfo| self.profile(t.profile.map_or(u32::MAX, |p| p.0));
        Ok(match planned {
            Planned::Stored(s) => s.clone(),
            Planned::Member(id) => slot(Kind::Member, profile(info)?.member_slot(*id)?),
            Planned::Group(id) => slot(Kind::Group, profile(info)?.group_slot(*id)?),
        })
    }

    /// Checks an action against a table and the profiles.
    pub(super) fn resolve(
        &self,
        program: &Program,
        table: TableId,
        action: &EntryAction,
    ) -> Result<Stored, TableError> {
        let info = Self::info(program, table)?;
        self.settle(info, &plan(program, info, action)?)
    }

    pub(super) fn refer(&mut self, info: &TableInfo, kind: Kind, value: u32, more: bool) {
        if let (Some(p), Kind::Member | Kind::Group) = (info.profile, kind)
            && let Some(p) = self.profiles.get_mut(p.index())
        {
            p.refer(kind == Kind::Group, value, more);
        }
    }

    fn find_encoded(
        &self,
        info: &TableInfo,
        table: TableId,
        key: &Encoded,
    ) -> Result<u32, TableError> {
        let t = self.table(table)?;
        t.index
            .find(&t.parts, &t.slab, key)
            .ok_or_else(|| TableError::NotFound {
                place: name(info),
                what: "entry".into(),
            })
    }

    /// The slot of an entry.
    pub(super) fn find(
        &self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
    ) -> Result<u32, TableError> {
        let (info, e) = encode(program, table, key)?;
        self.find_encoded(info, table, &e)
    }

    /// Looks at all that an operation is going to look at.
    pub(crate) fn touch(&self, op: &Prepared<'_>) {
        let (table, key) = match op {
            Prepared::Insert(new) | Prepared::Modify(new) => (new.table, &new.key),
            Prepared::Delete(table, key, _) => (*table, key),
            Prepared::Other(_) => return,
        };
        if let Ok(t) = self.table(table) {
            std::hint::black_box(t.index.find(&t.parts, &t.slab, key));
        }
    }

    /// Adds an entry of the program itself.
    pub(super) fn insert_initial(
        &mut self,
        program: &Program,
        table: TableId,
        entry: &TableEntry,
    ) -> Result<(), TableError> {
        let new = NewEntry::prepare(program, table, entry, true)?;
        self.insert(program, &new, Timestamp::default(), &mut Log::off())
    }

    /// Whether there may be one more entry, this one.
    fn check_new(&self, info: &TableInfo, new: &NewEntry<'_>) -> Result<&Table, TableError> {
        let t = self.table(new.table)?;
        if t.index.find(&t.parts, &t.slab, &new.key).is_some() {
            return Err(TableError::AlreadyExists {
                place: name(info),
                what: "an entry with this key".into(),
            });
        }
        if t.slab.len() >= info.size {
            return Err(TableError::Full {
                place: name(info),
                size: u64::from(info.size),
            });
        }
        Ok(t)
    }

    /// Whether [`Tables::insert_beside`] can do this.
    pub(crate) fn can_insert_beside(&self, op: &Prepared<'_>) -> bool {
        match op {
            Prepared::Insert(new) => {
                matches!(new.action, Ok(Planned::Stored(_)))
                    && self
                        .tables
                        .get(new.table.index())
                        .is_some_and(|t| t.has_room(&new.key))
            }
            _ => false,
        }
    }

    /// Adds an entry to an exact table while packets are looked up in it; only
    /// the one writer may do so. `None` if this operation needs the tables for
    /// itself: because it is another one, or something has to grow first.
    pub(crate) fn insert_beside(
        &self,
        program: &Program,
        op: &Prepared<'_>,
        now: Timestamp,
        log: &mut Log,
    ) -> Option<Result<(), TableError>> {
        let Prepared::Insert(new) = op else {
            return None;
        };
        let Ok(Planned::Stored(action)) = &new.action else {
            return None;
        };
        let t = self.tables.get(new.table.index())?;
        if !t.has_room(&new.key) {
            return None;
        }
        Some(Self::info(program, new.table).and_then(|info| {
            self.check_new(info, new)?;
            let slot = t.store(&new.key, action, new.entry, now);
            t.index.add(slot, &new.key);
            log.note(|| Undo::Inserted {
                table: new.table,
                slot,
                key: new.key.clone(),
            });
            Ok(())
        }))
    }

    /// Adds an entry.
    pub(crate) fn insert(
        &mut self,
        program: &Program,
        new: &NewEntry<'_>,
        now: Timestamp,
        log: &mut Log,
    ) -> Result<(), TableError> {
        let (table, e) = (new.table, &new.key);
        let info = Self::info(program, table)?;
        let stored = self.settle(info, new.action()?)?;
        self.check_new(info, new)?;
        let t = self.table_mut(table)?;
        t.slab.make_room();
        let slot = t.store(e, &stored, new.entry, now);
        if let Some(m) = &mut t.meters {
            m.make(slot);
        }
        t.index.insert(slot, e);
        self.refer(info, stored.kind, stored.value, true);
        log.note(|| Undo::Inserted {
            table,
            slot,
            key: e.clone(),
        });
        Ok(())
    }

    /// Replaces what an entry does; counters stay, the idle timer restarts.
    pub(crate) fn modify(
        &mut self,
        program: &Program,
        new: &NewEntry<'_>,
        now: Timestamp,
        log: &mut Log,
    ) -> Result<(), TableError> {
        let table = new.table;
        let info = Self::info(program, table)?;
        let slot = self.find_encoded(info, table, &new.key)?;
        let stored = self.settle(info, new.action()?)?;
        let t = self.table_mut(table)?;
        log.note(|| Undo::Modified {
            table,
            slot,
            before: t.before(slot),
        });
        let (kind, value) = split_head(t.slab.head(slot));
        t.store_action(slot, &stored);
        t.store_extras(slot, new.entry, now);
        self.refer(info, stored.kind, stored.value, true);
        self.refer(info, kind, value, false);
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn delete(
        &mut self,
        program: &Program,
        table: TableId,
        key: &Encoded,
        allowed: &Result<(), TableError>,
        log: &mut Log,
    ) -> Result<(), TableError> {
        let info = Self::info(program, table)?;
        let slot = self.find_encoded(info, table, key)?;
        allowed.clone()?;
        let t = self.table_mut(table)?;
        log.note(|| Undo::Deleted {
            table,
            slot,
            key: key.clone(),
            before: t.before(slot),
        });
        let (kind, value) = split_head(t.slab.head(slot));
        t.forget(slot, key);
        self.refer(info, kind, value, false);
        Ok(())
    }

    /// Sets what a miss does.
    pub(crate) fn set_default(
        &mut self,
        program: &Program,
        table: TableId,
        action: &EntryAction,
        log: &mut Log,
    ) -> Result<(), TableError> {
        let info = Self::info(program, table)?;
        let stored = self.resolve(program, table, action)?;
        let t = self.table(table)?;
        if info.const_default_params {
            return Err(immutable(info, "the default entry"));
        }
        if info.const_default_action
            && t.initial
                .as_ref()
                .is_some_and(|d| d.kind != stored.kind || d.value != stored.value)
        {
            return Err(immutable(info, "the default action"));
        }
        self.replace_default(info, table, Some(stored), log)
    }

    /// Sets the default action back to the program's.
    pub(crate) fn reset_default(
        &mut self,
        program: &Program,
        table: TableId,
        log: &mut Log,
    ) -> Result<(), TableError> {
        let info = Self::info(program, table)?;
        if info.const_default_params {
            return Err(immutable(info, "the default entry"));
        }
        let initial = self.table(table)?.initial.clone().map(|d| Stored {
            kind: d.kind,
            value: d.value,
            params: SmallVec::from_slice(&d.params),
        });
        self.replace_default(info, table, initial, log)
    }

    pub(super) fn replace_default(
        &mut self,
        info: &TableInfo,
        table: TableId,
        new: Option<Stored>,
        log: &mut Log,
    ) -> Result<(), TableError> {
        if let Some(s) = &new {
            self.refer(info, s.kind, s.value, true);
        }
        let old = std::mem::replace(
            &mut self.table_mut(table)?.default,
            new.map(|s| DefaultEntry {
                kind: s.kind,
                value: s.value,
                params: s.params.into_boxed_slice(),
            }),
        );
        if let Some(d) = &old {
            self.refer(info, d.kind, d.value, false);
        }
        log.note(|| Undo::Default { table, old });
        Ok(())
    }

    /// What a member does, checked against the tables that use the profile.
    pub(crate) fn member_slot(
        program: &Program,
        profile: u32,
        call: &ActionCall,
    ) -> Result<Slot, TableError> {
        let Some(info) = program.profiles.get(profile as usize) else {
            return Err(TableError::NoSuchObject {
                what: "action profile",
                id: profile,
            });
        };
        let place = format!("action profile {}", info.name);
        let known = info.tables.iter().any(|t| {
            program
                .tables
                .get(t.index())
                .is_some_and(|t| t.actions.iter().any(|(_, a)| *a == call.action))
        });
        if !known {
            return Err(TableError::Invalid {
                place,
                what: format!("no table that uses it has action {}", call.action.0),
            });
        }
        Ok(Slot {
            action: call.action.0,
            params: pack_params(&place, program, call)?.into_boxed_slice(),
        })
    }
}

fn immutable(info: &TableInfo, what: &'static str) -> TableError {
    TableError::Immutable {
        place: name(info),
        what,
    }
}

fn check_timeout(info: &TableInfo, entry: &TableEntry) -> Result<(), TableError> {
    if entry.idle_timeout_ns > 0 && !info.support_timeout {
        return Err(TableError::Invalid {
            place: name(info),
            what: "its entries cannot have an idle timeout".into(),
        });
    }
    Ok(())
}
