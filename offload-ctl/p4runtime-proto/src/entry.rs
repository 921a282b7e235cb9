//! Small helpers to build and take apart entries.
//!
//! Values are canonical bytestrings of numbers up to 128 bits; for wider ones
//! fill the messages directly. A key element that matches anything must be left
//! out of an entry (specification, "Match Format"), so the builders of
//! ternary, LPM and range elements return `None` for it.

use tonic::Code;

use crate::bytestring::{self, BytestringError};
use crate::p4::v1::{
    Action, ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterEntry, DigestEntry,
    DirectCounterEntry, DirectMeterEntry, Entity, ExternEntry, FieldMatch, MeterEntry,
    MulticastGroupEntry, PacketMetadata, PacketReplicationEngineEntry, RegisterEntry, TableAction,
    TableEntry, Update, ValueSetEntry, action, entity, field_match,
    packet_replication_engine_entry as replication, table_action, update,
};

/// Why an element of an entry could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The element is not there.
    #[error("{what} {id} is missing")]
    Missing {
        /// "match field", "action parameter" or "packet metadata".
        what: &'static str,
        /// The id that P4Info gives it.
        id: u32,
    },
    /// The key element is of another match kind than P4Info says.
    #[error("match field {id} is not of kind {expected}")]
    Kind {
        /// The id of the match field.
        id: u32,
        /// The kind that was asked for.
        expected: &'static str,
    },
    /// The value does not fit its type.
    #[error("{what} {id}: {source}")]
    Value {
        /// "match field", "action parameter" or "packet metadata".
        what: &'static str,
        /// The id that P4Info gives it.
        id: u32,
        /// What is wrong with the value.
        source: BytestringError,
    },
}

impl EntryError {
    /// The canonical code for a server to answer with.
    pub fn code(&self) -> Code {
        match self {
            Self::Missing { .. } | Self::Kind { .. } => Code::InvalidArgument,
            Self::Value { source, .. } => source.code(),
        }
    }
}

const FIELD: &str = "match field";
const PARAM: &str = "action parameter";
const METADATA: &str = "packet metadata";

/// The mask of a prefix: `prefix_len` ones, then zeros up to `bitwidth`, both
/// at most 128.
pub fn prefix_mask(prefix_len: u32, bitwidth: u32) -> u128 {
    let bitwidth = bitwidth.min(u128::BITS);
    let host = bitwidth.saturating_sub(prefix_len);
    ones(bitwidth) & !ones(host)
}

fn ones(bits: u32) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX >> (u128::BITS - bits.min(u128::BITS)),
    }
}

fn field(field_id: u32, kind: field_match::FieldMatchType) -> FieldMatch {
    FieldMatch {
        field_id,
        field_match_type: Some(kind),
    }
}

/// An exact key element.
pub fn exact(field_id: u32, value: u128) -> FieldMatch {
    let value = bytestring::encode(value);
    field(
        field_id,
        field_match::FieldMatchType::Exact(field_match::Exact { value }),
    )
}

/// An LPM key element; bits beyond the prefix are cleared. `None` for a prefix
/// of length 0, which matches anything.
pub fn lpm(field_id: u32, value: u128, prefix_len: u32, bitwidth: u32) -> Option<FieldMatch> {
    if prefix_len == 0 {
        return None;
    }
    let prefix_len = prefix_len.min(bitwidth);
    let value = bytestring::encode(value & prefix_mask(prefix_len, bitwidth));
    Some(field(
        field_id,
        field_match::FieldMatchType::Lpm(field_match::Lpm {
            value,
            prefix_len: prefix_len.try_into().unwrap_or(i32::MAX),
        }),
    ))
}

/// A ternary key element; bits outside the mask are cleared. `None` for an
/// empty mask, which matches anything.
pub fn ternary(field_id: u32, value: u128, mask: u128) -> Option<FieldMatch> {
    (mask != 0).then(|| {
        field(
            field_id,
            field_match::FieldMatchType::Ternary(field_match::Ternary {
                value: bytestring::encode(value & mask),
                mask: bytestring::encode(mask),
            }),
        )
    })
}

/// A range key element with both bounds included. `None` for the full range of
/// the type, which matches anything.
pub fn range(field_id: u32, low: u128, high: u128, bitwidth: u32) -> Option<FieldMatch> {
    (low != 0 || high < ones(bitwidth)).then(|| {
        field(
            field_id,
            field_match::FieldMatchType::Range(field_match::Range {
                low: bytestring::encode(low),
                high: bytestring::encode(high),
            }),
        )
    })
}

/// An optional key element that is present; one that is absent is left out.
pub fn optional(field_id: u32, value: u128) -> FieldMatch {
    let value = bytestring::encode(value);
    field(
        field_id,
        field_match::FieldMatchType::Optional(field_match::Optional { value }),
    )
}

/// An action parameter.
pub fn param(param_id: u32, value: u128) -> action::Param {
    action::Param {
        param_id,
        value: bytestring::encode(value),
    }
}

/// An action of a direct table.
pub fn direct_action(action_id: u32, params: Vec<action::Param>) -> TableAction {
    Action { action_id, params }.into()
}

/// A field of a `packet_out` header.
pub fn metadata(metadata_id: u32, value: u128) -> PacketMetadata {
    PacketMetadata {
        metadata_id,
        value: bytestring::encode(value),
    }
}

/// The key element with this id, or `None` when the entry matches anything
/// there.
pub fn find_field(entry: &TableEntry, field_id: u32) -> Option<&FieldMatch> {
    entry
        .r#match
        .iter()
        .find(|field| field.field_id == field_id)
}

/// The value of an exact key element.
///
/// # Errors
/// [`EntryError`] when it is missing, of another kind, or too wide.
pub fn read_exact(entry: &TableEntry, field_id: u32, bitwidth: u32) -> Result<u128, EntryError> {
    let missing = EntryError::Missing {
        what: FIELD,
        id: field_id,
    };
    match &find_field(entry, field_id).ok_or(missing)?.field_match_type {
        Some(field_match::FieldMatchType::Exact(exact)) => {
            number(FIELD, field_id, &exact.value, bitwidth)
        }
        _ => Err(EntryError::Kind {
            id: field_id,
            expected: "exact",
        }),
    }
}

/// The value and the prefix length of an LPM key element; `(0, 0)` when it is
/// left out.
///
/// # Errors
/// [`EntryError`] when it is of another kind or too wide.
pub fn read_lpm(
    entry: &TableEntry,
    field_id: u32,
    bitwidth: u32,
) -> Result<(u128, u32), EntryError> {
    let kind = EntryError::Kind {
        id: field_id,
        expected: "LPM",
    };
    let Some(element) = find_field(entry, field_id) else {
        return Ok((0, 0));
    };
    match &element.field_match_type {
        Some(field_match::FieldMatchType::Lpm(lpm)) => {
            let prefix_len = u32::try_from(lpm.prefix_len).map_err(|_| kind)?;
            Ok((number(FIELD, field_id, &lpm.value, bitwidth)?, prefix_len))
        }
        _ => Err(kind),
    }
}

/// The value and the mask of a ternary key element; `(0, 0)` when it is left
/// out.
///
/// # Errors
/// [`EntryError`] when it is of another kind or too wide.
pub fn read_ternary(
    entry: &TableEntry,
    field_id: u32,
    bitwidth: u32,
) -> Result<(u128, u128), EntryError> {
    let Some(element) = find_field(entry, field_id) else {
        return Ok((0, 0));
    };
    match &element.field_match_type {
        Some(field_match::FieldMatchType::Ternary(ternary)) => Ok((
            number(FIELD, field_id, &ternary.value, bitwidth)?,
            number(FIELD, field_id, &ternary.mask, bitwidth)?,
        )),
        _ => Err(EntryError::Kind {
            id: field_id,
            expected: "ternary",
        }),
    }
}

/// The bounds of a range key element; the full range when it is left out.
///
/// # Errors
/// [`EntryError`] when it is of another kind or too wide.
pub fn read_range(
    entry: &TableEntry,
    field_id: u32,
    bitwidth: u32,
) -> Result<(u128, u128), EntryError> {
    let Some(element) = find_field(entry, field_id) else {
        return Ok((0, ones(bitwidth)));
    };
    match &element.field_match_type {
        Some(field_match::FieldMatchType::Range(range)) => Ok((
            number(FIELD, field_id, &range.low, bitwidth)?,
            number(FIELD, field_id, &range.high, bitwidth)?,
        )),
        _ => Err(EntryError::Kind {
            id: field_id,
            expected: "range",
        }),
    }
}

/// The value of an optional key element; `None` when it is left out.
///
/// # Errors
/// [`EntryError`] when it is of another kind or too wide.
pub fn read_optional(
    entry: &TableEntry,
    field_id: u32,
    bitwidth: u32,
) -> Result<Option<u128>, EntryError> {
    let Some(element) = find_field(entry, field_id) else {
        return Ok(None);
    };
    match &element.field_match_type {
        Some(field_match::FieldMatchType::Optional(optional)) => {
            number(FIELD, field_id, &optional.value, bitwidth).map(Some)
        }
        _ => Err(EntryError::Kind {
            id: field_id,
            expected: "optional",
        }),
    }
}

/// The action of an entry of a direct table.
pub fn action_of(entry: &TableEntry) -> Option<&Action> {
    match entry.action.as_ref()?.r#type.as_ref()? {
        table_action::Type::Action(action) => Some(action),
        _ => None,
    }
}

/// The value of an action parameter.
///
/// # Errors
/// [`EntryError`] when it is missing or too wide.
pub fn read_param(action: &Action, param_id: u32, bitwidth: u32) -> Result<u128, EntryError> {
    let param = action
        .params
        .iter()
        .find(|param| param.param_id == param_id)
        .ok_or(EntryError::Missing {
            what: PARAM,
            id: param_id,
        })?;
    number(PARAM, param_id, &param.value, bitwidth)
}

/// The value of a field of a `packet_in` header.
///
/// # Errors
/// [`EntryError`] when it is missing or too wide.
pub fn read_metadata(
    metadata: &[PacketMetadata],
    metadata_id: u32,
    bitwidth: u32,
) -> Result<u128, EntryError> {
    let field = metadata
        .iter()
        .find(|field| field.metadata_id == metadata_id)
        .ok_or(EntryError::Missing {
            what: METADATA,
            id: metadata_id,
        })?;
    number(METADATA, metadata_id, &field.value, bitwidth)
}

fn number(what: &'static str, id: u32, bytes: &[u8], bitwidth: u32) -> Result<u128, EntryError> {
    bytestring::to_u128(bytes, bitwidth).map_err(|source| EntryError::Value { what, id, source })
}

/// An update that adds an entity.
pub fn insert(entity: impl Into<Entity>) -> Update {
    change(update::Type::Insert, entity)
}

/// An update that changes an entity.
pub fn modify(entity: impl Into<Entity>) -> Update {
    change(update::Type::Modify, entity)
}

/// An update that removes an entity.
pub fn delete(entity: impl Into<Entity>) -> Update {
    change(update::Type::Delete, entity)
}

fn change(kind: update::Type, entity: impl Into<Entity>) -> Update {
    Update {
        r#type: kind as i32,
        entity: Some(entity.into()),
    }
}

impl From<Action> for TableAction {
    fn from(action: Action) -> Self {
        Self {
            r#type: Some(table_action::Type::Action(action)),
        }
    }
}

macro_rules! entity_from {
    ($($message:ident),* $(,)?) => {$(
        impl From<$message> for Entity {
            fn from(message: $message) -> Self {
                Self { entity: Some(entity::Entity::$message(message)) }
            }
        }
    )*};
}

entity_from!(
    ExternEntry,
    TableEntry,
    ActionProfileMember,
    ActionProfileGroup,
    MeterEntry,
    DirectMeterEntry,
    CounterEntry,
    DirectCounterEntry,
    PacketReplicationEngineEntry,
    ValueSetEntry,
    RegisterEntry,
    DigestEntry,
);

impl From<MulticastGroupEntry> for Entity {
    fn from(group: MulticastGroupEntry) -> Self {
        PacketReplicationEngineEntry {
            r#type: Some(replication::Type::MulticastGroupEntry(group)),
        }
        .into()
    }
}

impl From<CloneSessionEntry> for Entity {
    fn from(session: CloneSessionEntry) -> Self {
        PacketReplicationEngineEntry {
            r#type: Some(replication::Type::CloneSessionEntry(session)),
        }
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use field_match::FieldMatchType;

    fn entry(fields: impl IntoIterator<Item = FieldMatch>) -> TableEntry {
        TableEntry {
            r#match: fields.into_iter().collect(),
            ..TableEntry::default()
        }
    }

    #[test]
    fn lpm_clears_host_bits() {
        // 10.1.2.3/15 covers 10.0.0.0 to 10.1.255.255.
        let field = lpm(1, 0x0a01_0203, 15, 32).unwrap();
        assert_eq!(
            field.field_match_type,
            Some(FieldMatchType::Lpm(field_match::Lpm {
                value: vec![10, 0, 0, 0],
                prefix_len: 15,
            }))
        );
        assert_eq!(read_lpm(&entry([field]), 1, 32), Ok((0x0a00_0000, 15)));
        assert_eq!(lpm(1, 5, 0, 32), None);
        assert_eq!(prefix_mask(128, 128), u128::MAX);
        assert_eq!(prefix_mask(0, 128), 0);
        assert_eq!(prefix_mask(64, 128), u128::MAX << 64);
    }

    #[test]
    fn what_matches_anything_is_left_out() {
        assert_eq!(ternary(1, 7, 0), None);
        assert_eq!(range(1, 0, 0xffff, 16), None);
        assert!(range(1, 0, 0xfffe, 16).is_some());
        assert!(range(1, 1, 0xffff, 16).is_some());
        assert_eq!(range(1, 0, u128::MAX, 128), None);

        let any = entry([]);
        assert_eq!(read_lpm(&any, 1, 32), Ok((0, 0)));
        assert_eq!(read_ternary(&any, 1, 8), Ok((0, 0)));
        assert_eq!(read_range(&any, 1, 16), Ok((0, 0xffff)));
        assert_eq!(read_optional(&any, 1, 8), Ok(None));
    }

    #[test]
    fn ternary_clears_bits_outside_the_mask() {
        let field = ternary(3, 0xabcd, 0x0ff0).unwrap();
        assert_eq!(read_ternary(&entry([field]), 3, 16), Ok((0x0bc0, 0x0ff0)));
    }

    #[test]
    fn readers_say_what_is_wrong() {
        let present = entry([exact(1, 0x1ff), optional(2, 6)]);
        assert_eq!(read_exact(&present, 1, 9), Ok(0x1ff));
        assert_eq!(read_optional(&present, 2, 3), Ok(Some(6)));

        let missing = read_exact(&present, 9, 8).unwrap_err();
        assert_eq!(missing.to_string(), "match field 9 is missing");
        assert_eq!(missing.code(), Code::InvalidArgument);
        let kind = read_exact(&present, 2, 8).unwrap_err();
        assert_eq!(kind.to_string(), "match field 2 is not of kind exact");
        let wide = read_exact(&present, 1, 8).unwrap_err();
        assert_eq!(
            wide.to_string(),
            "match field 1: the value needs 9 bits and its type has 8"
        );
        assert_eq!(wide.code(), Code::OutOfRange);
    }

    #[test]
    fn actions_and_metadata_are_read_by_id() {
        let route = TableEntry {
            action: Some(direct_action(7, vec![param(1, 0x0102), param(2, 0)])),
            ..TableEntry::default()
        };
        let action = action_of(&route).unwrap();
        assert_eq!(action.action_id, 7);
        assert_eq!(action.params[0].value, [1, 2]);
        assert_eq!(read_param(action, 2, 1), Ok(0));
        assert!(read_param(action, 3, 1).is_err());

        let fields = [metadata(1, 255), metadata(4, 12)];
        assert_eq!(read_metadata(&fields, 4, 9), Ok(12));
    }

    #[test]
    fn updates_carry_their_entity() {
        let update = delete(MulticastGroupEntry {
            multicast_group_id: 9,
            ..MulticastGroupEntry::default()
        });
        assert_eq!(update.r#type, 3);
        assert!(matches!(
            update.entity.unwrap().entity,
            Some(entity::Entity::PacketReplicationEngineEntry(
                PacketReplicationEngineEntry {
                    r#type: Some(replication::Type::MulticastGroupEntry(group))
                }
            )) if group.multicast_group_id == 9
        ));
    }
}
