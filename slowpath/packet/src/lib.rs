//! Parsing and rewriting packets in place.
//!
//! Every reader checks the length once and then looks at a fixed-size view of
//! the bytes. Nothing here allocates, panics on input, or keeps state.
//!
//! * [`parse()`] reads a whole frame; [`Ipv4::parse`] starts at the network layer.
//! * [`checksum`] has the full and the incremental Internet checksum.
//! * [`vxlan::decap`] and [`vxlan::Encap`] take off and put on the tunnel.
//! * [`icmp`] builds the answers that a gateway itself gives.

#![forbid(unsafe_code)]

pub mod bytes;
pub mod checksum;
mod error;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
mod parse;
pub mod tcp;
pub mod udp;
pub mod vxlan;

pub use checksum::Delta;
pub use error::ParseError;
pub use ethernet::Ethernet;
pub use icmp::{Icmp, Quoted};
pub use ipv4::{Fragment, Ipv4, PROTO_ICMP, PROTO_TCP, PROTO_UDP, Transport};
pub use ipv6::Ipv6;
pub use parse::{Network, Parsed, parse};
pub use tcp::{Tcp, TcpFlags};
pub use udp::Udp;
pub use vxlan::Vxlan;
