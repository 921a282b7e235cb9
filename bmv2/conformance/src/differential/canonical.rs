//! Messages in a form in which equal meaning is equal text.

use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use p4runtime_proto::p4::v1::{
    DigestList, Entity, IdleTimeoutNotification, MasterArbitrationUpdate, PacketIn, Replica,
    TableEntry, entity,
};
use tonic::Code;

use super::controllers::name;

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

/// How the text of an answer to arbitration begins.
pub const ARBITRATION: &str = "arbitration: ";

/// What a controller is told of who is primary. The text of the status is a
/// server's own.
pub fn arbitration(update: &MasterArbitrationUpdate) -> String {
    let role = update.role.as_ref().map(|role| role.name.as_str());
    let id = update.election_id.map(|id| (id.high, id.low));
    let status = update.status.as_ref();
    let status = status.map_or("none".to_owned(), |s| name(Code::from_i32(s.code)));
    let device = update.device_id;
    format!("{ARBITRATION}device {device}, role {role:?}, election id {id:?}, status {status}")
}

/// How the text of a stream's end begins.
pub const ENDED: &str = "ended ";

/// How the text of an error on a stream begins.
pub const STREAM_ERROR: &str = "stream error ";

/// How the text of an idle notice begins.
pub const IDLE: &str = "idle: ";

/// Of equal idle notices, in order, only one: how often the same is said
/// depends on timing.
pub fn dedup_idle(messages: &mut Vec<String>) {
    messages.dedup_by(|a, b| a == b && a.starts_with(IDLE));
}

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

/// How the text of a digest begins.
pub const DIGEST: &str = "digest ";

/// The members of a list of digests, one text each: how they are grouped into
/// lists depends on timing.
pub fn digests(list: DigestList) -> Vec<String> {
    list.data
        .iter()
        .map(|data| format!("{DIGEST}{}: {data:?}", list.digest_id))
        .collect()
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::v1::Uint128;

    use super::*;

    #[test]
    fn of_equal_notices_one_is_left() {
        let mut messages: Vec<String> = ["digest 1", "digest 1", "idle: a", "idle: a", "idle: b"]
            .map(String::from)
            .into();
        dedup_idle(&mut messages);
        assert_eq!(messages, ["digest 1", "digest 1", "idle: a", "idle: b"]);
    }

    #[test]
    fn arbitration_is_told_without_words() {
        let mut update = MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(Uint128 { high: 0, low: 5 }),
            ..MasterArbitrationUpdate::default()
        };
        let expected = "arbitration: device 1, role None, election id Some((0, 5)), status none";
        assert_eq!(arbitration(&update), expected);
        let mut said = |message: &str| {
            update.status = Some(p4runtime_proto::google::rpc::Status {
                code: 6,
                message: message.into(),
                details: Vec::new(),
            });
            arbitration(&update)
        };
        assert_eq!(said("backup"), said("someone else is primary"));
        assert!(said("").ends_with("status ALREADY_EXISTS"));
    }
}
