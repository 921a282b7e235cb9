//! Emitting headers.

use smallvec::SmallVec;

use super::{Env, State, action};
use crate::ir::bits::copy_bits;
use crate::ir::{Emitted, Header, HeaderId, Ir, Order};
use crate::trace::Tracer;

/// Emits the valid headers in order, then what the parser left.
pub(crate) fn run<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    packet: &[u8],
    out: &mut Vec<u8>,
    tr: &mut T,
) {
    out.clear();
    if !env.ir.deparser.body.is_empty() {
        action::run_body(env, st, &env.ir.deparser.body, packet, tr);
    }
    match &env.ir.deparser.order {
        Order::Sorted(by_header) => st.each_valid(|h| {
            if let Some(Some(e)) = by_header.get(h) {
                emit(env.ir, st, e, out);
            }
        }),
        Order::Any(order) => {
            for e in order.iter().filter(|e| st.is_valid(e.header)) {
                emit(env.ir, st, e, out);
            }
        }
    }
    out.extend_from_slice(packet.get(st.payload..).unwrap_or(&[]));
}

/// Emits a header.
#[inline(always)]
fn emit(ir: &Ir, st: &State, e: &Emitted, out: &mut Vec<u8>) {
    if !e.variable {
        let bytes = st.image.get(e.from as usize..e.to as usize);
        out.extend_from_slice(bytes.unwrap_or(&[]));
    } else if let Some(header) = ir.headers.get(usize::from(e.header)) {
        parts(ir, st, header, e.header, |part| out.extend_from_slice(part));
    }
}

/// The bytes of a header on the wire: in one piece, around its varbit, or put
/// together of bits.
#[inline]
pub(crate) fn parts(
    ir: &Ir,
    st: &State,
    header: &Header,
    h: HeaderId,
    mut emit: impl FnMut(&[u8]),
) {
    let from = header.offset as usize;
    match header.varbit {
        None => emit(
            st.image
                .get(from..from + header.fixed as usize)
                .unwrap_or(&[]),
        ),
        Some(v) => {
            let len = st.varbit_len(h) as usize;
            let (before, after) = (v.before as usize, v.after as usize);
            let behind = from + v.behind as usize;
            if [before, len, after].iter().all(|n| n.is_multiple_of(8)) {
                emit(st.image.get(from..from + before / 8).unwrap_or(&[]));
                emit(st.varbit_bytes(ir, h));
                emit(st.image.get(behind..behind + after / 8).unwrap_or(&[]));
                return;
            }
            emit(&of_bits(ir, st, h, [(from, before), (behind, after)]));
        }
    }
}

/// A header whose varbit does not begin or end at a byte. `around` is what is
/// fixed in front of it and behind: first byte in the image, and bits.
#[cold]
fn of_bits(ir: &Ir, st: &State, h: HeaderId, around: [(usize, usize); 2]) -> SmallVec<[u8; 64]> {
    let [(from, before), (behind, after)] = around;
    let len = st.varbit_len(h) as usize;
    let total = (before + len + after).div_ceil(8);
    let mut bytes: SmallVec<[u8; 64]> = SmallVec::from_elem(0, total);
    copy_bits(&mut bytes, 0, &st.image, from * 8, before);
    copy_bits(&mut bytes, before, st.varbit_bytes(ir, h), 0, len);
    copy_bits(&mut bytes, before + len, &st.image, behind * 8, after);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_valid_header_is_found_in_order() {
        for len in [0, 1, 7, 8, 9, 16, 27] {
            for step in [1, 2, 3, 5, 30] {
                let st = State {
                    valid: (0..len).map(|h| h % step == step / 2).collect(),
                    ..State::default()
                };
                let mut found = Vec::new();
                st.each_valid(|h| found.push(h));
                let want: Vec<usize> = (step / 2..len).step_by(step).collect();
                assert_eq!(found, want, "{len} headers, each {step}th");
            }
        }
    }
}
