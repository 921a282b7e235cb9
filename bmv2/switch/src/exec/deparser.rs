//! Emitting headers.

use super::{Env, State, action};
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
    for &h in &env.ir.deparser.order {
        if !st.is_valid(h) {
            continue;
        }
        match env.ir.wires.get(usize::from(h)) {
            Some(w) if !w.variable => {
                let (from, to) = (w.offset as usize, (w.offset + w.fixed) as usize);
                out.extend_from_slice(st.image.get(from..to).unwrap_or(&[]));
            }
            _ => {
                if let Some(header) = env.ir.headers.get(usize::from(h)) {
                    parts(env.ir, st, header, h, |part| out.extend_from_slice(part));
                }
            }
        }
    }
    out.extend_from_slice(packet.get(st.payload..).unwrap_or(&[]));
}

/// The bytes of a header on the wire, in one piece or around its varbit.
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
            let before = v.before as usize;
            emit(st.image.get(from..from + before).unwrap_or(&[]));
            emit(st.varbit_bytes(ir, h));
            let after = from + before + v.max as usize;
            let len = header.fixed as usize - before;
            emit(st.image.get(after..after + len).unwrap_or(&[]));
        }
    }
}
