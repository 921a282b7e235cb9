//! What an entries file made is known to controllers, and theirs to change.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::table_action::Type;
use softswitch::{Timestamp, stf};
use tonic::Code;

use crate::routes::{group, member, route};
use crate::support::*;

/// Commands of `simple_switch_CLI`; handles count from 0.
const FILE: &str = "\
act_prof_create_member MyIngress.ecmp MyIngress.set_nexthop 2 02:00:00:00:00:02
act_prof_create_member MyIngress.ecmp MyIngress.set_nexthop 3 02:00:00:00:00:03
act_prof_create_group MyIngress.ecmp
act_prof_add_member_to_group MyIngress.ecmp 1 0
table_indirect_add MyIngress.routes 10.1.0.0/16 => 0
table_indirect_add_with_group MyIngress.routes 10.2.0.0/16 => 0
table_set_default MyIngress.l2 NoAction
mc_mgrp_create 5
mc_node_create 1 2 3
mc_node_associate 5 0
mirroring_add 7 3
";

fn replica(instance: u32, port: u8) -> p4::Replica {
    p4::Replica {
        instance,
        port_kind: Some(p4::replica::PortKind::Port(vec![port])),
        ..Default::default()
    }
}

fn multicast(replicas: Vec<p4::Replica>) -> p4::PacketReplicationEngineEntry {
    p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
            multicast_group_id: 5,
            replicas,
            ..Default::default()
        })),
    }
}

fn session(replicas: Vec<p4::Replica>) -> p4::PacketReplicationEngineEntry {
    p4::PacketReplicationEngineEntry {
        r#type: Some(Replication::CloneSessionEntry(p4::CloneSessionEntry {
            session_id: 7,
            replicas,
            ..Default::default()
        })),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_commands_is_read_and_changed() {
    let bed = Bed::start().await;
    bed.server.preload(config(1)).unwrap();
    stf::apply_entries(&bed.switch, FILE, Timestamp::default(), |_| ()).unwrap();
    bed.server.adopt_entries().unwrap();
    let mut c = bed.primary(1).await;

    let members = [
        member(1, 2, 0x0200_0000_0002),
        member(2, 3, 0x0200_0000_0003),
    ];
    assert_eq!(
        c.read(p4::ActionProfileMember::default()).await.unwrap(),
        members.clone().map(Entity::ActionProfileMember)
    );
    assert_eq!(
        c.read(group(1, &[])).await.unwrap(),
        [Entity::ActionProfileGroup(group(1, &[2]))]
    );
    let to_member = route(1, Type::ActionProfileMemberId(1));
    let to_group = route(2, Type::ActionProfileGroupId(1));
    let query = p4::TableEntry {
        table_id: to_member.table_id,
        ..Default::default()
    };
    assert_eq!(
        c.read_entries(query).await,
        [to_member.clone(), to_group.clone()]
    );
    let both = multicast(vec![replica(1, 2), replica(1, 3)]);
    let one = session(vec![replica(0, 3)]);
    for entry in [both.clone(), one.clone()] {
        let read = c.read(entry.clone()).await.unwrap();
        assert_eq!(read, [Entity::PacketReplicationEngineEntry(entry)]);
    }

    // What is there cannot be inserted, only changed and, in order, deleted.
    let there: [p4::Entity; 4] = [
        members[0].clone().into(),
        group(1, &[1]).into(),
        both.clone().into(),
        one.clone().into(),
    ];
    for entity in there {
        assert_eq!(
            c.write_one(entry::insert(entity)).await,
            Code::AlreadyExists
        );
    }
    // Another program takes all of it over, the default entry included.
    let reconcile = Action::ReconcileAndCommit;
    c.set_pipeline(reconcile, Some(next_config(2)))
        .await
        .unwrap();
    let default = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        ..Default::default()
    };
    let nothing = p4::TableEntry {
        action: Some(action("NoAction", &[])),
        ..default.clone()
    };
    assert_eq!(c.read_entries(default).await, [nothing]);
    assert_eq!(
        c.read(group(1, &[])).await.unwrap(),
        [Entity::ActionProfileGroup(group(1, &[2]))]
    );
    let in_order = [
        entry::modify(group(1, &[1])),
        entry::modify(multicast(vec![replica(2, 2)])),
        entry::modify(session(vec![replica(0, 2)])),
        entry::delete(to_group),
        entry::delete(group(1, &[])),
        entry::delete(members[1].clone()),
        entry::delete(to_member),
        entry::delete(members[0].clone()),
        entry::delete(both),
        entry::delete(one),
    ];
    for update in in_order {
        let text = format!("{update:?}");
        assert_eq!(c.write_one(update).await, Code::Ok, "{text}");
    }
    assert_eq!(bed.switch.multicast_groups(), []);
    assert_eq!(bed.switch.clone_sessions(), []);
}
