//! A whole frame, from Ethernet to the transport header.

use crate::{
    ParseError,
    ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet},
    ipv4::{Ipv4, Transport},
    ipv6::Ipv6,
};

/// What an Ethernet frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// IPv4 and what follows it.
    Ipv4(Ipv4, Transport),
    /// IPv6, recognised only.
    Ipv6(Ipv6),
    /// ARP, not looked into.
    Arp,
    /// Some other EtherType.
    Other(u16),
}

/// A frame's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The link layer; `link.len` is the offset of the network header.
    pub link: Ethernet,
    /// The network layer.
    pub network: Network,
}

/// Reads the headers of `frame`.
///
/// # Errors
/// [`ParseError`], each the name of a drop reason.
pub fn parse(frame: &[u8]) -> Result<Parsed, ParseError> {
    let link = Ethernet::parse(frame)?;
    let packet = frame.get(link.len..).ok_or(ParseError::ShortEthernet)?;
    let network = match link.ethertype {
        ETHERTYPE_IPV4 => {
            let ip = Ipv4::parse(packet)?;
            Network::Ipv4(ip, ip.transport(packet)?)
        }
        ETHERTYPE_IPV6 => Network::Ipv6(Ipv6::parse(packet)?),
        ETHERTYPE_ARP => Network::Arp,
        other => Network::Other(other),
    };
    Ok(Parsed { link, network })
}
