//! Who may write.

use p4runtime_proto::entry;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use softswitch::p4rt::Mode;
use tonic::Code;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn primary_backup_and_takeover() {
    let bed = Bed::start().await;
    let mut a = bed.primary(10).await;
    let mut b = Controller::open(bed.client().await, 5).await;
    assert_eq!(b.arbitration().await, (Code::AlreadyExists, Some(10)));
    a.push(1).await.unwrap();

    // A backup may not write.
    let denied = b.write(vec![entry::insert(l2(1, 1))]).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);

    // The primary leaves: nobody is primary until somebody claims it.
    drop(a);
    assert_eq!(b.arbitration().await, (Code::NotFound, Some(10)));
    b.election = 10;
    let denied = b.write(vec![entry::insert(l2(1, 1))]).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    let mut c = Controller::open(bed.client().await, 10).await;
    assert_eq!(b.arbitration().await, (Code::AlreadyExists, Some(10)));
    assert_eq!(c.arbitration().await, (Code::Ok, Some(10)));
    c.write(vec![entry::insert(l2(1, 1))]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_id_ends_the_stream() {
    let bed = Bed::start().await;
    let mut a = bed.primary(10).await;
    let mut b = Controller::open(bed.client().await, 10).await;
    assert_eq!(b.next().await.unwrap_err().code(), Code::InvalidArgument);
    // The first one is not disturbed.
    a.push(1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_device_is_not_found() {
    let bed = Bed::start().await;
    let mut a = bed.primary(10).await;
    let wrong = p4::MasterArbitrationUpdate {
        device_id: DEVICE + 1,
        election_id: election_id(11),
        ..Default::default()
    };
    a.send(Up::Arbitration(wrong)).await;
    assert_eq!(a.next().await.unwrap_err().code(), Code::FailedPrecondition);

    let mut client = bed.client().await;
    let error = client
        .write(p4::WriteRequest {
            device_id: DEVICE + 1,
            ..Default::default()
        })
        .await;
    assert_eq!(error.unwrap_err().code(), Code::NotFound);
    let error = client
        .read(p4::ReadRequest {
            device_id: DEVICE + 1,
            ..Default::default()
        })
        .await;
    assert_eq!(error.unwrap_err().code(), Code::NotFound);
    let error = client
        .get_forwarding_pipeline_config(p4::GetForwardingPipelineConfigRequest {
            device_id: DEVICE + 1,
            ..Default::default()
        })
        .await;
    assert_eq!(error.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_primary_only_compatible_mode_writes() {
    for (mode, code) in [
        (Mode::Strict, Code::PermissionDenied),
        (Mode::Compat, Code::FailedPrecondition), // allowed, but no pipeline
    ] {
        let bed = Bed::start_in(mode).await;
        let request = p4::WriteRequest {
            device_id: DEVICE,
            ..Default::default()
        };
        let error = bed.client().await.write(request).await.unwrap_err();
        assert_eq!(error.code(), code, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_name_the_version() {
    let bed = Bed::start().await;
    let mut client = bed.client().await;
    let response = client.capabilities(p4::CapabilitiesRequest::default());
    let version = response.await.unwrap().into_inner().p4runtime_api_version;
    assert_eq!(version, "1.5.0");
}
