//! What an action changed, for traces.

use super::{Env, State};
use crate::control::ActionCall;
use crate::program::{ActionId, Program};
use crate::tables::unpack_call;
use crate::trace::{TraceEvent, Tracer};

/// Reports an action that is about to run, its parameters in place.
pub(super) fn action<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    st: &State,
    action: u32,
    tr: &mut T,
) {
    let ActionCall { params, .. } = unpack_call(env.ir, ActionId(action), &st.params);
    let name = program
        .actions
        .get(action as usize)
        .map_or_else(String::new, |a| a.name.clone());
    tr.event(|| TraceEvent::Action {
        name,
        params: params.iter().map(|p| hex(p)).collect(),
    });
}

/// Bytes as a hexadecimal number.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::from("0x"), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// Reports what differs between two states.
pub(super) fn changes<T: Tracer>(env: &Env<'_>, before: &State, after: &State, tr: &mut T) {
    for (i, h) in env.ir.headers.iter().enumerate() {
        let id = u16::try_from(i).unwrap_or(u16::MAX);
        if before.is_valid(id) != after.is_valid(id) {
            tr.event(|| TraceEvent::ValidityChanged {
                header: h.name.clone(),
                valid: after.is_valid(id),
            });
        }
        for (f, name) in h.fields.iter().zip(&h.field_names) {
            if f.kind != crate::ir::FieldKind::Plain {
                continue;
            }
            let (from, to) = (
                crate::ir::expr::read_field(before, *f),
                crate::ir::expr::read_field(after, *f),
            );
            if from != to {
                tr.event(|| TraceEvent::FieldChanged {
                    field: format!("{}.{name}", h.name),
                    from: format!("{from:#x}"),
                    to: format!("{to:#x}"),
                });
            }
        }
    }
}
