//! The operations that touch nothing but the packet's own state.
//!
//! They are most of what a packet runs. Their loop calls nothing, so that what
//! it works with stays in registers. It is inlined into the one around it, which
//! calls the rest: going from one to the other costs next to nothing.

use super::{Env, State};
use crate::ir::bits::{load_word, store_bytes};
use crate::ir::code::{Combine, Op, Pc, TEMPS};

/// Where a packet is in the code, and what is not in its state.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The next operation.
    pub(super) at: Pc,
    /// The accumulator.
    pub(super) acc: u64,
    /// Values put aside.
    pub(super) temps: [u64; TEMPS],
    /// Where the table that called the running action goes on.
    pub(super) back: Pc,
}

/// Runs operations up to the first that this loop leaves to its caller, and
/// returns that one; the frame is behind it then. `None` where the code ends.
#[inline(always)]
pub(super) fn run<'c>(
    ops: &'c [Op],
    env: &Env<'_>,
    st: &mut State,
    frame: &mut Frame,
) -> Option<&'c Op> {
    let image = st.image.reach()?;
    let (valid, params) = (st.valid.as_slice(), st.params.as_slice());
    let Frame {
        at: place,
        acc: sum,
        temps,
        back,
    } = frame;
    let count = |counter: u32, index: u64| {
        let bytes = u64::from(st.ingress_length);
        env.pending.count(env.counters, counter, index, bytes);
    };
    let mut acc = *sum;
    // Stepping through what is left costs less than an index does.
    let mut next = ops.get(*place as usize..)?.iter();
    macro_rules! jump {
        ($to:expr) => {{
            let Some(rest) = ops.get($to as usize..) else {
                break None;
            };
            next = rest.iter();
        }};
    }
    macro_rules! branch {
        ($test:expr, $when:expr, $to:expr) => {{
            let test: bool = $test;
            if test == *$when {
                jump!(*$to);
            }
        }};
    }
    let stop = loop {
        let Some(op) = next.next() else {
            break None;
        };
        match op {
            Op::IfValid { when, to, header } => {
                branch!(valid.get(usize::from(*header)) == Some(&true), when, to);
            }
            Op::IfWordIs {
                when,
                to,
                byte,
                value,
            } => {
                branch!(load_word(image, (*byte).into()) == *value, when, to);
            }
            Op::IfIs {
                when,
                to,
                field,
                value,
            } => {
                branch!(field.load(image) == u64::from(*value), when, to);
            }
            Op::IfAccIs { when, to, value } => branch!(acc == *value, when, to),
            Op::IfAccBelow { when, to, value } => branch!(acc < *value, when, to),
            Op::IfAccIsField { when, to, field } => branch!(acc == field.load(image), when, to),
            Op::IfAccBelowField { when, to, field } => branch!(acc < field.load(image), when, to),
            Op::IfFieldBelowAcc { when, to, field } => branch!(field.load(image) < acc, when, to),
            Op::IfAccIsTemp { when, to, temp } => {
                branch!(acc == temps[usize::from(*temp) % TEMPS], when, to);
            }
            Op::IfAccBelowTemp { when, to, temp } => {
                branch!(acc < temps[usize::from(*temp) % TEMPS], when, to);
            }
            Op::Jump(to) => jump!(*to),
            Op::Return => jump!(*back),

            Op::LoadWord(byte) => acc = load_word(image, (*byte).into()),
            Op::Load(field) => acc = field.load(image),
            Op::Const(value) => acc = *value,
            Op::Param(p) => acc = p.load(params),
            Op::Valid(header) => acc = u64::from(valid.get(usize::from(*header)) == Some(&true)),
            Op::AddField(field) => acc = acc.wrapping_add(field.load(image)),
            Op::SubField(field) => acc = acc.wrapping_sub(field.load(image)),
            Op::AndField(field) => acc &= field.load(image),
            Op::OrField(field) => acc |= field.load(image),
            Op::XorField(field) => acc ^= field.load(image),
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

            Op::StoreWord { byte, down } => {
                let value = (acc << (down % 64)) >> (down % 64);
                store_bytes(image, *byte, value.to_be_bytes());
            }
            Op::Store8(byte) => store_bytes(image, *byte, (acc as u8).to_be_bytes()),
            Op::Store16(byte) => store_bytes(image, *byte, (acc as u16).to_be_bytes()),
            Op::Store32(byte) => store_bytes(image, *byte, (acc as u32).to_be_bytes()),
            Op::Store48(byte) => {
                let [_, _, bytes @ ..] = acc.to_be_bytes();
                store_bytes::<6>(image, *byte, bytes);
            }
            Op::WordConst { byte, value } => {
                acc = *value;
                store_bytes(image, *byte, value.to_be_bytes());
            }
            Op::WordParam { byte, param } => {
                store_bytes(image, *byte, param.load(params).to_be_bytes());
            }
            Op::WordField { byte, field } => {
                let value = field.load(image);
                store_bytes(image, *byte, value.to_be_bytes());
            }
            Op::Count(counter) => count(*counter, acc),

            Op::LoadSum(a, b) => acc = a.load(image).wrapping_add(b.load(image)),
            Op::LoadShl(field, by) => acc = field.load(image) << (by % 64),
            Op::AddFields(a, b) => {
                acc = acc.wrapping_add(a.load(image)).wrapping_add(b.load(image));
            }
            Op::SubFields(a, b) => {
                acc = acc.wrapping_sub(a.load(image)).wrapping_sub(b.load(image));
            }
            Op::AddSubField(a, b) => {
                acc = acc.wrapping_add(a.load(image)).wrapping_sub(b.load(image));
            }
            Op::StoreWordPlus { byte, down, value } => {
                acc = acc.wrapping_add(u64::from(*value));
                let value = (acc << (down % 64)) >> (down % 64);
                store_bytes(image, *byte, value.to_be_bytes());
            }
            Op::WordSum { byte, down, fields } => {
                let [a, b] = fields;
                acc = a.load(image).wrapping_add(b.load(image));
                let value = (acc << (down % 64)) >> (down % 64);
                store_bytes(image, *byte, value.to_be_bytes());
            }
            Op::Copy16(to, from) => {
                acc = from.load(image);
                store_bytes(image, *to, (acc as u16).to_be_bytes());
            }
            Op::Copy32(to, from) => {
                acc = from.load(image);
                store_bytes(image, *to, (acc as u32).to_be_bytes());
            }
            Op::WordParams(words) => {
                for (byte, param) in words {
                    store_bytes(image, *byte, param.load(params).to_be_bytes());
                }
            }
            Op::WordFields(words) => {
                for (byte, field) in words {
                    let value = field.load(image);
                    store_bytes(image, *byte, value.to_be_bytes());
                }
            }
            Op::CountField { counter, field } => {
                acc = field.load(image);
                count(*counter, acc);
            }
            Op::IfFieldIsField { when, to, fields } => {
                let [a, b] = fields;
                acc = a.load(image);
                branch!(acc == b.load(image), when, to);
            }
            Op::IfFieldBelowField { when, to, fields } => {
                let [a, b] = fields;
                acc = a.load(image);
                branch!(acc < b.load(image), when, to);
            }
            // All the others, by name: the choice needs no check then.
            Op::End
            | Op::Leave
            | Op::Loop { .. }
            | Op::Table(_)
            | Op::IfCond { .. }
            | Op::Eval(_)
            | Op::Store(_)
            | Op::AddHeader(_)
            | Op::RemoveHeader(_)
            | Op::AssignHeader { .. }
            | Op::Exit
            | Op::Prim { .. }
            | Op::TraceCond { .. }
            | Op::TraceAction(_)
            | Op::TraceChanges => break Some(op),
        }
    };
    *place = Pc::try_from(ops.len() - next.len()).unwrap_or(Pc::MAX);
    *sum = acc;
    stop
}
