//! What is known of a packet at a place in the code.

use std::collections::BTreeMap;

use crate::ir::code::{Byte, Op};
use crate::ir::{Header, HeaderId, Prim};
use crate::lower::code::Program;

/// What is known of a word or of a header's validity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Unknown,
    Is(u64),
    IsNot(u64),
}

impl Fact {
    /// What holds if either holds.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Is(a), Self::IsNot(b)) | (Self::IsNot(b), Self::Is(a)) if a != b => {
                Self::IsNot(b)
            }
            _ => Self::Unknown,
        }
    }

    /// Whether it equals a value, if that is known.
    fn is(self, value: u64) -> Option<bool> {
        match self {
            Self::Is(v) => Some(v == value),
            Self::IsNot(v) if v == value => Some(false),
            _ => None,
        }
    }
}

/// Something that tests ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Word(Byte),
    Valid(HeaderId),
}

/// All that is asked for in a program.
pub(super) struct Subjects<'a> {
    source: &'a Program<'a>,
    index: BTreeMap<Subject, usize>,
}

/// What is known of each subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts(Vec<Fact>);

impl Facts {
    /// What holds if either holds; returns whether that is less than before.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut less = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            let both = a.or(*b);
            less |= both != *a;
            *a = both;
        }
        less
    }
}

impl<'a> Subjects<'a> {
    /// Those of some tests.
    pub(super) fn new<'o>(source: &'a Program<'a>, tests: impl Iterator<Item = &'o Op>) -> Self {
        let mut index = BTreeMap::new();
        for subject in tests.filter_map(|op| asked(op).map(|(subject, _)| subject)) {
            let at = index.len();
            index.entry(subject).or_insert(at);
        }
        Self { source, index }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Nothing is known.
    pub(super) fn nothing(&self) -> Facts {
        Facts(vec![Fact::Unknown; self.index.len()])
    }

    /// How a test comes out, if that is known.
    pub(super) fn outcome(&self, facts: &Facts, test: &Op) -> Option<bool> {
        let (subject, value) = asked(test)?;
        facts.0.get(*self.index.get(&subject)?)?.is(value)
    }

    /// Notes how a test came out.
    pub(super) fn learn(&self, facts: &mut Facts, test: &Op, outcome: bool) {
        if let Some((subject, value)) = asked(test) {
            let fact = match (subject, outcome) {
                (_, true) => Fact::Is(value),
                (Subject::Valid(_), false) => Fact::Is(1 - value),
                (Subject::Word(_), false) => Fact::IsNot(value),
            };
            // Equal to another value says more than different from this one.
            let known = self.index.get(&subject).and_then(|&at| facts.0.get(at));
            if !(matches!(fact, Fact::IsNot(_)) && matches!(known, Some(Fact::Is(_)))) {
                self.set(facts, subject, fact);
            }
        }
    }

    fn set(&self, facts: &mut Facts, subject: Subject, fact: Fact) {
        if let Some(place) = self.index.get(&subject).and_then(|&at| facts.0.get_mut(at)) {
            *place = fact;
        }
    }

    /// Forgets the words that lie in some bytes of the image.
    fn forget(&self, facts: &mut Facts, from: u64, bytes: u64) {
        for (subject, &at) in &self.index {
            if let Subject::Word(byte) = subject
                && u64::from(*byte) < from + bytes
                && from < u64::from(*byte) + 8
                && let Some(fact) = facts.0.get_mut(at)
            {
                *fact = Fact::Unknown;
            }
        }
    }

    fn forget_validity(&self, facts: &mut Facts) {
        for (subject, &at) in &self.index {
            if let (Subject::Valid(_), Some(fact)) = (subject, facts.0.get_mut(at)) {
                *fact = Fact::Unknown;
            }
        }
    }

    fn forget_header(&self, facts: &mut Facts, header: HeaderId) {
        if let Some(h) = self.source.headers.get(usize::from(header)) {
            self.forget(facts, h.offset.into(), h.size.into());
        }
    }

    /// What a table itself changes: a meter writes the packet's colour.
    pub(super) fn apply_table(&self, facts: &mut Facts, table: u32) {
        let table = self.source.tables.get(table as usize);
        if let Some(meter) = table.and_then(|t| t.meter) {
            let (bit, width) = (u64::from(meter.result.bit), u64::from(meter.result.width));
            self.forget(facts, bit / 8, (bit % 8 + width).div_ceil(8));
        }
    }

    /// What an operation that does not jump changes. Every operation is named
    /// here: one that is forgotten would be one that changes nothing.
    pub(super) fn apply(&self, facts: &mut Facts, op: &Op) {
        match *op {
            Op::WordConst { byte, value } => self.set(facts, Subject::Word(byte), Fact::Is(value)),
            Op::WordParam { byte, .. }
            | Op::WordField { byte, .. }
            | Op::StoreWord { byte, .. }
            | Op::WordSum { byte, .. }
            | Op::StoreWordPlus { byte, .. } => self.forget(facts, byte.into(), 8),
            Op::WordParams(words) => {
                for (byte, _) in words {
                    self.forget(facts, byte.into(), 8);
                }
            }
            Op::WordFields(words) => {
                for (byte, _) in words {
                    self.forget(facts, byte.into(), 8);
                }
            }
            Op::Store8(byte) => self.forget(facts, byte.into(), 1),
            Op::Store16(byte) | Op::Copy16(byte, _) => self.forget(facts, byte.into(), 2),
            Op::Store32(byte) | Op::Copy32(byte, _) => self.forget(facts, byte.into(), 4),
            Op::Store48(byte) => self.forget(facts, byte.into(), 6),
            Op::Store(to) => self.forget(facts, to.byte.into(), to.load.into()),
            Op::AddHeader(h) => {
                let header = self.source.headers.get(usize::from(h));
                if header.is_none_or(|h: &Header| h.union.is_some()) {
                    self.forget_validity(facts);
                }
                self.set(facts, Subject::Valid(h), Fact::Is(1));
                self.forget_header(facts, h);
            }
            Op::RemoveHeader(h) => self.set(facts, Subject::Valid(h), Fact::Is(0)),
            Op::AssignHeader { to, .. } => {
                self.forget_validity(facts);
                self.forget_header(facts, to);
            }
            Op::Prim { action, at } => self.primitive(facts, action, at),
            Op::End
            | Op::Leave
            | Op::Return
            | Op::Jump(_)
            | Op::Loop { .. }
            | Op::Table(_)
            | Op::IfValid { .. }
            | Op::IfWordIs { .. }
            | Op::IfIs { .. }
            | Op::IfAccIs { .. }
            | Op::IfAccBelow { .. }
            | Op::IfAccIsField { .. }
            | Op::IfAccBelowField { .. }
            | Op::IfFieldBelowAcc { .. }
            | Op::IfAccIsTemp { .. }
            | Op::IfAccBelowTemp { .. }
            | Op::IfFieldIsField { .. }
            | Op::IfFieldBelowField { .. }
            | Op::IfCond { .. }
            | Op::LoadWord(_)
            | Op::Load(_)
            | Op::Const(_)
            | Op::Param(_)
            | Op::Valid(_)
            | Op::AddField(_)
            | Op::SubField(_)
            | Op::AndField(_)
            | Op::OrField(_)
            | Op::XorField(_)
            | Op::AddConst(_)
            | Op::AndConst(_)
            | Op::OrConst(_)
            | Op::XorConst(_)
            | Op::Not
            | Op::Shl(_)
            | Op::Shr(_)
            | Op::Is(_)
            | Op::IsNot(_)
            | Op::Save(_)
            | Op::Combine(..)
            | Op::Eval(_)
            | Op::LoadSum(..)
            | Op::LoadShl(..)
            | Op::AddFields(..)
            | Op::SubFields(..)
            | Op::AddSubField(..)
            | Op::Count(_)
            | Op::CountField { .. }
            | Op::Exit
            | Op::TraceCond { .. }
            | Op::TraceAction(_)
            | Op::TraceChanges => {}
        }
    }

    /// A primitive that is no operation of its own.
    fn primitive(&self, facts: &mut Facts, action: u32, at: u32) {
        let action = self.source.actions.get(action as usize);
        match action.and_then(|a| a.body.get(at as usize)) {
            Some(Prim::Drop(spec, group)) => {
                for loc in [Some(spec), group.as_ref()].into_iter().flatten() {
                    self.forget(facts, loc.byte.into(), loc.load.into());
                }
            }
            Some(
                Prim::Clone(_)
                | Prim::Resubmit(_)
                | Prim::Recirculate(_)
                | Prim::Truncate(_)
                | Prim::Digest(_)
                | Prim::Log(_)
                | Prim::RegisterWrite(..)
                | Prim::SetRegister(..)
                | Prim::Nothing,
            ) => {}
            _ => *facts = self.nothing(),
        }
    }
}

/// What a test asks: whether the subject has this value.
fn asked(test: &Op) -> Option<(Subject, u64)> {
    match *test {
        Op::IfWordIs { byte, value, .. } => Some((Subject::Word(byte), value)),
        Op::IfValid { header, .. } => Some((Subject::Valid(header), 1)),
        _ => None,
    }
}
