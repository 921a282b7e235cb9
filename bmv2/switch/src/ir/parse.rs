//! The parser's states.
//!
//! What is common has a form of its own that runs without looking anything up.

use super::bits::Loc;
use super::code::{Byte, Span};
use super::expr::{Cond, Num};
use super::{Field, HeaderId, Prim, StackId};

#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub(crate) start: u32,
    pub(crate) states: Vec<ParseState>,
}

#[derive(Debug)]
pub(crate) struct ParseState {
    pub(crate) name: String,
    pub(crate) ops: Vec<ParserOp>,
    pub(crate) select: Select,
}

/// One operation of a state; it is told by a byte of its own.
#[repr(u8)]
#[derive(Debug)]
pub(crate) enum ParserOp {
    /// A header of one length that is in no union: bytes of the packet to an
    /// offset in the image.
    ExtractFixed {
        header: HeaderId,
        offset: u32,
        len: u32,
    },
    Extract(HeaderId),
    ExtractStack(StackId),
    /// Union stack and the member within the union.
    ExtractUnionStack(StackId, u16),
    ExtractVar(HeaderId, Num<u64>),
    ExtractVarStack(StackId, Num<u64>),
    ExtractVarUnionStack(StackId, u16, Num<u64>),
    /// Bits ahead of the cursor into a field.
    SetLookahead(Field, Lookahead),
    /// Length in bits.
    Advance(Num<u64>),
    Verify(Cond, Num<u64>),
    VerifyField {
        test: FieldTest,
        error: u32,
    },
    // What the 8 bytes at `byte` become, which a field has to itself.
    SetConst {
        byte: Byte,
        value: u64,
    },
    SetField {
        byte: Byte,
        field: Span,
    },
    SetTest {
        byte: Byte,
        test: FieldTest,
    },
    Primitive(Box<Prim>),
}

/// Whether a field is in an interval: of `low` and the `more` numbers above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldTest {
    pub(crate) field: Span,
    pub(crate) low: u64,
    pub(crate) more: u64,
    /// The answer that counts as true.
    pub(crate) when: bool,
}

impl FieldTest {
    /// The answer.
    #[inline(always)]
    pub(crate) fn eval(&self, image: &[u8]) -> bool {
        let above = self.field.load(image).wrapping_sub(self.low);
        (above <= self.more) == self.when
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookahead {
    pub(crate) bit: u32,
    pub(crate) width: u32,
}

/// How a state goes on.
#[repr(u8)]
#[derive(Debug)]
pub(crate) enum Select {
    Always(u32),
    /// The key's fields lie within the 8 bytes at `byte`: the cases look for
    /// them there, wherever they are.
    Image {
        byte: Byte,
        cases: Vec<WordCase>,
        default: u32,
    },
    /// The key fits one word.
    Word {
        key: Vec<SelectPart>,
        cases: Vec<WordCase>,
        default: u32,
    },
    Wide {
        key: Vec<SelectPart>,
        words: usize,
        cases: Vec<WideCase>,
        default: u32,
    },
}

#[derive(Debug)]
pub(crate) struct WordCase {
    pub(crate) value: u64,
    pub(crate) mask: u64,
    pub(crate) next: u32,
}

#[derive(Debug)]
pub(crate) struct WideCase {
    pub(crate) test: WideTest,
    pub(crate) next: u32,
}

#[derive(Debug)]
pub(crate) enum WideTest {
    Mask(Vec<(u64, u64)>),
    /// A value set, by its position in the program, and the bits that are
    /// compared by word; all of them if it is empty.
    Vset(u32, Vec<u64>),
}

/// One part of a select key: at most 64 bits, put at `word`, `shift`.
#[derive(Debug, Clone)]
pub(crate) struct SelectPart {
    pub(crate) source: SelectSource,
    pub(crate) word: u16,
    pub(crate) shift: u8,
}

#[derive(Debug, Clone)]
pub(crate) enum SelectSource {
    Field(Loc),
    Valid(HeaderId),
    /// `(stack, field, shift right, width)` of the stack's last element.
    StackLast(StackId, u16, u32, u32),
    /// `(union stack, member, field, shift right, width)`.
    UnionStackLast(StackId, u16, u16, u32, u32),
    /// `(number, shift right, width)` of a number that is computed.
    Number(Box<Num<u64>>, u32, u32),
    Lookahead(Lookahead),
}
