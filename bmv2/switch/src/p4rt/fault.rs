//! An error with the canonical code that P4Runtime gives it.

use p4runtime_proto::bytestring::BytestringError;
use p4runtime_proto::p4::v1::Error;
use tonic::{Code, Status};

use crate::TableError;

/// Why one update, query or stream message was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) message: String,
}

pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub(super) fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    pub(super) fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// A value in the wrong form, with the place where it stands.
    pub(super) fn value(place: impl std::fmt::Display, error: &BytestringError) -> Self {
        Self::new(error.code(), format!("{place}: {error}"))
    }
}

impl From<TableError> for Fault {
    fn from(error: TableError) -> Self {
        let code = match &error {
            TableError::NoPipeline | TableError::InUse { .. } => Code::FailedPrecondition,
            TableError::NoSuchObject { .. } => Code::Internal,
            TableError::NotFound { .. } => Code::NotFound,
            TableError::AlreadyExists { .. } => Code::AlreadyExists,
            TableError::Invalid { .. } => Code::InvalidArgument,
            TableError::TooWide { .. } | TableError::OutOfRange { .. } => Code::OutOfRange,
            TableError::Full { .. } => Code::ResourceExhausted,
            TableError::Immutable { .. } => Code::PermissionDenied,
        };
        Self::new(code, error.to_string())
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Self::new(fault.code, fault.message)
    }
}

impl From<&Fault> for Error {
    fn from(fault: &Fault) -> Self {
        Self::new(fault.code, fault.message.clone())
    }
}

/// The `p4.v1.Error` of one outcome.
pub(super) fn error_of<T>(outcome: &Outcome<T>) -> Error {
    match outcome {
        Ok(_) => Error::success(),
        Err(fault) => fault.into(),
    }
}
