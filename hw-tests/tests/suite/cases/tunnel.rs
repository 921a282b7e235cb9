//! The tunnel's way back, and tunnels that are refused.

use anyhow::Result;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, ACK, Ip, SYN, Tunnel};
use hw_tests::scene::{
    CLIENT, CLIENT_MAC, LD, LD_VTEP, LIP, REMOTE, SERVER, SERVER_MAC, SERVERS, SMALL_MTU,
    SMALL_SERVER, TAGGED, TAGGED_SERVER, TENANT, UPLINK, VIP, VTEP, from_ld, hashed_port, port_mac,
    to_ld,
};
use p4_contract::{DropReason, Path};

use super::{TO_LD, from_client, returned, to_client, to_server, to_tagged};

/// A packet that the load director has translated.
fn translated() -> Ip {
    Ip::tcp((LIP, 20_100), (SERVER, 8080), SYN)
}

fn routed(fx: &mut Fixture, packet: &Ip) -> Result<()> {
    fx.packet(LD, returned(packet)?)
        .transmits(SERVERS, Path::FromLd, to_server(&packet.clone().routed())?)
        .check()
}

fn dropped(fx: &mut Fixture, frame: Vec<u8>, reason: DropReason) -> Result<()> {
    fx.packet(LD, frame).drops(reason).check()
}

pub fn return_of_the_ld_is_unpacked_and_routed(fx: &mut Fixture) -> Result<()> {
    routed(fx, &translated())?;
    // To the client, and with the slot still in the header.
    let packet = Ip::tcp((VIP, 80), (CLIENT, 50_000), SYN | ACK);
    let mut tunnel = from_ld(0);
    tunnel.flags = 0x88;
    tunnel.group = 11;
    fx.packet(LD, tunnel.around(&packet.bytes()?)?)
        .transmits(UPLINK, Path::FromLd, to_client(&packet.routed())?)
        .check()
}

pub fn return_with_udp_without_checksum(fx: &mut Fixture) -> Result<()> {
    routed(
        fx,
        &Ip::udp((LIP, 20_100), (SERVER, 5353)).without_checksum(),
    )
}

pub fn return_with_options(fx: &mut Fixture) -> Result<()> {
    routed(fx, &translated().options(&[1, 1, 1, 0]))?;
    routed(fx, &translated().options(&[1; 40]))
}

pub fn return_of_a_fragment(fx: &mut Fixture) -> Result<()> {
    let mut piece = Ip::raw(LIP, SERVER, 17).payload(&[3; 64]);
    piece.df = false;
    piece.mf = true;
    piece.offset = 4;
    routed(fx, &piece)
}

pub fn return_of_icmp(fx: &mut Fixture) -> Result<()> {
    routed(fx, &Ip::echo(LIP, SERVER))
}

pub fn return_of_a_jumbo(fx: &mut Fixture) -> Result<()> {
    routed(fx, &translated().total(1550)?)
}

pub fn return_to_a_tagged_port(fx: &mut Fixture) -> Result<()> {
    let packet = translated().to(TAGGED_SERVER, 8042);
    fx.packet(LD, returned(&packet)?)
        .transmits(TAGGED, Path::FromLd, to_tagged(&packet.routed())?)
        .check()
}

pub fn return_in_a_tenants_network(fx: &mut Fixture) -> Result<()> {
    // In the tenant's network the client's addresses are on another port.
    let packet = Ip::tcp((VIP, 80), (CLIENT, 50_000), SYN | ACK);
    fx.packet(LD, from_ld(TENANT).around(&packet.bytes()?)?)
        .transmits(TAGGED, Path::FromLd, to_tagged(&packet.routed())?)
        .check()
}

pub fn return_to_another_tunnel(fx: &mut Fixture) -> Result<()> {
    let packet = translated().to(REMOTE, 8080);
    let mut tunnel = to_ld(hashed_port(&packet), 0, 0);
    tunnel.flags = 0x08;
    fx.packet(LD, returned(&packet)?)
        .transmits(
            TO_LD,
            Path::FromLd,
            tunnel.around(&packet.routed().bytes()?)?,
        )
        .check()
}

pub fn return_is_not_classified_again(fx: &mut Fixture) -> Result<()> {
    // To a virtual address: the load director never sends that, and steering
    // it would make a loop.
    let packet = Ip::tcp((CLIENT, 40_000), (VIP, 80), ACK);
    dropped(fx, returned(&packet)?, DropReason::NoRoute)
}

/// The load director's tunnel, as somebody else would send it.
fn forged(dmac: u64, smac: u64) -> Result<Vec<u8>> {
    let tunnel = Tunnel {
        dmac,
        smac,
        ..from_ld(0)
    };
    tunnel.around(&translated().bytes()?)
}

pub fn tunnel_from_the_uplink(fx: &mut Fixture) -> Result<()> {
    fx.packet(UPLINK, forged(port_mac(UPLINK), CLIENT_MAC)?)
        .drops(DropReason::TunnelRefused)
        .check()
}

pub fn tunnel_from_the_fabric(fx: &mut Fixture) -> Result<()> {
    fx.packet(SERVERS, forged(port_mac(SERVERS), SERVER_MAC)?)
        .drops(DropReason::TunnelRefused)
        .check()
}

pub fn tunnel_without_vni_flag(fx: &mut Fixture) -> Result<()> {
    let mut tunnel = from_ld(0);
    tunnel.flags = 0x80;
    let frame = tunnel.around(&translated().bytes()?)?;
    dropped(fx, frame, DropReason::TunnelInvalid)
}

pub fn tunnel_with_arp_inside(fx: &mut Fixture) -> Result<()> {
    let inner = frame::ethernet(1, 2, 0x0806, &[0; 46]);
    dropped(fx, from_ld(0).carrying(&inner)?, DropReason::TunnelInvalid)
}

pub fn tunnel_longer_than_its_packet(fx: &mut Fixture) -> Result<()> {
    // The UDP length says more than the IPv4 length holds.
    let mut frame = returned(&translated())?;
    let length = u16::from_be_bytes([frame[38], frame[39]]) + 1;
    frame[38..40].copy_from_slice(&length.to_be_bytes());
    frame.push(0);
    dropped(fx, frame, DropReason::TunnelInvalid)
}

/// A frame of the load director with a byte of the inner packet changed.
fn damaged(packet: &Ip, at: usize) -> Result<Vec<u8>> {
    let mut bytes = packet.bytes()?;
    bytes[at] ^= 0x04;
    from_ld(0).around(&bytes)
}

pub fn inner_bad_checksum(fx: &mut Fixture) -> Result<()> {
    dropped(fx, damaged(&translated(), 5)?, DropReason::BadIpv4Checksum)
}

pub fn inner_bad_checksum_with_options(fx: &mut Fixture) -> Result<()> {
    let packet = translated().options(&[1, 1, 1, 1]);
    dropped(fx, damaged(&packet, 21)?, DropReason::BadIpv4Checksum)
}

pub fn inner_martian(fx: &mut Fixture) -> Result<()> {
    let packet = translated().from(frame::addr(127, 0, 0, 1), 20_100);
    dropped(fx, returned(&packet)?, DropReason::MartianSource)
}

pub fn inner_ttl_1(fx: &mut Fixture) -> Result<()> {
    dropped(fx, returned(&translated().ttl(1))?, DropReason::TtlExpired)
}

pub fn inner_no_route(fx: &mut Fixture) -> Result<()> {
    let packet = translated().to(frame::addr(192, 0, 2, 1), 80);
    dropped(fx, returned(&packet)?, DropReason::NoRoute)
}

pub fn inner_too_big(fx: &mut Fixture) -> Result<()> {
    // From the load director there is nobody left who could help.
    let packet = translated().to(SMALL_SERVER, 8080);
    let packet = packet.total(usize::from(SMALL_MTU) + 1)?;
    dropped(fx, returned(&packet)?, DropReason::MtuExceeded)
}

pub fn inner_truncated(fx: &mut Fixture) -> Result<()> {
    // The inner packet says 4 bytes more than the tunnel carries.
    let mut bytes = translated().bytes()?;
    bytes.truncate(bytes.len() - 4);
    dropped(fx, from_ld(0).around(&bytes)?, DropReason::BadIpv4Length)
}

pub fn short_udp_to_the_tunnel_port(fx: &mut Fixture) -> Result<()> {
    // Too short to hold a packet, so it is parsed as plain UDP, and refused.
    let packet = Ip::udp((LD_VTEP, 0xc000), (VTEP, 4789)).payload(&[8, 0, 0, 0]);
    let frame = frame::ipv4(port_mac(LD), hw_tests::scene::LD_MAC, &packet)?;
    dropped(fx, frame, DropReason::TunnelInvalid)
}

pub fn tunnel_of_others_is_only_routed(fx: &mut Fixture) -> Result<()> {
    // VXLAN between two hosts: nothing inside may be looked at.
    let inner = frame::ethernet(1, 2, 0x0800, &translated().ttl(1).bytes()?);
    let mut payload = vec![8, 0, 0, 0, 0, 0, 9, 0];
    payload.extend(inner);
    let packet = Ip::udp((CLIENT, 0xc000), (SERVER, 4789)).payload(&payload);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(SERVERS, Path::Routed, to_server(&packet.routed())?)
        .check()
}
