//! What is done to a switch, and what comes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{Entity, PacketMetadata, Update};
use serde::Serialize;

/// One thing that both switches are asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A write request, all updates in one batch.
    Write(Vec<Update>),
    /// A read request.
    Read(Vec<Entity>),
    /// A frame on a port.
    Packet {
        /// The port.
        port: u16,
        /// The frame.
        frame: Vec<u8>,
    },
    /// The program again.
    Pipeline(Action),
    /// Nothing; what comes meanwhile counts.
    Wait(Duration),
    /// Frames on a port, one right after the other.
    Burst {
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
}

/// What a switch did, as far as it is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The status of the call; with that of each update when they differ from
    /// each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Entities read, in canonical form and order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entities: Vec<String>,
    /// Frames in hexadecimal, by port, in order.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub frames: BTreeMap<u16, Vec<String>>,
    /// Packets, digests and notices for the controller.
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
        Step::Read(entities) => format!("read {entities:?}"),
        Step::Pipeline(action) => format!("pipeline {}", action.as_str_name()),
        Step::Wait(time) => format!("wait {} ms", time.as_millis()),
        Step::Packet { port, frame } => format!("packet on port {port}: {}", hex(frame)),
        Step::Burst { port, frames } => {
            let frames: Vec<String> = frames.iter().map(|frame| hex(frame)).collect();
            format!("packets on port {port}: {}", frames.join(", "))
        }
        Step::PacketOut { payload, metadata } => {
            format!("packet-out {metadata:?}: {}", hex(payload))
        }
    }
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
