//! Walking a pipeline: conditions, tables, actions.

use std::sync::atomic::Ordering;

use super::{Env, State, action, calc};
use crate::control::ActionCall;
use crate::ir::{Node, NodeId};
use crate::program::{ActionId, Program, TableId};
use crate::tables::key::gather;
use crate::tables::{Kind, unpack_call};
use crate::trace::{TraceEvent, Tracer};

/// Runs a pipeline from its first node.
pub(crate) fn run<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    st: &mut State,
    first: NodeId,
    packet: &[u8],
    tr: &mut T,
) {
    st.exit = false;
    let mut node = first;
    // Graphs have no loops (checked when loaded), so this ends.
    while let Some(n) = env.ir.nodes.get(node as usize) {
        node = match n {
            Node::If { cond, yes, no } => {
                let value = cond.eval(&env.view(st));
                tr.event(|| TraceEvent::Condition {
                    name: env
                        .ir
                        .node_names
                        .get(node as usize)
                        .cloned()
                        .unwrap_or_default(),
                    value,
                });
                if value { *yes } else { *no }
            }
            Node::Call { action, next } => {
                st.params.clear();
                call(env, program, st, *action, packet, tr);
                *next
            }
            Node::Table(t) => table(env, program, st, *t, packet, tr),
        };
        if st.exit || st.faulted().is_some() {
            return;
        }
    }
}

fn table<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    st: &mut State,
    id: u32,
    packet: &[u8],
    tr: &mut T,
) -> NodeId {
    let (Some(ir), Some(t)) = (
        env.ir.tables.get(id as usize),
        env.tables.tables.get(id as usize),
    ) else {
        return crate::ir::END;
    };
    let mut key = std::mem::take(&mut st.key);
    let mut scratch = std::mem::take(&mut st.scratch);
    let slot = key.get_mut(..ir.layout.words).and_then(|key| {
        ir.layout.build(st, key);
        t.lookup(&ir.layout, key, &mut scratch)
    });
    st.key = key;
    st.scratch = scratch;
    if T::ON {
        let found = slot.and_then(|s| {
            env.tables
                .entry_state(program, TableId(id), s, env.now)
                .map(Box::new)
        });
        tr.event(|| TraceEvent::Table {
            name: program
                .tables
                .get(id as usize)
                .map_or_else(String::new, |t| t.name.clone()),
            key: ir
                .layout
                .fields
                .iter()
                .map(|f| (f.name.clone(), hex(&gather(f, &st.key))))
                .collect(),
            entry: found,
        });
    }
    let profile = ir.profile.and_then(|p| env.tables.profiles.get(p as usize));
    if let Some(slot) = slot {
        let (kind, value, words) = t.hit(slot, u64::from(st.ingress_length), env.now);
        if let (Some((meter, result)), Some(cell)) = (ir.meter, t.meter(slot)) {
            let unit = env
                .meters
                .get(meter as usize)
                .map_or(crate::program::Unit::Packets, |m| m.unit);
            let colour = cell.execute(unit, u64::from(st.ingress_length), env.now);
            st.set(result, colour);
        }
        let action = match kind {
            Kind::Call => {
                let n = env.ir.actions.get(value as usize).map_or(0, |a| a.words);
                st.params.clear();
                st.params
                    .extend(words.iter().take(n).map(|w| w.load(Ordering::Relaxed)));
                Some(value)
            }
            Kind::Member | Kind::Group => profile.and_then(|p| {
                let member = if kind == Kind::Member {
                    p.member(value)
                } else {
                    let hash = ir
                        .profile
                        .and_then(|i| env.ir.selectors.get(i as usize))
                        .and_then(Option::as_ref)
                        .map_or(0, |s| calc::compute(env, st, s, packet));
                    p.choose(value, hash)
                }?;
                st.params.clear();
                st.params.extend_from_slice(&member.params);
                Some(member.action)
            }),
        };
        // A group without an active member is a miss.
        if let Some(action) = action {
            call(env, program, st, action, packet, tr);
            return ir
                .hit
                .unwrap_or_else(|| next_of(&ir.next, action, ir.base_default_next));
        }
    }
    let Some(d) = &t.default else {
        return ir.miss.unwrap_or(ir.base_default_next);
    };
    let action = match d.kind {
        Kind::Call => {
            st.params.clear();
            st.params.extend_from_slice(&d.params);
            Some(d.value)
        }
        Kind::Member | Kind::Group => profile.and_then(|p| {
            let member = if d.kind == Kind::Member {
                p.member(d.value)
            } else {
                let hash = ir
                    .profile
                    .and_then(|i| env.ir.selectors.get(i as usize))
                    .and_then(Option::as_ref)
                    .map_or(0, |s| calc::compute(env, st, s, packet));
                p.choose(d.value, hash)
            }?;
            st.params.clear();
            st.params.extend_from_slice(&member.params);
            Some(member.action)
        }),
    };
    match action {
        Some(action) => {
            call(env, program, st, action, packet, tr);
            ir.miss
                .unwrap_or_else(|| next_of(&ir.next, action, ir.base_default_next))
        }
        None => ir.miss.unwrap_or(ir.base_default_next),
    }
}

fn next_of(next: &[NodeId], action: u32, fallback: NodeId) -> NodeId {
    next.get(action as usize).copied().unwrap_or(fallback)
}

/// Runs an action whose parameters are in place.
fn call<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    st: &mut State,
    action: u32,
    packet: &[u8],
    tr: &mut T,
) {
    let Some(a) = env.ir.actions.get(action as usize) else {
        return;
    };
    if !T::ON {
        return action::run_body(env, st, &a.body, packet, tr);
    }
    let ActionCall { params, .. } = unpack_call(env.ir, ActionId(action), &st.params);
    let name = program
        .actions
        .get(action as usize)
        .map_or_else(String::new, |a| a.name.clone());
    tr.event(|| TraceEvent::Action {
        name,
        params: params.iter().map(|p| hex(p)).collect(),
    });
    let before = st.clone();
    action::run_body(env, st, &a.body, packet, tr);
    changes(env, &before, st, tr);
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::from("0x"), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// Reports what differs between two states.
fn changes<T: Tracer>(env: &Env<'_>, before: &State, after: &State, tr: &mut T) {
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
