//! Puts blocks in a row.

use super::blocks::{BlockId, End, Graph};
use crate::ir::code::{Code, Op, Pc};

/// Writes all blocks that are reached into the code.
pub(super) fn lay_out(graph: &Graph, code: &mut Code) {
    let mut row = Row {
        graph,
        // Position 0 is where every pipeline ends.
        ops: vec![Op::End],
        at: vec![None; graph.blocks.len()],
        open: vec![graph.egress, graph.ingress],
    };
    if let Some(end) = row.at.first_mut() {
        *end = Some(0);
    }
    while let Some(block) = row.open.pop() {
        if row.place(block).is_none() {
            row.write(block);
        }
    }
    let Row { mut ops, at, .. } = row;
    let place = |block: BlockId| at.get(block).copied().flatten().unwrap_or(0);
    for op in &mut ops {
        if let Some(to) = op.target_mut() {
            *to = place(*to as usize);
        }
    }
    code.ops = ops;
    code.ingress = place(graph.ingress);
    code.egress = place(graph.egress);
    for (applied, exits) in code.tables.iter_mut().zip(&graph.tables) {
        applied.otherwise = place(exits.otherwise);
        // Nobody calls any other.
        for called in &mut applied.actions {
            (called.start, called.hit, called.miss) = (0, 0, 0);
        }
        for call in &exits.calls {
            if let Some(called) = applied.actions.get_mut(call.action as usize) {
                called.start = place(call.start);
                (called.hit, called.miss) = (place(call.hit), place(call.miss));
            }
        }
    }
}

struct Row<'g> {
    graph: &'g Graph,
    /// Their targets are blocks until all is written.
    ops: Vec<Op>,
    at: Vec<Option<Pc>>,
    /// Blocks that something leads to.
    open: Vec<BlockId>,
}

/// A block as the target of an operation.
fn label(block: BlockId) -> Pc {
    Pc::try_from(block).unwrap_or(0)
}

impl Row<'_> {
    fn place(&self, block: BlockId) -> Option<Pc> {
        self.at.get(block).copied().flatten()
    }

    /// Writes a block and what follows it.
    fn write(&mut self, first: BlockId) {
        let graph = self.graph;
        let mut id = first;
        while let Some(block) = graph.blocks.get(id) {
            if self.place(id).is_some() {
                self.ops.push(match block.end {
                    End::Return if block.ops.is_empty() => Op::Return,
                    End::Finish if block.ops.is_empty() => Op::End,
                    _ => Op::Jump(label(id)),
                });
                return;
            }
            if let Some(at) = self.at.get_mut(id) {
                *at = Some(Pc::try_from(self.ops.len()).unwrap_or(Pc::MAX));
            }
            self.ops.extend(&block.ops);
            match block.end {
                End::Goto(to) => {
                    id = to;
                    continue;
                }
                End::Test {
                    mut op,
                    taken,
                    other,
                } => {
                    if let Some(to) = op.target_mut() {
                        *to = label(taken);
                    }
                    self.ops.push(op);
                    self.open.push(taken);
                    id = other;
                    continue;
                }
                End::Loop { to, length } => {
                    let to = label(to);
                    self.ops.push(Op::Loop { to, length });
                }
                End::Table(t) => self.ops.push(Op::Table(t)),
                End::Return => self.ops.push(Op::Return),
                End::Finish => self.ops.push(Op::End),
            }
            // What comes first is written first: what goes on after an action
            // is then right behind it.
            self.open.extend(graph.successors(block).iter().rev());
            return;
        }
    }
}
