//! Reading entries, default actions and direct resources.

use smallvec::SmallVec;

use super::params::unpack_call;
use super::table::{Kind, LIVE, split_head};
use super::{Tables, name};
use crate::control::{
    CounterValue, DefaultState, EntryAction, EntryKey, EntryState, Member, TableEntry, TableError,
};
use crate::ir::Ir;
use crate::meters::Meter;
use crate::program::{ActionId, Program, TableId, TableInfo};
use crate::switch::Timestamp;

impl Tables {
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

    /// The default entry with its state.
    pub(crate) fn default_state(
        &self,
        program: &Program,
        table: TableId,
    ) -> Result<DefaultState, TableError> {
        let action = self.default_of(program, table)?;
        let t = self.table(table)?;
        let metered = t.meters.is_some();
        Ok(DefaultState {
            action,
            is_initial: t.default == t.initial,
            counter: t.counted.then(|| t.missed.count(None)),
            meter: t.missed.meter.config(),
            colours: metered.then(|| t.missed.meter.counts()),
        })
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
        let slot = self.find(program, table, key)?;
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
        let word = t.slab.head(slot);
        if word & LIVE == 0 {
            return None;
        }
        let (kind, value) = split_head(word);
        let params: SmallVec<[u64; 4]> = (0..t.offsets.widest)
            .map(|i| t.slab.word(slot, t.offsets.params + i))
            .collect();
        let extra = t.extras.lock().get(slot).cloned().flatten();
        let (cookie, metadata) = extra.map(|e| *e).unwrap_or_default();
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
            colours: t.meter(slot).map(Meter::counts),
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

    /// Reads or writes the direct counter of an entry, or of the default entry.
    pub(crate) fn direct_counter(
        &self,
        program: &Program,
        table: TableId,
        key: Option<&EntryKey>,
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
        let Some(key) = key else {
            return Ok(t.missed.count(write));
        };
        let slot = self.find(program, table, key)?;
        if let Some(v) = write {
            t.slab.set(slot, t.offsets.packets, v.packets);
            t.slab.set(slot, t.offsets.packets + 1, v.bytes);
        }
        Ok(t.counter(slot))
    }

    /// The direct meter of an entry, or of the default entry.
    pub(crate) fn direct_meter(
        &self,
        program: &Program,
        table: TableId,
        key: Option<&EntryKey>,
    ) -> Result<&Meter, TableError> {
        let info = Self::info(program, table)?;
        let t = self.table(table)?;
        if t.meters.is_none() {
            return Err(TableError::Invalid {
                place: name(info),
                what: "it has no direct meter".into(),
            });
        }
        let Some(key) = key else {
            return Ok(&t.missed.meter);
        };
        let slot = self.find(program, table, key)?;
        t.meter(slot).ok_or_else(|| TableError::NotFound {
            place: name(info),
            what: "entry".into(),
        })
    }

    /// The members of a profile, one or all.
    pub(crate) fn members(
        &self,
        program: &Program,
        profile: u32,
        id: Option<u32>,
    ) -> Result<Vec<Member>, TableError> {
        let call = |action, words: &[u64]| unpack_call(&program.ir, action, words);
        Ok(self.profile(profile)?.members(id, call))
    }
}
