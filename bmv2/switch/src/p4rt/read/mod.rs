//! Read: queries, with wildcards, answered in chunks.

mod direct;

use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;

use super::Mode;
use super::binding::{Binding, ProfileBinding, TableBinding};
use super::entry;
use super::fault::{Fault, Outcome};
use super::target::Target;
use crate::{
    CounterTarget, EntryAction, EntryState, MeterTarget, ReadCursor, TableError, TableId, Timestamp,
};

/// Entries taken from a table at once.
const SLICE: usize = 256;

/// Where answers go, one at a time.
pub(super) trait Answers {
    /// What the next piece of the answer is read from. Between pieces writes may
    /// be let in.
    ///
    /// # Errors
    /// If nobody waits for the answer any more, or it can't go on.
    fn next_piece(&mut self) -> Outcome<Target>;

    /// Takes an entity.
    ///
    /// # Errors
    /// If nobody waits for it any more.
    fn entity(&mut self, entity: Entity) -> Outcome<()>;
}

/// Answers one query. All entities of a piece are of one state.
pub(super) fn answer(
    now: Timestamp,
    query: &p4::Entity,
    answers: &mut impl Answers,
) -> Outcome<()> {
    let query = query
        .entity
        .as_ref()
        .ok_or_else(|| Fault::invalid("the query has no entity"))?;
    let target = answers.next_piece()?;
    let pipeline = Arc::clone(&target.pipeline);
    let mut reader = Reader {
        target,
        binding: &pipeline.binding,
        now,
        answers,
    };
    match query {
        Entity::TableEntry(entry) => reader.table_entries(entry),
        Entity::CounterEntry(counter) => reader.counters(counter),
        Entity::DirectCounterEntry(counter) => reader.direct_counters(counter),
        Entity::MeterEntry(meter) => reader.meters(meter),
        Entity::DirectMeterEntry(meter) => reader.direct_meters(meter),
        Entity::RegisterEntry(register) => reader.registers(register),
        Entity::ActionProfileMember(member) => reader.members(member),
        Entity::ActionProfileGroup(group) => reader.groups(group),
        Entity::PacketReplicationEngineEntry(query) => reader.replication(query),
        Entity::DigestEntry(digest) => reader.digests(digest),
        Entity::ValueSetEntry(set) => reader.value_sets(set),
        // A wildcard over all externs: there are none.
        Entity::ExternEntry(query) if query.extern_type_id == 0 => Ok(()),
        Entity::ExternEntry(_) => Err(Fault::unimplemented(
            "v1model has no externs that are accessed as ExternEntry",
        )),
    }
}

struct Reader<'t, 'a, A> {
    /// What the piece at hand is read from.
    target: Target,
    binding: &'t Binding,
    now: Timestamp,
    answers: &'a mut A,
}

impl<'t, A: Answers> Reader<'t, '_, A> {
    fn next_piece(&mut self) -> Outcome<()> {
        self.target = self.answers.next_piece()?;
        Ok(())
    }

    /// All entries of a table, piece by piece.
    fn each_entry(
        &mut self,
        table: TableId,
        mut take: impl FnMut(&Target, &mut A, EntryState) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut cursor = Some(ReadCursor::default());
        while let Some(from) = cursor {
            self.next_piece()?;
            let switch = &self.target.switch;
            let (states, next) = switch.read_entries(table, from, SLICE, self.now)?;
            for state in states {
                take(&self.target, self.answers, state)?;
            }
            cursor = next;
        }
        Ok(())
    }

    /// The cells of an array that a query asks for, piece by piece.
    fn each_cell(
        &mut self,
        index: Option<u32>,
        size: u32,
        mut take: impl FnMut(&Target, &mut A, u32) -> Outcome<()>,
    ) -> Outcome<()> {
        let cells = match index {
            Some(index) => index..index.saturating_add(1),
            None => 0..size,
        };
        for cell in cells {
            if (cell as usize).is_multiple_of(SLICE) {
                self.next_piece()?;
            }
            take(&self.target, self.answers, cell)?;
        }
        Ok(())
    }

    fn table_entries(&mut self, query: &p4::TableEntry) -> Outcome<()> {
        if query.table_id == 0 {
            for table in self.tables() {
                self.entries_of(table, query)?;
            }
            return Ok(());
        }
        let binding = self.binding;
        let table = binding.table(query.table_id)?;
        if query.time_since_last_hit.is_some() && !table.supports_timeout {
            return Err(Fault::invalid(format!(
                "table {}: it does not support idle timeouts",
                table.name
            )));
        }
        if query.is_default_action {
            self.check_default(table, query)?;
        }
        if !query.r#match.is_empty() {
            let key = entry::decode_key(table, query)?;
            return match self.target.switch.get_entry(table.core, &key, self.now) {
                Ok(state) => emit_entry(&self.target, self.answers, table, query, state),
                // bmv2's server answers that there is nothing.
                Err(TableError::NotFound { .. }) if self.target.mode == Mode::Compat => Ok(()),
                Err(error) => Err(error.into()),
            };
        }
        self.entries_of(table, query)
    }

    /// Checks a query for the default entry of one table. bmv2's server does not
    /// heed a priority.
    fn check_default(&self, table: &TableBinding, query: &p4::TableEntry) -> Outcome<()> {
        if query.time_since_last_hit.is_some() {
            return Err(Fault::invalid(format!(
                "table {}: the default entry has no time_since_last_hit",
                table.name
            )));
        }
        if self.target.mode == Mode::Compat && query.r#match.is_empty() {
            return Ok(());
        }
        entry::check_default(table, query)
    }

    /// All tables, by id, so that the order of answers is stable.
    fn tables(&self) -> Vec<&'t TableBinding> {
        let binding = self.binding;
        let mut tables: Vec<_> = binding.tables.values().collect();
        tables.sort_by_key(|table| table.id);
        tables
    }

    fn entries_of(&mut self, table: &TableBinding, query: &p4::TableEntry) -> Outcome<()> {
        if query.is_default_action {
            return self.default_entry(table, query);
        }
        self.each_entry(table.core, |target, answers, state| {
            emit_entry(target, answers, table, query, state)
        })
    }

    fn default_entry(&mut self, table: &TableBinding, query: &p4::TableEntry) -> Outcome<()> {
        self.next_piece()?;
        let state = self.target.switch.default_entry(table.core)?;
        let action = state.action;
        // bmv2's server has an entry for it nevertheless.
        if action.is_none() && self.target.mode == Mode::Strict {
            return Ok(());
        }
        let marks = self.target.default_marks.get(&table.id);
        let marks = marks.cloned().unwrap_or_default();
        let entry = p4::TableEntry {
            table_id: table.id,
            action: action.and_then(|action| encode_table_action(&self.target, table, &action)),
            is_default_action: true,
            counter_data: query
                .counter_data
                .and(state.counter)
                .map(entry::encode_counter),
            meter_config: query.meter_config.and(state.meter).map(entry::encode_meter),
            meter_counter_data: query
                .meter_counter_data
                .and(state.colours.as_ref())
                .map(entry::encode_colours),
            controller_metadata: marks.cookie,
            metadata: marks.metadata,
            is_const: table.const_default,
            ..p4::TableEntry::default()
        };
        if matches_filters(query, &entry) {
            self.answers.entity(Entity::TableEntry(entry))?;
        }
        Ok(())
    }

    fn counters(&mut self, query: &p4::CounterEntry) -> Outcome<()> {
        let binding = self.binding;
        for (id, bound) in select(binding, &binding.counters, "counter", query.counter_id)? {
            let wanted = (query.counter_id != 0).then_some(query.index.as_ref());
            let index = entry::decode_index(&bound.name, wanted.flatten(), bound.size)?;
            self.each_cell(index, bound.size, |target, answers, cell| {
                let counter = CounterTarget::Indexed {
                    counter: bound.core,
                    index: Some(cell),
                };
                let value = target.switch.read_counter(&counter)?;
                answers.entity(Entity::CounterEntry(p4::CounterEntry {
                    counter_id: id,
                    index: Some(index_of(cell)),
                    data: value.first().copied().map(entry::encode_counter),
                }))
            })?;
        }
        Ok(())
    }

    fn meters(&mut self, query: &p4::MeterEntry) -> Outcome<()> {
        let binding = self.binding;
        for (id, bound) in select(binding, &binding.meters, "meter", query.meter_id)? {
            let wanted = (query.meter_id != 0).then_some(query.index.as_ref());
            let index = entry::decode_index(&bound.name, wanted.flatten(), bound.size)?;
            self.each_cell(index, bound.size, |target, answers, cell| {
                let meter = MeterTarget::Indexed {
                    meter: bound.core,
                    index: Some(cell),
                };
                let config = target.switch.read_meter(&meter)?.into_iter().next();
                let counts = match query.counter_data {
                    Some(_) => target.switch.read_colours(&meter)?,
                    None => Vec::new(),
                };
                answers.entity(Entity::MeterEntry(p4::MeterEntry {
                    meter_id: id,
                    index: Some(index_of(cell)),
                    config: config.flatten().map(entry::encode_meter),
                    counter_data: counts.first().map(entry::encode_colours),
                }))
            })?;
        }
        Ok(())
    }

    fn registers(&mut self, query: &p4::RegisterEntry) -> Outcome<()> {
        let binding = self.binding;
        for (id, bound) in select(binding, &binding.registers, "register", query.register_id)? {
            let wanted = (query.register_id != 0).then_some(query.index.as_ref());
            let index = entry::decode_index(&bound.name, wanted.flatten(), bound.size)?;
            let data = match bound.data() {
                Ok(data) => data,
                Err(_) if query.register_id == 0 => continue,
                Err(fault) => return Err(fault),
            };
            self.each_cell(index, bound.size, |target, answers, cell| {
                let value = target.switch.read_register(bound.core, Some(cell))?;
                let data = value
                    .first()
                    .map(|value| data.encode(&mut std::iter::once(value.into())));
                answers.entity(Entity::RegisterEntry(p4::RegisterEntry {
                    register_id: id,
                    index: Some(index_of(cell)),
                    data,
                }))
            })?;
        }
        Ok(())
    }

    /// Multicast groups and clone sessions: each may be long, so each is a piece.
    fn replication(&mut self, query: &p4::PacketReplicationEngineEntry) -> Outcome<()> {
        let mut after = None;
        while let Some((id, entry)) = self.target.replication.next(query, after)? {
            self.answers
                .entity(Entity::PacketReplicationEngineEntry(entry))?;
            after = Some(id);
            self.next_piece()?;
        }
        Ok(())
    }

    fn members(&mut self, query: &p4::ActionProfileMember) -> Outcome<()> {
        let binding = self.binding;
        let id = query.action_profile_id;
        for (id, profile) in select(binding, &binding.profiles, "action profile", id)? {
            self.next_piece()?;
            self.check_manual(profile)?;
            let table = binding.profile_table(profile)?;
            let mut found = false;
            let switch = &self.target.switch;
            let members = match query.member_id {
                // Those of action sets are not the controller's.
                _ if self.target.profiles.is_one_shot(profile) => Vec::new(),
                0 => switch.members(profile.core)?,
                one => switch.member(profile.core, one)?.into_iter().collect(),
            };
            for member in members {
                found = true;
                let action = table
                    .action_of_core(member.call.action)
                    .map(|bound| entry::encode_action(bound, &member.call));
                self.answers
                    .entity(Entity::ActionProfileMember(p4::ActionProfileMember {
                        action_profile_id: id,
                        member_id: member.id,
                        action,
                    }))?;
            }
            let one = query.action_profile_id != 0 && query.member_id != 0;
            if one && !found && self.target.mode == Mode::Strict {
                return Err(Fault::not_found(format!(
                    "{}: there is no member {}",
                    profile.name, query.member_id
                )));
            }
        }
        Ok(())
    }

    /// bmv2's server has no members and groups to read while action sets are
    /// in use. The specification has none either, but no error.
    fn check_manual(&self, profile: &ProfileBinding) -> Outcome<()> {
        match self.target.mode {
            Mode::Compat => self.target.profiles.check_manual(profile),
            Mode::Strict => Ok(()),
        }
    }

    fn groups(&mut self, query: &p4::ActionProfileGroup) -> Outcome<()> {
        let binding = self.binding;
        let id = query.action_profile_id;
        for (id, profile) in select(binding, &binding.profiles, "action profile", id)? {
            self.check_manual(profile)?;
            let mut found = false;
            let wanted = (query.group_id != 0).then_some(query.group_id);
            for group in self.target.profiles.groups(id, wanted) {
                found = true;
                let group = Arc::unwrap_or_clone(group);
                self.answers.entity(Entity::ActionProfileGroup(group))?;
            }
            let one = query.action_profile_id != 0 && query.group_id != 0;
            if one && !found && self.target.mode == Mode::Strict {
                return Err(Fault::not_found(format!(
                    "{}: there is no group {}",
                    profile.name, query.group_id
                )));
            }
        }
        Ok(())
    }

    fn value_sets(&mut self, query: &p4::ValueSetEntry) -> Outcome<()> {
        let binding = self.binding;
        let id = query.value_set_id;
        for (value_set_id, _) in select(binding, &binding.value_sets, "value set", id)? {
            let written = self.target.value_sets.get(&value_set_id).cloned();
            let set = written.unwrap_or_else(|| p4::ValueSetEntry {
                value_set_id,
                members: Vec::new(),
            });
            self.answers.entity(Entity::ValueSetEntry(set))?;
        }
        Ok(())
    }

    fn digests(&mut self, query: &p4::DigestEntry) -> Outcome<()> {
        let mut ids: Vec<_> = self.target.digests.keys().copied().collect();
        ids.sort_unstable();
        if query.digest_id != 0 {
            if !self.binding.digests.contains_key(&query.digest_id) {
                return Err(self.binding.unknown("digest", query.digest_id));
            }
            ids.retain(|id| *id == query.digest_id);
            if ids.is_empty() {
                return Err(Fault::not_found(format!(
                    "digest {} is not switched on",
                    query.digest_id
                )));
            }
        }
        for digest_id in ids {
            let config = self.target.digests.get(&digest_id).map(|on| on.config);
            self.answers
                .entity(Entity::DigestEntry(p4::DigestEntry { digest_id, config }))?;
        }
        Ok(())
    }
}

/// All entries of a table, slice by slice.
pub(super) fn each_entry(
    target: &Target,
    table: TableId,
    now: Timestamp,
    mut take: impl FnMut(EntryState) -> Outcome<()>,
) -> Outcome<()> {
    let mut cursor = Some(ReadCursor::default());
    while let Some(from) = cursor {
        let (states, next) = target.switch.read_entries(table, from, SLICE, now)?;
        for state in states {
            take(state)?;
        }
        cursor = next;
    }
    Ok(())
}

fn index_of(cell: u32) -> p4::Index {
    p4::Index { index: cell.into() }
}

fn emit_entry(
    target: &Target,
    answers: &mut impl Answers,
    table: &TableBinding,
    query: &p4::TableEntry,
    state: EntryState,
) -> Outcome<()> {
    // Cheap filters before anything is encoded; table id 0 allows none.
    if query.table_id != 0 && query.priority != 0 && query.priority != state.entry.key.priority {
        return Ok(());
    }
    let entry = encode_entry(target, table, query, state);
    if matches_filters(query, &entry) {
        answers.entity(Entity::TableEntry(entry))?;
    }
    Ok(())
}

/// An entry as the query wants it: direct resources only where asked for.
pub(super) fn encode_entry(
    target: &Target,
    table: &TableBinding,
    query: &p4::TableEntry,
    state: EntryState,
) -> p4::TableEntry {
    let nanos = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let counter = query.counter_data.as_ref().and(state.counter);
    let meter = query.meter_config.as_ref().and(state.meter);
    let colours = query
        .meter_counter_data
        .as_ref()
        .and(state.colours.as_ref());
    let since = query
        .time_since_last_hit
        .as_ref()
        .and(state.since_last_hit_ns);
    p4::TableEntry {
        table_id: table.id,
        r#match: entry::encode_match(table, &state.entry.key),
        action: encode_table_action(target, table, &state.entry.action),
        priority: state.entry.key.priority,
        controller_metadata: state.entry.cookie,
        meter_config: meter.map(entry::encode_meter),
        counter_data: counter.map(entry::encode_counter),
        meter_counter_data: colours.map(entry::encode_colours),
        is_default_action: false,
        idle_timeout_ns: nanos(state.entry.idle_timeout_ns),
        time_since_last_hit: since.map(|ns| p4::table_entry::IdleTimeout {
            elapsed_ns: nanos(ns),
        }),
        metadata: state.entry.metadata,
        is_const: table.is_const,
    }
}

fn encode_table_action(
    target: &Target,
    table: &TableBinding,
    action: &EntryAction,
) -> Option<p4::TableAction> {
    use p4::table_action::Type;
    let action = match action {
        EntryAction::Call(call) => {
            let bound = table.action_of_core(call.action)?;
            Type::Action(entry::encode_action(bound, call))
        }
        EntryAction::Member(id) => Type::ActionProfileMemberId(*id),
        EntryAction::Group(id) => {
            let profile = table.profile.unwrap_or_default();
            match target.profiles.one_shot(profile, *id) {
                Some(set) => Type::ActionProfileActionSet(set.clone()),
                None => Type::ActionProfileGroupId(*id),
            }
        }
    };
    Some(p4::TableAction {
        r#type: Some(action),
    })
}

/// The filters that a query may set beside the key (specification, "Wildcard
/// Reads"); with table id 0 there are none.
fn matches_filters(query: &p4::TableEntry, entry: &p4::TableEntry) -> bool {
    use p4::table_action::Type;
    if query.table_id == 0 {
        return true;
    }
    let action_id = |entry: &p4::TableEntry| match entry.action.as_ref()?.r#type.as_ref()? {
        Type::Action(action) => Some(action.action_id),
        _ => None,
    };
    (query.controller_metadata == 0 || query.controller_metadata == entry.controller_metadata)
        && (query.metadata.is_empty() || query.metadata == entry.metadata)
        && action_id(query).is_none_or(|id| id == 0 || action_id(entry) == Some(id))
}

/// The object with this id, or all of them, by id, for 0.
fn select<'m, T>(
    binding: &Binding,
    map: &'m std::collections::HashMap<u32, T>,
    what: &str,
    id: u32,
) -> Outcome<Vec<(u32, &'m T)>> {
    if id != 0 {
        let found = map.get(&id).ok_or_else(|| binding.unknown(what, id))?;
        return Ok(vec![(id, found)]);
    }
    let mut all: Vec<_> = map.iter().map(|(id, value)| (*id, value)).collect();
    all.sort_by_key(|(id, _)| *id);
    Ok(all)
}
