//! A small map from (network, IPv4 address) to an index: open addressing,
//! linear probing, at most half full. Rebuilt when the configuration changes.

const EMPTY: u64 = u64::MAX;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct AddrMap {
    slots: Vec<(u64, u32)>,
    mask: usize,
    /// 64 less the binary logarithm of the number of slots.
    shift: u32,
    len: usize,
}

/// Where the search for a key starts. Addresses come from the configuration,
/// not from clients: one multiplication (Fibonacci hashing) is enough.
#[inline(always)]
const fn start(key: u64, shift: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

const fn key(vni: u32, addr: u32) -> u64 {
    (vni as u64) << 32 | addr as u64
}

impl AddrMap {
    /// An empty map.
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![(EMPTY, 0); 16],
            mask: 15,
            shift: 60,
            len: 0,
        }
    }

    /// The index of an address.
    #[inline(always)]
    pub(crate) fn get(&self, vni: u32, addr: u32) -> Option<u32> {
        let k = key(vni, addr);
        let mut at = start(k, self.shift);
        loop {
            match self.slots.get(at) {
                Some(&(found, value)) if found == k => return Some(value),
                Some(&(EMPTY, _)) | None => return None,
                Some(_) => at = (at + 1) & self.mask,
            }
        }
    }

    /// Sets the index of an address; gives the one it had.
    pub(crate) fn insert(&mut self, vni: u32, addr: u32, value: u32) -> Option<u32> {
        if (self.len + 1) * 2 > self.slots.len() {
            let bigger = self.slots.len() * 2;
            let old = std::mem::replace(&mut self.slots, vec![(EMPTY, 0); bigger]);
            self.mask = bigger - 1;
            self.shift -= 1;
            for (k, v) in old {
                if k != EMPTY {
                    self.place(k, v);
                }
            }
        }
        let before = self.place(key(vni, addr), value);
        self.len += usize::from(before.is_none());
        before
    }

    fn place(&mut self, k: u64, value: u32) -> Option<u32> {
        let mut at = start(k, self.shift);
        loop {
            let slot = &mut self.slots[at];
            if slot.0 == k {
                return Some(std::mem::replace(&mut slot.1, value));
            }
            if slot.0 == EMPTY {
                *slot = (k, value);
                return None;
            }
            at = (at + 1) & self.mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_hash_map(
            ops in proptest::collection::vec((0_u32..4, 0_u32..64, any::<u32>()), 0..200),
        ) {
            let mut fast = AddrMap::new();
            let mut slow = HashMap::new();
            for (vni, addr, value) in ops {
                prop_assert_eq!(fast.insert(vni, addr, value), slow.insert((vni, addr), value));
            }
            for vni in 0..4 {
                for addr in 0..64 {
                    prop_assert_eq!(fast.get(vni, addr), slow.get(&(vni, addr)).copied());
                }
            }
        }
    }
}
