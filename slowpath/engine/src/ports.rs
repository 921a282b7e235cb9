//! Records and local ports: a record's number is its local port.
//!
//! Blocks of 512 consecutive ports of one shard of one (local address,
//! protocol) hold 512 consecutive records. A directory of block numbers, one
//! row a local address, turns (address, protocol, port) into a record number by
//! arithmetic: a reply is found without a hash of its tuple.
//!
//! The low four bits of a port are its shard (which worker owns it); the other
//! twelve, less those of the first usable port, count the ports of the shard. Blocks are opened when needed, the
//! memory for all of them is reserved as address space at the start, and
//! records never move. Free ports wait in a FIFO list threaded through their
//! records, so that the one used again is the one that rested longest.

use crate::{
    addr_map::AddrMap,
    prefetch::prefetch,
    record::Record,
    snapshot::{Local, Protocol},
    state::State,
};

/// Lowest local port handed out.
pub const FIRST_PORT: u16 = 1024;
/// Ports in a block.
pub(crate) const BLOCK: usize = 512;
/// Values of the shard bits of a port.
pub const SHARDS: u16 = 16;

const SHARD_BITS: u32 = 4;
/// Ports of a shard, from the first usable one on.
const PER_SHARD: usize = (1 << (16 - SHARD_BITS)) - (FIRST_PORT >> SHARD_BITS) as usize;
const BLOCKS_PER_SHARD: usize = PER_SHARD.div_ceil(BLOCK);
const ROW: usize = 2 * SHARDS as usize * BLOCKS_PER_SHARD;
const NONE: u32 = u32::MAX;

/// Which local address, protocol and ports a block stands for.
#[derive(Clone, Copy, Debug)]
struct Block {
    lip: u16,
    protocol: Protocol,
    shard: u8,
    high: u8,
}

/// FIFO of free records, doubly linked through `last_seen` (before) and `aux`
/// (after), so that a given port can be taken out of the middle.
#[derive(Clone, Copy, Debug)]
struct FreeList {
    head: u32,
    tail: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pool {
    free: FreeList,
    /// Blocks opened in order; the next one's place in that order.
    next_block: u16,
    in_use: u32,
}

/// A local address, configured or still in use by sessions.
#[derive(Clone, Debug)]
pub(crate) struct Lip {
    pub(crate) config: Local,
    /// Whether new sessions may use it.
    pub(crate) configured: bool,
    pools: [Pool; 2],
}

/// Why there is no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPort {
    /// The slot has no local address in that network.
    NoLocal,
    /// Every port is taken or resting.
    Exhausted,
    /// No memory for another block.
    TableFull,
    /// The wanted port is taken, or not this worker's.
    NotFree,
}

/// Use of one local address and protocol, for gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortUse {
    /// Identifier of the local address.
    pub local_id: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Ports taken or resting.
    pub in_use: u32,
    /// Ports this worker may use at that address.
    pub usable: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) records: Vec<Record>,
    /// Low 16 bits of the tick when a record wants attention; zero for never.
    pub(crate) due: Vec<u16>,
    max_records: usize,
    blocks: Vec<Block>,
    lips: Vec<Lip>,
    directory: Vec<u32>,
    by_address: AddrMap,
    /// Of each slot: its configured addresses, and whose turn it is.
    slots: Vec<(Vec<u16>, usize)>,
    shards: Vec<u8>,
}

#[inline(always)]
const fn proto_index(p: Protocol) -> usize {
    match p {
        Protocol::Tcp => 0,
        Protocol::Udp => 1,
    }
}

#[inline(always)]
const fn directory_index(lip: u16, p: Protocol, shard: usize, high: usize) -> usize {
    lip as usize * ROW + (proto_index(p) * SHARDS as usize + shard) * BLOCKS_PER_SHARD + high
}

impl Store {
    /// A store for `worker` of `workers`, with room for `max_records`, rounded
    /// up to whole blocks.
    pub(crate) fn new(worker: u8, workers: u8, max_records: usize) -> Self {
        let max_records = max_records.div_ceil(BLOCK).max(1) * BLOCK;
        Self {
            records: Vec::with_capacity(max_records),
            due: Vec::with_capacity(max_records),
            max_records,
            blocks: Vec::new(),
            lips: Vec::new(),
            directory: Vec::new(),
            by_address: AddrMap::new(),
            slots: Vec::new(),
            shards: (0..SHARDS as u8)
                .filter(|s| s % workers.clamp(1, SHARDS as u8) == worker)
                .collect(),
        }
    }

    /// Whether a local port belongs to this worker.
    #[inline(always)]
    pub(crate) fn owns(&self, port: u16) -> bool {
        self.shards.contains(&((port % SHARDS) as u8))
    }

    /// The local address with an address, if there is one.
    #[inline(always)]
    pub(crate) fn lip_at(&self, vni: u32, addr: u32) -> Option<u16> {
        self.by_address.get(vni, addr).map(|i| i as u16)
    }

    pub(crate) fn lip(&self, index: u16) -> &Lip {
        &self.lips[usize::from(index)]
    }

    /// The index of a configured or remembered local address.
    pub(crate) fn lip_by_id(&self, local_id: u16) -> Option<u16> {
        self.lips
            .iter()
            .position(|l| l.configured && l.config.local_id == local_id)
            .map(|i| i as u16)
    }

    /// The record of a local port, if its block was ever opened.
    #[inline(always)]
    pub(crate) fn record_at(&self, lip: u16, p: Protocol, port: u16) -> Option<u32> {
        let shard = usize::from(port % SHARDS);
        let count =
            usize::from(port >> SHARD_BITS).checked_sub((FIRST_PORT >> SHARD_BITS).into())?;
        let block = *self
            .directory
            .get(directory_index(lip, p, shard, count / BLOCK))?;
        (block != NONE).then(|| block * BLOCK as u32 + (count % BLOCK) as u32)
    }

    /// Asks for a record's line.
    #[inline(always)]
    pub(crate) fn prefetch(&self, record: u32) {
        prefetch(&self.records, record as usize);
    }

    /// The local address (index), protocol and port that a record stands for.
    pub(crate) fn identity(&self, record: u32) -> (u16, Protocol, u16) {
        let b = self.blocks[record as usize / BLOCK];
        let count = u16::from(b.high) * BLOCK as u16 + (record as usize % BLOCK) as u16;
        let upper = count + (FIRST_PORT >> SHARD_BITS);
        (b.lip, b.protocol, upper << SHARD_BITS | u16::from(b.shard))
    }

    /// Takes the configured local addresses over. One that is no longer
    /// configured, or changed, stays for the sessions that use it.
    pub(crate) fn set_locals(&mut self, locals: &[Local]) {
        for lip in &mut self.lips {
            lip.configured = false;
        }
        for slot in &mut self.slots {
            slot.0.clear();
        }
        for l in locals {
            let addr = l.address.to_bits();
            let at = match self.lip_at(l.vni, addr) {
                Some(at) => at,
                None => {
                    if self.lips.len() >= usize::from(u16::MAX) {
                        continue;
                    }
                    let pool = Pool {
                        free: FreeList {
                            head: NONE,
                            tail: NONE,
                            len: 0,
                        },
                        next_block: 0,
                        in_use: 0,
                    };
                    self.lips.push(Lip {
                        config: l.clone(),
                        configured: true,
                        pools: [pool; 2],
                    });
                    self.directory.resize(self.lips.len() * ROW, NONE);
                    let at = self.lips.len() as u16 - 1;
                    self.by_address.insert(l.vni, addr, u32::from(at));
                    at
                }
            };
            let lip = &mut self.lips[usize::from(at)];
            lip.config = l.clone();
            lip.configured = true;
            let slot = usize::from(l.slot);
            if slot >= self.slots.len() {
                self.slots.resize(slot + 1, (Vec::new(), 0));
            }
            self.slots[slot].0.push(at);
        }
    }

    /// Takes a free port of the slot's local addresses: the record, reset but
    /// for its generation, which is a new one.
    pub(crate) fn allocate(&mut self, slot: u16, vni: u32, p: Protocol) -> Result<u32, NoPort> {
        let (count, mut turn) = match self.slots.get(usize::from(slot)) {
            Some((lips, turn)) => (lips.len(), *turn),
            None => (0, 0),
        };
        let mut why = NoPort::NoLocal;
        for _ in 0..count {
            let lips = &self.slots[usize::from(slot)].0;
            turn = if turn + 1 >= lips.len() { 0 } else { turn + 1 };
            let lip = lips[turn];
            if self.lips[usize::from(lip)].config.vni != vni {
                continue;
            }
            match self.allocate_at(lip, p) {
                Ok(record) => {
                    self.slots[usize::from(slot)].1 = turn;
                    return Ok(record);
                }
                Err(NoPort::TableFull) => why = NoPort::TableFull,
                Err(e) if why == NoPort::NoLocal => why = e,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn allocate_at(&mut self, lip: u16, p: Protocol) -> Result<u32, NoPort> {
        if self.pool(lip, p).free.len == 0 {
            self.open_next_block(lip, p)?;
        }
        let head = self.pool(lip, p).free.head;
        if head == NONE {
            return Err(NoPort::Exhausted);
        }
        self.take(lip, p, head);
        // The next one to be used will be in the cache.
        self.prefetch(self.pool(lip, p).free.head);
        Ok(head)
    }

    /// Takes one particular port, as a session found in the switch has it.
    pub(crate) fn allocate_port(
        &mut self,
        lip: u16,
        p: Protocol,
        port: u16,
    ) -> Result<u32, NoPort> {
        if port < FIRST_PORT || !self.owns(port) {
            return Err(NoPort::NotFree);
        }
        let record = loop {
            match self.record_at(lip, p, port) {
                Some(r) => break r,
                None => self.open_next_block(lip, p)?,
            }
        };
        if self.records[record as usize].state != State::Free {
            return Err(NoPort::NotFree);
        }
        self.take(lip, p, record);
        Ok(record)
    }

    /// Gives a record back; its port goes to the end of the queue.
    pub(crate) fn free(&mut self, record: u32) {
        let (lip, p, _) = self.identity(record);
        let r = &mut self.records[record as usize];
        debug_assert_ne!(r.state, State::Free, "a record freed twice");
        *r = Record {
            generation: r.generation,
            ..Record::FREE
        };
        self.due[record as usize] = 0;
        self.push_free(lip, p, record);
        self.pool_mut(lip, p).in_use -= 1;
    }

    /// Use of each local address, for gauges.
    pub(crate) fn port_use(&self) -> impl Iterator<Item = PortUse> + '_ {
        let usable = PER_SHARD as u32 * self.shards.len() as u32;
        self.lips.iter().flat_map(move |l| {
            [Protocol::Tcp, Protocol::Udp].map(|p| PortUse {
                local_id: l.config.local_id,
                protocol: p,
                in_use: l.pools[proto_index(p)].in_use,
                usable,
            })
        })
    }

    fn pool(&self, lip: u16, p: Protocol) -> &Pool {
        &self.lips[usize::from(lip)].pools[proto_index(p)]
    }

    fn pool_mut(&mut self, lip: u16, p: Protocol) -> &mut Pool {
        &mut self.lips[usize::from(lip)].pools[proto_index(p)]
    }

    fn take(&mut self, lip: u16, p: Protocol, record: u32) {
        let r = &mut self.records[record as usize];
        let (before, after) = (r.last_seen, r.aux);
        *r = Record {
            generation: r.generation.wrapping_add(1),
            // Until the caller fills it in, nothing else must take it.
            state: State::Quarantine,
            ..Record::FREE
        };
        match before {
            NONE => self.pool_mut(lip, p).free.head = after,
            b => self.records[b as usize].aux = after,
        }
        match after {
            NONE => self.pool_mut(lip, p).free.tail = before,
            a => self.records[a as usize].last_seen = before,
        }
        let pool = self.pool_mut(lip, p);
        pool.free.len -= 1;
        pool.in_use += 1;
    }

    fn push_free(&mut self, lip: u16, p: Protocol, record: u32) {
        let tail = self.pool(lip, p).free.tail;
        let r = &mut self.records[record as usize];
        r.last_seen = tail;
        r.aux = NONE;
        match tail {
            NONE => self.pool_mut(lip, p).free.head = record,
            t => self.records[t as usize].aux = record,
        }
        let free = &mut self.pool_mut(lip, p).free;
        free.tail = record;
        free.len += 1;
    }

    fn open_next_block(&mut self, lip: u16, p: Protocol) -> Result<(), NoPort> {
        let n = usize::from(self.pool(lip, p).next_block);
        let (high, at) = (n / self.shards.len(), n % self.shards.len());
        if high >= BLOCKS_PER_SHARD {
            return Err(NoPort::Exhausted);
        }
        if self.records.len() + BLOCK > self.max_records {
            return Err(NoPort::TableFull);
        }
        let shard = self.shards[at];
        let block = self.blocks.len() as u32;
        self.blocks.push(Block {
            lip,
            protocol: p,
            shard,
            high: high as u8,
        });
        let first = self.records.len();
        self.records.resize(first + BLOCK, Record::FREE);
        self.due.resize(first + BLOCK, 0);
        self.directory[directory_index(lip, p, usize::from(shard), high)] = block;
        self.pool_mut(lip, p).next_block += 1;
        for i in 0..BLOCK {
            // The last block of a shard is not full.
            if high * BLOCK + i < PER_SHARD {
                self.push_free(lip, p, (first + i) as u32);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet, VecDeque};

    fn locals(n: u8) -> Vec<Local> {
        (0..n)
            .map(|i| Local {
                local_id: u16::from(i) + 1,
                address: [10, 9, 0, i].into(),
                vni: 0,
                slot: u16::from(i % 2) + 1,
            })
            .collect()
    }

    fn store(worker: u8, workers: u8, max: usize, lips: u8) -> Store {
        let mut s = Store::new(worker, workers, max);
        s.set_locals(&locals(lips));
        s
    }

    #[test]
    fn every_port_of_the_worker_once_and_no_other() {
        for (worker, workers, usable) in [(0, 1, 64_512), (1, 2, 32_256), (2, 3, 20_160)] {
            let mut s = store(worker, workers, 200_000, 1);
            let mut seen = HashSet::new();
            while let Ok(r) = s.allocate(1, 0, Protocol::Tcp) {
                let (lip, p, port) = s.identity(r);
                assert_eq!((lip, p), (0, Protocol::Tcp));
                assert!(port >= FIRST_PORT);
                assert_eq!((port % 16) as u8 % workers, worker, "port {port}");
                assert!(seen.insert(port), "port {port} twice");
                assert_eq!(s.record_at(lip, p, port), Some(r));
            }
            assert_eq!(seen.len(), usable);
            assert_eq!(
                s.allocate(1, 0, Protocol::Tcp),
                Err(NoPort::Exhausted),
                "the other protocol's ports are its own"
            );
            assert!(s.allocate(1, 0, Protocol::Udp).is_ok());
            let u: Vec<_> = s.port_use().collect();
            assert_eq!(u[0].in_use, u[0].usable);
            assert_eq!(u[0].usable as usize, usable);
            assert_eq!(u[1].in_use, 1);
        }
    }

    #[test]
    fn the_port_that_rested_longest_comes_first() {
        let mut s = store(0, 16, 100_000, 1);
        let mut queue: VecDeque<u32> = VecDeque::new();
        // 4032 ports in eight blocks, the last one partly used: take all, give back in a known order.
        while let Ok(r) = s.allocate(1, 0, Protocol::Tcp) {
            queue.push_back(r);
        }
        assert_eq!(queue.len(), 4032);
        queue.rotate_left(1234);
        for r in &queue {
            s.free(*r);
        }
        for _ in 0..10_000 {
            let r = s.allocate(1, 0, Protocol::Tcp).unwrap();
            assert_eq!(Some(r), queue.pop_front());
            s.free(r);
            queue.push_back(r);
        }
    }

    #[test]
    fn reasons_for_no_port() {
        let mut s = store(0, 1, 512, 1);
        assert_eq!(s.allocate(7, 0, Protocol::Tcp), Err(NoPort::NoLocal));
        assert_eq!(s.allocate(1, 5, Protocol::Tcp), Err(NoPort::NoLocal));
        for _ in 0..512 {
            s.allocate(1, 0, Protocol::Tcp).unwrap();
        }
        assert_eq!(s.allocate(1, 0, Protocol::Tcp), Err(NoPort::TableFull));
        assert_eq!(s.allocate_port(0, Protocol::Tcp, 80), Err(NoPort::NotFree));
    }

    #[test]
    fn a_removed_address_keeps_its_records_and_gets_no_new_ones() {
        let mut s = store(0, 1, 10_000, 2);
        let r = s.allocate(1, 0, Protocol::Tcp).unwrap();
        let (lip, p, port) = s.identity(r);
        s.set_locals(&locals(2)[1..]);
        assert_eq!(s.allocate(1, 0, Protocol::Tcp), Err(NoPort::NoLocal));
        assert_eq!(s.lip_at(0, u32::from_be_bytes([10, 9, 0, 0])), Some(lip));
        assert_eq!(s.record_at(lip, p, port), Some(r));
        s.set_locals(&locals(2));
        let again = s.allocate(1, 0, Protocol::Tcp).unwrap();
        assert_ne!(again, r, "still taken");
    }

    proptest::proptest! {
        /// Against a plain map of what is taken.
        #[test]
        fn never_hands_out_a_taken_port(
            ops in proptest::collection::vec((0_u8..4, 0_usize..1000, 1024_u16..3000), 1..300),
        ) {
            let mut s = store(1, 4, 3 * BLOCK, 2);
            let mut taken: HashMap<(u16, Protocol, u16), u32> = HashMap::new();
            for (op, n, port) in ops {
                let p = if n % 2 == 0 { Protocol::Tcp } else { Protocol::Udp };
                match op {
                    0 | 1 => {
                        if let Ok(r) = s.allocate(u16::from(op) + 1, 0, p) {
                            proptest::prop_assert!(taken.insert(s.identity(r), r).is_none());
                        }
                    }
                    2 => {
                        let free = !taken.contains_key(&(0, p, port));
                        match s.allocate_port(0, p, port) {
                            Ok(r) => {
                                proptest::prop_assert!(free);
                                proptest::prop_assert_eq!(s.identity(r), (0, p, port));
                                taken.insert((0, p, port), r);
                            }
                            Err(NoPort::NotFree) => {
                                proptest::prop_assert!(!free || port % 16 % 4 != 1);
                            }
                            Err(e) => proptest::prop_assert_eq!(e, NoPort::TableFull),
                        }
                    }
                    _ => {
                        let mut keys: Vec<_> = taken.values().copied().collect();
                        keys.sort_unstable();
                        if let Some(r) = keys.get(n % keys.len().max(1)) {
                            taken.remove(&s.identity(*r));
                            s.free(*r);
                        }
                    }
                }
                let in_use: u32 = s.port_use().map(|u| u.in_use).sum();
                proptest::prop_assert_eq!(in_use as usize, taken.len());
            }
        }
    }
}
