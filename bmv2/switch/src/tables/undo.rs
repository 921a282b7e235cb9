//! Taking operations back.

use num_bigint::BigInt;

use super::Tables;
use super::key::Encoded;
use super::profile::Slot;
use super::table::{Before, DefaultEntry, Stored, split_head};
use super::value_set;
use crate::control::{CounterValue, Group, MeterTarget, TableOp};
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
    /// All cells of an array.
    Array(Array, Held),
    /// On anything else: an operation that has the opposite effect.
    Other(TableOp),
}

/// An array of cells, and what of them was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Array {
    Counter(u32),
    /// Rates and tokens of meters.
    Rates(u32),
    /// What meters had counted.
    Colours(u32),
    Register(u32),
}

/// What the cells of an array held, in order.
#[derive(Debug)]
pub(crate) enum Held {
    Counters(Vec<CounterValue>),
    Meters(Vec<meters::State>),
    Words(Vec<u64>),
    Numbers(Vec<BigInt>),
}

impl Held {
    /// Takes in what the same array held later: nothing, as it is to be as it was
    /// first, but for what meters have counted since.
    fn add(&mut self, array: Array, later: &Self) {
        if let (Array::Colours(_), Self::Meters(first), Self::Meters(later)) = (array, self, later)
        {
            let pairs = first.iter_mut().zip(later);
            pairs.for_each(|(first, later)| first.add_counts(later));
        }
    }
}

/// Collects what takes back a batch, if anybody wants to. A log is taken back
/// whole or not at all.
#[derive(Debug)]
pub(crate) struct Log {
    list: Option<Vec<Undo>>,
    /// Arrays of which the list has all cells, and where.
    whole: Vec<(Array, usize)>,
}

impl Log {
    /// Nothing will be taken back.
    pub(crate) fn off() -> Self {
        Self {
            list: None,
            whole: Vec::new(),
        }
    }

    /// Everything may be taken back.
    pub(crate) fn on(operations: usize) -> Self {
        Self {
            list: Some(Vec::with_capacity(operations)),
            whole: Vec::new(),
        }
    }

    /// Whether anything may be taken back.
    pub(crate) fn is_on(&self) -> bool {
        self.list.is_some()
    }

    /// Whether what the log has of an array puts it back, whatever else is
    /// written to it. (Colours are put back by adding, so each time counts.)
    pub(crate) fn has(&self, array: Array) -> bool {
        !matches!(array, Array::Colours(_)) && self.whole.iter().any(|(a, _)| *a == array)
    }

    /// Takes over what a batch that is done has noted.
    pub(crate) fn append(&mut self, other: Self) {
        for undo in other.list.into_iter().flatten() {
            self.note(|| undo);
        }
    }

    /// How many operations may be taken back.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.as_ref().map_or(0, Vec::len)
    }

    pub(crate) fn note(&mut self, undo: impl FnOnce() -> Undo) {
        let Some(list) = &mut self.list else {
            return;
        };
        let undo = undo();
        if let Undo::Array(array, held) = &undo {
            let before = self.whole.iter().find(|(a, _)| a == array);
            if let Some((_, at)) = before {
                if let Some(Undo::Array(_, before)) = list.get_mut(*at) {
                    before.add(*array, held);
                }
                return;
            }
            self.whole.push((*array, list.len()));
        }
        list.push(undo);
    }

    /// The last operation that is not yet taken back.
    pub(crate) fn pop(&mut self) -> Option<Undo> {
        self.list.as_mut()?.pop()
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
            Undo::Rates(..) | Undo::Colours(..) | Undo::Array(..) | Undo::Other(_) => {}
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
