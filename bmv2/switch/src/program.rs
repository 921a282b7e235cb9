//! A loaded program: what can be asked about it by name.

use std::fmt;

use crate::control::{ActionCall, TableEntry};
use crate::ir::Ir;

/// Stack of the thread that loads a program.
const LOADER_STACK: usize = 64 << 20;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the program's list of such objects.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A table: index into [`Program::tables`].
    TableId
);
id!(
    /// An action: index into [`Program::actions`]. Action *names* may repeat
    /// (one copy for each table); resolve a name through
    /// [`TableInfo::action_by_name`].
    ActionId
);
id!(
    /// An action profile or selector: index into [`Program::profiles`].
    ProfileId
);
id!(
    /// A counter array, direct or indexed: index into [`Program::counters`].
    CounterId
);
id!(
    /// A meter array, direct or indexed: index into [`Program::meters`].
    MeterId
);
id!(
    /// A register array: index into [`Program::registers`].
    RegisterId
);
id!(
    /// A digest (a "learn list" in the JSON): index into [`Program::digests`].
    DigestId
);

/// How a key field is compared.
///
/// P4's `optional` arrives in the JSON as `ternary`; only P4Info knows the
/// difference, so the control server that holds the P4Info checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// All bits equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask.
    Ternary,
    /// Inclusive interval.
    Range,
}

impl fmt::Display for MatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Lpm => "lpm",
            Self::Ternary => "ternary",
            Self::Range => "range",
        })
    }
}

/// One field of a table key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFieldInfo {
    /// Control-plane name, for example `hdr.ipv4.dst_addr`.
    pub name: String,
    /// How it is compared.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
}

/// One parameter of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// Name in the source.
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionInfo {
    /// Control-plane name; not unique.
    pub name: String,
    /// Parameters that an entry must supply, in order.
    pub params: Vec<ParamInfo>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Control-plane name, for example `MyIngress.ipv4_lpm`.
    pub name: String,
    /// Key fields in the order of the program.
    pub key: Vec<KeyFieldInfo>,
    /// The kind of the whole table: `Range` and `Ternary` tables take a
    /// priority, `Exact` and `Lpm` tables do not.
    pub kind: MatchKind,
    /// Whether entries carry a priority.
    pub needs_priority: bool,
    /// Actions by (name, id), in the table's order.
    pub actions: Vec<(String, ActionId)>,
    /// Most entries it holds.
    pub size: u32,
    /// Whether the entries are fixed by the program.
    pub is_const: bool,
    /// Whether the default action is fixed by the program.
    pub const_default_action: bool,
    /// Whether the parameters of the default action are fixed.
    pub const_default_params: bool,
    /// Whether entries may carry an idle timeout.
    pub support_timeout: bool,
    /// The direct counter, if any.
    pub direct_counter: Option<CounterId>,
    /// The direct meter, if any.
    pub direct_meter: Option<MeterId>,
    /// The action profile or selector that implements it, if any.
    pub profile: Option<ProfileId>,
}

impl TableInfo {
    /// The id of an action of this table.
    pub fn action_by_name(&self, name: &str) -> Option<ActionId> {
        self.actions
            .iter()
            .find(|(n, _)| n == name)
            .map(|&(_, id)| id)
    }
}

/// What a counter or a bucket of a meter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes of the packet as it arrived.
    Bytes,
}

/// A counter array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterInfo {
    /// Control-plane name.
    pub name: String,
    /// Number of cells; 0 for a direct counter.
    pub size: u32,
    /// The table of a direct counter.
    pub direct: Option<TableId>,
}

/// A meter array (two rates, three colours).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterInfo {
    /// Control-plane name.
    pub name: String,
    /// Number of cells; 0 for a direct meter.
    pub size: u32,
    /// The table of a direct meter.
    pub direct: Option<TableId>,
    /// What the rates count.
    pub unit: Unit,
}

/// A register array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterInfo {
    /// Control-plane name.
    pub name: String,
    /// Number of cells.
    pub size: u32,
    /// Width of a cell in bits.
    pub width: u32,
}

/// A digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestInfo {
    /// Name of the digest's type.
    pub name: String,
    /// The id in the JSON (from 1).
    pub json_id: u32,
    /// Widths of the values in bits; of a varbit the greatest.
    pub widths: Vec<u32>,
}

/// An action profile or selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileInfo {
    /// Control-plane name.
    pub name: String,
    /// Most members it holds.
    pub size: u32,
    /// Whether it has groups.
    pub with_selector: bool,
    /// Tables that use it.
    pub tables: Vec<TableId>,
}

/// One field of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFieldInfo {
    /// Name within the header.
    pub name: String,
    /// Width in bits; for `varbit` the greatest width.
    pub width: u32,
    /// Whether the value is signed.
    pub signed: bool,
    /// Whether it is a `varbit`.
    pub varbit: bool,
}

/// A header or metadata instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderInfo {
    /// Instance name, for example `ipv4`, `vlan[0]` or `packet_in`.
    pub name: String,
    /// Whether it is metadata (always valid, never emitted).
    pub metadata: bool,
    /// Fields in wire order.
    pub fields: Vec<HeaderFieldInfo>,
}

/// Why a program was refused.
///
/// `place` names where in the JSON, as `actions[3] "Ingress.drop" primitives[0]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not JSON, or not of the shape that p4c writes.
    #[error("the file is not a bmv2 JSON program: {0}")]
    Syntax(String),
    /// A version of the format that this loader does not know.
    #[error(
        "the JSON format is version {major}.{minor}; this switch reads major version 2 up to 2.24"
    )]
    Version {
        /// Major version found.
        major: u32,
        /// Minor version found.
        minor: u32,
    },
    /// Something refers to what does not exist, or is inconsistent.
    #[error("{place}: {what}")]
    Invalid {
        /// Where.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// Legal, but this switch does not have it.
    #[error("{place}: {what} is not supported by this switch")]
    Unsupported {
        /// Where.
        place: String,
        /// What is missing.
        what: String,
    },
    /// A number that is beyond what the loader accepts from a file.
    #[error("{place}: {what} exceeds the limit of {limit}")]
    Limit {
        /// Where.
        place: String,
        /// What is too large.
        what: String,
        /// The greatest accepted value.
        limit: u64,
    },
}

/// A value set of the parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueSetInfo {
    /// Control-plane name.
    pub name: String,
    /// Width of all its fields together in bits.
    pub width: u32,
    /// Most members it holds.
    pub size: u32,
    /// Widths of its fields in bits; none if no state looks into it.
    pub fields: Vec<u32>,
}

/// An immutable program, lowered and ready to run.
#[derive(Debug)]
pub struct Program {
    pub(crate) tables: Vec<TableInfo>,
    pub(crate) actions: Vec<ActionInfo>,
    pub(crate) profiles: Vec<ProfileInfo>,
    pub(crate) counters: Vec<CounterInfo>,
    pub(crate) meters: Vec<MeterInfo>,
    pub(crate) registers: Vec<RegisterInfo>,
    pub(crate) digests: Vec<DigestInfo>,
    pub(crate) headers: Vec<HeaderInfo>,
    pub(crate) value_sets: Vec<ValueSetInfo>,
    /// The program's own default actions.
    pub(crate) defaults: Vec<(TableId, ActionCall)>,
    /// The program's own entries.
    pub(crate) entries: Vec<(TableId, TableEntry)>,
    pub(crate) ir: Ir,
}

impl Program {
    /// Major and minor number of the newest version of the format that is read;
    /// older ones with the same major number are too.
    pub const JSON_VERSION: (u32, u32) = crate::load::VERSION;

    /// Reads, checks and lowers the JSON that `p4c-bm2-ss` wrote.
    ///
    /// # Errors
    /// A [`LoadError`] that names the place; nothing is partly loaded.
    pub fn load(json: &[u8]) -> Result<Self, LoadError> {
        // Documents nest deeply where expressions do; a thread of its own has
        // the stack for it whatever the caller's has.
        std::thread::scope(|scope| {
            let loader = std::thread::Builder::new()
                .name("load-program".into())
                .stack_size(LOADER_STACK)
                .spawn_scoped(scope, || {
                    let document = crate::load::parse(json)?;
                    crate::lower::lower(&document)
                });
            match loader.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(LoadError::Syntax("the loader failed on it".into())),
                Err(e) => Err(LoadError::Syntax(format!("no thread to load it in: {e}"))),
            }
        })
    }

    /// All tables; a [`TableId`] is a position here.
    pub fn tables(&self) -> &[TableInfo] {
        &self.tables
    }

    /// All actions; an [`ActionId`] is a position here.
    pub fn actions(&self) -> &[ActionInfo] {
        &self.actions
    }

    /// All action profiles; a [`ProfileId`] is a position here.
    pub fn profiles(&self) -> &[ProfileInfo] {
        &self.profiles
    }

    /// All counters; a [`CounterId`] is a position here.
    pub fn counters(&self) -> &[CounterInfo] {
        &self.counters
    }

    /// All meters; a [`MeterId`] is a position here.
    pub fn meters(&self) -> &[MeterInfo] {
        &self.meters
    }

    /// All registers; a [`RegisterId`] is a position here.
    pub fn registers(&self) -> &[RegisterInfo] {
        &self.registers
    }

    /// All digests; a [`DigestId`] is a position here.
    pub fn digests(&self) -> &[DigestInfo] {
        &self.digests
    }

    /// All header and metadata instances (stack elements one by one).
    pub fn headers(&self) -> &[HeaderInfo] {
        &self.headers
    }

    /// All value sets, in the order of the document.
    pub fn value_sets(&self) -> &[ValueSetInfo] {
        &self.value_sets
    }

    /// A table by its control-plane name.
    pub fn table_by_name(&self, name: &str) -> Option<TableId> {
        position(&self.tables, |t| t.name == name).map(TableId)
    }

    /// An action profile by its control-plane name.
    pub fn profile_by_name(&self, name: &str) -> Option<ProfileId> {
        position(&self.profiles, |p| p.name == name).map(ProfileId)
    }

    /// A counter by its control-plane name.
    pub fn counter_by_name(&self, name: &str) -> Option<CounterId> {
        position(&self.counters, |c| c.name == name).map(CounterId)
    }

    /// A meter by its control-plane name.
    pub fn meter_by_name(&self, name: &str) -> Option<MeterId> {
        position(&self.meters, |m| m.name == name).map(MeterId)
    }

    /// A register by its control-plane name.
    pub fn register_by_name(&self, name: &str) -> Option<RegisterId> {
        position(&self.registers, |r| r.name == name).map(RegisterId)
    }

    /// Lets the entries that the program has put into a table be changed, and
    /// others be added to them, up to `size` in all.
    pub(crate) fn open_table(&mut self, table: TableId, size: u32) {
        if let Some(info) = self.tables.get_mut(table.index()) {
            info.is_const = false;
            info.size = info.size.max(size);
        }
    }

    /// A digest by its type's name.
    pub fn digest_by_name(&self, name: &str) -> Option<DigestId> {
        position(&self.digests, |d| d.name == name).map(DigestId)
    }

    /// A header instance by name.
    pub fn header_by_name(&self, name: &str) -> Option<&HeaderInfo> {
        self.headers.iter().find(|h| h.name == name)
    }

    /// Whether a selector's own algorithm is v1model's `random`.
    pub(crate) fn picks_at_random(&self, profile: ProfileId) -> bool {
        let selector = self.ir.selectors.get(profile.index());
        let selector = selector.and_then(Option::as_ref);
        selector.is_some_and(|calc| matches!(calc.algorithm, crate::calc::Algorithm::Random))
    }

    /// Whether the order of packets across workers matters (registers or
    /// meters are used): such a program should run on one worker.
    pub fn is_stateful(&self) -> bool {
        !self.registers.is_empty() || !self.meters.is_empty()
    }
}

fn position<T>(items: &[T], test: impl Fn(&T) -> bool) -> Option<u32> {
    items
        .iter()
        .position(test)
        .and_then(|i| u32::try_from(i).ok())
}
