//! What a program is like, as far as differences depend on it.

use std::collections::{BTreeMap, BTreeSet};

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::{
    Action, ActionProfileAction, FieldMatch, ForwardingPipelineConfig, Index, TableEntry,
};

use super::profiles::Profiles;
use super::state::{State, runs_another, taken};
use crate::differential::step::{Outcome, Step};

/// What is special about a program.
#[derive(Debug, Default)]
pub struct Facts {
    /// Tables of P4Info that the compiler left out of the program.
    pub(super) left_out: BTreeSet<u32>,
    /// Tables with a key field to which P4Info gives no width.
    pub(super) without_width: BTreeSet<u32>,
    /// Tables with an exact key field that the program masks.
    pub(super) masked: BTreeSet<u32>,
    /// Tables without key fields.
    pub(super) keyless: BTreeSet<u32>,
    /// The bits of each key field of a table and each parameter of an action.
    pub(super) widths: BTreeMap<(u32, u32), usize>,
    /// The cells of each counter and meter.
    pub(super) cells: BTreeMap<u32, i64>,
    /// The digests of P4Info.
    pub(super) digests: BTreeSet<u32>,
    /// Whether it clones packets or sends them round again.
    pub(super) copies: bool,
    /// Whether it sends them round again.
    pub(super) recirculates: bool,
    /// Whether it uses fields of headers that are not valid.
    pub(super) reads_invalid: bool,
    /// How full the action profiles are.
    pub(super) profiles: Profiles,
    /// The program itself.
    pub(super) program: ForwardingPipelineConfig,
    /// What the steps so far have left.
    pub(super) state: State,
}

/// Programs that use fields of headers that are not valid.
const READ_INVALID: &[&str] = &[
    "gauntlet_invalid_hdr_assign-bmv2",
    "runtime-index-bmv2",
    "runtime-index-2-bmv2",
];

/// Programs that index a stack with a number from the packet.
pub(super) const INDEX_BEYOND: &[&str] = &["runtime-index-bmv2", "runtime-index-2-bmv2"];

/// Programs that assign varbits of headers that may not be valid. bmv2 keeps
/// such a varbit's old number at length 0 with one bit of mask; copied while it
/// is odd, a division by its length ends the process (SIGFPE).
pub(super) const ASSIGN_EMPTY_VARBIT: &[&str] = &["issue447-5-bmv2"];

/// Primitives that make copies, or a packet that comes in again.
const COPYING: &[&str] = &["\"clone_", "\"recirculate", "\"resubmit"];

impl Facts {
    /// Looks at a program: its name, its P4Info and its JSON.
    pub fn of(name: &str, info: &P4Info, json: &[u8]) -> Self {
        let program: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
        let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let tables: Vec<_> = list(&program["pipelines"])
            .iter()
            .flat_map(|pipeline| list(&pipeline["tables"]))
            .collect();
        let text = String::from_utf8_lossy(json);
        let mut facts = Self {
            copies: COPYING.iter().any(|primitive| text.contains(primitive)),
            recirculates: text.contains("\"recirculate"),
            reads_invalid: READ_INVALID.iter().any(|known| name.ends_with(known)),
            ..Self::default()
        };
        facts.sizes(info);
        facts.profiles = Profiles::of(info);
        facts.program = ForwardingPipelineConfig {
            p4info: Some(info.clone()),
            p4_device_config: json.to_vec(),
            cookie: None,
        };
        for table in &info.tables {
            let Some(preamble) = &table.preamble else {
                continue;
            };
            match tables.iter().find(|t| t["name"] == preamble.name.as_str()) {
                None => {
                    facts.left_out.insert(preamble.id);
                }
                Some(found) => {
                    if list(&found["key"]).iter().any(|key| !key["mask"].is_null()) {
                        facts.masked.insert(preamble.id);
                    }
                }
            }
            if table.match_fields.iter().any(|field| field.bitwidth == 0) {
                facts.without_width.insert(preamble.id);
            }
            if table.match_fields.is_empty() {
                facts.keyless.insert(preamble.id);
            }
        }
        facts
    }

    /// Whether a configuration is that of the program.
    pub(super) fn is_whole(&self, config: &ForwardingPipelineConfig) -> bool {
        let own = &self.program;
        config.p4info == own.p4info && config.p4_device_config == own.p4_device_config
    }

    /// Notes what came of a step.
    pub fn observe(&mut self, step: &Step, ours: &Outcome, theirs: &Outcome) {
        self.state.observe(step, ours, theirs);
        if runs_another(step) && ours.status.as_deref() == Some("OK") {
            self.profiles.clear();
        }
        for update in taken(step, ours) {
            self.profiles.written(update);
        }
    }

    /// Notes how large things are.
    fn sizes(&mut self, info: &P4Info) {
        let id = crate::differential::generate::id;
        let bits = |bitwidth: i32| usize::try_from(bitwidth).unwrap_or(0);
        for table in &info.tables {
            for field in &table.match_fields {
                let key = (id(table.preamble.as_ref()), field.id);
                self.widths.insert(key, bits(field.bitwidth));
            }
        }
        for action in &info.actions {
            for param in &action.params {
                let key = (id(action.preamble.as_ref()), param.id);
                self.widths.insert(key, bits(param.bitwidth));
            }
        }
        let digests = info.digests.iter().map(|d| id(d.preamble.as_ref()));
        self.digests.extend(digests);
        let counters = info.counters.iter().map(|c| (c.preamble.as_ref(), c.size));
        let meters = info.meters.iter().map(|m| (m.preamble.as_ref(), m.size));
        let cells = counters.chain(meters).map(|(p, size)| (id(p), size));
        self.cells.extend(cells);
    }

    /// Whether a key field or a parameter has more bits than it may have.
    pub(super) fn is_too_wide(&self, entry: &TableEntry) -> bool {
        let wide = |owner: u32, id: u32, value: &[u8]| {
            let bits = self.widths.get(&(owner, id)).copied().unwrap_or(usize::MAX);
            let mut significant = value.iter().skip_while(|byte| **byte == 0);
            let first = significant
                .next()
                .map_or(0, |byte| 8 - byte.leading_zeros());
            usize::try_from(first).unwrap_or(0) + 8 * significant.count() > bits
        };
        let key = entry
            .r#match
            .iter()
            .any(|field| values(field).any(|value| wide(entry.table_id, field.field_id, value)));
        let mut params = calls(entry).flat_map(|action| {
            let params = action.params.iter();
            params.map(move |param| (action.action_id, param))
        });
        key || params.any(|(action, param)| wide(action, param.param_id, &param.value))
    }

    /// Whether a counter or meter has no such cell.
    pub(super) fn is_beyond(&self, id: u32, index: Option<&Index>) -> bool {
        let cells = self.cells.get(&id).copied().unwrap_or(i64::MAX);
        index.is_some_and(|index| index.index >= cells)
    }
}

/// The numbers in a match.
fn values(field: &FieldMatch) -> impl Iterator<Item = &[u8]> {
    let (a, b): (&[u8], &[u8]) = match &field.field_match_type {
        Some(FieldMatchType::Exact(m)) => (&m.value, &[]),
        Some(FieldMatchType::Lpm(m)) => (&m.value, &[]),
        Some(FieldMatchType::Optional(m)) => (&m.value, &[]),
        Some(FieldMatchType::Ternary(m)) => (&m.value, &m.mask),
        Some(FieldMatchType::Range(m)) => (&m.low, &m.high),
        _ => (&[], &[]),
    };
    [a, b].into_iter()
}

/// The actions that an entry calls.
fn calls(entry: &TableEntry) -> impl Iterator<Item = &Action> {
    let kind = entry.action.as_ref().and_then(|a| a.r#type.as_ref());
    let (one, set): (_, &[ActionProfileAction]) = match kind {
        Some(ActionType::Action(action)) => (Some(action), &[]),
        Some(ActionType::ActionProfileActionSet(set)) => (None, &set.action_profile_actions),
        _ => (None, &[]),
    };
    one.into_iter()
        .chain(set.iter().filter_map(|a| a.action.as_ref()))
}
