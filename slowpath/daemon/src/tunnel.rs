//! The tunnel between switch and LD: VXLAN over IPv4 (RFC 7348) with the
//! steering slot as Group Policy ID (draft-smith-vxlan-group-policy).
//!
//! A packet leaves in the buffer in which it came: [`Outer::parse`] finds the
//! inner packet, [`Place::send_back`] turns the outer headers round. The outer
//! IPv4 checksum is not verified here but updated incrementally (RFC 1624), so
//! that a header that was damaged on the way in stays detectably damaged and
//! is dropped, and counted, by the switch.

use packet::{
    Delta, ParseError,
    bytes::{get_u16, get_u32, put_u16, put_u32},
    ethernet::{ETHERNET_LEN, ETHERTYPE_IPV4, Ethernet},
    ipv4::{Fragment, IPV4_MIN_LEN, Ipv4, PROTO_UDP},
    udp::{UDP_LEN, Udp},
    vxlan::{VXLAN_LEN, VXLAN_PORT, Vxlan},
};

/// TTL of the outer header of what the LD sends.
pub const OUTER_TTL: u8 = 64;
/// Outer UDP source ports are 0xC000 | 14 bits of entropy.
pub const SOURCE_PORT_BASE: u16 = 0xc000;
/// The bits of the outer UDP source port that say whose packet this is.
pub const SHARD_MASK: u16 = 0x000f;
/// Number of shards.
pub const SHARDS: usize = SHARD_MASK as usize + 1;

/// UDP, VXLAN and inner Ethernet headers.
const TUNNEL_LEN: usize = UDP_LEN + VXLAN_LEN + ETHERNET_LEN;
/// All headers in front of the inner packet when the outer ones are plain.
const PLAIN_LEN: usize = ETHERNET_LEN + IPV4_MIN_LEN + TUNNEL_LEN;
/// VXLAN flag bits: G (Group Policy ID present) and I (VNI present).
const FLAG_GROUP: u8 = 0x80;
const FLAG_VNI: u8 = 0x08;

/// Why a frame is not for the session engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTunnelled {
    /// Not VXLAN over IPv4: ARP and what else is the kernel's.
    Other,
    /// VXLAN, or meant to be, with headers that contradict each other.
    Malformed,
    /// The inner frame is not IPv4.
    InnerNotIpv4,
    /// No Group Policy ID, hence no steering slot, or slot 0, which is nobody's.
    NoSlot,
}

/// Where the headers of a frame lie: what is needed to send it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the outer IPv4 header.
    l3: u16,
    /// Offset of the outer UDP header.
    l4: u16,
    /// Offset just behind the outer UDP datagram; padding may follow.
    end: u16,
    /// Outer UDP source port.
    source_port: u16,
}

/// What the outer headers of a frame say, and where the inner packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Where the headers are.
    pub place: Place,
    /// VXLAN network identifier (bits 16 to 39) and steering slot (0 to 15). One
    /// word, as `ends`: halves that were written apart and are then read as one
    /// would have to wait for the stores.
    tag: u64,
    /// Far end (upper half) and near end of the tunnel, IPv4 addresses in host
    /// order.
    ends: u64,
}

/// Offset of the outer UDP header when the headers are plain.
const PLAIN_L4: usize = ETHERNET_LEN + IPV4_MIN_LEN;

impl Outer {
    /// Reads the outer headers of `frame`, from its Ethernet header.
    ///
    /// # Errors
    /// [`NotTunnelled`] when the frame holds no inner IPv4 packet with a slot.
    #[inline(always)]
    pub fn parse(frame: &[u8]) -> Result<Self, NotTunnelled> {
        match Self::parse_plain(frame) {
            Some(outer) => Ok(outer),
            None => Self::parse_any(frame),
        }
    }

    /// The form that the switch sends: no VLAN tag, no IPv4 options.
    #[inline(always)]
    fn parse_plain(frame: &[u8]) -> Option<Self> {
        const L4: usize = PLAIN_L4;
        let h: &[u8; PLAIN_LEN] = frame.first_chunk()?;
        let udp_len = usize::from(get_u16(h, L4 + 4));
        let end = L4 + udp_len;
        let plain = get_u16(h, 12) == ETHERTYPE_IPV4
            && h[14] == 0x45
            && usize::from(get_u16(h, 16)) == IPV4_MIN_LEN + udp_len
            && get_u16(h, 20) & 0x3fff == 0
            && h[23] == PROTO_UDP
            && get_u16(h, L4 + 2) == VXLAN_PORT
            && udp_len >= TUNNEL_LEN
            && end <= frame.len()
            && h[L4 + 8] & (FLAG_GROUP | FLAG_VNI) == (FLAG_GROUP | FLAG_VNI)
            && get_u16(h, L4 + 10) != 0
            && get_u16(h, PLAIN_LEN - 2) == ETHERTYPE_IPV4;
        plain.then(|| Self {
            place: Place {
                l3: ETHERNET_LEN as u16,
                l4: L4 as u16,
                end: end as u16,
                source_port: get_u16(h, L4),
            },
            tag: tag(get_u32(h, L4 + 12) >> 8, get_u16(h, L4 + 10)),
            ends: ends(get_u32(h, 26), get_u32(h, 30)),
        })
    }

    /// Every other form, and the reasons to refuse.
    #[cold]
    fn parse_any(frame: &[u8]) -> Result<Self, NotTunnelled> {
        use NotTunnelled::{InnerNotIpv4, Malformed, NoSlot, Other};
        let bad = |_: ParseError| Malformed;
        let eth = Ethernet::parse(frame).map_err(|_| Other)?;
        if eth.ethertype != ETHERTYPE_IPV4 {
            return Err(Other);
        }
        let l3 = frame.get(eth.len..).ok_or(Other)?;
        let ip = Ipv4::parse(l3).map_err(bad)?;
        if ip.protocol != PROTO_UDP || ip.fragment == Fragment::Later {
            return Err(Other);
        }
        let datagram = l3.get(ip.header_len..ip.total_len).ok_or(Malformed)?;
        let udp = Udp::parse(datagram, ip.fragment).map_err(bad)?;
        if udp.dst_port != VXLAN_PORT {
            return Err(Other);
        }
        let payload = datagram.get(UDP_LEN..udp.len).ok_or(Malformed)?;
        let vxlan = Vxlan::parse(payload).map_err(bad)?;
        let inner = payload.get(VXLAN_LEN..).ok_or(Malformed)?;
        let inner = Ethernet::parse(inner).map_err(bad)?;
        if inner.ethertype != ETHERTYPE_IPV4 || inner.len != ETHERNET_LEN {
            return Err(InnerNotIpv4);
        }
        let slot = vxlan.group.filter(|slot| *slot != 0).ok_or(NoSlot)?;
        let l4 = eth.len + ip.header_len;
        let offset = |at: usize| u16::try_from(at).map_err(|_| Malformed);
        Ok(Self {
            place: Place {
                l3: offset(eth.len)?,
                l4: offset(l4)?,
                end: offset(l4 + udp.len)?,
                source_port: udp.src_port,
            },
            tag: tag(vxlan.vni, slot),
            ends: ends(ip.src.to_bits(), ip.dst.to_bits()),
        })
    }

    /// VXLAN network identifier: the tenant, 0 for the public side.
    #[inline(always)]
    #[must_use]
    pub fn vni(&self) -> u32 {
        (self.tag >> 16) as u32
    }

    /// Steering slot, from the Group Policy ID.
    #[inline(always)]
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.tag as u16
    }

    /// The two ends of the tunnel, as [`ends`] has them.
    #[inline(always)]
    #[must_use]
    pub fn ends(&self) -> u64 {
        self.ends
    }

    /// The shard of the packet's session, which says whose it is.
    #[inline(always)]
    #[must_use]
    pub fn shard(&self) -> usize {
        usize::from(self.place.source_port & SHARD_MASK)
    }
}

/// The tunnel's far end and near end, IPv4 addresses in host order, in one word.
#[inline(always)]
#[must_use]
pub const fn ends(far: u32, near: u32) -> u64 {
    (far as u64) << 32 | near as u64
}

#[inline(always)]
const fn tag(vni: u32, slot: u16) -> u64 {
    (vni as u64) << 16 | slot as u64
}

/// The worker that owns each shard.
#[must_use]
pub fn owners(workers: u16) -> [u16; SHARDS] {
    std::array::from_fn(|shard| shard as u16 % workers.max(1))
}

impl Place {
    /// Outer UDP source port: its low four bits choose the worker.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        self.source_port
    }

    /// Where in the frame the inner packet lies, from its IPv4 header to the
    /// end of the outer datagram.
    #[inline(always)]
    #[must_use]
    pub fn inner(&self) -> std::ops::Range<usize> {
        usize::from(self.l4) + TUNNEL_LEN..usize::from(self.end)
    }

    /// How many workers have passed the frame on already. Between workers the
    /// number travels in the VXLAN header's second octet, which is reserved on
    /// the wire (RFC 7348 section 5) and is zero again in what is sent.
    #[inline]
    #[must_use]
    pub fn hops(&self, frame: &[u8]) -> u8 {
        frame.get(self.hops_at()).copied().unwrap_or(0)
    }

    /// Sets what [`Place::hops`] reads.
    #[inline]
    pub fn set_hops(&self, frame: &mut [u8], hops: u8) {
        if let Some(octet) = frame.get_mut(self.hops_at()) {
            *octet = hops;
        }
    }

    #[inline]
    fn hops_at(&self) -> usize {
        usize::from(self.l4) + UDP_LEN + 1
    }

    /// Turns the outer headers of `frame` round for an inner packet of
    /// `inner_len` bytes from its IPv4 header: addresses swapped on both
    /// layers, TTL 64, no Group Policy ID, UDP checksum zero (RFC 7348 section
    /// 5). Returns the length of the frame to send.
    ///
    /// The inner packet may have become shorter, never longer than the range
    /// [`Place::inner`] gave; `None`, with nothing written, otherwise.
    #[inline(always)]
    #[must_use]
    pub fn send_back(&self, frame: &mut [u8], inner_len: usize) -> Option<usize> {
        let (l3, l4) = (usize::from(self.l3), usize::from(self.l4));
        let end = l4 + TUNNEL_LEN + inner_len;
        if end > usize::from(self.end) {
            return None;
        }
        // With constants the offsets below cost nothing.
        if (l3, l4) == (ETHERNET_LEN, PLAIN_L4) {
            self.turn_round(frame, ETHERNET_LEN, PLAIN_L4, end)
        } else {
            self.turn_round(frame, l3, l4, end)
        }
    }

    #[inline(always)]
    fn turn_round(&self, frame: &mut [u8], l3: usize, l4: usize, end: usize) -> Option<usize> {
        let head = frame.get_mut(..end)?.get_mut(..l4 + UDP_LEN + VXLAN_LEN)?;

        swap_macs(head.first_chunk_mut()?);

        let ip: &mut [u8; IPV4_MIN_LEN] = head.get_mut(l3..)?.first_chunk_mut()?;
        let old_len = get_u16(ip, 2);
        let new_len = (end - l3) as u16;
        let old_ttl = get_u16(ip, 8);
        let new_ttl = u16::from(OUTER_TTL) << 8 | old_ttl & 0x00ff;
        if (old_len, old_ttl) != (new_len, new_ttl) {
            let delta = Delta::ZERO
                .with_u16(old_len, new_len)
                .with_u16(old_ttl, new_ttl);
            put_u16(ip, 2, new_len);
            put_u16(ip, 8, new_ttl);
            let checksum = delta.apply(get_u16(ip, 10));
            put_u16(ip, 10, checksum);
        }
        // Swapping the addresses leaves the header's sum as it is.
        let (src, dst) = (get_u32(ip, 12), get_u32(ip, 16));
        put_u32(ip, 12, dst);
        put_u32(ip, 16, src);

        let udp: &mut [u8; UDP_LEN + VXLAN_LEN] = head.get_mut(l4..)?.first_chunk_mut()?;
        put_u16(udp, 0, SOURCE_PORT_BASE | self.source_port);
        put_u16(udp, 4, (end - l4) as u16);
        put_u16(udp, 6, 0);
        udp[8] = FLAG_VNI;
        udp[9] = 0;
        put_u16(udp, 10, 0);
        Some(end)
    }
}

/// Swaps the two halves, in two words: bytes 0 to 7 and 8 to 11.
#[inline(always)]
fn swap_macs(macs: &mut [u8; 12]) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *macs;
    let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let high = u32::from_le_bytes([i, j, k, l]);
    let new_low = low >> 48 | u64::from(high) << 16 | low << 48;
    let new_high = (low >> 16) as u32;
    if let Some((first, rest)) = macs.split_first_chunk_mut::<8>() {
        *first = new_low.to_le_bytes();
        rest.copy_from_slice(&new_high.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use packet::vxlan::{ENCAP_LEN, Encap};
    use proptest::prelude::*;

    const SWITCH_MAC: [u8; 6] = [2, 0, 0, 0, 5, 5];
    const LD_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];
    const SWITCH: [u8; 4] = [10, 3, 0, 1];
    const LD: [u8; 4] = [10, 3, 0, 2];

    /// An inner frame with the Ethernet header of the tunnel contract.
    fn inner_frame(payload: usize) -> Vec<u8> {
        let mut out = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
            .ipv4([10, 1, 0, 2], [10, 100, 0, 10], 63)
            .udp(40_000, 5353)
            .write(&mut out, &vec![7; payload])
            .unwrap();
        out
    }

    /// Switch -> LD, built by a third party: outer headers by etherparse, the
    /// VXLAN header byte by byte from the draft.
    fn from_switch(sport: u16, slot: u16, inner: &[u8], ttl: u8) -> Vec<u8> {
        let mut payload = vec![0x88, 0];
        payload.extend(slot.to_be_bytes());
        payload.extend([0, 0x12, 0x34, 0]);
        payload.extend(inner);
        let mut out = Vec::new();
        PacketBuilder::ethernet2(SWITCH_MAC, LD_MAC)
            .ipv4(SWITCH, LD, ttl)
            .udp(sport, 4789)
            .write(&mut out, &payload)
            .unwrap();
        out
    }

    fn to_switch(sport: u16, inner: &[u8], ttl: u8) -> Vec<u8> {
        let mut payload = vec![0x08, 0, 0, 0, 0, 0x12, 0x34, 0];
        payload.extend(inner);
        let mut out = Vec::new();
        PacketBuilder::ethernet2(LD_MAC, SWITCH_MAC)
            .ipv4(LD, SWITCH, ttl)
            .udp(sport, 4789)
            .write(&mut out, &payload)
            .unwrap();
        // The contract wants no outer UDP checksum.
        out[40..42].fill(0);
        out
    }

    #[test]
    fn reads_what_the_switch_sends() {
        let inner = inner_frame(20);
        let frame = from_switch(0xc12b, 3, &inner, 64);
        let outer = Outer::parse(&frame).unwrap();
        assert_eq!(outer.place.source_port(), 0xc12b);
        assert_eq!((outer.vni(), outer.slot()), (0x1234, 3));
        assert_eq!(outer.ends(), 0x0a03_0001_0a03_0002);
        assert_eq!(&frame[outer.place.inner()], &inner[14..]);
        assert_eq!(outer.shard(), 11);
        let owner = |workers: u16| owners(workers)[outer.shard()];
        assert_eq!((owner(1), owner(2), owner(3), owner(16)), (0, 1, 2, 11));
    }

    #[test]
    fn swaps_addresses() {
        let mut macs = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
        swap_macs(&mut macs);
        assert_eq!(macs, [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn turns_whole_frames_round() {
        let inner = inner_frame(33);
        for ttl in [64, 17] {
            let mut frame = from_switch(0xc12b, 3, &inner, ttl);
            let outer = Outer::parse(&frame).unwrap();
            let len = outer.place.send_back(&mut frame, inner.len() - 14).unwrap();
            assert_eq!(frame[..len], to_switch(0xc12b, &inner, 64));
        }
    }

    #[test]
    fn a_shorter_inner_packet_shortens_every_length() {
        let inner = inner_frame(600);
        let mut frame = from_switch(0xc001, 9, &inner, 64);
        let outer = Outer::parse(&frame).unwrap();
        let start = outer.place.inner().start;
        let short = inner_frame(2);
        frame[start - 14..start - 14 + short.len()].copy_from_slice(&short);
        let len = outer.place.send_back(&mut frame, short.len() - 14).unwrap();
        assert_eq!(frame[..len], to_switch(0xc001, &short, 64));
    }

    #[test]
    fn never_grows() {
        let inner = inner_frame(8);
        let mut frame = from_switch(0xc001, 9, &inner, 64);
        let before = frame.clone();
        let outer = Outer::parse(&frame).unwrap();
        assert_eq!(outer.place.send_back(&mut frame, inner.len() - 13), None);
        assert_eq!(frame, before);
    }

    #[test]
    fn padding_is_not_part_of_the_inner_packet() {
        let inner = inner_frame(1);
        let mut frame = from_switch(0xc001, 9, &inner, 64);
        frame.extend([0xee; 9]);
        let outer = Outer::parse(&frame).unwrap();
        assert_eq!(outer.place.inner().len(), inner.len() - 14);
        let len = outer.place.send_back(&mut frame, inner.len() - 14).unwrap();
        assert_eq!(frame[..len], to_switch(0xc001, &inner, 64));
    }

    #[test]
    fn vlan_tags_and_outer_options_are_kept() {
        let inner = inner_frame(5);
        let plain = from_switch(0xc001, 9, &inner, 64);
        let mut frame = plain[..12].to_vec();
        frame.extend([0x81, 0, 0, 7]);
        frame.extend(&plain[12..14]);
        // One word of options: no-operation and padding.
        let mut ip = plain[14..34].to_vec();
        ip[0] = 0x46;
        let len = u16::from_be_bytes([ip[2], ip[3]]) + 4;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        ip.extend([1, 1, 1, 0]);
        ip[10..12].fill(0);
        let checksum = packet::checksum::checksum(&ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend(&ip);
        frame.extend(&plain[34..]);

        let outer = Outer::parse(&frame).unwrap();
        assert_eq!((outer.vni(), outer.slot()), (0x1234, 9));
        assert_eq!(&frame[outer.place.inner()], &inner[14..]);
        let end = outer.place.send_back(&mut frame, inner.len() - 14).unwrap();
        assert_eq!(end, frame.len());
        assert_eq!(&frame[12..18], &[0x81, 0, 0, 7, 8, 0]);
        assert!(packet::ipv4::header_checksum_ok(&frame[18..]));
        assert_eq!(frame[30..34], LD);
        assert_eq!(frame[34..38], SWITCH);
    }

    #[test]
    fn damaged_outer_checksums_stay_damaged() {
        let inner = inner_frame(5);
        let mut frame = from_switch(0xc001, 9, &inner, 17);
        frame[24] ^= 0x10;
        let outer = Outer::parse(&frame).unwrap();
        outer.place.send_back(&mut frame, inner.len() - 14).unwrap();
        assert!(!packet::ipv4::header_checksum_ok(&frame[14..]));
    }

    #[test]
    fn names_what_is_not_tunnelled() {
        let inner = inner_frame(5);
        let good = from_switch(0xc001, 9, &inner, 64);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = good.clone();
            change(&mut frame);
            Outer::parse(&frame)
        };
        use NotTunnelled::*;
        // ARP; IPv6; another UDP port; TCP; a later fragment.
        assert_eq!(with(&|f| f[13] = 6), Err(Other));
        assert_eq!(
            with(&|f| f[12..14].copy_from_slice(&[0x86, 0xdd])),
            Err(Other)
        );
        assert_eq!(with(&|f| f[37] = 1), Err(Other));
        assert_eq!(with(&|f| f[23] = 6), Err(Other));
        assert_eq!(with(&|f| f[21] = 1), Err(Other));
        assert_eq!(Outer::parse(&[]), Err(Other));
        // The outer length exceeds the frame; no VNI; too short for a frame.
        assert_eq!(with(&|f| f.truncate(80)), Err(Malformed));
        assert_eq!(with(&|f| f[42] = 0x80), Err(Malformed));
        assert_eq!(
            with(&|f| f[38..40].copy_from_slice(&[0, 20])),
            Err(Malformed)
        );
        // Inner IPv6; no group.
        assert_eq!(
            with(&|f| f[62..64].copy_from_slice(&[0x86, 0xdd])),
            Err(InnerNotIpv4)
        );
        assert_eq!(with(&|f| f[42] = 0x08), Err(NoSlot));
        assert_eq!(with(&|f| f[45] = 0), Err(NoSlot));
    }

    proptest! {
        /// The short cut for plain headers sees what the general way sees.
        #[test]
        fn short_cut_agrees(flips in prop::collection::vec((0usize..64, any::<u8>()), 0..3),
                            cut in 0usize..60, payload in 0usize..40) {
            let mut frame = from_switch(0xc001, 9, &inner_frame(payload), 64);
            for (at, value) in flips {
                frame[at] = value;
            }
            frame.truncate(frame.len() - cut.saturating_sub(30));
            if let Some(plain) = Outer::parse_plain(&frame) {
                prop_assert_eq!(Ok(plain), Outer::parse_any(&frame));
            }
        }

        /// Nothing panics, and what is sent back is VXLAN of the same inner bytes.
        #[test]
        fn any_bytes(mut frame in prop::collection::vec(any::<u8>(), 0..200), n in 0usize..200) {
            if let Ok(outer) = Outer::parse(&frame) {
                let _ = outer.place.send_back(&mut frame, n);
            }
        }
    }

    #[test]
    fn what_leaves_is_read_by_the_packet_crate() {
        let inner = inner_frame(11);
        let mut frame = vec![0; ENCAP_LEN];
        let encap = Encap {
            dst_mac: LD_MAC,
            src_mac: SWITCH_MAC,
            src: SWITCH.into(),
            dst: LD.into(),
            src_port: 0xc00a,
            ttl: 64,
            vxlan: Vxlan {
                vni: 77,
                group: Some(2),
            },
        };
        let head: &mut [u8; ENCAP_LEN] = frame.first_chunk_mut().unwrap();
        assert!(encap.write(head, inner.len()));
        frame.extend(&inner);
        let outer = Outer::parse(&frame).unwrap();
        let len = outer.place.send_back(&mut frame, inner.len() - 14).unwrap();
        let back = packet::vxlan::decap(&frame[..len]).unwrap();
        assert_eq!(
            back.vxlan,
            Vxlan {
                vni: 77,
                group: None
            }
        );
        assert_eq!((back.outer_src, back.outer_dst), (LD.into(), SWITCH.into()));
        assert_eq!(&frame[back.inner..back.end], &inner[..]);
    }
}
