//! A WriteRequest in protobuf text format: entries kept in a file.

use crate::p4::v1::WriteRequest;
use crate::text::{self, TextError};

/// Parses a WriteRequest in text format.
///
/// # Errors
/// [`TextError::Text`], with the place in the text.
pub fn from_text(text: &str) -> Result<WriteRequest, TextError> {
    text::read("p4.v1.WriteRequest", text)
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
