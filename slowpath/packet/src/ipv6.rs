//! IPv6 (RFC 8200): recognised, not looked into beyond the fixed header.

use std::net::Ipv6Addr;

use crate::ParseError;

/// Bytes of the fixed header.
pub const IPV6_LEN: usize = 40;

/// The fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol number of what follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Bytes after the fixed header.
    pub payload_len: u16,
}

impl Ipv6 {
    /// Reads the header at the start of `packet`.
    ///
    /// # Errors
    /// [`ParseError::ShortIpv6`].
    pub fn parse(packet: &[u8]) -> Result<Self, ParseError> {
        let h: &[u8; IPV6_LEN] = packet.first_chunk().ok_or(ParseError::ShortIpv6)?;
        let mut src = [0; 16];
        let mut dst = [0; 16];
        src.copy_from_slice(&h[8..24]);
        dst.copy_from_slice(&h[24..40]);
        Ok(Self {
            src: src.into(),
            dst: dst.into(),
            next_header: h[6],
            hop_limit: h[7],
            payload_len: u16::from_be_bytes([h[4], h[5]]),
        })
    }
}
