//! Why a packet could not be read.

use thiserror::Error;

/// Why a packet could not be read. Each value is also the name of a drop
/// reason ([`ParseError::name`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum ParseError {
    /// The frame ends inside its Ethernet header or a VLAN tag.
    #[error("the frame ends inside its Ethernet header")]
    ShortEthernet,
    /// The packet ends inside its IPv4 header.
    #[error("the packet ends inside its IPv4 header")]
    ShortIpv4,
    /// The version field is not 4.
    #[error("the IP version is not 4")]
    BadIpv4Version,
    /// The header length field is below five words.
    #[error("the IPv4 header length is below 20 bytes")]
    BadIpv4HeaderLength,
    /// The total length is below the header's or beyond the bytes present.
    #[error("the IPv4 total length does not fit the packet")]
    BadIpv4Length,
    /// The packet ends inside its IPv6 header.
    #[error("the packet ends inside its IPv6 header")]
    ShortIpv6,
    /// The packet ends inside its TCP header.
    #[error("the packet ends inside its TCP header")]
    ShortTcp,
    /// The TCP data offset is below five words or beyond the segment.
    #[error("the TCP data offset does not fit the segment")]
    BadTcpOffset,
    /// The packet ends inside its UDP header.
    #[error("the packet ends inside its UDP header")]
    ShortUdp,
    /// The UDP length is below 8 or beyond the datagram.
    #[error("the UDP length does not fit the datagram")]
    BadUdpLength,
    /// The packet ends inside its ICMP header.
    #[error("the packet ends inside its ICMP header")]
    ShortIcmp,
    /// The datagram ends inside its VXLAN header.
    #[error("the datagram ends inside its VXLAN header")]
    ShortVxlan,
    /// The VXLAN header's I flag is not set (RFC 7348 section 5).
    #[error("the VXLAN header carries no network identifier")]
    BadVxlanFlags,
    /// The frame is not VXLAN over UDP over IPv4.
    #[error("the frame is not VXLAN over IPv4")]
    NotVxlan,
}

impl ParseError {
    /// Every value, in the order of [`ParseError::index`].
    pub const ALL: [Self; 14] = [
        Self::ShortEthernet,
        Self::ShortIpv4,
        Self::BadIpv4Version,
        Self::BadIpv4HeaderLength,
        Self::BadIpv4Length,
        Self::ShortIpv6,
        Self::ShortTcp,
        Self::BadTcpOffset,
        Self::ShortUdp,
        Self::BadUdpLength,
        Self::ShortIcmp,
        Self::ShortVxlan,
        Self::BadVxlanFlags,
        Self::NotVxlan,
    ];

    /// The place in [`ParseError::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name under which a drop for this reason is counted.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ShortEthernet => "short_ethernet",
            Self::ShortIpv4 => "short_ipv4",
            Self::BadIpv4Version => "bad_ipv4_version",
            Self::BadIpv4HeaderLength => "bad_ipv4_header_length",
            Self::BadIpv4Length => "bad_ipv4_length",
            Self::ShortIpv6 => "short_ipv6",
            Self::ShortTcp => "short_tcp",
            Self::BadTcpOffset => "bad_tcp_offset",
            Self::ShortUdp => "short_udp",
            Self::BadUdpLength => "bad_udp_length",
            Self::ShortIcmp => "short_icmp",
            Self::ShortVxlan => "short_vxlan",
            Self::BadVxlanFlags => "bad_vxlan_flags",
            Self::NotVxlan => "not_vxlan",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn indices_and_names_are_unique() {
        for (i, e) in ParseError::ALL.iter().enumerate() {
            assert_eq!(e.index(), i);
        }
        let names: HashSet<_> = ParseError::ALL.iter().map(|e| e.name()).collect();
        assert_eq!(names.len(), ParseError::ALL.len());
    }
}
