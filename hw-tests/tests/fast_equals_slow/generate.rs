//! Generated packets of established sessions.

use anyhow::{Context, Result};
use hw_tests::frame::{ACK, Addr, FIN, Ip, L4, RST, SYN, internet_checksum};
use hw_tests::scene::{UPLINK, VIP};
use proptest::prelude::*;
use session_engine::Protocol;

use crate::slow_path::Established;

/// Address and port of source and destination.
type Ends = [(Addr, u16); 2];

/// What the transport checksum is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// Right.
    Right,
    /// This number instead, which is almost always wrong: zero and all ones
    /// among them.
    Is(u16),
    /// Off by so much.
    Off(u16),
}

/// A packet of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Which session, modulo their count.
    pub session: usize,
    /// From the server.
    pub reply: bool,
    /// Time to live.
    pub ttl: u8,
    /// Type of service.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// The reserved bit of the IPv4 header, and DF.
    pub flag_bits: (bool, bool),
    /// IPv4 options, a multiple of four bytes.
    pub options: Vec<u8>,
    /// TCP control bits.
    pub flags: u8,
    /// TCP options, a multiple of four bytes.
    pub tcp_options: Vec<u8>,
    /// Payload.
    pub payload: Vec<u8>,
    /// Transport checksum.
    pub checksum: Checksum,
    /// Make the translated packet's right transport checksum zero.
    pub zeroing: bool,
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => Just(Vec::new()),
        2 => (1..=10_usize).prop_map(|words| vec![1; words * 4]),
        1 => (1..=10_usize).prop_flat_map(|words| prop::collection::vec(any::<u8>(), words * 4)),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0_usize),
        1..64_usize,
        64..1400_usize,
        // As much as fits with all options: 1550 - 60 - 60.
        1420..=1430_usize,
    ]
}

/// Any packet that the switch may rewrite by itself, with a TTL of at least
/// `ttl`; those below 2 are not forwarded.
pub fn generated(ttl: u8) -> impl Strategy<Value = Generated> {
    let checksum = prop_oneof![
        6 => Just(Checksum::Right),
        1 => Just(Checksum::Is(0)),
        1 => Just(Checksum::Is(0xffff)),
        1 => any::<u16>().prop_map(Checksum::Is),
        1 => any::<u16>().prop_map(Checksum::Off),
    ];
    let ip = (
        prop_oneof![Just(64), Just(255), Just(2), ttl..=4, ttl..=255],
        any::<u8>(),
        prop_oneof![Just(0), Just(0xffff), any::<u16>()],
        any::<(bool, bool)>(),
        words(),
    );
    let l4 = (
        any::<u8>().prop_map(|flags| flags & !(SYN | FIN | RST)),
        words(),
        length().prop_flat_map(|length| {
            prop_oneof![
                prop::collection::vec(any::<u8>(), length),
                Just(vec![0; length]),
                Just(vec![0xff; length]),
            ]
        }),
        checksum,
        prop::bool::weighted(0.2),
    );
    (any::<u16>(), any::<bool>(), ip, l4).prop_map(|(session, reply, ip, l4)| Generated {
        session: session.into(),
        reply,
        ttl: ip.0,
        tos: ip.1,
        id: ip.2,
        flag_bits: ip.3,
        options: ip.4,
        flags: l4.0,
        tcp_options: l4.1,
        payload: l4.2,
        checksum: l4.3,
        zeroing: l4.4,
    })
}

impl Generated {
    /// A packet without anything special.
    pub fn plain() -> Self {
        Self {
            session: 0,
            reply: false,
            ttl: 64,
            tos: 0,
            id: 1,
            flag_bits: (false, true),
            options: Vec::new(),
            flags: ACK,
            tcp_options: Vec::new(),
            payload: b"plain".to_vec(),
            checksum: Checksum::Right,
            zeroing: false,
        }
    }

    /// The packet with these ends.
    fn packet(&self, session: &Established, ends: Ends) -> Ip {
        let [src, dst] = ends;
        let mut packet = match session.flow.protocol {
            Protocol::Tcp => Ip::tcp(src, dst, self.flags),
            Protocol::Udp => Ip::udp(src, dst),
        };
        if let L4::Tcp { options, .. } = &mut packet.l4 {
            options.clone_from(&self.tcp_options);
        }
        packet.ttl = self.ttl;
        packet.tos = self.tos;
        packet.id = self.id;
        packet.df = self.flag_bits.1;
        packet.options.clone_from(&self.options);
        packet.payload.clone_from(&self.payload);
        packet
    }

    /// Source and destination before and after the gateway.
    fn ends(&self, session: &Established) -> (Ends, Ends) {
        let flow = &session.flow;
        let client = (flow.client.to_bits(), flow.client_port);
        let vip = (VIP, flow.vip_port);
        let local = (session.local, flow.local_port);
        if self.reply {
            ([session.server, local], [vip, client])
        } else {
            ([client, vip], [local, session.server])
        }
    }

    /// Where the transport checksum is.
    fn checksum_at(&self, session: &Established) -> usize {
        20 + self.options.len()
            + match session.flow.protocol {
                Protocol::Tcp => 16,
                Protocol::Udp => 6,
            }
    }

    /// The packet with these ends and the payload that makes the translated
    /// packet's checksum zero, where that was asked for.
    fn bytes(&self, session: &Established, ends: Ends) -> Result<Vec<u8>> {
        let mut packet = self.packet(session, ends);
        if self.zeroing && packet.payload.len() >= 2 {
            let at = self.checksum_at(session);
            let mut translated = self.packet(session, self.ends(session).1);
            translated.payload[..2].fill(0);
            let bytes = translated.bytes()?;
            packet.payload[..2].copy_from_slice(&bytes[at..at + 2]);
        }
        let mut bytes = packet.bytes()?;
        if self.flag_bits.0 {
            bytes[6] |= 0x80;
            let header = 20 + self.options.len();
            bytes[10..12].fill(0);
            let sum = internet_checksum(&bytes[..header]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Ok(bytes)
    }

    /// The frame that arrives, and at which port.
    pub fn frame(&self, session: &Established) -> Result<(u16, Vec<u8>)> {
        let mut bytes = self.bytes(session, self.ends(session).0)?;
        let at = self.checksum_at(session);
        let checksum = bytes.get_mut(at..at + 2).context("no checksum")?;
        let right = u16::from_be_bytes([checksum[0], checksum[1]]);
        let is = match self.checksum {
            Checksum::Right => right,
            Checksum::Is(is) => is,
            Checksum::Off(by) => right.wrapping_add(by),
        };
        checksum.copy_from_slice(&is.to_be_bytes());
        Ok(if self.reply {
            (session.port, session.server_frame(&bytes))
        } else {
            (UPLINK, session.client_frame(&bytes))
        })
    }

    /// The frame that must leave, built anew, if the checksum is right.
    pub fn expected(&self, session: &Established) -> Result<Vec<u8>> {
        let routed = Self {
            ttl: self.ttl - 1,
            ..self.clone()
        };
        let bytes = routed.bytes(session, self.ends(session).1)?;
        Ok(if self.reply {
            session.to_client(&bytes)
        } else {
            session.to_server(&bytes)
        })
    }
}
