//! ROLLBACK_ON_ERROR: all updates of a batch or none. Before each update the
//! entity is read; if a later one fails, what was read is written back, in
//! reverse order.

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use tonic::Code;

use super::fault::{Fault, Outcome};
use super::target::Target;
use super::{read, write};
use crate::Timestamp;

/// Carries out the updates in order until one fails, and then takes back those
/// before it. Returns one outcome for each.
pub(super) fn execute(
    target: &mut Target,
    now: Timestamp,
    updates: Vec<p4::Update>,
) -> Vec<Outcome<()>> {
    let total = updates.len();
    let mut undo: Vec<p4::Update> = Vec::new();
    for (position, update) in updates.into_iter().enumerate() {
        let inverse = inverse(target, now, &update);
        let outcome = write::execute(target, now, vec![update]).pop();
        let Some(Err(fault)) = outcome else {
            undo.extend(inverse);
            continue;
        };
        undo.reverse();
        let failed = write::execute(target, now, undo)
            .into_iter()
            .filter_map(Result::err);
        for fault in failed {
            tracing::error!(%fault, "an update could not be rolled back");
        }
        return aborted(total, position, &fault);
    }
    vec![Ok(()); total]
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

/// The updates that take an update back, the last one first. An update that
/// is going to fail has none.
fn inverse(target: &Target, now: Timestamp, update: &p4::Update) -> Vec<p4::Update> {
    let Some(entity) = update.entity.as_ref().and_then(|e| e.entity.as_ref()) else {
        return Vec::new();
    };
    if update.r#type() == UpdateType::Insert {
        let mut entity = entity.clone();
        if let Entity::TableEntry(entry) = &mut entity {
            entry.action = None;
        }
        return vec![make(UpdateType::Delete, entity)];
    }
    let mut old = Vec::new();
    let query = p4::Entity {
        entity: Some(query(entity)),
    };
    let mut take = |entity| {
        old.push(entity);
        Ok(())
    };
    if read::answer(target, now, &query, &mut take).is_err() {
        return Vec::new();
    }
    let kind = match update.r#type() {
        UpdateType::Delete => UpdateType::Insert,
        _ => UpdateType::Modify,
    };
    old.into_iter()
        .filter(|old| is_same(entity, old))
        .map(|mut old| {
            if let Entity::TableEntry(entry) = &mut old {
                entry.time_since_last_hit = None;
            }
            make(kind, old)
        })
        .collect()
}

/// A query for the entity, direct resources included.
fn query(entity: &Entity) -> Entity {
    match entity {
        Entity::TableEntry(entry) => Entity::TableEntry(p4::TableEntry {
            table_id: entry.table_id,
            r#match: entry.r#match.clone(),
            priority: entry.priority,
            is_default_action: entry.is_default_action,
            counter_data: Some(p4::CounterData::default()),
            meter_config: Some(p4::MeterConfig::default()),
            ..p4::TableEntry::default()
        }),
        Entity::MeterEntry(meter) => Entity::MeterEntry(p4::MeterEntry {
            counter_data: None,
            ..*meter
        }),
        other => other.clone(),
    }
}

/// Whether what was read is the entity itself: a key without any match field
/// reads as a wildcard.
fn is_same(wanted: &Entity, read: &Entity) -> bool {
    match (wanted, read) {
        (Entity::TableEntry(wanted), Entity::TableEntry(read)) => {
            wanted.is_default_action || (wanted.r#match.len() == read.r#match.len())
        }
        _ => true,
    }
}

fn make(kind: UpdateType, entity: Entity) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    }
}
