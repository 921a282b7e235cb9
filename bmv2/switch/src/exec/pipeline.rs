//! Walking a pipeline's code.

use super::{Env, State, action, changes, table};
use crate::ir::bits::{load_word, store64};
use crate::ir::code::{Code, Combine, Op, Pc, TEMPS};
use crate::program::Program;
use crate::switch::DropReason;
use crate::trace::{TraceEvent, Tracer};

/// Most operations that jumps backwards may repeat.
const MAX_REPEATED: usize = 1 << 20;

/// Runs a pipeline from `start`.
pub(crate) fn run<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    code: &Code,
    start: Pc,
    st: &mut State,
    packet: &[u8],
    tr: &mut T,
) {
    st.exit = false;
    let mut acc = 0u64;
    let mut temps = [0u64; TEMPS];
    let ops = code.ops.as_slice();
    let from = |at: Pc| ops.get(at as usize..).unwrap_or(&[]);
    let mut rest = from(start);
    // Where the table that called an action goes on.
    let mut back = 0;
    let mut repeated = 0usize;
    let mut before = None;
    macro_rules! branch {
        ($test:expr, $when:expr, $to:expr) => {{
            let test: bool = $test;
            if test == *$when {
                rest = from(*$to);
            }
        }};
    }
    while let [op, tail @ ..] = rest {
        rest = tail;
        match op {
            Op::IfValid { when, to, header } => {
                branch!(st.is_valid(*header), when, to);
            }
            Op::IfWordIs {
                when,
                to,
                byte,
                value,
            } => {
                branch!(load_word(&st.image, *byte) == *value, when, to);
            }
            Op::IfIs {
                when,
                to,
                field,
                value,
            } => {
                branch!(field.load(&st.image) == *value, when, to);
            }
            Op::IfAccIs { when, to, value } => {
                branch!(acc == *value, when, to);
            }
            Op::IfAccBelow { when, to, value } => {
                branch!(acc < *value, when, to);
            }
            Op::IfAccIsField { when, to, field } => {
                branch!(acc == field.load(&st.image), when, to);
            }
            Op::IfAccBelowField { when, to, field } => {
                branch!(acc < field.load(&st.image), when, to);
            }
            Op::IfFieldBelowAcc { when, to, field } => {
                branch!(field.load(&st.image) < acc, when, to);
            }
            Op::IfAccIsTemp { when, to, temp } => {
                branch!(acc == temps[usize::from(*temp) % TEMPS], when, to);
            }
            Op::IfAccBelowTemp { when, to, temp } => {
                branch!(acc < temps[usize::from(*temp) % TEMPS], when, to);
            }
            Op::IfCond { when, to, cond } => {
                let value = code
                    .conds
                    .get(*cond as usize)
                    .is_some_and(|c| c.eval(&env.view(st)));
                if st.faulted().is_some() {
                    return;
                }
                branch!(value, when, to);
            }
            Op::Jump(to) => {
                rest = from(*to);
            }
            Op::Loop(to) => {
                let here = ops.len() - tail.len();
                let length = here.saturating_sub(*to as usize);
                repeated = repeated.saturating_add(length);
                if repeated > MAX_REPEATED {
                    st.fault(DropReason::ProgramFault);
                    return;
                }
                rest = from(*to);
            }
            Op::Table(t) => {
                let (action, next) = table::apply(env, program, code, st, *t, packet, tr);
                back = next;
                rest = from(match action {
                    Some(a) => code.actions.get(a as usize).copied().unwrap_or(next),
                    None => next,
                });
            }
            Op::Return => {
                rest = from(back);
            }
            Op::Leave => {
                if st.exit {
                    return;
                }
            }
            Op::End => return,

            Op::LoadWord(byte) => acc = load_word(&st.image, *byte),
            Op::Load(field) => acc = field.load(&st.image),
            Op::Const(value) => acc = *value,
            Op::Param(p) => acc = p.load(&st.params),
            Op::Valid(header) => acc = u64::from(st.is_valid(*header)),
            Op::AddField(field) => acc = acc.wrapping_add(field.load(&st.image)),
            Op::SubField(field) => acc = acc.wrapping_sub(field.load(&st.image)),
            Op::AndField(field) => acc &= field.load(&st.image),
            Op::OrField(field) => acc |= field.load(&st.image),
            Op::XorField(field) => acc ^= field.load(&st.image),
            Op::AddConst(value) => acc = acc.wrapping_add(*value),
            Op::AndConst(value) => acc &= value,
            Op::OrConst(value) => acc |= value,
            Op::XorConst(value) => acc ^= value,
            Op::Not => acc = !acc,
            Op::Shl(by) => acc <<= by % 64,
            Op::Shr(by) => acc >>= by % 64,
            Op::Is(value) => acc = u64::from(acc == *value),
            Op::IsNot(value) => acc = u64::from(acc != *value),
            Op::Save(temp) => temps[usize::from(*temp) % TEMPS] = acc,
            Op::Combine(how, temp) => {
                let other = temps[usize::from(*temp) % TEMPS];
                acc = match how {
                    Combine::Add => acc.wrapping_add(other),
                    Combine::Sub => acc.wrapping_sub(other),
                    Combine::Mul => acc.wrapping_mul(other),
                    Combine::And => acc & other,
                    Combine::Or => acc | other,
                    Combine::Xor => acc ^ other,
                };
            }
            Op::Eval(num) => {
                acc = code
                    .nums
                    .get(*num as usize)
                    .map_or(0, |n| n.eval(&env.view(st)));
                if st.faulted().is_some() {
                    return;
                }
            }

            Op::StoreWord { byte, down } => {
                let value = (acc << (down % 64)) >> (down % 64);
                store(&mut st.image, *byte, value.to_be_bytes());
            }
            Op::Store8(byte) => store(&mut st.image, *byte, (acc as u8).to_be_bytes()),
            Op::Store16(byte) => store(&mut st.image, *byte, (acc as u16).to_be_bytes()),
            Op::Store32(byte) => store(&mut st.image, *byte, (acc as u32).to_be_bytes()),
            Op::Store48(byte) => {
                let [_, _, bytes @ ..] = acc.to_be_bytes();
                store::<6>(&mut st.image, *byte, bytes);
            }
            Op::Store(to) => store64(&mut st.image, *to, acc),
            Op::WordConst { byte, value } => store(&mut st.image, *byte, value.to_be_bytes()),
            Op::WordParam { byte, param } => {
                let value = param.load(&st.params);
                store(&mut st.image, *byte, value.to_be_bytes());
            }
            Op::WordField { byte, field } => {
                let value = field.load(&st.image);
                store(&mut st.image, *byte, value.to_be_bytes());
            }
            Op::Count(counter) => {
                let bytes = u64::from(st.ingress_length);
                env.pending.count(env.counters, *counter, acc, bytes);
            }
            Op::AddHeader(header) => action::add_header(env, st, *header),
            Op::RemoveHeader(header) => action::remove_header(env, st, *header),
            Op::AssignHeader { to, from } => action::assign_header(env, st, *to, *from),
            Op::Exit => st.exit = true,
            Op::Prim { action, at: place } => {
                if let Some(prim) = env
                    .ir
                    .actions
                    .get(*action as usize)
                    .and_then(|a| a.body.get(*place as usize))
                {
                    action::step(env, st, prim, packet, tr);
                }
                if st.faulted().is_some() {
                    return;
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
                before = Some(st.clone());
            }
            Op::TraceChanges => {
                if let Some(before) = before.take() {
                    changes::changes(env, &before, st, tr);
                }
            }
        }
    }
}

/// Writes bytes into the image.
#[inline(always)]
fn store<const N: usize>(image: &mut [u8], byte: u32, bytes: [u8; N]) {
    let at = byte as usize;
    if let Some(to) = image.get_mut(at..at + N) {
        to.copy_from_slice(&bytes);
    }
}
