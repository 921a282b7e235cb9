//! RECONCILE_AND_COMMIT: another program takes over the forwarding state of
//! the running one.
//!
//! The new program is filled on a switch of its own while the old one runs;
//! then the running switch adopts it in one step, so that no packet meets an
//! empty table. Everything is carried over in P4Runtime's own terms: read from
//! the old pipeline, ids translated by name, written to the new one. What
//! cannot be carried over refuses the whole.

use std::collections::HashMap;
use std::sync::Arc;

use p4runtime_proto::p4::config::v1::{P4Info, Preamble};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type as UpdateType;

use super::Mode;
use super::fault::{Fault, Outcome};
use super::target::{Pipeline, Target};
use super::{read, write};
use crate::{Program, Switch, TableOp, Timestamp};

/// Updates that are written at once.
const SLICE: usize = 1024;

/// Fills the new program with the state of the old one. What comes back is in
/// strict mode.
///
/// # Errors
/// `INVALID_ARGUMENT` with what cannot be carried over.
pub(super) fn prepare(
    old: &Target,
    pipeline: Pipeline,
    program: Program,
    now: Timestamp,
) -> Outcome<Target> {
    let shadow = Switch::new(old.switch.config().clone());
    shadow.install(program);
    let pipeline = Arc::new(pipeline);
    let names = Names::new(&old.pipeline.p4info, &pipeline.p4info);
    let mut target = Target::new(Mode::Strict, shadow, Arc::clone(&pipeline));
    empty_what_was_open(old, &target, now)?;
    // Members before groups before entries.
    let queries = [
        Entity::ActionProfileMember(p4::ActionProfileMember::default()),
        Entity::ActionProfileGroup(p4::ActionProfileGroup::default()),
        Entity::TableEntry(p4::TableEntry {
            meter_config: Some(p4::MeterConfig::default()),
            ..p4::TableEntry::default()
        }),
        Entity::TableEntry(all_defaults()),
        Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(all_defaults()),
            ..p4::DirectMeterEntry::default()
        }),
        Entity::MeterEntry(p4::MeterEntry::default()),
        Entity::RegisterEntry(p4::RegisterEntry::default()),
        Entity::ValueSetEntry(p4::ValueSetEntry::default()),
        Entity::DigestEntry(p4::DigestEntry::default()),
    ];
    for query in queries {
        carry_over(old, &mut target, &names, query, now)?;
    }
    Ok(target)
}

/// Empties the tables that the new program fills and controllers may change: they
/// get what the old ones have, which is what the controller has made of them.
fn empty_what_was_open(old: &Target, new: &Target, now: Timestamp) -> Outcome<()> {
    let by_name: HashMap<&str, bool> = old
        .pipeline
        .binding
        .tables
        .values()
        .map(|table| (table.name.as_str(), table.is_const))
        .collect();
    for table in new.pipeline.binding.tables.values() {
        if table.is_const || by_name.get(table.name.as_str()) != Some(&false) {
            continue;
        }
        let mut gone = Vec::new();
        read::each_entry(new, table.core, now, |state| {
            gone.push(TableOp::Delete {
                table: table.core,
                key: state.entry.key,
            });
            Ok(())
        })?;
        for result in new.switch.apply(now, &gone) {
            result?;
        }
    }
    Ok(())
}

/// Copies what packets change: counters, of entries and of arrays. The data
/// plane should be paused.
pub(super) fn copy_counters(old: &Target, new: &mut Target, now: Timestamp) -> Outcome<()> {
    let pipeline = Arc::clone(&new.pipeline);
    let names = Names::new(&old.pipeline.p4info, &pipeline.p4info);
    let queries = [
        Entity::CounterEntry(p4::CounterEntry::default()),
        Entity::DirectCounterEntry(p4::DirectCounterEntry::default()),
        Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(all_defaults()),
            data: None,
        }),
    ];
    for query in queries {
        carry_over(old, new, &names, query, now)?;
    }
    Ok(())
}

/// The default entries of all tables.
fn all_defaults() -> p4::TableEntry {
    p4::TableEntry {
        is_default_action: true,
        ..p4::TableEntry::default()
    }
}

fn carry_over(
    old: &Target,
    new: &mut Target,
    names: &Names<'_>,
    query: Entity,
    now: Timestamp,
) -> Outcome<()> {
    // Compatible mode would keep things back.
    let old = &Target {
        mode: Mode::Strict,
        ..old.clone()
    };
    let query = p4::Entity {
        entity: Some(query),
    };
    let mut updates = Vec::new();
    let mut flush = |updates: &mut Vec<p4::Update>| -> Outcome<()> {
        for outcome in write::execute(new, now, std::mem::take(updates)) {
            outcome.map_err(|fault| not_preserved(&fault.message))?;
        }
        Ok(())
    };
    let take = |entity: Entity| {
        if is_initial(old, &entity) {
            return Ok(());
        }
        updates.push(names.translate(entity)?);
        if updates.len() >= SLICE {
            flush(&mut updates)?;
        }
        Ok(())
    };
    read::answer(now, &query, &mut CarriedOver { old, take })?;
    flush(&mut updates)
}

/// What the old target has, which nobody changes meanwhile.
struct CarriedOver<'t, F> {
    old: &'t Target,
    take: F,
}

impl<F: FnMut(Entity) -> Outcome<()>> read::Answers for CarriedOver<'_, F> {
    fn next_piece(&mut self) -> Outcome<Target> {
        Ok(self.old.clone())
    }

    fn entity(&mut self, entity: Entity) -> Outcome<()> {
        (self.take)(entity)
    }
}

/// Whether the new program has this by itself, or starts with it anyway.
fn is_initial(old: &Target, entity: &Entity) -> bool {
    match entity {
        Entity::TableEntry(entry) if entry.is_default_action => {
            !old.default_marks.contains_key(&entry.table_id)
        }
        Entity::TableEntry(entry) => entry.is_const,
        Entity::CounterEntry(counter) => is_zero(counter.data.as_ref()),
        Entity::DirectCounterEntry(counter) => is_zero(counter.data.as_ref()),
        Entity::MeterEntry(meter) => meter.config.is_none(),
        Entity::DirectMeterEntry(meter) => meter.config.is_none(),
        Entity::RegisterEntry(register) => {
            use p4::p4_data::Data;
            let data = register.data.as_ref().and_then(|data| data.data.as_ref());
            match data {
                Some(Data::Bitstring(bytes) | Data::EnumValue(bytes)) => {
                    bytes.iter().all(|byte| *byte == 0)
                }
                Some(Data::Bool(value)) => !value,
                _ => false,
            }
        }
        Entity::ValueSetEntry(set) => set.members.is_empty(),
        _ => false,
    }
}

fn is_zero(data: Option<&p4::CounterData>) -> bool {
    data.is_none_or(|data| *data == p4::CounterData::default())
}

fn not_preserved(what: &str) -> Fault {
    Fault::invalid(format!(
        "the forwarding state cannot be preserved for this program: {what}"
    ))
}

/// Ids of the new P4Info by ids of the old one, through names.
struct Names<'i> {
    ids: HashMap<u32, Option<u32>>,
    old_names: HashMap<u32, &'i str>,
    /// By new table, and by old field.
    fields: HashMap<(u32, u32), Option<u32>>,
    /// By new action, and by old parameter.
    params: HashMap<(u32, u32), Option<u32>>,
}

impl<'i> Names<'i> {
    fn new(old: &'i P4Info, new: &'i P4Info) -> Self {
        let new_ids: HashMap<(u32, &str), u32> = preambles(new)
            .map(|preamble| ((preamble.id >> 24, preamble.name.as_str()), preamble.id))
            .collect();
        let ids = preambles(old)
            .map(|preamble| {
                let found = new_ids.get(&(preamble.id >> 24, preamble.name.as_str()));
                (preamble.id, found.copied())
            })
            .collect::<HashMap<_, _>>();
        let old_names = preambles(old).map(|p| (p.id, p.name.as_str())).collect();
        let translated = |id: u32| ids.get(&id).copied().flatten();
        let mut fields = HashMap::new();
        for table in &old.tables {
            let new_table = table.preamble.as_ref().and_then(|p| translated(p.id));
            let found = new
                .tables
                .iter()
                .find(|t| id_of(t.preamble.as_ref()) == new_table);
            let (Some(id), Some(found)) = (new_table, found) else {
                continue;
            };
            for field in &table.match_fields {
                let same = found.match_fields.iter().find(|f| f.name == field.name);
                fields.insert((id, field.id), same.map(|f| f.id));
            }
        }
        let mut params = HashMap::new();
        for action in &old.actions {
            let new_action = action.preamble.as_ref().and_then(|p| translated(p.id));
            let found = new
                .actions
                .iter()
                .find(|a| id_of(a.preamble.as_ref()) == new_action);
            let (Some(id), Some(found)) = (new_action, found) else {
                continue;
            };
            for param in &action.params {
                let same = found.params.iter().find(|p| p.name == param.name);
                params.insert((id, param.id), same.map(|p| p.id));
            }
        }
        Self {
            ids,
            old_names,
            fields,
            params,
        }
    }

    fn id(&self, old: u32) -> Outcome<u32> {
        self.ids.get(&old).copied().flatten().ok_or_else(|| {
            let name = self.old_names.get(&old).copied().unwrap_or("an object");
            not_preserved(&format!("it has no {name}, which has state"))
        })
    }

    /// The update that writes an entity of the old pipeline to the new one.
    fn translate(&self, mut entity: Entity) -> Outcome<p4::Update> {
        let kind = match &entity {
            Entity::TableEntry(entry) if !entry.is_default_action => UpdateType::Insert,
            Entity::ActionProfileMember(_)
            | Entity::ActionProfileGroup(_)
            | Entity::DigestEntry(_) => UpdateType::Insert,
            _ => UpdateType::Modify,
        };
        match &mut entity {
            Entity::TableEntry(entry) => self.entry(entry)?,
            Entity::CounterEntry(counter) => counter.counter_id = self.id(counter.counter_id)?,
            Entity::DirectCounterEntry(counter) => {
                if let Some(entry) = &mut counter.table_entry {
                    self.entry(entry)?;
                }
            }
            Entity::DirectMeterEntry(meter) => {
                if let Some(entry) = &mut meter.table_entry {
                    self.entry(entry)?;
                }
            }
            Entity::MeterEntry(meter) => meter.meter_id = self.id(meter.meter_id)?,
            Entity::RegisterEntry(register) => {
                register.register_id = self.id(register.register_id)?;
            }
            Entity::ActionProfileMember(member) => {
                member.action_profile_id = self.id(member.action_profile_id)?;
                if let Some(action) = &mut member.action {
                    self.action(action)?;
                }
            }
            Entity::ActionProfileGroup(group) => {
                group.action_profile_id = self.id(group.action_profile_id)?;
            }
            Entity::ValueSetEntry(set) => set.value_set_id = self.id(set.value_set_id)?,
            Entity::DigestEntry(digest) => digest.digest_id = self.id(digest.digest_id)?,
            Entity::PacketReplicationEngineEntry(_) | Entity::ExternEntry(_) => {}
        }
        Ok(p4::Update {
            r#type: kind as i32,
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        })
    }

    fn entry(&self, entry: &mut p4::TableEntry) -> Outcome<()> {
        let old = entry.table_id;
        entry.table_id = self.id(old)?;
        for field in &mut entry.r#match {
            let new = self.fields.get(&(entry.table_id, field.field_id));
            field.field_id = new.copied().flatten().ok_or_else(|| {
                let name = self.old_names.get(&old).copied().unwrap_or_default();
                not_preserved(&format!("the key of {name} has changed"))
            })?;
        }
        match entry
            .action
            .as_mut()
            .and_then(|action| action.r#type.as_mut())
        {
            Some(p4::table_action::Type::Action(action)) => self.action(action),
            Some(p4::table_action::Type::ActionProfileActionSet(set)) => set
                .action_profile_actions
                .iter_mut()
                .filter_map(|action| action.action.as_mut())
                .try_for_each(|action| self.action(action)),
            _ => Ok(()),
        }
    }

    fn action(&self, action: &mut p4::Action) -> Outcome<()> {
        let old = action.action_id;
        action.action_id = self.id(old)?;
        for param in &mut action.params {
            let new = self.params.get(&(action.action_id, param.param_id));
            param.param_id = new.copied().flatten().ok_or_else(|| {
                let name = self.old_names.get(&old).copied().unwrap_or_default();
                not_preserved(&format!("the parameters of {name} have changed"))
            })?;
        }
        action.params.sort_by_key(|param| param.param_id);
        Ok(())
    }
}

fn id_of(preamble: Option<&Preamble>) -> Option<u32> {
    preamble.map(|preamble| preamble.id)
}

/// Everything in P4Info that has an id.
fn preambles(info: &P4Info) -> impl Iterator<Item = &Preamble> {
    let tables = info.tables.iter().map(|o| &o.preamble);
    let actions = info.actions.iter().map(|o| &o.preamble);
    let profiles = info.action_profiles.iter().map(|o| &o.preamble);
    let counters = info.counters.iter().map(|o| &o.preamble);
    let meters = info.meters.iter().map(|o| &o.preamble);
    let registers = info.registers.iter().map(|o| &o.preamble);
    let digests = info.digests.iter().map(|o| &o.preamble);
    let sets = info.value_sets.iter().map(|o| &o.preamble);
    tables
        .chain(actions)
        .chain(profiles)
        .chain(counters)
        .chain(meters)
        .chain(registers)
        .chain(digests)
        .chain(sets)
        .filter_map(Option::as_ref)
}
