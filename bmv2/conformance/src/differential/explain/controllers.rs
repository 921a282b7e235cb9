//! The differences in what controllers may do and are told, one after the
//! other.

use p4runtime_proto::p4::v1::{MasterArbitrationUpdate, WriteRequest};

use super::state::arbitration;
use super::text::{is_part, without};
use super::{Aspect, Known};
use crate::differential::canonical::{ARBITRATION, ENDED, STREAM_ERROR};
use crate::differential::side::DEVICE;
use crate::differential::step::Step;

/// All of them.
pub(super) const KNOWN: &[Known] = &[
    Known {
        id: "atomic-writes",
        about: &[Aspect::Status],
        applies: |seen| {
            let theirs = seen.theirs.status.as_deref();
            write(seen.step).is_some_and(|request| request.atomicity != 0)
                && theirs == Some("UNIMPLEMENTED")
        },
    },
    Known {
        id: "no-such-device",
        about: &[Aspect::Status],
        applies: |seen| {
            let codes = ["PERMISSION_DENIED", "FAILED_PRECONDITION"];
            device(seen.step) != DEVICE && seen.call_differs("NOT_FOUND", &codes)
        },
    },
    Known {
        id: "no-such-device-arbitration",
        about: &[Aspect::Output],
        applies: |seen| {
            let elsewhere = |update: &MasterArbitrationUpdate| update.device_id != DEVICE;
            let refused = |text: &String| text.ends_with(&format!("{ENDED}NOT_FOUND"));
            let taken = |text: &String| text.contains(ARBITRATION);
            let ended = |text: &String| text.ends_with(&format!("{ENDED}OK"));
            let (ours, theirs) = (&seen.ours.messages, &seen.theirs.messages);
            match seen.step {
                Step::Close(stream) => {
                    let said = seen.facts.state.streams.get(stream);
                    said.is_some_and(elsewhere)
                        && ours.is_empty()
                        && matches!(theirs.as_slice(), [text] if ended(text))
                }
                step => {
                    arbitration(step).is_some_and(elsewhere)
                        && matches!(ours.as_slice(), [text] if refused(text))
                        && matches!(theirs.as_slice(), [text] if taken(text))
                }
            }
        },
    },
    Known {
        id: "roles",
        about: &[Aspect::Status],
        applies: |seen| {
            let of_role = |request: &WriteRequest| !request.role.is_empty() || request.role_id != 0;
            match write(seen.step) {
                Some(request) if of_role(request) => seen.call_differs("NOT_FOUND", &["OK"]),
                Some(_) => {
                    // To bmv2 the primary of a role is that of the switch.
                    seen.facts.state.streams.values().any(has_role)
                        && (seen.call_differs("OK", &["PERMISSION_DENIED"])
                            || seen.call_differs("UNKNOWN", &["PERMISSION_DENIED"])
                            || seen.call_differs("PERMISSION_DENIED", &["OK", "UNKNOWN"]))
                }
                None => false,
            }
        },
    },
    Known {
        id: "roles-arbitration",
        about: &[Aspect::Output],
        applies: |seen| {
            let concerned = match seen.step {
                Step::Close(stream) => seen.facts.state.streams.get(stream),
                step => arbitration(step),
            };
            concerned.is_some_and(has_role) && seen.is_about_primaries()
        },
    },
    Known {
        id: "election-id-unset",
        about: &[Aspect::Status],
        applies: |seen| {
            let is_0 = |request: &WriteRequest| {
                let id = request.election_id.unwrap_or_default();
                (id.high, id.low) == (0, 0)
            };
            write(seen.step).is_some_and(is_0)
                && seen.facts.state.streams.values().any(has_no_id)
                && seen.call_differs("PERMISSION_DENIED", &["OK", "UNKNOWN"])
        },
    },
    Known {
        id: "election-id-unset-arbitration",
        about: &[Aspect::Output],
        applies: |seen| {
            let concerned = match seen.step {
                Step::Close(_) => seen.facts.state.streams.values().any(has_no_id),
                step => arbitration(step).is_some_and(has_no_id),
            };
            concerned && seen.is_about_primaries()
        },
    },
    Known {
        id: "arbitration-notices",
        about: &[Aspect::Output],
        applies: |seen| {
            let Step::Tell { stream, .. } = seen.step else {
                return false;
            };
            let known = seen.facts.state.streams.contains_key(stream);
            known && arbitration(seen.step).is_some() && seen.only_more(ARBITRATION)
        },
    },
    Known {
        id: "same-election-id",
        about: &[Aspect::Status],
        applies: |seen| {
            seen.facts.state.same_id
                && write(seen.step).is_some()
                && (seen.call_differs("OK", &["PERMISSION_DENIED"])
                    || seen.call_differs("UNKNOWN", &["PERMISSION_DENIED"]))
        },
    },
    Known {
        id: "same-election-id-arbitration",
        about: &[Aspect::Output],
        applies: |seen| {
            let Step::Tell { stream, .. } = seen.step else {
                return false;
            };
            let ended = |text: &String| text.ends_with(&format!("{ENDED}INVALID_ARGUMENT"));
            let (ours, theirs) = (&seen.ours.messages, &seen.theirs.messages);
            // Another becomes primary, since the one with that id is forgotten.
            let more = without(theirs, ours);
            arbitration(seen.step).is_some()
                && seen.facts.state.streams.contains_key(stream)
                && matches!(ours.as_slice(), [text] if ended(text))
                && is_part(ours, theirs)
                && more.iter().all(|text| text.contains(ARBITRATION))
                && seen.ours.frames == seen.theirs.frames
        },
    },
    Known {
        id: "stream-errors",
        about: &[Aspect::Output],
        applies: |seen| {
            matches!(seen.step, Step::Tell { .. } | Step::PacketOut { .. })
                && arbitration(seen.step).is_none()
                && seen.only_more(STREAM_ERROR)
        },
    },
];

fn write(step: &Step) -> Option<&WriteRequest> {
    match step {
        Step::WriteAs(request) => Some(request),
        _ => None,
    }
}

/// For which device a call is.
fn device(step: &Step) -> u64 {
    match step {
        Step::WriteAs(request) => request.device_id,
        Step::ReadAs(request) => request.device_id,
        Step::Pipeline(request) => request.device_id,
        Step::GetPipeline { device, .. } => *device,
        _ => DEVICE,
    }
}

fn has_role(update: &MasterArbitrationUpdate) -> bool {
    let role = update.role.as_ref();
    role.is_some_and(|role| !role.name.is_empty() || role.id != 0)
}

fn has_no_id(update: &MasterArbitrationUpdate) -> bool {
    update.election_id.is_none()
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
    use p4runtime_proto::p4::v1::{PacketOut, Role, StreamMessageRequest, Uint128};

    use super::super::testing::{after, by_status, by_texts, heard};
    use super::super::{Facts, explain};
    use super::*;
    use crate::differential::step::Outcome;

    fn writes(change: impl FnOnce(&mut WriteRequest)) -> Step {
        let mut request = WriteRequest {
            device_id: DEVICE,
            election_id: Some(Uint128 { high: 0, low: 1 }),
            ..WriteRequest::default()
        };
        change(&mut request);
        Step::WriteAs(Box::new(request))
    }

    fn says(stream: usize, change: impl FnOnce(&mut MasterArbitrationUpdate)) -> Step {
        let mut update = MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: Some(Uint128 { high: 0, low: 5 }),
            ..MasterArbitrationUpdate::default()
        };
        change(&mut update);
        Step::Tell {
            stream,
            message: StreamMessageRequest {
                update: Some(Up::Arbitration(update)),
            },
        }
    }

    const NOTICE: &str = "arbitration: device 1, role None, election id Some((0, 5)), status OK";

    #[test]
    fn only_batches_that_are_to_be_atomic_may_be_unknown_to_bmv2() {
        let facts = Facts::default();
        let judge = |atomicity, theirs| {
            let step = writes(|request| request.atomicity = atomicity);
            by_status(&facts, &step, "OK", theirs)
        };
        assert_eq!(judge(1, "UNIMPLEMENTED"), Some("atomic-writes"));
        assert_eq!(judge(0, "UNIMPLEMENTED"), None);
        assert_eq!(judge(1, "INTERNAL"), None);
    }

    #[test]
    fn other_devices_are_unknown_here() {
        let facts = Facts::default();
        let judge = |device, ours, theirs| {
            let step = writes(|request| request.device_id = device);
            by_status(&facts, &step, ours, theirs)
        };
        let known = Some("no-such-device");
        assert_eq!(judge(9, "NOT_FOUND", "PERMISSION_DENIED"), known);
        assert_eq!(judge(9, "NOT_FOUND", "FAILED_PRECONDITION"), known);
        assert_eq!(judge(DEVICE, "NOT_FOUND", "PERMISSION_DENIED"), None);
        assert_eq!(judge(9, "NOT_FOUND", "OK"), None);
        let step = |device| says(2, |update| update.device_id = device);
        let ours = ["controller 2: ended NOT_FOUND"];
        let theirs = ["controller 2: arbitration: device 9"];
        let known = Some("no-such-device-arbitration");
        assert_eq!(by_texts(&facts, &step(9), &ours, &theirs), known);
        assert_eq!(by_texts(&facts, &step(DEVICE), &ours, &theirs), None);
        assert_eq!(by_texts(&facts, &step(9), &ours, &[]), None);
        // bmv2 has a stream left to end.
        let facts = after(&step(9), &Outcome::default());
        let close = Step::Close(2);
        let ended = ["controller 2: ended OK"];
        assert_eq!(by_texts(&facts, &close, &[], &ended), known);
        assert_eq!(by_texts(&Facts::default(), &close, &[], &ended), None);
    }

    #[test]
    fn roles_are_nothing_to_bmv2() {
        let role = Role {
            name: "learner".into(),
            ..Role::default()
        };
        let facts = Facts::default();
        let step = |name: &str| writes(|request| request.role = name.into());
        assert_eq!(
            by_status(&facts, &step("x"), "NOT_FOUND", "OK"),
            Some("roles")
        );
        assert_eq!(by_status(&facts, &step(""), "NOT_FOUND", "OK"), None);
        let says = |role| says(1, |update| update.role = role);
        let (ours, theirs) = ([NOTICE], ["controller 1: ended INVALID_ARGUMENT"]);
        let known = Some("roles-arbitration");
        assert_eq!(
            by_texts(&facts, &says(Some(role.clone())), &ours, &theirs),
            known
        );
        assert_eq!(by_texts(&facts, &says(None), &ours, &theirs), None);
        let packet = ["packet-in : 00"];
        assert_eq!(
            by_texts(&facts, &says(Some(role.clone())), &ours, &packet),
            None
        );
        // Whose primary may not be the switch's.
        let facts = after(&says(Some(role)), &Outcome::default());
        let own = step("");
        assert_eq!(
            by_status(&facts, &own, "OK", "PERMISSION_DENIED"),
            Some("roles")
        );
        assert_eq!(
            by_status(&Facts::default(), &own, "OK", "PERMISSION_DENIED"),
            None
        );
    }

    #[test]
    fn no_election_id_is_0_to_bmv2() {
        let unset = |stream| says(stream, |update| update.election_id = None);
        let step = writes(|request| request.election_id = None);
        let with = writes(|_| {});
        let facts = after(&unset(1), &Outcome::default());
        let judge = |facts: &Facts, step: &Step| by_status(facts, step, "PERMISSION_DENIED", "OK");
        assert_eq!(judge(&facts, &step), Some("election-id-unset"));
        assert_eq!(judge(&facts, &with), None);
        assert_eq!(judge(&Facts::default(), &step), None);
        let (ours, theirs) = (
            ["controller 2: arbitration: x"],
            ["controller 2: ended INVALID"],
        );
        let known = Some("election-id-unset-arbitration");
        assert_eq!(by_texts(&facts, &unset(2), &ours, &theirs), known);
        assert_eq!(by_texts(&facts, &says(2, |_| {}), &ours, &theirs), None);
        assert_eq!(by_texts(&facts, &Step::Close(0), &ours, &theirs), known);
        assert_eq!(
            by_texts(&Facts::default(), &Step::Close(0), &ours, &theirs),
            None
        );
    }

    #[test]
    fn bmv2_tells_less_of_primaries() {
        let step = says(1, |_| {});
        let again = after(&step, &heard(&[NOTICE]));
        let known = Some("arbitration-notices");
        assert_eq!(by_texts(&again, &step, &[NOTICE], &[]), known);
        assert_eq!(by_texts(&Facts::default(), &step, &[NOTICE], &[]), None);
        assert_eq!(by_texts(&again, &step, &[], &[NOTICE]), None);
        assert_eq!(by_texts(&again, &step, &["ended OK"], &[]), None);
    }

    #[test]
    fn a_stream_that_takes_the_id_of_another_ends_both() {
        let step = says(2, |_| {});
        let mut facts = after(
            &says(2, |update| update.election_id = None),
            &Outcome::default(),
        );
        let ended = heard(&["controller 2: ended INVALID_ARGUMENT"]);
        facts.observe(&step, &ended, &ended);
        let known = Some("same-election-id-arbitration");
        let (ours, theirs) = (
            ["x ended INVALID_ARGUMENT"],
            [NOTICE, "x ended INVALID_ARGUMENT"],
        );
        assert_eq!(by_texts(&facts, &step, &ours, &theirs), known);
        assert_eq!(by_texts(&Facts::default(), &step, &ours, &theirs), None);
        let judge = |facts: &Facts| by_status(facts, &writes(|_| {}), "OK", "PERMISSION_DENIED");
        assert_eq!(judge(&facts), Some("same-election-id"));
        // One that begins so is only refused.
        assert_eq!(judge(&after(&step, &ended)), None);
    }

    #[test]
    fn errors_on_a_stream_are_ours_alone() {
        let facts = Facts::default();
        let step = Step::Tell {
            stream: 1,
            message: StreamMessageRequest {
                update: Some(Up::Packet(PacketOut::default())),
            },
        };
        let error = "controller 1: stream error PERMISSION_DENIED";
        assert_eq!(
            by_texts(&facts, &step, &[error], &[]),
            Some("stream-errors")
        );
        assert_eq!(by_texts(&facts, &step, &[], &[error]), None);
        assert_eq!(by_texts(&facts, &step, &[NOTICE], &[]), None);
        let mut sent = Outcome::default();
        sent.frames.insert(1, vec!["00".into()]);
        assert_eq!(explain(&facts, &step, &heard(&[error]), &sent), None);
    }
}
