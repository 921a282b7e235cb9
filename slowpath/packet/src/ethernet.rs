//! Ethernet II with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad).

use crate::{ParseError, bytes::get_u16};

/// Bytes of an untagged Ethernet header.
pub const ETHERNET_LEN: usize = 14;
/// Bytes of a VLAN tag.
pub const VLAN_LEN: usize = 4;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;
/// EtherType of a customer VLAN tag (802.1Q).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of a service VLAN tag (802.1ad).
pub const ETHERTYPE_QINQ: u16 = 0x88a8;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;

/// A link-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// VLAN identifiers (12 bits), outermost first.
    pub vlans: [Option<u16>; 2],
    /// EtherType of the payload.
    pub ethertype: u16,
    /// Bytes of the header, tags included.
    pub len: usize,
}

impl Ethernet {
    /// Reads the header at the start of `frame`. A third tag is left as payload.
    ///
    /// # Errors
    /// [`ParseError::ShortEthernet`] when the frame ends inside the header.
    pub fn parse(frame: &[u8]) -> Result<Self, ParseError> {
        let h: &[u8; ETHERNET_LEN] = frame.first_chunk().ok_or(ParseError::ShortEthernet)?;
        let mut out = Self {
            dst: [h[0], h[1], h[2], h[3], h[4], h[5]],
            src: [h[6], h[7], h[8], h[9], h[10], h[11]],
            vlans: [None; 2],
            ethertype: get_u16(h, 12),
            len: ETHERNET_LEN,
        };
        for vlan in &mut out.vlans {
            if out.ethertype != ETHERTYPE_VLAN && out.ethertype != ETHERTYPE_QINQ {
                break;
            }
            if frame.len() < out.len + VLAN_LEN {
                return Err(ParseError::ShortEthernet);
            }
            *vlan = Some(get_u16(frame, out.len) & 0x0fff);
            out.ethertype = get_u16(frame, out.len + 2);
            out.len += VLAN_LEN;
        }
        Ok(out)
    }
}

/// Writes an untagged header.
pub fn write_ethernet(out: &mut [u8; ETHERNET_LEN], dst: [u8; 6], src: [u8; 6], ethertype: u16) {
    out[0..6].copy_from_slice(&dst);
    out[6..12].copy_from_slice(&src);
    out[12..14].copy_from_slice(&ethertype.to_be_bytes());
}
