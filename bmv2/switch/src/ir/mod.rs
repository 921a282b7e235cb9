//! The lowered program: everything resolved to offsets and indices.
//!
//! Headers and metadata live in one byte image for each packet. Header fields
//! have their wire layout there, so that extracting and emitting are plain
//! copies; metadata fields have words of their own.

pub(crate) mod bits;
pub(crate) mod code;
pub(crate) mod expr;
mod parse;

use crate::calc::Algorithm;
use crate::tables::key::KeyLayout;
use bits::Loc;
use code::{Code, Span};
use expr::{Cond, FieldPlace, HeaderSel, Num, StackSel, UnionSel, Value};
pub(crate) use parse::{
    FieldTest, Lookahead, ParseState, Parser, ParserOp, Select, SelectPart, SelectSource, WideCase,
    WideTest, WordCase,
};

/// Index of a header instance.
pub(crate) type HeaderId = u16;
/// Index of a stack of headers or of unions.
pub(crate) type StackId = u16;
/// Index of a union instance.
pub(crate) type UnionId = u16;
/// Index into [`Ir::nodes`]; [`END`] ends a pipeline.
pub(crate) type NodeId = u32;
/// The end of a pipeline or parser.
pub(crate) const END: u32 = u32::MAX;

/// A field in the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) header: HeaderId,
    pub(crate) kind: FieldKind,
    /// Bit offset in the image.
    pub(crate) bit: u32,
    pub(crate) width: u32,
    pub(crate) signed: bool,
    pub(crate) saturating: bool,
    /// It has 64-bit words of the image to itself, and is right-aligned there.
    pub(crate) word: bool,
    /// It is a part of a wider field.
    pub(crate) part: bool,
}

impl Field {
    /// The whole field as one load, if one suffices.
    pub(crate) fn loc(self) -> Option<Loc> {
        self.slice(0, self.width)
    }

    /// `width` bits that have `right` bits of the field to their right.
    pub(crate) fn slice(self, right: u32, width: u32) -> Option<Loc> {
        let bit = (self.bit + self.width).checked_sub(right + width)?;
        // Nothing is loaded of a field without width.
        if self.word && (1..=64).contains(&width) && bit / 64 == (bit + width - 1) / 64 {
            return Loc::in_word(
                bit,
                width,
                !self.part && self.width <= 64 && right == 0 && width == self.width,
            );
        }
        Loc::new(bit, width)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Plain,
    Varbit,
    /// bmv2's hidden `$valid$`.
    Valid,
}

/// A header or metadata instance.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) name: String,
    /// Identity of its type, for comparisons and copies.
    pub(crate) type_id: u32,
    pub(crate) metadata: bool,
    /// Offset of its first byte in the image.
    pub(crate) offset: u32,
    /// Bytes it takes in the image.
    pub(crate) size: u32,
    /// Bytes on the wire without the varbit.
    pub(crate) fixed: u32,
    pub(crate) varbit: Option<Varbit>,
    pub(crate) fields: Vec<Field>,
    pub(crate) field_names: Vec<String>,
    pub(crate) union: Option<UnionId>,
}

/// The part of a [`Header`] that every packet touches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    pub(crate) offset: u32,
    pub(crate) fixed: u32,
    pub(crate) union: Option<UnionId>,
}

/// Where a header's varbit is. On the wire it may begin at any bit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Varbit {
    /// Fixed bits in front of it.
    pub(crate) before: u32,
    /// Its first byte in the header's part of the image.
    pub(crate) at: u32,
    /// Most bits it can have.
    pub(crate) max: u32,
    /// The first byte behind it in the header's part of the image.
    pub(crate) behind: u32,
    /// Fixed bits behind it.
    pub(crate) after: u32,
    /// Most bytes of the whole header; 0 is no limit beyond `max`.
    pub(crate) max_header: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Stack {
    pub(crate) headers: Vec<HeaderId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Union {
    pub(crate) headers: Vec<HeaderId>,
}

#[derive(Debug, Clone)]
pub(crate) struct UnionStack {
    pub(crate) unions: Vec<UnionId>,
}

/// A whole program.
#[derive(Debug)]
pub(crate) struct Ir {
    /// Bytes of the image, with room behind it for wide loads.
    pub(crate) image: usize,
    pub(crate) headers: Vec<Header>,
    /// What every packet needs of the headers, close together.
    pub(crate) wires: Vec<Wire>,
    /// Which headers are valid before parsing.
    pub(crate) initially_valid: Vec<bool>,
    /// Spans of the image that hold metadata.
    pub(crate) metadata: Vec<(u32, u32)>,
    /// Header stacks first, union stacks after them; a [`StackId`] counts both.
    pub(crate) stacks: Vec<Stack>,
    pub(crate) union_stacks: Vec<UnionStack>,
    pub(crate) unions: Vec<Union>,
    pub(crate) field_lists: Vec<FieldList>,
    pub(crate) parser: Parser,
    pub(crate) errors: Errors,
    /// Names of the nodes, for traces.
    pub(crate) node_names: Vec<String>,
    /// The pipelines and actions as code.
    pub(crate) code: Code,
    /// The same code, which also reports what it does.
    pub(crate) traced: Code,
    pub(crate) actions: Vec<Action>,
    pub(crate) tables: Vec<Table>,
    pub(crate) selectors: Vec<Option<Calc>>,
    pub(crate) calcs: Vec<Calc>,
    pub(crate) verify: Vec<Checksum>,
    pub(crate) update: Vec<Checksum>,
    pub(crate) deparser: Deparser,
    pub(crate) digests: Vec<Vec<Field>>,
    pub(crate) standard: Standard,
    pub(crate) log: Vec<LogMessage>,
}

impl Ir {
    /// The code to run, with or without reports.
    pub(crate) fn code_for(&self, traced: bool) -> &Code {
        if traced { &self.traced } else { &self.code }
    }
}

/// Fields of standard metadata that the switch itself reads and writes. One
/// that the program lacks or never names is `None`: there is nothing to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standard {
    pub(crate) ingress_port: Option<Loc>,
    pub(crate) egress_spec: Loc,
    pub(crate) egress_port: Option<Loc>,
    pub(crate) instance_type: Loc,
    pub(crate) packet_length: Option<Loc>,
    pub(crate) enq_timestamp: Option<Loc>,
    pub(crate) enq_qdepth: Option<Loc>,
    pub(crate) deq_timedelta: Option<Loc>,
    pub(crate) deq_qdepth: Option<Loc>,
    pub(crate) ingress_timestamp: Option<Loc>,
    pub(crate) egress_timestamp: Option<Loc>,
    pub(crate) mcast_grp: Option<Loc>,
    pub(crate) egress_rid: Option<Loc>,
    pub(crate) checksum_error: Option<Loc>,
    pub(crate) parser_error: Option<Loc>,
    pub(crate) priority: Option<Loc>,
}

/// Codes of P4's core errors in this program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Errors {
    pub(crate) no_error: u32,
    pub(crate) packet_too_short: u32,
    pub(crate) stack_out_of_bounds: u32,
    pub(crate) header_too_short: u32,
    pub(crate) parser_timeout: u32,
    pub(crate) parser_invalid_argument: u32,
}

/// Fields that a clone, resubmit or recirculate keeps, by its id.
#[derive(Debug, Clone)]
pub(crate) struct FieldList {
    pub(crate) id: u32,
    pub(crate) fields: Vec<Field>,
}

/// A node of a pipeline's graph.
#[derive(Debug)]
pub(crate) enum Node {
    If {
        cond: Cond,
        yes: NodeId,
        no: NodeId,
    },
    Table(u32),
    /// An action without parameters (also a table without key whose default
    /// entry is constant).
    Call {
        action: u32,
        next: NodeId,
    },
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) layout: KeyLayout,
    /// The actions that its entries may have.
    pub(crate) actions: Vec<u32>,
    /// The action of its default entry, if it always is that one.
    pub(crate) fixed_default: Option<u32>,
    /// By action index; only the table's own actions mean anything.
    pub(crate) next: Vec<NodeId>,
    pub(crate) hit: Option<NodeId>,
    pub(crate) miss: Option<NodeId>,
    pub(crate) base_default_next: NodeId,
    pub(crate) counted: bool,
    pub(crate) meter: Option<DirectMeter>,
    pub(crate) timed: bool,
    pub(crate) profile: Option<u32>,
}

/// A table's meter and where the colour goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectMeter {
    /// Its position among all meters.
    pub(crate) id: u32,
    pub(crate) result: Field,
    /// The result field as one load; `None` if it needs more.
    pub(crate) loc: Option<Loc>,
}

/// An action's body and how its parameters are packed into words.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) params: Vec<ParamPlace>,
    /// Words that the parameters take.
    pub(crate) words: usize,
    pub(crate) body: Vec<Prim>,
}

/// Where a parameter lies in an entry's words: within one word, or in whole
/// words, least significant first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamPlace {
    pub(crate) word: u16,
    pub(crate) shift: u8,
    pub(crate) width: u32,
}

/// One step of an action.
#[derive(Debug)]
pub(crate) enum Prim {
    /// To a plain field of up to 64 bits.
    Set64(Loc, Num<u64>),
    /// A constant to a plain field of up to 64 bits.
    SetConst(Loc, u64),
    /// A plain field of up to 64 bits to another.
    Copy64(Loc, Loc),
    Set128(Loc, Box<Num<u128>>),
    /// Any other field; the general case.
    SetAny(Box<(FieldPlace, Value)>),
    SetRegister(u32, Box<(Num<u64>, Value)>),
    AssignVar(HeaderId, HeaderId),
    AssignHeader(Box<(HeaderSel, HeaderSel)>),
    AssignStack(StackId, StackId),
    AssignUnion(Box<(UnionSel, UnionSel)>),
    AssignUnionStack(StackId, StackId),
    AddHeader(HeaderSel),
    RemoveHeader(HeaderSel),
    Push(StackSel, u32),
    Pop(StackSel, u32),
    Jump(u32),
    JumpIfFalse(Cond, u32),
    /// The drop port into an `egress_spec`, zero into a `mcast_grp`: those of
    /// standard metadata, or of a copy that p4c made of it.
    Drop(Loc, Option<Loc>),
    Exit,
    Count(u32, Num<u64>),
    Meter(u32, Box<(Num<u64>, FieldPlace)>),
    RegisterRead(u32, Box<(FieldPlace, Num<u64>)>),
    RegisterWrite(u32, Box<(Num<u64>, Value)>),
    Hash(Box<HashPrim>),
    Random(Box<RandomPrim>),
    /// Session and field list.
    Clone(Box<(Num<u64>, Num<u64>)>),
    Resubmit(Num<u64>),
    Recirculate(Num<u64>),
    Truncate(Num<u64>),
    Digest(Num<u64>),
    Log(u32),
    Assert(Cond, u32),
    Nothing,
}

/// `base + hash % max` into a field.
#[derive(Debug)]
pub(crate) struct HashPrim {
    pub(crate) dst: FieldPlace,
    pub(crate) base: Num<u64>,
    pub(crate) calc: u32,
    pub(crate) max: Num<u64>,
}

/// A random number from `low` to `high` into a field.
#[derive(Debug)]
pub(crate) struct RandomPrim {
    pub(crate) dst: FieldPlace,
    pub(crate) low: Num<u64>,
    pub(crate) high: Num<u64>,
}

#[derive(Debug)]
pub(crate) struct LogMessage {
    pub(crate) format: String,
    pub(crate) args: Vec<Value>,
}

/// What goes into a hash or checksum.
#[derive(Debug, Clone)]
pub(crate) struct Calc {
    pub(crate) algorithm: Algorithm,
    pub(crate) inputs: Vec<CalcInput>,
    pub(crate) payload: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum CalcInput {
    /// Bits of the image, taken if the header is valid.
    Bits {
        header: HeaderId,
        bit: u32,
        width: u32,
    },
    /// A varbit of a header.
    Varbit(HeaderId),
    Constant {
        pieces: Vec<u8>,
        width: u32,
    },
    Header(HeaderId),
    /// The `$valid$` bit.
    Valid(HeaderId),
    /// A number that is computed, and its width in bits.
    Number {
        value: Value,
        width: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Checksum {
    pub(crate) name: String,
    pub(crate) target: Field,
    /// The target as one load; `None` if it needs more.
    pub(crate) span: Option<Span>,
    pub(crate) calc: u32,
    pub(crate) cond: Option<Cond>,
}

#[derive(Debug, Default)]
pub(crate) struct Deparser {
    pub(crate) order: Order,
    pub(crate) body: Vec<Prim>,
}

/// Which headers are emitted if they are valid.
#[derive(Debug)]
pub(crate) enum Order {
    /// In the order of their indices, as of every program that emits a struct
    /// of headers: by header, what is emitted of it.
    Sorted(Vec<Option<Emitted>>),
    Any(Vec<Emitted>),
}

impl Default for Order {
    fn default() -> Self {
        Self::Any(Vec::new())
    }
}

/// A header that is emitted if it is valid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Emitted {
    pub(crate) header: HeaderId,
    /// It has a varbit: its bytes are not those from `from` to `to`.
    pub(crate) variable: bool,
    /// Where its bytes begin and end in the image.
    pub(crate) from: u32,
    pub(crate) to: u32,
}
