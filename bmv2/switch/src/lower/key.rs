//! Table keys: their fields, and how these lie in words.

use smallvec::SmallVec;

use super::Builder;
use super::symbols::{hex_number, invalid, limit, number_bytes, pair, unsupported};
use crate::control::Value;
use crate::ir::bits::mask64;
use crate::ir::{self, FieldKind};
use crate::load;
use crate::program::{KeyFieldInfo, LoadError, MatchKind};
use crate::tables::key::{KeyField, KeyLayout, MAX_WORDS, Piece, Source, pack};

impl Builder<'_, '_> {
    /// Lowers a table's key.
    pub(super) fn key(
        &self,
        place: &str,
        t: &load::Table,
    ) -> Result<(Vec<KeyFieldInfo>, KeyLayout, MatchKind), LoadError> {
        let kind = match_kind(place, &t.match_type)?;
        let mut infos = Vec::with_capacity(t.key.len());
        let mut fields = Vec::with_capacity(t.key.len());
        let mut masks: Vec<Option<Value>> = Vec::new();
        let mut lpm = None;
        for (i, k) in t.key.iter().enumerate() {
            let place = format!("{place} key field {i}");
            if k.target.is_object() {
                // p4c's form for `stack[index].field`; bmv2 crashes on it.
                return unsupported(place, "a key that is an expression");
            }
            let (field, kind) = if k.match_type == "valid" {
                let name = k.target.as_str().unwrap_or("");
                let h = self.symbols.header(&place, name)?;
                (
                    self.symbols.field_of(&place, h, "$valid$")?,
                    MatchKind::Exact,
                )
            } else {
                (
                    self.symbols.field_pair(&place, &k.target)?,
                    match_kind(&place, &k.match_type)?,
                )
            };
            if field.kind == FieldKind::Varbit {
                return unsupported(place, "a varbit in a key");
            }
            if kind == MatchKind::Lpm && lpm.replace(i).is_some() {
                return invalid(place, "it is the second lpm field");
            }
            if kind == MatchKind::Range && field.width > 64 {
                return unsupported(place, "a range over more than 64 bits");
            }
            let name = match &k.name {
                Some(n) => n.clone(),
                None => match pair(&place, &k.target) {
                    Ok((h, f)) => format!("{h}.{f}"),
                    Err(_) => k.target.as_str().unwrap_or("").to_owned(),
                },
            };
            masks.push(match &k.mask {
                None => None,
                Some(m) => {
                    let n = hex_number(&place, m)?;
                    let len = field.width.div_ceil(8) as usize;
                    match number_bytes(&n, len) {
                        Some(b) => Some(Value::from_vec(b)),
                        None => return invalid(place, "its mask is wider than it"),
                    }
                }
            });
            infos.push(KeyFieldInfo {
                name,
                kind,
                width: field.width,
            });
            fields.push(field);
        }
        // p4c writes what the whole table needs; a ternary or range field
        // decides over priority, an lpm field beside one is just a mask.
        let prioritised = infos
            .iter()
            .any(|f| matches!(f.kind, MatchKind::Ternary | MatchKind::Range));
        let found = if prioritised {
            kind
        } else if lpm.is_some() {
            MatchKind::Lpm
        } else {
            MatchKind::Exact
        };
        if !infos.is_empty()
            && (prioritised != matches!(kind, MatchKind::Ternary | MatchKind::Range))
        {
            return invalid(
                place,
                format!("its match_type is {kind}, its fields say {found}"),
            );
        }
        let (places, words) = pack(&infos.iter().map(|f| f.width).collect::<Vec<_>>());
        limit(
            place,
            "the width of its key in words",
            words as u64,
            MAX_WORDS as u64,
        )?;
        let layout = layout(place, &infos, &fields, places, words, &masks, prioritised)?;
        Ok((infos, layout, found))
    }
}

/// A kind of match by its name.
pub(super) fn match_kind(place: &str, name: &str) -> Result<MatchKind, LoadError> {
    Ok(match name {
        "exact" => MatchKind::Exact,
        "lpm" => MatchKind::Lpm,
        "ternary" | "optional" => MatchKind::Ternary,
        "range" => MatchKind::Range,
        other => return unsupported(place, format!("the match kind {other:?}")),
    })
}

#[allow(clippy::too_many_arguments)]
fn layout(
    place: &str,
    infos: &[KeyFieldInfo],
    fields: &[ir::Field],
    places: Vec<SmallVec<[crate::tables::key::Place; 1]>>,
    words: usize,
    masks: &[Option<Value>],
    prioritised: bool,
) -> Result<KeyLayout, LoadError> {
    let mut l = KeyLayout {
        words,
        prioritised,
        ..KeyLayout::default()
    };
    let mut program_mask: SmallVec<[u64; 4]> = SmallVec::from_elem(0, words);
    for (((info, field), places), mask) in infos.iter().zip(fields).zip(places).zip(masks) {
        for p in &places {
            let source = match field.kind {
                FieldKind::Valid => Source::Valid,
                _ => match field.slice(p.right, p.width) {
                    Some(loc) => Source::Loc(loc),
                    None => return unsupported(place, "a key field of this width"),
                },
            };
            l.pieces.push(Piece {
                header: field.header,
                source,
                place: *p,
            });
            let bits = match mask {
                Some(m) => crate::tables::key::chunk(m, p.right, p.width),
                None => mask64(p.width),
            };
            if let Some(w) = program_mask.get_mut(p.word) {
                *w |= bits << p.shift;
            }
        }
        let range = (info.kind == MatchKind::Range).then(|| {
            l.ranges.extend(places.first().copied());
            l.ranges.len() - 1
        });
        l.fields.push(KeyField {
            name: info.name.clone(),
            kind: info.kind,
            width: info.width,
            places,
            range,
        });
    }
    if masks.iter().any(Option::is_some) {
        l.program_mask = program_mask;
    }
    Ok(l)
}
