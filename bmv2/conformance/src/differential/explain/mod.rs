//! The differences that are meant. Each has an id; what it is about stands in
//! `docs/softswitch-differences.md`.

use p4runtime_proto::p4::v1::TableEntry;
use p4runtime_proto::p4::v1::entity::Entity;

mod controllers;
mod entities;
mod facts;
mod known;
mod pipelines;
mod profiles;
mod state;
#[cfg(test)]
mod testing;
mod text;

use super::canonical::{ARBITRATION, ENDED};
use super::side::Kind;
use super::step::{Outcome, Step};
pub use facts::Facts;
use facts::{ASSIGN_EMPTY_VARBIT, INDEX_BEYOND};
use text::{is_part, without};

/// All known differences.
fn all() -> impl Iterator<Item = &'static Known> {
    known::KNOWN
        .iter()
        .chain(entities::KNOWN)
        .chain(pipelines::KNOWN)
        .chain(controllers::KNOWN)
}

/// A known difference.
struct Known {
    /// Its id in the documentation.
    id: &'static str,
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

impl<'a> Seen<'a> {
    /// Whether the statuses differ, and only in this way.
    fn differing(&self, ours: &str, theirs: &[&str]) -> bool {
        let mut differing = self.statuses.iter().filter(|(a, b)| a != b).peekable();
        differing.peek().is_some()
            && differing.all(|(a, b)| a == ours && theirs.contains(&b.as_str()))
    }

    /// Whether the call as a whole ended differently, and only in this way;
    /// what befell each update does not matter.
    fn call_differs(&self, ours: &str, theirs: &[&str]) -> bool {
        let code = |status: &Option<String>| {
            let text = status.as_deref().unwrap_or("");
            text.split(' ').next().unwrap_or("").to_owned()
        };
        let of_theirs = code(&self.theirs.status);
        code(&self.ours.status) == ours && theirs.contains(&of_theirs.as_str())
    }

    /// Whether softswitch says what bmv2 says, and more of one kind.
    fn only_more(&self, kind: &str) -> bool {
        let (ours, theirs) = (&self.ours.messages, &self.theirs.messages);
        self.ours.frames == self.theirs.frames
            && is_part(theirs, ours)
            && without(ours, theirs).iter().all(|text| text.contains(kind))
    }

    /// Whether nothing differs but who is told to be primary, and whose stream
    /// is ended as one too many with its id.
    fn is_about_primaries(&self) -> bool {
        let (ours, theirs) = (&self.ours.messages, &self.theirs.messages);
        let more = without(ours, theirs).into_iter();
        let mut different = more.chain(without(theirs, ours));
        self.ours.frames == self.theirs.frames
            && different.all(|text| text.contains(ARBITRATION) || text.contains(ENDED))
    }

    /// What is read, or written with statuses that differ.
    fn entities(&self) -> impl Iterator<Item = &'a Entity> {
        let entities = self.step.queries();
        let written = self.step.updates().iter().zip(&self.statuses);
        let written = written.filter(|(_, (ours, theirs))| ours != theirs);
        let written = written.filter_map(|(update, _)| update.entity.as_ref());
        let entities: Vec<&Entity> = written
            .chain(entities)
            .filter_map(|entity| entity.entity.as_ref())
            .collect();
        entities.into_iter()
    }

    /// Whether it is about entities, and all of one kind.
    fn only(&self, kind: impl Fn(&Entity) -> bool) -> bool {
        let mut entities = self.entities().peekable();
        entities.peek().is_some() && entities.all(kind)
    }

    /// Whether it is all about table entries of one kind.
    fn only_entries(&self, kind: impl Fn(&TableEntry) -> bool) -> bool {
        self.only(|entity| matches!(entity, Entity::TableEntry(entry) if kind(entry)))
    }

    fn entries(&self) -> impl Iterator<Item = &'a TableEntry> {
        self.entities().filter_map(|entity| match entity {
            Entity::TableEntry(entry) => Some(entry),
            _ => None,
        })
    }
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
    all()
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
    use std::collections::BTreeSet;

    use p4runtime_proto::p4::config::v1::P4Info;
    use p4runtime_proto::p4::v1::FieldMatch;
    use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType};

    use super::*;

    #[test]
    fn each_has_its_place_in_the_documentation() {
        let document = include_str!("../../../../../docs/softswitch-differences.md");
        let ids: BTreeSet<&str> = all().map(|known| known.id).collect();
        assert_eq!(ids.len(), all().count(), "an id is used twice");
        for id in ids.into_iter().chain([CRASH]) {
            assert!(document.contains(&format!("`{id}`")), "{id}");
        }
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
        let rounds = Facts {
            copies: true,
            recirculates: true,
            ..Facts::default()
        };
        let (a, b) = (out(&["a", "b"]), out(&["b", "a"]));
        assert_eq!(explain(&rounds, &step, &a, &b), Some("order-of-copies"));
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
        // bmv2 takes no value as zero, and has no room for that.
        for (value, known) in [(vec![], Some("empty-value")), (vec![0], None)] {
            let zero = insert(TableEntry {
                table_id: 7,
                r#match: vec![FieldMatch {
                    field_id: 1,
                    field_match_type: Some(FieldMatchType::Exact(Exact { value })),
                }],
                ..TableEntry::default()
            });
            for theirs in ["UNKNOWN [UNKNOWN]", "UNKNOWN [NOT_FOUND]", "OK"] {
                let ours = status("UNKNOWN [OUT_OF_RANGE]");
                assert_eq!(explain(&facts, &zero, &ours, &status(theirs)), known);
            }
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
        let refused = "INVALID_ARGUMENT";
        assert_eq!(judge(1, refused, "INTERNAL"), Some("masked-exact-key"));
        let there = "UNKNOWN [ALREADY_EXISTS]";
        assert_eq!(
            judge(1, there, "UNKNOWN [UNKNOWN]"),
            Some("masked-exact-key")
        );
        assert_eq!(judge(2, there, "UNKNOWN [UNKNOWN]"), None);
        assert_eq!(judge(2, refused, "INTERNAL"), None);
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
