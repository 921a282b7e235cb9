//! VXLAN (RFC 7348) over IPv4, with the 16-bit Group Policy identifier
//! (draft-smith-vxlan-group-policy).

use std::net::Ipv4Addr;

use crate::{
    ParseError,
    bytes::{get_u16, get_u32},
    ethernet::{ETHERNET_LEN, ETHERTYPE_IPV4, Ethernet, write_ethernet},
    ipv4::{Fragment, IPV4_MIN_LEN, Ipv4, Ipv4Header, PROTO_UDP, write_ipv4},
    udp::{UDP_LEN, Udp, write_udp},
};

/// Bytes of the VXLAN header.
pub const VXLAN_LEN: usize = 8;
/// The assigned UDP port.
pub const VXLAN_PORT: u16 = 4789;
/// Bytes that the tunnel puts in front of the inner frame: Ethernet, IPv4, UDP
/// and VXLAN.
pub const ENCAP_LEN: usize = ETHERNET_LEN + IPV4_MIN_LEN + UDP_LEN + VXLAN_LEN;

const FLAG_VNI: u8 = 0x08;
const FLAG_GROUP: u8 = 0x80;

/// The VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// Network identifier (24 bits).
    pub vni: u32,
    /// Group Policy identifier, where the G flag is set.
    pub group: Option<u16>,
}

impl Vxlan {
    /// Reads the header at the start of `payload`.
    ///
    /// # Errors
    /// [`ParseError::ShortVxlan`], [`ParseError::BadVxlanFlags`].
    #[inline]
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let h: &[u8; VXLAN_LEN] = payload.first_chunk().ok_or(ParseError::ShortVxlan)?;
        if h[0] & FLAG_VNI == 0 {
            return Err(ParseError::BadVxlanFlags);
        }
        Ok(Self {
            vni: get_u32(h, 4) >> 8,
            group: (h[0] & FLAG_GROUP != 0).then(|| get_u16(h, 2)),
        })
    }

    /// Writes the header. Only the low 24 bits of the identifier are used.
    #[inline]
    pub fn write(&self, out: &mut [u8; VXLAN_LEN]) {
        *out = [0; VXLAN_LEN];
        out[0] = FLAG_VNI;
        if let Some(group) = self.group {
            out[0] |= FLAG_GROUP;
            out[2..4].copy_from_slice(&group.to_be_bytes());
        }
        out[4..8].copy_from_slice(&(self.vni << 8).to_be_bytes());
    }
}

/// A frame with its tunnel headers found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decap {
    /// The VXLAN header.
    pub vxlan: Vxlan,
    /// The tunnel's far end.
    pub outer_src: Ipv4Addr,
    /// The tunnel's near end.
    pub outer_dst: Ipv4Addr,
    /// Outer UDP source port: entropy or the worker shard.
    pub outer_src_port: u16,
    /// Where the inner Ethernet frame starts.
    pub inner: usize,
    /// Where the inner frame ends (the outer datagram's end; padding follows).
    pub end: usize,
}

/// Finds the inner frame of a VXLAN frame (from its outer Ethernet header).
/// The outer UDP checksum is not verified: RFC 7348 sends zero.
///
/// # Errors
/// [`ParseError::NotVxlan`] when it is something else (then it is for the
/// control plane), other [`ParseError`]s when it is malformed.
#[inline]
pub fn decap(frame: &[u8]) -> Result<Decap, ParseError> {
    let eth = Ethernet::parse(frame)?;
    if eth.ethertype != ETHERTYPE_IPV4 {
        return Err(ParseError::NotVxlan);
    }
    let packet = frame.get(eth.len..).ok_or(ParseError::ShortEthernet)?;
    let ip = Ipv4::parse(packet)?;
    if ip.protocol != PROTO_UDP || ip.fragment != Fragment::Whole {
        return Err(ParseError::NotVxlan);
    }
    let datagram = packet
        .get(ip.header_len..ip.total_len)
        .ok_or(ParseError::ShortUdp)?;
    let udp = Udp::parse(datagram, Fragment::Whole)?;
    if udp.dst_port != VXLAN_PORT {
        return Err(ParseError::NotVxlan);
    }
    let payload = datagram
        .get(UDP_LEN..udp.len)
        .ok_or(ParseError::BadUdpLength)?;
    let vxlan = Vxlan::parse(payload)?;
    let l4 = eth.len + ip.header_len;
    Ok(Decap {
        vxlan,
        outer_src: ip.src,
        outer_dst: ip.dst,
        outer_src_port: udp.src_port,
        inner: l4 + UDP_LEN + VXLAN_LEN,
        end: l4 + udp.len,
    })
}

/// What a tunnel's outer headers say.
#[derive(Clone, Copy, Debug)]
pub struct Encap {
    /// Outer Ethernet destination.
    pub dst_mac: [u8; 6],
    /// Outer Ethernet source.
    pub src_mac: [u8; 6],
    /// The near end.
    pub src: Ipv4Addr,
    /// The far end.
    pub dst: Ipv4Addr,
    /// Outer UDP source port.
    pub src_port: u16,
    /// Outer time to live.
    pub ttl: u8,
    /// The VXLAN header.
    pub vxlan: Vxlan,
}

impl Encap {
    /// Writes the headers in front of an inner frame of `inner_len` bytes. The
    /// outer UDP checksum is zero (RFC 7348 section 5). Returns `false`, with
    /// nothing written, when the datagram would exceed 65,535 bytes.
    #[must_use]
    pub fn write(&self, out: &mut [u8; ENCAP_LEN], inner_len: usize) -> bool {
        let udp_len = UDP_LEN + VXLAN_LEN + inner_len;
        let Ok(total_len) = u16::try_from(IPV4_MIN_LEN + udp_len) else {
            return false;
        };
        let Some((eth, rest)) = out.split_first_chunk_mut::<ETHERNET_LEN>() else {
            return false;
        };
        let Some((ip, rest)) = rest.split_first_chunk_mut::<IPV4_MIN_LEN>() else {
            return false;
        };
        let Some((udp, rest)) = rest.split_first_chunk_mut::<UDP_LEN>() else {
            return false;
        };
        let Some(vxlan) = rest.first_chunk_mut::<VXLAN_LEN>() else {
            return false;
        };
        write_ethernet(eth, self.dst_mac, self.src_mac, ETHERTYPE_IPV4);
        write_ipv4(
            ip,
            &Ipv4Header {
                src: self.src,
                dst: self.dst,
                protocol: PROTO_UDP,
                ttl: self.ttl,
                tos: 0,
                ident: 0,
                dont_fragment: true,
                total_len,
            },
        );
        write_udp(udp, self.src_port, VXLAN_PORT, udp_len as u16, 0);
        self.vxlan.write(vxlan);
        true
    }
}
