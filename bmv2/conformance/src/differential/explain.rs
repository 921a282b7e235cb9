//! The differences that are meant. Each has an id; what it is about stands in
//! `docs/softswitch-differences.md`.

use std::collections::{BTreeMap, BTreeSet};

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use p4runtime_proto::p4::v1::{Action, ActionProfileAction, FieldMatch, Index, TableEntry, Update};

use super::side::Kind;
use super::step::{Outcome, Step};

/// A known difference.
pub struct Known {
    /// Its id in the documentation.
    pub id: &'static str,
    /// What may differ; it explains nothing when something else does, too.
    about: &'static [Aspect],
    applies: fn(&Seen<'_>) -> bool,
}

/// In what two outcomes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aspect {
    /// The status of a call; a read that fails has no entities to compare.
    Status,
    /// The entities of a read that both answer alike.
    Entities,
    /// What left: frames, and messages to the controller.
    Output,
}

/// All in which two outcomes differ.
fn aspects(ours: &Outcome, theirs: &Outcome) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    if ours.status != theirs.status {
        aspects.push(Aspect::Status);
    } else if ours.entities != theirs.entities {
        aspects.push(Aspect::Entities);
    }
    if ours.frames != theirs.frames || ours.messages != theirs.messages {
        aspects.push(Aspect::Output);
    }
    aspects
}

/// What is special about a program.
#[derive(Debug, Default)]
pub struct Facts {
    /// Tables of P4Info that the compiler left out of the program.
    left_out: BTreeSet<u32>,
    /// Tables with a key field to which P4Info gives no width.
    without_width: BTreeSet<u32>,
    /// Tables with an exact key field that the program masks.
    masked: BTreeSet<u32>,
    /// Tables without key fields.
    keyless: BTreeSet<u32>,
    /// The bits of each key field of a table and each parameter of an action.
    widths: BTreeMap<(u32, u32), usize>,
    /// The cells of each counter and meter.
    cells: BTreeMap<u32, i64>,
    /// Whether it clones packets or sends them round again.
    copies: bool,
    /// Whether it uses fields of headers that are not valid.
    reads_invalid: bool,
}

/// Programs that use fields of headers that are not valid.
const READ_INVALID: &[&str] = &[
    "gauntlet_invalid_hdr_assign-bmv2",
    "runtime-index-bmv2",
    "runtime-index-2-bmv2",
];

/// Programs that index a stack with a number from the packet.
const INDEX_BEYOND: &[&str] = &["runtime-index-bmv2", "runtime-index-2-bmv2"];

/// Programs that assign varbits of headers that may not be valid. bmv2 keeps
/// such a varbit's old number at length 0 with one bit of mask; copied while it
/// is odd, a division by its length ends the process (SIGFPE).
const ASSIGN_EMPTY_VARBIT: &[&str] = &["issue447-5-bmv2"];

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
            reads_invalid: READ_INVALID.iter().any(|known| name.ends_with(known)),
            ..Self::default()
        };
        facts.sizes(info);
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

    /// Notes how large things are.
    fn sizes(&mut self, info: &P4Info) {
        let id = super::generate::id;
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
        let counters = info.counters.iter().map(|c| (c.preamble.as_ref(), c.size));
        let meters = info.meters.iter().map(|m| (m.preamble.as_ref(), m.size));
        let cells = counters.chain(meters).map(|(p, size)| (id(p), size));
        self.cells.extend(cells);
    }

    /// Whether a key field or a parameter has more bits than it may have.
    fn is_too_wide(&self, entry: &TableEntry) -> bool {
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
    fn is_beyond(&self, id: u32, index: Option<&Index>) -> bool {
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

/// What a difference is judged by.
struct Seen<'a> {
    facts: &'a Facts,
    step: &'a Step,
    /// The status of each update, ours and theirs; of the call if there are
    /// none.
    statuses: Vec<(String, String)>,
    ours: &'a Outcome,
    theirs: &'a Outcome,
}

/// How an entry of the program is marked.
const CONSTANT: &str = "is_const: true";

/// The id for an end of bmv2's process.
const CRASH: &str = "bmv2-crash";

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        id: "negative-priority",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("INVALID_ARGUMENT", &["OK", "UNKNOWN", "ALREADY_EXISTS"])
                && seen.only_entries(|entry| entry.priority < 0)
        },
    },
    Known {
        id: "empty-value",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing(
                "OUT_OF_RANGE",
                &["OK", "ALREADY_EXISTS", "INVALID_ARGUMENT"],
            ) && seen.only_entries(has_empty_value)
        },
    },
    Known {
        id: "value-too-wide",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("OUT_OF_RANGE", &["INVALID_ARGUMENT"])
                && seen.only_entries(|entry| seen.facts.is_too_wide(entry))
        },
    },
    Known {
        id: "index-out-of-range",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("OUT_OF_RANGE", &["UNKNOWN"])
                && seen.entities().all(|entity| match entity {
                    Entity::CounterEntry(c) => seen.facts.is_beyond(c.counter_id, c.index.as_ref()),
                    Entity::MeterEntry(m) => seen.facts.is_beyond(m.meter_id, m.index.as_ref()),
                    _ => false,
                })
        },
    },
    Known {
        id: "register-access",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("OK", &["UNIMPLEMENTED"])
                && seen
                    .entities()
                    .all(|e| matches!(e, Entity::RegisterEntry(_)))
        },
    },
    Known {
        id: "clone-session-truncation",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("OK", &["UNKNOWN"])
                && seen.entities().all(|entity| {
                    matches!(entity, Entity::PacketReplicationEngineEntry(entry)
                        if matches!(&entry.r#type, Some(Type::CloneSessionEntry(session))
                            if session.packet_length_bytes != 0))
                })
        },
    },
    Known {
        id: "entry-without-key",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("INVALID_ARGUMENT", &["UNKNOWN", "NOT_FOUND"])
                && seen.only_entries(|entry| {
                    seen.facts.keyless.contains(&entry.table_id) && !entry.is_default_action
                })
        },
    },
    Known {
        id: "const-entries-marked",
        about: &[Aspect::Entities],
        applies: |seen| {
            let unmarked = |e: &String| e.replace(CONSTANT, "is_const: false");
            let mut ours: Vec<String> = seen.ours.entities.iter().map(unmarked).collect();
            ours.sort();
            ours == seen.theirs.entities
        },
    },
    Known {
        id: "unaligned-full-range",
        about: &[Aspect::Entities],
        applies: |seen| {
            let bare = seen.theirs.entities.iter().map(|e| without_full(e));
            let mut theirs: Vec<String> = bare.collect();
            theirs.sort();
            seen.ours.entities == theirs
        },
    },
    Known {
        id: "order-of-copies",
        about: &[Aspect::Output],
        applies: |seen| {
            let sorted = |outcome: &Outcome| {
                let mut frames = outcome.frames.clone();
                frames.values_mut().for_each(|list| list.sort());
                frames
            };
            // Two frames come from one place, and in one order.
            let many = seen.ours.frames.values().map(Vec::len).sum::<usize>() > 2;
            seen.facts.copies
                && (many || matches!(seen.step, Step::Burst { .. }))
                && sorted(seen.ours) == sorted(seen.theirs)
                && seen.ours.messages == seen.theirs.messages
        },
    },
    Known {
        id: "const-entries-numbered",
        about: &[Aspect::Entities],
        applies: |seen| {
            let (constant, ours): (Vec<_>, Vec<_>) = seen
                .ours
                .entities
                .iter()
                .partition(|e| e.contains(CONSTANT));
            // All others are the same.
            let mut rest = seen.theirs.entities.clone();
            let others = ours.iter().all(|e| {
                let at = rest.iter().position(|theirs| theirs == *e);
                at.map(|at| rest.remove(at)).is_some()
            });
            let bare = |entities: &mut dyn Iterator<Item = &String>| {
                let mut all: Vec<String> = entities.map(|e| without_numbers(e)).collect();
                all.sort();
                all
            };
            others && bare(&mut constant.into_iter()) == bare(&mut rest.iter())
        },
    },
    Known {
        id: "one-shot-into-full-table",
        about: &[Aspect::Status],
        applies: |seen| seen.differing("UNKNOWN", &["INTERNAL"]) && seen.only_entries(is_one_shot),
    },
    Known {
        id: "profile-full",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("RESOURCE_EXHAUSTED", &["OK", "UNKNOWN", "INTERNAL"])
                && seen.entities().all(|entity| match entity {
                    Entity::TableEntry(entry) => is_one_shot(entry),
                    other => matches!(other, Entity::ActionProfileMember(_)),
                })
        },
    },
    Known {
        id: "table-left-out",
        about: &[Aspect::Status],
        applies: |seen| {
            let left_out = &seen.facts.left_out;
            let concerned = seen.entries().any(|entry| match entry.table_id {
                0 => !left_out.is_empty(),
                id => left_out.contains(&id),
            });
            concerned
                && (seen.differing("OK", &["UNKNOWN"]) || seen.differing("NOT_FOUND", &["UNKNOWN"]))
        },
    },
    Known {
        id: "key-without-width",
        about: &[Aspect::Status, Aspect::Entities],
        applies: |seen| {
            let tables = &seen.facts.without_width;
            let concerned = seen.entries().any(|entry| match entry.table_id {
                0 => !tables.is_empty(),
                id => tables.contains(&id),
            });
            let more = seen.ours.entities.len() > seen.theirs.entities.len()
                && is_part(&seen.theirs.entities, &seen.ours.entities);
            concerned
                && (seen.differing("OK", &["UNKNOWN", "NOT_FOUND"])
                    || seen.differing("OUT_OF_RANGE", &["UNKNOWN"])
                    || more)
        },
    },
    Known {
        id: "masked-exact-key",
        about: &[Aspect::Status],
        applies: |seen| {
            let masked = &seen.facts.masked;
            let concerned = seen.entries().any(|entry| match entry.table_id {
                0 => !masked.is_empty(),
                id => masked.contains(&id),
            });
            concerned && seen.differing("OK", &["INTERNAL", "NOT_FOUND"])
        },
    },
    Known {
        id: "invalid-header",
        about: &[Aspect::Output],
        applies: |seen| {
            // The same frames at the same ports, but for their content.
            let shape = |outcome: &Outcome| {
                let ports = outcome.frames.iter();
                let lengths = ports.map(|(port, frames)| {
                    (*port, frames.iter().map(String::len).collect::<Vec<_>>())
                });
                lengths.collect::<Vec<_>>()
            };
            seen.facts.reads_invalid
                && matches!(seen.step, Step::Packet { .. })
                && shape(seen.ours) == shape(seen.theirs)
        },
    },
    Known {
        id: "member-not-found",
        about: &[Aspect::Status],
        applies: |seen| {
            let refers = |entry: &TableEntry| {
                let action = entry.action.as_ref().and_then(|a| a.r#type.as_ref());
                matches!(
                    action,
                    Some(
                        ActionType::ActionProfileMemberId(_) | ActionType::ActionProfileGroupId(_)
                    )
                )
            };
            seen.differing("NOT_FOUND", &["INVALID_ARGUMENT"]) && seen.only_entries(refers)
        },
    },
    Known {
        id: "member-in-use",
        about: &[Aspect::Status],
        applies: |seen| {
            let Step::Write(updates) = seen.step else {
                return false;
            };
            seen.differing("FAILED_PRECONDITION", &["UNKNOWN"])
                && updates.iter().all(|u| u.r#type() == UpdateType::Delete)
                && seen.entities().all(|entity| {
                    matches!(
                        entity,
                        Entity::ActionProfileMember(_) | Entity::ActionProfileGroup(_)
                    )
                })
        },
    },
    Known {
        id: "read-filters",
        about: &[Aspect::Entities],
        applies: |seen| {
            let filtered = |entry: &TableEntry| {
                let whole_table = entry.r#match.is_empty() && !entry.is_default_action;
                entry.action.is_some()
                    || !entry.metadata.is_empty()
                    || whole_table && entry.priority != 0
            };
            seen.entries().any(filtered)
                && seen.ours.entities.len() < seen.theirs.entities.len()
                && is_part(&seen.ours.entities, &seen.theirs.entities)
        },
    },
    Known {
        id: "direct-entry-not-found",
        about: &[Aspect::Status],
        applies: |seen| {
            let direct = |entity: &Entity| {
                matches!(
                    entity,
                    Entity::DirectCounterEntry(_) | Entity::DirectMeterEntry(_)
                )
            };
            // A read says no more than how it ends.
            seen.differing("NOT_FOUND", &["INVALID_ARGUMENT"])
                && match seen.step {
                    Step::Read(_) => seen.entities().any(direct),
                    _ => seen.entities().all(direct),
                }
        },
    },
    Known {
        id: "watch-of-another",
        about: &[Aspect::Entities],
        applies: |seen| {
            seen.ours.entities.len() == seen.theirs.entities.len()
                && seen
                    .ours
                    .entities
                    .iter()
                    .zip(&seen.theirs.entities)
                    .all(|(ours, theirs)| ours == theirs || watch_is_repeated(ours, theirs))
        },
    },
];

impl<'a> Seen<'a> {
    /// Whether the statuses differ, and only in this way.
    fn differing(&self, ours: &str, theirs: &[&str]) -> bool {
        let mut differing = self.statuses.iter().filter(|(a, b)| a != b).peekable();
        differing.peek().is_some()
            && differing.all(|(a, b)| a == ours && theirs.contains(&b.as_str()))
    }

    /// What is read, or written with statuses that differ.
    fn entities(&self) -> impl Iterator<Item = &'a Entity> {
        let (updates, entities): (&[Update], &[_]) = match self.step {
            Step::Write(updates) => (updates, &[]),
            Step::Read(entities) => (&[], entities),
            _ => (&[], &[]),
        };
        let written = updates.iter().zip(&self.statuses);
        let written = written.filter(|(_, (ours, theirs))| ours != theirs);
        let written = written.filter_map(|(update, _)| update.entity.as_ref());
        let entities: Vec<&Entity> = written
            .chain(entities)
            .filter_map(|entity| entity.entity.as_ref())
            .collect();
        entities.into_iter()
    }

    /// Whether it is all about table entries of one kind.
    fn only_entries(&self, kind: impl Fn(&TableEntry) -> bool) -> bool {
        self.entities()
            .all(|entity| matches!(entity, Entity::TableEntry(entry) if kind(entry)))
    }

    fn entries(&self) -> impl Iterator<Item = &'a TableEntry> {
        self.entities().filter_map(|entity| match entity {
            Entity::TableEntry(entry) => Some(entry),
            _ => None,
        })
    }
}

/// An entity without ranges from 0 to the greatest number of some bits that are
/// not whole bytes.
fn without_full(entity: &str) -> String {
    let mut kept = String::with_capacity(entity.len());
    let mut rest = entity;
    const FIELD: &str = "FieldMatch { field_id: ";
    while let Some(at) = rest.find(FIELD) {
        let (before, field) = rest.split_at(at);
        kept.push_str(before);
        let end = field.get(1..).and_then(|f| f.find(FIELD)).map(|n| n + 1);
        let end = end
            .or_else(|| field.find("], action"))
            .unwrap_or(field.len());
        let (this, after) = field.split_at(end);
        let high = this
            .split_once("Range(Range { low: [0], high: [")
            .and_then(|(_, high)| high.split_once(']'))
            .map(|(high, _)| high);
        let full = high.is_some_and(|bytes| {
            let mut bytes = bytes.split(", ");
            let first = bytes.next().and_then(|b| b.parse::<u8>().ok());
            first.is_some_and(|b| b < 0xff && (b & (b + 1)) == 0) && bytes.all(|b| b == "255")
        });
        if !full {
            kept.push_str(this);
        } else if !this.ends_with(", ") && kept.ends_with(", ") {
            kept.truncate(kept.len() - 2);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Whether all of some entities, in canonical order, are among others.
fn is_part(some: &[String], all: &[String]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|e| rest.any(|other| other == e))
}

/// Whether two groups are the same, but for members without a watched port of
/// their own, which in the second have that of another.
fn watch_is_repeated(ours: &str, theirs: &str) -> bool {
    const WATCH: &str = "watch_kind: ";
    let parts = |entity: &str| -> Vec<(String, String)> {
        let mut rest = entity.split(WATCH);
        let mut parts = vec![(rest.next().unwrap_or("").to_owned(), String::new())];
        for part in rest {
            let (watch, after) = part.split_once(" }").unwrap_or((part, ""));
            parts.push((after.to_owned(), watch.to_owned()));
        }
        parts
    };
    let (ours, theirs) = (parts(ours), parts(theirs));
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|((a, own), (b, watch))| {
            a == b
                && (own == watch
                    || theirs.iter().all(|(_, w)| w.is_empty() || w == watch)
                        && ours.iter().any(|(_, w)| w == watch))
        })
}

fn is_one_shot(entry: &TableEntry) -> bool {
    let action = entry.action.as_ref().and_then(|a| a.r#type.as_ref());
    matches!(action, Some(ActionType::ActionProfileActionSet(_)))
}

fn has_empty_value(entry: &TableEntry) -> bool {
    entry.r#match.iter().any(|field| {
        matches!(&field.field_match_type, Some(FieldMatchType::Exact(m)) if m.value.is_empty())
    })
}

/// An entry without its priority, the value of its prefixes and the mark of
/// constant ones.
fn without_numbers(entity: &str) -> String {
    let mut text = entity.replace(CONSTANT, "is_const: false");
    for (before, after) in [("priority: ", ","), ("Lpm { value: ", ", prefix_len")] {
        let mut rest = text.as_str();
        let mut cut = String::new();
        while let Some((left, right)) = rest.split_once(before) {
            cut.push_str(left);
            cut.push_str(before);
            rest = right.find(after).map_or(right, |end| &right[end..]);
        }
        cut.push_str(rest);
        text = cut;
    }
    text
}

/// The id of the explanation of a difference.
pub fn explain(
    facts: &Facts,
    step: &Step,
    ours: &Outcome,
    theirs: &Outcome,
) -> Option<&'static str> {
    let (mut a, mut b) = (each_status(ours), each_status(theirs));
    // A call that succeeded or failed as a whole has one for all updates.
    let updates = a.len().max(b.len());
    for statuses in [&mut a, &mut b] {
        if let [only] = statuses.as_slice() {
            *statuses = vec![only.clone(); updates];
        }
    }
    let seen = Seen {
        facts,
        step,
        statuses: if a.len() == b.len() {
            a.into_iter().zip(b).collect()
        } else {
            Vec::new()
        },
        ours,
        theirs,
    };
    let aspects = aspects(ours, theirs);
    KNOWN
        .iter()
        .filter(|known| aspects.iter().all(|aspect| known.about.contains(aspect)))
        .find(|known| (known.applies)(&seen))
        .map(|known| known.id)
}

/// The id of the explanation why a comparison ended: a switch that began, and
/// then is gone.
pub fn explain_end(of: Option<Kind>, name: &str, steps: usize) -> Option<&'static str> {
    let mut ending = INDEX_BEYOND.iter().chain(ASSIGN_EMPTY_VARBIT);
    let known = ending.any(|known| name.ends_with(known));
    (of == Some(Kind::Bmv2) && steps > 0 && known).then_some(CRASH)
}

/// Whether bmv2 only did not do what softswitch did: nothing came of the step.
pub fn is_loss(ours: &Outcome, theirs: &Outcome) -> bool {
    ours.status == theirs.status && theirs.frames.is_empty() && theirs.messages.is_empty()
}

/// The statuses in brackets, or the only one.
pub(super) fn each_status(outcome: &Outcome) -> Vec<String> {
    let text = outcome.status.as_deref().unwrap_or("");
    match text.split_once('[').and_then(|(_, r)| r.strip_suffix(']')) {
        Some(list) => list.split(", ").map(str::to_owned).collect(),
        None => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::v1::field_match::Exact;

    use super::*;

    #[test]
    fn each_has_its_place_in_the_documentation() {
        let document = include_str!("../../../../docs/softswitch-differences.md");
        let ids: BTreeSet<&str> = KNOWN.iter().map(|known| known.id).collect();
        assert_eq!(ids.len(), KNOWN.len(), "an id is used twice");
        for id in ids.into_iter().chain([CRASH]) {
            assert!(document.contains(&format!("`{id}`")), "{id}");
        }
    }

    #[test]
    fn full_ranges_of_odd_fields_are_left_out() {
        let field = |id: u32, high: &str| {
            format!(
                "FieldMatch {{ field_id: {id}, field_match_type: Some(Range(Range {{ low: [0], \
                 high: [{high}] }})) }}"
            )
        };
        let entry = |fields: &[String]| format!("match: [{}], action: x", fields.join(", "));
        let (a, b, odd) = (field(1, "3, 4"), field(3, "255"), field(2, "1, 255"));
        let bare = entry(&[a.clone(), b.clone()]);
        for place in 0..3 {
            let mut fields = vec![a.clone(), b.clone()];
            fields.insert(place, odd.clone());
            assert_eq!(without_full(&entry(&fields)), bare, "{place}");
        }
        assert_eq!(without_full(&entry(&[odd])), entry(&[]));
        assert_eq!(without_full(&bare), bare);
    }

    #[test]
    fn only_many_copies_may_change_places() {
        let step = Step::Packet {
            port: 1,
            frame: vec![0; 14],
        };
        let out = |frames: &[&str]| {
            let mut outcome = Outcome::default();
            let list = frames.iter().map(|f| (*f).to_owned()).collect();
            outcome.frames.insert(1, list);
            outcome
        };
        let copying = Facts {
            copies: true,
            ..Facts::default()
        };
        let id = |a: &[&str], b: &[&str]| explain(&copying, &step, &out(a), &out(b));
        assert_eq!(
            id(&["a", "b", "c"], &["b", "c", "a"]),
            Some("order-of-copies")
        );
        assert_eq!(id(&["a", "b"], &["b", "a"]), None);
        assert_eq!(id(&["a", "b", "c"], &["b", "c", "c"]), None);
        let (a, b) = (out(&["a", "b", "c"]), out(&["b", "c", "a"]));
        assert_eq!(explain(&Facts::default(), &step, &a, &b), None);
    }

    #[test]
    fn a_loss_is_a_step_without_a_result() {
        let mut some = Outcome::default();
        some.frames.insert(1, vec!["00".into()]);
        assert!(is_loss(&some, &Outcome::default()));
        assert!(!is_loss(&Outcome::default(), &some));
        let mut other = Outcome::default();
        other.frames.insert(2, vec!["00".into()]);
        assert!(!is_loss(&some, &other));
    }

    #[test]
    fn one_watched_port_is_repeated() {
        let group = |watches: &[&str]| {
            let members = watches.iter().map(|w| format!("M {{ watch_kind: {w} }}"));
            format!("G {{ {} }}", members.collect::<Vec<_>>().join(", "))
        };
        let repeated = |a: &[&str], b: &[&str]| watch_is_repeated(&group(a), &group(b));
        assert!(repeated(&["None", "W([2])"], &["W([2])", "W([2])"]));
        assert!(repeated(&["W([2])", "None"], &["None", "None"]));
        assert!(!repeated(&["None", "W([2])"], &["W([3])", "W([3])"]));
        assert!(!repeated(&["W([1])", "W([2])"], &["W([2])", "W([1])"]));
        assert!(!repeated(&["W([1])"], &["W([1])", "W([1])"]));
    }

    fn status(text: &str) -> Outcome {
        Outcome {
            status: Some(text.into()),
            ..Outcome::default()
        }
    }

    fn insert(entry: TableEntry) -> Step {
        use p4runtime_proto::p4::v1::update::Type;
        Step::Write(vec![super::super::generate::update(
            Type::Insert,
            Entity::TableEntry(entry),
        )])
    }

    #[test]
    fn only_what_is_known_is_explained() {
        let negative = insert(TableEntry {
            priority: -1,
            ..TableEntry::default()
        });
        let refused = status("UNKNOWN [INVALID_ARGUMENT]");
        assert_eq!(
            explain(&Facts::default(), &negative, &refused, &status("OK")),
            Some("negative-priority")
        );
        let plain = insert(TableEntry::default());
        assert_eq!(
            explain(&Facts::default(), &plain, &refused, &status("OK")),
            None
        );
        assert_eq!(
            explain(&Facts::default(), &negative, &status("OK"), &refused),
            None
        );
        let facts = Facts {
            widths: [((7, 1), 9)].into(),
            ..Facts::default()
        };
        for (value, known) in [([2, 0], Some("value-too-wide")), ([1, 255], None)] {
            let value = value.to_vec();
            let wide = insert(TableEntry {
                table_id: 7,
                r#match: vec![FieldMatch {
                    field_id: 1,
                    field_match_type: Some(FieldMatchType::Exact(Exact { value })),
                }],
                ..TableEntry::default()
            });
            let (ours, theirs) = ("UNKNOWN [OUT_OF_RANGE]", "UNKNOWN [INVALID_ARGUMENT]");
            assert_eq!(
                explain(&facts, &wide, &status(ours), &status(theirs)),
                known
            );
        }
        // A packet that differs is never explained by a status.
        let mut packet = status("OK");
        packet.frames.insert(1, vec!["00".into()]);
        let step = Step::Packet {
            port: 1,
            frame: vec![0; 14],
        };
        assert_eq!(
            explain(&Facts::default(), &step, &packet, &status("OK")),
            None
        );
    }

    fn entry(json: &str, priority: i32, is_const: bool) -> Outcome {
        Outcome {
            entities: vec![format!(
                "E {{ Lpm {{ value: [{json}], prefix_len: 4 }}, priority: {priority}, m: 0, \
                 is_const: {is_const} }}"
            )],
            ..status("OK")
        }
    }

    #[test]
    fn the_program_explains_some() {
        use p4runtime_proto::p4::config::v1::{MatchField, Preamble, Table};
        let table = |id, name: &str, bitwidth| Table {
            preamble: Some(Preamble {
                id,
                name: name.into(),
                ..Preamble::default()
            }),
            match_fields: vec![MatchField {
                bitwidth,
                ..MatchField::default()
            }],
            ..Table::default()
        };
        let info = P4Info {
            tables: vec![table(1, "a", 8), table(2, "b", 0), table(3, "c", 8)],
            ..P4Info::default()
        };
        let json = br#"{"pipelines": [{"tables": [{"name": "a", "key": [{"mask": "0x01"}]},
            {"name": "b", "key": [{"mask": null}]}]}]}"#;
        let facts = Facts::of("any", &info, json);
        let read = |table_id| {
            let entry = TableEntry {
                table_id,
                ..TableEntry::default()
            };
            Step::Read(vec![entry.into()])
        };
        let judge = |table_id, ours: &str, theirs: &str| {
            explain(&facts, &read(table_id), &status(ours), &status(theirs))
        };
        assert_eq!(judge(1, "OK", "INTERNAL"), Some("masked-exact-key"));
        assert_eq!(judge(2, "OK", "INTERNAL"), None);
        assert_eq!(judge(2, "OK", "UNKNOWN"), Some("key-without-width"));
        assert_eq!(
            judge(2, "OUT_OF_RANGE", "UNKNOWN"),
            Some("key-without-width")
        );
        assert_eq!(judge(3, "NOT_FOUND", "UNKNOWN"), Some("table-left-out"));
        assert_eq!(judge(1, "NOT_FOUND", "UNKNOWN"), None);
        assert_eq!(judge(0, "OK", "UNKNOWN"), Some("table-left-out"));
        let packet = Step::Packet {
            port: 0,
            frame: vec![0; 14],
        };
        let frame = |text: &str| Outcome {
            frames: [(0, vec![text.to_owned()])].into(),
            ..Outcome::default()
        };
        let invalid = Facts::of("p4c/gauntlet_invalid_hdr_assign-bmv2", &info, json);
        let judge_packet = |facts, theirs| explain(facts, &packet, &frame("0000"), &frame(theirs));
        assert_eq!(judge_packet(&invalid, "0200"), Some("invalid-header"));
        assert_eq!(judge_packet(&invalid, "02"), None);
        assert_eq!(judge_packet(&facts, "0200"), None);
        let without = Facts::default();
        assert_eq!(
            explain(&without, &read(0), &status("OK"), &status("UNKNOWN")),
            None
        );
        let judge = |ours: &Outcome, theirs: &Outcome| explain(&without, &read(1), ours, theirs);
        let theirs = entry("17", 2_147_483_646, false);
        let known = Some("const-entries-numbered");
        assert_eq!(judge(&entry("16", 4, true), &theirs), known);
        assert_eq!(judge(&entry("16", 4, false), &theirs), None);
        let mut more = entry("16", 4, true);
        more.entities.push("E".into());
        assert_eq!(judge(&more, &theirs), None);
    }
}
