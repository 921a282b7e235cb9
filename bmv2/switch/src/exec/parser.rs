//! The parser: extracts headers along its states.

use super::image::Image;
use super::{Env, State, action};
use crate::ir::bits::{copy_bits, load_word, load64, mask64, read_bits, store_bytes};
use crate::ir::expr::{read_field, write_field};
use crate::ir::{
    END, Field, FieldKind, HeaderId, Lookahead, ParserOp, Select, SelectPart, SelectSource,
    StackId, WideTest, WordCase,
};
use crate::trace::{TraceEvent, Tracer};

/// Most states that a packet may visit: a parser that loops without taking
/// bytes ends with `ParserTimeout`.
const MAX_STEPS: u32 = 4096;
/// Words of the widest select key.
const MAX_KEY_WORDS: usize = 64;

/// Where in the packet the parser is.
struct Cursor<'a> {
    packet: &'a [u8],
    /// What it has not taken.
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Takes bytes, if there are so many.
    #[inline(always)]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }
}

/// Runs the parser; `Err` is P4's error code. Bytes taken stay taken.
pub(crate) fn run<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    packet: &[u8],
    tr: &mut T,
) -> Result<(), u32> {
    let mut c = Cursor {
        packet,
        rest: packet,
    };
    let result = states(env, st, &mut c, tr);
    st.payload = packet.len() - c.rest.len();
    result
}

fn states<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &mut Cursor<'_>,
    tr: &mut T,
) -> Result<(), u32> {
    let mut state = env.ir.parser.start;
    for _ in 0..MAX_STEPS {
        let Some(s) = env.ir.parser.states.get(state as usize) else {
            return Ok(());
        };
        tr.event(|| TraceEvent::ParserState {
            name: s.name.clone(),
        });
        for op in &s.ops {
            step(env, st, c, op, tr)?;
        }
        state = match &s.select {
            Select::Always(next) => *next,
            Select::Image {
                byte,
                cases,
                default,
            } => case_of(load_word(&st.image, (*byte).into()), cases, *default),
            other => choose(env, st, c, other)?,
        };
        if state == END {
            return Ok(());
        }
    }
    Err(env.ir.errors.parser_timeout)
}

/// Where a state goes on whose key is put together.
#[inline(never)]
fn choose(env: &Env<'_>, st: &State, c: &Cursor<'_>, select: &Select) -> Result<u32, u32> {
    Ok(match select {
        Select::Always(next) => *next,
        Select::Image { default, .. } => *default,
        Select::Word {
            key,
            cases,
            default,
        } => {
            let mut word = 0;
            for part in key {
                word |= part_bits(env, st, c, part)? << part.shift;
            }
            case_of(word, cases, *default)
        }
        Select::Wide {
            key,
            words,
            cases,
            default,
        } => {
            let mut buffer = [0u64; MAX_KEY_WORDS];
            for part in key {
                let bits = part_bits(env, st, c, part)? << part.shift;
                if let Some(w) = buffer.get_mut(usize::from(part.word)) {
                    *w |= bits;
                }
            }
            let key = buffer.get(..*words).unwrap_or(&buffer);
            cases
                .iter()
                .find(|case| match &case.test {
                    WideTest::Mask(masks) => matches(key, masks),
                    WideTest::Vset(set, mask) => env
                        .tables
                        .vsets
                        .get(*set as usize)
                        .is_some_and(|members| members.iter().any(|m| m.matches(key, mask))),
                })
                .map_or(*default, |case| case.next)
        }
    })
}

/// The state that a key of one word leads to.
#[inline(always)]
fn case_of(word: u64, cases: &[WordCase], default: u32) -> u32 {
    cases
        .iter()
        .find(|case| word & case.mask == case.value)
        .map_or(default, |case| case.next)
}

fn matches(key: &[u64], masks: &[(u64, u64)]) -> bool {
    key.iter().zip(masks).all(|(k, (v, m))| k & m == *v)
}

#[inline]
fn part_bits(env: &Env<'_>, st: &State, c: &Cursor<'_>, part: &SelectPart) -> Result<u64, u32> {
    let of = |h: HeaderId, field: u16, right: u32, width: u32| {
        let f = env
            .ir
            .headers
            .get(usize::from(h))
            .and_then(|h| h.fields.get(usize::from(field)));
        f.map_or(0, |f| {
            read_bits(
                &st.image,
                (f.bit + f.width - right - width) as usize,
                width as usize,
            )
        })
    };
    Ok(match &part.source {
        SelectSource::Field(loc) => load64(&st.image, *loc),
        SelectSource::Valid(h) => u64::from(st.is_valid(*h)),
        SelectSource::StackLast(stack, field, right, width) => {
            match last_of_stack(env, st, *stack) {
                Some(h) => of(h, *field, *right, *width),
                None => return Err(env.ir.errors.stack_out_of_bounds),
            }
        }
        SelectSource::UnionStackLast(stack, member, field, right, width) => {
            let i = (st.next_index(*stack) as usize).checked_sub(1);
            match i.and_then(|i| union_member(env, *stack, i, *member)) {
                Some(h) => of(h, *field, *right, *width),
                None => return Err(env.ir.errors.stack_out_of_bounds),
            }
        }
        SelectSource::Number(n, right, width) => (n.eval(&env.view(st)) >> right) & mask64(*width),
        SelectSource::Lookahead(l) => {
            check_ahead(env, c, *l)?;
            read_bits(c.rest, l.bit as usize, l.width as usize)
        }
    })
}

fn last_of_stack(env: &Env<'_>, st: &State, stack: StackId) -> Option<HeaderId> {
    let i = (st.next_index(stack) as usize).checked_sub(1)?;
    env.ir
        .stacks
        .get(usize::from(stack))?
        .headers
        .get(i)
        .copied()
}

fn union_member(env: &Env<'_>, stack: StackId, index: usize, member: u16) -> Option<HeaderId> {
    let s = usize::from(stack).checked_sub(env.ir.stacks.len())?;
    let u = *env.ir.union_stacks.get(s)?.unions.get(index)?;
    env.ir
        .unions
        .get(usize::from(u))?
        .headers
        .get(usize::from(member))
        .copied()
}

fn check_ahead(env: &Env<'_>, c: &Cursor<'_>, l: Lookahead) -> Result<(), u32> {
    let end = (l.bit as usize + l.width as usize).div_ceil(8);
    if c.rest.len() < end {
        return Err(env.ir.errors.packet_too_short);
    }
    Ok(())
}

/// Runs one operation.
#[inline(always)]
fn step<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &mut Cursor<'_>,
    op: &ParserOp,
    tr: &mut T,
) -> Result<(), u32> {
    match op {
        ParserOp::ExtractFixed {
            header,
            offset,
            len,
        } => {
            copy_header(env, st, c, *offset, *len)?;
            st.set_valid_alone(*header);
            tr.event(|| TraceEvent::Extracted {
                header: header_name(env, *header),
                bytes: *len as usize,
            });
        }
        ParserOp::SetConst { byte, value } => {
            store_bytes(&mut st.image, *byte, value.to_be_bytes());
        }
        ParserOp::SetField { byte, field } => {
            let value = field.load(&st.image);
            store_bytes(&mut st.image, *byte, value.to_be_bytes());
        }
        ParserOp::SetTest { byte, test } => {
            let value = u64::from(test.eval(&st.image));
            store_bytes(&mut st.image, *byte, value.to_be_bytes());
        }
        ParserOp::VerifyField { test, error } => {
            if !test.eval(&st.image) {
                return Err(*error);
            }
        }
        // All the others, by name: the choice needs no check then.
        ParserOp::Extract(_)
        | ParserOp::ExtractStack(_)
        | ParserOp::ExtractUnionStack(..)
        | ParserOp::ExtractVar(..)
        | ParserOp::ExtractVarStack(..)
        | ParserOp::ExtractVarUnionStack(..)
        | ParserOp::SetLookahead(..)
        | ParserOp::Advance(_)
        | ParserOp::Verify(..)
        | ParserOp::Primitive(_) => return rare(env, st, c, op, tr),
    }
    Ok(())
}

/// Runs an operation that has no direct form.
#[inline(never)]
fn rare<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &mut Cursor<'_>,
    op: &ParserOp,
    tr: &mut T,
) -> Result<(), u32> {
    match op {
        ParserOp::Extract(h) => extract(env, st, c, *h, tr),
        ParserOp::ExtractVar(h, bits) => {
            let bits = bits.eval(&env.view(st));
            extract_var(env, st, c, *h, bits, tr)
        }
        ParserOp::ExtractStack(s) => {
            let h = next_of_stack(env, st, *s)?;
            extract(env, st, c, h, tr)?;
            st.set_next_index(*s, st.next_index(*s) + 1);
            Ok(())
        }
        ParserOp::ExtractVarStack(s, bits) => {
            let h = next_of_stack(env, st, *s)?;
            let bits = bits.eval(&env.view(st));
            extract_var(env, st, c, h, bits, tr)?;
            st.set_next_index(*s, st.next_index(*s) + 1);
            Ok(())
        }
        ParserOp::ExtractUnionStack(s, m) => {
            let h = union_member(env, *s, st.next_index(*s) as usize, *m)
                .ok_or(env.ir.errors.stack_out_of_bounds)?;
            extract(env, st, c, h, tr)?;
            st.set_next_index(*s, st.next_index(*s) + 1);
            Ok(())
        }
        ParserOp::ExtractVarUnionStack(s, m, bits) => {
            let h = union_member(env, *s, st.next_index(*s) as usize, *m)
                .ok_or(env.ir.errors.stack_out_of_bounds)?;
            let bits = bits.eval(&env.view(st));
            extract_var(env, st, c, h, bits, tr)?;
            st.set_next_index(*s, st.next_index(*s) + 1);
            Ok(())
        }
        ParserOp::SetLookahead(f, l) => {
            check_ahead(env, c, *l)?;
            set_lookahead(st, c.rest, *f, *l);
            Ok(())
        }
        ParserOp::Advance(bits) => {
            let bits = bits.eval(&env.view(st));
            if !bits.is_multiple_of(8) {
                return Err(env.ir.errors.parser_invalid_argument);
            }
            let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX);
            match c.take(bytes) {
                Some(_) => Ok(()),
                None => Err(env.ir.errors.packet_too_short),
            }
        }
        ParserOp::Verify(cond, error) => {
            let v = &env.view(st);
            if cond.eval(v) {
                return Ok(());
            }
            Err(u32::try_from(error.eval(v)).unwrap_or(u32::MAX))
        }
        ParserOp::Primitive(p) => {
            action::run_body(env, st, std::slice::from_ref(&**p), c.packet, tr);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn next_of_stack(env: &Env<'_>, st: &State, stack: StackId) -> Result<HeaderId, u32> {
    env.ir
        .stacks
        .get(usize::from(stack))
        .and_then(|s| s.headers.get(st.next_index(stack) as usize))
        .copied()
        .ok_or(env.ir.errors.stack_out_of_bounds)
}

#[inline]
fn extract<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &mut Cursor<'_>,
    h: HeaderId,
    tr: &mut T,
) -> Result<(), u32> {
    let too_short = env.ir.errors.packet_too_short;
    let wire = env.ir.wires.get(usize::from(h)).ok_or(too_short)?;
    copy_header(env, st, c, wire.offset, wire.fixed)?;
    st.set_valid(env.ir, h);
    tr.event(|| TraceEvent::Extracted {
        header: header_name(env, h),
        bytes: wire.fixed as usize,
    });
    Ok(())
}

/// The next bytes of the packet into the image.
#[inline(always)]
fn copy_header(
    env: &Env<'_>,
    st: &mut State,
    c: &mut Cursor<'_>,
    offset: u32,
    len: u32,
) -> Result<(), u32> {
    let (from, len) = (offset as usize, len as usize);
    let too_short = env.ir.errors.packet_too_short;
    let bytes = c.take(len).ok_or(too_short)?;
    if let Some(to) = st.image.get_mut(from..from + len) {
        to.copy_from_slice(bytes);
    }
    Ok(())
}

fn header_name(env: &Env<'_>, h: HeaderId) -> String {
    let header = env.ir.headers.get(usize::from(h));
    header.map_or_else(String::new, |h| h.name.clone())
}

fn extract_var<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    c: &mut Cursor<'_>,
    h: HeaderId,
    bits: u64,
    tr: &mut T,
) -> Result<(), u32> {
    let errors = &env.ir.errors;
    let header = env
        .ir
        .headers
        .get(usize::from(h))
        .ok_or(errors.packet_too_short)?;
    let v = header.varbit.ok_or(errors.packet_too_short)?;
    // Headers are whole bytes.
    let total = bits.saturating_add(u64::from(v.before + v.after));
    if !total.is_multiple_of(8) {
        return Err(errors.parser_invalid_argument);
    }
    let total = usize::try_from(total / 8).unwrap_or(usize::MAX);
    let Some(all) = c.rest.get(..total) else {
        return Err(errors.packet_too_short);
    };
    let bits = match u32::try_from(bits) {
        Ok(bits) if bits <= v.max => bits,
        _ => return Err(errors.header_too_short),
    };
    if v.max_header > 0 && total > v.max_header as usize {
        return Err(errors.header_too_short);
    }
    let to = |byte: u32| (header.offset + byte) as usize * 8;
    let (before, after, len) = (v.before as usize, v.after as usize, bits as usize);
    copy_bits(&mut st.image, to(0), all, 0, before);
    copy_bits(&mut st.image, to(v.at), all, before, len);
    copy_bits(&mut st.image, to(v.behind), all, before + len, after);
    c.take(total);
    st.set_varbit_len(h, bits);
    st.set_valid(env.ir, h);
    tr.event(|| TraceEvent::Extracted {
        header: header.name.clone(),
        bytes: total,
    });
    Ok(())
}

fn set_lookahead(st: &mut State, rest: &[u8], f: Field, l: Lookahead) {
    if f.kind != FieldKind::Plain {
        return;
    }
    if f.width == l.width && !f.saturating {
        let (bit, width) = (f.bit as usize, f.width as usize);
        copy_bits(&mut st.image, bit, rest, l.bit as usize, width);
    } else if l.width <= 64
        && !f.saturating
        && let Some(loc) = f.loc()
    {
        let bits = read_bits(rest, l.bit as usize, l.width as usize);
        crate::ir::bits::store64(&mut st.image, loc, bits);
    } else {
        // The general case: a number of any width.
        let mut wide = State {
            image: Image::new((l.width as usize).div_ceil(8) + crate::ir::bits::SLACK),
            ..State::default()
        };
        copy_bits(&mut wide.image, 0, rest, l.bit as usize, l.width as usize);
        let source = Field {
            bit: 0,
            width: l.width,
            signed: false,
            saturating: false,
            word: false,
            part: false,
            ..f
        };
        let value = read_field(&wide, source);
        write_field(st, f, value);
    }
}
