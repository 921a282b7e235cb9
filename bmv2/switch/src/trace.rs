//! What happened to a packet, step by step.

use crate::control::EntryState;

/// One step of a packet's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEvent {
    /// A pass through ingress began: the packet's arrival, or a resubmit or
    /// recirculate.
    Ingress {
        /// Why, as v1model's `instance_type`.
        instance_type: u32,
        /// Bytes of the packet.
        bytes: usize,
    },
    /// A pass through egress began.
    Egress {
        /// The port.
        port: u16,
        /// Why, as v1model's `instance_type`.
        instance_type: u32,
    },
    /// The parser came to a state.
    ParserState {
        /// Its name.
        name: String,
    },
    /// The parser filled a header.
    Extracted {
        /// Its name.
        header: String,
        /// Bytes taken.
        bytes: usize,
    },
    /// The parser stopped.
    ParserError {
        /// P4's error code.
        code: u32,
    },
    /// A checksum was verified.
    ChecksumVerified {
        /// Its name.
        name: String,
        /// What it should be.
        computed: u64,
        /// Whether it is.
        ok: bool,
    },
    /// A checksum was written.
    ChecksumUpdated {
        /// Its name.
        name: String,
        /// The value.
        computed: u64,
    },
    /// A condition was evaluated.
    Condition {
        /// Its text in the program where the document has it, and its name.
        name: String,
        /// The result.
        value: bool,
    },
    /// A table was applied.
    Table {
        /// Its name.
        name: String,
        /// What was looked up: the value of each key field in hexadecimal.
        key: Vec<(String, String)>,
        /// The entry that matched; `None` on a miss.
        entry: Option<Box<EntryState>>,
    },
    /// An action ran.
    Action {
        /// Its name.
        name: String,
        /// Its parameters in hexadecimal.
        params: Vec<String>,
    },
    /// A field changed.
    FieldChanged {
        /// `header.field`.
        field: String,
        /// Before, in hexadecimal.
        from: String,
        /// After, in hexadecimal.
        to: String,
    },
    /// A header became valid or invalid.
    ValidityChanged {
        /// Its name.
        header: String,
        /// Whether it is valid now.
        valid: bool,
    },
    /// `log_msg` said something.
    Log {
        /// The text.
        text: String,
    },
    /// A copy was made.
    Copied {
        /// `clone` or `multicast`.
        why: &'static str,
        /// Where it goes.
        port: u16,
        /// Its `egress_rid`.
        instance: u16,
    },
    /// A clone was asked for and no copy made.
    NotCloned {
        /// The clone session.
        session: u16,
        /// Whether there is this session; then it has no replica.
        session_exists: bool,
    },
    /// A digest was sent.
    Digest {
        /// Its name.
        name: String,
    },
    /// The packet was sent.
    Sent {
        /// The port.
        port: u16,
        /// Bytes sent.
        bytes: usize,
    },
    /// The packet was dropped.
    Dropped {
        /// The reason's name.
        reason: &'static str,
    },
}

/// Takes events; the one that ignores them costs nothing.
pub(crate) trait Tracer {
    /// Whether events are wanted at all.
    const ON: bool;

    /// Takes an event, made only if wanted.
    fn event(&mut self, make: impl FnOnce() -> TraceEvent);
}

/// Ignores everything.
#[derive(Debug, Default)]
pub(crate) struct Silent;

impl Tracer for Silent {
    const ON: bool = false;

    #[inline(always)]
    fn event(&mut self, _make: impl FnOnce() -> TraceEvent) {}
}

/// Keeps everything.
impl Tracer for Vec<TraceEvent> {
    const ON: bool = true;

    fn event(&mut self, make: impl FnOnce() -> TraceEvent) {
        self.push(make());
    }
}
