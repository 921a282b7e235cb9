//! The task that writes to the switch, one batch at a time and in order.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Event;
use crate::dataplane::{Count, Dataplane, Lost, Update};
use crate::flows::{Batch, BatchOutcome};

/// Something to write.
pub(super) enum Job {
    /// Flow updates, one Write.
    Flows(Batch),
    /// Configuration, one Write after the other.
    Config(Vec<Vec<Update>>),
}

/// Writes until the core lets go of the sender or the connection is lost.
pub(super) async fn run(
    dataplane: Arc<dyn Dataplane>,
    epoch: u64,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    events: mpsc::Sender<Event>,
) {
    while let Some(job) = jobs.recv().await {
        let result = match job {
            Job::Flows(batch) => flows(&*dataplane, epoch, batch, &events).await,
            Job::Config(batches) => config(&*dataplane, epoch, batches, &events).await,
        };
        if let Err(lost) = result {
            let _ = events.send(Event::CallLost { epoch, lost }).await;
            return;
        }
    }
}

async fn flows(
    dataplane: &dyn Dataplane,
    epoch: u64,
    batch: Batch,
    events: &mpsc::Sender<Event>,
) -> Result<(), Lost> {
    // Final counters are read before the entries go.
    let counts: HashMap<_, Count> = if batch.read_first.is_empty() {
        HashMap::new()
    } else {
        dataplane
            .read_entries(batch.read_first.clone())
            .await?
            .into_iter()
            .filter_map(|reading| Some((reading.entry.key, reading.count?)))
            .collect()
    };
    let outcomes = dataplane.write(batch.updates.clone()).await?;
    let outcome = BatchOutcome {
        counts,
        outcomes: Some(outcomes),
    };
    let event = Event::FlowsWritten {
        epoch,
        batch,
        outcome,
    };
    let _ = events.send(event).await;
    Ok(())
}

async fn config(
    dataplane: &dyn Dataplane,
    epoch: u64,
    batches: Vec<Vec<Update>>,
    events: &mpsc::Sender<Event>,
) -> Result<(), Lost> {
    let count = batches.len();
    for (index, updates) in batches.into_iter().enumerate() {
        let outcomes = dataplane.write(updates.clone()).await?;
        let event = Event::ConfigWritten {
            epoch,
            updates,
            outcomes,
            last: index + 1 == count,
        };
        let _ = events.send(event).await;
    }
    Ok(())
}
