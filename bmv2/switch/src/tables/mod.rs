//! Tables while the switch runs: entries, defaults, profiles.
//!
//! Workers read under a shared lock for a burst; writers take the lock for a
//! bounded piece of a batch, and no single change takes long: nothing grows by
//! moving what it holds. Counters and hit times are atomics, so that packets
//! write them under the shared lock.

mod idle;
mod index;
pub(crate) mod key;
mod params;
pub(crate) mod profile;
pub(crate) mod range;
mod read;
pub(crate) mod slab;
mod table;
mod undo;
pub(crate) mod value_set;
mod write;

use crate::control::{CounterValue, EntryAction, TableError};
use crate::program::{Program, TableId, TableInfo};
use crate::switch::port_state::PortsDown;
pub(crate) use index::Found;
use index::{Index, Tree};
pub(crate) use params::unpack_call;
use profile::Profile;
use table::DefaultEntry;
pub(crate) use table::{Kind, Table};
pub(crate) use undo::{Array, Held, Log, Undo};
pub(crate) use write::{Prepared, prepare};

/// All tables and profiles of a running program.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    /// Members of the parser's value sets.
    pub(crate) vsets: Vec<Vec<value_set::Member>>,
    /// See [`Tables::changes`].
    changes: u64,
}

/// The name of a table for messages.
fn name(info: &TableInfo) -> String {
    format!("table {}", info.name)
}

impl Tables {
    /// Tables as the program wants them at the start.
    pub(crate) fn new(program: &Program) -> Self {
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
            changes: 0,
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
            let _ = t.insert_initial(program, *table, entry);
        }
        t
    }

    /// How often they were changed while packets waited. Between two of these
    /// entries may have been added, but none has gone or does anything else.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Notes that they may be changed in any way.
    pub(crate) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// A table whose index should be built anew, if there is one.
    pub(crate) fn worn(&self) -> Option<usize> {
        self.tables.iter().position(|t| match &t.index {
            Index::Tree(tree) => tree.is_worn(),
            Index::Exact(_) => false,
        })
    }

    /// The index that a table should have; made beside the one in use.
    pub(crate) fn rebuild(&self, table: usize) -> Option<Tree> {
        match &self.tables.get(table)?.index {
            Index::Tree(tree) => Some(tree.rebuild()),
            Index::Exact(_) => None,
        }
    }

    /// Puts a rebuilt index in place of the old one, which is in `new`
    /// afterwards, unless the table was changed meanwhile.
    pub(crate) fn replace_index(&mut self, table: usize, new: &mut Tree) {
        if let Some(Index::Tree(tree)) = self.tables.get_mut(table).map(|t| &mut t.index) {
            tree.replace(new);
        }
    }

    /// Counts misses in the default entry of a table.
    pub(crate) fn count_misses(&self, table: usize, more: CounterValue) {
        if let Some(t) = self.tables.get(table) {
            t.missed.add(more);
        }
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

    /// Takes the ports that are down. Returns for each profile the groups
    /// whose choices no longer hold.
    pub(crate) fn set_ports_down(&mut self, down: PortsDown) -> Vec<Vec<u32>> {
        let profiles = self.profiles.iter_mut();
        profiles.map(|p| p.set_ports_down(down)).collect()
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
}
