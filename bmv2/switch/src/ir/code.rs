//! Pipelines as straight-line code.
//!
//! The graph of a pipeline and the bodies of its actions become one sequence
//! of small operations that a loop walks with a program counter. Numbers are
//! computed in an accumulator; what the accumulator can't do is left to the
//! general evaluation of [`Num`], [`Cond`] and [`Prim`](super::Prim).

use super::bits::{Loc, load_word, mask64};
use super::expr::{Cond, Num};
use super::{HeaderId, NodeId, ParamPlace};

/// A position in [`Code::ops`], or a label while code is made.
pub(crate) type Pc = u32;

/// An offset in the image. Short, so that operations are; what lies beyond is
/// left to the general evaluation.
pub(crate) type Byte = u16;

/// Values that may be put aside while another is computed.
pub(crate) const TEMPS: usize = 8;

/// Bits of the image within 8 bytes: `(load << up) >> down`.
///
/// One kind of load for all fields costs less than a choice of the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) byte: Byte,
    pub(crate) up: u8,
    pub(crate) down: u8,
}

impl Span {
    /// The place of a field; `None` if no 8 bytes hold it, or not within the
    /// reach of a [`Byte`].
    pub(crate) fn new(loc: Loc) -> Option<Self> {
        let (width, shift) = (u32::from(loc.width), u32::from(loc.shift));
        let (byte, up) = if loc.load == 8 {
            (loc.byte, 64 - shift - width)
        } else {
            let first = loc.byte * 8 + u32::from(loc.load) * 8 - shift - width;
            (first / 8, first % 8)
        };
        (up + width <= 64).then_some(Self {
            byte: Byte::try_from(byte).ok()?,
            up: u8::try_from(up).ok()?,
            down: u8::try_from(64 - width).ok()?,
        })
    }

    /// The field's value.
    #[inline(always)]
    pub(crate) fn load(self, image: &[u8]) -> u64 {
        (load_word(image, self.byte.into()) << (self.up % 64)) >> (self.down % 64)
    }
}

/// Bits of one of an action's parameter words: `(word << up) >> down`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) word: u16,
    pub(crate) up: u8,
    pub(crate) down: u8,
}

impl Param {
    /// The place of a parameter; `None` if it takes more than one word.
    pub(crate) fn new(p: ParamPlace) -> Option<Self> {
        let up = 64u32.checked_sub(u32::from(p.shift) + p.width)?;
        Some(Self {
            word: p.word,
            up: u8::try_from(up).ok()?,
            down: u8::try_from(64 - p.width).ok()?,
        })
    }

    /// The parameter's value.
    #[inline(always)]
    pub(crate) fn load(self, words: &[u64]) -> u64 {
        let word = words.get(usize::from(self.word)).copied().unwrap_or(0);
        (word << (self.up % 64)) >> (self.down % 64)
    }
}

/// One operation. Those of the form `If…` go to `to` if their test comes out
/// as `when`, else on to the next operation. A *word* is a field that has 8
/// aligned bytes of the image to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Ends the pipeline.
    End,
    /// Ends the pipeline if the action wants it to exit.
    Leave,
    /// Ends an action that a table called.
    Return,
    Jump(Pc),
    /// A jump backwards over so many operations. They count, so that no packet
    /// goes round for ever.
    Loop {
        to: Pc,
        length: u32,
    },
    Table(u32),

    IfValid {
        when: bool,
        to: Pc,
        header: HeaderId,
    },
    /// A word equals a constant.
    IfWordIs {
        when: bool,
        to: Pc,
        byte: Byte,
        value: u64,
    },
    /// A field equals a constant of at most 32 bits.
    IfIs {
        when: bool,
        to: Pc,
        field: Span,
        value: u32,
    },
    /// The accumulator equals a constant.
    IfAccIs {
        when: bool,
        to: Pc,
        value: u64,
    },
    /// The accumulator is less than a constant.
    IfAccBelow {
        when: bool,
        to: Pc,
        value: u64,
    },
    IfAccIsField {
        when: bool,
        to: Pc,
        field: Span,
    },
    IfAccBelowField {
        when: bool,
        to: Pc,
        field: Span,
    },
    IfFieldBelowAcc {
        when: bool,
        to: Pc,
        field: Span,
    },
    IfAccIsTemp {
        when: bool,
        to: Pc,
        temp: u8,
    },
    IfAccBelowTemp {
        when: bool,
        to: Pc,
        temp: u8,
    },
    /// Any other condition, by its index in [`Code::conds`].
    IfCond {
        when: bool,
        to: Pc,
        cond: u32,
    },

    // What the accumulator becomes.
    LoadWord(Byte),
    Load(Span),
    Const(u64),
    Param(Param),
    Valid(HeaderId),
    AddField(Span),
    SubField(Span),
    AndField(Span),
    OrField(Span),
    XorField(Span),
    AddConst(u64),
    AndConst(u64),
    OrConst(u64),
    XorConst(u64),
    Not,
    /// Shifts by less than 64 bits.
    Shl(u8),
    Shr(u8),
    /// 1 if it equals the constant, else 0.
    Is(u64),
    IsNot(u64),
    /// Puts the accumulator aside.
    Save(u8),
    /// The accumulator with a value put aside.
    Combine(Combine, u8),
    /// Any other number, by its index in [`Code::nums`].
    Eval(u32),

    // The accumulator's low bits into a field: `down` is 64 less its width,
    // the number in a name is its width if it has whole bytes to itself.
    StoreWord {
        byte: Byte,
        down: u8,
    },
    Store8(Byte),
    Store16(Byte),
    Store32(Byte),
    Store48(Byte),
    Store(Loc),
    // A word becomes something no wider than it.
    WordConst {
        byte: Byte,
        value: u64,
    },
    WordParam {
        byte: Byte,
        param: Param,
    },
    WordField {
        byte: Byte,
        field: Span,
    },
    /// Counts in the cell that the accumulator names.
    Count(u32),
    AddHeader(HeaderId),
    RemoveHeader(HeaderId),
    AssignHeader {
        to: HeaderId,
        from: HeaderId,
    },
    Exit,
    /// Any other primitive, by its place in the action's body.
    Prim {
        action: u32,
        at: u32,
    },

    // Two in one. Those that compute leave in the accumulator what the second
    // would; those that test or store one field, that field.
    LoadSum(Span, Span),
    LoadShl(Span, u8),
    AddFields(Span, Span),
    SubFields(Span, Span),
    /// Adds the first field, subtracts the second.
    AddSubField(Span, Span),
    /// Adds a constant and stores the sum in a word.
    StoreWordPlus {
        byte: Byte,
        down: u8,
        value: u32,
    },
    /// A sum into a word.
    WordSum {
        byte: Byte,
        down: u8,
        fields: [Span; 2],
    },
    Copy16(Byte, Span),
    Copy32(Byte, Span),
    WordParams([(Byte, Param); 2]),
    WordFields([(Byte, Span); 2]),
    CountField {
        counter: u32,
        field: Span,
    },
    IfFieldIsField {
        when: bool,
        to: Pc,
        fields: [Span; 2],
    },
    /// The first is less than the second.
    IfFieldBelowField {
        when: bool,
        to: Pc,
        fields: [Span; 2],
    },

    // Only in code that is traced.
    TraceCond {
        node: NodeId,
        value: bool,
    },
    TraceAction(u32),
    /// Reports what the action has changed.
    TraceChanges,
}

impl Op {
    /// Where it may jump to.
    pub(crate) fn target(self) -> Option<Pc> {
        let mut op = self;
        op.target_mut().copied()
    }

    /// The same, to be changed.
    pub(crate) fn target_mut(&mut self) -> Option<&mut Pc> {
        match self {
            Self::Jump(to)
            | Self::Loop { to, .. }
            | Self::IfValid { to, .. }
            | Self::IfWordIs { to, .. }
            | Self::IfIs { to, .. }
            | Self::IfAccIs { to, .. }
            | Self::IfAccBelow { to, .. }
            | Self::IfAccIsField { to, .. }
            | Self::IfAccBelowField { to, .. }
            | Self::IfFieldBelowAcc { to, .. }
            | Self::IfAccIsTemp { to, .. }
            | Self::IfAccBelowTemp { to, .. }
            | Self::IfFieldIsField { to, .. }
            | Self::IfFieldBelowField { to, .. }
            | Self::IfCond { to, .. } => Some(to),
            _ => None,
        }
    }

    /// As what a test must come out for it to jump; `None` for what tests
    /// nothing.
    pub(crate) fn when(self) -> Option<bool> {
        match self {
            Self::IfValid { when, .. }
            | Self::IfWordIs { when, .. }
            | Self::IfIs { when, .. }
            | Self::IfAccIs { when, .. }
            | Self::IfAccBelow { when, .. }
            | Self::IfAccIsField { when, .. }
            | Self::IfAccBelowField { when, .. }
            | Self::IfFieldBelowAcc { when, .. }
            | Self::IfAccIsTemp { when, .. }
            | Self::IfAccBelowTemp { when, .. }
            | Self::IfFieldIsField { when, .. }
            | Self::IfFieldBelowField { when, .. }
            | Self::IfCond { when, .. } => Some(when),
            _ => None,
        }
    }
}

/// How the accumulator (on the left) and a value put aside make a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
}

/// How a table is applied.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) key: Key,
    /// By action index; only the table's own actions mean anything.
    pub(crate) actions: Box<[Called]>,
    /// Where to go on if there is no action to call.
    pub(crate) otherwise: Pc,
}

/// An action that a table calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Called {
    /// Where it begins.
    pub(crate) start: Pc,
    /// Where to go on after it if an entry called it, and if the default entry
    /// did.
    pub(crate) hit: Pc,
    pub(crate) miss: Pc,
    /// Words of its parameters.
    pub(crate) words: u32,
}

/// How a packet's key is made. Most keys are short: these are built and
/// compared in registers. With a tag of its own, which is quicker to tell than
/// one within a header's option.
#[derive(Debug, Default)]
#[repr(u8)]
pub(crate) enum Key {
    /// It must be built in the general way.
    #[default]
    General,
    One(KeyWord),
    Two(Box<[KeyWord; 2]>),
    More(Box<[KeyWord]>),
}

/// A word of a key: at least one part of a field.
#[derive(Debug)]
pub(crate) struct KeyWord {
    pub(crate) first: KeyPart,
    pub(crate) others: Box<[KeyPart]>,
}

impl KeyWord {
    /// The word; `valid` says which headers are.
    #[inline(always)]
    pub(crate) fn load(&self, image: &[u8], valid: &[bool]) -> u64 {
        let mut word = self.first.load(image, valid);
        for part in &self.others {
            word |= part.load(image, valid);
        }
        word
    }
}

/// A piece of a table's key: `(load << turn) & mask`, where what is shifted out
/// comes in again; zero if the header is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyPart {
    mask: u64,
    byte: Byte,
    /// `None` for metadata, which is always there.
    header: Option<HeaderId>,
    turn: u8,
}

impl KeyPart {
    /// A field at `shift` of a word.
    pub(crate) fn new(field: Span, shift: u32, header: Option<HeaderId>) -> Option<Self> {
        let (up, down) = (u32::from(field.up), u32::from(field.down));
        // Bits to the right of the field where it is and where it shall be.
        let here = 64u32.checked_sub(up + (64 - down))?;
        Some(Self {
            mask: mask64(64 - down).checked_shl(shift)?,
            byte: field.byte,
            header,
            turn: u8::try_from((64 + shift).checked_sub(here)? % 64).ok()?,
        })
    }

    /// The same without the bits of its word that are not in the mask.
    pub(crate) fn masked(self, mask: u64) -> Self {
        Self {
            mask: self.mask & mask,
            ..self
        }
    }

    /// The part in its place; `valid` says which headers are.
    #[inline(always)]
    fn load(&self, image: &[u8], valid: &[bool]) -> u64 {
        let there = self
            .header
            .is_none_or(|h| valid.get(usize::from(h)) == Some(&true));
        if !there {
            return 0;
        }
        load_word(image, self.byte.into()).rotate_left(self.turn.into()) & self.mask
    }
}

/// Both pipelines and all actions.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) conds: Vec<Cond>,
    pub(crate) nums: Vec<Num<u64>>,
    pub(crate) ingress: Pc,
    pub(crate) egress: Pc,
    /// By table index.
    pub(crate) tables: Vec<Applied>,
}

/// Four to a line of cache.
const _: () = assert!(size_of::<Op>() == 16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::bits::load64;

    #[test]
    fn a_span_reads_what_its_field_holds() {
        let image: Vec<u8> = (0..64u32).map(|i| (i * 37 + 11) as u8).collect();
        let mut spans = 0;
        for bit in 0..64 {
            for width in 1..=64 {
                let loc = Loc::new(bit, width).unwrap();
                // 9 bytes hold what no 8 bytes do.
                let Some(span) = Span::new(loc) else {
                    assert!(bit % 8 + width > 64, "bit {bit} width {width}");
                    continue;
                };
                spans += 1;
                let want = (0..width).fold(0u64, |v, i| {
                    let b = (bit + i) as usize;
                    (v << 1) | u64::from((image[b / 8] >> (7 - b % 8)) & 1)
                });
                assert_eq!(span.load(&image), want, "bit {bit} width {width}");
                assert_eq!(load64(&image, loc), want);
            }
        }
        // Of 64 x 64, in each octet of offsets 1 + 2 + … + 7 do not fit.
        assert_eq!(spans, 64 * 64 - 8 * 28);
    }

    #[test]
    fn a_part_of_a_key_is_its_field_moved() {
        let image: Vec<u8> = (0..64u32).map(|i| (i * 37 + 11) as u8).collect();
        for bit in 64..72 {
            for width in 1..=64 {
                let Some(field) = Span::new(Loc::new(bit, width).unwrap()) else {
                    continue;
                };
                let value = (bit..bit + width).fold(0u64, |v, i| {
                    let b = i as usize;
                    (v << 1) | u64::from((image[b / 8] >> (7 - b % 8)) & 1)
                });
                for shift in 0..=64 - width {
                    let part = |header| KeyPart::new(field, shift, header).unwrap();
                    let valid = [false, true];
                    let want = value << shift;
                    assert_eq!(part(None).load(&image, &valid), want, "{bit} {width}");
                    assert_eq!(part(Some(1)).load(&image, &valid), want);
                    assert_eq!(part(Some(0)).load(&image, &valid), 0);
                    assert_eq!(part(Some(2)).load(&image, &valid), 0);
                    let odd = 0xaaaa_aaaa_aaaa_aaaa;
                    assert_eq!(part(None).masked(odd).load(&image, &valid), want & odd);
                }
            }
        }
    }

    #[test]
    fn words_are_read_where_they_are() {
        let mut image = vec![0u8; 64];
        image[8..16].copy_from_slice(&0x0123_4567_89ab_cdefu64.to_be_bytes());
        let low = Span::new(Loc::in_word(64 + 48, 16, false).unwrap()).unwrap();
        assert_eq!((low.byte, low.load(&image)), (8, 0xcdef));
        let high = Span::new(Loc::in_word(64, 16, false).unwrap()).unwrap();
        assert_eq!((high.byte, high.load(&image)), (8, 0x0123));
        assert_eq!(load_word(&image, 8), 0x0123_4567_89ab_cdef);
        assert_eq!(load_word(&image, 57), 0);
    }

    #[test]
    fn parameters_are_cut_out_of_their_words() {
        let words = [0x0123_4567_89ab_cdef, 7];
        let cut = |word, shift, width| {
            Param::new(ParamPlace { word, shift, width }).map(|p| p.load(&words))
        };
        assert_eq!(cut(0, 48, 9), Some(0x123));
        assert_eq!(cut(0, 0, 64), Some(words[0]));
        assert_eq!(cut(1, 0, 3), Some(7));
        assert_eq!(cut(2, 0, 8), Some(0));
        assert_eq!(cut(0, 0, 65), None);
    }
}
