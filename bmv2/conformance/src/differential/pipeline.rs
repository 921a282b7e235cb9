//! Configurations of the pipeline: how they are pushed, and what is compared of
//! one that is read.

use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{ForwardingPipelineConfig, SetForwardingPipelineConfigRequest};

use super::side::{DEVICE, ELECTION};

/// A request by the primary.
pub(super) fn request(
    action: Action,
    config: Option<ForwardingPipelineConfig>,
) -> SetForwardingPipelineConfigRequest {
    SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        election_id: Some(ELECTION),
        action: action.into(),
        config,
        ..SetForwardingPipelineConfigRequest::default()
    }
}

/// The parts of a configuration that are there, one text each; those that are
/// as in the case's own are not repeated.
pub(super) fn parts(
    config: &ForwardingPipelineConfig,
    own: &ForwardingPipelineConfig,
) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(info) = &config.p4info {
        parts.push(if Some(info) == own.p4info.as_ref() {
            "the P4Info".to_owned()
        } else {
            format!("another P4Info, tables: {}", info.tables.len())
        });
    }
    if config.p4_device_config == own.p4_device_config {
        parts.push("the program".into());
    } else if !config.p4_device_config.is_empty() {
        let bytes = config.p4_device_config.len();
        parts.push(format!("another program, bytes: {bytes}"));
    }
    if let Some(cookie) = config.cookie {
        parts.push(format!("cookie {}", cookie.cookie));
    }
    parts
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::config::v1::{P4Info, Table};
    use p4runtime_proto::p4::v1::forwarding_pipeline_config::Cookie;

    use super::*;

    #[test]
    fn what_is_there_is_told() {
        let own = ForwardingPipelineConfig {
            p4info: Some(P4Info::default()),
            p4_device_config: b"{}".to_vec(),
            cookie: None,
        };
        assert_eq!(parts(&own, &own), ["the P4Info", "the program"]);
        let nothing = ForwardingPipelineConfig::default();
        assert_eq!(parts(&nothing, &own), [""; 0]);
        let other = ForwardingPipelineConfig {
            p4info: Some(P4Info {
                tables: vec![Table::default()],
                ..P4Info::default()
            }),
            p4_device_config: b"{1}".to_vec(),
            cookie: Some(Cookie { cookie: 7 }),
        };
        let expected = [
            "another P4Info, tables: 1",
            "another program, bytes: 3",
            "cookie 7",
        ];
        assert_eq!(parts(&other, &own), expected);
    }
}
