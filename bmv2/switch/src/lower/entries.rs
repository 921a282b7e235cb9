//! Entries that a program has, and calls of actions with constant values.

use num_bigint::BigInt;

use super::Builder;
use super::key::match_kind;
use super::symbols::{hex_number, invalid, number_bytes};
use crate::control::{ActionCall, EntryAction, EntryKey, FieldMatch, TableEntry, Value};
use crate::load;
use crate::program::{ActionId, KeyFieldInfo, LoadError, MatchKind, TableInfo};

impl Builder<'_, '_> {
    /// An action with the parameters that the document gives it.
    pub(super) fn call(
        &self,
        place: &str,
        action: u32,
        data: &[String],
    ) -> Result<ActionCall, LoadError> {
        let empty = Vec::new();
        let params = self
            .action_infos
            .get(action as usize)
            .map_or(&empty, |a| &a.params);
        if params.len() != data.len() {
            return invalid(
                place,
                format!(
                    "an action of {} parameters gets {}",
                    params.len(),
                    data.len()
                ),
            );
        }
        let params = params
            .iter()
            .zip(data)
            .map(|(p, text)| {
                let n = hex_number(place, text)?;
                Ok(low_bytes(n, p.width))
            })
            .collect::<Result<_, LoadError>>()?;
        Ok(ActionCall {
            action: ActionId(action),
            params,
        })
    }

    /// The entries of a table.
    pub(super) fn entries(
        &self,
        place: &str,
        info: &TableInfo,
        entries: &[load::Entry],
    ) -> Result<Vec<TableEntry>, LoadError> {
        let last = entries.iter().map(|e| e.priority).max().unwrap_or(0);
        entries
            .iter()
            .enumerate()
            .map(|(i, e)| {
                let place = format!("{place} entry {i}");
                if e.match_key.len() != info.key.len() {
                    return invalid(place, "its key has another number of fields than the table");
                }
                let fields = e
                    .match_key
                    .iter()
                    .zip(&info.key)
                    .map(|(m, f)| entry_field(&place, m, f))
                    .collect::<Result<_, _>>()?;
                let action = self.action_index(&place, e.action_entry.action_id)?;
                if !info.actions.iter().any(|(_, a)| a.0 == action) {
                    return invalid(place, "its action is not one of the table's");
                }
                // In the document the lowest number wins, in P4Runtime the
                // highest.
                let priority = if info.needs_priority {
                    last.saturating_sub(e.priority).saturating_add(1).max(1)
                } else {
                    0
                };
                Ok(TableEntry {
                    key: EntryKey { fields, priority },
                    action: EntryAction::Call(self.call(
                        &place,
                        action,
                        &e.action_entry.action_data,
                    )?),
                    idle_timeout_ns: 0,
                    cookie: 0,
                    metadata: Vec::new(),
                })
            })
            .collect()
    }
}

/// The low bits of a number as big-endian bytes.
fn low_bytes(n: BigInt, width: u32) -> Value {
    let low = crate::ir::expr::wrap(n, width, false);
    Value::from_vec(number_bytes(&low, width.div_ceil(8) as usize).unwrap_or_default())
}

/// A field of an entry in the document. p4c cuts masks of more than 64 bits
/// and overflows the end of "any" ranges; neither makes an entry unusable.
fn entry_field(place: &str, m: &load::EntryKey, f: &KeyFieldInfo) -> Result<FieldMatch, LoadError> {
    let text = |j: &Option<String>| j.clone().unwrap_or_default();
    let number = |t: &str| hex_number(place, t);
    let bytes = |n: BigInt| low_bytes(n, f.width);
    let kind = match m.match_type.as_str() {
        "valid" => MatchKind::Exact,
        other => match_kind(place, other)?,
    };
    if kind != f.kind {
        return invalid(
            place,
            format!("a field is {kind}, in the table it is {}", f.kind),
        );
    }
    let key = || -> Result<BigInt, LoadError> {
        match (&m.key, m.key.as_str()) {
            (serde_json::Value::Bool(b), _) => Ok(BigInt::from(u8::from(*b))),
            (_, Some(t)) => number(t),
            _ => invalid(place, "a field has no key"),
        }
    };
    Ok(match f.kind {
        MatchKind::Exact => FieldMatch::Exact(bytes(key()?)),
        MatchKind::Lpm => {
            let prefix_len = m.prefix_length.unwrap_or(0);
            if prefix_len > f.width {
                return invalid(
                    place,
                    format!("a prefix of {prefix_len} bits in {}", f.width),
                );
            }
            let host = f.width - prefix_len;
            let value = (crate::ir::expr::wrap(key()?, f.width, false) >> host) << host;
            FieldMatch::Lpm {
                value: bytes(value),
                prefix_len,
            }
        }
        MatchKind::Ternary => {
            let mask = number(&text(&m.mask))?;
            let value = crate::ir::expr::wrap(key()?, f.width, false)
                & crate::ir::expr::wrap(mask.clone(), f.width, false);
            FieldMatch::Ternary {
                value: bytes(value),
                mask: bytes(mask),
            }
        }
        MatchKind::Range => {
            let top = (BigInt::from(1) << f.width) - 1;
            let low = number(&text(&m.start))?;
            let high = number(&text(&m.end))?;
            if low == BigInt::ZERO && (high > top || high < low) {
                return Ok(FieldMatch::Any);
            }
            if low > high || high > top {
                return invalid(place, "a range is empty or beyond its field");
            }
            FieldMatch::Range {
                low: bytes(low),
                high: bytes(high),
            }
        }
    })
}
