//! DATAPLANE_ATOMIC for batches of plain table entries: decoded first, then
//! published in one step.

use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type as UpdateType;

use super::super::binding::Binding;
use super::super::fault::Outcome;
use super::super::target::Target;
use super::rollback::aborted;
use super::{Batch, refusal};
use crate::Timestamp;
use crate::switch::Journal;

/// Whether updates only add, change or remove entries that name their action:
/// what becomes operations on the switch without a look at its state.
pub(in super::super) fn is_plain(binding: &Binding, updates: &[p4::Update]) -> bool {
    updates.iter().all(|update| {
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        let Some(Entity::TableEntry(entry)) = entity else {
            return false;
        };
        let direct = |id| binding.table(id).is_ok_and(|t| t.profile.is_none());
        !entry.is_default_action
            && direct(entry.table_id)
            && (update.r#type() == UpdateType::Delete || entry.action.is_some())
    })
}

/// Carries out plain updates, all or none, such that every packet sees all or
/// none of them. Returns one outcome for each.
pub(in super::super) fn execute_atomic(
    target: &mut Target,
    now: Timestamp,
    updates: Vec<p4::Update>,
) -> Vec<Outcome<()>> {
    let total = updates.len();
    let pipeline = Arc::clone(&target.pipeline);
    let mut batch = Batch::new(target, &pipeline.binding, now, total, Journal::off());
    for (position, update) in updates.into_iter().enumerate() {
        batch.outcomes.push(Ok(()));
        if let Err(fault) = batch.update(update) {
            return aborted(total, position, &fault);
        }
    }
    match batch.target.switch.apply_atomic(now, &batch.ops) {
        Ok(()) => batch.outcomes,
        Err(failed) => {
            let position = batch.owners.get(failed.at).copied().unwrap_or(0);
            let fault = refusal(batch.target.mode, failed.error);
            aborted(total, position, &fault)
        }
    }
}
