//! Pipeline configurations: checking what is pushed.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;

use super::Mode;
use super::binding::Binding;
use super::fault::{Fault, Outcome};
use super::target::Pipeline;
use crate::Program;

/// The wrapper that some controllers for bmv2 put around the JSON
/// (`p4.tmp.P4DeviceConfig` of PI).
#[derive(Clone, PartialEq, prost::Message)]
struct P4DeviceConfig {
    #[prost(bool, tag = "1")]
    reassign: bool,
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Loads and checks a configuration.
///
/// # Errors
/// `INVALID_ARGUMENT`, with the place in the program or the name of the object
/// that does not agree with it.
pub(super) fn verify(
    mode: Mode,
    config: Option<ForwardingPipelineConfig>,
) -> Outcome<(Pipeline, Program)> {
    let config = config.ok_or_else(|| Fault::invalid("the config is missing"))?;
    let p4info = config
        .p4info
        .ok_or_else(|| Fault::invalid("config.p4info is missing"))?;
    if config.p4_device_config.is_empty() {
        return Err(Fault::invalid(
            "config.p4_device_config is empty; it must hold the JSON that p4c-bm2-ss wrote",
        ));
    }
    let json = unwrap(&config.p4_device_config);
    let mut program = Program::load(&json)
        .map_err(|error| Fault::invalid(format!("config.p4_device_config: {error}")))?;
    if mode == Mode::Strict {
        open_preinitialized(&p4info, &mut program);
    }
    let binding = Binding::new(&p4info, &program)?;
    let pipeline = Pipeline {
        p4info,
        device_config: config.p4_device_config,
        cookie: config.cookie.map(|cookie| cookie.cookie),
        binding,
    };
    Ok((pipeline, program))
}

/// Lets controllers change what the program has put into tables whose entries are
/// not constant (specification, "Preinitialized tables"). That they are not only
/// P4Info tells; which of them are constant nothing does. bmv2 takes all for
/// constant.
fn open_preinitialized(p4info: &P4Info, program: &mut Program) {
    let preinitialized = p4info
        .tables
        .iter()
        .filter(|table| table.has_initial_entries && !table.is_const_table);
    for table in preinitialized {
        let name = table.preamble.as_ref().map_or("", |p| p.name.as_str());
        if let Some(id) = program.table_by_name(name) {
            program.open_table(id, u32::try_from(table.size).unwrap_or(0));
        }
    }
}

fn unwrap(bytes: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let is_json = bytes
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_some_and(|byte| *byte == b'{');
    if is_json {
        return bytes.into();
    }
    match <P4DeviceConfig as prost::Message>::decode(bytes) {
        Ok(wrapper) if !wrapper.device_data.is_empty() => wrapper.device_data.into(),
        _ => bytes.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_be_wrapped() {
        // reassign: true, device_data: "{}"
        let wrapped = [0x08, 0x01, 0x1a, 0x02, b'{', b'}'];
        assert_eq!(unwrap(&wrapped).as_ref(), b"{}");
        assert_eq!(unwrap(b"\n{ }").as_ref(), b"\n{ }");
        assert_eq!(unwrap(b"nonsense").as_ref(), b"nonsense");
    }

    #[test]
    fn what_is_missing_is_named() {
        let message = |config| verify(Mode::Strict, config).unwrap_err().message;
        assert!(message(None).contains("config"));
        let mut config = ForwardingPipelineConfig::default();
        assert!(message(Some(config.clone())).contains("p4info"));
        config.p4info = Some(P4Info::default());
        assert!(message(Some(config.clone())).contains("p4_device_config"));
        config.p4_device_config = b"[1".to_vec();
        assert!(message(Some(config)).contains("p4_device_config"));
    }
}
