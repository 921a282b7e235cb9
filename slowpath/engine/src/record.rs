//! The session record: one cache line.

use packet::Delta;

use crate::state::{Offload, State};

/// Flag: a packet from the server was seen.
pub(crate) const REPLIED: u8 = 1;
/// Flag: the switch reported both directions idle; cleared by any packet.
pub(crate) const IDLE: u8 = 2;
/// Flag: totals have a part in the spill map.
pub(crate) const SPILLED: u8 = 4;
/// Flag: the client sent its FIN before the server did (valid once both have).
pub(crate) const CLIENT_FIRST: u8 = 8;
/// Flag: adopted from the switch after a restart of this process.
pub(crate) const ADOPTED: u8 = 16;

/// Packets and bytes of one direction in one word: 28 bits of packets above 36
/// bits of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed(u64);

const BYTE_BITS: u32 = 36;
/// The top bit of either part: time to move the total elsewhere.
const NEARLY_FULL: u64 = 1 << 63 | 1 << (BYTE_BITS - 1);

impl Packed {
    /// Counts a packet. `true` when the total has to be moved away.
    #[inline(always)]
    pub(crate) fn count(&mut self, bytes: u16) -> bool {
        self.0 += (1 << BYTE_BITS) + u64::from(bytes);
        self.0 & NEARLY_FULL != 0
    }

    #[inline(always)]
    pub(crate) const fn packets(self) -> u64 {
        self.0 >> BYTE_BITS
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.0 & ((1 << BYTE_BITS) - 1)
    }

    /// Adds a total if it fits.
    #[must_use]
    pub(crate) fn add(&mut self, packets: u64, bytes: u64) -> bool {
        let p = self.packets().saturating_add(packets);
        let b = self.bytes().saturating_add(bytes);
        if p >> 27 != 0 || b >> (BYTE_BITS - 1) != 0 {
            return false;
        }
        self.0 = p << BYTE_BITS | b;
        true
    }
}

/// A session of either direction. Addresses and ports are in host order.
///
/// The two tuples are keys and rewrites at once: a packet from the client to
/// the VIP becomes one from the local address to the server, and back.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Record {
    pub(crate) client: u32,
    pub(crate) vip: u32,
    pub(crate) local: u32,
    pub(crate) server: u32,
    pub(crate) client_port: u16,
    pub(crate) vip_port: u16,
    pub(crate) local_port: u16,
    pub(crate) server_port: u16,
    /// Checksum deltas of the forward rewrite; the reply's are the complement.
    pub(crate) l3_delta: u16,
    pub(crate) l4_delta: u16,
    pub(crate) protocol: u8,
    pub(crate) state: State,
    pub(crate) flags: u8,
    pub(crate) offload: Offload,
    /// Indices into the engine's own lists, not the switch's identifiers.
    pub(crate) vip_index: u16,
    pub(crate) server_index: u16,
    /// Tick of the last packet; in quarantine the tick when the port is free;
    /// in a free list the record before.
    pub(crate) last_seen: u32,
    /// Rises each time the record is used anew.
    pub(crate) generation: u16,
    /// Low half of the VIP's generation when the session was made.
    pub(crate) vip_generation: u16,
    /// By offload state. None: tick before which no entry is asked for.
    /// Requested, Removing: tick of the request. Installed: packets that came
    /// here all the same. In a free list: the record after.
    pub(crate) aux: u32,
    pub(crate) fwd: Packed,
    pub(crate) rev: Packed,
}

const _: () = assert!(size_of::<Record>() == 64 && align_of::<Record>() == 64);

impl Record {
    pub(crate) const FREE: Self = Self {
        client: 0,
        vip: 0,
        local: 0,
        server: 0,
        client_port: 0,
        vip_port: 0,
        local_port: 0,
        server_port: 0,
        l3_delta: 0,
        l4_delta: 0,
        protocol: 0,
        state: State::Free,
        flags: 0,
        offload: Offload::None,
        vip_index: 0,
        server_index: 0,
        last_seen: 0,
        generation: 0,
        vip_generation: 0,
        aux: 0,
        fwd: Packed(0),
        rev: Packed(0),
    };

    /// Computes the deltas from the tuples.
    pub(crate) fn set_deltas(&mut self) {
        let l3 = Delta::ZERO
            .with_u32(self.client, self.local)
            .with_u32(self.vip, self.server);
        let l4 = l3
            .with_u16(self.client_port, self.local_port)
            .with_u16(self.vip_port, self.server_port);
        self.l3_delta = l3.bits();
        self.l4_delta = l4.bits();
    }

    #[inline(always)]
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_counts_and_says_when_it_is_nearly_full() {
        let mut p = Packed::default();
        assert!(!p.count(1500));
        assert!(!p.count(40));
        assert_eq!((p.packets(), p.bytes()), (2, 1540));
        assert!(p.add(1 << 20, 1 << 30));
        assert_eq!((p.packets(), p.bytes()), ((1 << 20) + 2, (1 << 30) + 1540));
        assert!(!p.add(1 << 27, 0));
        assert!(!p.add(0, 1 << 35));
        assert!(!p.add(u64::MAX, u64::MAX));
        assert_eq!((p.packets(), p.bytes()), ((1 << 20) + 2, (1 << 30) + 1540));

        let mut p = Packed::default();
        assert!(p.add((1 << 27) - 1, (1 << 35) - 1));
        assert!(p.count(65_535));
        assert_eq!((p.packets(), p.bytes()), (1 << 27, (1 << 35) + 65_534));
    }
}
