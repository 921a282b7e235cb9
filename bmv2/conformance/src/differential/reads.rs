//! What is read, of everything and of what is there.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;

use super::generate::{Generator, id};
use super::step::Step;

/// Reads one thing.
pub(super) fn read(entity: Entity) -> Step {
    Step::Read(vec![p4::Entity {
        entity: Some(entity),
    }])
}

/// Everything that can be read.
pub(super) fn everything(info: &P4Info) -> Vec<Step> {
    let mut steps = vec![
        read(Entity::TableEntry(p4::TableEntry::default())),
        read(Entity::TableEntry(p4::TableEntry {
            counter_data: Some(p4::CounterData::default()),
            meter_config: Some(p4::MeterConfig::default()),
            ..p4::TableEntry::default()
        })),
        read(Entity::CounterEntry(p4::CounterEntry::default())),
        read(Entity::MeterEntry(p4::MeterEntry::default())),
        read(Entity::ActionProfileMember(
            p4::ActionProfileMember::default(),
        )),
        read(Entity::ActionProfileGroup(p4::ActionProfileGroup::default())),
        read(replication(Replication::MulticastGroupEntry(
            p4::MulticastGroupEntry::default(),
        ))),
        read(replication(Replication::CloneSessionEntry(
            p4::CloneSessionEntry::default(),
        ))),
    ];
    for table in &info.tables {
        let table_id = id(table.preamble.as_ref());
        let entry = p4::TableEntry {
            table_id,
            ..p4::TableEntry::default()
        };
        steps.push(read(Entity::TableEntry(p4::TableEntry {
            counter_data: Some(p4::CounterData::default()),
            meter_config: Some(p4::MeterConfig::default()),
            ..entry.clone()
        })));
        steps.push(read(Entity::TableEntry(p4::TableEntry {
            is_default_action: true,
            ..entry.clone()
        })));
    }
    for counter in &info.counters {
        steps.push(read(Entity::CounterEntry(p4::CounterEntry {
            counter_id: id(counter.preamble.as_ref()),
            ..p4::CounterEntry::default()
        })));
    }
    for meter in &info.meters {
        steps.push(read(Entity::MeterEntry(p4::MeterEntry {
            meter_id: id(meter.preamble.as_ref()),
            ..p4::MeterEntry::default()
        })));
    }
    for counter in &info.direct_counters {
        steps.push(read(Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(p4::TableEntry {
                table_id: counter.direct_table_id,
                ..p4::TableEntry::default()
            }),
            data: None,
        })));
    }
    for meter in &info.direct_meters {
        steps.push(read(Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(p4::TableEntry {
                table_id: meter.direct_table_id,
                ..p4::TableEntry::default()
            }),
            ..p4::DirectMeterEntry::default()
        })));
    }
    for profile in &info.action_profiles {
        let action_profile_id = id(profile.preamble.as_ref());
        steps.push(read(Entity::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id,
            ..p4::ActionProfileMember::default()
        })));
        steps.push(read(Entity::ActionProfileGroup(p4::ActionProfileGroup {
            action_profile_id,
            ..p4::ActionProfileGroup::default()
        })));
    }
    steps
}

/// Reads an entry that may be there, or its counter or meter, alone or with
/// something else.
pub(super) fn one(generator: &mut Generator<'_>, entry: &p4::TableEntry) -> Step {
    let key = p4::TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..p4::TableEntry::default()
    };
    let random = &mut generator.random;
    let mut wanted: Vec<Entity> = Vec::new();
    for _ in 0..=usize::from(random.one_in(4)) {
        wanted.push(match random.below(8) {
            0 => Entity::DirectCounterEntry(p4::DirectCounterEntry {
                table_entry: Some(key.clone()),
                data: None,
            }),
            1 => Entity::DirectMeterEntry(p4::DirectMeterEntry {
                table_entry: Some(key.clone()),
                ..p4::DirectMeterEntry::default()
            }),
            2 => Entity::TableEntry(p4::TableEntry {
                priority: entry.priority + 1,
                ..key.clone()
            }),
            3 => Entity::TableEntry(entry.clone()),
            4 => Entity::TableEntry(p4::TableEntry {
                table_id: 0x02ff_ffff,
                ..p4::TableEntry::default()
            }),
            5 => Entity::TableEntry(key.clone()),
            _ => Entity::TableEntry(p4::TableEntry {
                counter_data: Some(p4::CounterData::default()),
                meter_config: Some(p4::MeterConfig::default()),
                time_since_last_hit: random.one_in(3).then(p4::table_entry::IdleTimeout::default),
                ..key.clone()
            }),
        });
    }
    let entities = wanted.into_iter().map(|entity| p4::Entity {
        entity: Some(entity),
    });
    Step::Read(entities.collect())
}

fn replication(kind: Replication) -> Entity {
    Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
}
