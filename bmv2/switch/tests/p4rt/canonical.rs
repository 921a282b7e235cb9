//! However a controller writes numbers, they are read in the fewest bytes
//! (specification, "Bytestrings"), in what is kept as it was written too.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::action_profile_action::WatchKind as ActionWatch;
use p4runtime_proto::p4::v1::action_profile_group::member::WatchKind as MemberWatch;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Engine;
use p4runtime_proto::p4::v1::replica::PortKind;
use p4runtime_proto::p4::v1::table_action::Type;

use crate::routes::{group, member, route};
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_action_sets() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let watching = |port: &[u8]| {
        let mut group = group(1, &[1]);
        group.members[0].watch_kind = Some(MemberWatch::WatchPort(port.to_vec()));
        group
    };
    c.write(vec![entry::insert(member(1, 2, 9))]).await.unwrap();
    c.write(vec![entry::insert(watching(&[0, 0, 2]))])
        .await
        .unwrap();
    let read = c.read(group(1, &[])).await.unwrap();
    assert_eq!(read, [Entity::ActionProfileGroup(watching(&[2]))]);
    let gone = vec![entry::delete(group(1, &[])), entry::delete(member(1, 2, 9))];
    c.write(gone).await.unwrap();

    let with_set = |zeros: &[u8]| {
        let long = |byte: u8| [zeros, &[byte]].concat();
        let mut call = member(1, 2, 9).action.unwrap();
        for param in &mut call.params {
            param.value = long(param.value[0]);
        }
        let set = p4::ActionProfileActionSet {
            action_profile_actions: vec![p4::ActionProfileAction {
                action: Some(call),
                weight: 1,
                watch_kind: Some(ActionWatch::WatchPort(long(3))),
            }],
            ..Default::default()
        };
        route(1, Type::ActionProfileActionSet(set))
    };
    c.write(vec![entry::insert(with_set(&[0, 0]))])
        .await
        .unwrap();
    let query = p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        ..Default::default()
    };
    assert_eq!(c.read_entries(query).await, [with_set(&[])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_and_their_backups() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let replicas = |zeros: &[u8]| {
        let long = |byte: u8| [zeros, &[byte]].concat();
        vec![p4::Replica {
            instance: 7,
            port_kind: Some(PortKind::Port(long(2))),
            backup_replicas: vec![p4::BackupReplica {
                port: long(0),
                instance: 8,
            }],
        }]
    };
    let entities = |zeros: &[u8]| {
        let group = Engine::MulticastGroupEntry(p4::MulticastGroupEntry {
            multicast_group_id: 5,
            replicas: replicas(zeros),
            ..Default::default()
        });
        let session = Engine::CloneSessionEntry(p4::CloneSessionEntry {
            session_id: 5,
            replicas: replicas(zeros),
            ..Default::default()
        });
        [group, session].map(|kind| p4::PacketReplicationEngineEntry { r#type: Some(kind) })
    };
    for (written, expected) in entities(&[0, 0]).into_iter().zip(entities(&[])) {
        c.write(vec![entry::insert(written.clone())]).await.unwrap();
        let read = c.read(written).await.unwrap();
        assert_eq!(read, [Entity::PacketReplicationEngineEntry(expected)]);
    }
}
