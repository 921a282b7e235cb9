//! Code as blocks that lead to one another.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::code::{Applied, Code, Op, Pc};
use crate::lower::code::Program;

/// Index of a [`Block`].
pub(super) type BlockId = usize;

/// Operations that are run one after the other, and what comes then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) ops: Vec<Op>,
    pub(super) end: End,
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Goto(BlockId),
    /// An operation of the form `If…`, whatever its own target says.
    Test {
        op: Op,
        taken: BlockId,
        other: BlockId,
    },
    /// A jump backwards, which counts.
    Loop {
        to: BlockId,
        length: u32,
    },
    Table(u32),
    /// The end of an action that goes on where its table says.
    Return,
    /// The end of the pipeline.
    Finish,
}

/// Where a table leads, as [`Applied`] says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Exits {
    /// The actions that it may call.
    pub(super) calls: Vec<Call>,
    pub(super) otherwise: BlockId,
    /// The action of its default entry, if it always is that one.
    pub(super) fixed_default: Option<u32>,
}

/// An action that a table calls, as [`Called`] says it.
///
/// [`Called`]: crate::ir::code::Called
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) action: u32,
    pub(super) start: BlockId,
    pub(super) hit: BlockId,
    pub(super) miss: BlockId,
}

/// All code of a program.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) blocks: Vec<Block>,
    pub(super) ingress: BlockId,
    pub(super) egress: BlockId,
    pub(super) tables: Vec<Exits>,
    /// The action that each block of an action's body belongs to.
    pub(super) action_of: BTreeMap<BlockId, u32>,
    /// The actions that go on where their table says.
    pub(super) returning: BTreeSet<u32>,
}

impl Graph {
    /// Takes code apart.
    pub(super) fn new(source: &Program<'_>, code: &Code) -> Self {
        let firsts = firsts(code);
        let ids: BTreeMap<Pc, BlockId> = firsts.iter().copied().zip(0..).collect();
        // Position 0 ends the pipeline, wherever nothing else is said.
        let id = |pc: Pc| ids.get(&pc).copied().unwrap_or(0);
        let blocks = firsts
            .iter()
            .map(|&first| block(&code.ops, first, &id))
            .collect();
        let mut graph = Self {
            blocks,
            ingress: id(code.ingress),
            egress: id(code.egress),
            tables: code
                .tables
                .iter()
                .enumerate()
                .map(|(t, applied)| exits(source, t, applied, &id))
                .collect(),
            action_of: BTreeMap::new(),
            returning: BTreeSet::new(),
        };
        graph.find_bodies();
        graph.return_directly();
        graph
    }

    /// The blocks that one leads to. A table leads to its actions, and to where
    /// it goes on if they do not do so by themselves.
    pub(super) fn successors(&self, block: &Block) -> Vec<BlockId> {
        match block.end {
            End::Goto(to) | End::Loop { to, .. } => vec![to],
            End::Test { taken, other, .. } => vec![other, taken],
            End::Table(t) => self.called(t),
            End::Return | End::Finish => Vec::new(),
        }
    }

    fn called(&self, table: u32) -> Vec<BlockId> {
        let Some(t) = self.tables.get(table as usize) else {
            return Vec::new();
        };
        let mut all: Vec<BlockId> = t.calls.iter().map(|c| c.start).collect();
        for call in t
            .calls
            .iter()
            .filter(|c| self.returning.contains(&c.action))
        {
            all.extend(t.behind(call));
        }
        if t.fixed_default.is_none() {
            all.push(t.otherwise);
        }
        all
    }

    /// Notes which action the blocks of a body belong to.
    fn find_bodies(&mut self) {
        let calls = self.tables.iter().flat_map(|t| &t.calls);
        let starts: BTreeSet<(u32, BlockId)> = calls.map(|c| (c.action, c.start)).collect();
        for (action, first) in starts {
            let mut open = vec![first];
            while let Some(at) = open.pop() {
                if self.action_of.insert(at, action).is_none()
                    && let Some(block) = self.blocks.get(at)
                {
                    open.extend(self.successors(block));
                }
            }
        }
    }

    /// An action that always goes on at the same place does so by itself.
    fn return_directly(&mut self) {
        let mut on: BTreeMap<u32, BTreeSet<BlockId>> = BTreeMap::new();
        for t in &self.tables {
            for call in &t.calls {
                on.entry(call.action).or_default().extend(t.behind(call));
            }
        }
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let places = self.action_of.get(&at).and_then(|a| on.get(a));
            if block.end == End::Return
                && let Some(places) = places
                && let (1, Some(&to)) = (places.len(), places.first())
            {
                block.end = End::Goto(to);
            }
        }
        let returns = |at: &BlockId| self.blocks.get(*at).is_some_and(|b| b.end == End::Return);
        let bodies = self.action_of.iter().filter(|(at, _)| returns(at));
        self.returning = bodies.map(|(_, &action)| action).collect();
    }
}

impl Exits {
    /// Where the table may go on after one of its actions.
    pub(super) fn behind(&self, call: &Call) -> impl Iterator<Item = BlockId> + use<> {
        let missed = self.fixed_default.is_none_or(|d| d == call.action);
        [call.hit].into_iter().chain(missed.then_some(call.miss))
    }
}

/// Where blocks begin.
fn firsts(code: &Code) -> BTreeSet<Pc> {
    let mut firsts: BTreeSet<Pc> = [0, code.ingress, code.egress].into();
    for t in &code.tables {
        firsts.extend(t.actions.iter().flat_map(|c| [c.start, c.hit, c.miss]));
        firsts.insert(t.otherwise);
    }
    for (at, op) in (0..).zip(&code.ops) {
        if let Some(to) = op.target() {
            firsts.insert(to);
        }
        if op.target().is_some() || matches!(op, Op::Table(_) | Op::Return | Op::End) {
            firsts.insert(at + 1);
        }
    }
    firsts.retain(|&f| (f as usize) < code.ops.len());
    firsts
}

fn block(ops: &[Op], first: Pc, id: &impl Fn(Pc) -> BlockId) -> Block {
    let mut block = Block {
        ops: Vec::new(),
        end: End::Finish,
    };
    for (at, &op) in (first..).zip(ops.iter().skip(first as usize)) {
        // Another block begins here.
        if at > first && id(at) != 0 {
            block.end = End::Goto(id(at));
            break;
        }
        block.end = match op {
            Op::Jump(to) => End::Goto(id(to)),
            Op::Loop { to, length } => End::Loop { to: id(to), length },
            Op::Table(t) => End::Table(t),
            Op::Return => End::Return,
            Op::End => End::Finish,
            op => match op.target() {
                Some(to) => End::Test {
                    op,
                    taken: id(to),
                    other: id(at + 1),
                },
                None => {
                    block.ops.push(op);
                    continue;
                }
            },
        };
        break;
    }
    block
}

fn exits(
    source: &Program<'_>,
    table: usize,
    applied: &Applied,
    id: &impl Fn(Pc) -> BlockId,
) -> Exits {
    let profile = source.tables.get(table).and_then(|t| t.profile);
    // Members of a profile may come by any table that shares it.
    let sharing = source
        .tables
        .iter()
        .enumerate()
        .filter(|(at, t)| *at == table || profile.is_some() && t.profile == profile);
    let actions: BTreeSet<u32> = sharing.flat_map(|(_, t)| &t.actions).copied().collect();
    let call = |action: u32| {
        let called = applied.actions.get(action as usize)?;
        Some(Call {
            action,
            start: id(called.start),
            hit: id(called.hit),
            miss: id(called.miss),
        })
    };
    Exits {
        calls: actions.into_iter().filter_map(call).collect(),
        otherwise: id(applied.otherwise),
        fixed_default: source.tables.get(table).and_then(|t| t.fixed_default),
    }
}
