//! Batches that packets see whole or not at all, and operations that can be
//! taken back.

use std::sync::Arc;

use super::apply::{indices, other, publish};
use super::pipeline::ALONE;
use super::{Pipeline, Switch, Timestamp};
use crate::control::{CounterTarget, MeterTarget, TableError, TableOp};
use crate::meters::Meter;
use crate::replication::Replication;
use crate::tables::{Log, Prepared, Tables, Undo, prepare};

/// Why a batch was not carried out: its first operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operation {at} of the batch failed, nothing was changed: {error}")]
pub struct BatchError {
    /// Which operation.
    pub at: usize,
    /// What befell it.
    #[source]
    pub error: TableError,
}

/// Operations that may have to be taken back. It belongs to one writer: what
/// others write meanwhile to the same objects, it would undo.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(super) log: Log,
    /// As it was when the journal was begun.
    replication: Option<Arc<Replication>>,
}

impl Journal {
    /// Notes nothing.
    pub(crate) fn off() -> Self {
        Self {
            log: Log::off(),
            replication: None,
        }
    }
}

impl Switch {
    /// Carries out all operations or none. A packet is processed before all of
    /// them or after all of them, whether they succeed or not.
    ///
    /// Everything that needs no tables (checking, packing keys and parameters)
    /// is done beforehand; packets wait for the rest, about 0.2 µs an
    /// operation and up to 1 µs for an entry that is nowhere in the caches.
    /// `now` starts idle timers. Must not be called from a worker's output
    /// function, which holds the tables.
    ///
    /// # Errors
    /// The first operation that fails, all before it having been taken back:
    /// entries are again in their slots with their counters as they were.
    pub fn apply_atomic(&self, now: Timestamp, ops: &[TableOp]) -> Result<(), BatchError> {
        self.apply_atomic_noting(now, ops, &mut Journal::off())
    }

    /// As [`Switch::apply_atomic`], so that it can be taken back later.
    pub(crate) fn apply_atomic_noting(
        &self,
        now: Timestamp,
        ops: &[TableOp],
        journal: &mut Journal,
    ) -> Result<(), BatchError> {
        let p = self
            .current()
            .map_err(|error| BatchError { at: 0, error })?;
        let mut prepared = Vec::with_capacity(ops.len());
        for (at, op) in ops.iter().enumerate() {
            prepared.push(prepare(&p.program, op).map_err(|error| BatchError { at, error })?);
        }
        let mut log = Log::on(ops.len());
        let mut writer = p.writer();
        {
            // Brings what will be looked at into this core's caches.
            let tables = p.tables.read();
            prepared.iter().for_each(|op| tables.touch(op));
        }
        let result = writer.change(|tables| {
            for (at, op) in prepared.iter().enumerate() {
                if let Err(error) = step(&p, tables, op, now, &mut log) {
                    take_back(&p, tables, &mut log, usize::MAX);
                    return Err(BatchError { at, error });
                }
            }
            Ok(())
        });
        writer.mend();
        journal.log.append(log);
        result
    }

    /// Begins to note what takes operations back.
    pub(crate) fn journal(&self) -> Journal {
        Journal {
            log: Log::on(0),
            replication: Some(Arc::clone(&self.replication.read())),
        }
    }

    /// Takes back all that a journal has noted, the last first: entries,
    /// members and groups are again in their slots with what they held.
    /// Packets meanwhile see some of it, and what they have counted or metered
    /// in entries that were there all the time stays.
    pub(crate) fn take_back(&self, mut journal: Journal) {
        if let Some(p) = self.running() {
            let mut writer = p.writer();
            while writer.change(|tables| take_back(&p, tables, &mut journal.log, ALONE)) {}
            writer.mend();
        }
        let changed = |old: &Arc<Replication>| !Arc::ptr_eq(old, &self.replication.read());
        if let Some(old) = journal.replication.filter(changed) {
            let down = self.ports_down.lock();
            self.change_replication(|r| {
                *r = (*old).clone();
                r.set_ports_down(&down);
            });
        }
    }
}

/// One operation, and how to take it back.
pub(super) fn step(
    p: &Pipeline,
    tables: &mut Tables,
    op: &Prepared<'_>,
    now: Timestamp,
    log: &mut Log,
) -> Result<(), TableError> {
    let inverse = match op {
        Prepared::Other(op) if log.is_on() => inverse(p, tables, op),
        _ => Vec::new(),
    };
    publish(p, tables, op, now, log)?;
    for undo in inverse {
        log.note(|| undo);
    }
    Ok(())
}

/// Takes back so many operations; whether there may be more.
fn take_back(p: &Pipeline, tables: &mut Tables, log: &mut Log, most: usize) -> bool {
    for _ in 0..most {
        let Some(undo) = log.pop() else { return false };
        match undo {
            // It was like this before, so it cannot be refused.
            Undo::Other(op) => {
                let _ = other(p, tables, &op, &mut Log::off());
            }
            Undo::Rates(target, old) => {
                let _ = meters(p, tables, &target, |_, m| m.restore_rates(&old));
            }
            Undo::Colours(target, old) => {
                let _ = meters(p, tables, &target, |_, m| m.restore_counts(&old));
            }
            undo => tables.undo(&p.program, undo),
        }
    }
    true
}

/// What takes back an operation on a profile, counter, meter or register;
/// nothing for one that is going to fail.
fn inverse(p: &Pipeline, tables: &Tables, op: &TableOp) -> Vec<Undo> {
    let member = |profile: u32, id: u32| {
        let members = tables.members(&p.program, profile, Some(id)).ok()?;
        members.into_iter().next()
    };
    let group = |profile: u32, id: u32| tables.profile(profile).ok()?.group(id);
    let undo = match op {
        TableOp::InsertMember { profile, member } => Some(Undo::Other(TableOp::DeleteMember {
            profile: *profile,
            id: member.id,
        })),
        TableOp::ModifyMember { profile, member: m } => member(profile.0, m.id).map(|member| {
            Undo::Other(TableOp::ModifyMember {
                profile: *profile,
                member,
            })
        }),
        TableOp::DeleteMember { profile, id } => (|| {
            let of = tables.profile(profile.0).ok()?;
            let at = of.member_slot(*id).ok()?;
            Some(Undo::Member {
                profile: profile.0,
                id: *id,
                at,
                slot: of.member(at)?.clone(),
            })
        })(),
        TableOp::InsertGroup { profile, group } => Some(Undo::Other(TableOp::DeleteGroup {
            profile: *profile,
            id: group.id,
        })),
        TableOp::ModifyGroup { profile, group: g } => group(profile.0, g.id).map(|group| {
            Undo::Other(TableOp::ModifyGroup {
                profile: *profile,
                group,
            })
        }),
        TableOp::DeleteGroup { profile, id } => (|| {
            let of = tables.profile(profile.0).ok()?;
            Some(Undo::Group {
                profile: profile.0,
                group: of.group(*id)?,
                at: of.group_slot(*id).ok()?,
            })
        })(),
        TableOp::WriteCounter { .. }
        | TableOp::ConfigureMeter { .. }
        | TableOp::ClearColours { .. }
        | TableOp::WriteRegister { .. } => return cells(p, tables, op).unwrap_or_default(),
        // These have their own way back.
        TableOp::Insert { .. }
        | TableOp::Modify { .. }
        | TableOp::Delete { .. }
        | TableOp::SetDefault { .. }
        | TableOp::ResetDefault { .. } => None,
    };
    undo.into_iter().collect()
}

/// What puts back what cells hold now.
fn cells(p: &Pipeline, tables: &Tables, op: &TableOp) -> Result<Vec<Undo>, TableError> {
    let number = |i: usize| Some(u32::try_from(i).unwrap_or(u32::MAX));
    let mut undo = Vec::new();
    match op {
        TableOp::WriteCounter { target, .. } => {
            let (table, key) = match target {
                CounterTarget::Indexed { counter, index } => {
                    let array = p.counter(counter.0)?;
                    for i in indices(&p.counter_name(counter.0), *index, array.size())? {
                        let target = CounterTarget::Indexed {
                            counter: *counter,
                            index: number(i),
                        };
                        let value = array.get(i).unwrap_or_default();
                        undo.push(Undo::Other(TableOp::WriteCounter { target, value }));
                    }
                    return Ok(undo);
                }
                CounterTarget::Direct { table, key } => (*table, Some(key)),
                CounterTarget::Default { table } => (*table, None),
            };
            let value = tables.direct_counter(&p.program, table, key, None)?;
            let target = target.clone();
            undo.push(Undo::Other(TableOp::WriteCounter { target, value }));
        }
        TableOp::ConfigureMeter { target, .. } => {
            meters(p, tables, target, |target, meter| {
                undo.push(Undo::Rates(target, Box::new(meter.state())));
            })?;
        }
        TableOp::ClearColours { target } => {
            meters(p, tables, target, |target, meter| {
                undo.push(Undo::Colours(target, Box::new(meter.state())));
            })?;
        }
        TableOp::WriteRegister {
            register, index, ..
        } => {
            let (array, name) = p.register(register.0)?;
            for i in indices(&name, *index, array.size() as usize)? {
                let index = number(i);
                let value = index.and_then(|i| array.read_bytes(i)).unwrap_or_default();
                undo.push(Undo::Other(TableOp::WriteRegister {
                    register: *register,
                    index,
                    value,
                }));
            }
        }
        _ => {}
    }
    Ok(undo)
}

/// Each meter that a target means, with its own target.
pub(super) fn meters(
    p: &Pipeline,
    tables: &Tables,
    target: &MeterTarget,
    mut each: impl FnMut(MeterTarget, &Meter),
) -> Result<(), TableError> {
    let (table, key) = match target {
        MeterTarget::Indexed { meter, index } => {
            let cells = &p.meter(meter.0)?.cells;
            for i in indices(&p.meter_name(meter.0), *index, cells.len())? {
                let index = Some(u32::try_from(i).unwrap_or(u32::MAX));
                let meter = *meter;
                if let Some(cell) = cells.get(i) {
                    each(MeterTarget::Indexed { meter, index }, cell);
                }
            }
            return Ok(());
        }
        MeterTarget::Direct { table, key } => (*table, Some(key)),
        MeterTarget::Default { table } => (*table, None),
    };
    let meter = tables.direct_meter(&p.program, table, key)?;
    each(target.clone(), meter);
    Ok(())
}
