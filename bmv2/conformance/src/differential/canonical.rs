//! Messages in a form in which equal meaning is equal text.

use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::{
    DigestList, Entity, IdleTimeoutNotification, PacketIn, Replica, TableEntry, entity,
};

/// The entities of a read; their order has no meaning.
pub fn entities(entities: Vec<Entity>) -> Vec<String> {
    let mut texts: Vec<String> = entities.into_iter().map(entity).collect();
    texts.sort();
    texts
}

fn entity(mut entity: Entity) -> String {
    match &mut entity.entity {
        Some(entity::Entity::TableEntry(entry)) => order(entry),
        Some(entity::Entity::DirectCounterEntry(counter)) => {
            counter.table_entry.iter_mut().for_each(order);
        }
        Some(entity::Entity::DirectMeterEntry(meter)) => {
            meter.table_entry.iter_mut().for_each(order);
        }
        Some(entity::Entity::ActionProfileGroup(group)) => {
            group.members.sort_by_key(|member| member.member_id);
        }
        Some(entity::Entity::PacketReplicationEngineEntry(entry)) => match &mut entry.r#type {
            Some(Type::MulticastGroupEntry(group)) => order_replicas(&mut group.replicas),
            Some(Type::CloneSessionEntry(session)) => order_replicas(&mut session.replicas),
            None => {}
        },
        _ => {}
    }
    format!("{entity:?}")
}

/// The replicas of a group are a set.
fn order_replicas(replicas: &mut [Replica]) {
    replicas.sort_by_key(|r| (r.instance, format!("{:?}", r.port_kind)));
}

/// Match fields have no order, and the clock is not compared.
fn order(entry: &mut TableEntry) {
    entry.r#match.sort_by_key(|field| field.field_id);
    if let Some(idle) = &mut entry.time_since_last_hit {
        idle.elapsed_ns = 0;
    }
}

/// A packet-in.
pub fn packet_in(mut packet: PacketIn) -> String {
    packet.metadata.sort_by_key(|field| field.metadata_id);
    let fields: Vec<String> = packet
        .metadata
        .iter()
        .map(|field| format!("{}={}", field.metadata_id, super::step::hex(&field.value)))
        .collect();
    format!(
        "packet-in {}: {}",
        fields.join(" "),
        super::step::hex(&packet.payload)
    )
}

/// How the text of an idle notice begins.
pub const IDLE: &str = "idle: ";

/// The entries of an idle notice, one text each. bmv2 leaves out their actions,
/// their metadata and how long ago they were hit.
pub fn idle(notice: IdleTimeoutNotification) -> Vec<String> {
    let entries = notice.table_entry.into_iter();
    let texts = entries.map(|mut entry| {
        order(&mut entry);
        entry.action = None;
        entry.metadata.clear();
        entry.time_since_last_hit = None;
        format!("{IDLE}{entry:?}")
    });
    texts.collect()
}

/// The members of a list of digests, one text each: how they are grouped into
/// lists depends on timing.
pub fn digests(list: DigestList) -> Vec<String> {
    list.data
        .iter()
        .map(|data| format!("digest {}: {data:?}", list.digest_id))
        .collect()
}
