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
    fn what_is_wrong_has_its_line_and_is_said_once() {
        let end = "(read as p4.v1.WriteRequest in protobuf text format)";
        for (text, wanted) in [
            (
                "updates { typ: INSERT }",
                "line 1: field 'typ' not found for message 'p4.v1.Update'",
            ),
            (
                "# entries\nupdates {\n  type: INSRT\n}\n",
                "line 3: value 'INSRT' was not found for enum 'p4.v1.Update.Type'",
            ),
            ("updates {\n  type: ?\n}\n", "line 2: invalid token"),
            ("updates {\n  type: INSERT\n\n", "line 2: expected "),
        ] {
            let error = from_text(text).unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with(wanted) && said.ends_with(end), "{said}");
            assert!(std::error::Error::source(&error).is_none());
        }
    }
}
