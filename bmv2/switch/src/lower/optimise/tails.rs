//! Makes one block of those that follow one another.

use super::blocks::{BlockId, End, Graph};

/// A block of at most so many operations is copied to where something else
/// leads to it as well: a jump would cost as much.
const SHORT: usize = 2;

/// Puts a block that only one leads to behind that one, and copies of short
/// ones behind all that lead to them, as long as there are not more than
/// `most` operations.
pub(super) fn join(graph: &mut Graph, most: usize) {
    let mut ways = ways(graph);
    let mut size: usize = graph.blocks.iter().map(|b| b.ops.len() + 1).sum();
    for at in 0..graph.blocks.len() {
        if ways.get(at) == Some(&0) {
            continue;
        }
        // Each block follows at most once: nothing goes round for ever.
        for _ in 0..graph.blocks.len() {
            let Some(next) = next(graph, at) else { break };
            let Some(tail) = graph.blocks.get(next).filter(|_| next != at).cloned() else {
                break;
            };
            let alone = ways.get(next) == Some(&1);
            let copied = tail.ops.len() + 1;
            if !alone && (tail.ops.len() > SHORT || size + copied > most) {
                break;
            }
            if alone {
                // Nothing comes there any more.
                if let Some(ways) = ways.get_mut(next) {
                    *ways = 0;
                }
            } else {
                size += copied;
                for to in graph.successors(&tail) {
                    if let Some(ways) = ways.get_mut(to) {
                        *ways += 1;
                    }
                }
            }
            if let Some(block) = graph.blocks.get_mut(at) {
                block.ops.extend(&tail.ops);
                block.end = tail.end;
            }
            // A body goes on in the block that it was copied to.
            if let Some(&action) = graph.action_of.get(&next) {
                graph.action_of.entry(at).or_insert(action);
            }
        }
    }
}

/// The block that always follows.
fn next(graph: &Graph, at: BlockId) -> Option<BlockId> {
    match graph.blocks.get(at)?.end {
        End::Goto(to) => Some(to),
        _ => None,
    }
}

/// How many ways lead to each block from those that packets come to.
fn ways(graph: &Graph) -> Vec<usize> {
    let mut ways = vec![0; graph.blocks.len()];
    let mut open: Vec<BlockId> = Vec::new();
    let mut come = |to: BlockId, more: usize, open: &mut Vec<BlockId>| {
        if let Some(n) = ways.get_mut(to) {
            if *n == 0 {
                open.push(to);
            }
            *n += more;
        }
    };
    // Somebody else has their numbers.
    for to in [0, graph.ingress, graph.egress] {
        come(to, 2, &mut open);
    }
    while let Some(at) = open.pop() {
        let Some(block) = graph.blocks.get(at) else {
            continue;
        };
        // What a table leads to stays where it is.
        let more = if matches!(block.end, End::Table(_)) {
            2
        } else {
            1
        };
        for to in graph.successors(block) {
            come(to, more, &mut open);
        }
    }
    ways
}
