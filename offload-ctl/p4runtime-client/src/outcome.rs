//! What became of each update of a write.

use std::fmt;

use p4runtime_proto::p4::v1;
use tonic::Code;

use crate::error::Error;

/// Why the switch refused one update, or one query of a read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct UpdateError {
    /// The canonical code.
    pub code: Code,
    /// The switch's words, for people only.
    pub message: String,
    /// Names the meaning of `vendor_code`; often empty.
    pub space: String,
    /// A code of the vendor's own; 0 for none.
    pub vendor_code: i32,
}

/// What became of one update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateStatus {
    /// The switch applied it.
    Applied,
    /// The switch refused it.
    Failed(UpdateError),
    /// It was sent and no answer tells whether it was applied: read back.
    Unknown,
    /// The switch did not attempt it: its request, or one before it, failed as
    /// a whole.
    NotAttempted,
}

impl UpdateStatus {
    /// Whether the switch applied the update.
    pub fn is_applied(&self) -> bool {
        *self == Self::Applied
    }

    /// The code of an update that the switch answered.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Applied => Some(Code::Ok),
            Self::Failed(error) => Some(error.code),
            Self::Unknown | Self::NotAttempted => None,
        }
    }
}

impl From<v1::Error> for UpdateStatus {
    fn from(error: v1::Error) -> Self {
        if error.is_success() {
            return Self::Applied;
        }
        Self::Failed(UpdateError {
            code: error.grpc_code(),
            message: error.message,
            space: error.space,
            vendor_code: error.code,
        })
    }
}

/// What became of each update, in the order they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    /// One status for each update.
    pub statuses: Vec<UpdateStatus>,
}

impl WriteOutcome {
    /// `count` updates, all applied.
    pub(crate) fn applied(count: usize) -> Self {
        Self {
            statuses: vec![UpdateStatus::Applied; count],
        }
    }

    /// Whether every update was applied.
    pub fn all_applied(&self) -> bool {
        self.statuses.iter().all(UpdateStatus::is_applied)
    }

    /// How many updates the switch applied or refused.
    pub fn answered(&self) -> usize {
        self.statuses
            .iter()
            .filter(|status| status.code().is_some())
            .count()
    }

    /// The updates that the switch refused, with their positions.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &UpdateError)> {
        self.statuses
            .iter()
            .enumerate()
            .filter_map(|(index, status)| match status {
                UpdateStatus::Failed(error) => Some((index, error)),
                _ => None,
            })
    }

    /// Turns updates that were not applied into an error.
    ///
    /// # Errors
    /// [`Error::PerUpdate`] when any update was refused.
    pub fn into_result(self) -> Result<(), Error> {
        let failed: Vec<_> = self
            .failures()
            .map(|(index, error)| (index, error.clone()))
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Error::PerUpdate(Failures {
            method: "Write",
            total: self.statuses.len(),
            failed,
        }))
    }
}

/// The items of a call that the switch refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// "Write" or "Read".
    pub method: &'static str,
    /// How many items the call had.
    pub total: usize,
    /// Position and reason of each item that was refused.
    pub failed: Vec<(usize, UpdateError)>,
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let count = self.failed.len();
        write!(f, "the switch refused {count} of {}", self.total)?;
        for (position, (index, error)) in self.failed.iter().take(SHOWN).enumerate() {
            let separator = if position == 0 { ": " } else { "; " };
            write!(f, "{separator}#{index} {error}")?;
        }
        if count > SHOWN {
            write!(f, "; and {} more", count - SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: Code) -> UpdateStatus {
        v1::Error::new(code, "no").into()
    }

    #[test]
    fn failures_keep_their_positions() {
        let outcome = WriteOutcome {
            statuses: vec![
                UpdateStatus::Applied,
                failed(Code::NotFound),
                UpdateStatus::Applied,
                failed(Code::AlreadyExists),
            ],
        };
        assert!(!outcome.all_applied());
        let codes: Vec<_> = outcome
            .failures()
            .map(|(at, error)| (at, error.code))
            .collect();
        assert_eq!(codes, [(1, Code::NotFound), (3, Code::AlreadyExists)]);
        let error = outcome.into_result().unwrap_err();
        assert_eq!(
            error.to_string(),
            "Write: the switch refused 2 of 4: #1 NotFound: no; #3 AlreadyExists: no; \
             the other updates were applied: correct these and write them again"
        );
    }

    #[test]
    fn many_failures_are_cut_short() {
        let outcome = WriteOutcome {
            statuses: vec![failed(Code::NotFound); 5],
        };
        let text = outcome.into_result().unwrap_err().to_string();
        assert!(text.contains("#2 NotFound: no; and 2 more"), "{text}");
    }

    #[test]
    fn an_ok_placeholder_is_applied() {
        assert_eq!(
            UpdateStatus::from(v1::Error::success()),
            UpdateStatus::Applied
        );
        assert!(WriteOutcome::applied(3).into_result().is_ok());
    }
}
