//! The outcome of each update of a Write (specification, "Error Reporting").
//!
//! A Write that fails in part ends with code `UNKNOWN`. Its
//! `grpc-status-details-bin` trailer holds a `google.rpc.Status` whose details
//! are one `p4.v1.Error` for each update, in the order of the request, `OK` for
//! those that succeeded. Read does the same for each of its queries.

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use crate::google::rpc;
use crate::p4::v1::Error;

/// Why the details of a status could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DetailsError {
    /// The trailer is not a `google.rpc.Status`.
    #[error("grpc-status-details-bin does not hold a google.rpc.Status: {0}")]
    Status(#[source] prost::DecodeError),
    /// A detail is not a `p4.v1.Error`.
    #[error("detail {index} ({type_url:?}) is not a p4.v1.Error: {source}")]
    Detail {
        /// Position among the details.
        index: usize,
        /// The type that the detail claims.
        type_url: String,
        /// Why it could not be decoded.
        source: prost::DecodeError,
    },
}

impl Error {
    /// An update that succeeded.
    pub fn success() -> Self {
        Self::default()
    }

    /// An update that failed.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            canonical_code: code as i32,
            message: message.into(),
            ..Self::default()
        }
    }

    /// Whether the update succeeded.
    pub fn is_success(&self) -> bool {
        self.canonical_code == Code::Ok as i32
    }

    /// `canonical_code` as gRPC has it; a number that gRPC does not define is
    /// [`Code::Unknown`].
    pub fn grpc_code(&self) -> Code {
        Code::from_i32(self.canonical_code)
    }
}

/// The status of a call in which `errors` befell its updates, one each, in
/// order; [`Code::Unknown`] as the specification asks.
pub fn with_update_errors(message: impl Into<String>, errors: &[Error]) -> Status {
    let message = message.into();
    let details = rpc::Status {
        code: Code::Unknown as i32,
        message: message.clone(),
        details: errors.iter().map(any_of_error).collect(),
    };
    Status::with_details(Code::Unknown, message, details.encode_to_vec().into())
}

/// The outcome of each update, in the order of the request; `None` when the
/// status has none to tell, that is when the call failed as a whole.
///
/// # Errors
/// [`DetailsError`] when there are details that are not what the
/// specification says.
pub fn update_errors(status: &Status) -> Result<Option<Vec<Error>>, DetailsError> {
    if status.details().is_empty() {
        return Ok(None);
    }
    let details = rpc::Status::decode(status.details()).map_err(DetailsError::Status)?;
    if details.details.is_empty() {
        return Ok(None);
    }
    details
        .details
        .iter()
        .enumerate()
        .map(|(index, any)| {
            any.to_msg::<Error>()
                .map_err(|source| DetailsError::Detail {
                    index,
                    type_url: any.type_url.clone(),
                    source,
                })
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

fn any_of_error(error: &Error) -> Any {
    Any {
        type_url: <Error as prost::Name>::type_url(),
        value: error.encode_to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_back_in_order() {
        let errors = [
            Error::new(Code::ResourceExhausted, "table full"),
            Error::success(),
            Error {
                canonical_code: Code::AlreadyExists as i32,
                message: "exists".into(),
                space: "target".into(),
                code: 600,
                details: None,
            },
        ];
        let status = with_update_errors("2 of 3 updates failed", &errors);
        assert_eq!(status.code(), Code::Unknown);
        assert_eq!(update_errors(&status).unwrap().unwrap(), errors);
    }

    /// The wire form of a status with one NOT_FOUND, written out by hand.
    #[test]
    fn reads_the_wire_form() {
        let url = b"type.googleapis.com/p4.v1.Error";
        let mut any = vec![0x0a, url.len() as u8];
        any.extend(url);
        any.extend([0x12, 2, 0x08, 5]); // value: canonical_code 5
        let mut wire = vec![0x08, 2, 0x1a, any.len() as u8];
        wire.extend(any);

        let errors = [Error::new(Code::NotFound, "")];
        let status = Status::with_details(Code::Unknown, "", wire.clone().into());
        assert_eq!(update_errors(&status).unwrap().unwrap(), errors);
        assert_eq!(with_update_errors("", &errors).details(), wire);
    }

    #[test]
    fn a_status_without_details_tells_of_no_update() {
        let status = Status::new(Code::Unavailable, "starting");
        assert!(update_errors(&status).unwrap().is_none());
    }

    #[test]
    fn foreign_details_are_an_error() {
        let details = rpc::Status {
            code: 2,
            message: String::new(),
            details: vec![Any {
                type_url: "type.googleapis.com/google.rpc.RetryInfo".into(),
                value: Vec::new(),
            }],
        };
        let status = Status::with_details(Code::Unknown, "", details.encode_to_vec().into());
        assert!(matches!(
            update_errors(&status),
            Err(DetailsError::Detail { index: 0, .. })
        ));
        let status = Status::with_details(Code::Unknown, "", vec![0xff].into());
        assert!(matches!(
            update_errors(&status),
            Err(DetailsError::Status(_))
        ));
    }

    #[test]
    fn a_code_that_grpc_does_not_define_is_unknown() {
        let error = Error {
            canonical_code: 77,
            ..Error::default()
        };
        assert_eq!(error.grpc_code(), Code::Unknown);
        assert!(!error.is_success());
    }
}
