//! Applying a table.

use std::sync::atomic::Ordering;

use super::changes::hex;
use super::{Env, State, calc};
use crate::ir::DirectMeter;
use crate::ir::code::{Code, KeyPart, Pc, Targets};
use crate::ir::expr::write_field;
use crate::program::{Program, TableId, Unit};
use crate::tables::key::gather;
use crate::tables::profile::Profile;
use crate::tables::{Kind, Table};
use crate::trace::{TraceEvent, Tracer};

/// Looks a table up: the action to run, its parameters in place, and where to
/// go on after it.
pub(super) fn apply<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    code: &Code,
    st: &mut State,
    id: u32,
    packet: &[u8],
    tr: &mut T,
) -> (Option<u32>, Pc) {
    let index = id as usize;
    let (Some(ir), Some(t), Some(targets)) = (
        env.ir.tables.get(index),
        env.tables.tables.get(index),
        code.tables.get(index),
    ) else {
        return (None, 0);
    };
    let slot = match code.keys.get(index) {
        Some(parts) if !parts.is_empty() => {
            let State {
                image, valid, key, ..
            } = st;
            key.get_mut(..ir.layout.words).and_then(|key| {
                build_key(parts, image, valid, key);
                t.lookup(&ir.layout, key)
            })
        }
        _ => {
            let mut key = std::mem::take(&mut st.key);
            let slot = key.get_mut(..ir.layout.words).and_then(|key| {
                ir.layout.build(&env.view(st), key);
                t.lookup(&ir.layout, key)
            });
            st.key = key;
            slot
        }
    };
    if T::ON {
        let found = slot.and_then(|s| {
            env.tables
                .entry_state(program, TableId(id), s, env.now)
                .map(Box::new)
        });
        tr.event(|| TraceEvent::Table {
            name: program
                .tables
                .get(index)
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
    if let Some(slot) = slot {
        let (kind, value, words) = t.hit(slot, u64::from(st.ingress_length), env.now);
        if let (Some(meter), Some(cell)) = (&ir.meter, t.meter(slot)) {
            let bytes = u64::from(st.ingress_length);
            let colour = cell.execute(unit_of(env, meter), bytes, env.now);
            set_colour(st, meter, colour);
        }
        let action = if kind == Kind::Call {
            let n = env.ir.actions.get(value as usize).map_or(0, |a| a.words);
            st.set_params(words.iter().take(n).map(|w| w.load(Ordering::Relaxed)));
            Some(value)
        } else {
            indirect(env, st, ir.profile, kind, value, packet)
        };
        // A group without an active member is a miss.
        if let Some(action) = action {
            let next = targets.hit.unwrap_or_else(|| after(targets, action));
            return (Some(action), next);
        }
    }
    if slot.is_none() {
        missed(env, st, index, t, ir.meter.as_ref());
    }
    let Some(d) = &t.default else {
        return (None, targets.miss.unwrap_or(targets.base_default));
    };
    let action = if d.kind == Kind::Call {
        st.set_params(d.params.iter().copied());
        Some(d.value)
    } else {
        indirect(env, st, ir.profile, d.kind, d.value, packet)
    };
    let next = targets.miss.unwrap_or_else(|| match action {
        Some(action) => after(targets, action),
        None => targets.base_default,
    });
    (action, next)
}

/// What the default entry's direct resources make of a packet that nothing else
/// matched. Out of line: where packets are many they match.
#[inline(never)]
fn missed(env: &Env<'_>, st: &mut State, index: usize, t: &Table, meter: Option<&DirectMeter>) {
    let bytes = u64::from(st.ingress_length);
    if t.is_counted() {
        env.pending.miss(index, bytes);
    }
    if let Some(meter) = meter
        && let Some(colour) = t
            .miss_meter()
            .execute_if_set(unit_of(env, meter), bytes, env.now)
    {
        set_colour(st, meter, colour);
    }
}

/// What a table's meter counts.
#[inline]
fn unit_of(env: &Env<'_>, meter: &DirectMeter) -> Unit {
    let meter = env.meters.get(meter.id as usize);
    meter.map_or(Unit::Packets, |m| m.unit)
}

/// Writes what a table's meter makes of a packet to where the program wants it.
#[inline]
fn set_colour(st: &mut State, meter: &DirectMeter, colour: u64) {
    match meter.loc {
        Some(loc) => st.set(loc, colour),
        None => write_field(st, meter.result, colour.into()),
    }
}

/// The packet's key, word by word.
#[inline]
fn build_key(parts: &[KeyPart], image: &[u8], valid: &[bool], key: &mut [u64]) {
    let mut words = key.iter_mut();
    let mut word = 0;
    for p in parts {
        // Fields of invalid headers read as zero.
        let there = p
            .header
            .is_none_or(|h| valid.get(usize::from(h)) == Some(&true));
        if there {
            word |= p.field.load(image) << (p.shift % 64);
        }
        if p.last {
            if let Some(w) = words.next() {
                *w = word;
            }
            word = 0;
        }
    }
}

/// The action of a profile's member, or of one that a group's selector
/// chooses; its parameters are put in place.
#[inline(never)]
fn indirect(
    env: &Env<'_>,
    st: &mut State,
    profile: Option<u32>,
    kind: Kind,
    value: u32,
    packet: &[u8],
) -> Option<u32> {
    let index = profile? as usize;
    let p: &Profile = env.tables.profiles.get(index)?;
    let member = if kind == Kind::Member {
        p.member(value)
    } else {
        let hash = if p.is_random(value) {
            st.random()
        } else {
            let selector = env.ir.selectors.get(index).and_then(Option::as_ref);
            selector.map_or(0, |s| calc::compute(env, st, s, packet))
        };
        p.choose(value, hash)
    }?;
    st.set_params(member.params.iter().copied());
    Some(member.action)
}

fn after(targets: &Targets, action: u32) -> Pc {
    targets
        .next
        .get(action as usize)
        .copied()
        .unwrap_or(targets.base_default)
}
