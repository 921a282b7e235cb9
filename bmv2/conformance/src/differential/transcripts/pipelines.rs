//! One program after another, in every way, and configurations that are none.

use std::time::Duration;

use anyhow::Result;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::forwarding_pipeline_config::Cookie;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;

use super::{Program, delete, insert, modify};
use crate::differential::cases::Case;
use crate::differential::pipeline::request;
use crate::differential::plan::{group, replica, session};
use crate::differential::reads;
use crate::differential::side::DEVICE;
use crate::differential::step::Step;

const OTHER_DEVICE: u64 = 99;

/// Long enough for what is sent at once.
const SOON: Duration = Duration::from_millis(100);

pub(super) fn all(clients: &Program<'_>, plain: &Program<'_>) -> Result<Vec<Case>> {
    let mut cases = vec![
        again(clients)?,
        saved(clients)?,
        saved_twice(clients)?,
        reconciled(clients)?,
        reconciled_without_counters(plain),
        nothing_saved(clients)?,
        of_whom(clients),
        from_nothing(clients)?,
    ];
    cases.extend(hostile(clients));
    Ok(cases)
}

fn push(action: Action, config: Option<p4::ForwardingPipelineConfig>) -> Step {
    Step::Pipeline(Box::new(request(action, config)))
}

/// The program anew, by the one with an election id.
pub(super) fn again_by(program: &Program<'_>, election_id: Option<p4::Uint128>) -> Step {
    let mut request = request(Action::VerifyAndCommit, Some(program.case.config()));
    request.election_id = election_id;
    Step::Pipeline(Box::new(request))
}

impl Program<'_> {
    fn with_cookie(&self, cookie: u64) -> p4::ForwardingPipelineConfig {
        p4::ForwardingPipelineConfig {
            cookie: Some(Cookie { cookie }),
            ..self.case.config()
        }
    }

    /// Everything of which a pipeline has one, read.
    fn reads(&self) -> Vec<Step> {
        let mut steps = reads::everything(self.info());
        steps.extend(what_is_there(DEVICE));
        steps
    }

    /// State of every kind.
    fn filled(&self) -> Result<Vec<Step>> {
        let mut steps = self.entries()?;
        steps.extend([insert(group_2()), insert(session_5())]);
        let counter = self.info().counters.first();
        let id = counter
            .and_then(|c| c.preamble.as_ref())
            .map_or(0, |p| p.id);
        steps.push(modify(Entity::CounterEntry(p4::CounterEntry {
            counter_id: id,
            index: Some(p4::Index { index: 3 }),
            data: Some(p4::CounterData {
                byte_count: 3000,
                packet_count: 30,
            }),
        })));
        steps.push(insert(self.digest_config()?));
        // What was kept back before comes now.
        steps.push(Step::Wait(SOON));
        steps.extend(self.packets());
        Ok(steps)
    }

    fn digest_config(&self) -> Result<Entity> {
        Ok(Entity::DigestEntry(p4::DigestEntry {
            digest_id: self.digest()?,
            config: Some(p4::digest_entry::Config {
                max_timeout_ns: 0,
                max_list_size: 1,
                ack_timeout_ns: 0,
            }),
        }))
    }

    /// What makes the program's packets leave: one to a group, one with a
    /// clone.
    fn entries(&self) -> Result<Vec<Step>> {
        let host = |to, action: &str, params: &[u128]| -> Result<Step> {
            let entry = self.entry("host", to, action, params)?;
            Ok(insert(Entity::TableEntry(entry)))
        };
        Ok(vec![
            host(0x0200_0000_0001, "host_broadcast", &[2])?,
            host(0x0200_0000_0002, "host_mirror", &[3])?,
            host(0xffff_ffff_ffff, "host_to_controller", &[])?,
        ])
    }
}

fn what_is_there(device: u64) -> Vec<Step> {
    let all = [
        ResponseType::All,
        ResponseType::CookieOnly,
        ResponseType::P4infoAndCookie,
        ResponseType::DeviceConfigAndCookie,
    ];
    let numbers = all.into_iter().map(i32::from).chain([9]);
    numbers
        .map(|what| Step::GetPipeline { device, what })
        .collect()
}

fn group_2() -> Entity {
    group(2, vec![replica(1, 5), replica(2, 5), replica(3, 6)])
}

fn session_5() -> Entity {
    session(5, vec![replica(4, 0)], 0)
}

/// The same program anew: what was written is gone, but not what bmv2's
/// replication engine has.
fn again(program: &Program<'_>) -> Result<Case> {
    let mut steps = program.filled()?;
    steps.extend(program.reads());
    steps.push(push(Action::VerifyAndCommit, Some(program.with_cookie(7))));
    steps.extend(program.reads());
    steps.extend(program.packets());
    steps.extend(program.reads());
    // The entries alone: the groups are there still.
    steps.extend(program.entries()?);
    steps.extend(program.packets());
    steps.extend([
        modify(group_2()),
        delete(group_2()),
        modify(session_5()),
        delete(session_5()),
    ]);
    steps.extend(program.filled()?);
    steps.extend(program.reads());
    // Gone again, and with it what was doubled.
    steps.extend([delete(group_2()), delete(session_5())]);
    steps.push(push(Action::VerifyAndCommit, Some(program.case.config())));
    steps.extend(program.reads());
    Ok(program.case("pipeline-again", steps))
}

/// First saved, then committed.
fn saved(program: &Program<'_>) -> Result<Case> {
    let mut steps = program.filled()?;
    steps.push(push(Action::VerifyAndSave, Some(program.with_cookie(8))));
    steps.extend(program.reads());
    // The old one runs on.
    steps.extend(program.packets());
    steps.extend(program.entries()?);
    steps.extend(program.reads());
    steps.push(push(Action::Commit, None));
    steps.extend(program.packets());
    steps.extend(program.reads());
    Ok(program.case("pipeline-saved", steps))
}

/// While one is saved, bmv2 takes no other.
fn saved_twice(program: &Program<'_>) -> Result<Case> {
    let mut steps = program.filled()?;
    for again in [Action::VerifyAndSave, Action::VerifyAndCommit] {
        let config = || Some(program.case.config());
        steps.extend([push(Action::VerifyAndSave, config()), push(again, config())]);
        steps.push(push(Action::Commit, None));
        steps.extend(program.reads());
        steps.extend(program.packets());
    }
    Ok(program.case("pipeline-saved-twice", steps))
}

/// bmv2 writes all counters and meters back by inserting them, which it
/// refuses.
fn reconciled(program: &Program<'_>) -> Result<Case> {
    let mut steps = program.filled()?;
    steps.push(push(
        Action::ReconcileAndCommit,
        Some(program.with_cookie(9)),
    ));
    // Of what it has loaded by then it can be rid only so.
    steps.push(push(Action::Commit, None));
    steps.push(push(Action::VerifyAndCommit, Some(program.case.config())));
    steps.extend(program.reads());
    steps.extend(program.packets());
    Ok(program.case("pipeline-reconciled", steps))
}

fn reconciled_without_counters(program: &Program<'_>) -> Case {
    let mut steps = program.packets();
    steps.push(insert(group_2()));
    steps.push(push(
        Action::ReconcileAndCommit,
        Some(program.with_cookie(9)),
    ));
    steps.extend(program.reads());
    steps.extend(program.packets());
    program.case("pipeline-reconciled-plain", steps)
}

/// A commit without anything to commit, and with something.
fn nothing_saved(program: &Program<'_>) -> Result<Case> {
    let mut steps = program.filled()?;
    steps.push(push(Action::Commit, None));
    steps.push(push(Action::Commit, Some(program.case.config())));
    steps.extend(program.reads());
    steps.extend(program.packets());
    steps.push(push(Action::VerifyAndSave, Some(program.case.config())));
    steps.push(push(Action::Commit, Some(program.case.config())));
    // For the one that did not take it.
    steps.push(push(Action::Commit, None));
    steps.extend(program.reads());
    Ok(program.case("pipeline-nothing-saved", steps))
}

/// By those who may not, and for another device.
fn of_whom(program: &Program<'_>) -> Case {
    let right = || request(Action::VerifyAndCommit, Some(program.case.config()));
    let mut wrong = vec![right(); 4];
    let [backup, nobody, elsewhere, unknown] = wrong.as_mut_slice() else {
        return program.case("pipeline-of-whom", Vec::new());
    };
    backup.election_id = Some(p4::Uint128 { high: 1, low: 1 });
    nobody.election_id = None;
    elsewhere.device_id = OTHER_DEVICE;
    unknown.action = 9;
    let mut steps: Vec<Step> = wrong
        .into_iter()
        .map(|r| Step::Pipeline(Box::new(r)))
        .collect();
    steps.push(push(Action::Unspecified, Some(program.case.config())));
    steps.extend(what_is_there(OTHER_DEVICE));
    steps.extend(program.reads());
    steps.extend(program.packets());
    program.case("pipeline-of-whom", steps)
}

/// Before there is a program.
fn from_nothing(program: &Program<'_>) -> Result<Case> {
    // Without packets: bmv2 keeps the first until there is a program.
    let mut steps = program.entries()?;
    steps.extend(program.reads());
    steps.push(Step::PacketOut {
        payload: vec![0; 60],
        metadata: Vec::new(),
    });
    steps.push(push(Action::Commit, None));
    steps.push(push(Action::Verify, Some(program.case.config())));
    steps.push(push(Action::VerifyAndSave, Some(program.with_cookie(1))));
    steps.extend(program.reads());
    steps.extend(program.entries()?);
    steps.push(push(Action::Commit, None));
    steps.extend(program.reads());
    steps.extend(program.packets());
    Ok(program.bare_case("pipeline-from-nothing", steps))
}

/// Configurations that are none, each in a case of its own, since bmv2 takes
/// half of some.
fn hostile(program: &Program<'_>) -> Vec<Case> {
    let whole = || program.case.config();
    let mut other_info = whole();
    if let Some(info) = &mut other_info.p4info {
        for table in &mut info.tables {
            if let Some(preamble) = &mut table.preamble {
                preamble.name.push_str("_of_another");
            }
        }
    }
    let without_info = p4::ForwardingPipelineConfig {
        p4info: None,
        ..whole()
    };
    let program_of = |bytes: &[u8]| p4::ForwardingPipelineConfig {
        p4_device_config: bytes.to_vec(),
        ..whole()
    };
    let nothing = p4::ForwardingPipelineConfig {
        p4info: Some(P4Info::default()),
        ..p4::ForwardingPipelineConfig::default()
    };
    let all = [
        ("no-config", None),
        ("no-info", Some(without_info)),
        ("no-program", Some(program_of(b""))),
        ("nothing", Some(nothing)),
        ("garbage", Some(program_of(b"\xff garbage"))),
        (
            "half-a-program",
            Some(program_of(
                whole().p4_device_config.get(..999).unwrap_or_default(),
            )),
        ),
        ("another-info", Some(other_info)),
    ];
    let case = |(name, config): (&str, Option<p4::ForwardingPipelineConfig>)| {
        let mut steps = program.packets();
        steps.push(push(Action::Verify, config.clone()));
        steps.extend(what_is_there(DEVICE));
        steps.push(push(Action::VerifyAndCommit, config));
        // Whatever it has loaded by now goes, and the program comes.
        steps.push(push(Action::Commit, None));
        steps.push(push(Action::VerifyAndCommit, Some(whole())));
        steps.extend(program.reads());
        steps.extend(program.packets());
        program.case(&format!("pipeline-{name}"), steps)
    };
    all.into_iter().map(case).collect()
}
