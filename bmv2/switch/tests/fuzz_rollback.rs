//! A batch with ROLLBACK_ON_ERROR or DATAPLANE_ATOMIC that fails leaves
//! everything as it was, whatever was there before and whatever it holds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod readable;
mod served;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::table_action::Type as TableAction;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4info;
use softswitch::p4rt::Mode;
use tonic::{Code, Status};

use served::{ELECTION, P4INFO, PANICKED, Target, entities};

/// An update: which kind, of which entity, and which of its variants.
type Choice = (u8, u8, u8);

/// Makes another of an entity: some with another key, some with other content.
fn vary(entity: &mut Entity, variant: u8) {
    let (one_of_three, v) = (u32::from(variant % 3) + 1, u32::from(variant / 3));
    match entity {
        Entity::TableEntry(entry) => vary_entry(entry, one_of_three, v),
        Entity::ActionProfileMember(member) => {
            member.member_id = one_of_three;
            member.action.as_mut().unwrap().params[0] = entry::param(1, (v % 4).into());
        }
        Entity::ActionProfileGroup(group) => {
            group.group_id = one_of_three;
            group.members[0].member_id = 1 + v % 3;
            group.members[0].weight = 1 + i32::from(variant % 2);
            group.members.truncate(usize::from(variant > 20));
        }
        Entity::CounterEntry(counter) => {
            counter.index = (v > 1).then_some(p4::Index { index: v.into() });
            counter.data = Some(count(v.into()));
        }
        Entity::DirectCounterEntry(counter) => {
            let of = counter.table_entry.as_mut().unwrap();
            direct(of, one_of_three, v);
            counter.data = Some(count(v.into()));
        }
        Entity::MeterEntry(meter) => {
            meter.index = (v > 1).then_some(p4::Index {
                index: (v % 16).into(),
            });
            meter.config = (!v.is_multiple_of(4)).then(|| rates(v));
            meter.counter_data = v.is_multiple_of(2).then(Default::default);
        }
        Entity::DirectMeterEntry(meter) => {
            meter.config = (!v.is_multiple_of(4)).then(|| rates(v));
            meter.counter_data = v.is_multiple_of(2).then(Default::default);
        }
        Entity::RegisterEntry(register) => {
            register.index = (v > 1).then_some(p4::Index {
                index: (v % 32).into(),
            });
            register.data = Some(p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(vec![variant])),
            });
        }
        Entity::PacketReplicationEngineEntry(entry) => match entry.r#type.as_mut().unwrap() {
            Replication::MulticastGroupEntry(group) => {
                group.multicast_group_id = one_of_three;
                group.replicas[0].instance = v;
            }
            Replication::CloneSessionEntry(session) => {
                session.session_id = one_of_three;
                session.class_of_service = v;
            }
        },
        Entity::DigestEntry(digest) => digest.config.as_mut().unwrap().max_list_size = v as i32,
        Entity::ValueSetEntry(_) | Entity::ExternEntry(_) => {}
    }
}

fn count(v: i64) -> p4::CounterData {
    p4::CounterData {
        byte_count: 100 * v,
        packet_count: v,
    }
}

fn rates(v: u32) -> p4::MeterConfig {
    p4::MeterConfig {
        cir: v.into(),
        cburst: 1,
        pir: i64::from(v) + 1,
        pburst: 2,
        eburst: 0,
    }
}

/// An entry of `l2`, or its default entry.
fn direct(entry: &mut p4::TableEntry, key: u32, v: u32) {
    if v.is_multiple_of(3) {
        entry.r#match.clear();
        entry.is_default_action = true;
    } else {
        entry.r#match = vec![entry::exact(1, key.into())];
    }
}

fn vary_entry(entry: &mut p4::TableEntry, key: u32, v: u32) {
    let action = entry.action.as_mut().and_then(|a| a.r#type.as_mut());
    if entry.is_default_action {
        entry.counter_data = v.is_multiple_of(2).then(|| count(v.into()));
        if v.is_multiple_of(3) {
            entry.action = None;
        }
    } else if entry.priority > 0 {
        // More than the table has room for.
        entry.priority = 1 + (v % 6) as i32;
        entry.meter_config = (key > 1).then(|| rates(v));
    } else if let Some(TableAction::Action(action)) = action {
        entry.r#match = vec![entry::exact(1, key.into())];
        action.params[0] = entry::param(1, (v % 4).into());
        entry.counter_data = (v % 3 == 1).then(|| count(v.into()));
        entry.metadata = vec![0; (v % 3) as usize];
    } else {
        entry.r#match = vec![entry::lpm(1, (key << 16).into(), 16, 32).unwrap()];
        match action.unwrap() {
            TableAction::ActionProfileActionSet(set) => {
                let one = set.action_profile_actions[0].clone();
                set.action_profile_actions = vec![one; 1 + (v % 3) as usize];
                set.action_selection_mode = (v % 3) as i32;
            }
            TableAction::ActionProfileMemberId(id) | TableAction::ActionProfileGroupId(id) => {
                *id = 1 + v % 3;
            }
            TableAction::Action(_) => {}
        }
    }
}

/// What updates are made of: one entity of every kind, and more of those that
/// have more than one form.
fn pool() -> Vec<Entity> {
    let entities = entities().into_iter().map(|entity| entity.entity.unwrap());
    let mut pool: Vec<Entity> = entities.collect();
    let info = p4info::from_text(P4INFO).unwrap();
    let table = |position: usize| info.tables[position].preamble.as_ref().unwrap().id;
    for action in [
        TableAction::ActionProfileMemberId(1),
        TableAction::ActionProfileGroupId(1),
    ] {
        pool.push(Entity::TableEntry(p4::TableEntry {
            table_id: table(3),
            action: Some(p4::TableAction {
                r#type: Some(action),
            }),
            ..Default::default()
        }));
    }
    let default = |position: usize, action: usize| p4::TableEntry {
        table_id: table(position),
        action: Some(p4::TableAction {
            r#type: Some(TableAction::Action(p4::Action {
                action_id: info.tables[position].action_refs[action].id,
                params: Vec::new(),
            })),
        }),
        is_default_action: true,
        ..Default::default()
    };
    // "drop", which l2 has at first, and "NoAction".
    pool.push(Entity::TableEntry(default(0, 1)));
    pool.push(Entity::TableEntry(default(0, 4)));
    pool.push(Entity::DirectMeterEntry(p4::DirectMeterEntry {
        table_entry: Some(p4::TableEntry {
            action: None,
            ..default(2, 0)
        }),
        ..Default::default()
    }));
    pool
}

fn updates(pool: &[Entity], choices: &[Choice]) -> Vec<p4::Update> {
    let update = |&(kind, which, variant): &Choice| {
        let mut entity = pool[usize::from(which) % pool.len()].clone();
        vary(&mut entity, variant);
        let only_modify = match &entity {
            Entity::TableEntry(entry) => entry.is_default_action,
            Entity::ActionProfileMember(_)
            | Entity::ActionProfileGroup(_)
            | Entity::PacketReplicationEngineEntry(_)
            | Entity::DigestEntry(_) => false,
            _ => true,
        };
        let kind = match kind % 4 {
            _ if only_modify => UpdateType::Modify,
            0 | 1 => UpdateType::Insert,
            2 => UpdateType::Modify,
            _ => UpdateType::Delete,
        };
        p4::Update {
            r#type: kind.into(),
            entity: Some(p4::Entity {
                entity: Some(entity),
            }),
        }
    };
    choices.iter().map(update).collect()
}

/// All that can be read; in compatible mode some reads are refused.
fn everything(target: &Target) -> Vec<Result<Vec<p4::Entity>, Code>> {
    let mut client = target.client.clone();
    let mut read = async |entity| {
        let request = p4::ReadRequest {
            device_id: 1,
            entities: vec![entity],
            ..Default::default()
        };
        let mut answers = client.read(request).await?.into_inner();
        let mut all = Vec::new();
        while let Some(answer) = answers.message().await? {
            all.extend(answer.entities);
        }
        Ok::<_, Status>(all)
    };
    target.runtime.block_on(async {
        let mut all = Vec::new();
        for entity in readable::everything() {
            all.push(read(entity).await.map_err(|status| status.code()));
        }
        all
    })
}

#[test]
fn a_failed_batch_leaves_no_trace() {
    let (strict, compat) = (
        Target::start_in(Mode::Strict),
        Target::start_in(Mode::Compat),
    );
    // A panic ends the test; nothing broken is used after it.
    let targets = AssertUnwindSafe([strict, compat]);
    let pool = AssertUnwindSafe(pool());
    bolero::check!()
        .with_type::<(bool, bool, Vec<Choice>, Vec<Choice>)>()
        .with_iterations(1500)
        .for_each(|(compat, atomic, first, second)| {
            let (targets, pool): (&[Target; 2], &Vec<Entity>) = (&targets, &pool);
            let target = &targets[usize::from(*compat)];
            let write = |updates, atomicity: Atomicity| {
                let request = p4::WriteRequest {
                    device_id: 1,
                    election_id: ELECTION,
                    updates,
                    atomicity: atomicity.into(),
                    ..Default::default()
                };
                let mut client = target.client.clone();
                target.runtime.block_on(client.write(request))
            };
            // Anything may be there.
            let _ = write(updates(pool, first), Atomicity::ContinueOnError);
            let before = everything(target);
            let mut batch = updates(pool, second);
            // What nobody has inserted.
            let mut absent = pool[0].clone();
            if let Entity::TableEntry(entry) = &mut absent {
                entry.r#match = vec![entry::exact(1, 0xbad)];
            }
            batch.push(p4::Update {
                r#type: UpdateType::Delete.into(),
                entity: Some(p4::Entity {
                    entity: Some(absent),
                }),
            });
            let atomicity = match atomic {
                true => Atomicity::DataplaneAtomic,
                false => Atomicity::RollbackOnError,
            };
            assert!(write(batch.clone(), atomicity).is_err());
            assert_eq!(everything(target), before, "{batch:#?}");
            assert!(!PANICKED.load(Ordering::SeqCst), "something panicked");
        });
}
