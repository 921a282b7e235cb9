//! Direct counters and meters, read by themselves.

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;

use super::{Answers, Reader};
use crate::p4rt::binding::TableBinding;
use crate::p4rt::entry;
use crate::p4rt::fault::{Fault, Outcome};
use crate::p4rt::write::direct_table;
use crate::{ColourCounts, CounterValue, DefaultState, EntryState, MeterConfig};

impl<A: Answers> Reader<'_, '_, A> {
    /// The entries that a query on direct counters or meters means. The default
    /// entry is read only if it is asked for, as with table entries.
    fn direct(
        &mut self,
        query: Option<&p4::TableEntry>,
        has: impl Fn(&TableBinding) -> bool,
        what: &str,
        encode: impl Fn(p4::TableEntry, Direct) -> Entity,
    ) -> Outcome<()> {
        let is_default = query.is_some_and(|query| query.is_default_action);
        if query.is_none_or(|query| query.table_id == 0) {
            for table in self.tables() {
                if has(table) && is_default {
                    self.direct_default(table, &encode)?;
                } else if has(table) {
                    self.direct_entries(table, 0, &encode)?;
                }
            }
            return Ok(());
        }
        let (table, query) = direct_table(self.binding, query)?;
        if !has(table) {
            return Err(Fault::invalid(format!(
                "table {}: it has no {what}",
                table.name
            )));
        }
        if is_default {
            entry::check_default(table, query)?;
            return self.direct_default(table, &encode);
        }
        if query.r#match.is_empty() {
            return self.direct_entries(table, query.priority, &encode);
        }
        let key = entry::decode_key(table, query)?;
        let state = self.target.switch.get_entry(table.core, &key, self.now)?;
        let named = key_of(table, &state);
        self.answers.entity(encode(named, state.into()))
    }

    /// The direct resources of all entries of a table, of one priority if it is
    /// not 0.
    fn direct_entries(
        &mut self,
        table: &TableBinding,
        priority: i32,
        encode: &impl Fn(p4::TableEntry, Direct) -> Entity,
    ) -> Outcome<()> {
        self.each_entry(table.core, |_, answers, state| {
            if priority != 0 && priority != state.entry.key.priority {
                return Ok(());
            }
            let named = key_of(table, &state);
            answers.entity(encode(named, state.into()))
        })
    }

    fn direct_default(
        &mut self,
        table: &TableBinding,
        encode: &impl Fn(p4::TableEntry, Direct) -> Entity,
    ) -> Outcome<()> {
        self.next_piece()?;
        let state = self.target.switch.default_entry(table.core)?;
        let named = p4::TableEntry {
            table_id: table.id,
            is_default_action: true,
            ..p4::TableEntry::default()
        };
        self.answers.entity(encode(named, state.into()))
    }

    pub(super) fn direct_counters(&mut self, query: &p4::DirectCounterEntry) -> Outcome<()> {
        self.direct(
            query.table_entry.as_ref(),
            |table| table.counter.is_some(),
            "direct counter",
            |named, direct| {
                Entity::DirectCounterEntry(p4::DirectCounterEntry {
                    table_entry: Some(named),
                    data: Some(entry::encode_counter(direct.counter.unwrap_or_default())),
                })
            },
        )
    }

    pub(super) fn direct_meters(&mut self, query: &p4::DirectMeterEntry) -> Outcome<()> {
        self.direct(
            query.table_entry.as_ref(),
            |table| table.meter.is_some(),
            "direct meter",
            |named, direct| {
                Entity::DirectMeterEntry(p4::DirectMeterEntry {
                    table_entry: Some(named),
                    config: direct.meter.map(entry::encode_meter),
                    counter_data: query
                        .counter_data
                        .and(direct.colours.as_ref())
                        .map(entry::encode_colours),
                })
            },
        )
    }
}

/// The direct resources of an entry.
struct Direct {
    counter: Option<CounterValue>,
    meter: Option<MeterConfig>,
    colours: Option<ColourCounts>,
}

impl From<EntryState> for Direct {
    fn from(state: EntryState) -> Self {
        Self {
            counter: state.counter,
            meter: state.meter,
            colours: state.colours,
        }
    }
}

impl From<DefaultState> for Direct {
    fn from(state: DefaultState) -> Self {
        Self {
            counter: state.counter,
            meter: state.meter,
            colours: state.colours,
        }
    }
}

/// An entry that names the one that a direct resource belongs to.
fn key_of(table: &TableBinding, state: &EntryState) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table.id,
        r#match: entry::encode_match(table, &state.entry.key),
        priority: state.entry.key.priority,
        ..p4::TableEntry::default()
    }
}
