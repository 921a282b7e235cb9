//! ICMP (RFC 792): echo, and errors with the packet they quote.

use std::net::Ipv4Addr;

use crate::{
    ParseError,
    bytes::{get_u16, get_u32, put_u16},
    checksum,
    ipv4::{IPV4_MIN_LEN, Ipv4, Ipv4Header, write_ipv4},
};

/// Bytes of the header.
pub const ICMP_LEN: usize = 8;
/// Offset of the checksum in the header.
pub const ICMP_CHECKSUM: usize = 2;
/// Echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Code of [`UNREACHABLE`]: fragmentation needed and DF set (RFC 1191).
pub const CODE_FRAG_NEEDED: u8 = 4;
/// Echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// A message's fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The second word: identifier and sequence, or unused and next-hop MTU.
    pub rest: u32,
}

impl Icmp {
    /// Reads the header at the start of `message`.
    ///
    /// # Errors
    /// [`ParseError::ShortIcmp`].
    #[inline]
    pub fn parse(message: &[u8]) -> Result<Self, ParseError> {
        let h: &[u8; ICMP_LEN] = message.first_chunk().ok_or(ParseError::ShortIcmp)?;
        Ok(Self {
            kind: h[0],
            code: h[1],
            rest: get_u32(h, 4),
        })
    }

    /// Whether this is an error that quotes a packet of a flow and is worth
    /// relaying: unreachable, time exceeded or parameter problem.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(self.kind, UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }
}

/// The packet that an ICMP error quotes: header and, for TCP and UDP, ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// The quoted IPv4 header. Its `total_len` is that of the original packet.
    pub ip: Ipv4,
    /// Source port, zero for other protocols.
    pub src_port: u16,
    /// Destination port, zero for other protocols.
    pub dst_port: u16,
}

impl Quoted {
    /// Reads the quotation, which starts at byte 8 of the ICMP message. RFC 792
    /// promises the header and eight bytes after it.
    ///
    /// # Errors
    /// [`ParseError`] of the IPv4 kind; [`ParseError::ShortIcmp`] when the
    /// ports are missing.
    pub fn parse(quotation: &[u8]) -> Result<Self, ParseError> {
        let ip = Ipv4::parse_header(quotation)?;
        if quotation.len() < ip.header_len + 8 {
            return Err(ParseError::ShortIcmp);
        }
        Ok(Self {
            ip,
            src_port: get_u16(quotation, ip.header_len),
            dst_port: get_u16(quotation, ip.header_len + 2),
        })
    }
}

/// Turns the echo request in `packet` (from its IPv4 header) into the reply, in
/// place: addresses swapped, type 0, both checksums adjusted, TTL 64. IP
/// options are kept as they are. Returns `false`, with nothing changed, when
/// the packet is not a whole echo request.
#[must_use]
pub fn make_echo_reply(packet: &mut [u8]) -> bool {
    let Ok(ip) = Ipv4::parse(packet) else {
        return false;
    };
    let at = ip.header_len;
    let kind = get_u16(packet, at);
    if ip.protocol != crate::PROTO_ICMP
        || ip.fragment != crate::Fragment::Whole
        || ip.total_len < at + ICMP_LEN
        || kind >> 8 != u16::from(ECHO_REQUEST)
    {
        return false;
    }
    let reply_kind = kind & 0x00ff;
    let c = get_u16(packet, at + ICMP_CHECKSUM);
    let d = checksum::Delta::ZERO.with_u16(kind, reply_kind);
    put_u16(packet, at, reply_kind);
    put_u16(packet, at + ICMP_CHECKSUM, d.apply(c));
    let (src, dst) = (get_u32(packet, 12), get_u32(packet, 16));
    crate::bytes::put_u32(packet, 12, dst);
    crate::bytes::put_u32(packet, 16, src);
    let old = get_u16(packet, 8);
    let new = 64 << 8 | old & 0xff;
    put_u16(packet, 8, new);
    let c = get_u16(packet, 10);
    put_u16(
        packet,
        10,
        checksum::Delta::ZERO.with_u16(old, new).apply(c),
    );
    true
}

/// At most this many bytes of an offending packet are quoted, so that the whole
/// error stays within 576 bytes (RFC 1812 section 4.3.2.3).
pub const MAX_QUOTE: usize = 576 - IPV4_MIN_LEN - ICMP_LEN;

/// Replaces the packet in `packet` (from its IPv4 header) by a "fragmentation
/// needed" error about it (RFC 1191), sent from `from` to the packet's source
/// with `mtu` as the next hop's MTU. Returns the error's length, or `None` with
/// nothing changed when the packet does not parse or has no room for the error.
#[must_use]
pub fn make_frag_needed(packet: &mut [u8], from: Ipv4Addr, mtu: u16) -> Option<usize> {
    const HEADERS: usize = IPV4_MIN_LEN + ICMP_LEN;
    let ip = Ipv4::parse(packet).ok()?;
    let quote = ip.total_len.min(MAX_QUOTE);
    let len = HEADERS + quote;
    if packet.len() < len {
        return None;
    }
    packet.copy_within(0..quote, HEADERS);
    let head: &mut [u8; HEADERS] = packet.first_chunk_mut()?;
    let (ip_out, icmp_out) = head.split_first_chunk_mut::<IPV4_MIN_LEN>()?;
    write_ipv4(
        ip_out,
        &Ipv4Header {
            src: from,
            dst: ip.src,
            protocol: crate::PROTO_ICMP,
            ttl: 64,
            // Precedence 6, internetwork control (RFC 1812 section 4.3.2.5).
            tos: 0xc0,
            ident: 0,
            dont_fragment: false,
            total_len: len as u16,
        },
    );
    icmp_out.fill(0);
    icmp_out[0] = UNREACHABLE;
    icmp_out[1] = CODE_FRAG_NEEDED;
    icmp_out[6..8].copy_from_slice(&mtu.to_be_bytes());
    let c = checksum::checksum(packet.get(IPV4_MIN_LEN..len)?);
    put_u16(packet, IPV4_MIN_LEN + ICMP_CHECKSUM, c);
    Some(len)
}
