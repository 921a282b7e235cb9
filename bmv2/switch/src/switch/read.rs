//! Reading what tables, profiles and cells hold.

use super::apply::indices;
use super::{READ, Switch, Timestamp, atomic};
use crate::control::{
    ColourCounts, CounterTarget, CounterValue, DefaultState, EntryAction, EntryKey, EntryState,
    Group, Member, MeterConfig, MeterTarget, ReadCursor, TableError, Value,
};
use crate::meters::Meter;
use crate::program::{ProfileId, RegisterId, TableId};

impl Switch {
    /// Reads one entry.
    ///
    /// # Errors
    /// [`TableError::NotFound`], or the reason why the key makes no sense.
    pub fn get_entry(
        &self,
        table: TableId,
        key: &EntryKey,
        now: Timestamp,
    ) -> Result<EntryState, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        tables.get(&p.program, table, key, now)
    }

    /// Reads up to `max` entries from a cursor on. `None` as the new cursor
    /// means that there are no more; fewer than `max` entries mean nothing.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn read_entries(
        &self,
        table: TableId,
        from: ReadCursor,
        max: usize,
        now: Timestamp,
    ) -> Result<(Vec<EntryState>, Option<ReadCursor>), TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        let (entries, next) = tables.read(&p.program, table, from.0, max.min(READ), now)?;
        Ok((entries, next.map(ReadCursor)))
    }

    /// How many entries a table has.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn entry_count(&self, table: TableId) -> Result<u64, TableError> {
        self.current()?.tables.read().count(table)
    }

    /// The action of a miss; `None` if the program gives none.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn default_action(&self, table: TableId) -> Result<Option<EntryAction>, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        tables.default_of(&p.program, table)
    }

    /// The default entry of a table: its action and its direct resources.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn default_entry(&self, table: TableId) -> Result<DefaultState, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        tables.default_state(&p.program, table)
    }

    /// Reads a counter: one cell, or all cells of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_counter(&self, target: &CounterTarget) -> Result<Vec<CounterValue>, TableError> {
        let p = self.current()?;
        match target {
            CounterTarget::Direct { table, key } => {
                let tables = p.tables.read();
                let key = Some(key);
                Ok(vec![tables.direct_counter(&p.program, *table, key, None)?])
            }
            CounterTarget::Default { table } => {
                let tables = p.tables.read();
                Ok(vec![tables.direct_counter(&p.program, *table, None, None)?])
            }
            CounterTarget::Indexed { counter, index } => {
                let cells = p.counter(counter.0)?;
                let range = indices(|| p.counter_name(counter.0), *index, cells.size())?;
                Ok(range.filter_map(|i| cells.get(i)).collect())
            }
        }
    }

    /// Reads meter configurations: one cell, or all cells of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_meter(&self, target: &MeterTarget) -> Result<Vec<Option<MeterConfig>>, TableError> {
        let mut configs = Vec::new();
        self.each_meter(target, |meter| configs.push(meter.config()))?;
        Ok(configs)
    }

    /// Reads what meters gave each colour: one cell, or all cells of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_colours(&self, target: &MeterTarget) -> Result<Vec<ColourCounts>, TableError> {
        let mut counts = Vec::new();
        self.each_meter(target, |meter| counts.push(meter.counts()))?;
        Ok(counts)
    }

    fn each_meter(&self, target: &MeterTarget, each: impl FnMut(&Meter)) -> Result<(), TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        atomic::meters(&p, &tables, target, each)
    }

    /// Reads register cells: one, or all of an array.
    ///
    /// # Errors
    /// Why the target makes no sense.
    pub fn read_register(
        &self,
        register: RegisterId,
        index: Option<u32>,
    ) -> Result<Vec<Value>, TableError> {
        let p = self.current()?;
        let array = p.register(register.0)?;
        let range = indices(|| p.register_name(register.0), index, array.size() as usize)?;
        Ok(range
            .filter_map(|i| array.read_bytes(u32::try_from(i).ok()?))
            .collect())
    }

    /// All members of a profile, by id.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn members(&self, profile: ProfileId) -> Result<Vec<Member>, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        tables.members(&p.program, profile.0, None)
    }

    /// One member of a profile, if it is there.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn member(&self, profile: ProfileId, id: u32) -> Result<Option<Member>, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        let found = tables.members(&p.program, profile.0, Some(id))?;
        Ok(found.into_iter().next())
    }

    /// How many members a profile has.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn member_count(&self, profile: ProfileId) -> Result<usize, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        Ok(tables.profile(profile.0)?.count())
    }

    /// All groups of a selector, by id.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn groups(&self, profile: ProfileId) -> Result<Vec<Group>, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        Ok(tables.profile(profile.0)?.groups())
    }

    /// Whether a selector has groups.
    pub(crate) fn has_groups(&self, profile: ProfileId) -> Result<bool, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        Ok(tables.profile(profile.0)?.has_groups())
    }

    /// One group of a selector, if it is there.
    ///
    /// # Errors
    /// [`TableError::NoSuchObject`] or [`TableError::NoPipeline`].
    pub fn group(&self, profile: ProfileId, id: u32) -> Result<Option<Group>, TableError> {
        let p = self.current()?;
        let tables = p.tables.read();
        Ok(tables.profile(profile.0)?.group(id))
    }
}
