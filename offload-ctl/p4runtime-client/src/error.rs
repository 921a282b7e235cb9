//! What can go wrong in a call, and what to do about it.

use std::time::Duration;

use p4runtime_proto::status::DetailsError;
use tonic::{Code, Status};

use crate::event::{Disconnect, hint};
use crate::outcome::{Failures, WriteOutcome};

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address of the switch cannot be used.
    #[error(
        "the address {address:?} of the switch is not usable: {reason}; \
         write http://host:port, host:port or unix:/path, and with TLS \
         https://host:port or host:port"
    )]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The certificates or the key for TLS cannot be used.
    #[error(
        "TLS to the switch at {address} cannot be set up: {reason}; the CA, the certificate \
         and its key must be PEM"
    )]
    Tls {
        /// The address as it was given.
        address: String,
        /// What is wrong.
        reason: String,
    },

    /// No connection to the switch.
    #[error("cannot connect to the switch at {address}: {cause}; {hint}")]
    Connect {
        /// As it was given.
        address: String,
        /// The innermost cause.
        cause: String,
        /// What to do.
        hint: &'static str,
        /// What the transport said; `None` when it was still trying.
        source: Option<tonic::transport::Error>,
    },

    /// The switch did not let this controller take part in arbitration.
    #[error("the switch at {address} refused arbitration ({code:?}: {message}): {}", hint(*code))]
    Arbitration {
        /// As it was given.
        address: String,
        /// The status code.
        code: Code,
        /// What the switch said.
        message: String,
    },

    /// Only the primary controller may do this.
    #[error(
        "{method}: this controller is not primary{}: wait until it becomes primary, \
         or connect with a higher election id ({message})",
        of_primary(*primary_id)
    )]
    NotPrimary {
        /// The call.
        method: &'static str,
        /// The highest election id that the switch has announced.
        primary_id: Option<u128>,
        /// What the switch said.
        message: String,
    },

    /// The call failed as a whole.
    #[error("{method}: {code:?}: {message}: {}", rpc_hint(*code))]
    Rpc {
        /// The call.
        method: &'static str,
        /// The status code.
        code: Code,
        /// What the switch or the transport said.
        message: String,
    },

    /// The switch refused some items of the call.
    #[error("{}: {_0}; the other updates were applied: correct these and write them again", _0.method)]
    PerUpdate(Failures),

    /// A batched write stopped on the way.
    #[error("the write stopped after {} of {} updates: {source}", .outcome.answered(), .outcome.statuses.len())]
    Interrupted {
        /// What became of each update.
        outcome: WriteOutcome,
        /// Why the write stopped.
        source: Box<Error>,
    },

    /// No answer in time.
    #[error(
        "{method}: no answer within {after:?}; what the switch has done is unknown: \
         check the switch and read back before trying again"
    )]
    Deadline {
        /// The call.
        method: &'static str,
        /// How long it was given.
        after: Duration,
    },

    /// The stream to the switch has ended.
    #[error("{method}: not connected: {reason}")]
    Disconnected {
        /// What was to be sent.
        method: &'static str,
        /// Why the stream ended.
        reason: Disconnect,
    },

    /// The switch's account of the updates is not what the specification says.
    #[error(
        "{method}: the switch answered {code:?} ({message}) with an account that cannot be \
         used: {problem}; read back to learn what was applied, and report it to the vendor"
    )]
    Account {
        /// The call.
        method: &'static str,
        /// The status code.
        code: Code,
        /// What the switch said.
        message: String,
        /// What is wrong with the account.
        problem: AccountProblem,
    },
}

/// What is wrong with the switch's account of the updates.
#[derive(Debug, thiserror::Error)]
pub enum AccountProblem {
    /// It cannot be decoded.
    #[error(transparent)]
    Undecodable(#[from] DetailsError),
    /// It is not one for each item.
    #[error("{told} outcomes for {asked} items")]
    Count {
        /// Outcomes in the account.
        told: usize,
        /// Items in the call.
        asked: usize,
    },
}

/// The calls that the switch takes from the primary only.
const CHANGES: [&str; 2] = ["Write", "SetForwardingPipelineConfig"];

impl Error {
    /// The canonical code behind this error, where the switch gave one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Arbitration { code, .. }
            | Self::Rpc { code, .. }
            | Self::Account { code, .. } => Some(*code),
            Self::NotPrimary { .. } => Some(Code::PermissionDenied),
            Self::Deadline { .. } => Some(Code::DeadlineExceeded),
            Self::Interrupted { source, .. } => source.code(),
            Self::Address { .. }
            | Self::Tls { .. }
            | Self::Connect { .. }
            | Self::PerUpdate(_)
            | Self::Disconnected { .. } => None,
        }
    }

    /// The error of a call that ended with `status` as a whole.
    pub(crate) fn of_status(
        method: &'static str,
        status: &Status,
        primary_id: Option<u128>,
        after: Duration,
    ) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            // Only changes are for the primary alone.
            Code::PermissionDenied if CHANGES.contains(&method) => Self::NotPrimary {
                method,
                primary_id,
                message,
            },
            Code::DeadlineExceeded => Self::Deadline { method, after },
            code => Self::Rpc {
                method,
                code,
                message,
            },
        }
    }

    /// The error of a connection that could not be made.
    pub(crate) fn of_connect(address: &str, source: tonic::transport::Error) -> Self {
        use std::io::ErrorKind;
        let hint = match io_kind(&source) {
            Some(ErrorKind::ConnectionRefused) => {
                "nothing listens there: start the switch or correct the port"
            }
            Some(ErrorKind::NotFound) => "there is no such socket: start the switch",
            Some(ErrorKind::PermissionDenied) => "this user may not use the socket",
            Some(ErrorKind::TimedOut) => "the host does not answer: check the network",
            _ => "check the address, the network and that the switch is up",
        };
        Self::Connect {
            address: address.to_owned(),
            // "transport error" alone says nothing.
            cause: innermost(&source),
            hint,
            source: Some(source),
        }
    }

    /// The error of a connection that was not made in time.
    pub(crate) fn connect_timed_out(address: &str, after: Duration) -> Self {
        Self::Connect {
            address: address.to_owned(),
            cause: format!("no answer within {after:?}"),
            hint: "check the address, the network and that the switch is up",
            source: None,
        }
    }
}

/// What a status says. Where the transport made it, "transport error" alone
/// says nothing: a switch that refuses this client's certificate, for instance,
/// ends the connection.
pub(crate) fn told(status: &Status) -> String {
    let message = status.message().to_owned();
    match causes(status).skip(1).last() {
        Some(cause) => format!("{message}: {cause}"),
        None => message,
    }
}

/// What the innermost cause says.
pub(crate) fn innermost(error: &tonic::transport::Error) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, |cause| cause.to_string())
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<std::io::ErrorKind> {
    causes(error)
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .map(std::io::Error::kind)
        .last()
}

fn of_primary(primary_id: Option<u128>) -> String {
    primary_id.map_or_else(String::new, |id| {
        format!(" (the highest election id is {id})")
    })
}

fn rpc_hint(code: Code) -> &'static str {
    match code {
        Code::Unavailable => "check that the switch is up and reachable, then try again",
        Code::FailedPrecondition => "set a forwarding pipeline first",
        Code::NotFound => "check the device id and the ids in the request",
        Code::InvalidArgument => "the request does not fit the switch's P4Info: compare versions",
        Code::Unimplemented => "this switch does not support it",
        Code::ResourceExhausted | Code::OutOfRange => "the request is too large: send less at once",
        _ => "see the switch's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_errors_that_say_what_to_do() {
        let of = |code| {
            Error::of_status(
                "Write",
                &Status::new(code, "no"),
                Some(7),
                Duration::from_secs(1),
            )
        };
        assert!(matches!(
            of(Code::PermissionDenied),
            Error::NotPrimary {
                primary_id: Some(7),
                ..
            }
        ));
        let text = of(Code::PermissionDenied).to_string();
        assert!(text.contains("the highest election id is 7"), "{text}");
        assert!(matches!(of(Code::DeadlineExceeded), Error::Deadline { .. }));
        assert_eq!(
            of(Code::FailedPrecondition).to_string(),
            "Write: FailedPrecondition: no: set a forwarding pipeline first"
        );
    }
}
