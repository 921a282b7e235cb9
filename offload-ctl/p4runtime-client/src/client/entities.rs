//! Writes and reads of entities, and the outcome of each.

use std::time::Duration;

use p4runtime_proto::p4::v1::{
    Entity, ReadRequest, Update, WriteRequest, write_request::Atomicity,
};
use p4runtime_proto::status::update_errors;
use tonic::{Code, Response, Status};

use super::{Client, with_deadline, within};
use crate::batch::{BatchLimits, next_batch};
use crate::error::{AccountProblem, Error};
use crate::outcome::{Failures, UpdateStatus, WriteOutcome};

const WRITE: &str = "Write";
const READ: &str = "Read";

impl Client {
    /// Writes all updates in one request.
    ///
    /// The order in which the switch applies them is undefined.
    ///
    /// # Errors
    /// When the request failed as a whole: [`Error::NotPrimary`],
    /// [`Error::Disconnected`], [`Error::Rpc`], [`Error::Deadline`] or
    /// [`Error::Account`]. Updates that were refused one by one are in the
    /// outcome;
    /// [`WriteOutcome::into_result`] makes them an error.
    pub async fn write(
        &self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<WriteOutcome, Error> {
        let count = updates.len();
        if count == 0 {
            return Ok(WriteOutcome::default());
        }
        self.require_stream(WRITE)?;
        let after = self.shared.options.deadlines.write;
        let request = WriteRequest {
            device_id: self.device_id(),
            role_id: self.role_id(),
            role: self.role_name(),
            election_id: Some(self.election_id().into()),
            updates,
            atomicity: atomicity as i32,
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.write(with_deadline(request, after));
        match within(WRITE, after, call).await? {
            Ok(_) => Ok(WriteOutcome::applied(count)),
            Err(status) => self
                .account(WRITE, &status, count, after)
                .map(|statuses| WriteOutcome { statuses }),
        }
    }

    /// Writes any number of updates, each on its own (`CONTINUE_ON_ERROR`), in
    /// as many requests as it takes.
    ///
    /// Requests go one after the other. Two updates of one entity, and updates
    /// that depend on each other by rank (action profile members, groups,
    /// entries), go into successive requests, so that they take effect in the
    /// order given. A request that the switch finds too large is sent again in
    /// halves.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when a request failed as a whole; its outcome
    /// tells what became of each update.
    pub async fn write_batched(
        &self,
        updates: Vec<Update>,
        mut limits: BatchLimits,
    ) -> Result<WriteOutcome, Error> {
        let mut statuses = Vec::with_capacity(updates.len());
        while statuses.len() < updates.len() {
            let rest = &updates[statuses.len()..];
            let size = next_batch(rest, limits);
            let batch = rest[..size].to_vec();
            match self.write(batch, Atomicity::ContinueOnError).await {
                Ok(outcome) => statuses.extend(outcome.statuses),
                Err(error) if size > 1 && too_large(&error) => {
                    limits = limits.halved(size);
                    tracing::debug!(size, "batch too large, halving");
                }
                Err(error) => {
                    let sent = if attempted_nothing(&error) {
                        UpdateStatus::NotAttempted
                    } else {
                        UpdateStatus::Unknown
                    };
                    statuses.extend(std::iter::repeat_n(sent, size));
                    statuses.resize(updates.len(), UpdateStatus::NotAttempted);
                    return Err(Error::Interrupted {
                        outcome: WriteOutcome { statuses },
                        source: Box::new(error),
                    });
                }
            }
        }
        Ok(WriteOutcome { statuses })
    }

    /// Reads entities. Each of `queries` names one, or more where its fields
    /// are unset. The result is in the order in which the switch sends it.
    ///
    /// # Errors
    /// [`Error::PerUpdate`] when the switch refused some of the queries,
    /// [`Error::Rpc`], [`Error::Deadline`] or [`Error::Account`].
    pub async fn read(&self, queries: Vec<Entity>) -> Result<Vec<Entity>, Error> {
        let count = queries.len();
        let after = self.shared.options.deadlines.read;
        let request = ReadRequest {
            device_id: self.device_id(),
            role: self.role_name(),
            entities: queries,
        };
        let mut rpc = self.rpc.clone();
        let collect = async {
            let mut chunks = rpc.read(with_deadline(request, after)).await?.into_inner();
            let mut entities = Vec::new();
            while let Some(chunk) = chunks.message().await? {
                entities.extend(chunk.entities);
            }
            Ok(Response::new(entities))
        };
        match within(READ, after, collect).await? {
            Ok(entities) => Ok(entities),
            Err(status) => {
                let statuses = self.account(READ, &status, count, after)?;
                let total = statuses.len();
                let outcome = WriteOutcome { statuses };
                let failed = outcome
                    .failures()
                    .map(|(index, error)| (index, error.clone()))
                    .collect();
                Err(Error::PerUpdate(Failures {
                    method: READ,
                    total,
                    failed,
                }))
            }
        }
    }

    /// The outcome of each of `asked` items, when the status tells it.
    fn account(
        &self,
        method: &'static str,
        status: &Status,
        asked: usize,
        after: Duration,
    ) -> Result<Vec<UpdateStatus>, Error> {
        let problem = match update_errors(status) {
            Ok(None) => return Err(self.whole(method, status, after)),
            Ok(Some(errors)) if errors.len() == asked => {
                return Ok(errors.into_iter().map(UpdateStatus::from).collect());
            }
            Ok(Some(errors)) => AccountProblem::Count {
                told: errors.len(),
                asked,
            },
            Err(error) => error.into(),
        };
        Err(Error::Account {
            method,
            code: status.code(),
            message: status.message().to_owned(),
            problem,
        })
    }
}

/// Whether a request was refused for its size: gRPC's C++ servers say
/// `RESOURCE_EXHAUSTED`, others `OUT_OF_RANGE`.
fn too_large(error: &Error) -> bool {
    matches!(
        error,
        Error::Rpc {
            code: Code::ResourceExhausted | Code::OutOfRange,
            ..
        }
    )
}

/// Whether a call that failed as a whole is sure to have changed nothing: the
/// codes that only a server's checks before any update give.
fn attempted_nothing(error: &Error) -> bool {
    match error {
        Error::NotPrimary { .. } | Error::Disconnected { .. } => true,
        Error::Rpc { code, .. } => matches!(
            code,
            Code::InvalidArgument
                | Code::NotFound
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
                | Code::Unauthenticated
        ),
        _ => false,
    }
}
