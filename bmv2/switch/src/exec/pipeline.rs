//! Walking a pipeline's code.

use super::simple::{self, Frame};
use super::{Env, State, action, changes, table};
use crate::ir::bits::store64;
use crate::ir::code::{Code, Op, Pc};
use crate::program::Program;
use crate::switch::DropReason;
use crate::trace::{TraceEvent, Tracer};

/// Most operations that jumps backwards may repeat.
const MAX_REPEATED: usize = 1 << 20;

/// Runs a pipeline from `start`. Inlined into [`tuned`](super::tuned), which
/// says with which instructions.
#[inline(always)]
pub(super) fn run<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    code: &Code,
    start: Pc,
    st: &mut State,
    packet: &[u8],
    tr: &mut T,
) {
    st.exit = false;
    let mut frame = Frame {
        at: start,
        ..Frame::default()
    };
    let mut walk = Walk {
        env,
        program,
        code,
        packet,
        repeated: 0,
        before: None,
    };
    while let Some(op) = simple::run(&code.ops, env, st, &mut frame) {
        if let Op::Table(t) = op {
            (frame.at, frame.back) = table::apply(env, program, code, st, *t, packet, tr);
        } else if walk
            .step(op, st, &mut frame.at, &mut frame.acc, tr)
            .is_none()
        {
            return;
        }
    }
}

/// A packet's way through a pipeline.
struct Walk<'a> {
    env: &'a Env<'a>,
    program: &'a Program,
    code: &'a Code,
    packet: &'a [u8],
    /// Operations that jumps backwards have repeated.
    repeated: usize,
    /// The packet before the running action, in code that is traced.
    before: Option<State>,
}

impl Walk<'_> {
    /// Runs an operation that is neither simple nor a table's; `None` if it is
    /// the last one.
    #[inline(never)]
    fn step<T: Tracer>(
        &mut self,
        op: &Op,
        st: &mut State,
        at: &mut Pc,
        acc: &mut u64,
        tr: &mut T,
    ) -> Option<()> {
        let Self {
            env,
            program,
            code,
            packet,
            repeated,
            before,
        } = self;
        match op {
            Op::IfCond { when, to, cond } => {
                let cond = code.conds.get(*cond as usize);
                let value = cond.is_some_and(|c| c.eval(&env.view(st)));
                if st.faulted().is_some() {
                    return None;
                }
                if value == *when {
                    *at = *to;
                }
            }
            Op::Eval(num) => {
                let num = code.nums.get(*num as usize);
                *acc = num.map_or(0, |n| n.eval(&env.view(st)));
                if st.faulted().is_some() {
                    return None;
                }
            }
            Op::Store(to) => store64(&mut st.image, *to, *acc),
            Op::AddHeader(header) => action::add_header(env, st, *header),
            Op::RemoveHeader(header) => action::remove_header(env, st, *header),
            Op::AssignHeader { to, from } => action::assign_header(env, st, *to, *from),
            Op::Prim { action, at: place } => {
                let action = env.ir.actions.get(*action as usize);
                if let Some(prim) = action.and_then(|a| a.body.get(*place as usize)) {
                    action::step(env, st, prim, packet, tr);
                }
                if st.faulted().is_some() {
                    return None;
                }
            }
            Op::Loop { to, length } => {
                *repeated = repeated.saturating_add(*length as usize);
                if *repeated > MAX_REPEATED {
                    st.fault(DropReason::ProgramFault);
                    return None;
                }
                *at = *to;
            }
            Op::Exit => st.exit = true,
            Op::Leave => {
                if st.exit {
                    return None;
                }
            }

            Op::TraceCond { node, value } => tr.event(|| TraceEvent::Condition {
                name: env
                    .ir
                    .node_names
                    .get(*node as usize)
                    .cloned()
                    .unwrap_or_default(),
                value: *value,
            }),
            Op::TraceAction(action) => {
                changes::action(env, program, st, *action, tr);
                *before = Some(st.clone());
            }
            Op::TraceChanges => {
                if let Some(before) = before.take() {
                    changes::changes(env, &before, st, tr);
                }
            }
            // `End`, or what the loop above does.
            _ => return None,
        }
        Some(())
    }
}
