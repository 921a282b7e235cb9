//! Pushing and reading back the pipeline.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Code;

use crate::support::*;

async fn get(
    controller: &mut Controller,
    kind: ResponseType,
) -> Option<p4::ForwardingPipelineConfig> {
    let request = p4::GetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        response_type: kind.into(),
    };
    let response = controller.client.get_forwarding_pipeline_config(request);
    response.await.unwrap().into_inner().config
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_reads_back() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    assert_eq!(get(&mut c, ResponseType::All).await, None);
    c.push(77).await.unwrap();
    let all = config(77);
    assert_eq!(get(&mut c, ResponseType::All).await, Some(all.clone()));
    let cookie = get(&mut c, ResponseType::CookieOnly).await.unwrap();
    assert_eq!(cookie.cookie, all.cookie);
    assert!(cookie.p4info.is_none() && cookie.p4_device_config.is_empty());
    let p4info = get(&mut c, ResponseType::P4infoAndCookie).await.unwrap();
    assert_eq!((p4info.p4info, p4info.cookie), (all.p4info, all.cookie));
    let program = get(&mut c, ResponseType::DeviceConfigAndCookie)
        .await
        .unwrap();
    assert_eq!(program.p4_device_config, all.p4_device_config);
    assert!(program.p4info.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_works_before_a_pipeline() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let error = c.write(vec![entry::insert(l2(1, 1))]).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let error = c.read(l2(1, 1)).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_do_what_they_say() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let code = |result: Result<(), tonic::Status>| result.unwrap_err().code();
    assert_eq!(
        code(c.set_pipeline(Action::Commit, None).await),
        Code::NotFound
    );
    assert_eq!(
        code(c.set_pipeline(Action::VerifyAndCommit, None).await),
        Code::InvalidArgument
    );
    assert_eq!(
        code(c.set_pipeline(Action::Unspecified, Some(config(1))).await),
        Code::InvalidArgument
    );
    c.set_pipeline(Action::Verify, Some(config(1)))
        .await
        .unwrap();
    assert_eq!(get(&mut c, ResponseType::CookieOnly).await, None);

    c.set_pipeline(Action::VerifyAndSave, Some(config(2)))
        .await
        .unwrap();
    assert_eq!(
        code(c.set_pipeline(Action::Commit, Some(config(2))).await),
        Code::InvalidArgument
    );
    c.set_pipeline(Action::Commit, None).await.unwrap();
    let cookie = get(&mut c, ResponseType::CookieOnly).await.unwrap().cookie;
    assert_eq!(cookie.unwrap().cookie, 2);
    c.write(vec![entry::insert(l2(1, 1))]).await.unwrap();

    // The same program again: entries stay.
    c.set_pipeline(Action::ReconcileAndCommit, Some(config(3)))
        .await
        .unwrap();
    assert_eq!(c.read_entries(l2(1, 1)).await.len(), 1);
    let cookie = get(&mut c, ResponseType::CookieOnly).await.unwrap().cookie;
    assert_eq!(cookie.unwrap().cookie, 3);

    // VERIFY_AND_COMMIT clears them.
    c.push(4).await.unwrap();
    let all = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        ..Default::default()
    };
    assert_eq!(c.read_entries(all).await, []);
}

/// P4Info that does not belong to the program is refused with the name of the
/// object, and the running pipeline stays.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_p4info_is_refused_by_name() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    type Edit = fn(&mut p4runtime_proto::p4::config::v1::P4Info);
    let edits: [(&str, Edit); 13] = [
        // The program has a table that P4Info does not name.
        ("MyIngress.l3", |i| {
            i.tables[0].preamble.as_mut().unwrap().name = "MyIngress.l3".into();
        }),
        ("hdr.ethernet.dst", |i| {
            i.tables[0].match_fields[0].bitwidth = 47
        }),
        ("hdr.ethernet.dst", |i| {
            i.tables[0].match_fields[0].name = "x".into()
        }),
        ("MyIngress.l2", |i| i.tables[0].match_fields.clear()),
        ("MyIngress.port_rx", |i| i.counters[0].size = 65),
        ("MyIngress.ecmp", |i| {
            i.action_profiles[0].with_selector = false
        }),
        ("MyIngress.last_len", |i| i.registers[0].size = 1),
        ("port", |i| {
            let action = i
                .actions
                .iter_mut()
                .find(|a| a.preamble.as_ref().unwrap().name == "MyIngress.counted_forward");
            action.unwrap().params[0].bitwidth = 32;
        }),
        ("id", |i| i.tables[0].preamble.as_mut().unwrap().id = 0),
        ("4711", |i| i.tables[0].const_default_action_id = 4711),
        ("4711", |i| {
            let action = p4runtime_proto::p4::config::v1::TableActionCall {
                action_id: 4711,
                arguments: Vec::new(),
            };
            i.tables[0].initial_default_action = Some(action);
        }),
        ("4711", |i| i.tables[0].direct_resource_ids.push(4711)),
        ("MyIngress.ecmp", |i| {
            i.action_profiles[0].max_group_size = -1
        }),
    ];
    for (name, edit) in edits {
        let mut foreign = config(9);
        edit(foreign.p4info.as_mut().unwrap());
        let error = c
            .set_pipeline(Action::VerifyAndCommit, Some(foreign))
            .await
            .unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains(name), "{name}: {error}");
    }
    let cookie = get(&mut c, ResponseType::CookieOnly).await.unwrap().cookie;
    assert_eq!(cookie.unwrap().cookie, 1);
}

/// The compiler describes objects that the program never uses, and leaves them
/// out of it.
#[tokio::test(flavor = "multi_thread")]
async fn unused_objects_are_described_but_not_there() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let mut more = config(1);
    let info = more.p4info.as_mut().unwrap();
    let mut unused = info.tables[0].clone();
    let preamble = unused.preamble.as_mut().unwrap();
    preamble.id = 0x02ff_ffff;
    preamble.name = "MyIngress.never".into();
    info.tables.push(unused);
    c.set_pipeline(Action::VerifyAndCommit, Some(more))
        .await
        .unwrap();
    let mut entry = l2(1, 1);
    assert_eq!(c.write_one(entry::insert(entry.clone())).await, Code::Ok);
    entry.table_id = 0x02ff_ffff;
    assert_eq!(c.write_one(entry::insert(entry)).await, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_program_is_refused() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    for json in ["", "{", "[]", "{\"program\": 3}"] {
        let mut broken = config(9);
        broken.p4_device_config = json.into();
        let result = c.set_pipeline(Action::VerifyAndCommit, Some(broken)).await;
        assert_eq!(
            result.unwrap_err().code(),
            Code::InvalidArgument,
            "{json:?}"
        );
    }
}

/// Writes and reads refer to a saved program until it is committed; packets do
/// not.
#[tokio::test(flavor = "multi_thread")]
async fn a_saved_program_is_written_before_it_runs() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    c.write(vec![entry::insert(l2(1, 2))]).await.unwrap();
    c.set_pipeline(Action::VerifyAndSave, Some(next_config(2)))
        .await
        .unwrap();
    assert_eq!(
        get(&mut c, ResponseType::CookieOnly)
            .await
            .unwrap()
            .cookie
            .unwrap()
            .cookie,
        2
    );
    // The saved program starts empty.
    assert_eq!(c.write_one(entry::delete(l2(1, 2))).await, Code::NotFound);
    c.write(vec![entry::insert(l2(1, 3))]).await.unwrap();
    assert_eq!(c.read_entries(l2(1, 0)).await, [l2(1, 3)]);
    bed.send(1, &frame(1, 9));
    assert!(bed.receive(2).await.is_some());
    c.set_pipeline(Action::Commit, None).await.unwrap();
    assert_eq!(c.read_entries(l2(1, 0)).await, [l2(1, 3)]);
    bed.send(1, &frame(1, 9));
    assert!(bed.receive(3).await.is_some());
    assert!(bed.ports[1].try_receive().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_takes_over_the_state() {
    let bed = Bed::start().await;
    let mut c = bed.ready().await;
    let mut kept = l2(1, 2);
    kept.controller_metadata = 5;
    kept.idle_timeout_ns = 60_000_000_000;
    let default = p4::TableEntry {
        table_id: table_id("MyIngress.l2"),
        is_default_action: true,
        action: Some(action("NoAction", &[])),
        ..Default::default()
    };
    let nexthop = |params: &[u128]| match action("MyIngress.set_nexthop", params).r#type {
        Some(p4::table_action::Type::Action(action)) => action,
        other => panic!("{other:?}"),
    };
    let route = |params: &[u128]| p4::TableEntry {
        table_id: table_id("MyIngress.routes"),
        r#match: vec![entry::lpm(1, 0x0a00_0000, 8, 32).unwrap()],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::ActionProfileActionSet(
                p4::ActionProfileActionSet {
                    action_profile_actions: vec![p4::ActionProfileAction {
                        action: Some(nexthop(params)),
                        weight: 1,
                        watch_kind: None,
                    }],
                    ..Default::default()
                },
            )),
        }),
        ..Default::default()
    };
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: vec![],
        metadata: vec![1],
    };
    c.write(vec![
        entry::insert(kept.clone()),
        entry::modify(default.clone()),
        entry::insert(route(&[3, 0x99])),
        entry::insert(group),
    ])
    .await
    .unwrap();
    bed.send(1, &frame(1, 9));
    assert!(bed.receive(2).await.is_some());

    // State in a table that the successor does not have: refused, untouched.
    let learned = p4::TableEntry {
        table_id: table_id("MyIngress.smac"),
        r#match: vec![entry::exact(1, 1)],
        action: Some(action("NoAction", &[])),
        ..Default::default()
    };
    c.write(vec![entry::insert(learned.clone())]).await.unwrap();
    let error = c
        .set_pipeline(Action::ReconcileAndCommit, Some(next_config(2)))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("MyIngress.smac"), "{error}");
    assert_eq!(c.read_entries(learned.clone()).await, [learned.clone()]);
    c.write(vec![entry::delete(learned)]).await.unwrap();

    c.set_pipeline(Action::ReconcileAndCommit, Some(next_config(3)))
        .await
        .unwrap();
    let mut query = l2(1, 0);
    query.counter_data = Some(p4::CounterData::default());
    kept.counter_data = Some(p4::CounterData {
        packet_count: 1,
        byte_count: 64,
    });
    assert_eq!(c.read_entries(query).await, [kept]);
    assert_eq!(c.read_entries(default.clone()).await, [default]);
    // The parameters are the other way round now.
    assert_eq!(c.read_entries(route(&[])).await, [route(&[0x99, 3])]);
    let groups = c.read(p4::MulticastGroupEntry::default()).await.unwrap();
    assert_eq!(groups.len(), 1);
    bed.send(1, &frame(1, 9));
    assert!(bed.receive(2).await.is_some());
    bed.send(1, &ipv4(0x0a01_0203, 0x0a00_0001, 17, 1));
    let routed = bed.receive(3).await.unwrap();
    assert_eq!(routed[..6], [0, 0, 0, 0, 0, 0x99]);
}

/// The pipeline that this repository exists for.
#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_accepted() {
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/build");
    let p4info = std::path::Path::new(build).join("gateway.p4info.txtpb");
    let gateway = p4::ForwardingPipelineConfig {
        p4info: Some(p4runtime_proto::p4info::read(&p4info).unwrap()),
        p4_device_config: std::fs::read(format!("{build}/gateway.json")).unwrap(),
        cookie: None,
    };
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    c.set_pipeline(Action::VerifyAndCommit, Some(gateway.clone()))
        .await
        .unwrap();
    assert_eq!(get(&mut c, ResponseType::All).await, Some(gateway));
}
