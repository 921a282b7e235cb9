//! The differences in what programs do and tables hold, one after the other.

use p4runtime_proto::p4::v1::TableEntry;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type as UpdateType;

use super::text::{is_part, watch_is_repeated, without_full, without_numbers};
use super::{Aspect, CONSTANT, Known};
use crate::differential::step::{Outcome, Step};

/// All of them.
pub(super) const KNOWN: &[Known] = &[
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
            // What bmv2 answers to zero; `UNKNOWN` if the table is full.
            let zero = [
                "OK",
                "ALREADY_EXISTS",
                "NOT_FOUND",
                "INVALID_ARGUMENT",
                "UNKNOWN",
            ];
            seen.differing("OUT_OF_RANGE", &zero) && seen.only_entries(has_empty_value)
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
                && seen.only(|entity| match entity {
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
            let codes = ["OK", "INVALID_ARGUMENT", "OUT_OF_RANGE"];
            codes
                .iter()
                .any(|ours| seen.differing(ours, &["UNIMPLEMENTED"]))
                && seen.only(|e| matches!(e, Entity::RegisterEntry(_)))
        },
    },
    Known {
        id: "clone-session-truncation",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.differing("OK", &["UNKNOWN"])
                && seen.only(|entity| {
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
            // Two frames come from one place, and in one order, unless they went
            // round in between.
            let many = seen.ours.frames.values().map(Vec::len).sum::<usize>() > 2;
            seen.facts.copies
                && (many || seen.facts.recirculates || matches!(seen.step, Step::Burst { .. }))
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
                && seen
                    .facts
                    .profiles
                    .exceed(seen.step.updates(), &seen.statuses)
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
            // Where several things are read, another may be refused by us.
            concerned
                && (seen.differing("OK", &["INTERNAL", "NOT_FOUND"])
                    || seen.differing("ALREADY_EXISTS", &["UNKNOWN"])
                    || seen.differing("INVALID_ARGUMENT", &["INTERNAL"]))
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
            let mut updates = seen.step.updates().iter();
            seen.differing("FAILED_PRECONDITION", &["UNKNOWN"])
                && updates.all(|u| u.r#type() == UpdateType::Delete)
                && seen.only(|entity| {
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
                && match seen.step.queries() {
                    [] => seen.only(direct),
                    queries => queries.iter().filter_map(|q| q.entity.as_ref()).any(direct),
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

fn is_one_shot(entry: &TableEntry) -> bool {
    let action = entry.action.as_ref().and_then(|a| a.r#type.as_ref());
    matches!(action, Some(ActionType::ActionProfileActionSet(_)))
}

fn has_empty_value(entry: &TableEntry) -> bool {
    entry.r#match.iter().any(|field| {
        matches!(&field.field_match_type, Some(FieldMatchType::Exact(m)) if m.value.is_empty())
    })
}
