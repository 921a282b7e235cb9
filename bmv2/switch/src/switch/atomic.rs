//! Batches that packets see whole or not at all, and operations that can be
//! taken back.

use std::sync::Arc;

use super::apply::{indices, other, publish};
use super::arrays;
use super::pipeline::ALONE;
use super::{Pipeline, Switch, Timestamp};
use crate::control::{CounterTarget, MeterTarget, TableError, TableOp};
use crate::meters::Meter;
use crate::replication::Replication;
use crate::tables::{Array, Log, Prepared, Tables, Undo, prepare};

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
        Prepared::Other(op) if log.is_on() && !of_array(op).is_some_and(|a| log.has(a)) => {
            inverse(p, tables, op)
        }
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
                let _ = meters(p, tables, &target, |m| m.restore_rates(&old));
            }
            Undo::Colours(target, old) => {
                let _ = meters(p, tables, &target, |m| m.restore_counts(&old));
            }
            Undo::Array(array, held) => arrays::put_back(p, array, held),
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
    let undo = match op {
        TableOp::WriteCounter { target, .. } => {
            let value = match target {
                CounterTarget::Indexed { index: None, .. } => return Ok(whole(p, op)),
                CounterTarget::Indexed {
                    counter,
                    index: Some(i),
                } => p.counter(counter.0)?.get(*i as usize),
                CounterTarget::Direct { table, key } => {
                    Some(tables.direct_counter(&p.program, *table, Some(key), None)?)
                }
                CounterTarget::Default { table } => {
                    Some(tables.direct_counter(&p.program, *table, None, None)?)
                }
            };
            let target = target.clone();
            value.map(|value| Undo::Other(TableOp::WriteCounter { target, value }))
        }
        TableOp::ConfigureMeter { target, .. } | TableOp::ClearColours { target } => {
            if matches!(target, MeterTarget::Indexed { index: None, .. }) {
                return Ok(whole(p, op));
            }
            let is_rates = matches!(op, TableOp::ConfigureMeter { .. });
            let mut undo = None;
            meters(p, tables, target, |meter| {
                let (target, state) = (target.clone(), Box::new(meter.state()));
                undo = Some(match is_rates {
                    true => Undo::Rates(target, state),
                    false => Undo::Colours(target, state),
                });
            })?;
            undo
        }
        TableOp::WriteRegister { index: None, .. } => return Ok(whole(p, op)),
        TableOp::WriteRegister {
            register,
            index: Some(index),
            ..
        } => p.register(register.0)?.read_bytes(*index).map(|value| {
            Undo::Other(TableOp::WriteRegister {
                register: *register,
                index: Some(*index),
                value,
            })
        }),
        _ => None,
    };
    Ok(undo.into_iter().collect())
}

/// The array that an operation writes to, one cell or all.
fn of_array(op: &TableOp) -> Option<Array> {
    match op {
        TableOp::WriteCounter {
            target: CounterTarget::Indexed { counter, .. },
            ..
        } => Some(Array::Counter(counter.0)),
        TableOp::ConfigureMeter {
            target: MeterTarget::Indexed { meter, .. },
            ..
        } => Some(Array::Rates(meter.0)),
        TableOp::ClearColours {
            target: MeterTarget::Indexed { meter, .. },
        } => Some(Array::Colours(meter.0)),
        TableOp::WriteRegister { register, .. } => Some(Array::Register(register.0)),
        _ => None,
    }
}

fn whole(p: &Pipeline, op: &TableOp) -> Vec<Undo> {
    let undo = of_array(op).and_then(|array| Some(Undo::Array(array, arrays::held(p, array)?)));
    undo.into_iter().collect()
}

/// Each meter that a target means.
pub(super) fn meters(
    p: &Pipeline,
    tables: &Tables,
    target: &MeterTarget,
    mut each: impl FnMut(&Meter),
) -> Result<(), TableError> {
    let (table, key) = match target {
        MeterTarget::Indexed { meter, index } => {
            let cells = &p.meter(meter.0)?.cells;
            let range = indices(|| p.meter_name(meter.0), *index, cells.len())?;
            cells
                .iter()
                .take(range.end)
                .skip(range.start)
                .for_each(each);
            return Ok(());
        }
        MeterTarget::Direct { table, key } => (*table, Some(key)),
        MeterTarget::Default { table } => (*table, None),
    };
    each(tables.direct_meter(&p.program, table, key)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, SwitchConfig, Value};

    /// What a batch may have to put back of an array is noted once, however often
    /// all of it is written.
    #[test]
    fn whole_arrays_are_noted_once() {
        let switch = Switch::new(SwitchConfig::default());
        let json = include_bytes!("../../testdata/externs.json");
        switch.install(Program::load(json).unwrap());
        let register = switch.program().unwrap().register_by_name("In.cells");
        let write = |index| TableOp::WriteRegister {
            register: register.unwrap(),
            index,
            value: Value::from_slice(&[1]),
        };
        let mut journal = switch.journal();
        let mut noted = |ops: &[TableOp]| {
            let now = Timestamp::default();
            switch.apply_atomic_noting(now, ops, &mut journal).unwrap();
            journal.log.len()
        };
        assert_eq!(noted(&[write(Some(1)), write(Some(1))]), 2);
        assert_eq!(noted(&[write(None), write(None), write(Some(2))]), 3);
        assert_eq!(noted(&[write(None), write(Some(2))]), 3);
        let meter = switch.program().unwrap().meter_by_name("In.limits");
        let clear = TableOp::ClearColours {
            target: MeterTarget::Indexed {
                meter: meter.unwrap(),
                index: None,
            },
        };
        assert_eq!(noted(&[clear.clone(), clear.clone()]), 4);
        assert_eq!(noted(&[clear]), 4);
    }
}
