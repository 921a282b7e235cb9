//! Updates of everything but table entries and action profiles.

use std::collections::HashSet;
use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use prost::Message as _;
use tonic::Code;

use super::Batch;
use crate::p4rt::Mode;
use crate::p4rt::binding::{Binding, CounterUnit, MeterKind, TableBinding};
use crate::p4rt::digest::SwitchedOn;
use crate::p4rt::entry;
use crate::p4rt::fault::{Fault, Outcome};
use crate::{CounterTarget, CounterValue, EntryKey, MeterTarget, TableOp};

impl Batch<'_> {
    pub(super) fn counter(&mut self, kind: UpdateType, counter: &p4::CounterEntry) -> Outcome<()> {
        let bound = self.binding.counters.get(&counter.counter_id);
        let bound = bound.ok_or_else(|| self.binding.unknown("counter", counter.counter_id))?;
        only_modify(kind, &bound.name)?;
        let index = entry::decode_index(&bound.name, counter.index.as_ref(), bound.size)?;
        if let Some(data) = self.counted(counter.data) {
            let value = entry::decode_counter(&data)?;
            let target = CounterTarget::Indexed {
                counter: bound.core,
                index,
            };
            self.write_counter(target, Some(bound.unit), value)?;
        }
        Ok(())
    }

    /// What a write says that a counter has. bmv2's server takes nothing as 0;
    /// in the specification it changes nothing.
    fn counted(&self, data: Option<p4::CounterData>) -> Option<p4::CounterData> {
        match self.target.mode {
            Mode::Compat => Some(data.unwrap_or_default()),
            Mode::Strict => data,
        }
    }

    /// Writes counter cells. In compatible mode only what the counter counts,
    /// as bmv2's server does; the specification has both written.
    pub(super) fn write_counter(
        &mut self,
        target: CounterTarget,
        unit: Option<CounterUnit>,
        value: CounterValue,
    ) -> Outcome<()> {
        let unit = match (self.target.mode, unit) {
            (Mode::Compat, Some(unit @ (CounterUnit::Bytes | CounterUnit::Packets))) => unit,
            _ => {
                self.push(TableOp::WriteCounter { target, value });
                return Ok(());
            }
        };
        self.flush();
        let old = self.target.switch.read_counter(&target)?;
        for (position, old) in (0..).zip(old) {
            let target = match &target {
                CounterTarget::Indexed { counter, index } => CounterTarget::Indexed {
                    counter: *counter,
                    index: Some(index.unwrap_or(position)),
                },
                direct => direct.clone(),
            };
            let value = unit.written(value, old);
            self.push(TableOp::WriteCounter { target, value });
        }
        Ok(())
    }

    pub(super) fn meter(&mut self, kind: UpdateType, meter: &p4::MeterEntry) -> Outcome<()> {
        let bound = self.binding.meters.get(&meter.meter_id);
        let bound = bound.ok_or_else(|| self.binding.unknown("meter", meter.meter_id))?;
        only_modify(kind, &bound.name)?;
        let index = entry::decode_index(&bound.name, meter.index.as_ref(), bound.size)?;
        let target = MeterTarget::Indexed {
            meter: bound.core,
            index,
        };
        let colours = meter.counter_data.as_ref();
        let config = meter.config.as_ref();
        self.configure_meter((&bound.name, bound.kind), target, config, colours)
    }

    pub(super) fn direct_counter(
        &mut self,
        kind: UpdateType,
        counter: &p4::DirectCounterEntry,
    ) -> Outcome<()> {
        let (table, entry) = direct_table(self.binding, counter.table_entry.as_ref())?;
        only_modify(kind, &table.name)?;
        if table.counter.is_none() {
            return Err(Fault::invalid(format!(
                "table {}: it has no direct counter",
                table.name
            )));
        }
        let key = entry::decode_direct_key(table, entry)?;
        // bmv2's server knows no counter of the default entry.
        let data = match key {
            Some(_) => self.counted(counter.data),
            None => counter.data,
        };
        match (data, key) {
            (Some(data), key) => {
                let value = entry::decode_counter(&data)?;
                let target = counter_of(table, key);
                self.write_counter(target, table.counter, value)?;
            }
            (None, Some(key)) => {
                self.flush();
                self.target.switch.get_entry(table.core, &key, self.now)?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    pub(super) fn direct_meter(
        &mut self,
        kind: UpdateType,
        meter: &p4::DirectMeterEntry,
    ) -> Outcome<()> {
        let (table, entry) = direct_table(self.binding, meter.table_entry.as_ref())?;
        only_modify(kind, &table.name)?;
        let kind = table.meter.ok_or_else(|| {
            Fault::invalid(format!("table {}: it has no direct meter", table.name))
        })?;
        let target = meter_of(table, entry::decode_direct_key(table, entry)?);
        let colours = meter.counter_data.as_ref();
        let config = meter.config.as_ref();
        self.configure_meter((&table.name, kind), target, config, colours)
    }

    /// Sets a meter's rates and clears what it has counted if that is set.
    pub(super) fn configure_meter(
        &mut self,
        (place, kind): (&str, MeterKind),
        target: MeterTarget,
        config: Option<&p4::MeterConfig>,
        colours: Option<&p4::MeterCounterData>,
    ) -> Outcome<()> {
        let mode = self.target.mode;
        let config = config.map(|config| entry::decode_meter(place, kind, mode, config));
        let config = config.transpose()?.flatten();
        if let Some(colours) = colours {
            entry::check_colours(place, colours)?;
            let target = target.clone();
            self.push(TableOp::ClearColours { target });
        }
        self.push(TableOp::ConfigureMeter { target, config });
        Ok(())
    }

    pub(super) fn register(
        &mut self,
        kind: UpdateType,
        register: &p4::RegisterEntry,
    ) -> Outcome<()> {
        let id = register.register_id;
        let bound = self.binding.registers.get(&id);
        let bound = bound.ok_or_else(|| self.binding.unknown("register", id))?;
        only_modify(kind, &bound.name)?;
        let index = entry::decode_index(&bound.name, register.index.as_ref(), bound.size)?;
        let data = register
            .data
            .as_ref()
            .ok_or_else(|| Fault::invalid(format!("{}: the data is missing", bound.name)))?;
        let value = bound.data()?.decode(data)?;
        self.push(TableOp::WriteRegister {
            register: bound.core,
            index,
            value,
        });
        Ok(())
    }

    pub(super) fn value_set(&mut self, kind: UpdateType, set: &p4::ValueSetEntry) -> Outcome<()> {
        let id = set.value_set_id;
        let bound = self.binding.value_sets.get(&id);
        let bound = bound.ok_or_else(|| self.binding.unknown("value set", id))?;
        only_modify(kind, &bound.name)?;
        let mut members = Vec::with_capacity(set.members.len());
        let mut seen = HashSet::new();
        let mut written = Vec::with_capacity(set.members.len());
        for member in &set.members {
            let member = entry::decode_set_member(bound, member)?;
            let canonical = entry::encode_set_member(bound, &member);
            if !seen.insert(canonical.encode_to_vec()) {
                return Err(Fault::new(
                    Code::AlreadyExists,
                    format!("value set {}: a member is given twice", bound.name),
                ));
            }
            members.push(member);
            written.push(canonical);
        }
        let switch = &self.target.switch;
        switch.set_value_set_noting(bound.core, &members, &mut self.journal)?;
        let written = p4::ValueSetEntry {
            value_set_id: id,
            members: written,
        };
        Arc::make_mut(&mut self.target.value_sets).insert(id, written);
        Ok(())
    }

    pub(super) fn digest(&mut self, kind: UpdateType, digest: p4::DigestEntry) -> Outcome<()> {
        let id = digest.digest_id;
        let bound = self.binding.digests.get(&id);
        let bound = bound.ok_or_else(|| self.binding.unknown("digest", id))?;
        if let Err(why) = &bound.data {
            let name = &bound.name;
            return Err(Fault::unimplemented(format!("digest {name}: {why}")));
        }
        let digests = Arc::make_mut(&mut self.target.digests);
        let exists = digests.contains_key(&id);
        match (kind, exists) {
            (UpdateType::Insert, true) => Err(Fault::new(
                Code::AlreadyExists,
                format!("digest {id} is switched on already"),
            )),
            (UpdateType::Modify | UpdateType::Delete, false) => {
                Err(Fault::not_found(format!("digest {id} is not switched on")))
            }
            (UpdateType::Delete, true) => {
                digests.remove(&id);
                Ok(())
            }
            _ => {
                let config = digest.config.unwrap_or_default();
                if config.max_timeout_ns < 0
                    || config.max_list_size < 0
                    || config.ack_timeout_ns < 0
                {
                    return Err(Fault::invalid(format!(
                        "digest {id}: its configuration has a negative number"
                    )));
                }
                let time = match digests.get(&id) {
                    Some(on) => on.time,
                    None => {
                        self.target.digests_switched_on += 1;
                        self.target.digests_switched_on
                    }
                };
                digests.insert(id, SwitchedOn { config, time });
                Ok(())
            }
        }
    }
}

fn only_modify(kind: UpdateType, place: &str) -> Outcome<()> {
    match kind {
        UpdateType::Modify => Ok(()),
        _ => Err(Fault::invalid(format!(
            "{place}: it can only be modified, not inserted or deleted"
        ))),
    }
}

/// The table of a direct resource and the entry that names the cell.
pub(in crate::p4rt) fn direct_table<'b, 'e>(
    binding: &'b Binding,
    entry: Option<&'e p4::TableEntry>,
) -> Outcome<(&'b TableBinding, &'e p4::TableEntry)> {
    let entry = entry.ok_or_else(|| Fault::invalid("the table_entry is missing"))?;
    Ok((binding.table(entry.table_id)?, entry))
}

/// The direct counter of an entry; without a key that of the default entry.
pub(super) fn counter_of(table: &TableBinding, key: Option<EntryKey>) -> CounterTarget {
    let table = table.core;
    match key {
        Some(key) => CounterTarget::Direct { table, key },
        None => CounterTarget::Default { table },
    }
}

/// The direct meter of an entry; without a key that of the default entry.
pub(super) fn meter_of(table: &TableBinding, key: Option<EntryKey>) -> MeterTarget {
    let table = table.core;
    match key {
        Some(key) => MeterTarget::Direct { table, key },
        None => MeterTarget::Default { table },
    }
}
