//! A WriteRequest in protobuf text format: entries kept in a file.

use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, prost};

use crate::FILE_DESCRIPTOR_SET;
use crate::p4::v1::WriteRequest;

const MESSAGE: &str = "p4.v1.WriteRequest";

/// Why a text could not be read as a WriteRequest.
#[derive(Debug, thiserror::Error)]
pub enum WriteTextError {
    /// The text is none. A field that this schema does not know is named here
    /// too.
    #[error("this is not a WriteRequest in protobuf text format: {0}")]
    Text(#[from] prost_reflect::text_format::ParseError),
    /// The schema inside this program could not be used.
    #[error("the built-in P4Runtime schema is unusable: {0}")]
    Schema(#[from] DescriptorError),
    /// The schema inside this program has no WriteRequest.
    #[error("the built-in P4Runtime schema has no message {MESSAGE}")]
    NoMessage,
    /// The schema and the generated code disagree.
    #[error("the built-in P4Runtime schema does not fit the generated code: {0}")]
    Mismatch(#[from] prost::DecodeError),
}

/// Parses a WriteRequest in text format.
///
/// # Errors
/// [`WriteTextError::Text`], with the place in the text.
pub fn from_text(text: &str) -> Result<WriteRequest, WriteTextError> {
    let descriptor = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?
        .get_message_by_name(MESSAGE)
        .ok_or(WriteTextError::NoMessage)?;
    let message = DynamicMessage::parse_text_format(descriptor, text)?;
    Ok(message.transcode_to()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::v1::entity::Entity;
    use crate::p4::v1::update::Type;

    #[test]
    fn reads_updates() {
        let request = from_text(
            r#"# a comment
            device_id: 3
            updates {
              type: INSERT
              entity { table_entry { table_id: 7 priority: 2
                match { field_id: 1 exact { value: "\x0a\000" } } } }
            }"#,
        )
        .unwrap();
        assert_eq!(request.device_id, 3);
        let update = &request.updates[0];
        assert_eq!(update.r#type(), Type::Insert);
        let entity = update.entity.as_ref().unwrap().entity.as_ref();
        let Some(Entity::TableEntry(entry)) = entity else {
            panic!("{entity:?}");
        };
        assert_eq!((entry.table_id, entry.priority), (7, 2));
        let wanted = crate::p4::v1::field_match::Exact { value: vec![10, 0] };
        assert_eq!(
            entry.r#match[0].field_match_type,
            Some(crate::p4::v1::field_match::FieldMatchType::Exact(wanted))
        );
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = from_text("updates { typ: INSERT }").unwrap_err();
        assert!(error.to_string().contains("typ"), "{error}");
    }
}
