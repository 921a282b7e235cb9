//! 5-tuples on the command line.

use std::net::SocketAddrV4;

use offload_api::v1::Tuple;

/// Protocols that have sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

/// The tuple as the API has it.
pub(crate) fn tuple(
    protocol: Protocol,
    source: SocketAddrV4,
    destination: SocketAddrV4,
    vni: u32,
) -> Tuple {
    Tuple {
        vni,
        protocol: match protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        },
        src_addr: (*source.ip()).into(),
        src_port: source.port().into(),
        dst_addr: (*destination.ip()).into(),
        dst_port: destination.port().into(),
    }
}
