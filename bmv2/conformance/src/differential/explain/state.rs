//! What the steps so far have left in both switches, as far as differences
//! depend on it.

use std::collections::{BTreeMap, BTreeSet};

use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replicated;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::{
    IdleTimeoutNotification, MasterArbitrationUpdate, TableEntry, Update,
};

use super::each_status;
use crate::differential::canonical;
use crate::differential::step::{Outcome, Step, StreamNumber};

/// What there is.
#[derive(Debug, Default)]
pub(super) struct State {
    /// What became of multicast groups and clone sessions.
    pub(super) replication: Replication,
    /// What the open streams said last of who they are.
    pub(super) streams: BTreeMap<StreamNumber, MasterArbitrationUpdate>,
    /// A stream took the election id of another.
    pub(super) same_id: bool,
    /// bmv2 has loaded a program that does not run.
    pub(super) loaded: bool,
    /// A digest was switched on since anybody listened for long.
    pub(super) digest_was_off: bool,
    /// What notices of idle entries that are gone would say.
    pub(super) gone: BTreeSet<String>,
    /// softswitch kept everything when its program came anew.
    pub(super) reconciled: bool,
}

impl State {
    /// Notes what came of a step.
    pub(super) fn observe(&mut self, step: &Step, ours: &Outcome, theirs: &Outcome) {
        match step {
            Step::Tell { stream, .. } => {
                if let Some(update) = arbitration(step) {
                    let ended = |message: &String| message.contains("ended INVALID_ARGUMENT");
                    let again = self.streams.insert(*stream, update.clone()).is_some();
                    self.same_id |= again && theirs.messages.iter().any(ended);
                }
            }
            Step::Close(stream) => {
                self.streams.remove(stream);
            }
            Step::Pipeline(request) => self.pushed(step, request.action(), ours, theirs),
            Step::Wait(_) => self.digest_was_off = false,
            _ => {}
        }
        for update in taken(step, theirs) {
            self.replication.written(update);
            let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
            if let (Type::Delete, Some(Entity::TableEntry(entry))) = (update.r#type(), entity) {
                self.gone.extend(idle_texts(entry));
            }
            let digest = matches!(entity, Some(Entity::DigestEntry(_)));
            self.digest_was_off |= digest && update.r#type() == Type::Insert;
        }
    }

    fn pushed(&mut self, step: &Step, action: Action, ours: &Outcome, theirs: &Outcome) {
        let ok = |outcome: &Outcome| outcome.status.as_deref() == Some("OK");
        if ok(ours) {
            self.reconciled = action == Action::ReconcileAndCommit;
        }
        if runs_another(step) && ok(theirs) || action == Action::VerifyAndSave && ok(theirs) {
            self.replication.forget();
        }
        self.loaded = match action {
            Action::Unspecified | Action::Verify => self.loaded,
            Action::VerifyAndSave => self.loaded || ok(theirs),
            Action::Commit => self.loaded && !ok(theirs),
            // It has begun with one that it then refused, or had another.
            _ => !ok(theirs),
        };
    }
}

/// What a notice that this entry is idle says.
pub(super) fn idle_texts(entry: &TableEntry) -> Vec<String> {
    let entry = TableEntry {
        counter_data: None,
        meter_config: None,
        ..entry.clone()
    };
    canonical::idle(IdleTimeoutNotification {
        table_entry: vec![entry],
        timestamp: 0,
    })
}

/// Whether a step is to give a switch another program.
pub(super) fn runs_another(step: &Step) -> bool {
    let Step::Pipeline(request) = step else {
        return false;
    };
    use Action::{Commit, ReconcileAndCommit, VerifyAndCommit};
    matches!(
        request.action(),
        Commit | ReconcileAndCommit | VerifyAndCommit
    )
}

/// What a stream says of who it is.
pub(super) fn arbitration(step: &Step) -> Option<&MasterArbitrationUpdate> {
    match step {
        Step::Tell { message, .. } => match message.update.as_ref()? {
            Up::Arbitration(update) => Some(update),
            _ => None,
        },
        _ => None,
    }
}

/// The updates of a step that were carried out.
pub(super) fn taken<'s>(step: &'s Step, outcome: &Outcome) -> Vec<&'s Update> {
    let statuses = each_status(outcome);
    // A call that succeeded or failed as a whole has one for all.
    let status = |at: usize| statuses.get(if statuses.len() == 1 { 0 } else { at });
    let updates = step.updates().iter().enumerate();
    let taken = updates.filter(|(at, _)| status(*at).is_some_and(|status| status == "OK"));
    taken.map(|(_, update)| update).collect()
}

/// Multicast groups (`false`) and clone sessions (`true`), by number.
type Copies = BTreeSet<(bool, u32)>;

/// The groups and sessions that bmv2's server has forgotten with an earlier
/// program, while its replication engine goes on.
#[derive(Debug, Default)]
pub(super) struct Replication {
    known: Copies,
    forgotten: Copies,
    /// Inserted again: they have their former replicas beside the new ones.
    pub(super) doubled: Copies,
}

impl Replication {
    fn forget(&mut self) {
        self.forgotten.append(&mut self.known);
    }

    fn written(&mut self, update: &Update) {
        let Some(id) = update
            .entity
            .as_ref()
            .and_then(|e| copies(e.entity.as_ref()?))
        else {
            return;
        };
        match update.r#type() {
            Type::Insert => {
                self.known.insert(id);
                if self.forgotten.contains(&id) {
                    self.doubled.insert(id);
                }
            }
            Type::Delete => {
                self.known.remove(&id);
            }
            _ => {}
        }
    }
}

/// Which group or session an entity is.
fn copies(entity: &Entity) -> Option<(bool, u32)> {
    let Entity::PacketReplicationEngineEntry(entry) = entity else {
        return None;
    };
    match entry.r#type.as_ref()? {
        Replicated::MulticastGroupEntry(group) => Some((false, group.multicast_group_id)),
        Replicated::CloneSessionEntry(session) => Some((true, session.session_id)),
    }
}
