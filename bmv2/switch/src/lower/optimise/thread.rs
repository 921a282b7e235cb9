//! Leads jumps past tests whose outcome is known.

use std::collections::BTreeSet;

use super::blocks::{BlockId, End, Graph};
use super::facts::{Facts, Subjects};
use crate::ir::code::Op;
use crate::lower::code::Program;

/// Most facts that are kept at a time, and that are looked at until nothing new
/// is found (a fraction of a second): larger programs stay as they are.
const MOST_KEPT: usize = 1 << 22;
const MOST_LOOKED_AT: usize = 1 << 26;

/// Leads every way through the code past the tests whose outcome is known on
/// that way; returns whether there were any.
pub(super) fn thread(source: &Program<'_>, graph: &mut Graph) -> bool {
    let tests = graph.blocks.iter().filter_map(|b| match &b.end {
        End::Test { op, .. } => Some(op),
        _ => None,
    });
    let subjects = Subjects::new(source, tests);
    Known::find(&subjects, graph).is_some_and(|known| known.redirect(graph))
}

/// What is known where.
struct Known<'s> {
    subjects: &'s Subjects<'s>,
    /// At the start of each block; `None` if no packet comes there.
    at: Vec<Option<Facts>>,
    /// Where a table goes on for which its action does not do so by itself.
    behind: Vec<Option<Facts>>,
    /// Whether a packet comes to each table.
    called: Vec<bool>,
}

impl<'s> Known<'s> {
    /// Follows the code until nothing new is found; `None` if that takes too
    /// long.
    fn find(subjects: &'s Subjects<'s>, graph: &Graph) -> Option<Self> {
        if subjects.len() * graph.blocks.len() > MOST_KEPT {
            return None;
        }
        let mut left = MOST_LOOKED_AT;
        let mut known = Self {
            subjects,
            at: vec![None; graph.blocks.len()],
            behind: vec![None; graph.tables.len()],
            called: vec![false; graph.tables.len()],
        };
        // Packets come to a pipeline in any state: copies, for example.
        let mut open = BTreeSet::from([graph.ingress, graph.egress]);
        for &start in &open {
            join(&mut known.at, start, &subjects.nothing());
        }
        // Code leads forward, mostly: so a block comes after those before it.
        while let Some(at) = open.pop_first() {
            let ops = graph.blocks.get(at).map_or(0, |b| b.ops.len());
            left = left.checked_sub(subjects.len() * (ops + 1))?;
            known.follow(graph, at, &mut open);
        }
        Some(known)
    }

    /// Passes on what is known at the end of a block; blocks of which less is
    /// known than before are open again.
    fn follow(&mut self, graph: &Graph, at: BlockId, open: &mut BTreeSet<BlockId>) {
        let (Some(block), Some(mut facts)) = (graph.blocks.get(at), self.end_of(graph, at)) else {
            return;
        };
        let mut reached = Vec::new();
        let mut lead = |known: &mut Self, to: BlockId, facts: &Facts| {
            if join(&mut known.at, to, facts) {
                reached.push(to);
            }
        };
        match block.end {
            End::Goto(to) | End::Loop { to, .. } => lead(self, to, &facts),
            End::Test { op, taken, other } => {
                for (to, facts) in self.ways(&facts, &op, taken, other) {
                    lead(self, to, &facts);
                }
            }
            End::Table(t) => {
                self.subjects.apply_table(&mut facts, t);
                let Some(table) = graph.tables.get(t as usize) else {
                    return;
                };
                for call in &table.calls {
                    lead(self, call.start, &facts);
                }
                if let Some(called) = self.called.get_mut(t as usize)
                    && !std::mem::replace(called, true)
                {
                    // What its actions leave was passed on without it so far.
                    let own = |a: &u32| table.calls.iter().any(|c| c.action == *a);
                    let bodies = graph.action_of.iter().filter(|(_, a)| own(a));
                    open.extend(bodies.map(|(&block, _)| block));
                }
                // Without a default entry, a miss calls nothing.
                if table.fixed_default.is_none() && join(&mut self.behind, t as usize, &facts) {
                    lead(self, table.otherwise, &facts);
                }
            }
            End::Return => {
                let action = graph.action_of.get(&at);
                for (t, table) in graph.tables.iter().enumerate() {
                    // A table that no packet comes to calls nothing.
                    if self.called.get(t) != Some(&true) {
                        continue;
                    }
                    for call in table.calls.iter().filter(|c| Some(&c.action) == action) {
                        join(&mut self.behind, t, &facts);
                        for to in table.behind(call) {
                            lead(self, to, &facts);
                        }
                    }
                }
            }
            End::Finish => {}
        }
        open.extend(reached);
    }

    /// What is known behind a block's operations.
    fn end_of(&self, graph: &Graph, at: BlockId) -> Option<Facts> {
        let mut facts = self.at.get(at)?.clone()?;
        for op in &graph.blocks.get(at)?.ops {
            self.subjects.apply(&mut facts, op);
        }
        Some(facts)
    }

    /// The ways that lead on from a test, and what is known on them.
    fn ways(
        &self,
        facts: &Facts,
        op: &Op,
        taken: BlockId,
        other: BlockId,
    ) -> Vec<(BlockId, Facts)> {
        let when = op.when().unwrap_or(true);
        [(taken, when), (other, !when)]
            .into_iter()
            .filter(|(_, outcome)| self.subjects.outcome(facts, op) != Some(!outcome))
            .map(|(to, outcome)| {
                let mut facts = facts.clone();
                self.subjects.learn(&mut facts, op, outcome);
                (to, facts)
            })
            .collect()
    }

    /// The first block on the way to `to` that does something.
    fn past(&self, graph: &Graph, to: BlockId, facts: &Facts) -> BlockId {
        let mut to = to;
        // No way is longer, unless it goes round.
        for _ in 0..graph.blocks.len() {
            let Some(block) = graph.blocks.get(to).filter(|b| b.ops.is_empty()) else {
                return to;
            };
            to = match block.end {
                End::Goto(next) => next,
                End::Test { op, taken, other } => match self.subjects.outcome(facts, &op) {
                    Some(outcome) if Some(outcome) == op.when() => taken,
                    Some(_) => other,
                    None => return to,
                },
                _ => return to,
            };
        }
        to
    }

    /// Leads all ways past what is known; returns whether any way changed.
    fn redirect(&self, graph: &mut Graph) -> bool {
        let mut changed = false;
        for at in 0..graph.blocks.len() {
            let (Some(block), Some(facts)) = (graph.blocks.get(at), self.end_of(graph, at)) else {
                continue;
            };
            let end = match block.end {
                End::Goto(to) => End::Goto(self.past(graph, to, &facts)),
                End::Test { op, taken, other } => {
                    let ways = self.ways(&facts, &op, taken, other);
                    let past = |to: BlockId| {
                        let way = ways.iter().find(|(t, _)| *t == to);
                        way.map(|(_, facts)| self.past(graph, to, facts))
                    };
                    match ways.as_slice() {
                        [(to, facts)] => End::Goto(self.past(graph, *to, facts)),
                        // Both lead to one place: the ways can't be told apart.
                        _ if taken == other => block.end,
                        _ => End::Test {
                            op,
                            taken: past(taken).unwrap_or(taken),
                            other: past(other).unwrap_or(other),
                        },
                    }
                }
                end => end,
            };
            if let Some(block) = graph.blocks.get_mut(at) {
                changed |= block.end != end;
                block.end = end;
            }
        }
        for t in 0..graph.tables.len() {
            let (Some(Some(facts)), Some(old)) = (self.behind.get(t), graph.tables.get(t)) else {
                continue;
            };
            let past = |to: BlockId| self.past(graph, to, facts);
            let mut new = old.clone();
            for call in &mut new.calls {
                (call.hit, call.miss) = (past(call.hit), past(call.miss));
            }
            new.otherwise = past(old.otherwise);
            if let Some(table) = graph.tables.get_mut(t) {
                changed |= *table != new;
                *table = new;
            }
        }
        changed
    }
}

/// Joins facts to those at a place; returns whether that place has to be
/// followed (again).
fn join(places: &mut [Option<Facts>], at: usize, facts: &Facts) -> bool {
    match places.get_mut(at) {
        Some(Some(known)) => known.join(facts),
        Some(place) => {
            *place = Some(facts.clone());
            true
        }
        None => false,
    }
}
