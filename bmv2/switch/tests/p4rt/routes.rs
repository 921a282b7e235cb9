//! The table `MyIngress.routes` and its action profile.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::table_action::Type;

use crate::support::*;

pub(crate) fn profile() -> u32 {
    info().action_profiles[0].preamble.as_ref().unwrap().id
}

pub(crate) fn member(id: u32, port: u128, mac: u128) -> p4::ActionProfileMember {
    let Some(Type::Action(call)) = action("MyIngress.set_nexthop", &[port, mac]).r#type else {
        panic!("not an action");
    };
    p4::ActionProfileMember {
        action_profile_id: profile(),
        member_id: id,
        action: Some(call),
    }
}

pub(crate) fn group(id: u32, members: &[u32]) -> p4::ActionProfileGroup {
    p4::ActionProfileGroup {
        action_profile_id: profile(),
        group_id: id,
        members: members
            .iter()
            .map(|&member_id| p4::action_profile_group::Member {
                member_id,
                weight: 1,
                watch_kind: None,
            })
            .collect(),
        max_size: 0,
    }
}

pub(crate) fn route(second: u128, action: Type) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        r#match: vec![entry::lpm(1, 0x0a00_0000 | second << 16, 16, 32).unwrap()],
        action: Some(p4::TableAction {
            r#type: Some(action),
        }),
        ..Default::default()
    }
}
