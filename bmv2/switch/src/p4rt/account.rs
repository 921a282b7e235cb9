//! The account of a call that failed in part: what befell each of its updates
//! or queries (specification, "Error Reporting").
//!
//! It travels in a trailer, and clients take trailers of a certain length only:
//! usually 16 KiB, more if told to. Most fail the call over a longer one. Those
//! on Rust's `h2`, tonic's for one, end their connection over four times their
//! limit, and with it its streams and all its calls. So texts give way to codes.

use p4runtime_proto::p4::v1::Error;
use p4runtime_proto::status::with_update_errors;
use prost::{Message as _, Name as _};
use tonic::{Code, Status};

use super::fault::{Outcome, error_of};

/// Bytes up to which the account has texts: in base64 they are a third longer,
/// and with the other headers just below four times 16 KiB.
const MAX_WITH_TEXTS: usize = 46 << 10;
/// Bytes of the longest account: codes for more than 50,000 updates. Clients
/// that write such batches must take trailers a third longer.
const MAX_ACCOUNT: usize = 2 << 20;

/// The status of a call, if any of its `what` failed. The first failure always
/// has its text, later ones as long as they fit. Where not even the codes fit,
/// there are no details, and the message tells of the first failure.
pub(super) fn status_of(what: &str, outcomes: &[Outcome<()>]) -> Option<Status> {
    let mut failed = outcomes.iter().enumerate().filter_map(|(index, outcome)| {
        let fault = outcome.as_ref().err()?;
        Some((index, fault))
    });
    let (first, fault) = failed.next()?;
    let mut message = format!("{} of {} {what} failed", failed.count() + 1, outcomes.len());
    let codes = |outcome: &Outcome<()>| Error::new(code_of(outcome), "");
    let mut bytes: usize = outcomes.iter().map(|o| detail_bytes(&codes(o))).sum();
    if bytes > MAX_ACCOUNT {
        message += &format!(", too many to tell of each; number {first} (from 0): {fault}");
        return Some(Status::new(Code::Unknown, message));
    }
    let errors: Vec<_> = outcomes
        .iter()
        .enumerate()
        .map(|(index, outcome)| {
            let full = error_of(outcome);
            let short = codes(outcome);
            let more = detail_bytes(&full) - detail_bytes(&short);
            if index > first && bytes + more > MAX_WITH_TEXTS {
                return short;
            }
            bytes += more;
            full
        })
        .collect();
    Some(with_update_errors(message, &errors))
}

fn code_of(outcome: &Outcome<()>) -> Code {
    outcome.as_ref().err().map_or(Code::Ok, |fault| fault.code)
}

/// Bytes of an error in the account: in an `Any`, as an element of a list.
fn detail_bytes(error: &Error) -> usize {
    let field = |bytes: usize| 1 + prost::length_delimiter_len(bytes) + bytes;
    let value = match error.encoded_len() {
        0 => 0,
        bytes => field(bytes),
    };
    field(field(Error::type_url().len()) + value)
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::status::update_errors;

    use super::*;
    use crate::p4rt::fault::Fault;

    fn outcomes(count: usize) -> Vec<Outcome<()>> {
        let mut all = vec![Err(Fault::not_found("x".repeat(80))); count];
        all[0] = Ok(());
        all
    }

    /// What is told of each, and how many have a text.
    fn told(count: usize) -> (Vec<Code>, usize, usize) {
        let status = status_of("updates", &outcomes(count)).unwrap();
        let errors = update_errors(&status).unwrap().unwrap();
        let texts = errors.iter().filter(|e| !e.message.is_empty()).count();
        let codes = errors.iter().map(Error::grpc_code).collect();
        (codes, texts, status.details().len())
    }

    #[test]
    fn success_has_no_account() {
        assert!(status_of("updates", &[Ok(()), Ok(())]).is_none());
        assert!(status_of("updates", &[]).is_none());
    }

    #[test]
    fn every_update_has_its_code_and_texts_give_way() {
        // The sizes by hand: an error with text takes 2 (code) + 82 (text), its
        // Any 33 (URL) + 86, the list element 2 more: 121 bytes; without text
        // 39; success 35. So 500 codes take 19,496 of 47,104 bytes, and the rest
        // holds 336 texts of 82.
        for (count, expected) in [(300, 299), (500, 336), (1000, 98), (50_000, 1)] {
            let (codes, texts, bytes) = told(count);
            assert_eq!(codes[0], Code::Ok);
            assert_eq!(codes[1..], vec![Code::NotFound; count - 1]);
            assert_eq!(texts, expected, "{count}");
            let bound = if count > 1000 { 2 << 20 } else { 47_104 + 100 };
            assert!(bytes < bound, "{count}: {bytes}");
        }
    }

    #[test]
    fn an_account_that_is_too_long_names_the_first_failure() {
        let status = status_of("updates", &outcomes(60_000)).unwrap();
        assert_eq!(status.code(), Code::Unknown);
        assert!(status.details().is_empty());
        let start =
            "59999 of 60000 updates failed, too many to tell of each; number 1 (from 0): xx";
        assert!(status.message().starts_with(start), "{}", status.message());
    }

    #[test]
    fn the_bytes_are_those_of_the_wire() {
        for error in [
            Error::success(),
            Error::new(Code::NotFound, ""),
            Error::new(Code::NotFound, "x".repeat(300)),
        ] {
            let one = with_update_errors("", std::slice::from_ref(&error));
            // Two bytes are the status's own code.
            assert_eq!(detail_bytes(&error), one.details().len() - 2);
        }
    }
}
