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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Action;
    use crate::ir::bits::Loc;
    use crate::ir::code::{Param, Span};

    const SPAN: Span = Span {
        byte: 0,
        up: 0,
        down: 0,
    };
    const PARAM: Param = Param {
        word: 0,
        up: 0,
        down: 0,
    };

    fn word_is(byte: Byte, value: u64) -> Op {
        Op::IfWordIs {
            when: true,
            to: 0,
            byte,
            value,
        }
    }

    fn is_valid(header: HeaderId) -> Op {
        Op::IfValid {
            when: true,
            to: 0,
            header,
        }
    }

    /// A header that takes 8 bytes of the image.
    fn header(offset: u32, union: Option<u16>) -> Header {
        Header {
            name: String::new(),
            type_id: 0,
            metadata: false,
            offset,
            size: 8,
            fixed: 8,
            varbit: None,
            fields: Vec::new(),
            field_names: Vec::new(),
            union,
        }
    }

    fn with_subjects(body: Vec<Prim>, test: impl Fn(&Subjects<'_>, Facts)) {
        let headers = [header(64, None), header(72, Some(0)), header(80, Some(0))];
        let actions = [Action {
            params: Vec::new(),
            words: 0,
            body,
        }];
        let program = Program {
            headers: &headers,
            nodes: &[],
            tables: &[],
            actions: &actions,
            ingress: 0,
            egress: 0,
        };
        let tests = [8, 16, 24, 72]
            .map(|byte| word_is(byte, 5))
            .into_iter()
            .chain([0, 1, 2].map(is_valid));
        let tests: Vec<Op> = tests.collect();
        let subjects = Subjects::new(&program, tests.iter());
        let mut facts = subjects.nothing();
        for op in &tests {
            subjects.learn(&mut facts, op, true);
        }
        test(&subjects, facts);
    }

    /// What is known of the words at 8, 16, 24, 72 and of headers 0, 1, 2
    /// after an operation before which all were 5, or valid.
    fn known(op: Op) -> [Option<bool>; 7] {
        let mut result = [None; 7];
        let result_cell = std::cell::RefCell::new(&mut result);
        let body = vec![Prim::Nothing, Prim::Exit, Prim::Drop(at(16), Some(at(24)))];
        with_subjects(body, |subjects, mut facts| {
            subjects.apply(&mut facts, &op);
            let words = [8, 16, 24, 72].map(|byte| subjects.outcome(&facts, &word_is(byte, 5)));
            let valid = [0, 1, 2].map(|h| subjects.outcome(&facts, &is_valid(h)));
            let all: Vec<_> = words.into_iter().chain(valid).collect();
            result_cell.borrow_mut().copy_from_slice(&all);
        });
        result
    }

    /// A word of the image.
    fn at(byte: u32) -> Loc {
        Loc::in_word(byte * 8, 64, true).unwrap()
    }

    const YES: Option<bool> = Some(true);
    const NO: Option<bool> = Some(false);

    #[test]
    fn an_operation_changes_what_it_writes_and_nothing_else() {
        let all = [YES; 7];
        let without = |i: usize| {
            let mut all = all;
            all[i] = None;
            all
        };
        for op in [
            Op::WordParam {
                byte: 16,
                param: PARAM,
            },
            Op::WordField {
                byte: 16,
                field: SPAN,
            },
            Op::StoreWord { byte: 16, down: 0 },
            Op::StoreWordPlus {
                byte: 16,
                down: 0,
                value: 1,
            },
            Op::WordSum {
                byte: 16,
                down: 0,
                fields: [SPAN; 2],
            },
            Op::Store8(23),
            Op::Store16(16),
            Op::Store32(20),
            Op::Store48(18),
            Op::Copy16(22, SPAN),
            Op::Copy32(16, SPAN),
            Op::Store(at(16)),
        ] {
            assert_eq!(known(op), without(1), "{op:?}");
        }
        // Across two words, and between them and others.
        let both = [YES, None, None, YES, YES, YES, YES];
        assert_eq!(known(Op::Store16(23)), both);
        assert_eq!(known(Op::WordParams([(16, PARAM), (24, PARAM)])), both);
        assert_eq!(known(Op::WordFields([(24, SPAN), (16, SPAN)])), both);
        for op in [
            Op::Store8(32),
            Op::Store16(6),
            Op::Store48(80),
            Op::Const(5),
        ] {
            assert_eq!(known(op), all, "{op:?}");
        }
        let mut set = all;
        set[1] = NO;
        assert_eq!(known(Op::WordConst { byte: 16, value: 4 }), set);
        assert_eq!(known(Op::WordConst { byte: 16, value: 5 }), all);
    }

    #[test]
    fn validity_follows_headers_and_unions() {
        let of = |valid: [Option<bool>; 3], word| {
            let [a, b, c] = valid;
            [YES, YES, YES, word, a, b, c]
        };
        assert_eq!(known(Op::RemoveHeader(0)), of([NO, YES, YES], YES));
        assert_eq!(known(Op::AddHeader(0)), of([YES; 3], YES));
        // The other member becomes invalid; the header is zeroed.
        assert_eq!(known(Op::AddHeader(1)), of([None, YES, None], None));
        let assign = Op::AssignHeader { to: 1, from: 0 };
        assert_eq!(known(assign), of([None; 3], None));
    }

    #[test]
    fn primitives_that_are_not_known_may_change_everything() {
        let prim = |at| known(Op::Prim { action: 0, at });
        assert_eq!(prim(0), [YES; 7]);
        assert_eq!(prim(1), [None; 7]);
        assert_eq!(prim(2), [YES, None, None, YES, YES, YES, YES]);
        assert_eq!(prim(9), [None; 7], "there is no such primitive");
    }

    #[test]
    fn what_holds_on_all_ways_is_known() {
        use Fact::{Is, IsNot, Unknown};
        for (a, b, both) in [
            (Is(1), Is(1), Is(1)),
            (Is(1), Is(2), Unknown),
            (Is(1), IsNot(2), IsNot(2)),
            (Is(2), IsNot(2), Unknown),
            (IsNot(2), IsNot(2), IsNot(2)),
            (IsNot(2), IsNot(3), Unknown),
            (Is(1), Unknown, Unknown),
        ] {
            assert_eq!((a.or(b), b.or(a)), (both, both), "{a:?} {b:?}");
        }
        assert_eq!([Is(3).is(3), Is(3).is(4)], [YES, NO]);
        assert_eq!([IsNot(3).is(3), IsNot(3).is(4)], [NO, None]);
    }

    #[test]
    fn a_test_tells_how_it_came_out() {
        with_subjects(Vec::new(), |subjects, _| {
            let mut facts = subjects.nothing();
            subjects.learn(&mut facts, &is_valid(2), false);
            assert_eq!(subjects.outcome(&facts, &is_valid(2)), NO);
            subjects.learn(&mut facts, &word_is(8, 1), false);
            assert_eq!(subjects.outcome(&facts, &word_is(8, 1)), NO);
            assert_eq!(subjects.outcome(&facts, &word_is(8, 2)), None);
            subjects.learn(&mut facts, &word_is(8, 2), true);
            subjects.learn(&mut facts, &word_is(8, 1), false);
            assert_eq!(subjects.outcome(&facts, &word_is(8, 2)), YES);
        });
    }
}
