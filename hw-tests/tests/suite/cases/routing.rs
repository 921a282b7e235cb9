//! Transit: neither a service nor a local address.

use anyhow::Result;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, ACK, Ip};
use hw_tests::scene::{
    CLIENT, LD, LD_MAC, LD_VTEP, NH_SERVER, REMOTE, SERVER, SERVER_MAC, SERVERS, SMALL_MAC,
    SMALL_MTU, SMALL_SERVER, TENANT_VLAN, UPLINK, hashed_port, link, mtu, port_mac, to_ld,
};
use p4_contract::{DropReason, Path};

use super::{TO_LD, from_client, from_server, to_client, to_server};

fn packet() -> Ip {
    Ip::tcp((CLIENT, 1000), (SERVER, 22), ACK)
}

fn dropped(fx: &mut Fixture, packet: &Ip, reason: DropReason) -> Result<()> {
    fx.packet(UPLINK, from_client(packet)?)
        .drops(reason)
        .check()
}

pub fn transit(fx: &mut Fixture) -> Result<()> {
    fx.packet(UPLINK, from_client(&packet())?)
        .transmits(SERVERS, Path::Routed, to_server(&packet().routed())?)
        .check()?;
    let back = Ip::tcp((SERVER, 22), (CLIENT, 1000), ACK);
    fx.packet(SERVERS, from_server(&back)?)
        .transmits(UPLINK, Path::Routed, to_client(&back.routed())?)
        .check()
}

pub fn longest_prefix_wins(fx: &mut Fixture) -> Result<()> {
    let packet = packet().to(SMALL_SERVER, 22);
    let expected = frame::ipv4(SMALL_MAC, port_mac(SERVERS), &packet.clone().routed())?;
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(SERVERS, Path::Routed, expected)
        .check()
}

pub fn transit_from_the_ld_port(fx: &mut Fixture) -> Result<()> {
    // Not in the tunnel: the load director's own traffic.
    let packet = Ip::udp((LD_VTEP, 1000), (SERVER, 123));
    let frame = frame::ipv4(port_mac(LD), LD_MAC, &packet)?;
    fx.packet(LD, frame)
        .transmits(SERVERS, Path::Routed, to_server(&packet.routed())?)
        .check()
}

pub fn transit_fragment(fx: &mut Fixture) -> Result<()> {
    let mut piece = Ip::raw(CLIENT, SERVER, 6).payload(&[1; 24]);
    piece.df = false;
    piece.offset = 0x1fff;
    fx.packet(UPLINK, from_client(&piece)?)
        .transmits(SERVERS, Path::Routed, to_server(&piece.routed())?)
        .check()
}

pub fn transit_unknown_protocol(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::raw(CLIENT, SERVER, 47);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(SERVERS, Path::Routed, to_server(&packet.routed())?)
        .check()
}

pub fn no_route(fx: &mut Fixture) -> Result<()> {
    let there = frame::addr(192, 0, 2, 1);
    dropped(fx, &packet().to(there, 22), DropReason::NoRoute)
}

pub fn route_of_another_network(fx: &mut Fixture) -> Result<()> {
    // The servers' route belongs to the public network.
    let frame = frame::tagged(&from_client(&packet())?, 0x8100, TENANT_VLAN);
    fx.packet(UPLINK, frame).drops(DropReason::NoRoute).check()
}

pub fn missing_next_hop(fx: &mut Fixture) -> Result<()> {
    fx.delete(&link(NH_SERVER, SERVERS, SERVER_MAC))?;
    dropped(fx, &packet(), DropReason::NexthopMiss)
}

pub fn too_big_in_transit(fx: &mut Fixture) -> Result<()> {
    let packet = packet().to(SMALL_SERVER, 22);
    let packet = packet.total(usize::from(SMALL_MTU) + 1)?;
    dropped(fx, &packet, DropReason::MtuExceeded)
}

pub fn next_hop_without_mtu_entry(fx: &mut Fixture) -> Result<()> {
    fx.delete(&mtu(NH_SERVER, 1550))?;
    let packet = packet().total(1600)?;
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(SERVERS, Path::Routed, to_server(&packet.routed())?)
        .check()
}

pub fn into_a_tunnel_without_slot(fx: &mut Fixture) -> Result<()> {
    let packet = packet().to(REMOTE, 22);
    let mut tunnel = to_ld(hashed_port(&packet), 0, 0);
    tunnel.flags = 0x08;
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(
            TO_LD,
            Path::Routed,
            tunnel.around(&packet.routed().bytes()?)?,
        )
        .check()
}
