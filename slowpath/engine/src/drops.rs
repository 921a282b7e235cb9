//! Why the engine drops a packet. Each reason has a counter.

use packet::ParseError;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// Every reason, in the order of [`DropReason::index`].
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name under which it is counted and shown.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

drop_reasons! {
    /// The packet ends inside its IPv4 header.
    ShortIpv4 = "short_ipv4",
    /// Not IP version 4.
    BadIpv4Version = "bad_ipv4_version",
    /// IPv4 header length below 20 bytes.
    BadIpv4HeaderLength = "bad_ipv4_header_length",
    /// IPv4 total length does not fit the packet.
    BadIpv4Length = "bad_ipv4_length",
    /// The packet ends inside its TCP header.
    ShortTcp = "short_tcp",
    /// The TCP data offset does not fit.
    BadTcpOffset = "bad_tcp_offset",
    /// The packet ends inside its UDP header.
    ShortUdp = "short_udp",
    /// The UDP length does not fit.
    BadUdpLength = "bad_udp_length",
    /// The packet ends inside its ICMP header.
    ShortIcmp = "short_icmp",
    /// Malformed in some other way.
    Malformed = "malformed",
    /// A fragment; fragments are not translated yet.
    Fragment = "fragment",
    /// Neither TCP, UDP nor ICMP.
    UnsupportedProtocol = "unsupported_protocol",
    /// The destination is neither a VIP nor a local address.
    UnknownDestination = "unknown_destination",
    /// The VIP address has no service on this protocol and port.
    VipNoPort = "vip_no_port",
    /// TCP without a session, and not a SYN.
    NoSession = "no_session",
    /// A packet to a local address and port that no session uses.
    ReplyNoSession = "reply_no_session",
    /// A packet to a session's local port from another source than its server.
    ReplySourceMismatch = "reply_source_mismatch",
    /// No server of the VIP takes new sessions.
    NoServer = "no_server",
    /// The packet's slot has no local address in this network.
    NoLocalAddress = "no_local_address",
    /// All local ports of the slot's addresses are taken or resting.
    PortExhausted = "port_exhausted",
    /// The worker holds as many sessions as it may.
    SessionTableFull = "session_table_full",
    /// The index found no room for the flow.
    IndexFull = "index_full",
    /// The VIP holds as many sessions as it may.
    VipSessionLimit = "vip_session_limit",
    /// The session was ended and waits for the switch to forget it.
    SessionKilled = "session_killed",
    /// A new connection on a tuple for which the switch still has entries that
    /// lead elsewhere. The client's next try passes.
    OffloadPending = "offload_pending",
    /// Larger than the next hop takes, and not to be told (DF not set).
    MtuExceeded = "mtu_exceeded",
    /// An answer by ICMP was due but over the rate limit.
    IcmpRateLimited = "icmp_rate_limited",
    /// An ICMP type that is neither answered nor relayed.
    IcmpUnsupported = "icmp_unsupported",
    /// The ICMP checksum is wrong.
    IcmpBadChecksum = "icmp_bad_checksum",
    /// An ICMP error whose quotation cannot be read.
    IcmpBadQuote = "icmp_bad_quote",
    /// An ICMP error about a packet of no session.
    IcmpNoSession = "icmp_no_session",
    /// Went round all workers without finding its session.
    RedirectLoop = "redirect_loop",
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// Place in [`DropReason::ALL`] and in the counters.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<ParseError> for DropReason {
    fn from(e: ParseError) -> Self {
        match e {
            ParseError::ShortIpv4 => Self::ShortIpv4,
            ParseError::BadIpv4Version => Self::BadIpv4Version,
            ParseError::BadIpv4HeaderLength => Self::BadIpv4HeaderLength,
            ParseError::BadIpv4Length => Self::BadIpv4Length,
            ParseError::ShortTcp => Self::ShortTcp,
            ParseError::BadTcpOffset => Self::BadTcpOffset,
            ParseError::ShortUdp => Self::ShortUdp,
            ParseError::BadUdpLength => Self::BadUdpLength,
            ParseError::ShortIcmp => Self::ShortIcmp,
            ParseError::ShortEthernet
            | ParseError::ShortIpv6
            | ParseError::ShortVxlan
            | ParseError::BadVxlanFlags
            | ParseError::NotVxlan => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_parse_errors_keep_theirs() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (i, r) in DropReason::ALL.iter().enumerate() {
            assert_eq!(r.index(), i);
        }
        for e in ParseError::ALL {
            let r = DropReason::from(e);
            assert!(r == DropReason::Malformed || r.name() == e.name());
        }
    }
}
