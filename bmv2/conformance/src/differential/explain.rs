//! The differences that are meant. Each has an id; what it is about stands in
//! `docs/softswitch-differences.md`.

use std::collections::BTreeSet;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::{TableEntry, Update};

use super::side::Kind;
use super::step::{Outcome, Step};

/// A known difference.
pub struct Known {
    /// Its id in the documentation.
    pub id: &'static str,
    applies: fn(&Seen<'_>) -> bool,
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
    /// Whether it uses fields of headers that are not valid.
    reads_invalid: bool,
}

/// Programs that use fields of headers that are not valid.
const READ_INVALID: &[&str] = &[
    "gauntlet_invalid_hdr_assign-bmv2",
    "runtime-index-bmv2",
    "runtime-index-2-bmv2",
];

impl Facts {
    /// Looks at a program: its name, its P4Info and its JSON.
    pub fn of(name: &str, info: &P4Info, json: &[u8]) -> Self {
        let program: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
        let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
        let tables: Vec<_> = list(&program["pipelines"])
            .iter()
            .flat_map(|pipeline| list(&pipeline["tables"]))
            .collect();
        let mut facts = Self {
            reads_invalid: READ_INVALID.iter().any(|known| name.ends_with(known)),
            ..Self::default()
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
        }
        facts
    }
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

/// The id for an end of bmv2's process.
const CRASH: &str = "bmv2-crash";

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        id: "negative-priority",
        applies: |seen| {
            seen.differing("INVALID_ARGUMENT", &["OK", "UNKNOWN", "ALREADY_EXISTS"])
                && seen.entries().any(|entry| entry.priority < 0)
        },
    },
    Known {
        id: "empty-value",
        applies: |seen| {
            seen.differing("OUT_OF_RANGE", &["OK", "ALREADY_EXISTS"])
                && seen.entries().any(has_empty_value)
        },
    },
    Known {
        id: "value-too-wide",
        applies: |seen| {
            seen.differing("OUT_OF_RANGE", &["INVALID_ARGUMENT"]) && seen.entries().next().is_some()
        },
    },
    Known {
        id: "index-out-of-range",
        applies: |seen| {
            seen.differing("OUT_OF_RANGE", &["UNKNOWN"])
                && seen
                    .entities()
                    .any(|e| matches!(e, Entity::CounterEntry(_) | Entity::MeterEntry(_)))
        },
    },
    Known {
        id: "register-access",
        applies: |seen| {
            seen.theirs.status.as_deref() == Some("UNIMPLEMENTED")
                && seen
                    .entities()
                    .any(|e| matches!(e, Entity::RegisterEntry(_)))
        },
    },
    Known {
        id: "clone-session-truncation",
        applies: |seen| {
            seen.differing("OK", &["UNKNOWN"])
                && seen.entities().any(|entity| {
                    matches!(entity, Entity::PacketReplicationEngineEntry(entry)
                        if matches!(&entry.r#type, Some(Type::CloneSessionEntry(session))
                            if session.packet_length_bytes != 0))
                })
        },
    },
    Known {
        id: "entry-without-key",
        applies: |seen| {
            seen.differing("INVALID_ARGUMENT", &["UNKNOWN", "NOT_FOUND"])
                && seen
                    .entries()
                    .any(|entry| entry.r#match.is_empty() && !entry.is_default_action)
        },
    },
    Known {
        id: "const-entries-marked",
        applies: |seen| {
            let unmarked = |e: &String| e.replace("is_const: true", "is_const: false");
            let ours: BTreeSet<String> = seen.ours.entities.iter().map(unmarked).collect();
            seen.ours.entities != seen.theirs.entities
                && ours == seen.theirs.entities.iter().cloned().collect()
        },
    },
    Known {
        id: "unaligned-full-range",
        applies: |seen| {
            let bare = seen.theirs.entities.iter().map(|e| without_full(e));
            let mut theirs: Vec<String> = bare.collect();
            theirs.sort();
            seen.ours.entities != seen.theirs.entities
                && seen.ours.entities == theirs
                && seen.ours.status == seen.theirs.status
        },
    },
    Known {
        id: "order-of-copies",
        applies: |seen| {
            let sorted = |outcome: &Outcome| {
                let mut frames = outcome.frames.clone();
                frames.values_mut().for_each(|list| list.sort());
                frames
            };
            // Two frames come from one place, and in one order.
            seen.ours.frames.values().map(Vec::len).sum::<usize>() > 2
                && seen.ours.frames != seen.theirs.frames
                && sorted(seen.ours) == sorted(seen.theirs)
                && seen.ours.messages == seen.theirs.messages
                && seen.ours.status == seen.theirs.status
        },
    },
    Known {
        id: "const-entries-numbered",
        applies: |seen| {
            let constant = seen
                .ours
                .entities
                .iter()
                .any(|e| e.contains("is_const: true"));
            let bare = |entities: &[String]| {
                let mut all: Vec<String> = entities.iter().map(|e| without_numbers(e)).collect();
                all.sort();
                all
            };
            constant
                && seen.ours.status == seen.theirs.status
                && bare(&seen.ours.entities) == bare(&seen.theirs.entities)
        },
    },
    Known {
        id: "one-shot-into-full-table",
        applies: |seen| seen.differing("UNKNOWN", &["INTERNAL"]) && seen.entries().any(is_one_shot),
    },
    Known {
        id: "profile-full",
        applies: |seen| {
            seen.differing("RESOURCE_EXHAUSTED", &["OK", "UNKNOWN", "INTERNAL"])
                && (seen.entries().any(is_one_shot)
                    || seen
                        .entities()
                        .any(|e| matches!(e, Entity::ActionProfileMember(_))))
        },
    },
    Known {
        id: "table-left-out",
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
        applies: |seen| {
            let tables = &seen.facts.without_width;
            let concerned = seen.entries().any(|entry| match entry.table_id {
                0 => !tables.is_empty(),
                id => tables.contains(&id),
            });
            let mut rest = seen.ours.entities.iter();
            let more = seen.ours.entities.len() > seen.theirs.entities.len()
                && seen
                    .theirs
                    .entities
                    .iter()
                    .all(|e| rest.any(|ours| ours == e));
            concerned
                && (seen.differing("OK", &["UNKNOWN", "NOT_FOUND"])
                    || seen.differing("OUT_OF_RANGE", &["UNKNOWN"])
                    || more && seen.ours.status == seen.theirs.status)
        },
    },
    Known {
        id: "masked-exact-key",
        applies: |seen| {
            let masked = &seen.facts.masked;
            let concerned = seen.entries().any(|entry| match entry.table_id {
                0 => !masked.is_empty(),
                id => masked.contains(&id),
            });
            concerned && seen.differing("OK", &["INTERNAL"])
        },
    },
    Known {
        id: "invalid-header",
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
        applies: |seen| seen.differing("NOT_FOUND", &["INVALID_ARGUMENT"]),
    },
];

impl<'a> Seen<'a> {
    /// Whether the statuses differ, and only in this way.
    fn differing(&self, ours: &str, theirs: &[&str]) -> bool {
        let mut differing = self.statuses.iter().filter(|(a, b)| a != b).peekable();
        differing.peek().is_some()
            && differing.all(|(a, b)| a == ours && theirs.contains(&b.as_str()))
            && self.ours.frames == self.theirs.frames
            && self.ours.messages == self.theirs.messages
    }

    fn entities(&self) -> impl Iterator<Item = &'a Entity> {
        let (updates, entities): (&[Update], &[_]) = match self.step {
            Step::Write(updates) => (updates, &[]),
            Step::Read(entities) => (&[], entities),
            _ => (&[], &[]),
        };
        let written = updates.iter().filter_map(|u| u.entity.as_ref());
        written
            .chain(entities)
            .filter_map(|entity| entity.entity.as_ref())
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
    let mut text = entity.replace("is_const: true", "is_const: false");
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
    let (a, b) = (each_status(ours), each_status(theirs));
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
    KNOWN
        .iter()
        .find(|known| (known.applies)(&seen))
        .map(|known| known.id)
}

/// The id of the explanation why a comparison ended: a switch that began, and
/// then is gone.
pub fn explain_end(of: Option<Kind>, steps: usize) -> Option<&'static str> {
    (of == Some(Kind::Bmv2) && steps > 0).then_some(CRASH)
}

/// Whether bmv2 only did not do what softswitch did: nothing came of the step.
pub fn is_loss(ours: &Outcome, theirs: &Outcome) -> bool {
    ours.status == theirs.status && theirs.frames.is_empty() && theirs.messages.is_empty()
}

/// The statuses in brackets, or the only one.
fn each_status(outcome: &Outcome) -> Vec<String> {
    let text = outcome.status.as_deref().unwrap_or("");
    match text.split_once('[').and_then(|(_, r)| r.strip_suffix(']')) {
        Some(list) => list.split(", ").map(str::to_owned).collect(),
        None => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests {
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
        let id = |a: &[&str], b: &[&str]| explain(&Facts::default(), &step, &out(a), &out(b));
        assert_eq!(
            id(&["a", "b", "c"], &["b", "c", "a"]),
            Some("order-of-copies")
        );
        assert_eq!(id(&["a", "b"], &["b", "a"]), None);
        assert_eq!(id(&["a", "b", "c"], &["b", "c", "c"]), None);
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
        assert_eq!(
            explain(
                &Facts::default(),
                &plain,
                &status("UNKNOWN [OUT_OF_RANGE]"),
                &status("UNKNOWN [INVALID_ARGUMENT]")
            ),
            Some("value-too-wide")
        );
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
