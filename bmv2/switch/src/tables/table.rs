//! One table: its records, index and default action.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::index::{Found, Index, KEY, Parts};
use super::key::{Encoded, KeyLayout};
use super::range::RangePiece;
use super::slab::{Beside, Slab};
use crate::control::{CounterValue, TableEntry};
use crate::meters::{self, Meter};
use crate::program::{MatchKind, Program};
use crate::switch::Timestamp;

/// What an entry's first word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Member,
    Group,
}

/// An entry's first word: what it does, and with which action or slot.
pub(super) const LIVE: u64 = 1 << 40;
/// Beside [`LIVE`]: the last sweep reported it idle.
pub(super) const REPORTED: u64 = 1 << 41;

/// Cookie and metadata of an entry.
pub(super) type Extra = (u64, Vec<u8>);

pub(super) fn head(kind: Kind, value: u32) -> u64 {
    LIVE | ((kind as u64) << 32) | u64::from(value)
}

#[inline(always)]
pub(super) fn split_head(word: u64) -> (Kind, u32) {
    let kind = match (word >> 32) & 3 {
        0 => Kind::Call,
        1 => Kind::Member,
        _ => Kind::Group,
    };
    (kind, word as u32)
}

/// Word offsets in a record. Parts that a table does not have take no room.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offsets {
    pub(super) packets: usize,
    pub(super) last_hit: usize,
    pub(super) timeout: usize,
    pub(super) params: usize,
    /// Words of the widest action's parameters.
    pub(super) widest: usize,
    pub(super) stride: usize,
}

/// What happens on a miss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefaultEntry {
    pub(crate) kind: Kind,
    pub(crate) value: u32,
    pub(crate) params: Box<[u64]>,
}

/// The direct resources of the default entry.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    packets: AtomicU64,
    bytes: AtomicU64,
    pub(super) meter: Meter,
}

impl Missed {
    /// Counts misses.
    pub(super) fn add(&self, more: CounterValue) {
        self.packets.fetch_add(more.packets, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
    }

    /// Reads the counter, after it was written if it is to be.
    pub(super) fn count(&self, write: Option<CounterValue>) -> CounterValue {
        if let Some(v) = write {
            self.packets.store(v.packets, Ordering::Relaxed);
            self.bytes.store(v.bytes, Ordering::Relaxed);
        }
        CounterValue {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// One table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) parts: Parts,
    pub(super) offsets: Offsets,
    /// The pieces of the key's range fields.
    ranges: Box<[RangePiece]>,
    pub(super) counted: bool,
    pub(super) timed: bool,
    /// Entries are counted, timed or metered: hits leave a trace.
    noted: bool,
    pub(super) keyed: bool,
    pub(crate) slab: Slab,
    pub(crate) index: Index,
    pub(crate) default: Option<DefaultEntry>,
    pub(super) initial: Option<DefaultEntry>,
    /// Apart, so that what look-ups need stays close together.
    pub(super) missed: Box<Missed>,
    pub(super) meters: Option<Beside<Meter>>,
    /// Cookies and metadata of the entries that have them.
    pub(super) extras: Mutex<Beside<Option<Box<Extra>>>>,
}

/// An entry as it was before an operation.
#[derive(Debug)]
pub(crate) struct Before {
    record: Vec<u64>,
    extra: Option<Box<Extra>>,
    meter: Option<Box<meters::State>>,
}

/// A resolved entry action: what to store.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) kind: Kind,
    pub(super) value: u32,
    pub(super) params: SmallVec<[u64; 4]>,
}

impl Table {
    pub(super) fn new(program: &Program, id: usize) -> Self {
        let empty = Parts::default();
        let (Some(info), Some(ir)) = (program.tables.get(id), program.ir.tables.get(id)) else {
            return Self {
                parts: empty,
                offsets: Offsets::default(),
                counted: false,
                timed: false,
                noted: false,
                keyed: false,
                ranges: Box::default(),
                slab: Slab::new(1),
                index: Index::tree(0),
                default: None,
                initial: None,
                missed: Box::default(),
                meters: None,
                extras: Mutex::default(),
            };
        };
        let words = ir.layout.words;
        let exact = info.kind == MatchKind::Exact;
        let mut at = KEY + words;
        let mut take = |n: usize| {
            let start = at;
            at += n;
            start
        };
        let widest = info
            .actions
            .iter()
            .filter_map(|(_, a)| program.ir.actions.get(a.index()))
            .map(|a| a.words)
            .max()
            .unwrap_or(0);
        // What packets touch comes first, so that it shares cache lines.
        let params = take(widest);
        let packets = take(if ir.counted { 2 } else { 0 });
        let last_hit = take(usize::from(ir.timed));
        let parts = Parts {
            bounds: take(2 * ir.layout.ranges.len()),
            mask: take(if exact { 0 } else { words }),
            rank: take(usize::from(!exact)),
        };
        let timeout = take(usize::from(ir.timed));
        Self {
            parts,
            offsets: Offsets {
                packets,
                last_hit,
                timeout,
                params,
                widest,
                stride: at,
            },
            ranges: ir.layout.ranges.as_slice().into(),
            counted: ir.counted,
            timed: ir.timed,
            noted: ir.counted || ir.timed || ir.meter.is_some(),
            keyed: !info.key.is_empty(),
            slab: Slab::new(at),
            index: if exact {
                Index::exact()
            } else {
                Index::tree(words)
            },
            default: None,
            initial: None,
            missed: Box::default(),
            meters: ir.meter.map(|_| Beside::default()),
            extras: Mutex::default(),
        }
    }

    /// The entry that the packet's key matches.
    #[inline(always)]
    pub(crate) fn lookup(&self, key: impl Borrow<[u64]>) -> Option<Found<'_>> {
        self.index
            .lookup(&self.ranges, &self.parts, &self.slab, key)
    }

    /// The entry at a slot.
    #[inline(always)]
    pub(crate) fn entry(&self, slot: u32) -> Found<'_> {
        Found::new(&self.slab, slot)
    }

    /// What an entry does.
    #[inline(always)]
    pub(crate) fn action(&self, record: &[AtomicU64]) -> (Kind, u32) {
        split_head(record.first().map_or(0, |w| w.load(Ordering::Relaxed)))
    }

    /// The first words of an entry's parameters.
    #[inline(always)]
    pub(crate) fn params<'t>(
        &self,
        record: &'t [AtomicU64],
        words: usize,
    ) -> Option<&'t [AtomicU64]> {
        record.get(self.offsets.params..)?.get(..words)
    }

    /// Whether hits and misses leave a trace in the table.
    #[inline(always)]
    pub(crate) fn is_noted(&self) -> bool {
        self.noted
    }

    /// Counts a hit and notes its time.
    #[inline]
    pub(crate) fn note_hit(&self, record: &[AtomicU64], bytes: u64, now: Timestamp) {
        if self.counted
            && let Some([p, b, ..]) = record.get(self.offsets.packets..)
        {
            p.fetch_add(1, Ordering::Relaxed);
            b.fetch_add(bytes, Ordering::Relaxed);
        }
        if self.timed
            && let Some(t) = record.get(self.offsets.last_hit)
        {
            t.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Whether misses are counted.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.counted
    }

    /// The direct meter of the default entry.
    pub(crate) fn miss_meter(&self) -> &Meter {
        &self.missed.meter
    }

    /// The direct meter of an entry.
    pub(crate) fn meter(&self, slot: u32) -> Option<&Meter> {
        self.meters.as_ref()?.get(slot)
    }

    pub(super) fn counter(&self, slot: u32) -> CounterValue {
        CounterValue {
            packets: self.slab.word(slot, self.offsets.packets),
            bytes: self.slab.word(slot, self.offsets.packets + 1),
        }
    }

    pub(super) fn encoded(&self, layout: &KeyLayout, slot: u32) -> Encoded {
        let read = |at: usize, n: usize| (0..n).map(|i| self.slab.word(slot, at + i)).collect();
        let exact = matches!(self.index, Index::Exact(_));
        Encoded {
            value: read(KEY, layout.words),
            mask: if exact {
                SmallVec::from_elem(u64::MAX, layout.words)
            } else {
                read(self.parts.mask, layout.words)
            },
            bounds: (0..layout.ranges.len())
                .map(|r| self.parts.bound(self.slab.get(slot), r))
                .collect(),
            rank: if exact {
                0
            } else {
                self.slab.word(slot, self.parts.rank) as i64
            },
            hash: 0,
        }
    }

    pub(super) fn store_action(&self, slot: u32, s: &Stored) {
        for i in 0..self.offsets.widest {
            let word = s.params.get(i).copied().unwrap_or(0);
            self.slab.set(slot, self.offsets.params + i, word);
        }
        self.slab.set_head(slot, head(s.kind, s.value));
    }

    pub(super) fn store_key(&self, slot: u32, e: &Encoded) {
        for (i, w) in e.value.iter().enumerate() {
            self.slab.set(slot, KEY + i, *w);
        }
        if matches!(self.index, Index::Exact(_)) {
            return;
        }
        for (i, w) in e.mask.iter().enumerate() {
            self.slab.set(slot, self.parts.mask + i, *w);
        }
        self.slab.set(slot, self.parts.rank, e.rank as u64);
        for (r, (low, high)) in e.bounds.iter().enumerate() {
            self.slab.set(slot, self.parts.bounds + 2 * r, *low);
            self.slab.set(slot, self.parts.bounds + 2 * r + 1, *high);
        }
    }

    pub(super) fn store_extras(&self, slot: u32, entry: &TableEntry, now: Timestamp) {
        if self.timed {
            self.slab.set(slot, self.offsets.last_hit, now.as_nanos());
            self.slab
                .set(slot, self.offsets.timeout, entry.idle_timeout_ns);
        }
        let mut extras = self.extras.lock();
        if entry.cookie == 0 && entry.metadata.is_empty() {
            if let Some(extra) = extras.get_mut(slot) {
                *extra = None;
            }
        } else if let Some(extra) = extras.make(slot) {
            *extra = Some(Box::new((entry.cookie, entry.metadata.clone())));
        }
    }

    /// Whether an entry can be added while packets look others up.
    pub(super) fn has_room(&self, key: &Encoded) -> bool {
        self.index.has_room(key)
            && self.slab.has_room()
            && self
                .meters
                .as_ref()
                .is_none_or(|m| m.get(self.slab.next()).is_some())
    }

    /// Fills the next slot's record, which nobody finds yet.
    pub(super) fn store(
        &self,
        key: &Encoded,
        action: &Stored,
        entry: &TableEntry,
        now: Timestamp,
    ) -> u32 {
        let slot = self.slab.insert();
        self.store_key(slot, key);
        self.store_extras(slot, entry, now);
        self.store_action(slot, action);
        slot
    }

    /// Takes an entry out and gives its slot back.
    pub(super) fn forget(&mut self, slot: u32, key: &Encoded) {
        self.index.remove(slot, key);
        self.slab.remove(slot);
        if let Some(extra) = self.extras.get_mut().get_mut(slot) {
            *extra = None;
        }
        if let Some(m) = self.meter(slot) {
            m.configure(None);
            m.clear_counts();
        }
    }

    /// All that [`Table::restore`] needs.
    pub(super) fn before(&self, slot: u32) -> Before {
        Before {
            record: (0..self.offsets.stride)
                .map(|i| self.slab.word(slot, i))
                .collect(),
            extra: self.extras.lock().get(slot).cloned().flatten(),
            meter: self.meter(slot).map(|m| Box::new(m.state())),
        }
    }

    /// Makes a record what it was. Its counter and its meter only if the entry
    /// was gone: otherwise packets have gone on with them.
    pub(super) fn restore(&mut self, slot: u32, before: Before, gone: bool) {
        let counter = self.offsets.packets..self.offsets.packets + 2 * usize::from(self.counted);
        for (i, w) in before.record.iter().enumerate() {
            if gone || !counter.contains(&i) {
                self.slab.set(slot, i, *w);
            }
        }
        if let Some(extra) = self.extras.get_mut().get_mut(slot) {
            *extra = before.extra;
        }
        if let (true, Some(m), Some(old)) = (gone, self.meter(slot), &before.meter) {
            m.restore(old);
        }
    }
}
