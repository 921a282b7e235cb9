//! The differences in how one program follows another, one after the other.

use p4runtime_proto::p4::v1::SetForwardingPipelineConfigRequest;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replicated;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;

use super::text::is_part;
use super::{Aspect, Known};
use crate::differential::canonical::DIGEST;
use crate::differential::step::Step;

/// All of them.
pub(super) const KNOWN: &[Known] = &[
    Known {
        id: "pipeline-code",
        about: &[Aspect::Status],
        applies: |seen| {
            push(seen.step).is_some()
                && (seen.call_differs("INVALID_ARGUMENT", &["UNKNOWN"])
                    || seen.call_differs("NOT_FOUND", &["UNKNOWN"]))
        },
    },
    Known {
        id: "pipeline-unchecked",
        about: &[Aspect::Status],
        applies: |seen| {
            let is_wrong = |request: &SetForwardingPipelineConfigRequest| {
                let config = request.config.as_ref();
                match Action::try_from(request.action) {
                    Err(_) => true,
                    Ok(Action::Commit) => config.is_some(),
                    Ok(_) => config.is_none_or(|config| !seen.facts.is_whole(config)),
                }
            };
            push(seen.step).is_some_and(is_wrong) && seen.call_differs("INVALID_ARGUMENT", &["OK"])
        },
    },
    Known {
        id: "pipeline-pending",
        about: &[Aspect::Status],
        applies: |seen| {
            let Some(request) = push(seen.step) else {
                return false;
            };
            match (seen.facts.state.loaded, request.action()) {
                (true, Action::Commit) => seen.call_differs("NOT_FOUND", &["OK"]),
                (true, _) => seen.call_differs("OK", &["UNKNOWN"]),
                // It took a commit that was refused here.
                (false, Action::Commit) => seen.call_differs("OK", &["UNKNOWN"]),
                (false, _) => false,
            }
        },
    },
    Known {
        id: "reconcile-counters",
        about: &[Aspect::Status],
        applies: |seen| {
            push(seen.step).is_some_and(|r| r.action() == Action::ReconcileAndCommit)
                && !seen.facts.cells.is_empty()
                && seen.call_differs("OK", &["UNKNOWN"])
        },
    },
    Known {
        id: "reconcile-replication",
        about: &[Aspect::Entities],
        applies: |seen| {
            let wild = |entity: &Entity| {
                matches!(entity, Entity::PacketReplicationEngineEntry(entry)
                if match &entry.r#type {
                    Some(Replicated::MulticastGroupEntry(group)) =>
                        group.multicast_group_id == 0,
                    Some(Replicated::CloneSessionEntry(session)) => session.session_id == 0,
                    None => false,
                })
            };
            seen.facts.state.reconciled
                && seen.only(wild)
                && is_part(&seen.theirs.entities, &seen.ours.entities)
        },
    },
    Known {
        id: "replicas-doubled",
        about: &[Aspect::Output],
        applies: |seen| {
            // Each frame at most twice for once here, and no other.
            let doubled = |ours: &[String], theirs: &[String]| {
                let times = |all: &[String], one| all.iter().filter(|f| *f == one).count();
                ours.iter().chain(theirs).all(|frame| {
                    let (ours, theirs) = (times(ours, frame), times(theirs, frame));
                    ours <= theirs && theirs <= 2 * ours
                })
            };
            let (ours, theirs) = (&seen.ours.frames, &seen.theirs.frames);
            !seen.facts.state.replication.doubled.is_empty()
                && ours.keys().eq(theirs.keys())
                && ours.iter().all(|(port, ours)| {
                    theirs.get(port).is_some_and(|theirs| doubled(ours, theirs))
                })
                && doubled(&seen.ours.messages, &seen.theirs.messages)
        },
    },
    Known {
        id: "digests-of-saved",
        about: &[Aspect::Output],
        applies: |seen| seen.facts.state.loaded && seen.only_more(DIGEST),
    },
];

fn push(step: &Step) -> Option<&SetForwardingPipelineConfigRequest> {
    match step {
        Step::Pipeline(request) => Some(request),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, TableEntry};

    use super::super::testing::{after, by_status, by_texts, inserts, pushes, reads, status};
    use super::super::{Facts, explain};
    use super::*;
    use crate::differential::plan::group;
    use crate::differential::step::Outcome;

    #[test]
    fn pipelines_are_refused_in_other_words_or_not_at_all() {
        let whole = Facts::default().program;
        let other = ForwardingPipelineConfig {
            p4_device_config: b"x".to_vec(),
            ..whole.clone()
        };
        let facts = Facts::default();
        let commit = |config| pushes(Action::VerifyAndCommit, config);
        let judge = |step: &Step, ours, theirs| by_status(&facts, step, ours, theirs);
        let step = commit(Some(other.clone()));
        assert_eq!(
            judge(&step, "INVALID_ARGUMENT", "UNKNOWN"),
            Some("pipeline-code")
        );
        assert_eq!(judge(&step, "OK", "UNKNOWN"), None);
        let known = Some("pipeline-unchecked");
        for wrong in [
            step,
            commit(None),
            pushes(Action::Verify, Some(other)),
            pushes(Action::Commit, Some(whole.clone())),
        ] {
            assert_eq!(judge(&wrong, "INVALID_ARGUMENT", "OK"), known);
        }
        let right = commit(Some(whole));
        assert_eq!(judge(&right, "INVALID_ARGUMENT", "OK"), None);
    }

    #[test]
    fn while_one_is_loaded_bmv2_takes_no_other() {
        let config = Facts::default().program;
        let save = pushes(Action::VerifyAndSave, Some(config.clone()));
        let commit = pushes(Action::Commit, None);
        let again = pushes(Action::VerifyAndCommit, Some(config));
        let known = Some("pipeline-pending");
        let judge = |facts: &Facts, step: &Step| by_status(facts, step, "OK", "UNKNOWN");
        let mut facts = after(&save, &status("OK"));
        assert_eq!(judge(&facts, &again), known);
        assert_eq!(by_status(&facts, &commit, "NOT_FOUND", "OK"), known);
        facts.observe(&commit, &status("NOT_FOUND"), &status("OK"));
        assert_eq!(judge(&facts, &again), None);
        assert_eq!(by_status(&facts, &commit, "NOT_FOUND", "OK"), None);
        // One that bmv2 has refused is loaded, too.
        facts.observe(&again, &status("OK"), &status("UNKNOWN"));
        assert_eq!(judge(&facts, &again), known);
    }

    #[test]
    fn reconciling_keeps_more_here() {
        let step = pushes(Action::ReconcileAndCommit, None);
        let mut facts = Facts::default();
        assert_eq!(by_status(&facts, &step, "OK", "UNKNOWN"), None);
        facts.cells.insert(1, 8);
        let known = Some("reconcile-counters");
        assert_eq!(by_status(&facts, &step, "OK", "UNKNOWN"), known);
        let read = reads(group(0, Vec::new()));
        let ours = Outcome {
            entities: vec!["a group".into()],
            ..status("OK")
        };
        let judge = |facts: &Facts, step: &Step| explain(facts, step, &ours, &status("OK"));
        assert_eq!(judge(&facts, &read), None);
        facts.observe(&step, &status("OK"), &status("OK"));
        assert_eq!(judge(&facts, &read), Some("reconcile-replication"));
        let entries = Step::Read(vec![TableEntry::default().into()]);
        assert_eq!(judge(&facts, &entries), None);
    }

    #[test]
    fn groups_that_come_again_are_doubled() {
        let insert = inserts(group(2, Vec::new()));
        let again = pushes(Action::VerifyAndCommit, None);
        let mut facts = after(&insert, &status("OK"));
        let packet = Step::Packet {
            port: 1,
            frame: vec![0; 14],
        };
        let out = |frames: &[&str]| {
            let mut outcome = Outcome::default();
            let frames = frames.iter().map(|frame| (*frame).to_owned());
            outcome.frames.insert(1, frames.collect());
            outcome
        };
        let judge = |facts: &Facts, ours: &[&str], theirs: &[&str]| {
            explain(facts, &packet, &out(ours), &out(theirs))
        };
        facts.observe(&again, &status("OK"), &status("OK"));
        assert_eq!(judge(&facts, &["a"], &["a", "a"]), None);
        facts.observe(&insert, &status("OK"), &status("OK"));
        let known = Some("replicas-doubled");
        assert_eq!(judge(&facts, &["a"], &["a", "a"]), known);
        assert_eq!(judge(&facts, &["a", "b"], &["a", "a", "b"]), known);
        assert_eq!(judge(&facts, &["a"], &["a", "a", "a"]), None);
        assert_eq!(judge(&facts, &["a"], &["a", "b"]), None);
        assert_eq!(judge(&facts, &["a", "a"], &["a"]), None);
    }

    #[test]
    fn while_one_is_saved_bmv2_sends_no_digests() {
        let digest = "digest 7: x";
        let packet = Step::Packet {
            port: 1,
            frame: vec![0; 14],
        };
        let saved = after(&pushes(Action::VerifyAndSave, None), &status("OK"));
        let known = Some("digests-of-saved");
        assert_eq!(by_texts(&saved, &packet, &[digest], &[]), known);
        assert_eq!(by_texts(&Facts::default(), &packet, &[digest], &[]), None);
        assert_eq!(by_texts(&saved, &packet, &["packet-in"], &[]), None);
    }
}
