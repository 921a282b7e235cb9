//! One operation at a time, and what operations are checked by.

use crate::control::{CounterTarget, TableError, TableOp};
use crate::counters::CounterArray;
use crate::meters::MeterArray;
use crate::program::{ProfileId, Program};
use crate::registers::RegisterArray;
use crate::tables::key::check_width;
use crate::tables::{Log, Prepared, Tables};

use super::atomic::meters;
use super::{Pipeline, Timestamp};

impl Pipeline {
    pub(super) fn counter(&self, id: u32) -> Result<&CounterArray, TableError> {
        self.counters
            .get(id as usize)
            .ok_or(TableError::NoSuchObject {
                what: "counter",
                id,
            })
    }

    pub(super) fn counter_name(&self, id: u32) -> String {
        let info = self.program.counters.get(id as usize);
        format!("counter {}", info.map_or("", |c| c.name.as_str()))
    }

    pub(super) fn meter(&self, id: u32) -> Result<&MeterArray, TableError> {
        self.meters
            .get(id as usize)
            .ok_or(TableError::NoSuchObject { what: "meter", id })
    }

    pub(super) fn meter_name(&self, id: u32) -> String {
        let info = self.program.meters.get(id as usize);
        format!("meter {}", info.map_or("", |m| m.name.as_str()))
    }

    pub(super) fn register(&self, id: u32) -> Result<&RegisterArray, TableError> {
        self.registers.get(id).ok_or(TableError::NoSuchObject {
            what: "register",
            id,
        })
    }

    pub(super) fn register_name(&self, id: u32) -> String {
        let info = self.program.registers.get(id as usize);
        format!("register {}", info.map_or("", |r| r.name.as_str()))
    }
}

/// One index, or all of them. `place` names the array, if that has no such index.
pub(super) fn indices(
    place: impl FnOnce() -> String,
    index: Option<u32>,
    size: usize,
) -> Result<std::ops::Range<usize>, TableError> {
    match index {
        None => Ok(0..size),
        Some(i) if (i as usize) < size => Ok(i as usize..i as usize + 1),
        Some(i) => Err(TableError::OutOfRange {
            place: place(),
            index: u64::from(i),
            size: size as u64,
        }),
    }
}

/// Carries out a prepared operation.
pub(super) fn publish(
    p: &Pipeline,
    tables: &mut Tables,
    op: &Prepared<'_>,
    now: Timestamp,
    log: &mut Log,
) -> Result<(), TableError> {
    let program = &*p.program;
    match op {
        Prepared::Insert(new) => tables.insert(program, new, now, log),
        Prepared::Modify(new) => tables.modify(program, new, now, log),
        Prepared::Delete(table, key, allowed) => tables.delete(program, *table, key, allowed, log),
        Prepared::Other(op) => other(p, tables, op, log),
    }
}

/// Operations on anything but entries.
pub(super) fn other(
    p: &Pipeline,
    tables: &mut Tables,
    op: &TableOp,
    log: &mut Log,
) -> Result<(), TableError> {
    let program = &*p.program;
    match op {
        // Prepared, so they never come here.
        TableOp::Insert { .. } | TableOp::Modify { .. } | TableOp::Delete { .. } => Ok(()),
        TableOp::SetDefault { table, action } => tables.set_default(program, *table, action, log),
        TableOp::ResetDefault { table } => tables.reset_default(program, *table, log),
        TableOp::InsertMember { profile, member } => {
            let slot = Tables::member_slot(program, profile.0, &member.call)?;
            tables
                .profile_mut(profile.0)?
                .insert_member(member.id, slot, None)
        }
        TableOp::ModifyMember { profile, member } => {
            let slot = Tables::member_slot(program, profile.0, &member.call)?;
            tables
                .profile_mut(profile.0)?
                .modify_member(member.id, slot)
        }
        TableOp::DeleteMember { profile, id } => tables.profile_mut(profile.0)?.delete_member(*id),
        TableOp::InsertGroup { profile, group } => {
            with_selector(program, *profile)?;
            tables.profile_mut(profile.0)?.insert_group(group, None)
        }
        TableOp::ModifyGroup { profile, group } => {
            with_selector(program, *profile)?;
            tables.profile_mut(profile.0)?.modify_group(group)
        }
        TableOp::DeleteGroup { profile, id } => tables.profile_mut(profile.0)?.delete_group(*id),
        TableOp::WriteCounter { target, value } => match target {
            CounterTarget::Direct { table, key } => tables
                .direct_counter(program, *table, Some(key), Some(*value))
                .map(|_| ()),
            CounterTarget::Default { table } => tables
                .direct_counter(program, *table, None, Some(*value))
                .map(|_| ()),
            CounterTarget::Indexed { counter, index } => {
                let cells = p.counter(counter.0)?;
                for i in indices(|| p.counter_name(counter.0), *index, cells.size())? {
                    cells.set(i, *value);
                }
                Ok(())
            }
        },
        TableOp::ConfigureMeter { target, config } => {
            if let Some(c) = config.filter(|c| c.eburst.is_none() && c.pir < c.cir) {
                return Err(TableError::Invalid {
                    place: "meter".into(),
                    what: format!("the peak rate {} is below the committed {}", c.pir, c.cir),
                });
            }
            meters(p, tables, target, |meter| meter.configure(*config))
        }
        TableOp::ClearColours { target } => meters(p, tables, target, |meter| meter.clear_counts()),
        TableOp::WriteRegister {
            register,
            index,
            value,
        } => {
            let array = p.register(register.0)?;
            let name = p.register_name(register.0);
            let width = program
                .registers
                .get(register.index())
                .map_or(0, |r| r.width);
            check_width(&name, "cell", width, value)?;
            let range = indices(|| name, *index, array.size() as usize)?;
            let number = num_bigint::BigInt::from_bytes_be(num_bigint::Sign::Plus, value);
            for i in range {
                array.write(i as u64, number.clone());
            }
            Ok(())
        }
    }
}

fn with_selector(program: &Program, profile: ProfileId) -> Result<(), TableError> {
    match program.profiles.get(profile.index()) {
        Some(p) if !p.with_selector => Err(TableError::Invalid {
            place: format!("action profile {}", p.name),
            what: "it has no selector, so it has no groups".into(),
        }),
        _ => Ok(()),
    }
}
