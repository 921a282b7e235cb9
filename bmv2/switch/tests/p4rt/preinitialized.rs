//! Tables that the program fills and controllers may change (specification,
//! "Preinitialized tables"), with `testdata/p4rt/preinitialized.p4`.

use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4info;
use softswitch::p4rt::Mode;
use tonic::Code;

use crate::support::*;

const JSON: &str = include_str!("../../testdata/p4rt/preinitialized.json");
const P4INFO: &str = include_str!("../../testdata/p4rt/preinitialized.p4info.txtpb");

fn program() -> P4Info {
    p4info::from_text(P4INFO).unwrap()
}

fn table(name: &str) -> u32 {
    let program = program();
    let mut all = program.tables.iter().map(|t| t.preamble.as_ref().unwrap());
    all.find(|preamble| preamble.alias == name).unwrap().id
}

fn to(port: u128) -> Option<p4::TableAction> {
    let program = program();
    let mut all = program.actions.iter().map(|a| a.preamble.as_ref().unwrap());
    let id = all.find(|preamble| preamble.alias == "to").unwrap().id;
    Some(entry::direct_action(id, vec![entry::param(1, port)]))
}

fn exactly(a: u128, port: u128) -> p4::TableEntry {
    p4::TableEntry {
        table_id: table("exactly"),
        r#match: vec![entry::exact(1, a)],
        action: to(port),
        ..Default::default()
    }
}

async fn entries(c: &mut Controller, name: &str) -> Vec<p4::TableEntry> {
    let query = p4::TableEntry {
        table_id: table(name),
        ..Default::default()
    };
    let mut found = c.read_entries(query).await;
    found.sort_by_key(|entry| format!("{entry:?}"));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_program_has_put_there_can_be_changed() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    c.push_program(JSON, P4INFO).await.unwrap();
    assert_eq!(
        entries(&mut c, "exactly").await,
        [exactly(1, 1), exactly(2, 2)]
    );
    let mut priorities: Vec<i32> = entries(&mut c, "loosely")
        .await
        .iter()
        .map(|entry| entry.priority)
        .collect();
    priorities.sort_unstable();
    assert_eq!(priorities, [1, 2], "the first of the list has the highest");
    let forwarded = async |packet: &[u8], port| {
        bed.send(1, packet);
        assert_eq!(
            bed.receive(port).await.as_deref(),
            Some(packet),
            "{packet:?}"
        );
    };
    forwarded(&[1, 0], 1).await;
    forwarded(&[1, 0x21], 2).await;

    let again = entry::insert(exactly(1, 3));
    assert_eq!(c.write_one(again).await, Code::AlreadyExists);
    c.write(vec![
        entry::modify(exactly(1, 3)),
        entry::delete(exactly(2, 2)),
        entry::insert(exactly(4, 2)),
        entry::insert(exactly(5, 1)),
    ])
    .await
    .unwrap();
    let full = entry::insert(exactly(6, 1));
    assert_eq!(c.write_one(full).await, Code::ResourceExhausted);
    forwarded(&[1, 0], 3).await;
    forwarded(&[4, 0], 2).await;
    let changed = [exactly(1, 3), exactly(4, 2), exactly(5, 1)];
    assert_eq!(entries(&mut c, "exactly").await, changed);

    // A program that takes over has what the controller made of it, not what it
    // began with.
    let other = p4::ForwardingPipelineConfig {
        p4info: Some(program()),
        p4_device_config: format!("{JSON}\n").into(),
        cookie: None,
    };
    let reconcile = Action::ReconcileAndCommit;
    c.set_pipeline(reconcile, Some(other)).await.unwrap();
    assert_eq!(entries(&mut c, "exactly").await, changed);
    assert_eq!(entries(&mut c, "loosely").await.len(), 2);
    forwarded(&[5, 0], 1).await;
    // Pushed anew it begins anew.
    c.push_program(JSON, P4INFO).await.unwrap();
    assert_eq!(
        entries(&mut c, "exactly").await,
        [exactly(1, 1), exactly(2, 2)]
    );
}

/// bmv2 takes all entries of a program for constant.
#[tokio::test(flavor = "multi_thread")]
async fn bmv2_lets_nobody_change_it() {
    let bed = Bed::start_in(Mode::Compat).await;
    let mut c = bed.primary(1).await;
    c.push_program(JSON, P4INFO).await.unwrap();
    for update in [
        entry::insert(exactly(4, 2)),
        entry::modify(exactly(1, 3)),
        entry::delete(exactly(1, 1)),
    ] {
        assert_ne!(c.write_one(update).await, Code::Ok);
    }
    assert_eq!(entries(&mut c, "exactly").await.len(), 2);
}
