//! What does not fit into a table or an action profile, in strict mode and in
//! compatible mode: what is expected of the latter was seen from bmv2 1.15.5.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use softswitch::p4rt::Mode;
use tonic::Code;

use crate::support::*;

const ROUTES: i64 = 2;
const MEMBERS: i64 = 4;

/// The program with room for two routes and four members.
fn small() -> p4::ForwardingPipelineConfig {
    let mut config = config(1);
    let info = config.p4info.as_mut().unwrap();
    info.action_profiles[0].size = MEMBERS;
    let id = table_id("MyIngress.routes");
    for table in &mut info.tables {
        if table.preamble.as_ref().unwrap().id == id {
            table.size = ROUTES;
        }
    }
    let mut program: serde_json::Value = serde_json::from_str(JSON).unwrap();
    for pipeline in program["pipelines"].as_array_mut().unwrap() {
        for table in pipeline["tables"].as_array_mut().unwrap() {
            if table["name"] == "MyIngress.routes" {
                table["max_size"] = ROUTES.into();
            }
        }
        for profile in pipeline["action_profiles"].as_array_mut().unwrap() {
            profile["max_size"] = MEMBERS.into();
        }
    }
    config.p4_device_config = program.to_string().into_bytes();
    config
}

/// A route to a one-shot action set of so many actions.
fn one_shot(number: u128, actions: u128) -> p4::TableEntry {
    let actions = (1..=actions).map(|port| p4::ActionProfileAction {
        action: match action("MyIngress.set_nexthop", &[port, 9]).r#type {
            Some(p4::table_action::Type::Action(action)) => Some(action),
            _ => None,
        },
        weight: 1,
        watch_kind: None,
    });
    let set = p4::ActionProfileActionSet {
        action_profile_actions: actions.collect(),
        ..Default::default()
    };
    p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        r#match: vec![entry::lpm(1, 0x0a00_0000 | number << 16, 16, 32).unwrap()],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::ActionProfileActionSet(set)),
        }),
        ..Default::default()
    }
}

/// An entry that is there is told of first, as bmv2 does, whatever is full.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_full_and_what_is_there() {
    for (mode, full) in [
        (Mode::Strict, Code::ResourceExhausted),
        (Mode::Compat, Code::Unknown),
    ] {
        let bed = Bed::start_in(mode).await;
        let mut c = bed.primary(1).await;
        let action = Action::VerifyAndCommit;
        c.set_pipeline(action, Some(small())).await.unwrap();
        for (route, actions, expected) in [
            (1, 1, Code::Ok),
            (2, 3, Code::Ok),
            // The table and the profile are full.
            (1, 1, Code::AlreadyExists),
            (2, 4, Code::AlreadyExists),
            // bmv2 would take these members.
            (3, 1, Code::ResourceExhausted),
        ] {
            let update = entry::insert(one_shot(route, actions));
            let case = format!("{mode:?}, route {route} to {actions}");
            assert_eq!(c.write_one(update).await, expected, "{case}");
        }
        // Now the profile has room.
        for update in [entry::delete(one_shot(2, 3)), entry::insert(one_shot(2, 1))] {
            assert_eq!(c.write_one(update).await, Code::Ok, "{mode:?}");
        }
        // Twice, since what it made has to be taken back.
        for actions in [2, 2] {
            let update = entry::insert(one_shot(3, actions));
            assert_eq!(c.write_one(update).await, full, "{mode:?}");
        }
        let again = entry::insert(one_shot(1, 2));
        assert_eq!(c.write_one(again).await, Code::AlreadyExists, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_beyond_a_table_of_actions() {
    let rule = |priority| {
        entry::insert(p4::TableEntry {
            table_id: table_id("MyIngress.acl"),
            priority,
            action: Some(action("MyIngress.drop", &[])),
            ..Default::default()
        })
    };
    for (mode, full) in [
        (Mode::Strict, Code::ResourceExhausted),
        (Mode::Compat, Code::Unknown),
    ] {
        for atomicity in [Atomicity::ContinueOnError, Atomicity::DataplaneAtomic] {
            let bed = Bed::start_in(mode).await;
            let mut c = bed.ready().await;
            // It has room for four.
            c.write((1..=4).map(rule).collect()).await.unwrap();
            let case = format!("{mode:?}, {atomicity:?}");
            assert_eq!(c.codes(vec![rule(5)], atomicity).await, [full], "{case}");
            let again = c.codes(vec![rule(4)], atomicity).await;
            assert_eq!(again, [Code::AlreadyExists], "{case}");
        }
    }
}
