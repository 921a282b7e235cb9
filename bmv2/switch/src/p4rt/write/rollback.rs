//! ROLLBACK_ON_ERROR: all updates of a batch or none.
//!
//! What takes an update back is noted while it is carried out, in the switch
//! as well as in the server's own records, of which a copy is kept.

use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use tonic::Code;

use super::Batch;
use crate::Timestamp;
use crate::p4rt::fault::{Fault, Outcome};
use crate::p4rt::target::Target;

/// Carries out the updates in order until one fails, and then takes back those
/// before it. Returns one outcome for each.
pub(in crate::p4rt) fn execute_or_take_back(
    target: &mut Target,
    now: Timestamp,
    updates: Vec<p4::Update>,
) -> Vec<Outcome<()>> {
    let total = updates.len();
    let before = target.clone();
    let pipeline = Arc::clone(&target.pipeline);
    let journal = target.switch.journal();
    let mut batch = Batch::new(target, &pipeline.binding, now, total, journal);
    let _ = updates.into_iter().all(|update| batch.carry_out(update));
    batch.flush();
    // Of what waits to be carried out, an earlier one may have failed since.
    let failed = batch.outcomes.iter().position(Result::is_err);
    let Some(position) = failed else {
        return batch.outcomes;
    };
    let Batch {
        outcomes, journal, ..
    } = batch;
    target.switch.take_back(journal);
    *target = before;
    match outcomes.into_iter().nth(position) {
        Some(Err(fault)) => aborted(total, position, &fault),
        _ => Vec::new(),
    }
}

/// The outcomes of a batch that one of its updates spoilt.
pub(super) fn aborted(total: usize, position: usize, fault: &Fault) -> Vec<Outcome<()>> {
    let aborted = |what| Err(Fault::new(Code::Aborted, what));
    (0..total)
        .map(|other| match other.cmp(&position) {
            std::cmp::Ordering::Less => aborted("rolled back, since a later update failed"),
            std::cmp::Ordering::Equal => Err(fault.clone()),
            std::cmp::Ordering::Greater => aborted("not attempted, since an earlier update failed"),
        })
        .collect()
}
