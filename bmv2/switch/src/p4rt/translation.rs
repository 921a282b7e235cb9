//! Values of user-defined types with `@p4runtime_translation` (specification,
//! "User-Defined Types"). The switch has no translation of its own: a number of
//! the controller is the data plane's, whatever width P4Info gives it, and a
//! string is that number in decimal.

use num_bigint::BigUint;
use p4runtime_proto::bytestring::{self, BytestringError};
use p4runtime_proto::p4::config::v1::{
    P4NamedType, P4TypeInfo, p4_new_type_spec::Representation, p4_new_type_translation::SdnType,
};

use super::fault::{Fault, Outcome};
use crate::Value;

/// Most digits of a number: those of 4,096 bits.
const MAX_DIGITS: usize = 1234;

/// How controllers write a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Form {
    /// As a number, big-endian.
    #[default]
    Number,
    /// As a string (`sdn_string`).
    Text,
}

impl Form {
    /// The form of values of a type; of a built-in type if it has no name.
    pub(super) fn of(type_name: Option<&P4NamedType>, types: Option<&P4TypeInfo>) -> Self {
        let found = type_name.and_then(|named| types?.new_types.get(&named.name));
        match found.and_then(|found| found.representation.as_ref()) {
            Some(Representation::TranslatedType(translated))
                if matches!(translated.sdn_type, Some(SdnType::SdnString(_))) =>
            {
                Self::Text
            }
            _ => Self::Number,
        }
    }

    /// The data plane's value; its width is checked elsewhere.
    pub(super) fn decode(self, place: impl Fn() -> String, bytes: &[u8]) -> Outcome<Value> {
        match self {
            Self::Number if bytes.is_empty() => Err(Fault::value(place(), &BytestringError::Empty)),
            Self::Number => Ok(Value::from_slice(bytes)),
            Self::Text => from_text(bytes).ok_or_else(|| {
                Fault::invalid(format!(
                    "{}: {:?} is not a number in decimal; this switch knows no other names",
                    place(),
                    String::from_utf8_lossy(&bytes[..bytes.len().min(64)])
                ))
            }),
        }
    }

    /// The controller's form of a value.
    pub(super) fn encode(self, value: &[u8]) -> Vec<u8> {
        match self {
            Self::Number => bytestring::canonical(value),
            Self::Text => BigUint::from_bytes_be(value).to_string().into_bytes(),
        }
    }
}

/// Only what [`Form::encode`] gives, so that what is read is what was written.
fn from_text(text: &[u8]) -> Option<Value> {
    let canonical = text == b"0" || text.first().is_some_and(|digit| *digit != b'0');
    let digits = text.iter().all(u8::is_ascii_digit);
    if !canonical || !digits || text.len() > MAX_DIGITS {
        return None;
    }
    let number = BigUint::parse_bytes(text, 10)?;
    Some(Value::from_vec(number.to_bytes_be()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_decimal_numbers() {
        let decode = |text: &[u8]| {
            let value = Form::Text.decode(|| "t".into(), text);
            value
                .map(|value| value.to_vec())
                .map_err(|fault| fault.code)
        };
        assert_eq!(decode(b"0"), Ok(vec![0]));
        assert_eq!(decode(b"258"), Ok(vec![1, 2]));
        let long = "9".repeat(2000);
        for bad in [
            b"".as_slice(),
            b"eth0",
            b"-1",
            b"+1",
            b"007",
            b"1 ",
            "１".as_bytes(),
            long.as_bytes(),
        ] {
            assert_eq!(decode(bad), Err(tonic::Code::InvalidArgument), "{bad:?}");
        }
        assert_eq!(Form::Text.encode(&[0, 1, 2]), b"258");
        assert_eq!(Form::Text.encode(&[0, 0]), b"0");
    }

    #[test]
    fn numbers_stay() {
        let decode = |bytes: &[u8]| Form::Number.decode(|| "t".into(), bytes);
        assert_eq!(decode(&[0, 7]).unwrap().as_slice(), [0, 7]);
        assert_eq!(decode(&[]).unwrap_err().code, tonic::Code::OutOfRange);
        assert_eq!(Form::Number.encode(&[0, 7]), [7]);
    }
}
