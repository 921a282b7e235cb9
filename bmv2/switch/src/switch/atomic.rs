//! Batches that packets see whole or not at all.

use super::apply::{indices, other, publish};
use super::{Pipeline, Switch, Timestamp};
use crate::control::{CounterTarget, MeterTarget, TableError, TableOp};
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
                    take_back(&p, tables, &mut log);
                    return Err(BatchError { at, error });
                }
            }
            Ok(())
        });
        writer.mend();
        result
    }
}

/// One operation, and how to take it back.
fn step(
    p: &Pipeline,
    tables: &mut Tables,
    op: &Prepared<'_>,
    now: Timestamp,
    log: &mut Log,
) -> Result<(), TableError> {
    let inverse = match op {
        Prepared::Other(op) => inverse(p, tables, op),
        _ => Vec::new(),
    };
    publish(p, tables, op, now, log)?;
    for op in inverse {
        log.note(|| Undo::Other(op));
    }
    Ok(())
}

fn take_back(p: &Pipeline, tables: &mut Tables, log: &mut Log) {
    while let Some(undo) = log.pop() {
        match undo {
            // It was like this before, so it cannot be refused.
            Undo::Other(op) => {
                let _ = other(p, tables, &op, &mut Log::off());
            }
            undo => tables.undo(&p.program, undo),
        }
    }
}

/// What takes back an operation on a profile, counter, meter or register;
/// nothing for one that is going to fail.
fn inverse(p: &Pipeline, tables: &Tables, op: &TableOp) -> Vec<TableOp> {
    let member = |profile: u32, id: u32| {
        let members = tables.members(&p.program, profile).ok()?;
        members.into_iter().find(|m| m.id == id)
    };
    let group = |profile: u32, id: u32| {
        let groups = tables.profile(profile).ok()?.groups();
        groups.into_iter().find(|g| g.id == id)
    };
    match op {
        TableOp::InsertMember { profile, member } => vec![TableOp::DeleteMember {
            profile: *profile,
            id: member.id,
        }],
        TableOp::ModifyMember { profile, member: m } => member(profile.0, m.id)
            .map(|member| TableOp::ModifyMember {
                profile: *profile,
                member,
            })
            .into_iter()
            .collect(),
        TableOp::DeleteMember { profile, id } => member(profile.0, *id)
            .map(|member| TableOp::InsertMember {
                profile: *profile,
                member,
            })
            .into_iter()
            .collect(),
        TableOp::InsertGroup { profile, group } => vec![TableOp::DeleteGroup {
            profile: *profile,
            id: group.id,
        }],
        TableOp::ModifyGroup { profile, group: g } => group(profile.0, g.id)
            .map(|group| TableOp::ModifyGroup {
                profile: *profile,
                group,
            })
            .into_iter()
            .collect(),
        TableOp::DeleteGroup { profile, id } => group(profile.0, *id)
            .map(|group| TableOp::InsertGroup {
                profile: *profile,
                group,
            })
            .into_iter()
            .collect(),
        TableOp::WriteCounter { .. }
        | TableOp::ConfigureMeter { .. }
        | TableOp::WriteRegister { .. } => cells(p, tables, op).unwrap_or_default(),
        // These have their own way back.
        TableOp::Insert { .. }
        | TableOp::Modify { .. }
        | TableOp::Delete { .. }
        | TableOp::SetDefault { .. }
        | TableOp::ResetDefault { .. } => Vec::new(),
    }
}

/// Writes that put back what cells hold now.
fn cells(p: &Pipeline, tables: &Tables, op: &TableOp) -> Result<Vec<TableOp>, TableError> {
    let number = |i: usize| Some(u32::try_from(i).unwrap_or(u32::MAX));
    Ok(match op {
        TableOp::WriteCounter {
            target: CounterTarget::Indexed { counter, index },
            ..
        } => {
            let array = p.counter(counter.0)?;
            let range = indices(&p.counter_name(counter.0), *index, array.size())?;
            range
                .filter_map(|i| {
                    Some(TableOp::WriteCounter {
                        target: CounterTarget::Indexed {
                            counter: *counter,
                            index: number(i),
                        },
                        value: array.get(i)?,
                    })
                })
                .collect()
        }
        TableOp::WriteCounter {
            target: target @ CounterTarget::Direct { table, key },
            ..
        } => vec![TableOp::WriteCounter {
            target: target.clone(),
            value: tables.direct_counter(&p.program, *table, key, None)?,
        }],
        TableOp::ConfigureMeter {
            target: MeterTarget::Indexed { meter, index },
            ..
        } => {
            let array = &p.meter(meter.0)?.cells;
            let range = indices(&p.meter_name(meter.0), *index, array.len())?;
            range
                .filter_map(|i| {
                    Some(TableOp::ConfigureMeter {
                        target: MeterTarget::Indexed {
                            meter: *meter,
                            index: number(i),
                        },
                        config: array.get(i)?.config(),
                    })
                })
                .collect()
        }
        TableOp::ConfigureMeter {
            target: target @ MeterTarget::Direct { table, key },
            ..
        } => vec![TableOp::ConfigureMeter {
            target: target.clone(),
            config: tables.direct_meter(&p.program, *table, key)?.config(),
        }],
        TableOp::WriteRegister {
            register, index, ..
        } => {
            let (array, name) = p.register(register.0)?;
            let range = indices(&name, *index, array.size() as usize)?;
            range
                .filter_map(|i| {
                    Some(TableOp::WriteRegister {
                        register: *register,
                        index: number(i),
                        value: array.read_bytes(u32::try_from(i).ok()?)?,
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    })
}
