//! Why a message is not what the contract says.

use p4runtime_proto::entry::EntryError;

/// Why a P4Runtime message could not be read as the contract has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// No table of the program has this id.
    #[error("the program has no table {id:#010x}")]
    UnknownTable {
        /// The id in the message.
        id: u32,
    },
    /// The entry belongs to another table.
    #[error("this is an entry of table {found:#010x}, not of {table}")]
    WrongTable {
        /// The table that was asked for.
        table: &'static str,
        /// The id in the message.
        found: u32,
    },
    /// A key element or an action parameter is missing or does not fit.
    #[error("table {table}: {source}")]
    Entry {
        /// The table.
        table: &'static str,
        /// What is wrong.
        source: EntryError,
    },
    /// A prefix is longer than its field, or has bits behind its length.
    #[error("table {table}: {value:#x}/{prefix_len} is no prefix for {field}")]
    NoPrefix {
        /// The table.
        table: &'static str,
        /// The key field.
        field: &'static str,
        /// The value in the message.
        value: u128,
        /// The length in the message.
        prefix_len: u32,
    },
    /// A range ends before it begins.
    #[error("table {table}: {low} to {high} is no range for {field}")]
    NoRange {
        /// The table.
        table: &'static str,
        /// The key field.
        field: &'static str,
        /// The lower bound in the message.
        low: u128,
        /// The upper bound in the message.
        high: u128,
    },
    /// The entry has no action of its own.
    #[error("table {table}: the entry has no action")]
    NoAction {
        /// The table.
        table: &'static str,
    },
    /// No entry of the table may have this action.
    #[error("table {table} has no action {id:#010x}")]
    UnknownAction {
        /// The table.
        table: &'static str,
        /// The id in the message.
        id: u32,
    },
    /// The number is no member of its enum.
    #[error("{value} is no {enumeration}")]
    UnknownMember {
        /// The enum.
        enumeration: &'static str,
        /// The number in the message.
        value: u8,
    },
    /// A field of a controller header is missing or does not fit.
    #[error("{header}: {source}")]
    Packet {
        /// `packet_in` or `packet_out`.
        header: &'static str,
        /// What is wrong.
        source: EntryError,
    },
}
