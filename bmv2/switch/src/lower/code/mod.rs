//! From the graph of nodes to straight-line code.

mod cond;
mod number;

use crate::ir::bits::{Loc, mask64};
use crate::ir::code::{Applied, Byte, Called, Code, Key, KeyPart, KeyWord, Op, Param, Pc, Span};
use crate::ir::expr::{Cond, HeaderSel, Num};
use crate::ir::{Action, END, Header, Node, NodeId, Prim, Table};
use crate::tables::key::{KeyLayout, Source};

/// What code is made of.
#[derive(Clone, Copy)]
pub(super) struct Program<'a> {
    pub(super) headers: &'a [Header],
    pub(super) nodes: &'a [Node],
    pub(super) tables: &'a [Table],
    pub(super) actions: &'a [Action],
    pub(super) ingress: NodeId,
    pub(super) egress: NodeId,
}

/// Makes the code of a program; with `traced`, it also reports what happens.
pub(super) fn code(source: Program<'_>, traced: bool) -> Code {
    let mut w = Writer {
        source,
        traced,
        code: Code::default(),
        labels: vec![None; source.nodes.len()],
    };
    // Position 0 is where every pipeline ends.
    w.code.ops.push(Op::End);
    let end = w.new_label();
    w.bind_at(end, 0);
    for first in [source.ingress, source.egress] {
        w.graph(first, end);
    }
    let actions: Vec<Pc> = (0..source.actions.len())
        .map(|action| {
            let start = w.here();
            w.action(action);
            w.op(Op::Return);
            start
        })
        .collect();
    w.finish(end, &actions)
}

/// A place in the code that may not be known yet. Nodes have the labels of
/// their own index.
type Label = u32;

struct Writer<'a> {
    source: Program<'a>,
    traced: bool,
    code: Code,
    /// Where each label is.
    labels: Vec<Option<Pc>>,
}

impl Writer<'_> {
    fn here(&self) -> Pc {
        Pc::try_from(self.code.ops.len()).unwrap_or(Pc::MAX)
    }

    fn op(&mut self, op: Op) {
        self.code.ops.push(op);
    }

    /// A jump backwards, whose length is known in the end.
    fn back(&mut self, to: Label) {
        self.op(Op::Loop { to, length: 0 });
    }

    fn new_label(&mut self) -> Label {
        self.labels.push(None);
        Label::try_from(self.labels.len() - 1).unwrap_or(Label::MAX)
    }

    fn bind_at(&mut self, label: Label, at: Pc) {
        if let Some(l) = self.labels.get_mut(label as usize) {
            *l = Some(at);
        }
    }

    fn bind(&mut self, label: Label) {
        self.bind_at(label, self.here());
    }

    fn is_bound(&self, label: Label) -> bool {
        matches!(self.labels.get(label as usize), Some(Some(_)))
    }

    /// All nodes that `first` leads to. Each is written once; what follows a
    /// node comes right behind it where it can.
    fn graph(&mut self, first: NodeId, end: Label) {
        let source = self.source;
        let mut open = vec![first];
        while let Some(mut at) = open.pop() {
            if at == END || self.is_bound(at) {
                continue;
            }
            loop {
                if at == END {
                    self.op(Op::End);
                    break;
                }
                if self.is_bound(at) {
                    self.op(Op::Jump(at));
                    break;
                }
                let Some(node) = source.nodes.get(at as usize) else {
                    break;
                };
                self.bind(at);
                at = match node {
                    Node::If { cond, yes, no } => {
                        self.branch(at, cond, if *no == END { end } else { *no });
                        open.push(*no);
                        *yes
                    }
                    Node::Call { action, next } => {
                        self.action(*action as usize);
                        *next
                    }
                    Node::Table(t) => {
                        self.op(Op::Table(*t));
                        if let Some(t) = source.tables.get(*t as usize) {
                            // The likeliest last: it is written first.
                            open.push(t.base_default_next);
                            open.extend(t.next.iter().chain(&t.miss).chain(&t.hit));
                        }
                        break;
                    }
                };
            }
        }
    }

    fn branch(&mut self, node: NodeId, cond: &Cond, no: Label) {
        if !self.traced {
            return self.cond(cond, false, no, 0);
        }
        let (not, on) = (self.new_label(), self.new_label());
        self.cond(cond, false, not, 0);
        self.op(Op::TraceCond { node, value: true });
        self.op(Op::Jump(on));
        self.bind(not);
        self.op(Op::TraceCond { node, value: false });
        self.op(Op::Jump(no));
        self.bind(on);
    }

    /// The body of an action.
    fn action(&mut self, index: usize) {
        let source = self.source;
        let Some(action) = source.actions.get(index) else {
            return;
        };
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        if self.traced {
            self.op(Op::TraceAction(id));
        }
        let jumps = action
            .body
            .iter()
            .any(|p| matches!(p, Prim::Jump(_) | Prim::JumpIfFalse(..)));
        // One for each primitive and one behind the last.
        let first = Label::try_from(self.labels.len()).unwrap_or(Label::MAX);
        let last = action.body.len();
        if jumps {
            self.labels.extend((0..=last).map(|_| None));
        }
        let label = |to: u32| first + to.min(u32::try_from(last).unwrap_or(u32::MAX));
        for (i, prim) in action.body.iter().enumerate() {
            let at = u32::try_from(i).unwrap_or(u32::MAX);
            if jumps {
                self.bind(first + at);
            }
            match prim {
                Prim::Jump(to) if *to <= at => self.back(label(*to)),
                Prim::Jump(to) => self.op(Op::Jump(label(*to))),
                Prim::JumpIfFalse(cond, to) if *to <= at => {
                    let on = self.new_label();
                    self.cond(cond, true, on, 0);
                    self.back(label(*to));
                    self.bind(on);
                }
                Prim::JumpIfFalse(cond, to) => self.cond(cond, false, label(*to), 0),
                other => self.prim(other, id, at),
            }
        }
        if jumps {
            self.bind(label(u32::MAX));
        }
        if self.traced {
            self.op(Op::TraceChanges);
        }
        if action.body.iter().any(|p| matches!(p, Prim::Exit)) {
            self.op(Op::Leave);
        }
    }

    fn prim(&mut self, prim: &Prim, action: u32, at: u32) {
        match prim {
            Prim::SetConst(to, v) => self.set(*to, &Num::Const(*v)),
            Prim::Copy64(to, from) => self.set(*to, &Num::Field(*from)),
            Prim::Set64(to, n) => self.set(*to, n),
            Prim::Count(counter, index) => {
                self.number(index, 64, 0);
                self.op(Op::Count(*counter));
            }
            Prim::AddHeader(HeaderSel::Fixed(h)) => self.op(Op::AddHeader(*h)),
            Prim::RemoveHeader(HeaderSel::Fixed(h)) => self.op(Op::RemoveHeader(*h)),
            Prim::AssignHeader(p) => match **p {
                (HeaderSel::Fixed(to), HeaderSel::Fixed(from)) => {
                    self.op(Op::AssignHeader { to, from });
                }
                _ => self.op(Op::Prim { action, at }),
            },
            Prim::Exit => self.op(Op::Exit),
            Prim::Nothing => {}
            _ => self.op(Op::Prim { action, at }),
        }
    }

    /// A number into a field of up to 64 bits.
    fn set(&mut self, to: Loc, n: &Num<u64>) {
        let bits = u32::from(to.width);
        let down = 64 - to.width.min(64);
        let n = number::low(n, bits);
        let Ok(byte) = Byte::try_from(to.byte) else {
            self.number(n, bits, 0);
            return self.op(Op::Store(to));
        };
        if to.alone {
            let direct = match n {
                Num::Const(v) => Some(Op::WordConst {
                    byte,
                    value: v & mask64(bits),
                }),
                Num::FromBool(c) if matches!(**c, Cond::Const(_)) => Some(Op::WordConst {
                    byte,
                    value: u64::from(matches!(**c, Cond::Const(true))),
                }),
                Num::Param(p) if p.width <= bits => {
                    Param::new(*p).map(|param| Op::WordParam { byte, param })
                }
                Num::Field(from) if from.width <= to.width => {
                    Span::new(*from).map(|field| Op::WordField { byte, field })
                }
                _ => None,
            };
            if let Some(op) = direct {
                return self.op(op);
            }
        }
        self.number(n, bits, 0);
        self.op(match (to.alone, to.load, to.width, to.shift) {
            (true, ..) => Op::StoreWord { byte, down },
            (false, 1, 8, _) => Op::Store8(byte),
            (false, 2, 16, _) => Op::Store16(byte),
            (false, 4, 32, _) => Op::Store32(byte),
            (false, 8, 48, 16) => Op::Store48(byte),
            _ => Op::Store(to),
        });
    }

    /// How a table's key is made; `None` if its parts are not all simple ones.
    fn key(headers: &[Header], layout: &KeyLayout) -> Option<Key> {
        if !layout.chosen.is_empty() {
            return None;
        }
        let word = |word: usize| {
            let mask = layout.program_mask.get(word).copied().unwrap_or(u64::MAX);
            let pieces = layout.pieces.iter().filter(|p| p.place.word == word);
            let mut parts = pieces.map(|p| {
                let Source::Loc(loc) = p.source else {
                    return None;
                };
                let metadata = headers.get(usize::from(p.header))?.metadata;
                let header = (!metadata).then_some(p.header);
                let part = KeyPart::new(Span::new(loc)?, p.place.shift, header)?;
                Some(part.masked(mask))
            });
            Some(KeyWord {
                first: parts.next()??,
                others: parts.collect::<Option<_>>()?,
            })
        };
        match layout.words {
            0 => None,
            1 => Some(Key::One(word(0)?)),
            2 => Some(Key::Two(Box::new([word(0)?, word(1)?]))),
            words => (0..words).map(word).collect::<Option<_>>().map(Key::More),
        }
    }

    /// Replaces labels by places.
    fn finish(mut self, end: Label, actions: &[Pc]) -> Code {
        let labels = self.labels;
        // Every label that is used is bound; position 0 ends the pipeline.
        let place = |l: Label| labels.get(l as usize).copied().flatten().unwrap_or(0);
        let node = |n: NodeId| place(if n == END { end } else { n });
        for (at, op) in (0..).zip(&mut self.code.ops) {
            if let Some(to) = op.target_mut() {
                *to = place(*to);
            }
            if let Op::Loop { to, length } = op {
                *length = Pc::saturating_sub(at, *to).max(1);
            }
        }
        self.code.tables = self
            .source
            .tables
            .iter()
            .map(|t| Applied {
                key: Self::key(self.source.headers, &t.layout).unwrap_or_default(),
                actions: self
                    .source
                    .actions
                    .iter()
                    .zip(actions)
                    .zip(&t.next)
                    .map(|((action, &start), &next)| Called {
                        start,
                        hit: node(t.hit.unwrap_or(next)),
                        miss: node(t.miss.unwrap_or(next)),
                        words: u32::try_from(action.words).unwrap_or(u32::MAX),
                    })
                    .collect(),
                otherwise: node(t.miss.unwrap_or(t.base_default_next)),
            })
            .collect();
        self.code.ingress = node(self.source.ingress);
        self.code.egress = node(self.source.egress);
        self.code
    }
}
