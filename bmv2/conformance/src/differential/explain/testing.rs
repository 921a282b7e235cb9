//! What the tests of explanations share.

use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{self as p4, ForwardingPipelineConfig, update::Type};

use super::{Facts, explain};
use crate::differential::generate::update;
use crate::differential::pipeline::request;
use crate::differential::step::{Outcome, Step};

/// A call that ended so.
pub(super) fn status(text: &str) -> Outcome {
    Outcome {
        status: Some(text.into()),
        ..Outcome::default()
    }
}

/// These messages.
pub(super) fn heard(texts: &[&str]) -> Outcome {
    Outcome {
        messages: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..Outcome::default()
    }
}

/// The explanation of two statuses.
pub(super) fn by_status(
    facts: &Facts,
    step: &Step,
    ours: &str,
    theirs: &str,
) -> Option<&'static str> {
    explain(facts, step, &status(ours), &status(theirs))
}

/// The explanation of different messages.
pub(super) fn by_texts(
    facts: &Facts,
    step: &Step,
    ours: &[&str],
    theirs: &[&str],
) -> Option<&'static str> {
    explain(facts, step, &heard(ours), &heard(theirs))
}

/// What is known once a step was taken on which both agreed.
pub(super) fn after(step: &Step, outcome: &Outcome) -> Facts {
    let mut facts = Facts::default();
    facts.observe(step, outcome, outcome);
    facts
}

pub(super) fn pushes(action: Action, config: Option<ForwardingPipelineConfig>) -> Step {
    Step::Pipeline(Box::new(request(action, config)))
}

pub(super) fn reads(entity: Entity) -> Step {
    Step::Read(vec![p4::Entity {
        entity: Some(entity),
    }])
}

pub(super) fn inserts(entity: Entity) -> Step {
    Step::Write(vec![update(Type::Insert, entity)])
}
