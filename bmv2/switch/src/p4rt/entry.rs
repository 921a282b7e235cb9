//! Table entries: from P4Runtime messages to the tables' terms and back.

use p4runtime_proto::bytestring;
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::field_match::FieldMatchType;
use tonic::Code;

use super::Mode;
use super::binding::{
    ActionBinding, FieldBinding, FieldKind, MeterKind, TableBinding, ValueSetBinding,
};
use super::fault::{Fault, Outcome};
use super::translation::Form;
use crate::{ActionCall, ColourCounts, CounterValue, EntryKey, FieldMatch, MeterConfig, Value};

/// Where an action call stands, for its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionUse {
    Entry,
    Default,
}

/// What has match fields, for messages.
#[derive(Debug, Clone, Copy)]
struct Owner<'n> {
    kind: &'static str,
    name: &'n str,
}

impl std::fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The key of an entry: its match fields and priority.
pub(super) fn decode_key(table: &TableBinding, entry: &p4::TableEntry) -> Outcome<EntryKey> {
    let owner = Owner {
        kind: "table",
        name: &table.name,
    };
    let fields = decode_fields(owner, &table.fields, &entry.r#match)?;
    if table.needs_priority && entry.priority <= 0 {
        return Err(Fault::invalid(format!(
            "{owner}: its entries need a priority above 0"
        )));
    }
    if !table.needs_priority && entry.priority != 0 {
        return Err(Fault::invalid(format!(
            "{owner}: the priority must be 0, since no field is ternary, range or optional"
        )));
    }
    Ok(EntryKey {
        fields,
        priority: entry.priority,
    })
}

/// The key of the entry that a direct resource belongs to; `None` for the
/// default entry.
pub(super) fn decode_direct_key(
    table: &TableBinding,
    entry: &p4::TableEntry,
) -> Outcome<Option<EntryKey>> {
    if !entry.is_default_action {
        return decode_key(table, entry).map(Some);
    }
    check_default(table, entry)?;
    Ok(None)
}

/// Checks that a default entry has no key.
pub(super) fn check_default(table: &TableBinding, entry: &p4::TableEntry) -> Outcome<()> {
    if entry.r#match.is_empty() && entry.priority == 0 {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "table {}: the default entry has neither a match nor a priority",
        table.name
    )))
}

/// A member of a value set.
pub(super) fn decode_set_member(
    set: &ValueSetBinding,
    member: &p4::ValueSetMember,
) -> Outcome<Vec<FieldMatch>> {
    let owner = Owner {
        kind: "value set",
        name: &set.name,
    };
    decode_fields(owner, &set.fields, &member.r#match)
}

fn decode_fields(
    owner: Owner<'_>,
    bound: &[FieldBinding],
    given: &[p4::FieldMatch],
) -> Outcome<Vec<FieldMatch>> {
    let mut fields = Vec::with_capacity(bound.len());
    let mut used = 0;
    for (position, field) in bound.iter().enumerate() {
        // Clients usually send the fields in P4Info's order.
        let found = given
            .get(position)
            .filter(|m| m.field_id == field.id)
            .or_else(|| given.iter().find(|m| m.field_id == field.id));
        match found {
            Some(found) => {
                used += 1;
                fields.push(decode_field(owner, field, found)?);
            }
            None if field.kind == FieldKind::Exact => {
                return Err(Fault::invalid(format!(
                    "{owner}: the exact match field {} is missing",
                    field.name
                )));
            }
            None => fields.push(FieldMatch::Any),
        }
    }
    if used == given.len() {
        Ok(fields)
    } else {
        Err(surplus_field(owner, bound, given))
    }
}

fn surplus_field(owner: Owner<'_>, bound: &[FieldBinding], given: &[p4::FieldMatch]) -> Fault {
    let mut ids: Vec<u32> = given.iter().map(|m| m.field_id).collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Fault::invalid(format!("{owner}: match field {} is given twice", pair[0]));
    }
    let unknown = ids
        .into_iter()
        .find(|id| bound.iter().all(|field| field.id != *id));
    Fault::invalid(format!(
        "{owner}: it has no match field {}",
        unknown.unwrap_or_default()
    ))
}

fn decode_field(
    owner: Owner<'_>,
    field: &FieldBinding,
    given: &p4::FieldMatch,
) -> Outcome<FieldMatch> {
    let place = || format!("{owner}: match field {}", field.name);
    let invalid = |what: &str| Fault::invalid(format!("{}: {what}", place()));
    let number = |bytes: &[u8]| Form::Number.decode(place, bytes);
    // P4Runtime translates only values that are compared as a whole.
    let whole = |bytes: &[u8]| field.form.decode(place, bytes);
    match (field.kind, &given.field_match_type) {
        (FieldKind::Exact, Some(FieldMatchType::Exact(exact))) => {
            Ok(FieldMatch::Exact(whole(&exact.value)?))
        }
        (FieldKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
            let value = number(&lpm.value)?;
            match u32::try_from(lpm.prefix_len) {
                Ok(0) => Err(invalid(
                    "a prefix of length 0 matches anything: leave the field out",
                )),
                Ok(prefix_len) if prefix_len <= field.width => {
                    Ok(FieldMatch::Lpm { value, prefix_len })
                }
                _ => Err(invalid(&format!(
                    "the prefix length {} is not within the field's {} bits",
                    lpm.prefix_len, field.width
                ))),
            }
        }
        (FieldKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
            let mask = number(&ternary.mask)?;
            if mask.iter().all(|byte| *byte == 0) {
                return Err(invalid("a mask of 0 matches anything: leave the field out"));
            }
            Ok(FieldMatch::Ternary {
                value: number(&ternary.value)?,
                mask,
            })
        }
        (FieldKind::Range, Some(FieldMatchType::Range(range))) => {
            let (low, high) = (number(&range.low)?, number(&range.high)?);
            if low.iter().all(|byte| *byte == 0) && is_all_ones(&high, field.width) {
                return Err(invalid(
                    "the whole range matches anything: leave the field out",
                ));
            }
            Ok(FieldMatch::Range { low, high })
        }
        (FieldKind::Optional, Some(FieldMatchType::Optional(optional))) => {
            Ok(FieldMatch::Ternary {
                value: whole(&optional.value)?,
                mask: all_ones(field.width),
            })
        }
        (_, None) => Err(invalid("the match is not set")),
        (kind, Some(_)) => Err(invalid(&format!("the match must be of kind {kind}"))),
    }
}

fn all_ones(width: u32) -> Value {
    let mut ones = Value::from_elem(0xff, bytestring::byte_width(width));
    if let (Some(first), 1..) = (ones.first_mut(), width % 8) {
        *first = (1 << (width % 8)) - 1;
    }
    ones
}

fn is_all_ones(bytes: &[u8], width: u32) -> bool {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..] == all_ones(width)[..]
}

/// An action with its parameters.
pub(super) fn decode_action(
    table: &TableBinding,
    action: &p4::Action,
    used_as: ActionUse,
) -> Outcome<ActionCall> {
    let bound = table.action(action.action_id)?;
    let forbidden = match used_as {
        ActionUse::Entry => Scope::DefaultOnly,
        ActionUse::Default => Scope::TableOnly,
    };
    if bound.scope == forbidden {
        let allowed = match used_as {
            ActionUse::Entry => "only as the default action",
            ActionUse::Default => "only in entries",
        };
        return Err(Fault::denied(format!(
            "table {}: action {} is allowed {allowed}",
            table.name, bound.name
        )));
    }
    let mut params = Vec::with_capacity(bound.params.len());
    for (position, param) in bound.params.iter().enumerate() {
        let place = || {
            format!(
                "table {}: action {}: parameter {}",
                table.name, bound.name, param.name
            )
        };
        let given = action
            .params
            .get(position)
            .filter(|p| p.param_id == param.id)
            .or_else(|| action.params.iter().find(|p| p.param_id == param.id))
            .ok_or_else(|| Fault::invalid(format!("{} is missing", place())))?;
        params.push(param.form.decode(place, &given.value)?);
    }
    if action.params.len() != params.len() {
        return Err(Fault::invalid(format!(
            "table {}: action {} takes {} parameters, not {}",
            table.name,
            bound.name,
            params.len(),
            action.params.len()
        )));
    }
    Ok(ActionCall {
        action: bound.core,
        params,
    })
}

pub(super) fn decode_idle_timeout(table: &TableBinding, entry: &p4::TableEntry) -> Outcome<u64> {
    if entry.idle_timeout_ns == 0 {
        return Ok(0);
    }
    if !table.supports_timeout {
        return Err(Fault::invalid(format!(
            "table {}: it does not support idle timeouts",
            table.name
        )));
    }
    u64::try_from(entry.idle_timeout_ns).map_err(|_| {
        Fault::invalid(format!(
            "table {}: the idle timeout is negative",
            table.name
        ))
    })
}

pub(super) fn decode_counter(data: &p4::CounterData) -> Outcome<CounterValue> {
    let count = |value: i64| {
        u64::try_from(value).map_err(|_| Fault::invalid("a counter cannot be negative"))
    };
    Ok(CounterValue {
        packets: count(data.packet_count)?,
        bytes: count(data.byte_count)?,
    })
}

pub(super) fn encode_counter(value: CounterValue) -> p4::CounterData {
    let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    p4::CounterData {
        byte_count: count(value.bytes),
        packet_count: count(value.packets),
    }
}

/// What a meter gave each colour.
pub(super) fn encode_colours(counts: &ColourCounts) -> p4::MeterCounterData {
    p4::MeterCounterData {
        green: Some(encode_counter(counts.green)),
        yellow: Some(encode_counter(counts.yellow)),
        red: Some(encode_counter(counts.red)),
    }
}

/// Checks what is written to the counters of colours: they can only be cleared.
pub(super) fn check_colours(place: &str, data: &p4::MeterCounterData) -> Outcome<()> {
    let zero = p4::CounterData::default();
    let colours = [&data.green, &data.yellow, &data.red];
    if colours.into_iter().flatten().all(|count| *count == zero) {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "{place}: the counters of a meter's colours can only be set to 0"
    )))
}

/// What stands for -1, which bmv2's server takes for "unlimited".
const UNLIMITED: u64 = u64::MAX;

/// The rates of a meter; none if all packets are to be green, as bmv2's server
/// understands -1 everywhere.
///
/// # Errors
/// `INVALID_ARGUMENT` for what its kind does not have.
pub(super) fn decode_meter(
    place: &str,
    kind: MeterKind,
    mode: Mode,
    config: &p4::MeterConfig,
) -> Outcome<Option<MeterConfig>> {
    let one_rate = kind != MeterKind::TwoRates;
    if one_rate && (config.pir, config.pburst) != (config.cir, config.cburst) {
        return Err(Fault::invalid(format!(
            "{place}: the meter has one rate: pir and pburst must be cir and cburst"
        )));
    }
    if kind != MeterKind::OneRate && config.eburst != 0 {
        return Err(Fault::invalid(format!(
            "{place}: eburst belongs to meters of one rate and three colours"
        )));
    }
    let number = |name: &str, value: i64| match (mode, value) {
        (Mode::Compat, -1) => Ok(UNLIMITED),
        _ => u64::try_from(value).map_err(|_| Fault::invalid(format!("{name} is negative"))),
    };
    let config = MeterConfig {
        cir: number("cir", config.cir)?,
        cburst: number("cburst", config.cburst)?,
        pir: number("pir", config.pir)?,
        pburst: number("pburst", config.pburst)?,
        eburst: match kind {
            MeterKind::OneRate => Some(number("eburst", config.eburst)?),
            MeterKind::TwoRates | MeterKind::TwoColours => None,
        },
    };
    if config.pir < config.cir {
        return Err(Fault::invalid("pir must not be below cir"));
    }
    let MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        ..
    } = config;
    let limited = [cir, cburst, pir, pburst].iter().any(|n| *n != UNLIMITED);
    Ok(limited.then_some(config))
}

pub(super) fn encode_meter(config: MeterConfig) -> p4::MeterConfig {
    let number = |value: u64| match value {
        UNLIMITED => -1,
        value => i64::try_from(value).unwrap_or(i64::MAX),
    };
    p4::MeterConfig {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: number(config.eburst.unwrap_or(0)),
    }
}

/// The match fields of an entry; those that match anything are left out.
pub(super) fn encode_match(table: &TableBinding, key: &EntryKey) -> Vec<p4::FieldMatch> {
    encode_fields(&table.fields, &key.fields)
}

/// A member of a value set in its canonical form.
pub(super) fn encode_set_member(
    set: &ValueSetBinding,
    member: &[FieldMatch],
) -> p4::ValueSetMember {
    p4::ValueSetMember {
        r#match: encode_fields(&set.fields, member),
    }
}

fn encode_fields(bound: &[FieldBinding], given: &[FieldMatch]) -> Vec<p4::FieldMatch> {
    let mut fields = Vec::with_capacity(given.len());
    for (field, given) in bound.iter().zip(given) {
        let canonical = |value: &Value| bytestring::canonical(value);
        let kind = match (field.kind, given) {
            (_, FieldMatch::Any) => continue,
            (_, FieldMatch::Exact(value)) => FieldMatchType::Exact(p4::field_match::Exact {
                value: field.form.encode(value),
            }),
            (_, FieldMatch::Lpm { prefix_len: 0, .. }) => continue,
            (_, FieldMatch::Lpm { value, prefix_len }) => {
                FieldMatchType::Lpm(p4::field_match::Lpm {
                    value: canonical(value),
                    prefix_len: i32::try_from(*prefix_len).unwrap_or(i32::MAX),
                })
            }
            (_, FieldMatch::Ternary { mask, .. }) if mask.iter().all(|b| *b == 0) => continue,
            (FieldKind::Optional, FieldMatch::Ternary { value, .. }) => {
                FieldMatchType::Optional(p4::field_match::Optional {
                    value: field.form.encode(value),
                })
            }
            (_, FieldMatch::Ternary { value, mask }) => {
                FieldMatchType::Ternary(p4::field_match::Ternary {
                    value: canonical(value),
                    mask: canonical(mask),
                })
            }
            (_, FieldMatch::Range { low, high })
                if low.iter().all(|b| *b == 0) && is_all_ones(high, field.width) =>
            {
                continue;
            }
            (_, FieldMatch::Range { low, high }) => FieldMatchType::Range(p4::field_match::Range {
                low: canonical(low),
                high: canonical(high),
            }),
        };
        fields.push(p4::FieldMatch {
            field_id: field.id,
            field_match_type: Some(kind),
        });
    }
    fields
}

pub(super) fn encode_action(bound: &ActionBinding, call: &ActionCall) -> p4::Action {
    p4::Action {
        action_id: bound.id,
        params: bound
            .params
            .iter()
            .zip(&call.params)
            .map(|(param, value)| p4::action::Param {
                param_id: param.id,
                value: param.form.encode(value),
            })
            .collect(),
    }
}

/// The index of an array cell; `None` is all of them.
pub(super) fn decode_index(
    place: &str,
    index: Option<&p4::Index>,
    size: u32,
) -> Outcome<Option<u32>> {
    let Some(index) = index else {
        return Ok(None);
    };
    if index.index < 0 {
        return Err(Fault::invalid(format!("{place}: the index is negative")));
    }
    match u32::try_from(index.index) {
        Ok(value) if value < size => Ok(Some(value)),
        _ => Err(Fault::new(
            Code::OutOfRange,
            format!(
                "{place}: index {} is out of range, the size is {size}",
                index.index
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_of_any_width() {
        assert_eq!(all_ones(9).as_slice(), [0x01, 0xff]);
        assert_eq!(all_ones(16).as_slice(), [0xff, 0xff]);
        assert!(is_all_ones(&[0, 0xff], 8));
        assert!(is_all_ones(&[1, 0xff], 9));
        assert!(!is_all_ones(&[0xff], 9));
        assert!(!is_all_ones(&[0, 0], 8));
    }

    #[test]
    fn indexes_are_checked() {
        let index = |index| p4::Index { index };
        let code = |i: i64| decode_index("c", Some(&index(i)), 4).unwrap_err().code;
        assert_eq!(decode_index("c", None, 4), Ok(None));
        assert_eq!(decode_index("c", Some(&index(3)), 4), Ok(Some(3)));
        assert_eq!(code(4), Code::OutOfRange);
        assert_eq!(code(-1), Code::InvalidArgument);
        assert_eq!(code(i64::MAX), Code::OutOfRange);
    }

    #[test]
    fn meters_take_what_their_kind_has() {
        use MeterKind::{OneRate, TwoColours, TwoRates};
        let config = |pir, eburst| p4::MeterConfig {
            cir: 5,
            cburst: 6,
            pir,
            pburst: 6,
            eburst,
        };
        let code = |kind, pir, eburst| {
            let decoded = decode_meter("m", kind, Mode::Strict, &config(pir, eburst));
            decoded.map_or_else(|fault| fault.code, |_| Code::Ok)
        };
        for kind in [TwoRates, OneRate, TwoColours] {
            assert_eq!(code(kind, 5, 0), Code::Ok);
        }
        assert_eq!(code(TwoRates, 7, 0), Code::Ok);
        assert_eq!(code(OneRate, 7, 0), Code::InvalidArgument);
        assert_eq!(code(TwoColours, 7, 0), Code::InvalidArgument);
        assert_eq!(code(TwoRates, 5, 1), Code::InvalidArgument);
        assert_eq!(code(TwoColours, 5, 1), Code::InvalidArgument);
        assert_eq!(code(OneRate, 5, 1), Code::Ok);
        assert_eq!(code(OneRate, 5, -1), Code::InvalidArgument);
    }

    #[test]
    fn bmv2_takes_minus_one_for_unlimited() {
        let config = |cir, cburst, pir, pburst| p4::MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
            eburst: 0,
        };
        let decode = |mode, config| decode_meter("m", MeterKind::TwoRates, mode, &config);
        assert_eq!(decode(Mode::Compat, config(-1, -1, -1, -1)), Ok(None));
        for taken in [
            config(5, 6, -1, -1),
            config(5, -1, 5, -1),
            config(5, 6, 7, 8),
        ] {
            let decoded = decode(Mode::Compat, taken).unwrap().unwrap();
            assert_eq!(encode_meter(decoded), taken);
        }
        for refused in [
            config(-2, 6, 7, 8),
            config(5, 6, 7, -2),
            config(-1, 6, 7, 8),
        ] {
            assert!(decode(Mode::Compat, refused).is_err(), "{refused:?}");
        }
        for refused in [config(-1, -1, -1, -1), config(5, 6, -1, 8)] {
            assert!(decode(Mode::Strict, refused).is_err(), "{refused:?}");
        }
    }
}
