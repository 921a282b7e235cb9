//! A running program with its state, and the right to change its tables.

use std::iter::Peekable;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};

use super::Timestamp;
use super::atomic::step;
use super::port_state::PortsDown;
use crate::control::TableError;
use crate::counters::CounterArray;
use crate::meters::MeterArray;
use crate::program::Program;
use crate::registers::{RegisterArray, Registers};
use crate::tables::{Log, Prepared, Tables};

/// Operations that packets wait for at a time: some tens of microseconds.
pub(super) const ALONE: usize = 32;
/// Groups of a selector that one hold of the table lock chooses anew at most.
const GROUPS: usize = 1024;

/// A running program and all its state.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) program: Arc<Program>,
    /// Workers read them for a burst. Whoever changes them goes through
    /// [`Pipeline::writer`].
    pub(crate) tables: RwLock<Tables>,
    writers: Mutex<()>,
    pub(crate) counters: Vec<CounterArray>,
    pub(crate) meters: Vec<MeterArray>,
    pub(crate) registers: Registers,
}

impl Pipeline {
    pub(super) fn new(program: Program, down: PortsDown) -> Self {
        let mut tables = Tables::new(&program);
        tables.set_ports_down(down);
        Self {
            tables: RwLock::new(tables),
            writers: Mutex::new(()),
            counters: program
                .counters
                .iter()
                .map(|c| CounterArray::new(c.size))
                .collect(),
            meters: program
                .meters
                .iter()
                .map(|m| MeterArray::new(m.unit, m.size))
                .collect(),
            registers: Registers(
                program
                    .registers
                    .iter()
                    .map(|r| RegisterArray::new(r.width, r.size))
                    .collect(),
            ),
            program: Arc::new(program),
        }
    }

    /// The right to change tables, for one at a time. Writers wait for each
    /// other here and not at the tables' lock, where packets would wait behind
    /// them.
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            pipeline: self,
            _turn: self.writers.lock(),
        }
    }
}

/// An operation as [`Switch::apply`] has it.
pub(super) struct Checked<'o> {
    /// Prepared, or why it makes no sense.
    pub(super) op: Result<Prepared<'o>, TableError>,
    /// It is left out if the one before it has failed.
    pub(super) chained: bool,
}

impl Checked<'_> {
    /// Why it is not carried out, whatever the tables hold.
    fn refused(&self, results: &[Result<(), TableError>]) -> Option<TableError> {
        match (&self.op, results.last()) {
            (_, Some(Err(error))) if self.chained => Some(error.clone()),
            (Err(error), _) => Some(error.clone()),
            _ => None,
        }
    }
}

/// The one who may change tables.
pub(crate) struct Writer<'p> {
    pipeline: &'p Pipeline,
    _turn: MutexGuard<'p, ()>,
}

impl Writer<'_> {
    /// Changes tables while packets wait: keep it short.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut Tables) -> R) -> R {
        let mut tables = self.pipeline.tables.write();
        tables.note_change();
        let result = change(&mut tables);
        // To those that wait: taking the lock again at once would starve them
        // for as long as the lock allows, half a millisecond.
        RwLockWriteGuard::unlock_fair(tables);
        result
    }

    /// Carries out operations while packets are processed, up to the first
    /// that needs the tables for itself.
    pub(super) fn beside<'o>(
        &self,
        ops: &mut Peekable<impl Iterator<Item = &'o Checked<'o>>>,
        now: Timestamp,
        log: &mut Log,
        results: &mut Vec<Result<(), TableError>>,
    ) {
        let program = &self.pipeline.program;
        let tables = self.pipeline.tables.read();
        while let Some(checked) = ops.peek() {
            let result = match (checked.refused(results), &checked.op) {
                (Some(error), _) => Some(Err(error)),
                (None, Ok(op)) => tables.insert_beside(program, op, now, log),
                (None, Err(error)) => Some(Err(error.clone())),
            };
            let Some(result) = result else { return };
            results.push(result);
            ops.next();
        }
    }

    /// Carries out an operation for which packets wait, and those after it
    /// that are not likely to do without.
    pub(super) fn alone<'o>(
        &mut self,
        ops: &mut Peekable<impl Iterator<Item = &'o Checked<'o>>>,
        now: Timestamp,
        log: &mut Log,
        results: &mut Vec<Result<(), TableError>>,
    ) {
        if ops.peek().is_none() {
            return;
        }
        let p = self.pipeline;
        self.change(|tables| {
            for _ in 0..ALONE {
                let Some(checked) = ops.next() else { return };
                let result = match (checked.refused(results), &checked.op) {
                    (Some(error), _) => Err(error),
                    (None, Ok(op)) => step(p, tables, op, now, log),
                    (None, Err(error)) => Err(error.clone()),
                };
                results.push(result);
                let again = |checked: &&Checked<'_>| match &checked.op {
                    Ok(op) => !tables.can_insert_beside(op),
                    Err(_) => false,
                };
                if !ops.peek().is_some_and(again) {
                    return;
                }
            }
        });
    }

    /// Builds indexes anew that have changed much. Packets wait only while
    /// the new one is put in place.
    pub(super) fn mend(&mut self) {
        loop {
            let (table, rebuilt) = {
                let tables = self.pipeline.tables.read();
                let Some(table) = tables.worn() else { return };
                (table, tables.rebuild(table))
            };
            let Some(mut index) = rebuilt else { return };
            self.change(|tables| tables.replace_index(table, &mut index));
        }
    }
}

impl Pipeline {
    /// Chooses anew in the groups with members that watch a port whose state
    /// has changed. In pieces, so that workers never wait long.
    pub(super) fn set_ports_down(&self, down: PortsDown) {
        let mut writer = self.writer();
        let stale = writer.change(|tables| tables.set_ports_down(down));
        for (profile, groups) in (0..).zip(stale) {
            for piece in groups.chunks(GROUPS) {
                writer.change(|tables| {
                    if let Ok(p) = tables.profile_mut(profile) {
                        p.choose_anew(piece);
                    }
                });
            }
        }
    }
}
