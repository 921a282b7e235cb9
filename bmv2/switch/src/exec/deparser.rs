//! Emitting headers.

use smallvec::SmallVec;

use super::{Env, State, action};
use crate::ir::bits::copy_bits;
use crate::ir::{Header, HeaderId, Ir};
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
    for e in &env.ir.deparser.order {
        if !st.is_valid(e.header) {
            continue;
        }
        if !e.variable {
            let bytes = st.image.get(e.from as usize..e.to as usize);
            out.extend_from_slice(bytes.unwrap_or(&[]));
        } else if let Some(header) = env.ir.headers.get(usize::from(e.header)) {
            parts(env.ir, st, header, e.header, |part| {
                out.extend_from_slice(part);
            });
        }
    }
    out.extend_from_slice(packet.get(st.payload..).unwrap_or(&[]));
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
