//! P4Runtime messages and services.
//!
//! The schema is P4Runtime 1.5 (`proto/`), held to the official one by
//! `tests/schema.rs`. Beside the generated [`p4`] and [`google`] modules the
//! crate has what both ends of the protocol need: [`bytestring`] for values,
//! [`entry`] to build and take apart entries,
//! [`status`] for the outcome of each update, [`p4info`] to read the file that the
//! P4 compiler writes, and [`write_text`] for entries kept in a file.

pub mod bytestring;
mod election;
pub mod entry;
mod generated;
pub mod p4info;
pub mod status;
pub mod text;
pub mod write_text;

pub use generated::{google, p4};

/// The encoded `FileDescriptorSet` of the whole schema, imports included.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The largest gRPC message, in bytes, that our clients and servers send or
/// accept.
///
/// tonic accepts 4 MiB by default. A compiled program (`p4_device_config`) and
/// a read that a server answers in one message both outgrow that. Set it with
/// `max_decoding_message_size` and `max_encoding_message_size` wherever a
/// client or a server is made.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// The TCP port registered for P4Runtime.
pub const DEFAULT_PORT: u16 = 9559;

/// The protocol version of this schema, as `Capabilities` states it.
pub const API_VERSION: &str = "1.5.0";
