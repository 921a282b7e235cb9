//! Packets, built from nothing.
//!
//! Headers and checksums are etherparse's; tags and VXLAN are written here by
//! IEEE 802.1Q and RFC 7348. Checksums are always computed in full, so that an
//! expected packet shows whether an incremental update was right.

use anyhow::{Context, Result};
use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpFragOffset, IpNumber, Ipv4Header, Ipv4Options,
    TcpHeader, UdpHeader,
};

/// An IPv4 address as P4 has it, the first byte highest.
pub type Addr = u32;

/// A MAC address as P4 has it, the first byte highest.
pub type Mac = u64;

/// FIN, as in RFC 9293.
pub const FIN: u8 = 0x01;
/// SYN.
pub const SYN: u8 = 0x02;
/// RST.
pub const RST: u8 = 0x04;
/// PSH.
pub const PSH: u8 = 0x08;
/// ACK.
pub const ACK: u8 = 0x10;

/// An address from its four numbers.
pub const fn addr(a: u8, b: u8, c: u8, d: u8) -> Addr {
    u32::from_be_bytes([a, b, c, d])
}

/// What follows the IPv4 header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum L4 {
    /// TCP.
    Tcp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// The eight control bits, CWR highest.
        flags: u8,
        /// Options, a multiple of four bytes.
        options: Vec<u8>,
    },
    /// UDP.
    Udp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// Whether there is a checksum; if not, the field is zero.
        checksum: bool,
    },
    /// ICMP: type, code and the four bytes after the checksum.
    Icmp {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// Rest of the header.
        rest: [u8; 4],
    },
    /// A protocol of which only the payload is written.
    Raw(u8),
}

/// An IPv4 packet to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ip {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Time to live.
    pub ttl: u8,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Don't fragment.
    pub df: bool,
    /// More fragments.
    pub mf: bool,
    /// Fragment offset in units of 8 bytes.
    pub offset: u16,
    /// Options, a multiple of four bytes.
    pub options: Vec<u8>,
    /// Header of the transport layer.
    pub l4: L4,
    /// What follows it.
    pub payload: Vec<u8>,
}

impl Ip {
    fn new(src: Addr, dst: Addr, l4: L4) -> Self {
        Self {
            src,
            dst,
            ttl: 64,
            tos: 0,
            id: 0x1234,
            df: true,
            mf: false,
            offset: 0,
            options: Vec::new(),
            l4,
            payload: b"payload of odd length".to_vec(),
        }
    }

    /// A TCP segment.
    pub fn tcp(src: (Addr, u16), dst: (Addr, u16), flags: u8) -> Self {
        Self::new(
            src.0,
            dst.0,
            L4::Tcp {
                src: src.1,
                dst: dst.1,
                flags,
                options: Vec::new(),
            },
        )
    }

    /// A UDP datagram with checksum.
    pub fn udp(src: (Addr, u16), dst: (Addr, u16)) -> Self {
        Self::new(
            src.0,
            dst.0,
            L4::Udp {
                src: src.1,
                dst: dst.1,
                checksum: true,
            },
        )
    }

    /// An ICMP echo request (RFC 792).
    pub fn echo(src: Addr, dst: Addr) -> Self {
        let rest = [0x11, 0x22, 0, 1];
        Self::new(
            src,
            dst,
            L4::Icmp {
                kind: 8,
                code: 0,
                rest,
            },
        )
    }

    /// A packet of another protocol, or a fragment.
    pub fn raw(src: Addr, dst: Addr, protocol: u8) -> Self {
        Self::new(src, dst, L4::Raw(protocol))
    }

    /// The same from another address and port (no port for other protocols).
    #[must_use]
    pub fn from(mut self, addr: Addr, port: u16) -> Self {
        self.src = addr;
        match &mut self.l4 {
            L4::Tcp { src, .. } | L4::Udp { src, .. } => *src = port,
            L4::Icmp { .. } | L4::Raw(_) => {}
        }
        self
    }

    /// The same to another address and port.
    #[must_use]
    pub fn to(mut self, addr: Addr, port: u16) -> Self {
        self.dst = addr;
        match &mut self.l4 {
            L4::Tcp { dst, .. } | L4::Udp { dst, .. } => *dst = port,
            L4::Icmp { .. } | L4::Raw(_) => {}
        }
        self
    }

    /// With this time to live.
    #[must_use]
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// One hop further.
    #[must_use]
    pub fn routed(self) -> Self {
        let ttl = self.ttl.saturating_sub(1);
        self.ttl(ttl)
    }

    /// With this payload.
    #[must_use]
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// With these IPv4 options, a multiple of four bytes.
    #[must_use]
    pub fn options(mut self, options: &[u8]) -> Self {
        self.options = options.to_vec();
        self
    }

    /// UDP without checksum.
    #[must_use]
    pub fn without_checksum(mut self) -> Self {
        if let L4::Udp { checksum, .. } = &mut self.l4 {
            *checksum = false;
        }
        self
    }

    /// With a payload that makes the packet `length` bytes long (IPv4 total
    /// length).
    ///
    /// # Errors
    /// If its headers are longer.
    pub fn total(mut self, length: usize) -> Result<Self> {
        self.payload.clear();
        let room = length
            .checked_sub(self.bytes()?.len())
            .context("the headers are longer than that")?;
        self.payload = (0..room).map(|at| (at % 251) as u8).collect();
        Ok(self)
    }

    /// The packet.
    ///
    /// # Errors
    /// If a part has an impossible length.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let protocol = match self.l4 {
            L4::Tcp { .. } => IpNumber::TCP,
            L4::Udp { .. } => IpNumber::UDP,
            L4::Icmp { .. } => IpNumber::ICMP,
            L4::Raw(number) => IpNumber(number),
        };
        let (src, dst) = (self.src.to_be_bytes(), self.dst.to_be_bytes());
        let mut ip = Ipv4Header::new(0, self.ttl, protocol, src, dst)?;
        ip.dscp = IpDscp::try_new(self.tos >> 2)?;
        ip.ecn = IpEcn::try_new(self.tos & 3)?;
        ip.identification = self.id;
        ip.dont_fragment = self.df;
        ip.more_fragments = self.mf;
        ip.fragment_offset = IpFragOffset::try_new(self.offset)?;
        ip.options = Ipv4Options::try_from(self.options.as_slice())?;

        let l4 = self.l4_header(&ip)?;
        ip.set_payload_len(l4.len() + self.payload.len())?;
        ip.header_checksum = ip.calc_header_checksum();
        Ok([&ip.to_bytes()[..], &l4, &self.payload].concat())
    }

    fn l4_header(&self, ip: &Ipv4Header) -> Result<Vec<u8>> {
        Ok(match &self.l4 {
            L4::Tcp {
                src,
                dst,
                flags,
                options,
            } => {
                let mut tcp = TcpHeader::new(*src, *dst, 0x0102_0304, 0xfaff);
                tcp.acknowledgment_number = 0x0a0b_0c0d;
                tcp.set_options_raw(options)
                    .ok()
                    .context("TCP options have up to 40 bytes")?;
                tcp.fin = flags & FIN != 0;
                tcp.syn = flags & SYN != 0;
                tcp.rst = flags & RST != 0;
                tcp.psh = flags & PSH != 0;
                tcp.ack = flags & ACK != 0;
                tcp.urg = flags & 0x20 != 0;
                tcp.ece = flags & 0x40 != 0;
                tcp.cwr = flags & 0x80 != 0;
                tcp.checksum = tcp.calc_checksum_ipv4(ip, &self.payload)?;
                tcp.to_bytes().to_vec()
            }
            L4::Udp { src, dst, checksum } => {
                let udp = if *checksum {
                    UdpHeader::with_ipv4_checksum(*src, *dst, ip, &self.payload)?
                } else {
                    UdpHeader::without_ipv4_checksum(*src, *dst, self.payload.len())?
                };
                udp.to_bytes().to_vec()
            }
            L4::Icmp { kind, code, rest } => {
                let mut bytes = vec![*kind, *code, 0, 0];
                bytes.extend(rest);
                let sum = internet_checksum(&[&bytes, &self.payload[..]].concat());
                bytes[2..4].copy_from_slice(&sum.to_be_bytes());
                bytes
            }
            L4::Raw(_) => Vec::new(),
        })
    }
}

/// The checksum of RFC 1071, word by word.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or(0),
        ]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The six bytes of a MAC address.
pub fn mac_bytes(mac: Mac) -> [u8; 6] {
    let bytes = mac.to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

/// An Ethernet frame without tag.
pub fn ethernet(dst: Mac, src: Mac, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let header = Ethernet2Header {
        destination: mac_bytes(dst),
        source: mac_bytes(src),
        ether_type: EtherType(ether_type),
    };
    [&header.to_bytes()[..], payload].concat()
}

/// An Ethernet frame with an IPv4 packet.
///
/// # Errors
/// As [`Ip::bytes`].
pub fn ipv4(dst: Mac, src: Mac, packet: &Ip) -> Result<Vec<u8>> {
    Ok(ethernet(dst, src, 0x0800, &packet.bytes()?))
}

/// The frame with a tag (IEEE 802.1Q; priority and DEI above the VLAN id) put
/// behind its addresses.
pub fn tagged(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    let mut tagged = frame.to_vec();
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = tci.to_be_bytes();
    tagged.splice(12..12, [a, b, c, d]);
    tagged
}

/// What a tunnel writes around a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// Outer destination MAC address.
    pub dmac: Mac,
    /// Outer source MAC address.
    pub smac: Mac,
    /// Outer source address.
    pub src: Addr,
    /// Outer destination address.
    pub dst: Addr,
    /// Outer UDP source port.
    pub sport: u16,
    /// The first byte of the VXLAN header (RFC 7348, and the group policy
    /// draft).
    pub flags: u8,
    /// Group Policy ID.
    pub group: u16,
    /// VXLAN network identifier.
    pub vni: u32,
}

impl Tunnel {
    /// The frame with an IPv4 packet inside.
    ///
    /// # Errors
    /// As [`Ip::bytes`].
    pub fn around(&self, packet: &[u8]) -> Result<Vec<u8>> {
        self.carrying(&ethernet(
            0x0200_0000_0001,
            0x0200_0000_0002,
            0x0800,
            packet,
        ))
    }

    /// The frame with another frame inside.
    ///
    /// # Errors
    /// As [`Ip::bytes`].
    pub fn carrying(&self, frame: &[u8]) -> Result<Vec<u8>> {
        let mut vxlan = vec![self.flags, 0];
        vxlan.extend(self.group.to_be_bytes());
        vxlan.extend((self.vni << 8).to_be_bytes());
        vxlan.extend(frame);
        let mut outer = Ip::udp((self.src, self.sport), (self.dst, 4789))
            .without_checksum()
            .payload(&vxlan);
        outer.id = 0;
        ipv4(self.dmac, self.smac, &outer)
    }
}

/// CRC-32 of IEEE 802.3, bit by bit.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
    }
    !crc
}

/// Hexadecimal lines of both with the first difference marked, for a failure.
pub fn difference(expected: &[u8], found: &[u8]) -> String {
    let at = expected
        .iter()
        .zip(found)
        .position(|(a, b)| a != b)
        .unwrap_or(expected.len().min(found.len()));
    format!(
        "first difference at byte {at}\n  expected ({} bytes) {}\n  found    ({} bytes) {}",
        expected.len(),
        hex(expected, at),
        found.len(),
        hex(found, at)
    )
}

/// Hexadecimal digits, with `>` before byte `mark`; long frames are cut.
pub fn hex(bytes: &[u8], mark: usize) -> String {
    const SHOWN: usize = 128;
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate().take(SHOWN.max(mark + 16)) {
        if at == mark {
            text.push('>');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    if bytes.len() > SHOWN.max(mark + 16) {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_has_its_check_value() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn checksum_of_rfc_1071() {
        // The example of RFC 1071, section 3: the sum is ddf2.
        assert_eq!(
            internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
    }

    #[test]
    fn a_known_header() {
        // A published example of the IPv4 header checksum: b861.
        let mut ip = Ip::raw(addr(192, 168, 0, 1), addr(192, 168, 0, 199), 17).payload(&[0; 95]);
        ip.id = 0;
        let bytes = ip.bytes().unwrap();
        assert_eq!(bytes[..4], [0x45, 0, 0, 0x73]);
        assert_eq!(bytes[10..12], [0xb8, 0x61]);
        assert_eq!(internet_checksum(&bytes[..20]), 0);
    }

    #[test]
    fn vxlan_by_rfc_7348() {
        let tunnel = Tunnel {
            dmac: 1,
            smac: 2,
            src: addr(10, 3, 0, 1),
            dst: addr(10, 3, 0, 2),
            sport: 0xc001,
            flags: 0x88,
            group: 0x0102,
            vni: 7,
        };
        let frame = tunnel.around(&[0xaa]).unwrap();
        assert_eq!(
            frame[42..50],
            [0x88, 0, 0x01, 0x02, 0, 0, 7, 0],
            "the VXLAN header"
        );
        assert_eq!(frame[50..56], [2, 0, 0, 0, 0, 1]);
        assert_eq!(frame.len(), 14 + 50 + 1);
        // UDP length, then checksum 0.
        assert_eq!(frame[38..42], [0, 31, 0, 0]);
    }
}
