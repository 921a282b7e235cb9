//! Tables while the switch runs: entries, defaults, profiles.
//!
//! Workers read under a shared lock for a burst; writers take the lock for a
//! bounded piece of a batch. Counters and hit times are atomics, so that
//! packets write them under the shared lock.

pub(crate) mod index;
pub(crate) mod key;
mod params;
pub(crate) mod profile;
pub(crate) mod slab;
mod table;

use smallvec::SmallVec;

use crate::control::{
    ActionCall, CounterValue, EntryAction, EntryKey, EntryState, MeterConfig, TableEntry,
    TableError,
};
use crate::ir::Ir;
use crate::meters::Meter;
use crate::program::{ActionId, Program, TableId, TableInfo};
use crate::switch::Timestamp;
use crate::switch::port_state::PortsDown;
use index::Index;
use key::Encoded;
use params::pack_params;
pub(crate) use params::unpack_call;
use profile::{Profile, Slot};
pub(crate) use table::Kind;
use table::{DefaultEntry, LIVE, Stored, Table, split_head};

/// All tables and profiles of a running program.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    /// Members of value sets: value and mask, by word.
    pub(crate) vsets: Vec<Vec<Vec<(u64, u64)>>>,
}

/// The name of a table for messages.
fn name(info: &TableInfo) -> String {
    format!("table {}", info.name)
}

impl Tables {
    /// Tables as the program wants them at the start.
    pub(crate) fn new(program: &Program, now: Timestamp) -> Self {
        let mut t = Self {
            tables: (0..program.tables.len())
                .map(|i| Table::new(program, i))
                .collect(),
            profiles: program
                .profiles
                .iter()
                .map(|p| Profile::new(&p.name, p.size))
                .collect(),
            vsets: vec![Vec::new(); program.value_sets.len()],
        };
        for (table, call) in &program.defaults {
            let stored = t.resolve(program, *table, &EntryAction::Call(call.clone()));
            if let (Ok(s), Some(table)) = (stored, t.tables.get_mut(table.index())) {
                let d = DefaultEntry {
                    kind: s.kind,
                    value: s.value,
                    params: s.params.into_boxed_slice(),
                };
                table.initial = Some(d.clone());
                table.default = Some(d);
            }
        }
        for (table, entry) in &program.entries {
            // Checked when the program was loaded.
            let _ = t.insert(program, *table, entry, now, true);
        }
        t
    }

    fn info(program: &Program, table: TableId) -> Result<&TableInfo, TableError> {
        program
            .tables
            .get(table.index())
            .ok_or(TableError::NoSuchObject {
                what: "table",
                id: table.0,
            })
    }

    fn table(&self, table: TableId) -> Result<&Table, TableError> {
        self.tables
            .get(table.index())
            .ok_or(TableError::NoSuchObject {
                what: "table",
                id: table.0,
            })
    }

    fn table_mut(&mut self, table: TableId) -> Result<&mut Table, TableError> {
        self.tables
            .get_mut(table.index())
            .ok_or(TableError::NoSuchObject {
                what: "table",
                id: table.0,
            })
    }

    /// Checks an action against a table.
    fn resolve(
        &self,
        program: &Program,
        table: TableId,
        action: &EntryAction,
    ) -> Result<Stored, TableError> {
        let info = Self::info(program, table)?;
        let invalid = |what: &str| TableError::Invalid {
            place: name(info),
            what: what.into(),
        };
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
                Ok(Stored {
                    kind: Kind::Call,
                    value: call.action.0,
                    params: pack_params(&name(info), program, call)?,
                })
            }
            (EntryAction::Member(id), Some(profile)) => {
                let p = self.profile(profile.0)?;
                Ok(Stored {
                    kind: Kind::Member,
                    value: p.member_slot(*id)?,
                    params: SmallVec::new(),
                })
            }
            (EntryAction::Group(id), Some(profile)) => {
                let p = self.profile(profile.0)?;
                Ok(Stored {
                    kind: Kind::Group,
                    value: p.group_slot(*id)?,
                    params: SmallVec::new(),
                })
            }
            (_, None) => Err(invalid(
                "it has no action profile; entries must name an action",
            )),
        }
    }

    pub(crate) fn profile(&self, profile: u32) -> Result<&Profile, TableError> {
        self.profiles
            .get(profile as usize)
            .ok_or(TableError::NoSuchObject {
                what: "action profile",
                id: profile,
            })
    }

    pub(crate) fn profile_mut(&mut self, profile: u32) -> Result<&mut Profile, TableError> {
        self.profiles
            .get_mut(profile as usize)
            .ok_or(TableError::NoSuchObject {
                what: "action profile",
                id: profile,
            })
    }

    /// Takes the ports that are down. Returns for each profile the groups
    /// whose choices no longer hold.
    pub(crate) fn set_ports_down(&mut self, down: PortsDown) -> Vec<Vec<u32>> {
        let profiles = self.profiles.iter_mut();
        profiles.map(|p| p.set_ports_down(down)).collect()
    }

    fn refer(&mut self, info: &TableInfo, kind: Kind, value: u32, more: bool) {
        if let (Some(p), Kind::Member | Kind::Group) = (info.profile, kind)
            && let Some(p) = self.profiles.get_mut(p.index())
        {
            p.refer(kind == Kind::Group, value, more);
        }
    }

    fn encode<'p>(
        &self,
        program: &'p Program,
        table: TableId,
        key: &EntryKey,
    ) -> Result<(&'p TableInfo, Encoded), TableError> {
        let info = Self::info(program, table)?;
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

    fn find(
        &self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
    ) -> Result<(u32, Encoded), TableError> {
        let (info, e) = self.encode(program, table, key)?;
        let t = self.table(table)?;
        match t.index.find(&t.parts, &t.slab, &e) {
            Some(slot) => Ok((slot, e)),
            None => Err(TableError::NotFound {
                place: name(info),
                what: "entry".into(),
            }),
        }
    }

    /// Adds an entry; `initial` ones come from the program itself.
    pub(crate) fn insert(
        &mut self,
        program: &Program,
        table: TableId,
        entry: &TableEntry,
        now: Timestamp,
        initial: bool,
    ) -> Result<(), TableError> {
        let (info, e) = self.encode(program, table, &entry.key)?;
        if info.is_const && !initial {
            return Err(immutable(info, "the entry list"));
        }
        check_timeout(info, entry)?;
        let stored = self.resolve(program, table, &entry.action)?;
        let t = self.table_mut(table)?;
        if t.index.find(&t.parts, &t.slab, &e).is_some() {
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
        let slot = t.slab.insert();
        for (i, w) in e.value.iter().enumerate() {
            t.slab.set(slot, t.parts.key + i, *w);
        }
        if !matches!(t.index, Index::Exact(_)) {
            for (i, w) in e.mask.iter().enumerate() {
                t.slab.set(slot, t.parts.mask + i, *w);
            }
            t.slab.set(slot, t.parts.rank, e.rank as u64);
            for (r, (low, high)) in e.bounds.iter().enumerate() {
                t.slab.set(slot, t.parts.bounds + 2 * r, *low);
                t.slab.set(slot, t.parts.bounds + 2 * r + 1, *high);
            }
        }
        t.store_action(slot, &stored);
        t.store_extras(slot, entry, now);
        if let Some(m) = &mut t.meters {
            let needed = slot as usize + 1;
            if m.len() < needed {
                m.resize_with(needed, Meter::default);
            }
        }
        t.index.insert(&t.parts, &t.slab, slot, &e);
        self.refer(info, stored.kind, stored.value, true);
        Ok(())
    }

    /// Replaces what an entry does; counters stay, the idle timer restarts.
    pub(crate) fn modify(
        &mut self,
        program: &Program,
        table: TableId,
        entry: &TableEntry,
        now: Timestamp,
    ) -> Result<(), TableError> {
        let (slot, _) = self.find(program, table, &entry.key)?;
        let info = Self::info(program, table)?;
        if info.is_const {
            return Err(immutable(info, "the entry list"));
        }
        check_timeout(info, entry)?;
        let stored = self.resolve(program, table, &entry.action)?;
        let t = self.table_mut(table)?;
        let (kind, value) = split_head(t.slab.word(slot, 0));
        t.store_action(slot, &stored);
        t.store_extras(slot, entry, now);
        self.refer(info, stored.kind, stored.value, true);
        self.refer(info, kind, value, false);
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn delete(
        &mut self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
    ) -> Result<(), TableError> {
        let (slot, e) = self.find(program, table, key)?;
        let info = Self::info(program, table)?;
        if info.is_const {
            return Err(immutable(info, "the entry list"));
        }
        let t = self.table_mut(table)?;
        let (kind, value) = split_head(t.slab.word(slot, 0));
        t.index.remove(&t.parts, &t.slab, slot, &e);
        t.slab.remove(slot);
        t.extras.remove(&slot);
        t.reported.remove(&slot);
        if let Some(m) = t.meter(slot) {
            m.configure(None);
        }
        self.refer(info, kind, value, false);
        Ok(())
    }

    /// Sets what a miss does.
    pub(crate) fn set_default(
        &mut self,
        program: &Program,
        table: TableId,
        action: &EntryAction,
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
        self.replace_default(info, table, Some(stored))
    }

    /// Sets the default action back to the program's.
    pub(crate) fn reset_default(
        &mut self,
        program: &Program,
        table: TableId,
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
        self.replace_default(info, table, initial)
    }

    fn replace_default(
        &mut self,
        info: &TableInfo,
        table: TableId,
        new: Option<Stored>,
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
        if let Some(d) = old {
            self.refer(info, d.kind, d.value, false);
        }
        Ok(())
    }

    /// What a miss does.
    pub(crate) fn default_of(
        &self,
        program: &Program,
        table: TableId,
    ) -> Result<Option<EntryAction>, TableError> {
        let info = Self::info(program, table)?;
        Ok(self
            .table(table)?
            .default
            .as_ref()
            .map(|d| self.entry_action(&program.ir, info, d.kind, d.value, &d.params)))
    }

    fn entry_action(
        &self,
        ir: &Ir,
        info: &TableInfo,
        kind: Kind,
        value: u32,
        params: &[u64],
    ) -> EntryAction {
        let profile = info.profile.and_then(|p| self.profiles.get(p.index()));
        match kind {
            Kind::Call => EntryAction::Call(unpack_call(ir, ActionId(value), params)),
            Kind::Member => EntryAction::Member(profile.map_or(0, |p| p.member_at(value))),
            Kind::Group => EntryAction::Group(profile.map_or(0, |p| p.group_at(value))),
        }
    }

    /// One entry with its state.
    pub(crate) fn get(
        &self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
        now: Timestamp,
    ) -> Result<EntryState, TableError> {
        let (slot, _) = self.find(program, table, key)?;
        self.entry_state(program, table, slot, now)
            .ok_or_else(|| TableError::NotFound {
                place: format!("table {}", table.0),
                what: "entry".into(),
            })
    }

    /// The entry in a slot with its state; `None` if the slot is free.
    pub(crate) fn entry_state(
        &self,
        program: &Program,
        table: TableId,
        slot: u32,
        now: Timestamp,
    ) -> Option<EntryState> {
        let info = program.tables.get(table.index())?;
        let layout = &program.ir.tables.get(table.index())?.layout;
        let t = self.tables.get(table.index())?;
        let word = t.slab.word(slot, 0);
        if word & LIVE == 0 {
            return None;
        }
        let (kind, value) = split_head(word);
        let params: SmallVec<[u64; 4]> = (0..t.offsets.stride - t.offsets.params)
            .map(|i| t.slab.word(slot, t.offsets.params + i))
            .collect();
        let (cookie, metadata) = t.extras.get(&slot).cloned().unwrap_or_default();
        Some(EntryState {
            entry: TableEntry {
                key: layout.decode(&t.encoded(layout, slot)),
                action: self.entry_action(&program.ir, info, kind, value, &params),
                idle_timeout_ns: if t.timed {
                    t.slab.word(slot, t.offsets.timeout)
                } else {
                    0
                },
                cookie,
                metadata,
            },
            counter: t.counted.then(|| t.counter(slot)),
            meter: t.meter(slot).and_then(Meter::config),
            since_last_hit_ns: t.timed.then(|| {
                now.as_nanos()
                    .saturating_sub(t.slab.word(slot, t.offsets.last_hit))
            }),
        })
    }

    /// Up to `max` entries from slot `from` on, and the slot to go on from.
    pub(crate) fn read(
        &self,
        program: &Program,
        table: TableId,
        from: u64,
        max: usize,
        now: Timestamp,
    ) -> Result<(Vec<EntryState>, Option<u64>), TableError> {
        Self::info(program, table)?;
        let top = u64::from(self.table(table)?.slab.top());
        let mut found = Vec::new();
        let mut slot = from;
        // Empty slots cost time too: bound them with the rest.
        let last = from.saturating_add((max as u64).max(1).saturating_mul(4));
        while slot < top && slot < last && found.len() < max {
            let s = u32::try_from(slot).unwrap_or(u32::MAX);
            found.extend(self.entry_state(program, table, s, now));
            slot += 1;
        }
        Ok((found, (slot < top).then_some(slot)))
    }

    /// How many entries a table has.
    pub(crate) fn count(&self, table: TableId) -> Result<u64, TableError> {
        Ok(u64::from(self.table(table)?.slab.len()))
    }

    /// Reads or writes an entry's direct counter.
    pub(crate) fn direct_counter(
        &self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
        write: Option<CounterValue>,
    ) -> Result<CounterValue, TableError> {
        let info = Self::info(program, table)?;
        let t = self.table(table)?;
        if !t.counted {
            return Err(TableError::Invalid {
                place: name(info),
                what: "it has no direct counter".into(),
            });
        }
        let (slot, _) = self.find(program, table, key)?;
        if let Some(v) = write {
            t.slab.set(slot, t.offsets.packets, v.packets);
            t.slab.set(slot, t.offsets.packets + 1, v.bytes);
        }
        Ok(t.counter(slot))
    }

    /// The direct meter of an entry.
    pub(crate) fn direct_meter(
        &self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
    ) -> Result<&Meter, TableError> {
        let info = Self::info(program, table)?;
        let t = self.table(table)?;
        if t.meters.is_none() {
            return Err(TableError::Invalid {
                place: name(info),
                what: "it has no direct meter".into(),
            });
        }
        let (slot, _) = self.find(program, table, key)?;
        t.meter(slot).ok_or_else(|| TableError::NotFound {
            place: name(info),
            what: "entry".into(),
        })
    }

    /// Sets the rates of a direct meter.
    pub(crate) fn configure_meter(
        &self,
        program: &Program,
        table: TableId,
        key: &EntryKey,
        config: Option<MeterConfig>,
    ) -> Result<(), TableError> {
        self.direct_meter(program, table, key)?.configure(config);
        Ok(())
    }

    /// The members of a profile.
    pub(crate) fn members(
        &self,
        program: &Program,
        profile: u32,
    ) -> Result<Vec<crate::control::Member>, TableError> {
        Ok(self
            .profile(profile)?
            .members(|action, words| unpack_call(&program.ir, action, words)))
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

    /// Slots from `from` on, at most `max` of them, whose entries are idle;
    /// and the slot to go on from.
    pub(crate) fn sweep(
        &self,
        table: TableId,
        from: u32,
        max: u32,
        now: Timestamp,
    ) -> (Vec<u32>, Option<u32>) {
        let Ok(t) = self.table(table) else {
            return (Vec::new(), None);
        };
        let end = from.saturating_add(max).min(t.slab.top());
        let now_ms = now.as_nanos() / 1_000_000;
        let idle = (from..end)
            .filter(|&slot| {
                let timeout = t.slab.word(slot, t.offsets.timeout) / 1_000_000;
                let last = t.slab.word(slot, t.offsets.last_hit) / 1_000_000;
                t.slab.word(slot, t.offsets.timeout) > 0
                    && t.slab.word(slot, 0) & LIVE != 0
                    && now_ms.saturating_sub(last) >= timeout.max(1)
            })
            .collect();
        (idle, (end < t.slab.top()).then_some(end))
    }

    /// Takes note of what a sweep found idle; the entries that were not
    /// reported at the sweep before.
    pub(crate) fn report(
        &mut self,
        program: &Program,
        table: TableId,
        idle: &[u32],
        now: Timestamp,
    ) -> Vec<EntryState> {
        let Ok(t) = self.table_mut(table) else {
            return Vec::new();
        };
        let new: Vec<u32> = idle
            .iter()
            .copied()
            .filter(|s| !t.reported.contains(s))
            .collect();
        t.reported = new.iter().copied().collect();
        new.iter()
            .filter_map(|&slot| self.entry_state(program, table, slot, now))
            .collect()
    }

    /// Whether a table's entries can time out.
    pub(crate) fn is_timed(&self, table: usize) -> bool {
        self.tables.get(table).is_some_and(|t| t.timed && t.keyed)
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
