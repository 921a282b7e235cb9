//! The operations that touch nothing but the packet's own state.
//!
//! They are most of what a packet runs. Their loop calls nothing, so that what
//! it works with stays in registers.

use super::image::REACH;
use crate::ir::bits::load_word;
use crate::ir::code::{Byte, Combine, Op, Pc, TEMPS};

/// What the operations work on.
pub(super) struct Machine<'s> {
    pub(super) image: &'s mut [u8; REACH],
    pub(super) valid: &'s [bool],
    /// Parameters of the running action.
    pub(super) params: &'s [u64],
    pub(super) temps: &'s mut [u64; TEMPS],
    /// Where the table that called the action goes on.
    pub(super) back: Pc,
}

/// Runs operations from `start` until one that this loop leaves to its caller;
/// returns where that is and the accumulator.
pub(super) fn run(ops: &[Op], start: Pc, acc: u64, m: Machine<'_>) -> (Pc, u64) {
    let Machine {
        image,
        valid,
        params,
        temps,
        back,
    } = m;
    let mut acc = acc;
    let mut at = start as usize;
    macro_rules! branch {
        ($test:expr, $when:expr, $to:expr) => {{
            let test: bool = $test;
            if test == *$when {
                at = *$to as usize;
            }
        }};
    }
    while let Some(op) = ops.get(at) {
        at += 1;
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
            Op::Jump(to) => at = *to as usize,
            Op::Return => at = back as usize,

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
                store(image, *byte, value.to_be_bytes());
            }
            Op::Store8(byte) => store(image, *byte, (acc as u8).to_be_bytes()),
            Op::Store16(byte) => store(image, *byte, (acc as u16).to_be_bytes()),
            Op::Store32(byte) => store(image, *byte, (acc as u32).to_be_bytes()),
            Op::Store48(byte) => {
                let [_, _, bytes @ ..] = acc.to_be_bytes();
                store::<6>(image, *byte, bytes);
            }
            Op::WordConst { byte, value } => store(image, *byte, value.to_be_bytes()),
            Op::WordParam { byte, param } => {
                store(image, *byte, param.load(params).to_be_bytes());
            }
            Op::WordField { byte, field } => {
                let value = field.load(image);
                store(image, *byte, value.to_be_bytes());
            }
            // All the others, by name: the choice needs no check then.
            Op::End
            | Op::Leave
            | Op::Loop(_)
            | Op::Table(_)
            | Op::IfCond { .. }
            | Op::Eval(_)
            | Op::Store(_)
            | Op::Count(_)
            | Op::AddHeader(_)
            | Op::RemoveHeader(_)
            | Op::AssignHeader { .. }
            | Op::Exit
            | Op::Prim { .. }
            | Op::TraceCond { .. }
            | Op::TraceAction(_)
            | Op::TraceChanges => {
                at -= 1;
                break;
            }
        }
    }
    (Pc::try_from(at).unwrap_or(Pc::MAX), acc)
}

/// Writes bytes into the image.
#[inline(always)]
fn store<const N: usize>(image: &mut [u8; REACH], byte: Byte, bytes: [u8; N]) {
    let at = usize::from(byte);
    if let Some(to) = image.get_mut(at..at + N) {
        to.copy_from_slice(&bytes);
    }
}
