//! P4Info bound to the loaded program: from the ids that controllers use to
//! the program's objects and back. Objects are matched by name; whatever does
//! not agree is refused with its name.

mod arrays;
mod bind;
mod digests;

use std::collections::HashMap;
use std::fmt;

use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::v1::action_profile_action_set::SizeSemantics;

use super::data::DataType;
use super::fault::{Fault, Outcome};
use super::packet_header::PacketHeader;
use super::translation::Form;
use crate::{
    ActionId, CounterId, CounterValue, DigestId, MatchKind, MeterId, ProfileId, RegisterId, TableId,
};

/// How P4Info says that a key field is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Lpm => "lpm",
            Self::Ternary => "ternary",
            Self::Range => "range",
            Self::Optional => "optional",
        })
    }
}

impl FieldKind {
    fn in_program(self) -> MatchKind {
        match self {
            Self::Exact => MatchKind::Exact,
            Self::Lpm => MatchKind::Lpm,
            Self::Ternary | Self::Optional => MatchKind::Ternary,
            Self::Range => MatchKind::Range,
        }
    }

    fn needs_priority(self) -> bool {
        matches!(self, Self::Ternary | Self::Range | Self::Optional)
    }
}

/// A key field of a table.
#[derive(Debug)]
pub(super) struct FieldBinding {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) kind: FieldKind,
    pub(super) width: u32,
    pub(super) form: Form,
}

/// An action as one table has it.
#[derive(Debug)]
pub(super) struct ActionBinding {
    pub(super) id: u32,
    pub(super) core: ActionId,
    pub(super) name: String,
    pub(super) scope: Scope,
    /// In the program's order.
    pub(super) params: Vec<ParamBinding>,
}

#[derive(Debug)]
pub(super) struct ParamBinding {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) form: Form,
}

#[derive(Debug)]
pub(super) struct TableBinding {
    pub(super) id: u32,
    pub(super) core: TableId,
    pub(super) name: String,
    /// In the program's order.
    pub(super) fields: Vec<FieldBinding>,
    pub(super) actions: Vec<ActionBinding>,
    pub(super) needs_priority: bool,
    pub(super) is_const: bool,
    /// Whether its default entry is fixed by the program.
    pub(super) const_default: bool,
    pub(super) supports_timeout: bool,
    /// P4Info id of the action profile.
    pub(super) profile: Option<u32>,
    /// The unit of its direct counter, if it has one.
    pub(super) counter: Option<CounterUnit>,
    /// The kind of its direct meter, if it has one.
    pub(super) meter: Option<MeterKind>,
}

impl TableBinding {
    pub(super) fn action(&self, id: u32) -> Outcome<&ActionBinding> {
        self.actions.iter().find(|a| a.id == id).ok_or_else(|| {
            Fault::invalid(format!(
                "table {}: action {id} is not one of its",
                self.name
            ))
        })
    }

    pub(super) fn action_of_core(&self, core: ActionId) -> Option<&ActionBinding> {
        self.actions.iter().find(|a| a.core == core)
    }
}

/// What P4Info says that a counter counts; the data plane counts both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterUnit {
    Bytes,
    Packets,
    Both,
}

impl CounterUnit {
    /// What the counter's cell holds after a write by bmv2's server: the unit
    /// that is not the counter's stays as it was.
    pub(super) fn written(self, new: CounterValue, old: CounterValue) -> CounterValue {
        match self {
            Self::Bytes => CounterValue {
                packets: old.packets,
                ..new
            },
            Self::Packets => CounterValue {
                bytes: old.bytes,
                ..new
            },
            Self::Both => new,
        }
    }
}

#[derive(Debug)]
pub(super) struct CounterBinding {
    pub(super) core: CounterId,
    pub(super) name: String,
    pub(super) size: u32,
    pub(super) unit: CounterUnit,
}

/// How P4Info says that a meter marks. One of two colours is a special case of
/// each of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeterKind {
    /// RFC 2698, three colours.
    TwoRates,
    /// RFC 2697, three colours.
    OneRate,
    /// One rate, two colours.
    TwoColours,
}

/// A meter array.
#[derive(Debug)]
pub(super) struct MeterBinding {
    pub(super) core: MeterId,
    pub(super) name: String,
    pub(super) size: u32,
    pub(super) kind: MeterKind,
}

#[derive(Debug)]
pub(super) struct RegisterBinding {
    pub(super) core: RegisterId,
    pub(super) name: String,
    pub(super) size: u32,
    /// How its values are sent; or why they cannot be.
    pub(super) data: Result<DataType, String>,
}

impl RegisterBinding {
    pub(super) fn data(&self) -> Outcome<&DataType> {
        let name = &self.name;
        self.data
            .as_ref()
            .map_err(|why| Fault::unimplemented(format!("register {name}: {why}")))
    }
}

#[derive(Debug)]
pub(super) struct DigestBinding {
    pub(super) name: String,
    /// How its values are sent; or why they cannot be.
    pub(super) data: Result<DataType, String>,
}

#[derive(Debug)]
pub(super) struct ProfileBinding {
    pub(super) id: u32,
    pub(super) core: ProfileId,
    pub(super) name: String,
    pub(super) with_selector: bool,
    pub(super) max_group_size: i32,
    /// Whether sizes count members instead of weights, and the largest weight.
    pub(super) sum_of_members: Option<i32>,
    /// Whether the selector of the program picks at random by itself.
    pub(super) picks_at_random: bool,
    pub(super) weights_disallowed: bool,
    /// P4Info ids of the tables; all have the same actions.
    pub(super) tables: Vec<u32>,
}

impl ProfileBinding {
    /// What P4Info has sizes of groups count.
    pub(super) fn size_semantics(&self) -> SizeSemantics {
        match self.sum_of_members {
            Some(_) => SizeSemantics::SumOfMembers,
            None => SizeSemantics::SumOfWeights,
        }
    }
}

#[derive(Debug)]
pub(super) struct ValueSetBinding {
    /// Position in the program's list.
    pub(super) core: u32,
    pub(super) name: String,
    pub(super) fields: Vec<FieldBinding>,
}

/// P4Info and program together.
#[derive(Debug, Default)]
pub(super) struct Binding {
    pub(super) tables: HashMap<u32, TableBinding>,
    pub(super) profiles: HashMap<u32, ProfileBinding>,
    pub(super) counters: HashMap<u32, CounterBinding>,
    pub(super) meters: HashMap<u32, MeterBinding>,
    pub(super) registers: HashMap<u32, RegisterBinding>,
    pub(super) digests: HashMap<u32, DigestBinding>,
    pub(super) value_sets: HashMap<u32, ValueSetBinding>,
    pub(super) packet_in: Option<PacketHeader>,
    pub(super) packet_out: Option<PacketHeader>,
    /// Objects of P4Info that the compiler left out of the program because it
    /// never uses them, by id.
    removed: HashMap<u32, String>,
    table_ids: HashMap<TableId, u32>,
    digest_ids: HashMap<DigestId, u32>,
}

impl Binding {
    pub(super) fn table(&self, id: u32) -> Outcome<&TableBinding> {
        self.tables
            .get(&id)
            .ok_or_else(|| self.unknown("table", id))
    }

    pub(super) fn profile(&self, id: u32) -> Outcome<&ProfileBinding> {
        self.profiles
            .get(&id)
            .ok_or_else(|| self.unknown("action profile", id))
    }

    /// A table that the profile implements: it knows the profile's actions.
    pub(super) fn profile_table(&self, profile: &ProfileBinding) -> Outcome<&TableBinding> {
        let mut tables = profile.tables.iter();
        tables
            .find_map(|id| self.tables.get(id))
            .ok_or_else(|| Fault::invalid(format!("{}: no table uses it", profile.name)))
    }

    /// The fault for an id that nothing is bound to.
    pub(super) fn unknown(&self, kind: &str, id: u32) -> Fault {
        match self.removed.get(&id) {
            Some(name) => Fault::not_found(format!(
                "{kind} {name}: P4Info has it, the program has not; compilers leave out \
                 what a program never uses"
            )),
            None => Fault::invalid(format!("P4Info has no {kind} with id {id}")),
        }
    }

    pub(super) fn table_of_core(&self, core: TableId) -> Option<&TableBinding> {
        self.tables.get(self.table_ids.get(&core)?)
    }

    pub(super) fn digest_of_core(&self, core: DigestId) -> Option<(u32, &DigestBinding)> {
        let id = *self.digest_ids.get(&core)?;
        Some((id, self.digests.get(&id)?))
    }
}
