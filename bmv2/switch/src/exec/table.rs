//! Applying a table.

use std::sync::atomic::AtomicU64;

use super::changes::hex;
use super::{Env, State, calc, recent};
use crate::ir::DirectMeter;
use crate::ir::code::{Applied, Called, Code, Key, Pc};
use crate::ir::expr::write_field;
use crate::program::{Program, TableId, Unit};
use crate::tables::key::gather;
use crate::tables::profile::Profile;
use crate::tables::{Found, Kind, Table};
use crate::trace::{TraceEvent, Tracer};

/// Looks a table up and puts the parameters of the action to run in place:
/// where that action begins, and where to go on after it. Without an action
/// both are the same. Not inlined: it would take registers from the loop that
/// calls it.
#[inline(never)]
pub(super) fn apply<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    code: &Code,
    st: &mut State,
    id: u32,
    packet: &[u8],
    tr: &mut T,
) -> (Pc, Pc) {
    let index = id as usize;
    let (Some(t), Some(applied)) = (env.tables.tables.get(index), code.tables.get(index)) else {
        return (0, 0);
    };
    // A short key, to remember what comes of it.
    let mut short = None;
    let found = match &applied.key {
        Key::One(word) => {
            let Some(image) = st.image.reach() else {
                return (0, 0);
            };
            let word = word.load(image, &st.valid);
            if let Some(next) = recall::<T>(env, st, index, [word, 0]) {
                return next;
            }
            short = Some([word, 0]);
            find::<T, 1>(t, st, [word])
        }
        Key::Two(words) => {
            let Some(image) = st.image.reach() else {
                return (0, 0);
            };
            let [first, second] = &**words;
            let key = [first.load(image, &st.valid), second.load(image, &st.valid)];
            if let Some(next) = recall::<T>(env, st, index, key) {
                return next;
            }
            short = Some(key);
            find::<T, 2>(t, st, key)
        }
        key => find_other(env, t, index, st, key).map(|slot| t.entry(slot)),
    };
    if T::ON {
        trace(env, program, st, index, found, tr);
    }
    if let Some(found) = found {
        if t.is_noted() {
            note_hit(env, st, index, t, found.slot, found.record);
        }
        let (kind, value) = t.action(found.record);
        let called = if kind == Kind::Call {
            let called = applied.actions.get(value as usize);
            if let Some(c) = called
                && let Some(params) = t.params(found.record, c.words as usize)
            {
                st.set_params(params);
                // A trace's calls lead into its own code.
                if let Some(key) = short
                    && !T::ON
                    && !t.is_noted()
                {
                    env.recent.keep(index, key, c, params);
                }
            }
            called
        } else {
            // A group without an active member is a miss.
            indirect(env, st, index, applied, (kind, value), packet)
        };
        if let Some(called) = called {
            return (called.start, called.hit);
        }
    } else if t.is_noted() {
        note_miss(env, st, index, t);
    }
    let called = t.default.as_ref().and_then(|d| {
        if d.kind == Kind::Call {
            st.set_params(&d.params);
            applied.actions.get(d.value as usize)
        } else {
            indirect(env, st, index, applied, (d.kind, d.value), packet)
        }
    });
    match called {
        Some(called) => (called.start, called.miss),
        None => (applied.otherwise, applied.otherwise),
    }
}

/// Puts the parameters in place that the table's last key led to, if this is
/// the same: where the action begins and where to go on.
#[inline(always)]
fn recall<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    index: usize,
    key: [u64; recent::WORDS],
) -> Option<(Pc, Pc)> {
    if T::ON {
        return None;
    }
    let call = env.recent.call(index, key)?;
    for (to, word) in st.params.iter_mut().zip(call.params) {
        *to = word;
    }
    Some((call.start, call.hit))
}

/// The entry that a short key matches.
#[inline(always)]
fn find<'t, T: Tracer, const N: usize>(
    t: &'t Table,
    st: &mut State,
    key: [u64; N],
) -> Option<Found<'t>> {
    if T::ON
        && let Some(kept) = st.key.get_mut(..N)
    {
        kept.copy_from_slice(&key);
    }
    t.lookup(key)
}

/// The slot that any other key matches.
#[inline(never)]
fn find_other(env: &Env<'_>, t: &Table, index: usize, st: &mut State, how: &Key) -> Option<u32> {
    let layout = &env.ir.tables.get(index)?.layout;
    let mut key = std::mem::take(&mut st.key);
    let found = key.get_mut(..layout.words).and_then(|key| {
        if let Key::More(words) = how {
            for (to, word) in key.iter_mut().zip(words) {
                *to = word.load(&st.image, &st.valid);
            }
        } else {
            layout.build(&env.view(st), key);
        }
        t.lookup(&*key).map(|found| found.slot)
    });
    st.key = key;
    found
}

/// Reports what a table was asked and what it found.
fn trace<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    st: &State,
    index: usize,
    found: Option<Found<'_>>,
    tr: &mut T,
) {
    let entry = found.and_then(|f| {
        let table = TableId(u32::try_from(index).ok()?);
        env.tables
            .entry_state(program, table, f.slot, env.now)
            .map(Box::new)
    });
    let fields = env.ir.tables.get(index).map(|t| t.layout.fields.as_slice());
    tr.event(|| TraceEvent::Table {
        name: program
            .tables
            .get(index)
            .map_or_else(String::new, |t| t.name.clone()),
        key: fields
            .unwrap_or(&[])
            .iter()
            .map(|f| (f.name.clone(), hex(&gather(f, &st.key))))
            .collect(),
        entry,
    });
}

/// Counts a hit, notes its time, and lets the entry's meter mark the packet.
#[inline(never)]
fn note_hit(
    env: &Env<'_>,
    st: &mut State,
    index: usize,
    t: &Table,
    slot: u32,
    record: &[AtomicU64],
) {
    let bytes = u64::from(st.ingress_length);
    t.note_hit(record, bytes, env.now);
    if let Some(cell) = t.meter(slot)
        && let Some(meter) = meter_of(env, index)
    {
        let colour = cell.execute(unit_of(env, meter), bytes, env.now);
        set_colour(st, meter, colour);
    }
}

/// What the default entry's direct resources make of a packet that nothing else
/// matched.
#[inline(never)]
fn note_miss(env: &Env<'_>, st: &mut State, index: usize, t: &Table) {
    let bytes = u64::from(st.ingress_length);
    if t.is_counted() {
        env.pending.miss(index, bytes);
    }
    if let Some(meter) = meter_of(env, index)
        && let Some(colour) = t
            .miss_meter()
            .execute_if_set(unit_of(env, meter), bytes, env.now)
    {
        set_colour(st, meter, colour);
    }
}

/// A table's direct meter.
fn meter_of<'e>(env: &Env<'e>, index: usize) -> Option<&'e DirectMeter> {
    env.ir.tables.get(index)?.meter.as_ref()
}

/// What a table's meter counts.
fn unit_of(env: &Env<'_>, meter: &DirectMeter) -> Unit {
    let meter = env.meters.get(meter.id as usize);
    meter.map_or(Unit::Packets, |m| m.unit)
}

/// Writes what a table's meter makes of a packet to where the program wants it.
fn set_colour(st: &mut State, meter: &DirectMeter, colour: u64) {
    match meter.loc {
        Some(loc) => st.set(loc, colour),
        None => write_field(st, meter.result, colour.into()),
    }
}

/// The action of a profile's member, or of one that a group's selector
/// chooses; its parameters are put in place.
#[inline(never)]
fn indirect<'a>(
    env: &Env<'_>,
    st: &mut State,
    index: usize,
    applied: &'a Applied,
    (kind, value): (Kind, u32),
    packet: &[u8],
) -> Option<&'a Called> {
    let profile = env.ir.tables.get(index)?.profile? as usize;
    let p: &Profile = env.tables.profiles.get(profile)?;
    let member = if kind == Kind::Member {
        p.member(value)
    } else {
        let hash = if p.is_random(value) {
            st.random()
        } else {
            let selector = env.ir.selectors.get(profile).and_then(Option::as_ref);
            selector.map_or(0, |s| calc::compute(env, st, s, packet))
        };
        p.choose(value, hash)
    }?;
    st.set_params(&member.params);
    applied.actions.get(member.action as usize)
}
