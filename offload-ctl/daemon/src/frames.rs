//! The few frames that offload-ctl reads and writes itself: ARP (RFC 826) and
//! ICMP echo (RFC 792) for the switch's own addresses.

use std::net::Ipv4Addr;

use sluice_config::Mac;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_VLAN: u16 = 0x8100;
const BROADCAST: [u8; 6] = [0xff; 6];
/// Least Ethernet frame without its check sequence (IEEE 802.3).
const FRAME_MIN: usize = 60;
const TTL: u8 = 64;

/// An ARP packet over Ethernet for IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Request, otherwise reply.
    pub request: bool,
    /// Sender's Ethernet address.
    pub sender_mac: [u8; 6],
    /// Sender's address.
    pub sender: Ipv4Addr,
    /// Target's Ethernet address; nothing in a request.
    pub target_mac: [u8; 6],
    /// Target's address.
    pub target: Ipv4Addr,
}

/// A frame that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// ARP.
    Arp(Arp),
    /// IPv4.
    Ipv4(Ipv4<'a>),
}

/// An IPv4 packet with its frame's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    /// Who sent the frame.
    pub source_mac: [u8; 6],
    /// Source.
    pub source: Ipv4Addr,
    /// Destination.
    pub destination: Ipv4Addr,
    /// IP protocol number.
    pub protocol: u8,
    /// Whether it is part of a larger packet.
    pub fragment: bool,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// Reads a frame; `None` if it is cut short or of no interest.
pub fn parse(frame: &[u8]) -> Option<Frame<'_>> {
    let source_mac: [u8; 6] = frame.get(6..12)?.try_into().ok()?;
    let mut ethertype = be16(frame, 12)?;
    let mut at = 14;
    if ethertype == ETHERTYPE_VLAN {
        ethertype = be16(frame, 16)?;
        at = 18;
    }
    let packet = frame.get(at..)?;
    match ethertype {
        ETHERTYPE_ARP => parse_arp(packet).map(Frame::Arp),
        ETHERTYPE_IPV4 => parse_ipv4(packet, source_mac).map(Frame::Ipv4),
        _ => None,
    }
}

fn parse_arp(packet: &[u8]) -> Option<Arp> {
    // Ethernet, IPv4, lengths 6 and 4.
    if packet.get(..6)? != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    let request = match be16(packet, 6)? {
        1 => true,
        2 => false,
        _ => return None,
    };
    Some(Arp {
        request,
        sender_mac: packet.get(8..14)?.try_into().ok()?,
        sender: addr(packet, 14)?,
        target_mac: packet.get(18..24)?.try_into().ok()?,
        target: addr(packet, 24)?,
    })
}

fn parse_ipv4(packet: &[u8], source_mac: [u8; 6]) -> Option<Ipv4<'_>> {
    let first = *packet.first()?;
    let header = usize::from(first & 0x0f) * 4;
    let total = usize::from(be16(packet, 2)?);
    if first >> 4 != 4 || header < 20 || total < header {
        return None;
    }
    Some(Ipv4 {
        source_mac,
        source: addr(packet, 12)?,
        destination: addr(packet, 16)?,
        protocol: *packet.get(9)?,
        fragment: be16(packet, 6)? & 0x3fff != 0,
        payload: packet.get(header..total)?,
    })
}

/// A request for the Ethernet address of `target`.
pub fn arp_request(mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    arp_frame(
        BROADCAST,
        Arp {
            request: true,
            sender_mac: mac.0,
            sender,
            target_mac: [0; 6],
            target,
        },
    )
}

/// The reply to a request for our address `request.target`.
pub fn arp_reply(mac: Mac, request: &Arp) -> Vec<u8> {
    arp_frame(
        request.sender_mac,
        Arp {
            request: false,
            sender_mac: mac.0,
            sender: request.target,
            target_mac: request.sender_mac,
            target: request.sender,
        },
    )
}

fn arp_frame(destination: [u8; 6], arp: Arp) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_MIN);
    frame.extend(destination);
    frame.extend(arp.sender_mac);
    frame.extend(ETHERTYPE_ARP.to_be_bytes());
    frame.extend([0, 1, 8, 0, 6, 4, 0, if arp.request { 1 } else { 2 }]);
    frame.extend(arp.sender_mac);
    frame.extend(arp.sender.octets());
    frame.extend(arp.target_mac);
    frame.extend(arp.target.octets());
    frame.resize(FRAME_MIN, 0);
    frame
}

/// The answer to an ICMP echo request; `None` if it is something else, a
/// fragment, or carries a wrong checksum.
pub fn echo_reply(mac: Mac, request: &Ipv4<'_>) -> Option<Vec<u8>> {
    let icmp = request.payload;
    if request.protocol != 1 || request.fragment || icmp.len() < 8 {
        return None;
    }
    if icmp[..2] != [8, 0] || checksum(icmp) != 0 {
        return None;
    }
    let total = u16::try_from(20 + icmp.len()).ok()?;
    let mut frame = Vec::with_capacity(FRAME_MIN.max(14 + usize::from(total)));
    frame.extend(request.source_mac);
    frame.extend(mac.0);
    frame.extend(ETHERTYPE_IPV4.to_be_bytes());
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, TTL, 1, 0, 0]);
    frame.extend(request.destination.octets());
    frame.extend(request.source.octets());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend(icmp);
    frame[34] = 0;
    frame[36..38].fill(0);
    let sum = checksum(&frame[34..]);
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    frame.resize(frame.len().max(FRAME_MIN), 0);
    Some(frame)
}

/// The Internet checksum (RFC 1071); 0 over data that contain a right one.
fn checksum(data: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in data.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn addr(data: &[u8], at: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = data.get(at..at + 4)?.try_into().ok()?;
    Some(octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);

    /// Who-has 10.1.0.1 tell 10.1.0.2, written out by hand from RFC 826.
    const WHO_HAS: [u8; 42] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 0x99, 0x08, 0x06, //
        0, 1, 8, 0, 6, 4, 0, 1, 0x02, 0, 0, 0, 0, 0x99, 10, 1, 0, 2, //
        0, 0, 0, 0, 0, 0, 10, 1, 0, 1,
    ];

    #[test]
    fn answers_a_request_for_our_address() {
        let Some(Frame::Arp(request)) = parse(&WHO_HAS) else {
            panic!("no ARP");
        };
        assert!(request.request);
        let reply = arp_reply(MAC, &request);
        let mut expected = vec![
            0x02, 0, 0, 0, 0, 0x99, 0x02, 0, 0, 0, 1, 1, 0x08, 0x06, //
            0, 1, 8, 0, 6, 4, 0, 2, 0x02, 0, 0, 0, 1, 1, 10, 1, 0, 1, //
            0x02, 0, 0, 0, 0, 0x99, 10, 1, 0, 2,
        ];
        expected.resize(60, 0);
        assert_eq!(reply, expected);
    }

    #[test]
    fn a_tagged_request_is_read_too() {
        let mut tagged = WHO_HAS[..12].to_vec();
        tagged.extend([0x81, 0x00, 0x00, 0x64]);
        tagged.extend(&WHO_HAS[12..]);
        assert_eq!(parse(&tagged), parse(&WHO_HAS));
    }

    #[test]
    fn asks_by_broadcast() {
        let frame = arp_request(MAC, [10, 1, 0, 1].into(), [10, 1, 0, 2].into());
        assert_eq!(frame[..6], [0xff; 6]);
        let Some(Frame::Arp(arp)) = parse(&frame) else {
            panic!("no ARP");
        };
        assert_eq!(arp.target, Ipv4Addr::new(10, 1, 0, 2));
        assert_eq!(frame.len(), 60);
    }

    #[test]
    fn answers_a_ping_with_right_checksums() {
        let mut ping = vec![
            0x02, 0, 0, 0, 1, 1, 0x02, 0, 0, 0, 0, 0x99, 0x08, 0x00, //
            0x45, 0, 0, 0x1d, 0x12, 0x34, 0x40, 0, 9, 1, 0, 0, 10, 1, 0, 2, 10, 1, 0, 1, //
            8, 0, 0, 0, 0x00, 0x07, 0x00, 0x01, 0xab,
        ];
        let sum = checksum(&ping[34..]);
        ping[36..38].copy_from_slice(&sum.to_be_bytes());
        let Some(Frame::Ipv4(packet)) = parse(&ping) else {
            panic!("no IPv4");
        };
        let reply = echo_reply(MAC, &packet).unwrap();
        assert_eq!(reply[..12], [2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 1, 1]);
        assert_eq!(reply[26..34], [10, 1, 0, 1, 10, 1, 0, 2]);
        assert_eq!(checksum(&reply[14..34]), 0);
        assert_eq!(checksum(&reply[34..43]), 0);
        assert_eq!(reply[34..36], [0, 0]);
        assert_eq!(reply[38..43], ping[38..43]);
        let mut broken = ping.clone();
        broken[42] ^= 1;
        let Some(Frame::Ipv4(packet)) = parse(&broken) else {
            panic!("no IPv4");
        };
        assert_eq!(echo_reply(MAC, &packet), None);
    }

    #[test]
    fn nothing_that_is_cut_short_is_read() {
        for length in 0..WHO_HAS.len() {
            assert_eq!(parse(&WHO_HAS[..length]), None, "{length}");
        }
        let mut lies = vec![0u8; 34];
        lies[12..14].copy_from_slice(&[8, 0]);
        lies[14] = 0x4f; // a header of 60 bytes in a packet of 20
        lies[17] = 20;
        assert_eq!(parse(&lies), None);
    }
}
