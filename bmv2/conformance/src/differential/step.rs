//! What is done to a switch, and what comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::{
    Entity, PacketMetadata, ReadRequest, SetForwardingPipelineConfigRequest, StreamMessageRequest,
    Update, WriteRequest,
};
use serde::Serialize;

/// The number of a controller's stream; [`MAIN`] is open from the start.
pub type StreamNumber = usize;

/// The stream that is primary from the start.
pub const MAIN: StreamNumber = 0;

/// One thing that both switches are asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A write request, all updates in one batch.
    Write(Vec<Update>),
    /// A write request with all that belongs to one.
    WriteAs(Box<WriteRequest>),
    /// A read request.
    Read(Vec<Entity>),
    /// A read request with all that belongs to one.
    ReadAs(Box<ReadRequest>),
    /// A frame on a port.
    Packet {
        /// The port.
        port: u16,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A configuration of the pipeline.
    Pipeline(Box<SetForwardingPipelineConfigRequest>),
    /// Which configuration there is, of a device.
    GetPipeline {
        /// The device.
        device: u64,
        /// [`ResponseType`], or a number that is none.
        what: i32,
    },
    /// Nothing; what comes meanwhile counts.
    Wait(Duration),
    /// Frames on a port, one right after the other.
    Burst {
        /// The port.
        port: u16,
        /// The frames.
        frames: Vec<Vec<u8>>,
    },
    /// Frames on a port; the next step hears what comes of them.
    Unheard {
        /// The port.
        port: u16,
        /// The frames.
        frames: Vec<Vec<u8>>,
    },
    /// A packet from the controller.
    PacketOut {
        /// The packet.
        payload: Vec<u8>,
        /// Fields of the `packet_out` header.
        metadata: Vec<PacketMetadata>,
    },
    /// A message of a controller, on a stream that is opened for it if need be.
    Tell {
        /// The stream.
        stream: StreamNumber,
        /// The message.
        message: StreamMessageRequest,
    },
    /// The end of a stream.
    Close(StreamNumber),
    /// What becomes of digest lists from now on, or of the last one.
    Acknowledge(Acknowledge),
    /// A cable is pulled, or plugged in again.
    Link {
        /// The port.
        port: u16,
        /// Whether it has a cable then.
        up: bool,
    },
}

/// How digest lists are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// As soon as they come, which is so at first.
    AtOnce,
    /// Not until asked to.
    Never,
    /// The last one that came of a digest, now.
    Last(u32),
}

impl Step {
    /// Whether its answer is all that comes of it.
    pub fn is_call(&self) -> bool {
        matches!(
            self,
            Self::Write(_)
                | Self::WriteAs(_)
                | Self::Read(_)
                | Self::ReadAs(_)
                | Self::Pipeline(_)
                | Self::GetPipeline { .. }
        )
    }

    /// The updates of a write.
    pub fn updates(&self) -> &[Update] {
        match self {
            Self::Write(updates) => updates,
            Self::WriteAs(request) => &request.updates,
            _ => &[],
        }
    }

    /// What a read asks for.
    pub fn queries(&self) -> &[Entity] {
        match self {
            Self::Read(entities) => entities,
            Self::ReadAs(request) => &request.entities,
            _ => &[],
        }
    }
}

/// What a switch did, as far as it is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The status of the call; with that of each update when they differ from
    /// each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Entities read, in canonical form and order; of a pipeline, its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<String>,
    /// Frames in hexadecimal, by port, in order.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub frames: BTreeMap<u16, Vec<String>>,
    /// Packets, digests and notices for the controllers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}

impl Outcome {
    /// Adds what came later.
    pub fn merge(&mut self, later: Self) {
        for (port, frames) in later.frames {
            self.frames.entry(port).or_default().extend(frames);
        }
        self.messages.extend(later.messages);
        self.messages.sort();
    }
}

/// A step in words.
pub fn describe(step: &Step) -> String {
    match step {
        Step::Write(updates) => match updates.as_slice() {
            [one] => format!("write {one:?}"),
            many => format!("write {} updates: {many:?}", many.len()),
        },
        Step::WriteAs(request) => format!("write {request:?}"),
        Step::Read(entities) => format!("read {entities:?}"),
        Step::ReadAs(request) => format!("read {request:?}"),
        Step::Pipeline(request) => describe_pipeline(request),
        Step::GetPipeline { device, what } => {
            let what = ResponseType::try_from(*what).map(|w| w.as_str_name().to_owned());
            let what = what.unwrap_or_else(|unknown| unknown.to_string());
            format!("what pipeline device {device} has: {what}")
        }
        Step::Wait(time) => format!("wait {} ms", time.as_millis()),
        Step::Packet { port, frame } => format!("packet on port {port}: {}", hex(frame)),
        Step::Burst { port, frames } | Step::Unheard { port, frames } => {
            let frames: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
            format!("packets on port {port}: {}", frames.join(", "))
        }
        Step::PacketOut { payload, metadata } => {
            format!("packet-out {metadata:?}: {}", hex(payload))
        }
        Step::Tell { stream, message } => format!("controller {stream} says {message:?}"),
        Step::Close(stream) => format!("controller {stream} leaves"),
        Step::Acknowledge(how) => format!("acknowledge {how:?}"),
        Step::Link { port, up } => {
            format!(
                "the link of port {port} goes {}",
                if *up { "up" } else { "down" }
            )
        }
    }
}

/// A program is too long to be repeated.
fn describe_pipeline(request: &SetForwardingPipelineConfigRequest) -> String {
    let config = request.config.as_ref().map_or("none".to_owned(), |config| {
        let tables = config.p4info.as_ref().map(|info| info.tables.len());
        format!(
            "P4Info of tables: {tables:?}, program of bytes: {}, cookie: {:?}",
            config.p4_device_config.len(),
            config.cookie.map(|cookie| cookie.cookie)
        )
    });
    format!(
        "pipeline {} for device {} by {:?} of role {:?}: {config}",
        request.action().as_str_name(),
        request.device_id,
        request.election_id,
        request.role
    )
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
