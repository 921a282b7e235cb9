//! Write: updates become operations on the switch, some dozens at once, so that
//! packets are not disturbed for each.

mod atomic;
mod default;
mod resources;
mod rollback;

use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use tonic::Code;

use super::Mode;
use super::binding::{Binding, TableBinding};
use super::canonical;
use super::entry::{self, ActionUse};
use super::fault::{Fault, Outcome};
use super::profiles::{Profiles, Writer};
use super::target::Target;
use crate::switch::Journal;
use crate::{CounterValue, EntryAction, EntryKey, TableEntry, TableError, TableOp, Timestamp};

pub(super) use atomic::{execute_atomic, is_plain};
pub(super) use resources::direct_table;
pub(super) use rollback::execute_or_take_back;

/// Carries out the updates in order; a failed one does not stop the rest.
/// Returns one outcome for each.
pub(super) fn execute(
    target: &mut Target,
    now: Timestamp,
    updates: Vec<p4::Update>,
) -> Vec<Outcome<()>> {
    let pipeline = Arc::clone(&target.pipeline);
    let mut batch = Batch::new(
        target,
        &pipeline.binding,
        now,
        updates.len(),
        Journal::off(),
    );
    for update in updates {
        batch.carry_out(update);
    }
    batch.flush();
    batch.outcomes
}

/// Operations that wait at most: what is made of an update is used while it is
/// still in the caches, and its memory serves the next.
const WAITING: usize = 64;

struct Batch<'t> {
    target: &'t mut Target,
    binding: &'t Binding,
    now: Timestamp,
    /// Operations that wait to be carried out together.
    ops: Vec<TableOp>,
    /// Which update each of them belongs to.
    owners: Vec<usize>,
    outcomes: Vec<Outcome<()>>,
    /// What takes back what was carried out.
    journal: Journal,
}

impl<'t> Batch<'t> {
    fn new(
        target: &'t mut Target,
        binding: &'t Binding,
        now: Timestamp,
        updates: usize,
        journal: Journal,
    ) -> Self {
        Self {
            outcomes: Vec::with_capacity(updates),
            ops: Vec::with_capacity(updates.min(WAITING)),
            owners: Vec::with_capacity(updates.min(WAITING)),
            binding,
            target,
            now,
            journal,
        }
    }

    /// Carries out an update, or sees to it that it will be; whether it did not
    /// fail yet.
    fn carry_out(&mut self, update: p4::Update) -> bool {
        self.outcomes.push(Ok(()));
        match self.update(update) {
            Ok(()) => {
                if self.ops.len() >= WAITING {
                    self.flush();
                }
                true
            }
            Err(fault) => {
                let update = self.outcomes.len() - 1;
                while self.owners.last() == Some(&update) {
                    self.owners.pop();
                    self.ops.pop();
                }
                self.fail(update, fault);
                false
            }
        }
    }

    fn fail(&mut self, update: usize, fault: Fault) {
        if self.outcomes[update].is_ok() {
            self.outcomes[update] = Err(fault);
        }
    }

    fn flush(&mut self) {
        if self.ops.is_empty() {
            return;
        }
        let owners = std::mem::take(&mut self.owners);
        // An update that has failed changes nothing more.
        let chained = |at: usize| at > 0 && owners.get(at - 1) == owners.get(at);
        let switch = &self.target.switch;
        let results = switch.apply_noting(self.now, &self.ops, chained, &mut self.journal);
        self.ops.clear();
        for (owner, result) in owners.iter().zip(results) {
            if let Err(error) = result {
                self.fail(*owner, refusal(self.target.mode, error));
            }
        }
        self.owners = owners;
        self.owners.clear();
    }

    /// Adds an operation of the current update.
    fn push(&mut self, op: TableOp) {
        self.ops.push(op);
        self.owners.push(self.outcomes.len() - 1);
    }

    /// The profiles, and what to write them with, once what waits is done.
    fn profiles(&mut self) -> (&mut Profiles, Writer<'_>) {
        self.flush();
        let writer = Writer {
            binding: self.binding,
            switch: &self.target.switch,
            mode: self.target.mode,
            now: self.now,
            journal: &mut self.journal,
        };
        (Arc::make_mut(&mut self.target.profiles), writer)
    }

    fn update(&mut self, update: p4::Update) -> Outcome<()> {
        let kind = update.r#type();
        if kind == UpdateType::Unspecified {
            return Err(Fault::invalid("the update has no type"));
        }
        let entity = update
            .entity
            .and_then(|entity| entity.entity)
            .ok_or_else(|| Fault::invalid("the update has no entity"))?;
        match entity {
            Entity::TableEntry(entry) => self.table_entry(kind, entry),
            Entity::CounterEntry(counter) => self.counter(kind, &counter),
            Entity::DirectCounterEntry(counter) => self.direct_counter(kind, &counter),
            Entity::MeterEntry(meter) => self.meter(kind, &meter),
            Entity::DirectMeterEntry(meter) => self.direct_meter(kind, &meter),
            Entity::RegisterEntry(register) => self.register(kind, &register),
            Entity::ActionProfileMember(member) => {
                let (profiles, mut writer) = self.profiles();
                profiles.write_member(&mut writer, kind, &member)
            }
            Entity::ActionProfileGroup(group) => {
                let (profiles, mut writer) = self.profiles();
                profiles.write_group(&mut writer, kind, group)
            }
            Entity::PacketReplicationEngineEntry(entry) => {
                let Target {
                    replication,
                    switch,
                    ..
                } = self.target;
                Arc::make_mut(replication).write(switch, kind, entry)
            }
            Entity::DigestEntry(digest) => self.digest(kind, digest),
            Entity::ValueSetEntry(set) => self.value_set(kind, &set),
            Entity::ExternEntry(_) => Err(Fault::unimplemented(
                "v1model has no externs that are accessed as ExternEntry",
            )),
        }
    }

    fn table_entry(&mut self, kind: UpdateType, entry: p4::TableEntry) -> Outcome<()> {
        let binding = self.binding;
        let table = binding.table(entry.table_id)?;
        check_entry(self.target.mode, table, kind, &entry)?;
        if entry.is_default_action {
            return self.default_entry(table, kind, entry);
        }
        let key = entry::decode_key(table, &entry)?;
        if table.fields.is_empty() {
            return Err(Fault::invalid(format!(
                "table {}: it has no key, so only its default action can be written",
                table.name
            )));
        }
        if table.profile.is_some() {
            return self.indirect_entry(table, kind, entry, key);
        }
        match kind {
            UpdateType::Delete => {
                self.push(TableOp::Delete {
                    table: table.core,
                    key,
                });
                Ok(())
            }
            UpdateType::Modify if entry.action.is_none() => {
                self.direct_resources(table, key, &entry)
            }
            _ => {
                let action = match entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
                    Some(p4::table_action::Type::Action(action)) => {
                        EntryAction::Call(entry::decode_action(table, action, ActionUse::Entry)?)
                    }
                    Some(_) => {
                        return Err(Fault::invalid(format!(
                            "table {}: it has no action profile, so an entry needs an action",
                            table.name
                        )));
                    }
                    None => {
                        return Err(Fault::invalid(format!(
                            "table {}: the entry has no action",
                            table.name
                        )));
                    }
                };
                self.store_entry(table, kind, entry, key, action)
            }
        }
    }

    /// Adds the operations for an entry whose action is known.
    fn store_entry(
        &mut self,
        table: &TableBinding,
        kind: UpdateType,
        entry: p4::TableEntry,
        key: EntryKey,
        action: EntryAction,
    ) -> Outcome<()> {
        let idle_timeout_ns = entry::decode_idle_timeout(table, &entry)?;
        let counter = entry.counter_data.as_ref().map(entry::decode_counter);
        let counter = counter.transpose()?;
        let counter = counter.map(|value| match (self.target.mode, table.counter) {
            (Mode::Compat, Some(unit)) => unit.written(value, CounterValue::default()),
            _ => value,
        });
        let meter = match (&entry.meter_config, table.meter) {
            (Some(config), Some(kind)) => {
                entry::decode_meter(&table.name, kind, self.target.mode, config)?
            }
            _ => None,
        };
        // Those of a new entry are 0.
        let is_modify = kind == UpdateType::Modify;
        let clears = is_modify && entry.meter_counter_data.is_some();
        let needs_key = counter.is_some() || table.meter.is_some();
        let key_again = needs_key.then(|| key.clone());
        let stored = TableEntry {
            key,
            action,
            idle_timeout_ns,
            cookie: entry.controller_metadata,
            metadata: entry.metadata,
        };
        self.push(match kind {
            UpdateType::Insert => TableOp::Insert {
                table: table.core,
                entry: stored,
            },
            _ => TableOp::Modify {
                table: table.core,
                entry: stored,
            },
        });
        let Some(key) = key_again else {
            return Ok(());
        };
        if let Some(value) = counter {
            let target = resources::counter_of(table, Some(key.clone()));
            self.push(TableOp::WriteCounter { target, value });
        }
        // bmv2's server leaves a meter alone that a MODIFY says nothing of.
        let resets = is_modify && self.target.mode == Mode::Strict;
        if table.meter.is_some() {
            let target = resources::meter_of(table, Some(key));
            if clears {
                let target = target.clone();
                self.push(TableOp::ClearColours { target });
            }
            if entry.meter_config.is_some() || resets {
                self.push(TableOp::ConfigureMeter {
                    target,
                    config: meter,
                });
            }
        }
        Ok(())
    }

    /// MODIFY without an action: only the direct resources change.
    fn direct_resources(
        &mut self,
        table: &TableBinding,
        key: EntryKey,
        entry: &p4::TableEntry,
    ) -> Outcome<()> {
        self.flush();
        self.target.switch.get_entry(table.core, &key, self.now)?;
        self.write_direct(table, Some(key), entry)
    }

    /// Writes the direct resources that an entry names; a meter whose rates it
    /// does not name loses them.
    fn write_direct(
        &mut self,
        table: &TableBinding,
        key: Option<EntryKey>,
        entry: &p4::TableEntry,
    ) -> Outcome<()> {
        if let Some(data) = &entry.counter_data {
            let value = entry::decode_counter(data)?;
            let target = resources::counter_of(table, key.clone());
            self.write_counter(target, table.counter, value)?;
        }
        if let Some(kind) = table.meter {
            let target = resources::meter_of(table, key);
            let colours = entry.meter_counter_data.as_ref();
            let config = entry.meter_config.as_ref();
            self.configure_meter((&table.name, kind), target, config, colours)?;
        }
        Ok(())
    }

    /// An entry of a table with an action profile.
    fn indirect_entry(
        &mut self,
        table: &TableBinding,
        kind: UpdateType,
        mut entry: p4::TableEntry,
        key: EntryKey,
    ) -> Outcome<()> {
        let binding = self.binding;
        let profile = binding.profile(table.profile.unwrap_or_default())?;
        if kind != UpdateType::Delete {
            // Whether or not the entry is there, as bmv2's server does.
            let Target {
                profiles, switch, ..
            } = &*self.target;
            profiles.check_way(switch, profile, entry.action.as_ref())?;
        }
        let is_one_shot = self.target.profiles.is_one_shot(profile);
        let former = match kind {
            UpdateType::Insert => None,
            UpdateType::Delete if !is_one_shot => None,
            _ => {
                self.flush();
                let current = self.target.switch.get_entry(table.core, &key, self.now)?;
                Some(current.entry.action)
            }
        };
        let action = match entry.action.take().and_then(|action| action.r#type) {
            _ if kind == UpdateType::Delete => {
                self.push(TableOp::Delete {
                    table: table.core,
                    key,
                });
                let profiles = &self.target.profiles;
                if let Some(ops) = profiles.removal_of(profile, former.as_ref()) {
                    ops.into_iter().for_each(|op| self.push(op));
                    self.flush_current()?;
                    let profiles = Arc::make_mut(&mut self.target.profiles);
                    profiles.forget_one_shot(profile, former.as_ref());
                }
                return Ok(());
            }
            None if kind == UpdateType::Modify => {
                return self.direct_resources(table, key, &entry);
            }
            None => {
                return Err(Fault::invalid(format!(
                    "table {}: the entry has no action",
                    table.name
                )));
            }
            Some(p4::table_action::Type::Action(_)) => {
                return Err(Fault::invalid(format!(
                    "table {}: an entry refers to a member, a group or an action set of {}",
                    table.name, profile.name
                )));
            }
            Some(p4::table_action::Type::ActionProfileMemberId(id)) => EntryAction::Member(id),
            Some(p4::table_action::Type::ActionProfileGroupId(id)) => {
                if !profile.with_selector {
                    return Err(Fault::invalid(format!(
                        "table {}: {} has no selector, so no groups",
                        table.name, profile.name
                    )));
                }
                EntryAction::Group(id)
            }
            Some(p4::table_action::Type::ActionProfileActionSet(set)) => {
                return self.one_shot(table, kind, entry, key, set, former.as_ref());
            }
        };
        self.store_entry(table, kind, entry, key, action)
    }

    /// An entry with an action set: it and its group change in one step. The
    /// group of a former set gets the members of the new one.
    fn one_shot(
        &mut self,
        table: &TableBinding,
        kind: UpdateType,
        entry: p4::TableEntry,
        key: EntryKey,
        mut set: p4::ActionProfileActionSet,
        former: Option<&EntryAction>,
    ) -> Outcome<()> {
        self.flush();
        let binding = self.binding;
        let profile = binding.profile(table.profile.unwrap_or_default())?;
        let profiles = Arc::make_mut(&mut self.target.profiles);
        let switch = &self.target.switch;
        let prepared = profiles.prepare_one_shot(switch, profile, table, &set, former)?;
        // Its members might not fit the profile; that it is there tells more.
        let present = || self.target.switch.get_entry(table.core, &key, self.now);
        if kind == UpdateType::Insert && present().is_ok() {
            return Err(Fault::new(
                Code::AlreadyExists,
                format!("table {}: an entry with this key exists", table.name),
            ));
        }
        let of_group = prepared.ops.len();
        let group = EntryAction::Group(prepared.group);
        let stored = self.store_entry(table, kind, entry, key, group);
        let entry_ops = std::mem::take(&mut self.ops);
        self.owners.clear();
        stored?;
        let mut ops = prepared.ops;
        ops.extend(entry_ops);
        let switch = &self.target.switch;
        let done = switch.apply_atomic_noting(self.now, &ops, &mut self.journal);
        done.map_err(|failed| match failed.at < of_group {
            true => Fault::from(failed.error),
            false => refusal(self.target.mode, failed.error),
        })?;
        let profiles = Arc::make_mut(&mut self.target.profiles);
        canonical::action_set(table, &mut set);
        profiles.commit_one_shot(profile, prepared.group, prepared.members, set);
        Ok(())
    }

    /// Carries out what waits and returns what befell the current update.
    fn flush_current(&mut self) -> Outcome<()> {
        self.flush();
        match self.outcomes.last() {
            Some(outcome) => outcome.clone(),
            None => Ok(()),
        }
    }
}

/// Why the switch refused an operation on a table. For an entry that a full
/// table has no room for, bmv2 has another code.
fn refusal(mode: Mode, error: TableError) -> Fault {
    let full = matches!(error, TableError::Full { .. });
    let mut fault = Fault::from(error);
    if full && mode == Mode::Compat {
        fault.code = Code::Unknown;
    }
    fault
}

/// Checks what can be seen of an update alone. Of a deletion the key counts, and
/// that it is not said to be of a constant entry.
fn check_entry(
    mode: Mode,
    table: &TableBinding,
    kind: UpdateType,
    entry: &p4::TableEntry,
) -> Outcome<()> {
    let invalid = |what: &str| Err(Fault::invalid(format!("table {}: {what}", table.name)));
    // bmv2's server does not know the field.
    if entry.is_const && mode == Mode::Strict {
        return invalid("is_const is for answers, not for requests");
    }
    let is_deleted = kind == UpdateType::Delete;
    let changes_entries = match mode {
        Mode::Strict => kind != UpdateType::Modify || entry.action.is_some(),
        // bmv2's server first looks whether there is such an entry.
        Mode::Compat => !is_deleted && entry.action.is_some(),
    };
    if table.is_const && !entry.is_default_action && changes_entries {
        return Err(Fault::denied(format!(
            "table {}: its entries are constant in the program",
            table.name
        )));
    }
    if is_deleted {
        return Ok(());
    }
    if entry.time_since_last_hit.is_some() {
        return invalid("time_since_last_hit is for answers, not for requests");
    }
    if let Some(data) = &entry.counter_data {
        if table.counter.is_none() {
            return invalid("it has no direct counter");
        }
        entry::decode_counter(data)?;
    }
    if let Some(config) = &entry.meter_config {
        let Some(kind) = table.meter else {
            return invalid("it has no direct meter");
        };
        entry::decode_meter(&table.name, kind, mode, config)?;
    }
    if let Some(colours) = &entry.meter_counter_data {
        if table.meter.is_none() {
            return invalid("it has no direct meter");
        }
        entry::check_colours(&table.name, colours)?;
    }
    Ok(())
}
