//! P4Info in protobuf text format, as the P4 compiler writes it
//! (`*.p4info.txtpb`).

use std::path::{Path, PathBuf};

use crate::p4::config::v1::P4Info;
use crate::text::{self, TextError};

const MESSAGE: &str = "p4.config.v1.P4Info";

/// Why P4Info could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum P4InfoError {
    /// The file could not be read.
    #[error("cannot read the P4Info file {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said. Not a source, for those who print the sources
        /// of an error would print it twice.
        cause: std::io::Error,
    },
    /// The text is not P4Info, or the schema inside this program is damaged.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Parses P4Info in text format.
///
/// # Errors
/// [`P4InfoError::Text`], with the place in the text.
pub fn from_text(text: &str) -> Result<P4Info, P4InfoError> {
    Ok(text::read(MESSAGE, text)?)
}

/// Reads a file with P4Info in text format.
///
/// # Errors
/// [`P4InfoError::Io`] or [`P4InfoError::Text`].
pub fn read(path: &Path) -> Result<P4Info, P4InfoError> {
    let text = std::fs::read_to_string(path).map_err(|cause| P4InfoError::Io {
        path: path.to_owned(),
        cause,
    })?;
    from_text(&text)
}

/// Writes P4Info in text format, on one line.
///
/// # Errors
/// Only when the schema inside this program is damaged.
pub fn to_text(p4info: &P4Info) -> Result<String, P4InfoError> {
    Ok(text::write(MESSAGE, p4info)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{match_field, p4_ids};

    /// In the layout that the compiler uses.
    const TEXT: &str = r#"
# proto-file: p4/config/v1/p4info.proto
# proto-message: p4.config.v1.P4Info

pkg_info {
  arch: "v1model"
}
tables {
  preamble {
    id: 37375156
    name: "Ingress.route"
    alias: "route"
  }
  match_fields {
    id: 1
    name: "hdr.ipv6.dst"
    bitwidth: 128
    match_type: LPM
  }
  action_refs {
    id: 21257015
    annotations: "@defaultonly"
    scope: DEFAULT_ONLY
  }
  size: 1024
}
type_info {
  new_types {
    key: "port_t"
    value { translated_type { uri: "p4.org/psa/v1/PortId_t" sdn_bitwidth: 32 } }
  }
}
"#;

    #[test]
    fn reads_what_the_compiler_writes() {
        let p4info = from_text(TEXT).unwrap();
        let table = &p4info.tables[0];
        let preamble = table.preamble.as_ref().unwrap();
        assert_eq!(preamble.id >> 24, p4_ids::Prefix::Table as u32);
        assert_eq!(preamble.alias, "route");
        assert_eq!(table.match_fields[0].bitwidth, 128);
        assert_eq!(
            table.match_fields[0].r#match,
            Some(match_field::Match::MatchType(
                match_field::MatchType::Lpm as i32
            ))
        );
        assert_eq!(table.action_refs[0].scope, 2);
        assert_eq!(table.size, 1024);
        let types = p4info.type_info.as_ref().unwrap();
        assert!(types.new_types.contains_key("port_t"));
    }

    #[test]
    fn text_survives_a_round_trip() {
        let p4info = from_text(TEXT).unwrap();
        let text = to_text(&p4info).unwrap();
        assert_eq!(from_text(&text).unwrap(), p4info);
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = from_text("pkg_info { arch: \"x\" colour: 3 }").unwrap_err();
        assert!(matches!(error, P4InfoError::Text(_)));
        assert!(error.to_string().contains("colour"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read(Path::new("no/such/file.txtpb")).unwrap_err();
        assert!(error.to_string().contains("no/such/file.txtpb"), "{error}");
    }
}
