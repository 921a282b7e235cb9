//! Cables that are pulled: what becomes of packets to such a port, and of
//! members that watch it.

use anyhow::Result;
use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::action_profile_action::WatchKind as ActionWatch;
use p4runtime_proto::p4::v1::action_profile_group::{Member, member::WatchKind};
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;

use super::{Program, delete, insert};
use crate::differential::cases::Case;
use crate::differential::generate::id;
use crate::differential::plan::{group, replica};
use crate::differential::step::Step;

/// Whose packets are balanced.
const SOURCE: u128 = 0x0200_0000_0002;

/// Members send to the port of their number; 1 watches none.
const MEMBERS: [u32; 4] = [1, 2, 3, 4];

const GROUP: u32 = 1;

/// Flows that are sent each time.
const FLOWS: u8 = 24;

pub(super) fn all(program: &Program<'_>) -> Result<Vec<Case>> {
    let groups = members(program)?;
    let sets = vec![balance(
        program,
        ActionType::ActionProfileActionSet(set(program)?),
    )?];
    Ok(vec![
        program.case("links-groups", up_and_down(program, groups)?),
        program.case("links-sets", up_and_down(program, sets)?),
        program.case("links-from-the-start", down_first(program)?),
    ])
}

/// Packets while ports go down and come back.
fn up_and_down(program: &Program<'_>, balanced: Vec<Step>) -> Result<Vec<Step>> {
    let mut steps = balanced;
    steps.extend(to_ports(program)?);
    for (port, up) in [
        (2, false),
        (3, false),
        (2, true),
        (4, false),
        (3, true),
        (4, true),
    ] {
        steps.extend(flows(program));
        steps.push(Step::Link { port, up });
    }
    steps.extend(flows(program));
    Ok(steps)
}

/// Members that begin to watch a port that is down.
fn down_first(program: &Program<'_>) -> Result<Vec<Step>> {
    let down = |port| Step::Link { port, up: false };
    let mut steps = vec![down(2), down(4)];
    steps.extend(members(program)?);
    steps.extend(flows(program));
    steps.push(Step::Link { port: 2, up: true });
    steps.extend(flows(program));
    // Gone, and there again.
    let entry = balance_entry(program, ActionType::ActionProfileGroupId(GROUP))?;
    steps.push(delete(Entity::TableEntry(entry)));
    steps.push(delete(watching(program)?));
    steps.push(insert(watching(program)?));
    steps.push(balance(program, ActionType::ActionProfileGroupId(GROUP))?);
    steps.extend(flows(program));
    steps.push(Step::Link { port: 4, up: true });
    steps.extend(flows(program));
    Ok(steps)
}

/// Hosts behind each port, and a group of ports.
fn to_ports(program: &Program<'_>) -> Result<Vec<Step>> {
    let mut steps = vec![insert(group(
        2,
        vec![replica(2, 1), replica(3, 1), replica(4, 1)],
    ))];
    for port in MEMBERS {
        let host = program.entry("host", port.into(), "host_forward", &[port.into()])?;
        steps.push(insert(Entity::TableEntry(host)));
    }
    let all = program.entry("host", 0x99, "host_broadcast", &[2])?;
    steps.push(insert(Entity::TableEntry(all)));
    Ok(steps)
}

/// A packet to each of these hosts, and packets of many flows.
fn flows(program: &Program<'_>) -> Vec<Step> {
    let Some((_, seed)) = program.case.seeds.first() else {
        return Vec::new();
    };
    let packet = |destination: u8, flow: u8| {
        let mut frame = seed.clone();
        frame.splice(0..6, [0, 0, 0, 0, 0, destination]);
        frame.splice(6..12, SOURCE.to_be_bytes().into_iter().skip(10));
        // The last byte of the IPv4 source.
        if let Some(byte) = frame.get_mut(29) {
            *byte = flow;
        }
        Step::Packet { port: 1, frame }
    };
    let hosts = [1, 2, 3, 4, 0x99].map(|host| packet(host, 0));
    let balanced = (0..FLOWS).map(|flow| packet(0x55, flow));
    hosts.into_iter().chain(balanced).collect()
}

fn forward(program: &Program<'_>, port: u32) -> Result<p4::Action> {
    Ok(p4::Action {
        action_id: program.action("forward")?,
        params: vec![entry::param(1, port.into())],
    })
}

fn profile(program: &Program<'_>) -> u32 {
    let mut profiles = program.info().action_profiles.iter();
    let selector = profiles.find(|profile| profile.with_selector);
    selector.map_or(0, |profile| id(profile.preamble.as_ref()))
}

/// Members, a group of all, and an entry for it.
fn members(program: &Program<'_>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for member_id in MEMBERS {
        steps.push(insert(Entity::ActionProfileMember(
            p4::ActionProfileMember {
                action_profile_id: profile(program),
                member_id,
                action: Some(forward(program, member_id)?),
            },
        )));
    }
    steps.push(insert(watching(program)?));
    steps.push(balance(program, ActionType::ActionProfileGroupId(GROUP))?);
    Ok(steps)
}

/// The port that a member watches.
fn watched(member: u32) -> Option<i32> {
    i32::try_from(member).ok().filter(|port| *port != 1)
}

/// The group, whose members watch the ports that they send to.
fn watching(program: &Program<'_>) -> Result<Entity> {
    let member = |member_id: u32| Member {
        member_id,
        weight: 1,
        watch_kind: watched(member_id).map(WatchKind::Watch),
    };
    Ok(Entity::ActionProfileGroup(p4::ActionProfileGroup {
        action_profile_id: profile(program),
        group_id: GROUP,
        members: MEMBERS.map(member).to_vec(),
        max_size: 0,
    }))
}

fn set(program: &Program<'_>) -> Result<p4::ActionProfileActionSet> {
    let mut set = p4::ActionProfileActionSet::default();
    for port in MEMBERS {
        set.action_profile_actions.push(p4::ActionProfileAction {
            action: Some(forward(program, port)?),
            weight: 1,
            watch_kind: watched(port).map(ActionWatch::Watch),
        });
    }
    Ok(set)
}

fn balance_entry(program: &Program<'_>, action: ActionType) -> Result<p4::TableEntry> {
    Ok(p4::TableEntry {
        table_id: program.table("balance")?,
        r#match: vec![entry::exact(1, SOURCE)],
        action: Some(p4::TableAction {
            r#type: Some(action),
        }),
        ..p4::TableEntry::default()
    })
}

fn balance(program: &Program<'_>, action: ActionType) -> Result<Step> {
    let entry = balance_entry(program, action)?;
    Ok(insert(Entity::TableEntry(entry)))
}
