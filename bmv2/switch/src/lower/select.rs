//! What a parser state selects on, and its cases.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::parser::{Parsers, lookahead};
use super::symbols::{Symbols, hex_bytes, invalid, limit, pair, unsupported};
use crate::ir::bits::read_bits;
use crate::ir::{
    END, Field, FieldKind, HeaderId, Lookahead, Select, SelectPart, SelectSource, StackId,
    WideCase, WideTest, WordCase,
};
use crate::load::{self, Document, Operand, Transition};
use crate::program::LoadError;

/// Widest select key in bits.
pub(super) const MAX_KEY: u64 = 1 << 12;

/// A select key's element before packing.
enum Element {
    Field(Field),
    StackLast(StackId, u16, u32),
    UnionStackLast(StackId, u16, u16, u32),
    Lookahead(Lookahead),
}

impl Element {
    fn width(&self) -> u32 {
        match self {
            Self::Field(f) => f.width,
            Self::StackLast(_, _, w) | Self::UnionStackLast(_, _, _, w) => *w,
            Self::Lookahead(l) => l.width,
        }
    }

    /// The source of `width` bits that have `right` bits to their right.
    fn slice(&self, right: u32, width: u32) -> Option<SelectSource> {
        Some(match self {
            Self::Field(f) if f.kind == FieldKind::Valid => SelectSource::Valid(f.header),
            Self::Field(f) => SelectSource::Field(f.slice(right, width)?),
            Self::StackLast(s, f, _) => SelectSource::StackLast(*s, *f, right, width),
            Self::UnionStackLast(s, m, f, _) => {
                SelectSource::UnionStackLast(*s, *m, *f, right, width)
            }
            Self::Lookahead(l) => SelectSource::Lookahead(Lookahead {
                bit: l.bit + l.width - right - width,
                width,
            }),
        })
    }
}

impl Parsers<'_, '_> {
    pub(super) fn select(
        &mut self,
        place: &str,
        s: &load::ParseState,
        by_name: &HashMap<&str, u32>,
    ) -> Result<Select, LoadError> {
        let target = |t: &Transition| match t.next_state.as_deref() {
            None => Ok(END),
            Some(name) => match by_name.get(name) {
                Some(&s) => Ok(s),
                None => invalid(place, format!("there is no state {name:?}")),
            },
        };
        let is_default = |t: &Transition| match t.kind.as_deref() {
            Some(kind) => kind == "default",
            None => t.value.as_deref() == Some("default"),
        };
        let mut default = END;
        for t in s.transitions.iter().filter(|t| is_default(t)) {
            default = target(t)?;
        }
        let elements = self.elements(place, &s.transition_key)?;
        if elements.is_empty() {
            return Ok(Select::Always(default));
        }
        let total: u32 = elements.iter().map(Element::width).sum();
        limit(
            place,
            "the width of its select key",
            u64::from(total),
            MAX_KEY,
        )?;
        let cases: Vec<&Transition> = s.transitions.iter().filter(|t| !is_default(t)).collect();
        let wide = total > 64
            || cases
                .iter()
                .any(|t| t.kind.as_deref() == Some("parse_vset"));
        let mut layout = Layout::new(&elements, wide);
        limit(
            place,
            "the width of its select key in words",
            layout.words as u64,
            MAX_KEY / 64,
        )?;
        let key = layout.parts(place, &elements)?;
        let mut lowered = Vec::with_capacity(cases.len());
        for t in cases {
            let next = target(t)?;
            let test = match t.kind.as_deref() {
                None | Some("hexstr") => match layout.case(place, t)? {
                    Some(words) => WideTest::Mask(words),
                    None => continue,
                },
                Some("parse_vset") => self.vset(place, t)?,
                Some(other) => {
                    return unsupported(place, format!("a transition of type {other:?}"));
                }
            };
            lowered.push(WideCase { test, next });
        }
        if wide {
            return Ok(Select::Wide {
                key,
                words: layout.words,
                cases: lowered,
                default,
            });
        }
        let cases = lowered
            .into_iter()
            .filter_map(|c| match c.test {
                WideTest::Mask(words) => words.first().map(|&(value, mask)| WordCase {
                    value,
                    mask,
                    next: c.next,
                }),
                WideTest::Vset(_) => None,
            })
            .collect();
        Ok(Select::Word {
            key,
            cases,
            default,
        })
    }

    fn vset(&mut self, place: &str, t: &Transition) -> Result<WideTest, LoadError> {
        let name = t.value.as_deref().unwrap_or("");
        let Some(&set) = self.vset_by_name.get(name) else {
            return invalid(place, format!("there is no value set {name:?}"));
        };
        if t.mask.is_some() {
            return unsupported(place, "a mask on a value set");
        }
        Ok(WideTest::Vset(set))
    }

    fn elements(&self, place: &str, key: &[Operand]) -> Result<Vec<Element>, LoadError> {
        let symbols = self.actions.symbols;
        key.iter()
            .map(|o| {
                Ok(match o.kind.as_str() {
                    "field" => {
                        let f = symbols.field_pair(place, &o.value)?;
                        if f.kind == FieldKind::Varbit {
                            return unsupported(place, "a varbit in a select key");
                        }
                        Element::Field(f)
                    }
                    "stack_field" => {
                        let (stack, field) = pair(place, &o.value)?;
                        let s = symbols.stack(place, stack)?;
                        let (i, f) = symbols.stack_field(place, s, field)?;
                        Element::StackLast(s, i, f.width)
                    }
                    "union_stack_field" => union_element(symbols, place, &o.value)?,
                    "lookahead" => Element::Lookahead(lookahead(place, &o.value)?),
                    other => {
                        return unsupported(place, format!("a select key of type {other:?}"));
                    }
                })
            })
            .collect()
    }
}

fn union_element(symbols: &Symbols, place: &str, value: &Json) -> Result<Element, LoadError> {
    let parts: Option<Vec<&str>> = value
        .as_array()
        .map(|a| a.iter().filter_map(Json::as_str).collect());
    let Some([stack, member, field]) = parts.as_deref() else {
        return invalid(place, "expected an array of three names");
    };
    let s = symbols.union_stack(place, stack)?;
    let m = symbols.union_stack_member(place, s, member)?;
    let h: HeaderId = symbols.union_stack_header(place, s, m)?;
    let (i, f) = symbols.field_index(place, h, field)?;
    Ok(Element::UnionStackLast(s, m, i, f.width))
}

/// How the elements of a select key lie in words: packed from the left if they
/// fit one word, else each in words of its own, the most significant first.
struct Layout {
    widths: Vec<u32>,
    wide: bool,
    words: usize,
}

impl Layout {
    fn new(elements: &[Element], wide: bool) -> Self {
        let widths: Vec<u32> = elements.iter().map(Element::width).collect();
        let words = if wide {
            widths.iter().map(|w| w.div_ceil(64) as usize).sum()
        } else {
            1
        };
        Self {
            widths,
            wide,
            words,
        }
    }

    /// For each chunk of each element: its word, its shift there, the bits to
    /// its right within the element, and its width.
    fn chunks(&self) -> Vec<(usize, usize, u32, u32, u32)> {
        let mut chunks = Vec::new();
        let mut word = 0;
        let mut left: u32 = self.widths.iter().sum();
        for (i, &width) in self.widths.iter().enumerate() {
            if !self.wide {
                left -= width;
                chunks.push((i, 0, left, 0, width));
                continue;
            }
            let mut right = width;
            while right > 0 {
                let part = if right.is_multiple_of(64) {
                    64
                } else {
                    right % 64
                };
                right -= part;
                chunks.push((i, word, 0, right, part));
                word += 1;
            }
        }
        chunks
    }

    fn parts(&mut self, place: &str, elements: &[Element]) -> Result<Vec<SelectPart>, LoadError> {
        self.chunks()
            .into_iter()
            .map(|(i, word, shift, right, width)| {
                match elements.get(i).and_then(|e| e.slice(right, width)) {
                    Some(source) => Ok(SelectPart {
                        source,
                        word: u16::try_from(word).unwrap_or(u16::MAX),
                        shift: u8::try_from(shift).unwrap_or(0),
                    }),
                    None => unsupported(place, "a select key field of this width"),
                }
            })
            .collect()
    }

    /// A case's value and mask by word; `None` if it can never match.
    fn case(&self, place: &str, t: &Transition) -> Result<Option<Vec<(u64, u64)>>, LoadError> {
        let bytes: usize = self.widths.iter().map(|w| w.div_ceil(8) as usize).sum();
        let read = |text: &str, what: &str| {
            let raw = hex_bytes(place, text)?;
            if raw.len() == bytes {
                return Ok(raw);
            }
            invalid(
                place,
                format!(
                    "the {what} {text} has {} bytes instead of {bytes}",
                    raw.len()
                ),
            )
        };
        let value = read(t.value.as_deref().unwrap_or(""), "value")?;
        let mask = match t.mask.as_deref() {
            Some(m) => read(m, "mask")?,
            None => vec![0xff; bytes],
        };
        // Each element is padded to whole bytes in the document.
        let mut starts = Vec::with_capacity(self.widths.len());
        let mut byte = 0usize;
        for &w in &self.widths {
            let padding = (w.div_ceil(8) * 8 - w) as usize;
            if read_bits(&value, byte * 8, padding) & read_bits(&mask, byte * 8, padding) != 0 {
                return Ok(None);
            }
            starts.push(byte * 8 + padding);
            byte += w.div_ceil(8) as usize;
        }
        let mut words = vec![(0u64, 0u64); self.words];
        for (i, word, shift, right, width) in self.chunks() {
            let element = self.widths.get(i).copied().unwrap_or(0);
            let start = starts.get(i).copied().unwrap_or(0) + (element - right - width) as usize;
            let (v, m) = (
                read_bits(&value, start, width as usize),
                read_bits(&mask, start, width as usize),
            );
            if let Some(w) = words.get_mut(word) {
                w.0 |= (v & m) << shift;
                w.1 |= m << shift;
            }
        }
        Ok(Some(words))
    }
}

/// The widths of the fields that a value set is matched against.
pub(crate) fn vset_fields(doc: &Document, name: &str) -> Vec<u32> {
    let width = |o: &Operand| -> Option<u32> {
        let names: Vec<&str> = o
            .value
            .as_array()?
            .iter()
            .filter_map(Json::as_str)
            .collect();
        let type_of_header = |h: &str| {
            doc.headers
                .iter()
                .find(|x| x.name == h)
                .map(|x| x.header_type.clone())
        };
        let of = |ty: &str, f: &str| {
            doc.header_types
                .iter()
                .find(|t| t.name == ty)?
                .fields
                .iter()
                .find(|x| x.first().and_then(Json::as_str) == Some(f))?
                .get(1)?
                .as_u64()
                .and_then(|w| u32::try_from(w).ok())
        };
        match (o.kind.as_str(), names.as_slice()) {
            ("field", [h, f]) => of(&type_of_header(h)?, f),
            ("stack_field", [s, f]) => {
                let stack = doc.header_stacks.iter().find(|x| x.name == *s)?;
                of(&stack.header_type, f)
            }
            ("lookahead", _) => o
                .value
                .as_array()?
                .get(1)?
                .as_u64()
                .and_then(|w| u32::try_from(w).ok()),
            _ => None,
        }
    };
    doc.parsers
        .iter()
        .flat_map(|p| &p.parse_states)
        .find(|s| {
            s.transitions.iter().any(|t| {
                t.kind.as_deref() == Some("parse_vset") && t.value.as_deref() == Some(name)
            })
        })
        .map(|s| {
            s.transition_key
                .iter()
                .map(|o| width(o).unwrap_or(0))
                .collect()
        })
        .unwrap_or_default()
}
