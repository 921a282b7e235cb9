//! The control side of the API: entries, operations and their errors.
//!
//! Byte strings are big-endian and may have any number of leading zero bytes
//! (also none: the empty string is zero); a value that does not fit the
//! field's width is refused. Values handed out are exactly as long as the
//! field's width rounded up to bytes.

use smallvec::SmallVec;

use crate::program::{ActionId, CounterId, MeterId, ProfileId, RegisterId, TableId};

/// A big-endian number.
pub type Value = SmallVec<[u8; 16]>;

/// What one key field must satisfy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FieldMatch {
    /// Equal to the value.
    Exact(Value),
    /// The first `prefix_len` bits equal; the rest of `value` must be zero.
    Lpm {
        /// The prefix.
        value: Value,
        /// Its length in bits; 0 matches everything.
        prefix_len: u32,
    },
    /// Equal where the mask has ones; `value & !mask` must be zero. An
    /// `optional` field is a mask of all ones.
    Ternary {
        /// The value.
        value: Value,
        /// The mask.
        mask: Value,
    },
    /// Between `low` and `high`, both included.
    Range {
        /// Least value.
        low: Value,
        /// Greatest value.
        high: Value,
    },
    /// Anything ("don't care"); for every kind but exact.
    Any,
}

/// The identity of an entry: its match and, where the table has them, its
/// priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct EntryKey {
    /// One for each key field, in the table's order.
    pub fields: Vec<FieldMatch>,
    /// The **higher** number wins, as in P4Runtime. Must be above 0 in tables
    /// with `needs_priority`, and 0 in all others. Of equal priorities the
    /// entry inserted into the lowest free slot wins, as in bmv2.
    pub priority: i32,
}

/// An action with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActionCall {
    /// The action; must be one of the table's.
    pub action: ActionId,
    /// One value for each parameter, in order.
    pub params: Vec<Value>,
}

/// What an entry does on a hit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryAction {
    /// An action, in a table without action profile.
    Call(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

/// A table entry as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// Identity.
    pub key: EntryKey,
    /// What a hit does.
    pub action: EntryAction,
    /// Nanoseconds without a hit after which the entry is reported idle;
    /// 0 means never. Resolution is a millisecond.
    pub idle_timeout_ns: u64,
    /// An opaque number of the controller, handed back on reads.
    pub cookie: u64,
    /// Opaque bytes of the controller, handed back on reads.
    pub metadata: Vec<u8>,
}

/// Packets and bytes counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes of the packets as they arrived.
    pub bytes: u64,
}

/// What a meter gave each colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ColourCounts {
    /// Within the committed rate.
    pub green: CounterValue,
    /// Above it, within the peak rate.
    pub yellow: CounterValue,
    /// Above the peak rate.
    pub red: CounterValue,
}

/// Rates of a meter in its unit a second, and bursts in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MeterConfig {
    /// Committed information rate.
    pub cir: u64,
    /// Committed burst size.
    pub cburst: u64,
    /// Peak information rate; at least `cir`. Without meaning beside `eburst`.
    pub pir: u64,
    /// Peak burst size. Without meaning beside `eburst`.
    pub pburst: u64,
    /// Excess burst size: makes the meter one of a single rate (RFC 2697)
    /// instead of two (RFC 2698).
    pub eburst: Option<u64>,
}

/// A table entry as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryState {
    /// The entry.
    pub entry: TableEntry,
    /// Its direct counter, in tables that have one.
    pub counter: Option<CounterValue>,
    /// Its direct meter's configuration, if set.
    pub meter: Option<MeterConfig>,
    /// What its direct meter gave each colour, in tables that have one.
    pub colours: Option<ColourCounts>,
    /// Nanoseconds since the last hit, or since the last write if there was
    /// none; only in tables with `support_timeout`.
    pub since_last_hit_ns: Option<u64>,
}

/// The default entry of a table as read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DefaultState {
    /// What a miss does; `None` if the program gives no default action.
    pub action: Option<EntryAction>,
    /// Whether that is the program's own.
    pub is_initial: bool,
    /// What the direct counter has counted of misses, in tables that have one.
    pub counter: Option<CounterValue>,
    /// The direct meter's configuration for misses, if set.
    pub meter: Option<MeterConfig>,
    /// What the direct meter gave each colour on misses, in tables that have
    /// one.
    pub colours: Option<ColourCounts>,
}

/// A member of an action profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The controller's id, unique in the profile.
    pub id: u32,
    /// What it does.
    pub call: ActionCall,
}

/// A member within a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupMember {
    /// The member's id.
    pub member: u32,
    /// How many shares it has; at least 1.
    pub weight: u32,
    /// A port whose loss takes the member out of the choice until the port is
    /// back; see [`Switch::set_port_up`](crate::Switch::set_port_up).
    pub watch_port: Option<u16>,
}

/// How a group picks the member for a packet, in proportion to weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Selection {
    /// By the selector's algorithm, as the program has it.
    #[default]
    Selector,
    /// At random.
    Random,
}

/// A group of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The controller's id, unique in the profile.
    pub id: u32,
    /// Its members.
    pub members: Vec<GroupMember>,
    /// How one of them is picked.
    pub selection: Selection,
}

/// One change. A batch of them goes to [`Switch::apply`](crate::Switch::apply).
#[derive(Debug, Clone, PartialEq)]
pub enum TableOp {
    /// Adds an entry.
    Insert {
        /// The table.
        table: TableId,
        /// The entry.
        entry: TableEntry,
    },
    /// Replaces the action, timeout and metadata of an entry; its counters
    /// stay, its idle timer starts anew.
    Modify {
        /// The table.
        table: TableId,
        /// The entry; `key` says which.
        entry: TableEntry,
    },
    /// Removes an entry.
    Delete {
        /// The table.
        table: TableId,
        /// Which.
        key: EntryKey,
    },
    /// Sets what happens on a miss.
    SetDefault {
        /// The table.
        table: TableId,
        /// The action, member or group.
        action: EntryAction,
    },
    /// Sets the default action back to the program's.
    ResetDefault {
        /// The table.
        table: TableId,
    },
    /// Adds a member to an action profile.
    InsertMember {
        /// The profile.
        profile: ProfileId,
        /// The member.
        member: Member,
    },
    /// Replaces a member's action.
    ModifyMember {
        /// The profile.
        profile: ProfileId,
        /// The member.
        member: Member,
    },
    /// Removes a member that nothing uses.
    DeleteMember {
        /// The profile.
        profile: ProfileId,
        /// The member's id.
        id: u32,
    },
    /// Adds a group.
    InsertGroup {
        /// The profile.
        profile: ProfileId,
        /// The group.
        group: Group,
    },
    /// Replaces a group's members.
    ModifyGroup {
        /// The profile.
        profile: ProfileId,
        /// The group.
        group: Group,
    },
    /// Removes a group that nothing uses.
    DeleteGroup {
        /// The profile.
        profile: ProfileId,
        /// The group's id.
        id: u32,
    },
    /// Writes a counter cell.
    WriteCounter {
        /// Which.
        target: CounterTarget,
        /// The new value.
        value: CounterValue,
    },
    /// Configures a meter cell; `None` makes every packet green again.
    ConfigureMeter {
        /// Which.
        target: MeterTarget,
        /// The new rates.
        config: Option<MeterConfig>,
    },
    /// Makes a meter cell count anew what it gives each colour.
    ClearColours {
        /// Which.
        target: MeterTarget,
    },
    /// Writes a register cell.
    WriteRegister {
        /// The array.
        register: RegisterId,
        /// The cell; `None` is all of them.
        index: Option<u32>,
        /// The new value.
        value: Value,
    },
}

/// A counter cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CounterTarget {
    /// A cell of an array; `None` is all of them.
    Indexed {
        /// The array.
        counter: CounterId,
        /// The cell.
        index: Option<u32>,
    },
    /// The direct counter of an entry.
    Direct {
        /// The table.
        table: TableId,
        /// The entry.
        key: EntryKey,
    },
    /// The direct counter of a table's default entry: it counts misses.
    Default {
        /// The table.
        table: TableId,
    },
}

/// A meter cell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MeterTarget {
    /// A cell of an array; `None` is all of them.
    Indexed {
        /// The array.
        meter: MeterId,
        /// The cell.
        index: Option<u32>,
    },
    /// The direct meter of an entry.
    Direct {
        /// The table.
        table: TableId,
        /// The entry.
        key: EntryKey,
    },
    /// The direct meter of a table's default entry: it meters misses. Without
    /// rates it leaves the packet's colour as it is, as bmv2 does on a miss.
    Default {
        /// The table.
        table: TableId,
    },
}

/// Where a chunked read goes on. Entries written meanwhile may or may not be
/// seen; entries that stay are seen exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReadCursor(pub(crate) u64);

/// Why an operation was refused. Nothing was changed by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// No program is installed.
    #[error("no pipeline is installed")]
    NoPipeline,
    /// An id that the program does not have.
    #[error("the program has no {what} with index {id}")]
    NoSuchObject {
        /// Kind of object.
        what: &'static str,
        /// The id.
        id: u32,
    },
    /// No such entry, member or group.
    #[error("{place}: no such {what}")]
    NotFound {
        /// Table or profile.
        place: String,
        /// "entry", "member 7", "group 3".
        what: String,
    },
    /// There already is one.
    #[error("{place}: {what} exists already")]
    AlreadyExists {
        /// Table or profile.
        place: String,
        /// "an entry with this key", "member 7", "group 3".
        what: String,
    },
    /// The request makes no sense for this object.
    #[error("{place}: {what}")]
    Invalid {
        /// Table, profile, counter…
        place: String,
        /// What is wrong.
        what: String,
    },
    /// A value that does not fit.
    #[error("{place}: the value of {field} does not fit {width} bits")]
    TooWide {
        /// Table, action, register.
        place: String,
        /// Field or parameter.
        field: String,
        /// Its width in bits.
        width: u32,
    },
    /// An index beyond the array.
    #[error("{place}: index {index} is out of range, the size is {size}")]
    OutOfRange {
        /// The array.
        place: String,
        /// The index asked for.
        index: u64,
        /// The array's size.
        size: u64,
    },
    /// The table or profile holds as many as it was declared for.
    #[error("{place}: full, {size} is the declared size")]
    Full {
        /// Table or profile.
        place: String,
        /// Declared size.
        size: u64,
    },
    /// Fixed by the program.
    #[error("{place}: {what} is constant in the program")]
    Immutable {
        /// Table.
        place: String,
        /// "the entry list", "the default action".
        what: &'static str,
    },
    /// Still in use.
    #[error("{place}: {what} is still in use by {users} {by}")]
    InUse {
        /// Profile.
        place: String,
        /// "member 7", "group 3".
        what: String,
        /// How many users.
        users: u64,
        /// Who: "entries", "groups".
        by: &'static str,
    },
}
