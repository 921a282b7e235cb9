//! Table keys: their fields, and how these lie in words.

use serde_json::Value as Json;
use smallvec::SmallVec;

use super::Builder;
use super::expr::Scope;
use super::symbols::{hex_number, invalid, limit, number_bytes, pair, unsupported};
use super::typed::Node;
use crate::control::Value;
use crate::ir::bits::mask64;
use crate::ir::expr::{FieldPlace, HeaderSel};
use crate::ir::{self, FieldKind};
use crate::load;
use crate::program::{KeyFieldInfo, LoadError, MatchKind};
use crate::tables::key::{Chosen, KeyField, KeyLayout, MAX_WORDS, Piece, Source, pack};
use crate::tables::range;

impl Builder<'_, '_> {
    /// Lowers a table's key.
    pub(super) fn key(
        &self,
        place: &str,
        t: &load::Table,
    ) -> Result<(Vec<KeyFieldInfo>, KeyLayout, MatchKind), LoadError> {
        let kind = match_kind(place, &t.match_type)?;
        let mut infos = Vec::with_capacity(t.key.len());
        let mut sources = Vec::with_capacity(t.key.len());
        let mut masks: Vec<Option<Value>> = Vec::new();
        let mut lpm = None;
        for (i, k) in t.key.iter().enumerate() {
            let place = format!("{place} key field {i}");
            let (source, kind) = if k.match_type == "valid" {
                let name = k.target.as_str().unwrap_or("");
                let h = self.symbols.header(&place, name)?;
                let valid = self.symbols.field_of(&place, h, "$valid$")?;
                (KeySource::Fixed(valid), MatchKind::Exact)
            } else {
                let kind = match_kind(&place, &k.match_type)?;
                (self.key_source(&place, &k.target)?, kind)
            };
            if matches!(source, KeySource::Fixed(f) if f.kind == FieldKind::Varbit) {
                return unsupported(place, "a varbit in a key");
            }
            let width = source.width();
            if kind == MatchKind::Lpm && lpm.replace(i).is_some() {
                return invalid(place, "it is the second lpm field");
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
                    let len = width.div_ceil(8) as usize;
                    match number_bytes(&n, len) {
                        Some(b) => Some(Value::from_vec(b)),
                        None => return invalid(place, "its mask is wider than it"),
                    }
                }
            });
            infos.push(KeyFieldInfo { name, kind, width });
            sources.push(source);
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
        let layout = layout(place, &infos, &sources, places, words, &masks, prioritised)?;
        Ok((infos, layout, found))
    }

    /// The field that a key's target names: `[header, field]`, or p4c's forms
    /// for `stack[index].field` and `stack[index].isValid()`.
    fn key_source(&self, place: &str, target: &Json) -> Result<KeySource, LoadError> {
        let scope = Scope {
            symbols: self.symbols,
            params: &[],
            place,
        };
        if target.get(0).is_some_and(Json::is_object) {
            let (header, field, like) = scope.field_of_chosen(target)?;
            return match (header, like.kind) {
                (HeaderSel::Fixed(_), _) => Ok(KeySource::Fixed(like)),
                (_, FieldKind::Varbit) => unsupported(place, "a varbit in a key"),
                (header, _) => Ok(KeySource::Chosen(header, field, like.width)),
            };
        }
        if !target.is_object() {
            return Ok(KeySource::Fixed(self.symbols.field_pair(place, target)?));
        }
        let number = scope.num(target)?;
        match number.node {
            Node::Field(f) | Node::Dynamic(FieldPlace::Fixed(f)) => Ok(KeySource::Fixed(f)),
            Node::Dynamic(FieldPlace::Of(header, field)) => {
                Ok(KeySource::Chosen(header, field, number.range.bits))
            }
            _ => unsupported(place, "a key that is computed"),
        }
    }
}

/// Where a key field comes from.
enum KeySource {
    Fixed(ir::Field),
    /// A field, by its position, of a header chosen at run time, and its width.
    Chosen(HeaderSel, u16, u32),
}

impl KeySource {
    fn width(&self) -> u32 {
        match self {
            Self::Fixed(f) => f.width,
            Self::Chosen(_, _, width) => *width,
        }
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
    sources: &[KeySource],
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
    for (((info, source), places), mask) in infos.iter().zip(sources).zip(places).zip(masks) {
        for p in &places {
            match source {
                KeySource::Fixed(field) => {
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
                }
                KeySource::Chosen(header, field, _) => l.chosen.push(Chosen {
                    header: header.clone(),
                    field: *field,
                    place: *p,
                }),
            }
            let bits = match mask {
                Some(m) => crate::tables::key::chunk(m, p.right, p.width),
                None => mask64(p.width),
            };
            if let Some(w) = program_mask.get_mut(p.word) {
                *w |= bits << p.shift;
            }
        }
        let range = (info.kind == MatchKind::Range).then(|| {
            let first = l.ranges.len();
            l.ranges.extend(range::pieces(&places));
            first
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
