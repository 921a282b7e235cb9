//! Messages of P4Runtime in protobuf text format.

use prost_reflect::prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, MessageDescriptor, prost};

use crate::FILE_DESCRIPTOR_SET;

/// Why a text could not be read as a message, or a message not written.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The text is none. A field that this schema does not know is named here
    /// too.
    #[error("this is not {message} in protobuf text format: {source}")]
    Text {
        /// What it should be.
        message: &'static str,
        /// What is wrong, and where.
        source: prost_reflect::text_format::ParseError,
    },
    /// The schema inside this program could not be used.
    #[error("the built-in P4Runtime schema is unusable: {0}")]
    Schema(#[from] DescriptorError),
    /// The schema inside this program lacks the message.
    #[error("the built-in P4Runtime schema has no message {0}")]
    NoMessage(&'static str),
    /// The schema and the generated code disagree.
    #[error("the built-in P4Runtime schema does not fit the generated code: {0}")]
    Mismatch(#[from] prost::DecodeError),
}

/// Reads the message of a full name.
pub(crate) fn read<M: Message + Default>(
    message: &'static str,
    text: &str,
) -> Result<M, TextError> {
    let read = DynamicMessage::parse_text_format(descriptor(message)?, text)
        .map_err(|source| TextError::Text { message, source })?;
    Ok(read.transcode_to()?)
}

/// Writes the message of a full name, on one line.
pub(crate) fn write<M: Message>(name: &'static str, message: &M) -> Result<String, TextError> {
    let mut dynamic = DynamicMessage::new(descriptor(name)?);
    dynamic.transcode_from(message)?;
    Ok(dynamic.to_text_format())
}

fn descriptor(message: &'static str) -> Result<MessageDescriptor, TextError> {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET)?
        .get_message_by_name(message)
        .ok_or(TextError::NoMessage(message))
}
