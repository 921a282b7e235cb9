//! Messages of P4Runtime in protobuf text format.

use miette::Diagnostic as _;
use prost_reflect::prost::Message;
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, MessageDescriptor, prost};

use crate::FILE_DESCRIPTOR_SET;

/// Why a text could not be read as a message, or a message not written.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The text is none. A field that this schema does not know is named here
    /// too.
    #[error("line {line}: {cause} (read as {message} in protobuf text format)")]
    Text {
        /// What it should be.
        message: &'static str,
        /// Where it is wrong.
        line: usize,
        /// What is wrong. Not a source, for those who print the sources of an
        /// error would print it twice.
        cause: ParseError,
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
    let read = DynamicMessage::parse_text_format(descriptor(message)?, text).map_err(|cause| {
        TextError::Text {
            message,
            line: line_of(&cause, text),
            cause,
        }
    })?;
    Ok(read.transcode_to()?)
}

/// The line of an error; the last one if the text ends too early.
fn line_of(error: &ParseError, text: &str) -> usize {
    let place = error.labels().and_then(|mut labels| labels.next());
    let before = match place.and_then(|place| text.as_bytes().get(..place.offset())) {
        Some(before) => before,
        None => text.trim_end().as_bytes(),
    };
    before.iter().filter(|byte| **byte == b'\n').count() + 1
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
