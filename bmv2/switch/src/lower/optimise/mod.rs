//! Code that does the same in fewer operations.
//!
//! What the compiler writes tests the same flags again and again: a packet
//! that is known not to be dropped is asked at every step whether it was.
//! [`thread`] finds out what is known where and leads jumps past such tests,
//! [`tails`] makes one block of those that follow one another, [`fuse`] one
//! operation of several, and [`layout`] puts all in a row.
//!
//! Code that reports what it does is left as it is: a reader of a trace wants
//! to see every condition.

mod blocks;
mod facts;
mod fuse;
mod layout;
mod tails;
mod thread;

#[cfg(test)]
mod tests;

use super::code::Program;
use crate::ir::code::Code;

/// Most rounds: what one leads past a test, another may lead past the next.
const ROUNDS: usize = 8;

/// The same program in fewer operations.
pub(super) fn optimise(source: &Program<'_>, mut code: Code) -> Code {
    let mut graph = blocks::Graph::new(source, &code);
    for _ in 0..ROUNDS {
        tails::join(&mut graph, 2 * code.ops.len());
        fuse::fold(&mut graph);
        if !thread::thread(source, &mut graph) {
            break;
        }
    }
    tails::join(&mut graph, 2 * code.ops.len());
    fuse::fuse(&mut graph);
    layout::lay_out(&graph, &mut code);
    code
}
