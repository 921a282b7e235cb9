//! What makes two updates concern the same thing.

use p4runtime_proto::bytestring;
use p4runtime_proto::p4::v1::{
    Entity, FieldMatch, Index, TableEntry, entity::Entity as Kind, field_match::FieldMatchType,
    packet_replication_engine_entry::Type as Replication,
};
use prost::Message;

/// Identifies an entity, whatever its contents; comparable and hashable.
///
/// An entry and its direct counter and meter have one key, because an update of
/// the latter depends on the former. Bytestrings count by value and match
/// fields in any order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityKey(Vec<u8>);

/// The key of an entity, `None` for an empty one.
pub fn entity_key(entity: &Entity) -> Option<EntityKey> {
    let mut key = KeyWriter::default();
    match entity.entity.as_ref()? {
        Kind::TableEntry(entry) => key.table_entry(Some(entry)),
        Kind::DirectCounterEntry(entry) => key.table_entry(entry.table_entry.as_ref()),
        Kind::DirectMeterEntry(entry) => key.table_entry(entry.table_entry.as_ref()),
        // Two instances of an extern may be one to the target: never reordered.
        Kind::ExternEntry(entry) => key.ids(2, &[entry.extern_type_id, entry.extern_id]),
        Kind::ActionProfileMember(member) => {
            key.ids(3, &[member.action_profile_id, member.member_id]);
        }
        Kind::ActionProfileGroup(group) => {
            key.ids(4, &[group.action_profile_id, group.group_id]);
        }
        Kind::MeterEntry(meter) => key.indexed(5, meter.meter_id, meter.index.as_ref()),
        Kind::CounterEntry(counter) => key.indexed(6, counter.counter_id, counter.index.as_ref()),
        Kind::RegisterEntry(register) => {
            key.indexed(7, register.register_id, register.index.as_ref());
        }
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Replication::MulticastGroupEntry(group) => key.ids(8, &[group.multicast_group_id]),
            Replication::CloneSessionEntry(session) => key.ids(9, &[session.session_id]),
        },
        Kind::ValueSetEntry(set) => key.ids(10, &[set.value_set_id]),
        Kind::DigestEntry(digest) => key.ids(11, &[digest.digest_id]),
    }
    Some(EntityKey(key.bytes))
}

#[derive(Default)]
struct KeyWriter {
    bytes: Vec<u8>,
}

impl KeyWriter {
    fn ids(&mut self, kind: u8, ids: &[u32]) {
        self.bytes.push(kind);
        for id in ids {
            self.bytes.extend(id.to_be_bytes());
        }
    }

    fn indexed(&mut self, kind: u8, id: u32, index: Option<&Index>) {
        self.ids(kind, &[id]);
        if let Some(index) = index {
            self.bytes.extend(index.index.to_be_bytes());
        }
    }

    fn table_entry(&mut self, entry: Option<&TableEntry>) {
        let Some(entry) = entry else {
            return self.ids(1, &[]);
        };
        self.ids(1, &[entry.table_id]);
        self.bytes.push(u8::from(entry.is_default_action));
        if entry.is_default_action {
            return;
        }
        self.bytes.extend(entry.priority.to_be_bytes());
        let mut fields: Vec<_> = entry.r#match.iter().collect();
        fields.sort_by_key(|field| field.field_id);
        for field in fields {
            self.field(field);
        }
    }

    fn field(&mut self, field: &FieldMatch) {
        self.bytes.extend(field.field_id.to_be_bytes());
        match &field.field_match_type {
            None => self.bytes.push(0),
            Some(FieldMatchType::Exact(exact)) => {
                self.bytes.push(1);
                self.number(&exact.value);
            }
            Some(FieldMatchType::Ternary(ternary)) => {
                self.bytes.push(2);
                self.number(&ternary.value);
                self.number(&ternary.mask);
            }
            Some(FieldMatchType::Lpm(lpm)) => {
                self.bytes.push(3);
                self.bytes.extend(lpm.prefix_len.to_be_bytes());
                self.number(&lpm.value);
            }
            Some(FieldMatchType::Range(range)) => {
                self.bytes.push(4);
                self.number(&range.low);
                self.number(&range.high);
            }
            Some(FieldMatchType::Optional(optional)) => {
                self.bytes.push(5);
                self.number(&optional.value);
            }
            Some(FieldMatchType::Other(any)) => {
                self.bytes.push(6);
                self.counted(&any.encode_to_vec());
            }
        }
    }

    fn number(&mut self, bytes: &[u8]) {
        self.counted(&bytestring::canonical(bytes));
    }

    /// With its length, so that neighbours cannot run together.
    fn counted(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes.len().to_be_bytes());
        self.bytes.extend(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4runtime_proto::entry::{direct_action, exact, lpm, ternary};
    use p4runtime_proto::p4::v1::{
        CounterEntry, DirectCounterEntry, MeterEntry, MulticastGroupEntry, field_match,
    };

    fn key(entity: impl Into<Entity>) -> EntityKey {
        entity_key(&entity.into()).unwrap()
    }

    fn route(value: u128, prefix_len: u32) -> TableEntry {
        TableEntry {
            table_id: 1,
            r#match: lpm(1, value, prefix_len, 32).into_iter().collect(),
            ..TableEntry::default()
        }
    }

    #[test]
    fn contents_are_not_part_of_the_key() {
        let plain = route(0x0a00_0000, 8);
        let mut full = plain.clone();
        full.action = Some(direct_action(3, vec![]));
        full.metadata = vec![1];
        full.idle_timeout_ns = 5;
        assert_eq!(key(plain.clone()), key(full));
        let counter = DirectCounterEntry {
            table_entry: Some(plain.clone()),
            data: None,
        };
        assert_eq!(key(plain), key(counter));
    }

    #[test]
    fn everything_that_identifies_an_entry_is() {
        let base = route(0x0a00_0000, 8);
        let mut other_table = base.clone();
        other_table.table_id = 2;
        let mut other_priority = base.clone();
        other_priority.priority = 9;
        let mut default = base.clone();
        default.is_default_action = true;
        for other in [
            route(0x0b00_0000, 8),
            route(0x0a00_0000, 9),
            route(0, 0),
            other_table,
            other_priority,
            default,
        ] {
            assert_ne!(key(base.clone()), key(other.clone()), "{other:?}");
        }
    }

    #[test]
    fn fields_count_by_value_in_any_order() {
        let entry = |fields: Vec<FieldMatch>| TableEntry {
            table_id: 1,
            r#match: fields,
            ..TableEntry::default()
        };
        let padded = FieldMatch {
            field_id: 1,
            field_match_type: Some(FieldMatchType::Exact(field_match::Exact {
                value: vec![0, 0, 7],
            })),
        };
        let mask = ternary(2, 1, 3).unwrap();
        assert_eq!(
            key(entry(vec![exact(1, 7), mask.clone()])),
            key(entry(vec![mask, padded]))
        );
        // Concatenated, (1, 0x0203) and (0x0102, 3) would look alike.
        assert_ne!(
            key(entry(vec![ternary(1, 0x0003, 0x0103).unwrap()])),
            key(entry(vec![ternary(1, 0x0001, 0x0301).unwrap()]))
        );
    }

    #[test]
    fn kinds_do_not_collide() {
        let counter = CounterEntry {
            counter_id: 1,
            index: Some(Index { index: 2 }),
            data: None,
        };
        let meter = MeterEntry {
            meter_id: 1,
            index: Some(Index { index: 2 }),
            ..MeterEntry::default()
        };
        let group = MulticastGroupEntry {
            multicast_group_id: 1,
            ..MulticastGroupEntry::default()
        };
        assert_ne!(key(counter), key(meter));
        assert_ne!(key(meter), key(group));
        assert_eq!(entity_key(&Entity::default()), None);
    }
}
