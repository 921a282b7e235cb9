//! What reads all that P4Runtime can read.

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;

/// Entities that ask for everything, direct resources included.
pub fn everything() -> Vec<p4::Entity> {
    let zero = Some(p4::CounterData::default());
    let colours = Some(p4::MeterCounterData {
        green: zero,
        yellow: zero,
        red: zero,
    });
    let full = p4::TableEntry {
        counter_data: zero,
        meter_config: Some(p4::MeterConfig::default()),
        meter_counter_data: colours,
        ..Default::default()
    };
    let replication = |entry| p4::PacketReplicationEngineEntry {
        r#type: Some(entry),
    };
    let meter = p4::MeterEntry {
        counter_data: colours,
        ..Default::default()
    };
    vec![
        full.clone().into(),
        p4::TableEntry {
            is_default_action: true,
            ..full
        }
        .into(),
        p4::ActionProfileMember::default().into(),
        p4::ActionProfileGroup::default().into(),
        p4::CounterEntry::default().into(),
        meter.into(),
        p4::RegisterEntry::default().into(),
        p4::DigestEntry::default().into(),
        replication(Replication::MulticastGroupEntry(Default::default())).into(),
        replication(Replication::CloneSessionEntry(Default::default())).into(),
    ]
}
