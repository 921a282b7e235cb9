//! Action profiles: members, groups, one-shot action sets.

use std::collections::BTreeSet;

use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::ActionProfile;
use p4runtime_proto::p4::config::v1::action_profile::{SelectorSizeSemantics, SumOfMembers};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::action_profile_action_set::{
    ActionSelectionMode as Mode, SizeSemantics as Size,
};
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::table_action::Type;
use tonic::Code;

use crate::support::*;

fn profile_id() -> u32 {
    info().action_profiles[0].preamble.as_ref().unwrap().id
}

fn nexthop(port: u16, mac: u64) -> p4::Action {
    match action("MyIngress.set_nexthop", &[port.into(), mac.into()]).r#type {
        Some(Type::Action(action)) => action,
        other => panic!("{other:?}"),
    }
}

fn member(id: u32, port: u16) -> p4::ActionProfileMember {
    p4::ActionProfileMember {
        action_profile_id: profile_id(),
        member_id: id,
        action: Some(nexthop(port, 0x99)),
    }
}

fn group(id: u32, members: &[(u32, i32)]) -> p4::ActionProfileGroup {
    let members = members
        .iter()
        .map(|&(member_id, weight)| p4::action_profile_group::Member {
            member_id,
            weight,
            watch_kind: None,
        });
    p4::ActionProfileGroup {
        action_profile_id: profile_id(),
        group_id: id,
        members: members.collect(),
        max_size: 0,
    }
}

fn route(prefix: u32, length: u32, action: Type) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        r#match: vec![entry::lpm(1, prefix.into(), length, 32).unwrap()],
        action: Some(p4::TableAction {
            r#type: Some(action),
        }),
        ..Default::default()
    }
}

/// Sends IPv4 packets that differ in their id; returns the ports they leave.
async fn ports_used(bed: &Bed, c: &mut Controller, dst: u32) -> BTreeSet<u16> {
    // Let them through to the routes.
    let default = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action: Some(action("NoAction", &[])),
        ..Default::default()
    };
    c.write(vec![entry::modify(default)]).await.unwrap();
    for id in 0..64 {
        bed.send(1, &ipv4(dst, 0x0a00_0001, 17, id));
    }
    // Nothing overtakes: the marker is the last packet.
    c.write(vec![entry::insert(l2(0x77, 1))]).await.unwrap();
    bed.send(1, &frame(0x77, 1));
    assert!(bed.receive(1).await.is_some());
    c.write(vec![entry::delete(l2(0x77, 1))]).await.unwrap();
    let mut used = BTreeSet::new();
    for port in [2, 3] {
        while bed.ports[usize::from(port) - 1].try_receive().is_some() {
            used.insert(port);
        }
    }
    used
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_groups_are_programmed_in_order() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let dst = 0x0a01_0203;
    let to_group = route(0x0a01_0000, 16, Type::ActionProfileGroupId(1));
    let to_member = route(0x0a01_0203, 32, Type::ActionProfileMemberId(1));
    assert_eq!(
        c.write_one(entry::insert(to_group.clone())).await,
        Code::NotFound
    );
    assert_eq!(
        c.write_one(entry::insert(to_member.clone())).await,
        Code::NotFound
    );
    assert_eq!(
        c.write_one(entry::insert(group(1, &[(1, 1)]))).await,
        Code::NotFound
    );
    c.write(vec![
        entry::insert(member(1, 2)),
        entry::insert(member(2, 3)),
    ])
    .await
    .unwrap();
    assert_eq!(
        c.write_one(entry::insert(member(1, 3))).await,
        Code::AlreadyExists
    );
    let both = group(1, &[(1, 1), (2, 3)]);
    assert_eq!(c.write_one(entry::insert(both.clone())).await, Code::Ok);
    assert_eq!(c.write_one(entry::insert(to_group.clone())).await, Code::Ok);

    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2, 3]));
    assert_eq!(
        c.write_one(entry::insert(to_member.clone())).await,
        Code::Ok
    );
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2]));

    // Read-back.
    assert_eq!(
        c.read(p4::ActionProfileMember::default()).await.unwrap(),
        [
            Entity::ActionProfileMember(member(1, 2)),
            Entity::ActionProfileMember(member(2, 3))
        ]
    );
    assert_eq!(
        c.read(p4::ActionProfileGroup::default()).await.unwrap(),
        [Entity::ActionProfileGroup(both)]
    );
    assert_eq!(c.read_entries(to_group.clone()).await, [to_group.clone()]);
    assert_eq!(c.read_entries(to_member.clone()).await, [to_member.clone()]);

    // What is in use stays.
    let in_use = [entry::delete(member(1, 2)), entry::delete(group(1, &[]))];
    for update in in_use {
        assert_eq!(c.write_one(update).await, Code::FailedPrecondition);
    }
    let in_order = [
        entry::delete(to_group),
        entry::delete(to_member),
        entry::delete(group(1, &[])),
        entry::delete(member(1, 2)),
        entry::delete(member(2, 3)),
    ];
    for update in in_order {
        assert_eq!(c.write_one(update).await, Code::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_members_and_groups_are_refused() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(member(1, 2))]).await.unwrap();
    let mut actionless = member(2, 2);
    actionless.action = None;
    let mut foreign = member(2, 2);
    foreign.action.as_mut().unwrap().action_id = action_id("MyIngress.allow");
    let mut unknown = member(2, 2);
    unknown.action_profile_id += 1;
    let mut negative = group(1, &[(1, 1)]);
    negative.max_size = -1;
    let bad = [
        entry::insert(actionless),
        entry::insert(foreign),
        entry::insert(unknown),
        entry::insert(member(0, 2)),
        entry::insert(group(0, &[(1, 1)])),
        entry::insert(group(1, &[(1, 0)])),
        entry::insert(group(1, &[(1, -1)])),
        entry::insert(group(1, &[(1, 1), (1, 1)])),
        entry::insert(negative),
    ];
    for update in bad {
        let text = format!("{update:?}");
        assert_eq!(c.write_one(update).await, Code::InvalidArgument, "{text}");
    }
    let mut small = group(1, &[(1, 3)]);
    small.max_size = 2;
    assert_eq!(
        c.write_one(entry::insert(small)).await,
        Code::ResourceExhausted
    );
    let huge = group(1, &[(1, i32::MAX)]);
    assert_eq!(
        c.write_one(entry::insert(huge)).await,
        Code::ResourceExhausted
    );
}

fn set(actions: &[(u16, i32)]) -> Type {
    let actions = actions
        .iter()
        .map(|&(port, weight)| p4::ActionProfileAction {
            action: Some(nexthop(port, 0x99)),
            weight,
            watch_kind: None,
        });
    Type::ActionProfileActionSet(p4::ActionProfileActionSet {
        action_profile_actions: actions.collect(),
        ..Default::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_shot_sets_replace_and_clean_up() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let dst = 0x0a01_0203;
    let both = route(0x0a01_0000, 16, set(&[(2, 1), (3, 1)]));
    assert_eq!(c.write_one(entry::insert(both.clone())).await, Code::Ok);
    assert_eq!(c.read_entries(both.clone()).await, [both.clone()]);
    assert_eq!(
        c.write_one(entry::insert(both.clone())).await,
        Code::AlreadyExists
    );
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2, 3]));

    // The two styles exclude each other.
    assert_eq!(
        c.write_one(entry::insert(member(1, 2))).await,
        Code::InvalidArgument
    );
    let manual = route(0x0a02_0000, 16, Type::ActionProfileMemberId(1));
    assert_eq!(
        c.write_one(entry::insert(manual)).await,
        Code::InvalidArgument
    );

    // Far more changes than the profile has room for: nothing may be left over.
    for round in 0..100 {
        let port = 2 + round % 2;
        let one = route(0x0a01_0000, 16, set(&[(port, 5)]));
        assert_eq!(c.write_one(entry::modify(one)).await, Code::Ok);
        assert_eq!(
            c.write_one(entry::insert(both.clone())).await,
            Code::AlreadyExists
        );
    }
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([3]));
    // Members and groups of action sets are not the controller's.
    assert_eq!(
        c.read(p4::ActionProfileMember::default()).await.unwrap(),
        []
    );
    assert_eq!(c.read(p4::ActionProfileGroup::default()).await.unwrap(), []);
    assert_eq!(c.write_one(entry::delete(both)).await, Code::Ok);
    assert_eq!(c.write_one(entry::insert(member(1, 2))).await, Code::Ok);
    let one = route(0x0a01_0000, 16, set(&[(2, 1)]));
    assert_eq!(c.write_one(entry::insert(one)).await, Code::InvalidArgument);
}

/// A member that watches a port, both ways of saying so.
fn watching(id: u32, port: u16) -> p4::action_profile_group::Member {
    use p4::action_profile_group::member::WatchKind;
    p4::action_profile_group::Member {
        member_id: id,
        weight: 1,
        watch_kind: Some(match id % 2 {
            0 => WatchKind::Watch(port.into()),
            _ => WatchKind::WatchPort(port.to_be_bytes()[1..].to_vec()),
        }),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_port_is_down_is_left_out_at_once() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let dst = 0x0a01_0203;
    let mut both = group(1, &[]);
    both.members = vec![watching(1, 2), watching(2, 3)];
    let to_group = route(0x0a01_0000, 16, Type::ActionProfileGroupId(1));
    c.write(vec![
        entry::insert(member(1, 2)),
        entry::insert(member(2, 3)),
        entry::insert(both.clone()),
        entry::insert(to_group),
    ])
    .await
    .unwrap();
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2, 3]));
    assert!(bed.switch.set_port_up(2, false));
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([3]));
    assert_eq!(
        c.read(p4::ActionProfileGroup::default()).await.unwrap(),
        [Entity::ActionProfileGroup(both.clone())],
        "what was written stays as it was written"
    );
    // Nobody is left: a miss, so no port is chosen.
    assert!(bed.switch.set_port_up(3, false));
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::new());
    assert!(bed.switch.set_port_up(2, true));
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2]));

    // The state of the ports outlives the pipeline.
    let action = p4::set_forwarding_pipeline_config_request::Action::ReconcileAndCommit;
    c.set_pipeline(action, Some(next_config(2))).await.unwrap();
    assert_eq!(
        c.read(p4::ActionProfileGroup::default()).await.unwrap(),
        [Entity::ActionProfileGroup(both.clone())]
    );
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2]));

    // A port without an interface is down; one that cannot exist is refused.
    let with = |port| {
        let mut group = both.clone();
        group.members = vec![watching(1, port), watching(2, 2)];
        entry::modify(group)
    };
    assert_eq!(c.write_one(with(9)).await, Code::Ok);
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([3]));
    let mut bad = both;
    bad.members[0].watch_kind = Some(p4::action_profile_group::member::WatchKind::WatchPort(
        vec![2, 0],
    ));
    assert_eq!(c.write_one(entry::modify(bad)).await, Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_of_a_one_shot_set_watch_ports_too() {
    use p4::action_profile_action::WatchKind;
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let Type::ActionProfileActionSet(mut actions) = set(&[(2, 1), (3, 1)]) else {
        panic!("not an action set");
    };
    actions.action_profile_actions[0].watch_kind = Some(WatchKind::WatchPort(vec![2]));
    actions.action_profile_actions[1].watch_kind = Some(WatchKind::Watch(3));
    let to_set = route(0x0a01_0000, 16, Type::ActionProfileActionSet(actions));
    bed.switch.set_port_up(3, false);
    assert_eq!(c.write_one(entry::insert(to_set.clone())).await, Code::Ok);
    let dst = 0x0a01_0203;
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2]));
    bed.switch.set_port_up(3, true);
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2, 3]));
    bed.switch.set_port_up(2, false);
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([3]));
    assert_eq!(c.read_entries(to_set.clone()).await, [to_set]);
}

/// The program with other bounds of its selector.
fn config_with(change: impl FnOnce(&mut ActionProfile)) -> p4::ForwardingPipelineConfig {
    let mut config = config(1);
    change(&mut config.p4info.as_mut().unwrap().action_profiles[0]);
    config
}

/// A route to an action set with modes of its own.
fn own_modes(actions: &[(u16, i32)], mode: i32, size: i32) -> p4::TableEntry {
    let Type::ActionProfileActionSet(mut set) = set(actions) else {
        panic!("not an action set");
    };
    set.action_selection_mode = mode;
    set.size_semantics = size;
    route(0x0a01_0000, 16, Type::ActionProfileActionSet(set))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_may_have_modes_of_its_own() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    // The selector hashes, and P4Info's semantics is the sum of weights.
    for mode in [
        Mode::DefaultModeDeterminedByActionSelector,
        Mode::Hash,
        Mode::Random,
    ] {
        for size in [
            Size::DefaultSizeDeterminedByActionSelector,
            Size::SumOfWeights,
            Size::SumOfMembers,
        ] {
            let to_set = own_modes(&[(2, 1), (3, 1)], mode.into(), size.into());
            let case = format!("{mode:?} {size:?}");
            let insert = entry::insert(to_set.clone());
            assert_eq!(c.write_one(insert).await, Code::Ok, "{case}");
            assert_eq!(c.read_entries(to_set.clone()).await, [to_set.clone()]);
            let delete = entry::delete(to_set);
            assert_eq!(c.write_one(delete).await, Code::Ok, "{case}");
        }
    }
    for (mode, size) in [(7, 0), (0, 7)] {
        let insert = entry::insert(own_modes(&[(2, 1)], mode, size));
        assert_eq!(c.write_one(insert).await, Code::InvalidArgument);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_count_what_the_set_says() {
    let set_of = |selector| {
        move |profile: &mut ActionProfile| {
            profile.max_group_size = 4;
            profile.selector_size_semantics = Some(selector);
        }
    };
    let weights = SelectorSizeSemantics::SumOfWeights(Default::default());
    let members = SelectorSizeSemantics::SumOfMembers(SumOfMembers {
        max_member_weight: 2,
    });
    let (four_ones, heavy) = (vec![(2, 1); 4], vec![(2, 3), (3, 2)]);
    let (twos, five_ones) = (vec![(2, 2); 4], vec![(2, 1); 5]);
    for (selector, actions, size, code) in [
        // At most four by weight: 3 + 2 is too much, but it is two members.
        (weights, &four_ones, 0, Code::Ok),
        (weights, &heavy, 0, Code::InvalidArgument),
        (weights, &heavy, Size::SumOfMembers as i32, Code::Ok),
        (
            weights,
            &five_ones,
            Size::SumOfMembers as i32,
            Code::InvalidArgument,
        ),
        // At most four members, of a weight of at most two.
        (members, &twos, 0, Code::Ok),
        (
            members,
            &twos,
            Size::SumOfWeights as i32,
            Code::InvalidArgument,
        ),
        (members, &heavy, 0, Code::InvalidArgument),
        (
            members,
            &vec![(2, 3), (3, 1)],
            Size::SumOfWeights as i32,
            Code::Ok,
        ),
        (members, &five_ones, 0, Code::InvalidArgument),
    ] {
        let bed = Bed::start().await;
        let mut c = bed.primary(1).await;
        let config = config_with(set_of(selector));
        let commit = Action::VerifyAndCommit;
        c.set_pipeline(commit, Some(config)).await.unwrap();
        let insert = entry::insert(own_modes(actions, 0, size));
        let case = format!("{selector:?} {actions:?} {size}");
        assert_eq!(c.write_one(insert).await, code, "{case}");
    }
}

/// Sends so many packets that are all alike; how many leave port 3.
async fn share_of_port_3(bed: &Bed, packets: usize) -> usize {
    for _ in 0..packets {
        bed.send(1, &ipv4(0x0a01_0203, 0x0a00_0001, 17, 5));
    }
    let mut counts = [0; 2];
    for _ in 0..500 {
        for (port, count) in [2, 3].into_iter().zip(&mut counts) {
            while bed.ports[port - 1].try_receive().is_some() {
                *count += 1;
            }
        }
        if counts[0] + counts[1] == packets {
            return counts[1];
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("only {counts:?} packets came");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_may_pick_at_random() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let default = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action: Some(action("NoAction", &[])),
        ..Default::default()
    };
    let weights = [(2, 1), (3, 3)];
    let hashing = own_modes(&weights, 0, 0);
    c.write(vec![entry::modify(default), entry::insert(hashing)])
        .await
        .unwrap();
    let all_or_none = share_of_port_3(&bed, 100).await;
    assert!([0, 100].contains(&all_or_none), "a flow keeps its port");
    let random = own_modes(&weights, Mode::Random.into(), 0);
    assert_eq!(c.write_one(entry::modify(random)).await, Code::Ok);
    // Three quarters of 800 with a standard deviation of 12: six of them.
    let share = share_of_port_3(&bed, 800).await;
    assert!(share.abs_diff(600) < 74, "{share}");
    // Back to the hash: the group is the same, its mode is not.
    let hashing = own_modes(&weights, Mode::Hash.into(), 0);
    assert_eq!(c.write_one(entry::modify(hashing)).await, Code::Ok);
    assert_eq!(share_of_port_3(&bed, 100).await, all_or_none);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_replaces_another_in_a_full_profile() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let mut config = config_with(|profile| profile.size = 4);
    let mut program: serde_json::Value = serde_json::from_str(JSON).unwrap();
    for pipeline in program["pipelines"].as_array_mut().unwrap() {
        for profile in pipeline["action_profiles"].as_array_mut().unwrap() {
            profile["max_size"] = 4.into();
        }
    }
    config.p4_device_config = program.to_string().into_bytes();
    let commit = Action::VerifyAndCommit;
    c.set_pipeline(commit, Some(config)).await.unwrap();
    let dst = 0x0a01_0203;
    let to = |actions: &[(u16, i32)]| route(0x0a01_0000, 16, set(actions));
    let full = [(2, 1); 4];
    assert_eq!(c.write_one(entry::insert(to(&full))).await, Code::Ok);
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([2]));
    // The members of the old set are free at this moment.
    let other = to(&[(3, 1); 4]);
    for update in [entry::modify(other.clone()), entry::modify(other.clone())] {
        assert_eq!(c.write_one(update).await, Code::Ok);
        assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([3]));
    }
    // Five are too many, whatever was there; and what was there stays.
    let update = entry::modify(to(&[(2, 1); 5]));
    assert_eq!(c.write_one(update).await, Code::ResourceExhausted);
    assert_eq!(c.read_entries(other.clone()).await, [other.clone()]);
    assert_eq!(ports_used(&bed, &mut c, dst).await, BTreeSet::from([3]));
    // Nothing is left over: when it is gone there is room for four.
    assert_eq!(c.write_one(entry::delete(other)).await, Code::Ok);
    for id in 1..=5 {
        let code = match id {
            5 => Code::ResourceExhausted,
            _ => Code::Ok,
        };
        assert_eq!(c.write_one(entry::insert(member(id, 2))).await, code);
    }
}
