//! Ports, VLANs, MAC addresses, ARP and the controller's packets.

use anyhow::Result;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, Ip, Mac, SYN};
use hw_tests::scene::{
    CLIENT, CLIENT_MAC, GATEWAY, SERVER, SERVER_MAC, SERVERS, TAGGED, TAGGED_MAC, TAGGED_SERVER,
    TENANT_VLAN, UPLINK, VLAN, egress, entries, port_mac,
};
use p4_contract::tables::AnyEntry;
use p4_contract::{DropReason, Path, PuntReason};

use super::{from_client, from_server, from_tagged, to_client, to_server, to_tagged};

const BROADCAST: Mac = 0xffff_ffff_ffff;

/// An ARP packet (RFC 826): operation 1 asks, 2 answers.
fn arp(operation: u16, sender: (Mac, u32), target: (Mac, u32)) -> Vec<u8> {
    let mut bytes = vec![0, 1, 8, 0, 6, 4];
    bytes.extend(operation.to_be_bytes());
    for (mac, addr) in [sender, target] {
        bytes.extend(frame::mac_bytes(mac));
        bytes.extend(addr.to_be_bytes());
    }
    bytes
}

fn transit() -> Ip {
    Ip::udp((CLIENT, 1000), (SERVER, 2000))
}

pub fn arp_request_is_punted(fx: &mut Fixture) -> Result<()> {
    let request = arp(1, (CLIENT_MAC, CLIENT), (0, GATEWAY));
    let mut frame = frame::ethernet(BROADCAST, CLIENT_MAC, 0x0806, &request);
    frame.resize(60, 0);
    fx.packet(UPLINK, frame).punts(PuntReason::Arp).check()
}

pub fn arp_reply_with_tag_is_punted_as_it_came(fx: &mut Fixture) -> Result<()> {
    let reply = arp(2, (TAGGED_MAC, TAGGED_SERVER), (port_mac(TAGGED), 1));
    let frame = frame::ethernet(port_mac(TAGGED), TAGGED_MAC, 0x0806, &reply);
    // Priority 5 in the upper three bits.
    let frame = frame::tagged(&frame, 0x8100, 5 << 13 | VLAN);
    fx.packet(TAGGED, frame).punts(PuntReason::Arp).check()
}

pub fn packet_out_leaves_as_it_is(fx: &mut Fixture) -> Result<()> {
    let request = arp(1, (port_mac(SERVERS), 1), (0, SERVER));
    let frame = frame::ethernet(BROADCAST, port_mac(SERVERS), 0x0806, &request);
    fx.packet_out(SERVERS, frame.clone())
        .transmits(SERVERS, Path::FromCpu, frame)
        .check()
}

pub fn packet_out_gets_the_tag_of_its_port(fx: &mut Fixture) -> Result<()> {
    let request = arp(1, (port_mac(TAGGED), 1), (0, TAGGED_SERVER));
    let frame = frame::ethernet(BROADCAST, port_mac(TAGGED), 0x0806, &request);
    fx.packet_out(TAGGED, frame.clone())
        .transmits(TAGGED, Path::FromCpu, frame::tagged(&frame, 0x8100, VLAN))
        .check()
}

pub fn packet_out_with_tag_is_not_tagged_twice(fx: &mut Fixture) -> Result<()> {
    let frame = frame::ethernet(BROADCAST, port_mac(TAGGED), 0x0806, &[7; 46]);
    let frame = frame::tagged(&frame, 0x8100, 77);
    fx.packet_out(TAGGED, frame.clone())
        .transmits(TAGGED, Path::FromCpu, frame)
        .check()
}

pub fn packet_out_to_no_port_is_dropped(fx: &mut Fixture) -> Result<()> {
    let frame = frame::ethernet(BROADCAST, CLIENT_MAC, 0x0806, &[0; 46]);
    // A port without entry, the CPU port, the drop port, and a number whose
    // low nine bits are a good port.
    for port in [9, 510, 511, 512 + UPLINK] {
        fx.packet_out(port, frame.clone())
            .drops(DropReason::EgressUnknown)
            .check()?;
    }
    Ok(())
}

pub fn packet_to_the_gateway_is_punted(fx: &mut Fixture) -> Result<()> {
    let frame = from_client(&Ip::echo(CLIENT, GATEWAY))?;
    fx.packet(UPLINK, frame).punts(PuntReason::Local).check()
}

pub fn unknown_vlan(fx: &mut Fixture) -> Result<()> {
    let frame = frame::tagged(&from_client(&transit())?, 0x8100, 999);
    fx.packet(UPLINK, frame)
        .drops(DropReason::PortUnknown)
        .check()
}

pub fn untagged_on_a_tagged_port(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::udp((TAGGED_SERVER, 1), (CLIENT, 2));
    let frame = frame::ipv4(port_mac(TAGGED), TAGGED_MAC, &packet)?;
    fx.packet(TAGGED, frame)
        .drops(DropReason::PortUnknown)
        .check()
}

pub fn priority_tag_is_no_tag(fx: &mut Fixture) -> Result<()> {
    let frame = frame::tagged(&from_client(&transit())?, 0x8100, 3 << 13);
    fx.packet(UPLINK, frame)
        .transmits(SERVERS, Path::Routed, to_server(&transit().routed())?)
        .check()
}

pub fn tag_is_stripped(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::udp((TAGGED_SERVER, 1000), (CLIENT, 2000));
    fx.packet(TAGGED, from_tagged(&packet)?)
        .transmits(UPLINK, Path::Routed, to_client(&packet.routed())?)
        .check()
}

pub fn tag_is_pushed(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::udp((SERVER, 1000), (TAGGED_SERVER, 2000));
    fx.packet(SERVERS, from_server(&packet)?)
        .transmits(TAGGED, Path::Routed, to_tagged(&packet.routed())?)
        .check()
}

pub fn tag_is_replaced_with_priority_zero(fx: &mut Fixture) -> Result<()> {
    // The tenant's network has a route to the tagged port.
    let packet = Ip::udp((addr_of_tenant(), 1000), (CLIENT, 2000));
    let frame = frame::tagged(&from_client(&packet)?, 0x8100, 6 << 13 | TENANT_VLAN);
    fx.packet(UPLINK, frame)
        .transmits(TAGGED, Path::Routed, to_tagged(&packet.routed())?)
        .check()
}

fn addr_of_tenant() -> u32 {
    frame::addr(10, 200, 0, 2)
}

pub fn two_tags(fx: &mut Fixture) -> Result<()> {
    let inner = frame::tagged(&from_client(&transit())?, 0x8100, 5);
    fx.packet(UPLINK, frame::tagged(&inner, 0x8100, TENANT_VLAN))
        .drops(DropReason::VlanStack)
        .check()
}

pub fn two_tags_with_a_service_tag(fx: &mut Fixture) -> Result<()> {
    let inner = frame::tagged(&from_client(&transit())?, 0x8100, 5);
    fx.packet(UPLINK, frame::tagged(&inner, 0x88a8, TENANT_VLAN))
        .drops(DropReason::VlanStack)
        .check()
}

pub fn frame_for_somebody_else(fx: &mut Fixture) -> Result<()> {
    let frame = frame::ipv4(port_mac(SERVERS), CLIENT_MAC, &transit())?;
    fx.packet(UPLINK, frame).drops(DropReason::NotForUs).check()
}

pub fn broadcast_frame(fx: &mut Fixture) -> Result<()> {
    let frame = frame::ipv4(BROADCAST, CLIENT_MAC, &transit())?;
    fx.packet(UPLINK, frame).drops(DropReason::NotForUs).check()
}

pub fn ipv6(fx: &mut Fixture) -> Result<()> {
    // Version 6, no payload, no next header, hop limit 64, ::1 to ::2.
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, 59, 64];
    packet.extend([0; 15]);
    packet.push(1);
    packet.extend([0; 15]);
    packet.push(2);
    let frame = frame::ethernet(port_mac(UPLINK), CLIENT_MAC, 0x86dd, &packet);
    fx.packet(UPLINK, frame)
        .drops(DropReason::UnsupportedEthertype)
        .check()
}

pub fn unknown_ethertype(fx: &mut Fixture) -> Result<()> {
    let frame = frame::ethernet(port_mac(UPLINK), CLIENT_MAC, 0x88cc, &[2; 46]);
    fx.packet(UPLINK, frame)
        .drops(DropReason::UnsupportedEthertype)
        .check()
}

pub fn length_instead_of_ethertype(fx: &mut Fixture) -> Result<()> {
    // IEEE 802.3 with LLC, as spanning tree uses it.
    let frame = frame::ethernet(port_mac(UPLINK), CLIENT_MAC, 38, &[0x42; 46]);
    fx.packet(UPLINK, frame)
        .drops(DropReason::UnsupportedEthertype)
        .check()
}

pub fn egress_port_without_entry(fx: &mut Fixture) -> Result<()> {
    fx.delete(&egress(SERVERS, 0))?;
    fx.packet(UPLINK, from_client(&transit())?)
        .drops(DropReason::EgressUnknown)
        .check()
}

pub fn ingress_port_without_entry(fx: &mut Fixture) -> Result<()> {
    let entry = entries()
        .into_iter()
        .find(|e| matches!(e, AnyEntry::IngressPort(e) if (e.key.port, e.key.vid) == (UPLINK, 0)));
    if let Some(entry) = entry {
        fx.delete(&entry)?;
    }
    // Not even ARP is taken from it.
    let request = arp(1, (CLIENT_MAC, CLIENT), (0, GATEWAY));
    let frames = [
        frame::ethernet(BROADCAST, CLIENT_MAC, 0x0806, &request),
        from_client(&Ip::tcp((CLIENT, 5), (SERVER, 6), SYN))?,
        frame::ipv4(SERVER_MAC, CLIENT_MAC, &transit())?,
    ];
    for frame in frames {
        fx.packet(UPLINK, frame)
            .drops(DropReason::PortUnknown)
            .check()?;
    }
    Ok(())
}
