//! Rewriting a packet's addresses and ports in place.

use packet::{
    Delta, PROTO_UDP,
    bytes::{get_u16, put_u16, put_u32},
};

/// The addresses and ports a packet shall have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) l3: Delta,
    pub(crate) l4: Delta,
}

/// Rewrites `data` (from its IPv4 header), whose transport header is at `l4`.
#[inline(always)]
pub(crate) fn rewrite(data: &mut [u8], l4: usize, protocol: u8, t: &Target) {
    if l4 == 20
        && protocol != PROTO_UDP
        && let Some(h) = data.first_chunk_mut::<40>()
    {
        return rewrite_fixed(h, 36, false, t);
    }
    if l4 == 20
        && protocol == PROTO_UDP
        && let Some(h) = data.first_chunk_mut::<28>()
    {
        return rewrite_fixed(h, 26, true, t);
    }
    rewrite_at(data, l4, protocol, t);
}

/// Without IP options: every offset is known.
#[inline(always)]
fn rewrite_fixed<const N: usize>(h: &mut [u8; N], sum_at: usize, udp: bool, t: &Target) {
    let c = u16::from_be_bytes([h[10], h[11]]);
    h[10..12].copy_from_slice(&t.l3.apply(c).to_be_bytes());
    h[12..16].copy_from_slice(&t.src.to_be_bytes());
    h[16..20].copy_from_slice(&t.dst.to_be_bytes());
    h[20..22].copy_from_slice(&t.src_port.to_be_bytes());
    h[22..24].copy_from_slice(&t.dst_port.to_be_bytes());
    let c = u16::from_be_bytes([h[sum_at], h[sum_at + 1]]);
    let c = if udp {
        t.l4.apply_udp(c)
    } else {
        t.l4.apply(c)
    };
    h[sum_at..sum_at + 2].copy_from_slice(&c.to_be_bytes());
}

/// With IP options, or in the quotation of an ICMP error, where the transport
/// checksum may lie beyond the end.
pub(crate) fn rewrite_at(data: &mut [u8], l4: usize, protocol: u8, t: &Target) {
    put_u16(data, 10, t.l3.apply(get_u16(data, 10)));
    put_u32(data, 12, t.src);
    put_u32(data, 16, t.dst);
    put_u16(data, l4, t.src_port);
    put_u16(data, l4 + 2, t.dst_port);
    if protocol == PROTO_UDP {
        let c = get_u16(data, l4 + packet::udp::UDP_CHECKSUM);
        put_u16(data, l4 + packet::udp::UDP_CHECKSUM, t.l4.apply_udp(c));
    } else {
        let c = get_u16(data, l4 + packet::tcp::TCP_CHECKSUM);
        put_u16(data, l4 + packet::tcp::TCP_CHECKSUM, t.l4.apply(c));
    }
}
