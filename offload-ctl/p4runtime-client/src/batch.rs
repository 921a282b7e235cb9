//! Cutting a list of updates into batches.
//!
//! The order of the updates inside one WriteRequest is undefined (specification,
//! "Batching and Ordering of Updates"), so what depends on order must be in
//! different requests. A cut is made before an update that
//!
//! - concerns an entity that the batch already has,
//! - is of another rank of dependency: members come before the groups that name
//!   them, and both before the entries that name those, or
//! - would exceed the limits.

use std::collections::HashSet;

use p4runtime_proto::p4::v1::{Update, entity::Entity as Kind};
use prost::Message;

use crate::key::entity_key;

/// How large one WriteRequest may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Updates in one request, at least 1.
    pub updates: usize,
    /// Encoded bytes of the updates in one request. A single update may exceed
    /// it.
    pub bytes: usize,
}

impl BatchLimits {
    /// 1,000 updates: beyond that the rate no longer grows, while the account
    /// of a batch that fails throughout (about 100 bytes an update, in an HTTP/2
    /// trailer) does.
    pub const UPDATES: usize = 1_000;

    /// 3 MiB: gRPC servers accept messages of 4 MiB unless told otherwise.
    pub const BYTES: usize = 3 * 1024 * 1024;

    /// Half as many updates, for a batch of `sent` that was too large.
    pub(crate) fn halved(self, sent: usize) -> Self {
        Self {
            updates: (sent / 2).max(1),
            bytes: self.bytes,
        }
    }
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            updates: Self::UPDATES,
            bytes: Self::BYTES,
        }
    }
}

/// How many of the first of `updates` go into the next request; 0 only when
/// there are none.
pub(crate) fn next_batch(updates: &[Update], limits: BatchLimits) -> usize {
    let Some(first) = updates.first() else {
        return 0;
    };
    let mut keys = HashSet::new();
    let mut bytes = 0;
    let mut count = 0;
    for update in updates.iter().take(limits.updates.max(1)) {
        bytes += framed_len(update);
        let fits = bytes <= limits.bytes && rank(update) == rank(first);
        if count > 0 && !fits {
            break;
        }
        let key = update.entity.as_ref().and_then(entity_key);
        if key.is_some_and(|key| !keys.insert(key)) {
            break;
        }
        count += 1;
    }
    count
}

/// The encoded size of an update as an element of a request.
fn framed_len(update: &Update) -> usize {
    let len = update.encoded_len();
    1 + prost::length_delimiter_len(len) + len
}

/// What an update depends on: entries on groups, groups on members.
fn rank(update: &Update) -> u8 {
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Kind::ActionProfileMember(_)) => 0,
        Some(Kind::ActionProfileGroup(_)) => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4runtime_proto::entry::{delete, exact, insert};
    use p4runtime_proto::p4::v1::{ActionProfileGroup, ActionProfileMember, TableEntry};

    fn entry(key: u128) -> TableEntry {
        TableEntry {
            table_id: 1,
            r#match: vec![exact(1, key)],
            ..TableEntry::default()
        }
    }

    fn cut(updates: &[Update], limits: BatchLimits) -> Vec<usize> {
        let mut sizes = Vec::new();
        let mut rest = updates;
        while !rest.is_empty() {
            let size = next_batch(rest, limits);
            sizes.push(size);
            rest = &rest[size..];
        }
        sizes
    }

    const AMPLE: BatchLimits = BatchLimits {
        updates: 100,
        bytes: usize::MAX,
    };

    #[test]
    fn two_updates_of_one_entity_are_kept_apart() {
        let updates = [
            insert(entry(1)),
            insert(entry(2)),
            delete(entry(1)),
            insert(entry(1)),
            insert(entry(3)),
        ];
        assert_eq!(cut(&updates, AMPLE), [2, 1, 2]);
    }

    #[test]
    fn members_groups_and_entries_are_kept_apart() {
        let member = |member_id| {
            insert(ActionProfileMember {
                member_id,
                ..ActionProfileMember::default()
            })
        };
        let group = insert(ActionProfileGroup::default());
        let updates = [member(1), member(2), group, insert(entry(1)), member(3)];
        assert_eq!(cut(&updates, AMPLE), [2, 1, 1, 1]);
    }

    #[test]
    fn limits_hold() {
        let updates: Vec<_> = (0..10).map(|key| insert(entry(key))).collect();
        let limits = BatchLimits {
            updates: 4,
            ..AMPLE
        };
        assert_eq!(cut(&updates, limits), [4, 4, 2]);

        let one = framed_len(&updates[0]);
        let limits = BatchLimits {
            bytes: 3 * one,
            ..AMPLE
        };
        assert_eq!(cut(&updates, limits), [3, 3, 3, 1]);
        // What does not fit at all still goes, alone.
        let limits = BatchLimits { bytes: 1, ..AMPLE };
        assert_eq!(cut(&updates[..3], limits), [1, 1, 1]);
        let limits = BatchLimits {
            updates: 0,
            ..AMPLE
        };
        assert_eq!(cut(&updates[..2], limits), [1, 1]);
        assert_eq!(next_batch(&[], AMPLE), 0);
    }

    #[test]
    fn halving_ends_at_one() {
        let mut limits = BatchLimits::default();
        limits = limits.halved(5);
        assert_eq!(limits.updates, 2);
        assert_eq!(limits.halved(1).updates, 1);
    }

    /// Against the definition, for any sequence of a few keys.
    #[test]
    fn cuts_are_where_they_must_be_and_nowhere_else() {
        bolero::check!()
            .with_iterations(2_000)
            .with_type::<(Vec<u8>, u8)>()
            .for_each(|(keys, limit)| {
                let limits = BatchLimits {
                    updates: usize::from(*limit).max(1),
                    ..AMPLE
                };
                let keys: Vec<_> = keys.iter().map(|key| key % 8).collect();
                let updates: Vec<_> = keys.iter().map(|k| insert(entry((*k).into()))).collect();
                let mut start = 0;
                for size in cut(&updates, limits) {
                    let batch = &keys[start..start + size];
                    let distinct: HashSet<_> = batch.iter().collect();
                    assert_eq!(distinct.len(), batch.len());
                    assert!(size <= limits.updates);
                    start += size;
                    if let Some(next) = keys.get(start) {
                        assert!(batch.contains(next) || size == limits.updates);
                    }
                }
                assert_eq!(start, keys.len());
            });
    }
}
