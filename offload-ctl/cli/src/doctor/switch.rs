//! Does the switch answer, and does its pipeline fit?

use std::time::Duration;

use p4runtime_client::{ConnectOptions, Error, Tls};
use p4runtime_proto::MAX_MESSAGE_BYTES;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::{CapabilitiesRequest, GetForwardingPipelineConfigRequest};
use sluice_config::OffloadCtl;
use tokio::time::timeout;
use tonic::{Code, Status};

use super::report::Report;

const ANSWER: Duration = Duration::from_secs(5);

/// Asks the switch what it runs. Nothing is written and no stream is opened,
/// so that the controller in charge stays in charge.
pub(super) async fn look(config: &OffloadCtl, report: &mut Report) {
    let address = &config.p4runtime.address;
    let what = format!("switch {address}");
    let mut options = ConnectOptions::new(address.to_string(), config.p4runtime.device_id, 0);
    options.deadlines.connect = ANSWER;
    if let Some(tls) = &config.p4runtime.tls {
        let identity = tls.identity.as_ref();
        let identity = identity.map(|own| (own.certificate.as_path(), own.key.as_path()));
        match Tls::read(&tls.ca, identity, tls.name.clone()) {
            Ok(tls) => options.tls = Some(tls),
            Err(error) => {
                let way_out = "correct `p4runtime.tls` in offload-ctl.toml";
                report.problem(what, error.to_string(), way_out);
                return;
            }
        }
    }
    let channel = match p4runtime_client::open_channel(&options).await {
        Ok(channel) => channel,
        Err(error @ Error::Connect { .. }) if options.tls.is_some() => {
            report.problem(
                what,
                error.to_string(),
                "start the switch with TLS, or correct `p4runtime` in offload-ctl.toml; offload-ctl keeps trying",
            );
            return;
        }
        Err(error @ Error::Tls { .. }) => {
            let way_out = "correct `p4runtime.tls` in offload-ctl.toml";
            report.problem(what, error.to_string(), way_out);
            return;
        }
        Err(_) => {
            report.problem(
                what,
                "nobody answers",
                "start the switch, or correct `p4runtime.address` in offload-ctl.toml; offload-ctl keeps trying",
            );
            return;
        }
    };
    let mut client = P4RuntimeClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let device_id = config.p4runtime.device_id;
    let version = client
        .capabilities(CapabilitiesRequest { device_id })
        .await
        .map_or_else(
            |_| String::new(),
            |answer| format!(" {}", answer.into_inner().p4runtime_api_version),
        );
    let request = GetForwardingPipelineConfigRequest {
        device_id,
        response_type: ResponseType::P4infoAndCookie.into(),
    };
    match timeout(ANSWER, client.get_forwarding_pipeline_config(request)).await {
        Ok(Ok(answer)) => {
            let Some(running) = answer.into_inner().config else {
                no_pipeline(what, &version, report);
                return;
            };
            let cookie = running.cookie.map_or(0, |cookie| cookie.cookie);
            match running.p4info {
                None => no_pipeline(what, &version, report),
                Some(p4info) => match p4_contract::compatible(&p4info) {
                    Ok(()) => report.ok(
                        what,
                        format!(
                            "P4Runtime{version} answers; {}",
                            if cookie == p4_contract::COOKIE {
                                "it runs the pipeline that is built in"
                            } else {
                                "it runs another build of the pipeline, which offload-ctl replaces unless `pipeline` in offload-ctl.toml names it"
                            }
                        ),
                    ),
                    Err(mismatch) => report.note(
                        what,
                        format!("P4Runtime{version} answers; it runs another program ({mismatch}), which offload-ctl will replace"),
                    ),
                },
            }
        }
        Ok(Err(status)) if status.code() == Code::FailedPrecondition => {
            no_pipeline(what, &version, report);
        }
        Ok(Err(status)) => refused(what, config, &status, report),
        Err(_) => report.problem(what, "does not answer in time", "look at the switch's log"),
    }
}

fn no_pipeline(what: String, version: &str, report: &mut Report) {
    report.ok(
        what,
        format!("P4Runtime{version} answers; it has no pipeline, offload-ctl will set one"),
    );
}

fn refused(what: String, config: &OffloadCtl, status: &Status, report: &mut Report) {
    let device_id = config.p4runtime.device_id;
    if status.code() == Code::NotFound {
        report.problem(
            what,
            format!("has no device {device_id}: {}", status.message()),
            "correct `p4runtime.device_id` in offload-ctl.toml, or the switch's --device-id",
        );
    } else if let Some(tls) = &config.p4runtime.tls {
        let way_out = match tls.identity {
            None => "the switch may ask for a certificate: give one as `p4runtime.tls.identity`",
            Some(_) => "the switch may not know the CA of `p4runtime.tls.identity`",
        };
        let text = format!("ended the call: {:?}: {}", status.code(), status.message());
        report.problem(what, text, way_out);
    } else {
        report.problem(
            what,
            format!("{:?}: {}", status.code(), status.message()),
            "something other than a P4Runtime server may have this address; correct `p4runtime.address`",
        );
    }
}
