//! What the switch tells a controller unasked.

use p4runtime_proto::p4::v1::{DigestList, PacketMetadata, StreamError, TableEntry};
use tokio::sync::mpsc;
use tonic::Code;

/// The events of one connection, in the order in which the switch sent them.
/// It ends after [`Event::Disconnected`].
pub type Events = mpsc::Receiver<Event>;

/// Something that the switch told unasked.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Who is primary, at first and whenever that changes.
    Arbitration(Arbitration),
    /// A packet for the controller.
    PacketIn {
        /// The packet.
        payload: Vec<u8>,
        /// The fields of the `packet_in` header.
        metadata: Vec<PacketMetadata>,
    },
    /// Digests; acknowledge them with
    /// [`Client::acknowledge_digest`](crate::Client::acknowledge_digest).
    Digest(DigestList),
    /// Entries that matched nothing for their idle timeout.
    IdleTimeout(Vec<TableEntry>),
    /// The switch rejected a message that was sent on the stream.
    StreamError(StreamError),
    /// The stream ended. Nothing follows.
    Disconnected {
        /// Why.
        reason: Disconnect,
    },
}

/// Who is primary for a device and a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arbitration {
    /// Whether this controller is.
    pub primary: bool,
    /// The highest election id that the switch has seen, which is the
    /// primary's if there is one; `None` before any.
    pub primary_id: Option<u128>,
}

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disconnect {
    /// The switch closed the stream in good order.
    #[error("the switch closed the stream: connect again")]
    Closed,
    /// The switch or the network broke the stream off.
    #[error("the stream broke off ({code:?}: {message}): {}", hint(*code))]
    Failed {
        /// The status code.
        code: Code,
        /// What the switch or the transport said.
        message: String,
    },
}

/// What to do about a stream that ended with `code`.
pub(crate) fn hint(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => {
            "another controller uses this election id, or the role's configuration is not \
             accepted: give each controller an id of its own"
        }
        Code::NotFound => "the switch has no such device: check the device id",
        Code::FailedPrecondition => "the device or the role of a stream cannot change: reconnect",
        Code::ResourceExhausted => "too many controllers are connected: stop one of them",
        Code::Unimplemented => "the server does not speak P4Runtime: check the address",
        _ => "check that the switch is up and reachable, then connect again",
    }
}
