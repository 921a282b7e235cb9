//! What a parser state selects on, and its cases.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::expr::{Expr, Scope, word};
use super::parser::{Parsers, lookahead};
use super::symbols::{Symbols, hex_bytes, invalid, limit, pair, unsupported};
use super::typed::{Node, Typed};
use crate::ir::bits::read_bits;
use crate::ir::expr::Num;
use crate::ir::{
    END, Field, FieldKind, HeaderId, Lookahead, Select, SelectPart, SelectSource, StackId,
    WideCase, WideTest, WordCase,
};
use crate::load::{self, Operand, Transition};
use crate::program::LoadError;

/// Widest select key in bits.
pub(super) const MAX_KEY: u64 = 1 << 12;

/// Width of `lastIndex` (P4_16 specification, 8.18).
const INDEX_BITS: u32 = 32;

/// A select key's element before packing.
enum Element {
    Field(Field),
    StackLast(StackId, u16, u32),
    UnionStackLast(StackId, u16, u16, u32),
    Lookahead(Lookahead),
    /// A number that is computed, and its width.
    Number(Num<u64>, u32),
}

impl Element {
    fn width(&self) -> u32 {
        match self {
            Self::Field(f) => f.width,
            Self::StackLast(_, _, w) | Self::UnionStackLast(_, _, _, w) | Self::Number(_, w) => *w,
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
            Self::Number(n, _) => SelectSource::Number(Box::new(n.clone()), right, width),
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
                Some("parse_vset") => self.vset(place, &layout, t)?,
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
                WideTest::Vset(..) => None,
            })
            .collect();
        Ok(Select::Word {
            key,
            cases,
            default,
        })
    }

    fn vset(
        &mut self,
        place: &str,
        layout: &Layout,
        t: &Transition,
    ) -> Result<WideTest, LoadError> {
        let name = t.value.as_deref().unwrap_or("");
        let Some(&set) = self.vset_by_name.get(name) else {
            return invalid(place, format!("there is no value set {name:?}"));
        };
        if let Some(known) = self.vset_widths.get_mut(set as usize) {
            if !known.is_empty() && *known != layout.widths {
                return unsupported(place, format!("keys of two forms for value set {name:?}"));
            }
            known.clone_from(&layout.widths);
        }
        let mask = match t.mask.as_deref() {
            None => Vec::new(),
            Some(text) => layout.words_of(&layout.read(place, text, "mask")?),
        };
        Ok(WideTest::Vset(set, mask))
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
                    "expression" => self.number(place, o)?,
                    other => {
                        return unsupported(place, format!("a select key of type {other:?}"));
                    }
                })
            })
            .collect()
    }
}

impl Parsers<'_, '_> {
    /// An element that is computed: `stack.lastIndex`, or a truth value.
    fn number(&self, place: &str, o: &Operand) -> Result<Element, LoadError> {
        let scope = Scope {
            symbols: self.actions.symbols,
            params: &[],
            place,
        };
        let (number, width) = match scope.operand(&o.kind, &o.value)? {
            Expr::Bool(c) => (Typed::from_bool(c), 1),
            Expr::Num(t) if matches!(t.node, Node::LastIndex(_)) => (t, INDEX_BITS),
            Expr::Num(t) => {
                let width = t.range.bits;
                (t, width)
            }
            _ => return invalid(place, "a select key must be a number"),
        };
        if !(1..=64).contains(&width) {
            return unsupported(place, format!("a computed select key of {width} bits"));
        }
        Ok(Element::Number(word(&number), width))
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

    /// Bytes of all elements, each padded to whole bytes as in the document.
    fn bytes(&self) -> usize {
        self.widths.iter().map(|w| w.div_ceil(8) as usize).sum()
    }

    /// A number of the document as bytes, one that is negative as its two's
    /// complement.
    fn read(&self, place: &str, text: &str, what: &str) -> Result<Vec<u8>, LoadError> {
        let bytes = self.bytes();
        let raw = hex_bytes(place, text.strip_prefix('-').unwrap_or(text))?;
        if raw.len() != bytes {
            return invalid(
                place,
                format!(
                    "the {what} {text} has {} bytes instead of {bytes}",
                    raw.len()
                ),
            );
        }
        Ok(if text.starts_with('-') {
            negated(&raw)
        } else {
            raw
        })
    }

    /// The padding of each element: its first bit and its width.
    fn padding(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut byte = 0;
        self.widths.iter().map(move |w| {
            let bytes = w.div_ceil(8) as usize;
            let start = byte * 8;
            byte += bytes;
            (start, bytes * 8 - *w as usize)
        })
    }

    /// What the key's words are if the elements have these bytes.
    fn words_of(&self, bytes: &[u8]) -> Vec<u64> {
        let starts: Vec<usize> = self.padding().map(|(start, width)| start + width).collect();
        let mut words = vec![0u64; self.words];
        for (i, word, shift, right, width) in self.chunks() {
            let element = self.widths.get(i).copied().unwrap_or(0);
            let start = starts.get(i).copied().unwrap_or(0) + (element - right - width) as usize;
            if let Some(w) = words.get_mut(word) {
                *w |= read_bits(bytes, start, width as usize) << shift;
            }
        }
        words
    }

    /// A case's value and mask by word; `None` if it can never match.
    fn case(&self, place: &str, t: &Transition) -> Result<Option<Vec<(u64, u64)>>, LoadError> {
        let text = t.value.as_deref().unwrap_or("");
        let value = self.read(place, text, "value")?;
        let mask = match t.mask.as_deref() {
            Some(m) => self.read(place, m, "mask")?,
            None => vec![0xff; self.bytes()],
        };
        // The sign of a negative number fills the padding.
        if !text.starts_with('-')
            && self.padding().any(|(start, width)| {
                read_bits(&value, start, width) & read_bits(&mask, start, width) != 0
            })
        {
            return Ok(None);
        }
        let words = self.words_of(&value).into_iter().zip(self.words_of(&mask));
        Ok(Some(words.map(|(v, m)| (v & m, m)).collect()))
    }
}

/// The two's complement of a big-endian number. p4c writes a negative value of
/// a case, `int<8>` -1 for instance, as `-0x01`.
fn negated(bytes: &[u8]) -> Vec<u8> {
    let mut carry = true;
    let mut digits: Vec<u8> = bytes
        .iter()
        .rev()
        .map(|b| {
            let (digit, more) = (!b).overflowing_add(u8::from(carry));
            carry = more;
            digit
        })
        .collect();
    digits.reverse();
    digits
}
