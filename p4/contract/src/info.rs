//! Descriptions of tables and counters.

use p4runtime_proto::entry::{self, EntryError};
use p4runtime_proto::p4::v1::{CounterEntry, Index, TableEntry};

use crate::ContractError;

/// A table of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableInfo {
    /// Id in P4Info.
    pub id: u32,
    /// The short name.
    pub name: &'static str,
    /// The name with the controls around it.
    pub full_name: &'static str,
    /// Entries that the program provides for.
    pub size: u64,
    /// Whether entries have a priority, which must then be above 0.
    pub priority: bool,
    /// Whether entries have an idle timeout.
    pub idle_timeout: bool,
    /// The counter of each entry, if there is one.
    pub direct_counter: Option<u32>,
}

impl TableInfo {
    /// An entry without key: in a read it stands for all entries of the table.
    pub fn all_entries(&self) -> TableEntry {
        TableEntry {
            table_id: self.id,
            ..TableEntry::default()
        }
    }

    pub(crate) fn error(&self, source: EntryError) -> ContractError {
        ContractError::Entry {
            table: self.name,
            source,
        }
    }

    /// Reads a prefix of a key, which P4Runtime wants without bits behind its
    /// length.
    pub(crate) fn read_lpm(
        &self,
        entry: &TableEntry,
        (id, field): (u32, &'static str),
        bitwidth: u32,
    ) -> Result<(u128, u32), ContractError> {
        let (value, prefix_len) =
            entry::read_lpm(entry, id, bitwidth).map_err(|source| self.error(source))?;
        let masked = value & entry::prefix_mask(prefix_len, bitwidth);
        if prefix_len > bitwidth || value != masked {
            return Err(ContractError::NoPrefix {
                table: self.name,
                field,
                value,
                prefix_len,
            });
        }
        Ok((value, prefix_len))
    }

    /// Reads a range of a key.
    pub(crate) fn read_range(
        &self,
        entry: &TableEntry,
        (id, field): (u32, &'static str),
        bitwidth: u32,
    ) -> Result<(u128, u128), ContractError> {
        let (low, high) =
            entry::read_range(entry, id, bitwidth).map_err(|source| self.error(source))?;
        if low > high {
            return Err(ContractError::NoRange {
                table: self.name,
                field,
                low,
                high,
            });
        }
        Ok((low, high))
    }

    pub(crate) fn own(&self, entry: &TableEntry) -> Result<(), ContractError> {
        if entry.table_id == self.id {
            return Ok(());
        }
        Err(ContractError::WrongTable {
            table: self.name,
            found: entry.table_id,
        })
    }
}

/// An entry of a table, for code that works on any of them.
pub trait Row: Sized {
    /// The table.
    const TABLE: TableInfo;

    /// The entry as P4Runtime has it, in canonical form.
    fn to_proto(&self) -> TableEntry;

    /// Reads an entry of this table.
    ///
    /// # Errors
    /// [`ContractError`] when it is of another table or not as the program
    /// has it.
    fn from_proto(entry: &TableEntry) -> Result<Self, ContractError>;
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterUnit {
    /// Packets.
    Packets,
    /// Bytes of whole frames.
    Bytes,
    /// Packets and bytes of whole frames.
    Both,
}

/// An array of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Id in P4Info.
    pub id: u32,
    /// The short name.
    pub name: &'static str,
    /// Cells. What the program counts beyond them is lost.
    pub size: u64,
    /// What it counts.
    pub unit: CounterUnit,
}

impl Counter {
    /// One cell, for a read or a reset.
    pub fn cell(&self, index: u32) -> CounterEntry {
        CounterEntry {
            counter_id: self.id,
            index: Some(Index {
                index: i64::from(index),
            }),
            data: None,
        }
    }

    /// All cells, for a read.
    pub fn all_cells(&self) -> CounterEntry {
        CounterEntry {
            counter_id: self.id,
            ..CounterEntry::default()
        }
    }
}

/// The counter of each entry of a table. It is read with the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectCounter {
    /// Id in P4Info.
    pub id: u32,
    /// The short name.
    pub name: &'static str,
    /// The table.
    pub table_id: u32,
    /// What it counts.
    pub unit: CounterUnit,
}
