//! The differences in entities other than those of tables, one after the other.

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;

use super::text::{is_part, without};
use super::{Aspect, Known};
use crate::differential::canonical::DIGEST;
use crate::differential::step::Step;

/// All of them.
pub(super) const KNOWN: &[Known] = &[
    Known {
        id: "digests-from-before",
        about: &[Aspect::Output],
        applies: |seen| {
            let (ours, theirs) = (&seen.ours.messages, &seen.theirs.messages);
            matches!(seen.step, Step::Wait(_))
                && seen.facts.state.digest_was_off
                && seen.ours.frames == seen.theirs.frames
                && is_part(ours, theirs)
                && without(theirs, ours)
                    .iter()
                    .all(|text| text.contains(DIGEST))
        },
    },
    Known {
        id: "idle-after-deletion",
        about: &[Aspect::Output],
        applies: |seen| {
            let (ours, theirs) = (&seen.ours.messages, &seen.theirs.messages);
            let gone = &seen.facts.state.gone;
            matches!(seen.step, Step::Wait(_))
                && seen.ours.frames == seen.theirs.frames
                && is_part(ours, theirs)
                && without(theirs, ours)
                    .into_iter()
                    .all(|text| gone.contains(text))
        },
    },
    Known {
        id: "value-sets",
        about: &[Aspect::Status],
        applies: |seen| {
            let codes = ["OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"];
            codes
                .iter()
                .any(|ours| seen.differing(ours, &["UNIMPLEMENTED"]))
                && seen.only(|entity| matches!(entity, Entity::ValueSetEntry(_)))
        },
    },
    Known {
        id: "unknown-entity",
        about: &[Aspect::Status],
        applies: |seen| {
            let nothing = |entity: Option<&p4::Entity>| entity.is_none_or(|e| e.entity.is_none());
            let external =
                |entity: &p4::Entity| matches!(entity.entity, Some(Entity::ExternEntry(_)));
            let updates = seen.step.updates();
            let queries = seen.step.queries();
            let all_nothing = updates.iter().all(|update| nothing(update.entity.as_ref()))
                && queries.iter().all(|query| nothing(Some(query)));
            let some = updates.len() + queries.len() > 0;
            some && all_nothing && seen.differing("INVALID_ARGUMENT", &["UNKNOWN"])
                || queries.iter().any(external) && seen.differing("UNIMPLEMENTED", &["UNKNOWN"])
        },
    },
    Known {
        id: "digest-unknown",
        about: &[Aspect::Status],
        applies: |seen| {
            let digests = &seen.facts.digests;
            seen.differing("INVALID_ARGUMENT", &["NOT_FOUND"])
                && seen.only(|entity| {
                    matches!(entity, Entity::DigestEntry(entry)
                        if !digests.contains(&entry.digest_id))
                })
        },
    },
    Known {
        id: "digest-wildcard",
        about: &[Aspect::Status],
        applies: |seen| {
            !seen.step.queries().is_empty()
                && seen.differing("OK", &["UNIMPLEMENTED"])
                && seen.only(|e| matches!(e, Entity::DigestEntry(entry) if entry.digest_id == 0))
        },
    },
    Known {
        id: "digest-negative",
        about: &[Aspect::Status],
        applies: |seen| {
            let negative = |config: &p4::digest_entry::Config| {
                config.max_timeout_ns < 0 || config.max_list_size < 0 || config.ack_timeout_ns < 0
            };
            seen.differing("INVALID_ARGUMENT", &["OK", "ALREADY_EXISTS"])
                && seen.only(|entity| {
                    matches!(entity, Entity::DigestEntry(entry)
                        if entry.config.as_ref().is_some_and(negative))
                })
        },
    },
    Known {
        id: "digest-config-unset",
        about: &[Aspect::Entities],
        applies: |seen| {
            let zeros = format!("{:?}", Some(p4::digest_entry::Config::default()));
            let unset = |text: &String| text.replace(&format!("config: {zeros}"), "config: None");
            seen.only(|entity| matches!(entity, Entity::DigestEntry(_)))
                && seen
                    .ours
                    .entities
                    .iter()
                    .map(unset)
                    .eq(seen.theirs.entities.iter().cloned())
        },
    },
];

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::v1::TableEntry;

    use super::super::testing::{after, by_status, by_texts, inserts, reads, status};
    use super::super::{Facts, explain};
    use super::*;
    use crate::differential::generate::update;
    use crate::differential::step::Outcome;

    #[test]
    fn bmv2_may_still_tell_of_an_entry_that_is_gone() {
        let entry = TableEntry {
            table_id: 7,
            idle_timeout_ns: 5,
            ..TableEntry::default()
        };
        let texts = super::super::state::idle_texts(&entry);
        let told: Vec<&str> = texts.iter().map(String::as_str).collect();
        let wait = Step::Wait(std::time::Duration::ZERO);
        let insert = inserts(Entity::TableEntry(entry.clone()));
        let mut facts = after(&insert, &status("OK"));
        assert_eq!(by_texts(&facts, &wait, &[], &told), None);
        let delete = Step::Write(vec![update(
            p4::update::Type::Delete,
            Entity::TableEntry(entry),
        )]);
        facts.observe(&delete, &status("OK"), &status("OK"));
        let known = Some("idle-after-deletion");
        assert_eq!(by_texts(&facts, &wait, &[], &told), known);
        assert_eq!(by_texts(&facts, &wait, &told, &[]), None);
        assert_eq!(by_texts(&facts, &wait, &[], &["idle: another"]), None);
    }

    #[test]
    fn value_sets_are_unknown_to_bmv2() {
        let facts = Facts::default();
        let sets = reads(Entity::ValueSetEntry(Default::default()));
        let known = Some("value-sets");
        assert_eq!(by_status(&facts, &sets, "OK", "UNIMPLEMENTED"), known);
        assert_eq!(by_status(&facts, &sets, "OK", "UNKNOWN"), None);
        let entries = reads(Entity::TableEntry(TableEntry::default()));
        assert_eq!(by_status(&facts, &entries, "OK", "UNIMPLEMENTED"), None);
    }

    fn digest(config: Option<p4::digest_entry::Config>) -> Entity {
        Entity::DigestEntry(p4::DigestEntry {
            digest_id: 7,
            config,
        })
    }

    #[test]
    fn what_bmv2_kept_back_comes_when_a_digest_is_on() {
        let digest = "digest 7: x";
        let packet = Step::Packet {
            port: 1,
            frame: vec![0; 14],
        };
        let wait = Step::Wait(std::time::Duration::ZERO);
        let on = after(&inserts(self::digest(None)), &status("OK"));
        let known = Some("digests-from-before");
        assert_eq!(by_texts(&on, &wait, &[], &[digest]), known);
        assert_eq!(by_texts(&on, &wait, &[digest], &[]), None);
        assert_eq!(by_texts(&on, &packet, &[], &[digest]), None);
        let mut later = on;
        later.observe(&wait, &Outcome::default(), &Outcome::default());
        assert_eq!(by_texts(&later, &wait, &[], &[digest]), None);
    }

    #[test]
    fn entries_of_digests_are_less_checked_by_bmv2() {
        let mut facts = Facts::default();
        let unset = inserts(digest(None));
        let judge =
            |facts: &Facts, step: &Step| by_status(facts, step, "INVALID_ARGUMENT", "NOT_FOUND");
        assert_eq!(judge(&facts, &unset), Some("digest-unknown"));
        facts.digests.insert(7);
        assert_eq!(judge(&facts, &unset), None);
        let wrong = p4::digest_entry::Config {
            ack_timeout_ns: -1,
            ..Default::default()
        };
        let judge = |step: &Step| by_status(&facts, step, "INVALID_ARGUMENT", "OK");
        assert_eq!(
            judge(&inserts(digest(Some(wrong)))),
            Some("digest-negative")
        );
        assert_eq!(judge(&unset), None);
        let all = reads(Entity::DigestEntry(p4::DigestEntry::default()));
        let judge = |step: &Step| by_status(&facts, step, "OK", "UNIMPLEMENTED");
        assert_eq!(judge(&all), Some("digest-wildcard"));
        assert_eq!(judge(&reads(digest(None))), None);
        let read = |config: Option<p4::digest_entry::Config>| Outcome {
            entities: vec![format!("{:?}", digest(config))],
            ..status("OK")
        };
        let judge = |config| explain(&facts, &reads(digest(None)), &read(config), &read(None));
        let zeros = Some(p4::digest_entry::Config::default());
        assert_eq!(judge(zeros), Some("digest-config-unset"));
        assert_eq!(judge(Some(wrong)), None);
    }

    #[test]
    fn what_is_no_entity_is_refused_in_other_words() {
        let facts = Facts::default();
        let nothing = Step::Read(vec![p4::Entity { entity: None }]);
        let judge = |step: &Step| by_status(&facts, step, "INVALID_ARGUMENT", "UNKNOWN");
        assert_eq!(judge(&nothing), Some("unknown-entity"));
        assert_eq!(
            judge(&Step::Write(vec![p4::Update::default()])),
            Some("unknown-entity")
        );
        assert_eq!(judge(&Step::Write(Vec::new())), None);
        assert_eq!(judge(&reads(Entity::TableEntry(Default::default()))), None);
        let external = reads(Entity::ExternEntry(Default::default()));
        let judge = |step: &Step| by_status(&facts, step, "UNIMPLEMENTED", "UNKNOWN");
        assert_eq!(judge(&external), Some("unknown-entity"));
        assert_eq!(judge(&nothing), None);
    }
}
