//! Actions: primitives, one after the other.

use num_bigint::BigInt;

use super::{Env, State, calc};
use crate::ir::bits::{copy_bits, load64, store64, store128};
use crate::ir::expr::{FieldPlace, Num, StackSel, Value, write_field, write_small};
use crate::ir::{FieldKind, HeaderId, Prim, StackId, UnionId};
use crate::switch::DropReason;
use crate::trace::{TraceEvent, Tracer};

/// Most primitives that one run of an action may take: jumps can go back.
const MAX_STEPS: u32 = 1 << 20;
/// bmv2 keeps this many bits of a clone session's id.
const SESSION_MASK: u64 = 0x7fff;

/// Runs primitives until the end, an `exit`, or a fault.
pub(crate) fn run_body<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    body: &[Prim],
    packet: &[u8],
    tr: &mut T,
) {
    let mut at = 0usize;
    let mut steps = 0;
    while let Some(prim) = body.get(at) {
        at = match prim {
            Prim::Jump(to) => *to as usize,
            Prim::JumpIfFalse(cond, to) => {
                if cond.eval(&env.view(st)) {
                    at + 1
                } else {
                    *to as usize
                }
            }
            other => {
                step(env, st, other, packet, tr);
                at + 1
            }
        };
        steps += 1;
        if steps > MAX_STEPS {
            st.fault(DropReason::ProgramFault);
            return;
        }
    }
}

#[inline]
fn word(env: &Env<'_>, st: &State, n: &Num<u64>) -> u64 {
    n.eval(&env.view(st))
}

/// Runs one primitive that does not jump.
pub(crate) fn step<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    prim: &Prim,
    packet: &[u8],
    tr: &mut T,
) {
    match prim {
        Prim::Copy64(to, from) => {
            let v = load64(&st.image, *from);
            store64(&mut st.image, *to, v);
        }
        Prim::SetConst(to, v) => store64(&mut st.image, *to, *v),
        Prim::Set64(to, n) => {
            let v = word(env, st, n);
            store64(&mut st.image, *to, v);
        }
        Prim::Set128(to, n) => {
            let v = n.eval(&env.view(st));
            store128(&mut st.image, *to, v);
        }
        Prim::SetAny(p) => set_any(env, st, &p.0, &p.1),
        Prim::Count(counter, index) => {
            let i = word(env, st, index);
            let bytes = u64::from(st.ingress_length);
            env.pending.count(env.counters, *counter, i, bytes);
        }
        Prim::AddHeader(sel) => {
            if let Some(h) = sel.resolve(&env.view(st)) {
                add_header(env, st, h);
            }
        }
        Prim::RemoveHeader(sel) => {
            if let Some(h) = sel.resolve(&env.view(st)) {
                remove_header(env, st, h);
            }
        }
        Prim::Drop(egress_spec, mcast_grp) => {
            st.set(*egress_spec, u64::from(env.drop_port));
            st.set_optional(*mcast_grp, 0);
        }
        Prim::Exit => st.exit = true,
        Prim::AssignHeader(p) => {
            let v = &env.view(st);
            if let (Some(to), Some(from)) = (p.0.resolve(v), p.1.resolve(v)) {
                assign_header(env, st, to, from);
            }
        }
        other => rare(env, st, other, packet, tr),
    }
}

/// Primitives that a packet seldom meets.
#[inline(never)]
fn rare<T: Tracer>(env: &Env<'_>, st: &mut State, prim: &Prim, packet: &[u8], tr: &mut T) {
    match prim {
        Prim::SetRegister(register, p) | Prim::RegisterWrite(register, p) => {
            let (index, value) = &**p;
            let i = word(env, st, index);
            if let Some(r) = env.registers.get(*register) {
                let done = match value {
                    Value::Word(n, _) => r.write_word(i, word(env, st, n)),
                    _ => false,
                };
                if !done {
                    r.write(i, value.eval(&env.view(st)));
                }
            }
        }
        Prim::RegisterRead(register, p) => {
            let (place, index) = &**p;
            let i = word(env, st, index);
            let Some(r) = env.registers.get(*register) else {
                return;
            };
            if let Some(w) = r.read_word(i) {
                set_small(env, st, place, i128::from(w));
            } else if let Some(v) = r.read(i) {
                set_big(env, st, place, v);
            }
        }
        Prim::AssignVar(to, from) => assign_var(env, st, *to, *from),
        Prim::AssignStack(to, from) => assign_stack(env, st, *to, *from),
        Prim::AssignUnion(p) => {
            let v = &env.view(st);
            if let (Some(to), Some(from)) = (p.0.resolve(v), p.1.resolve(v)) {
                assign_union(env, st, to, from);
            }
        }
        Prim::AssignUnionStack(to, from) => assign_union_stack(env, st, *to, *from),
        Prim::Push(stack, by) => shift(env, st, *stack, *by as usize, true),
        Prim::Pop(stack, by) => shift(env, st, *stack, *by as usize, false),
        Prim::Meter(meter, p) => {
            let (index, place) = &**p;
            let i = word(env, st, index);
            let bytes = u64::from(st.ingress_length);
            if let Some(m) = env.meters.get(*meter as usize)
                && let Some(cell) = usize::try_from(i).ok().and_then(|i| m.cells.get(i))
            {
                let colour = cell.execute(m.unit, bytes, env.now);
                set_small(env, st, place, i128::from(colour));
            }
        }
        Prim::Hash(p) => {
            let Some(calculation) = env.ir.calcs.get(p.calc as usize) else {
                return;
            };
            let (base, max) = (word(env, st, &p.base), word(env, st, &p.max));
            let h = calc::compute(env, st, calculation, packet);
            let v = (h % max.max(1)).wrapping_add(base);
            set_small(env, st, &p.dst, i128::from(v));
        }
        Prim::Random(p) => {
            let (low, high) = (word(env, st, &p.low), word(env, st, &p.high));
            if low > high {
                return;
            }
            let span = u128::from(high - low) + 1;
            // The high half of a product spreads evenly over the span.
            let part = (u128::from(st.random()) * span) >> 64;
            set_small(env, st, &p.dst, i128::from(low) + part as i128);
        }
        Prim::Clone(p) => {
            let session = word(env, st, &p.0) & SESSION_MASK;
            let fields = word(env, st, &p.1) & 0xffff;
            st.requests.clone = Some((session as u16, fields as u32));
        }
        Prim::Resubmit(fields) => {
            st.requests.resubmit = (word(env, st, fields) & 0xffff) as u32;
        }
        Prim::Recirculate(fields) => {
            st.requests.recirculate = (word(env, st, fields) & 0xffff) as u32;
        }
        Prim::Digest(list) => {
            st.requests.digest = (word(env, st, list) & 0xffff) as u32;
        }
        Prim::Truncate(bytes) => {
            let n = usize::try_from(word(env, st, bytes)).unwrap_or(usize::MAX);
            st.truncate = st.truncate.min(n);
        }
        Prim::Log(id) => {
            if let Some(m) = env.ir.log.get(*id as usize) {
                let values: Vec<BigInt> = m.args.iter().map(|a| a.eval(&env.view(st))).collect();
                let text = format_log(&m.format, &values);
                tracing::info!(target: "softswitch::log_msg", "{text}");
                tr.event(|| TraceEvent::Log { text });
            }
        }
        Prim::Assert(cond, id) if !cond.eval(&env.view(st)) => {
            if let Some(m) = env.ir.log.get(*id as usize) {
                tracing::warn!(target: "softswitch::assert", "{}", m.format);
            }
            st.fault(DropReason::Assertion);
        }
        _ => {}
    }
}

/// Fills the `{}` of a `log_msg` format.
fn format_log(format: &str, values: &[BigInt]) -> String {
    let mut out = String::with_capacity(format.len() + 16);
    let mut values = values.iter();
    let mut rest = format;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let Some(close) = from.find('}') else {
            out.push_str(from);
            return out;
        };
        match values.next() {
            Some(v) => out.push_str(&v.to_string()),
            None => out.push_str(from.get(..=close).unwrap_or("")),
        }
        rest = from.get(close + 1..).unwrap_or("");
    }
    out.push_str(rest);
    out
}

fn set_any(env: &Env<'_>, st: &mut State, place: &FieldPlace, value: &Value) {
    match value.eval_small(&env.view(st)) {
        Some(v) => set_small(env, st, place, v),
        None => {
            let v = value.eval(&env.view(st));
            set_big(env, st, place, v);
        }
    }
}

fn set_small(env: &Env<'_>, st: &mut State, place: &FieldPlace, value: i128) {
    if let Some(f) = place.resolve(&env.view(st))
        && f.kind == FieldKind::Plain
    {
        write_small(st, f, value);
    }
}

fn set_big(env: &Env<'_>, st: &mut State, place: &FieldPlace, value: BigInt) {
    if let Some(f) = place.resolve(&env.view(st))
        && f.kind == FieldKind::Plain
    {
        write_field(st, f, value);
    }
}

/// Makes a header valid; one that was not is zeroed.
pub(crate) fn add_header(env: &Env<'_>, st: &mut State, h: HeaderId) {
    if st.is_valid(h) {
        return;
    }
    st.zero(env.ir, h);
    st.set_valid(env.ir, h);
    st.length = st.length.wrapping_add(st.wire_len(env.ir, h));
}

/// Makes a header invalid.
pub(crate) fn remove_header(env: &Env<'_>, st: &mut State, h: HeaderId) {
    if !st.is_valid(h) {
        return;
    }
    st.length = st.length.wrapping_sub(st.wire_len(env.ir, h));
    st.set_invalid(h);
}

/// A header becomes a copy of another of its type; of an invalid one, only
/// invalid.
pub(crate) fn assign_header(env: &Env<'_>, st: &mut State, to: HeaderId, from: HeaderId) {
    if !st.is_valid(from) {
        st.set_invalid(to);
        return;
    }
    st.set_valid(env.ir, to);
    copy_header(env, st, to, from);
}

/// Copies what a header holds.
fn copy_header(env: &Env<'_>, st: &mut State, to: HeaderId, from: HeaderId) {
    let get = |h: HeaderId| env.ir.headers.get(usize::from(h));
    if let (Some(d), Some(s)) = (get(to), get(from)) {
        let (start, len) = (s.offset as usize, s.size.min(d.size) as usize);
        if start + len <= st.image.len() && d.offset as usize + len <= st.image.len() {
            st.image.copy_within(start..start + len, d.offset as usize);
        }
        st.set_varbit_len(to, st.varbit_len(from));
    }
}

fn assign_var(env: &Env<'_>, st: &mut State, to: HeaderId, from: HeaderId) {
    let get = |h: HeaderId| env.ir.headers.get(usize::from(h));
    let (Some(d), Some(s)) = (get(to), get(from)) else {
        return;
    };
    let (Some(dv), Some(sv)) = (d.varbit, s.varbit) else {
        return;
    };
    let len = st.varbit_len(from).min(dv.max).min(sv.max);
    let bytes = st.varbit_bytes(env.ir, from).to_vec();
    let to_bit = (d.offset + dv.at) as usize * 8;
    copy_bits(&mut st.image, to_bit, &bytes, 0, len as usize);
    st.set_varbit_len(to, len);
}

fn assign_stack(env: &Env<'_>, st: &mut State, to: StackId, from: StackId) {
    let get = |s: StackId| env.ir.stacks.get(usize::from(s));
    if let (Some(d), Some(s)) = (get(to), get(from)) {
        st.set_next_index(to, st.next_index(from));
        for (&d, &s) in d.headers.iter().zip(&s.headers) {
            assign_header(env, st, d, s);
        }
    }
}

fn assign_union(env: &Env<'_>, st: &mut State, to: UnionId, from: UnionId) {
    let get = |u: UnionId| env.ir.unions.get(usize::from(u));
    if let (Some(d), Some(s)) = (get(to), get(from)) {
        // Invalid members first: making one valid invalidates the others.
        for (&d, &s) in d.headers.iter().zip(&s.headers) {
            if !st.is_valid(s) {
                st.set_invalid(d);
            }
        }
        for (&d, &s) in d.headers.iter().zip(&s.headers) {
            if st.is_valid(s) {
                assign_header(env, st, d, s);
            }
        }
    }
}

fn union_stack<'a>(env: &Env<'a>, s: StackId) -> Option<&'a [UnionId]> {
    let i = usize::from(s).checked_sub(env.ir.stacks.len())?;
    Some(&env.ir.union_stacks.get(i)?.unions)
}

fn assign_union_stack(env: &Env<'_>, st: &mut State, to: StackId, from: StackId) {
    if let (Some(d), Some(s)) = (union_stack(env, to), union_stack(env, from)) {
        st.set_next_index(to, st.next_index(from));
        for (&d, &s) in d.iter().zip(s) {
            assign_union(env, st, d, s);
        }
    }
}

/// `push_front` and `pop_front` by the rules of P4_16: elements move, what
/// comes in is invalid.
fn shift(env: &Env<'_>, st: &mut State, stack: StackSel, by: usize, push: bool) {
    let id = stack.0;
    // One row of headers for each element; a union has several.
    let rows: Vec<&[HeaderId]> = match env.ir.stacks.get(usize::from(id)) {
        Some(s) => s.headers.iter().map(std::slice::from_ref).collect(),
        None => union_stack(env, id)
            .unwrap_or(&[])
            .iter()
            .filter_map(|&u| env.ir.unions.get(usize::from(u)))
            .map(|u| u.headers.as_slice())
            .collect(),
    };
    let size = rows.len();
    let by = by.min(size);
    if by == 0 {
        return;
    }
    let move_row = |st: &mut State, to: usize, from: Option<usize>| {
        let Some(&row) = rows.get(to) else { return };
        for (i, &h) in row.iter().enumerate() {
            let source = from.and_then(|f| rows.get(f)?.get(i).copied());
            st.set_invalid(h);
            if let Some(s) = source {
                copy_header(env, st, h, s);
            }
        }
        for (i, &h) in row.iter().enumerate() {
            let source = from.and_then(|f| rows.get(f)?.get(i).copied());
            if source.is_some_and(|s| st.is_valid(s)) {
                st.set_valid(env.ir, h);
            }
        }
    };
    let next = st.next_index(id) as usize;
    let next = if push {
        for to in (0..size).rev() {
            move_row(st, to, to.checked_sub(by));
        }
        (next + by).min(size)
    } else {
        for to in 0..size {
            move_row(st, to, Some(to + by).filter(|&f| f < size));
        }
        next.saturating_sub(by)
    };
    st.set_next_index(id, u32::try_from(next).unwrap_or(0));
}
