//! UDP header (RFC 768).

use crate::{ParseError, bytes::get_u16, ipv4::Fragment};

/// Bytes of the header.
pub const UDP_LEN: usize = 8;
/// Offset of the checksum in the header.
pub const UDP_CHECKSUM: usize = 6;

/// A checked UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of header and data.
    pub len: usize,
    /// The checksum as it stands in the packet; zero means none.
    pub checksum: u16,
}

impl Udp {
    /// Reads the header at the start of `datagram`. In a first fragment the
    /// length may exceed what is present.
    ///
    /// # Errors
    /// [`ParseError::ShortUdp`], [`ParseError::BadUdpLength`].
    #[inline]
    pub fn parse(datagram: &[u8], fragment: Fragment) -> Result<Self, ParseError> {
        let h: &[u8; UDP_LEN] = datagram.first_chunk().ok_or(ParseError::ShortUdp)?;
        let len = usize::from(get_u16(h, 4));
        if len < UDP_LEN || (fragment == Fragment::Whole && len > datagram.len()) {
            return Err(ParseError::BadUdpLength);
        }
        Ok(Self {
            src_port: get_u16(h, 0),
            dst_port: get_u16(h, 2),
            len,
            checksum: get_u16(h, UDP_CHECKSUM),
        })
    }
}

/// Writes a header. A checksum of zero means none.
pub fn write_udp(out: &mut [u8; UDP_LEN], src_port: u16, dst_port: u16, len: u16, checksum: u16) {
    out[0..2].copy_from_slice(&src_port.to_be_bytes());
    out[2..4].copy_from_slice(&dst_port.to_be_bytes());
    out[4..6].copy_from_slice(&len.to_be_bytes());
    out[6..8].copy_from_slice(&checksum.to_be_bytes());
}
