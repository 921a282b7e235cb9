//! IPv4 (RFC 791) with options, and the transport header behind it.

use std::net::Ipv4Addr;

use crate::{
    ParseError,
    bytes::{get_u16, get_u32},
    checksum,
    icmp::Icmp,
    tcp::Tcp,
    udp::Udp,
};

/// Bytes of a header without options.
pub const IPV4_MIN_LEN: usize = 20;
/// Protocol number of ICMP.
pub const PROTO_ICMP: u8 = 1;
/// Protocol number of TCP.
pub const PROTO_TCP: u8 = 6;
/// Protocol number of UDP.
pub const PROTO_UDP: u8 = 17;

/// The part of a fragmented datagram that a packet holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// The whole datagram.
    Whole,
    /// The first fragment: has the transport header, is not complete.
    First,
    /// A later fragment: has no transport header.
    Later,
}

/// What follows the IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP segment.
    Tcp(Tcp),
    /// A UDP datagram.
    Udp(Udp),
    /// An ICMP message.
    Icmp(Icmp),
    /// Some other protocol, not looked into.
    Other,
    /// A fragment other than the first: no transport header.
    LaterFragment,
}

/// A checked IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol number.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Bytes of the header, options included (20 to 60).
    pub header_len: usize,
    /// Bytes of the datagram, header included. Bytes after it are padding.
    pub total_len: usize,
    /// Identification.
    pub ident: u16,
    /// The "don't fragment" flag.
    pub dont_fragment: bool,
    /// Which part of the datagram this is.
    pub fragment: Fragment,
    /// The header checksum as it stands in the packet.
    pub checksum: u16,
}

impl Ipv4 {
    /// Reads the header at the start of `packet`; the datagram must be whole.
    ///
    /// # Errors
    /// [`ParseError`] of the IPv4 kind.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        let out = Self::parse_header(packet)?;
        if out.total_len > packet.len() {
            return Err(ParseError::BadIpv4Length);
        }
        Ok(out)
    }

    /// As [`Ipv4::parse`] for a packet whose end may be missing, as in the
    /// quotation of an ICMP error.
    ///
    /// # Errors
    /// [`ParseError`] of the IPv4 kind.
    #[inline]
    pub fn parse_header(packet: &[u8]) -> Result<Self, ParseError> {
        let h: &[u8; IPV4_MIN_LEN] = packet.first_chunk().ok_or(ParseError::ShortIpv4)?;
        if h[0] >> 4 != 4 {
            return Err(ParseError::BadIpv4Version);
        }
        let header_len = usize::from(h[0] & 0x0f) * 4;
        if header_len < IPV4_MIN_LEN {
            return Err(ParseError::BadIpv4HeaderLength);
        }
        if packet.len() < header_len {
            return Err(ParseError::ShortIpv4);
        }
        let total_len = usize::from(get_u16(h, 2));
        if total_len < header_len {
            return Err(ParseError::BadIpv4Length);
        }
        let flags = get_u16(h, 6);
        let fragment = match (flags & 0x1fff, flags & 0x2000) {
            (0, 0) => Fragment::Whole,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        Ok(Self {
            src: Ipv4Addr::from_bits(get_u32(h, 12)),
            dst: Ipv4Addr::from_bits(get_u32(h, 16)),
            protocol: h[9],
            ttl: h[8],
            header_len,
            total_len,
            ident: get_u16(h, 4),
            dont_fragment: flags & 0x4000 != 0,
            fragment,
            checksum: get_u16(h, 10),
        })
    }

    /// Reads the transport header. `packet` is the slice this was parsed from.
    ///
    /// # Errors
    /// [`ParseError`] of the transport's kind.
    #[inline]
    pub fn transport(&self, packet: &[u8]) -> Result<Transport, ParseError> {
        if self.fragment == Fragment::Later {
            return Ok(Transport::LaterFragment);
        }
        let end = self.total_len.min(packet.len());
        let Some(l4) = packet.get(self.header_len..end) else {
            return Err(ParseError::BadIpv4Length);
        };
        Ok(match self.protocol {
            PROTO_TCP => Transport::Tcp(Tcp::parse(l4)?),
            PROTO_UDP => Transport::Udp(Udp::parse(l4, self.fragment)?),
            PROTO_ICMP => Transport::Icmp(Icmp::parse(l4)?),
            _ => Transport::Other,
        })
    }
}

/// Whether the header checksum of the packet at the start of `packet` is right.
/// A packet that does not parse is wrong.
#[must_use]
pub fn header_checksum_ok(packet: &[u8]) -> bool {
    match Ipv4::parse_header(packet) {
        Ok(ip) => packet.get(..ip.header_len).is_some_and(checksum::is_valid),
        Err(_) => false,
    }
}

/// The fields of a header to be written.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4Header {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol number.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Traffic class byte (DSCP and ECN).
    pub tos: u8,
    /// Identification.
    pub ident: u16,
    /// The "don't fragment" flag.
    pub dont_fragment: bool,
    /// Bytes of the datagram, header included.
    pub total_len: u16,
}

/// Writes a header without options, checksum included.
pub fn write_ipv4(out: &mut [u8; IPV4_MIN_LEN], h: &Ipv4Header) {
    *out = [0; IPV4_MIN_LEN];
    out[0] = 0x45;
    out[1] = h.tos;
    out[2..4].copy_from_slice(&h.total_len.to_be_bytes());
    out[4..6].copy_from_slice(&h.ident.to_be_bytes());
    out[6] = if h.dont_fragment { 0x40 } else { 0 };
    out[8] = h.ttl;
    out[9] = h.protocol;
    out[12..16].copy_from_slice(&h.src.octets());
    out[16..20].copy_from_slice(&h.dst.octets());
    let c = checksum::checksum(out);
    out[10..12].copy_from_slice(&c.to_be_bytes());
}
