//! The compiled program.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4info::{self, P4InfoError};

pub use crate::generated::COOKIE;

/// The pipeline as the compiler wrote it: `p4_device_config` for softswitch
/// and simple_switch_grpc.
pub const PIPELINE_JSON: &[u8] = include_bytes!("../../build/gateway.json");

/// P4Info in protobuf text format.
pub const P4INFO_TEXT: &str = include_str!("../../build/gateway.p4info.txtpb");

/// P4Info.
///
/// # Errors
/// Never with the text that a release carries: the tests parse it.
pub fn p4info() -> Result<P4Info, P4InfoError> {
    p4info::from_text(P4INFO_TEXT)
}
