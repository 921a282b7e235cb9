//! Hashes and checksums of a packet.

use super::{Env, State};
use crate::calc::{Algorithm, complement16, sum16};
use crate::ir::bits::copy_bits;
use crate::ir::expr::{read_field, wrap, write_small};
use crate::ir::{Calc, CalcInput, Checksum};
use crate::trace::{TraceEvent, Tracer};

/// The result of a calculation.
pub(crate) fn compute(env: &Env<'_>, st: &mut State, calc: &Calc, packet: &[u8]) -> u64 {
    if matches!(calc.algorithm, Algorithm::Csum16)
        && let Some(sum) = sum_in_place(env, st, calc, packet)
    {
        return u64::from(complement16(sum));
    }
    let mut buffer = std::mem::take(&mut st.buffer);
    buffer.clear();
    gather(env, st, calc, packet, &mut buffer);
    let result = calc.algorithm.compute(&buffer, || st.random());
    st.buffer = buffer;
    result
}

/// The sum for an Internet checksum, of the inputs where they lie; `None` if
/// they must be put together, because one is not whole 16-bit words.
fn sum_in_place(env: &Env<'_>, st: &State, calc: &Calc, packet: &[u8]) -> Option<u64> {
    let mut sum = 0;
    for input in &calc.inputs {
        let (bytes, width) = match input {
            CalcInput::Bits { header, .. } | CalcInput::Varbit(header) if !st.is_valid(*header) => {
                continue;
            }
            CalcInput::Bits { bit, width, .. } if bit.is_multiple_of(8) => {
                let (from, to) = (*bit as usize / 8, (*bit + *width) as usize / 8);
                (st.image.get(from..to)?, *width)
            }
            CalcInput::Varbit(h) => (st.varbit_bytes(env.ir, *h), st.varbit_len(*h)),
            CalcInput::Constant { pieces, width } => (pieces.as_slice(), *width),
            _ => return None,
        };
        if !width.is_multiple_of(16) {
            return None;
        }
        sum += sum16(bytes);
    }
    if calc.payload {
        sum += sum16(payload(st, packet));
    }
    Some(sum)
}

/// What the parser left of a packet. bmv2 has only as much of it as `truncate`
/// leaves.
fn payload<'a>(st: &State, packet: &'a [u8]) -> &'a [u8] {
    let payload = packet.get(st.payload..).unwrap_or(&[]);
    payload.get(..st.truncate).unwrap_or(payload)
}

/// Puts the inputs together bit by bit; invalid headers are left out.
fn gather(env: &Env<'_>, st: &State, calc: &Calc, packet: &[u8], buffer: &mut Vec<u8>) {
    let mut bits = 0usize;
    let extend = |buffer: &mut Vec<u8>, bits: &mut usize, src: &[u8], bit: usize, width: usize| {
        if bits.is_multiple_of(8) && bit.is_multiple_of(8) && width.is_multiple_of(8) {
            let (from, to) = (bit / 8, (bit + width) / 8);
            buffer.extend_from_slice(src.get(from..to).unwrap_or(&[]));
        } else {
            buffer.resize((*bits + width).div_ceil(8), 0);
            copy_bits(buffer, *bits, src, bit, width);
        }
        *bits += width;
    };
    for input in &calc.inputs {
        match input {
            CalcInput::Bits { header, bit, width } => {
                if st.is_valid(*header) {
                    extend(buffer, &mut bits, &st.image, *bit as usize, *width as usize);
                }
            }
            CalcInput::Varbit(h) => {
                if st.is_valid(*h) {
                    let bytes = st.varbit_bytes(env.ir, *h);
                    extend(buffer, &mut bits, bytes, 0, st.varbit_len(*h) as usize);
                }
            }
            CalcInput::Constant { pieces, width } => {
                let width = *width as usize;
                extend(buffer, &mut bits, pieces, pieces.len() * 8 - width, width);
            }
            CalcInput::Header(h) => {
                if let (true, Some(header)) = (st.is_valid(*h), env.ir.headers.get(usize::from(*h)))
                {
                    super::deparser::parts(env.ir, st, header, *h, |part| {
                        extend(buffer, &mut bits, part, 0, part.len() * 8);
                    });
                }
            }
            CalcInput::Valid(h) => {
                if st.is_valid(*h) {
                    extend(buffer, &mut bits, &[1], 7, 1);
                }
            }
            CalcInput::Number { value, width } => {
                let number = wrap(value.eval(&env.view(st)), *width, false);
                let (_, digits) = number.to_bytes_be();
                let width = *width as usize;
                let mut bytes = vec![0; width.div_ceil(8).saturating_sub(digits.len())];
                bytes.extend_from_slice(&digits);
                extend(buffer, &mut bits, &bytes, bytes.len() * 8 - width, width);
            }
        }
    }
    if calc.payload {
        buffer.extend_from_slice(payload(st, packet));
    }
}

fn applies(env: &Env<'_>, st: &State, c: &Checksum) -> bool {
    c.cond.as_ref().is_none_or(|cond| cond.eval(&env.view(st)))
}

/// Compares a checksum with its field; a difference only sets a flag.
pub(crate) fn verify<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &Checksum,
    packet: &[u8],
    tr: &mut T,
) {
    if !st.is_valid(c.target.header) || !applies(env, st, c) {
        return;
    }
    let Some(calc) = env.ir.calcs.get(c.calc as usize) else {
        return;
    };
    let computed = compute(env, st, calc, packet);
    let ok = match c.span {
        Some(span) => span.load(&st.image) == computed,
        None => u64::try_from(read_field(st, c.target)).is_ok_and(|held| held == computed),
    };
    if !ok {
        st.checksum_error = true;
    }
    tr.event(|| TraceEvent::ChecksumVerified {
        name: c.name.clone(),
        computed,
        ok,
    });
}

/// Writes a checksum into its field, whether or not the header is valid.
pub(crate) fn update<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &Checksum,
    packet: &[u8],
    tr: &mut T,
) {
    if !applies(env, st, c) {
        return;
    }
    let Some(calc) = env.ir.calcs.get(c.calc as usize) else {
        return;
    };
    let computed = compute(env, st, calc, packet);
    write_small(st, c.target, i128::from(computed));
    tr.event(|| TraceEvent::ChecksumUpdated {
        name: c.name.clone(),
        computed,
    });
}
