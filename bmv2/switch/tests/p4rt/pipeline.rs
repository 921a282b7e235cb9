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
    let edits: [(&str, Edit); 9] = [
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
