//! Running a lowered program over a packet.

mod action;
mod calc;
mod changes;
mod deparser;
mod image;
mod learn;
mod parser;
mod pipeline;
mod recent;
mod simple;
mod table;
pub(crate) mod tuned;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::counters::{CounterArray, Pending};
use crate::ir::bits::{Loc, copy_bits, load_word, load64, store_word, store64};
use crate::ir::expr::View;
use crate::ir::{Field, FieldKind, HeaderId, Ir, StackId};
use crate::meters::MeterArray;
use crate::registers::Registers;
use crate::switch::{DropReason, Timestamp};
use crate::tables::Tables;
use crate::trace::Tracer;
use image::Image;

pub(crate) use learn::learn;
pub(crate) use recent::Recent;

/// What a packet runs against.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) ir: &'a Ir,
    pub(crate) tables: &'a Tables,
    /// What came of the last keys.
    pub(crate) recent: &'a Recent,
    pub(crate) registers: &'a Registers,
    pub(crate) counters: &'a [CounterArray],
    /// What the burst has counted so far.
    pub(crate) pending: &'a Pending,
    pub(crate) meters: &'a [MeterArray],
    pub(crate) now: Timestamp,
    pub(crate) drop_port: u16,
}

/// Requests that an action leaves for the end of the pipeline. The last one of
/// a kind wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// Session and field list of a clone.
    pub(crate) clone: Option<(u16, u32)>,
    /// Learn list of a digest; 0 is none.
    pub(crate) digest: u32,
    /// Field list of a resubmit; 0 is none.
    pub(crate) resubmit: u32,
    /// Field list of a recirculate; 0 is none.
    pub(crate) recirculate: u32,
}

/// A packet on its way: headers, metadata, and what is asked for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    pub(crate) image: Image,
    valid: Vec<bool>,
    /// Bits of each header's varbit.
    varbit: Vec<u32>,
    /// Whether any varbit has had a length.
    has_varbit: bool,
    /// Next index of each stack.
    next: Vec<u32>,
    /// Parameters of the running action.
    pub(crate) params: Vec<u64>,
    fault: Cell<Option<DropReason>>,
    pub(crate) requests: Requests,
    pub(crate) exit: bool,
    /// Offset of the first byte that the parser did not take.
    pub(crate) payload: usize,
    /// bmv2's packet length: what arrived, plus added and minus removed
    /// headers.
    pub(crate) length: u32,
    /// What arrived; counters and meters use it.
    pub(crate) ingress_length: u32,
    /// Longest length that is sent.
    pub(crate) truncate: usize,
    pub(crate) parser_error: u32,
    pub(crate) checksum_error: bool,
    pub(crate) rng: u64,
    /// The key of the table being looked up.
    key: Vec<u64>,
    buffer: Vec<u8>,
}

impl State {
    /// An empty state for a program.
    pub(crate) fn new(ir: &Ir, seed: u64) -> Self {
        let words = ir.tables.iter().map(|t| t.layout.words).max().unwrap_or(0);
        let mut s = Self {
            image: Image::new(ir.image),
            valid: ir.initially_valid.clone(),
            varbit: vec![0; ir.headers.len()],
            next: vec![0; ir.stacks.len() + ir.union_stacks.len()],
            params: vec![0; ir.actions.iter().map(|a| a.words).max().unwrap_or(0)],
            key: vec![0; words],
            rng: seed | 1,
            ..Self::default()
        };
        s.reset(ir);
        s
    }

    /// Everything as before the first packet, but for the random numbers.
    pub(crate) fn reset(&mut self, ir: &Ir) {
        self.image.clear();
        if self.has_varbit {
            self.varbit.fill(0);
            self.has_varbit = false;
        }
        if !self.next.is_empty() {
            self.next.fill(0);
        }
        if self.valid.len() == ir.initially_valid.len() {
            self.valid.copy_from_slice(&ir.initially_valid);
        }
        self.fault.set(None);
        self.requests = Requests::default();
        self.exit = false;
        self.payload = 0;
        self.truncate = usize::MAX;
        self.parser_error = ir.errors.no_error;
        self.checksum_error = false;
    }

    /// Takes over another packet's headers and metadata.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        // Vectors that are there are used again.
        self.image.clone_from(&other.image);
        self.valid.clone_from(&other.valid);
        self.varbit.clone_from(&other.varbit);
        self.has_varbit = other.has_varbit;
        self.next.clone_from(&other.next);
        self.fault.set(other.fault.get());
        self.payload = other.payload;
        self.length = other.length;
        self.ingress_length = other.ingress_length;
        self.parser_error = other.parser_error;
        self.checksum_error = other.checksum_error;
        self.requests = Requests::default();
        self.truncate = usize::MAX;
        self.exit = false;
    }

    /// Zeroes all metadata.
    pub(crate) fn reset_metadata(&mut self, ir: &Ir) {
        for &(offset, size) in &ir.metadata {
            let (from, to) = (offset as usize, (offset + size) as usize);
            if let Some(span) = self.image.get_mut(from..to) {
                span.fill(0);
            }
        }
    }

    /// Copies the fields of a field list from another packet.
    pub(crate) fn copy_fields(&mut self, ir: &Ir, list: u32, from: &Self) {
        let Some(list) = ir.field_lists.iter().find(|l| l.id == list) else {
            return;
        };
        for f in list.fields.iter().filter(|f| f.kind == FieldKind::Plain) {
            self.copy_field(*f, from);
        }
    }

    /// Metadata of a clone: zero but for the field list and what it is.
    pub(crate) fn become_clone(&mut self, ir: &Ir, of: &Self, list: u32, instance_type: u64) {
        self.reset_metadata(ir);
        self.copy_fields(ir, list, of);
        self.set(ir.standard.instance_type, instance_type);
    }

    fn copy_field(&mut self, f: Field, from: &Self) {
        let (bit, width) = (f.bit as usize, f.width as usize);
        copy_bits(&mut self.image, bit, &from.image, bit, width);
    }

    /// Whether a header is valid.
    #[inline(always)]
    pub(crate) fn is_valid(&self, h: HeaderId) -> bool {
        self.valid.get(usize::from(h)).copied().unwrap_or(false)
    }

    /// Calls `f` with every valid header, in order.
    #[inline(always)]
    fn each_valid(&self, mut f: impl FnMut(usize)) {
        let (eights, last) = self.valid.as_chunks::<8>();
        for (i, eight) in eights.iter().enumerate() {
            // At a glance: most are not valid.
            let mut bytes = u64::from_le_bytes(eight.map(u8::from));
            while bytes != 0 {
                f(i * 8 + bytes.trailing_zeros() as usize / 8);
                bytes &= bytes - 1;
            }
        }
        let last = last.iter().enumerate().filter(|(_, valid)| **valid);
        last.for_each(|(i, _)| f(eights.len() * 8 + i));
    }

    /// Makes a header valid; the other members of its union become invalid.
    #[inline]
    pub(crate) fn set_valid(&mut self, ir: &Ir, h: HeaderId) {
        if let Some(u) = ir.wires.get(usize::from(h)).and_then(|h| h.union)
            && let Some(u) = ir.unions.get(usize::from(u))
        {
            for &other in &u.headers {
                if other != h {
                    self.set_invalid(other);
                }
            }
        }
        self.set_valid_alone(h);
    }

    /// Makes a header valid that is in no union.
    #[inline(always)]
    pub(crate) fn set_valid_alone(&mut self, h: HeaderId) {
        if let Some(v) = self.valid.get_mut(usize::from(h)) {
            *v = true;
        }
    }

    /// Makes a header invalid; its fields keep what they hold.
    #[inline]
    pub(crate) fn set_invalid(&mut self, h: HeaderId) {
        if let Some(v) = self.valid.get_mut(usize::from(h)) {
            *v = false;
        }
    }

    /// The next index of a stack.
    #[inline]
    pub(crate) fn next_index(&self, s: StackId) -> u32 {
        self.next.get(usize::from(s)).copied().unwrap_or(0)
    }

    /// Sets the next index of a stack.
    pub(crate) fn set_next_index(&mut self, s: StackId, value: u32) {
        if let Some(n) = self.next.get_mut(usize::from(s)) {
            *n = value;
        }
    }

    /// Bits of a header's varbit.
    pub(crate) fn varbit_len(&self, h: HeaderId) -> u32 {
        self.varbit.get(usize::from(h)).copied().unwrap_or(0)
    }

    /// Sets the bits of a header's varbit.
    pub(crate) fn set_varbit_len(&mut self, h: HeaderId, bits: u32) {
        if let Some(v) = self.varbit.get_mut(usize::from(h)) {
            *v = bits;
            self.has_varbit |= bits > 0;
        }
    }

    /// Puts an action's parameters in place.
    #[inline(always)]
    fn set_params<W: Word>(&mut self, words: &[W]) {
        // Most actions have few.
        match (words, self.params.as_mut_slice()) {
            ([], _) => {}
            ([a], [to, ..]) => *to = a.get(),
            ([a, b], [to_a, to_b, ..]) => (*to_a, *to_b) = (a.get(), b.get()),
            (_, to) => set_many(to, words),
        }
    }

    /// What a header's varbit holds; the last byte may have bits that are not
    /// part of it.
    pub(crate) fn varbit_bytes(&self, ir: &Ir, h: HeaderId) -> &[u8] {
        let span = ir.headers.get(usize::from(h)).and_then(|header| {
            let v = header.varbit?;
            let from = (header.offset + v.at) as usize;
            let len = self.varbit_len(h).div_ceil(8);
            self.image.get(from..from + len as usize)
        });
        span.unwrap_or(&[])
    }

    /// A header's varbit as a big-endian number, in as many bytes as its length
    /// needs.
    pub(crate) fn varbit_number(&self, ir: &Ir, h: HeaderId) -> SmallVec<[u8; 64]> {
        let len = self.varbit_len(h) as usize;
        let mut number: SmallVec<[u8; 64]> = SmallVec::from_elem(0, len.div_ceil(8));
        let padding = number.len() * 8 - len;
        copy_bits(&mut number, padding, self.varbit_bytes(ir, h), 0, len);
        number
    }

    /// Bytes that a header takes on the wire.
    pub(crate) fn wire_len(&self, ir: &Ir, h: HeaderId) -> u32 {
        let Some(header) = ir.headers.get(usize::from(h)) else {
            return 0;
        };
        match header.varbit {
            None => header.fixed,
            Some(v) => (v.before + self.varbit_len(h) + v.after).div_ceil(8),
        }
    }

    /// Zeroes a header's fields. As in bmv2, a varbit keeps its length: that of
    /// the same header before it became invalid, or 0.
    pub(crate) fn zero(&mut self, ir: &Ir, h: HeaderId) {
        if let Some(header) = ir.headers.get(usize::from(h)) {
            let from = header.offset as usize;
            if let Some(span) = self.image.get_mut(from..from + header.size as usize) {
                span.fill(0);
            }
        }
    }

    /// Notes a fault of the program; the packet is dropped at the end.
    pub(crate) fn fault(&self, reason: DropReason) {
        if self.fault.get().is_none() {
            self.fault.set(Some(reason));
        }
    }

    /// The first fault, if any.
    pub(crate) fn faulted(&self) -> Option<DropReason> {
        self.fault.get()
    }

    /// A field of standard metadata.
    #[inline(always)]
    pub(crate) fn get(&self, loc: Loc) -> u64 {
        if loc.alone {
            load_word(&self.image, loc.byte)
        } else {
            self.get_part(loc)
        }
    }

    #[inline(never)]
    fn get_part(&self, loc: Loc) -> u64 {
        load64(&self.image, loc)
    }

    /// Sets a field of standard metadata.
    #[inline(always)]
    pub(crate) fn set(&mut self, loc: Loc, value: u64) {
        if loc.alone {
            store_word(&mut self.image, loc, value);
        } else {
            self.set_part(loc, value);
        }
    }

    #[inline(never)]
    fn set_part(&mut self, loc: Loc, value: u64) {
        store64(&mut self.image, loc, value);
    }

    /// Sets a field of standard metadata that the program may lack.
    #[inline(always)]
    pub(crate) fn set_optional(&mut self, loc: Option<Loc>, value: u64) {
        if let Some(loc) = loc {
            self.set(loc, value);
        }
    }

    /// The next random number (xorshift64*).
    pub(crate) fn random(&mut self) -> u64 {
        let mut x = self.rng;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.rng = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A parameter word, as entries of tables or as others hold it.
trait Word {
    fn get(&self) -> u64;
}

impl Word for u64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        *self
    }
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn get(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }
}

#[inline(never)]
fn set_many<W: Word>(to: &mut [u64], words: &[W]) {
    for (to, word) in to.iter_mut().zip(words) {
        *to = word.get();
    }
}

impl<'a> Env<'a> {
    /// What expressions see.
    #[inline(always)]
    pub(crate) fn view(&self, state: &'a State) -> View<'a> {
        View {
            state,
            ir: self.ir,
            registers: self.registers,
        }
    }
}

/// Parses a packet and verifies its checksums.
pub(crate) fn parse<T: Tracer>(env: &Env<'_>, st: &mut State, packet: &[u8], tr: &mut T) {
    st.parser_error = env.ir.errors.no_error;
    st.checksum_error = false;
    if let Err(code) = parser::run(env, st, packet, tr) {
        st.parser_error = code;
        tr.event(|| crate::trace::TraceEvent::ParserError { code });
    }
    for c in &env.ir.verify {
        calc::verify(env, st, c, packet, tr);
    }
}

/// Updates checksums and emits the headers and the payload into `out`.
pub(crate) fn deparse<T: Tracer>(
    env: &Env<'_>,
    st: &mut State,
    packet: &[u8],
    out: &mut Vec<u8>,
    tr: &mut T,
) {
    for c in &env.ir.update {
        calc::update(env, st, c, packet, tr);
    }
    deparser::run(env, st, packet, out, tr);
}
