//! TCP header (RFC 9293 section 3.1).

use crate::{
    ParseError,
    bytes::{get_u16, get_u32},
};

/// Bytes of a header without options.
pub const TCP_MIN_LEN: usize = 20;
/// Offset of the checksum in the header.
pub const TCP_CHECKSUM: usize = 16;

/// The control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field is significant.
    pub const ACK: u8 = 0x10;

    /// Whether FIN is set.
    #[inline(always)]
    #[must_use]
    pub const fn fin(self) -> bool {
        self.0 & Self::FIN != 0
    }
    /// Whether SYN is set.
    #[inline(always)]
    #[must_use]
    pub const fn syn(self) -> bool {
        self.0 & Self::SYN != 0
    }
    /// Whether RST is set.
    #[inline(always)]
    #[must_use]
    pub const fn rst(self) -> bool {
        self.0 & Self::RST != 0
    }
    /// Whether ACK is set.
    #[inline(always)]
    #[must_use]
    pub const fn ack(self) -> bool {
        self.0 & Self::ACK != 0
    }
    /// Whether this opens a connection: SYN alone of SYN, ACK, FIN and RST.
    #[inline(always)]
    #[must_use]
    pub const fn opens(self) -> bool {
        self.0 & (Self::SYN | Self::ACK | Self::FIN | Self::RST) == Self::SYN
    }
}

/// A checked TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Bytes of the header, options included.
    pub header_len: usize,
    /// The checksum as it stands in the packet.
    pub checksum: u16,
}

impl Tcp {
    /// Reads the header at the start of `segment`.
    ///
    /// # Errors
    /// [`ParseError::ShortTcp`], [`ParseError::BadTcpOffset`].
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Self, ParseError> {
        let h: &[u8; TCP_MIN_LEN] = segment.first_chunk().ok_or(ParseError::ShortTcp)?;
        let header_len = usize::from(h[12] >> 4) * 4;
        if header_len < TCP_MIN_LEN || header_len > segment.len() {
            return Err(ParseError::BadTcpOffset);
        }
        Ok(Self {
            src_port: get_u16(h, 0),
            dst_port: get_u16(h, 2),
            seq: get_u32(h, 4),
            ack: get_u32(h, 8),
            flags: TcpFlags(h[13]),
            header_len,
            checksum: get_u16(h, TCP_CHECKSUM),
        })
    }
}
