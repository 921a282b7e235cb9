//! Taking operations back.

use super::Tables;
use super::key::Encoded;
use super::profile::Slot;
use super::table::{Before, DefaultEntry, Stored, split_head};
use super::value_set;
use crate::control::{Group, MeterTarget, TableOp};
use crate::meters;
use crate::program::{Program, TableId};

/// What takes an operation back, exactly: slots and counters included.
#[derive(Debug)]
pub(crate) enum Undo {
    Inserted {
        table: TableId,
        slot: u32,
        key: Encoded,
    },
    Modified {
        table: TableId,
        slot: u32,
        before: Before,
    },
    Deleted {
        table: TableId,
        slot: u32,
        key: Encoded,
        before: Before,
    },
    Default {
        table: TableId,
        old: Option<DefaultEntry>,
    },
    /// A member that was removed, and its slot.
    Member {
        profile: u32,
        id: u32,
        at: u32,
        slot: Slot,
    },
    /// A group that was removed, and its slot.
    Group { profile: u32, group: Group, at: u32 },
    /// Rates of a meter, and its tokens.
    Rates(MeterTarget, Box<meters::State>),
    /// What a meter had counted.
    Colours(MeterTarget, Box<meters::State>),
    /// A value set.
    ValueSet(usize, Vec<value_set::Member>),
    /// On anything else: an operation that has the opposite effect.
    Other(TableOp),
}

/// Collects what takes back a batch, if anybody wants to.
#[derive(Debug)]
pub(crate) struct Log(Option<Vec<Undo>>);

impl Log {
    /// Nothing will be taken back.
    pub(crate) fn off() -> Self {
        Self(None)
    }

    /// Everything may be taken back.
    pub(crate) fn on(operations: usize) -> Self {
        Self(Some(Vec::with_capacity(operations)))
    }

    /// Whether anything may be taken back.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Takes over what a batch that is done has noted.
    pub(crate) fn append(&mut self, other: Self) {
        if let (Some(list), Some(mut more)) = (&mut self.0, other.0) {
            list.append(&mut more);
        }
    }

    pub(crate) fn note(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(list) = &mut self.0 {
            list.push(undo());
        }
    }

    /// The last operation that is not yet taken back.
    pub(crate) fn pop(&mut self) -> Option<Undo> {
        self.0.as_mut()?.pop()
    }
}

impl Tables {
    /// Takes one operation on tables, profiles and value sets back. Those after
    /// it were taken back before.
    pub(crate) fn undo(&mut self, program: &Program, undo: Undo) {
        match undo {
            Undo::Member {
                profile,
                id,
                at,
                slot,
            } => {
                if let Ok(p) = self.profile_mut(profile) {
                    // It had room for it before.
                    let _ = p.insert_member(id, slot, Some(at));
                }
            }
            Undo::Group { profile, group, at } => {
                if let Ok(p) = self.profile_mut(profile) {
                    let _ = p.insert_group(&group, Some(at));
                }
            }
            Undo::ValueSet(set, old) => {
                if let Some(s) = self.vsets.get_mut(set) {
                    *s = old;
                }
            }
            Undo::Inserted { table, .. }
            | Undo::Modified { table, .. }
            | Undo::Deleted { table, .. }
            | Undo::Default { table, .. } => self.undo_entry(program, table, undo),
            // They are not in the tables.
            Undo::Rates(..) | Undo::Colours(..) | Undo::Other(_) => {}
        }
    }

    fn undo_entry(&mut self, program: &Program, table: TableId, undo: Undo) {
        let (Ok(info), Ok(t)) = (Self::info(program, table), self.table_mut(table)) else {
            return;
        };
        match undo {
            Undo::Inserted { slot, key, .. } => {
                let (kind, value) = split_head(t.slab.head(slot));
                t.forget(slot, &key);
                self.refer(info, kind, value, false);
            }
            Undo::Modified { slot, before, .. } => {
                let (kind, value) = split_head(t.slab.head(slot));
                t.restore(slot, before, false);
                let (old_kind, old_value) = split_head(t.slab.head(slot));
                self.refer(info, old_kind, old_value, true);
                self.refer(info, kind, value, false);
            }
            Undo::Deleted {
                slot, key, before, ..
            } => {
                t.slab.take(slot);
                t.restore(slot, before, true);
                t.index.insert(slot, &key);
                let (kind, value) = split_head(t.slab.head(slot));
                self.refer(info, kind, value, true);
            }
            Undo::Default { old, .. } => {
                let old = old.map(|d| Stored {
                    kind: d.kind,
                    value: d.value,
                    params: d.params.into_vec().into(),
                });
                // Refuses nothing that was there before.
                let _ = self.replace_default(info, table, old, &mut Log::off());
            }
            _ => {}
        }
    }
}
