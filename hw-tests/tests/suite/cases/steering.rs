//! What goes to the load director, in which tunnel.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use hw_tests::books::Cell;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, ACK, Ip, SYN};
use hw_tests::scene::{
    CLIENT, DNS, GROUP, LIP, LIP_2, LIP_2_SLOT, LIP_SLOT, RANGE, RANGE_SLOT, SERVER, SERVERS,
    TENANT, TENANT_VLAN, TENANT_WEB, UPLINK, VIP, WEB, bucket, flow_hash, hashed_port, slot,
    slot_of, slot_of_bucket, to_ld,
};
use p4_contract::{DropReason, Path};

use super::{TO_LD, from_client, from_server, steered, steered_reply};

fn syn(client_port: u16) -> Ip {
    // The options of a usual SYN: MSS, SACK permitted, timestamps, window.
    let mut packet = Ip::tcp((CLIENT, client_port), (VIP, 80), SYN).payload(b"");
    if let frame::L4::Tcp { options, .. } = &mut packet.l4 {
        options.extend([
            2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
        ]);
    }
    packet
}

pub fn syn_goes_to_the_ld(fx: &mut Fixture) -> Result<()> {
    let packet = syn(50_000);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}

pub fn every_bucket_leads_to_its_slot(fx: &mut Fixture) -> Result<()> {
    let mut slots = BTreeSet::new();
    for client_port in 50_001..50_013 {
        let packet = syn(client_port);
        slots.insert(slot_of(&packet));
        fx.packet(UPLINK, from_client(&packet)?)
            .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
            .counts(&[Cell::VipRx(WEB)])
            .check()?;
    }
    ensure!(slots.len() == 3, "the packets are chosen to use all slots");
    Ok(())
}

pub fn port_range_has_its_own_group(fx: &mut Fixture) -> Result<()> {
    for port in [8000, 8050, 8099] {
        let packet = syn(50_000).to(VIP, port);
        let tunnel = to_ld(hashed_port(&packet), RANGE_SLOT, 0);
        fx.packet(UPLINK, from_client(&packet)?)
            .transmits(TO_LD, Path::SteerVip, tunnel.around(&packet.bytes()?)?)
            .counts(&[Cell::VipRx(RANGE)])
            .check()?;
    }
    Ok(())
}

pub fn tenant_keeps_its_network(fx: &mut Fixture) -> Result<()> {
    let packet = syn(50_000);
    let frame = frame::tagged(&from_client(&packet)?, 0x8100, TENANT_VLAN);
    let tunnel = to_ld(hashed_port(&packet), slot_of(&packet), TENANT);
    fx.packet(UPLINK, frame)
        .transmits(TO_LD, Path::SteerVip, tunnel.around(&packet.bytes()?)?)
        .counts(&[Cell::VipRx(TENANT_WEB)])
        .check()
}

pub fn miss_in_the_flow_table(fx: &mut Fixture) -> Result<()> {
    let tcp = Ip::tcp((CLIENT, 50_020), (VIP, 80), ACK);
    fx.packet(UPLINK, from_client(&tcp)?)
        .transmits(TO_LD, Path::SteerVip, steered(&tcp)?)
        .counts(&[Cell::VipRx(WEB)])
        .check()?;
    let udp = Ip::udp((CLIENT, 50_021), (VIP, 53)).without_checksum();
    fx.packet(UPLINK, from_client(&udp)?)
        .transmits(TO_LD, Path::SteerVip, steered(&udp)?)
        .counts(&[Cell::VipRx(DNS)])
        .check()
}

pub fn reply_without_session(fx: &mut Fixture) -> Result<()> {
    // Both ends of the port's range, and ports whose upper bits the tunnel
    // cannot carry.
    for (lip, slot, port) in [
        (LIP, LIP_SLOT, 1024),
        (LIP, LIP_SLOT, 65_535),
        (LIP, LIP_SLOT, 0x4003),
        (LIP_2, LIP_2_SLOT, 20_999),
    ] {
        let packet = Ip::tcp((SERVER, 8080), (lip, port), SYN | ACK);
        fx.packet(SERVERS, from_server(&packet)?)
            .transmits(TO_LD, Path::SteerLip, steered_reply(&packet, port, slot)?)
            .check()?;
    }
    Ok(())
}

pub fn reply_with_udp(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::udp((SERVER, 5353), (LIP_2, 30_000));
    fx.packet(SERVERS, from_server(&packet)?)
        .transmits(
            TO_LD,
            Path::SteerLip,
            steered_reply(&packet, 30_000, LIP_2_SLOT)?,
        )
        .check()
}

/// The pieces of a datagram: the first has the ports, but must go the way of
/// the others.
fn fragments(src: u32, dst: u32) -> [Ip; 3] {
    let whole = Ip::udp((src, 1000), (dst, 53)).payload(&[5; 56]);
    let piece = |offset: u16, mf: bool, payload: &[u8]| {
        let mut piece = Ip::raw(src, dst, 17).payload(payload);
        piece.df = false;
        piece.offset = offset;
        piece.mf = mf;
        piece
    };
    let bytes = whole.bytes().unwrap_or_default();
    [
        piece(0, true, &bytes[20..44]),
        piece(3, true, &bytes[44..68]),
        piece(6, false, &bytes[68..]),
    ]
}

pub fn first_and_later_fragments(fx: &mut Fixture) -> Result<()> {
    let pieces = fragments(CLIENT, VIP);
    let tunnel = to_ld(hashed_port(&pieces[0]), slot_of(&pieces[0]), 0);
    for piece in pieces {
        fx.packet(UPLINK, from_client(&piece)?)
            .transmits(TO_LD, Path::SteerVip, tunnel.around(&piece.bytes()?)?)
            .check()?;
    }
    Ok(())
}

pub fn fragments_to_a_local_address(fx: &mut Fixture) -> Result<()> {
    let pieces = fragments(SERVER, LIP);
    let tunnel = to_ld(hashed_port(&pieces[0]), LIP_SLOT, 0);
    for piece in pieces {
        fx.packet(SERVERS, from_server(&piece)?)
            .transmits(TO_LD, Path::SteerLip, tunnel.around(&piece.bytes()?)?)
            .check()?;
    }
    Ok(())
}

pub fn icmp_to_the_vip(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::echo(CLIENT, VIP);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .check()
}

pub fn icmp_to_a_local_address(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::echo(SERVER, LIP);
    let tunnel = to_ld(hashed_port(&packet), LIP_SLOT, 0);
    fx.packet(SERVERS, from_server(&packet)?)
        .transmits(TO_LD, Path::SteerLip, tunnel.around(&packet.bytes()?)?)
        .check()
}

pub fn other_protocol_to_the_vip(fx: &mut Fixture) -> Result<()> {
    // SCTP; whether it is served is the load director's business.
    let packet = Ip::raw(CLIENT, VIP, 132);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .check()
}

pub fn vip_without_that_port(fx: &mut Fixture) -> Result<()> {
    let packets = [
        Ip::tcp((CLIENT, 5000), (VIP, 81), SYN),
        Ip::tcp((CLIENT, 5000), (VIP, 7999), SYN),
        Ip::tcp((CLIENT, 5000), (VIP, 8100), SYN),
        Ip::tcp((CLIENT, 5000), (VIP, 53), SYN),
        Ip::udp((CLIENT, 5000), (VIP, 80)),
    ];
    for packet in packets {
        fx.packet(UPLINK, from_client(&packet)?)
            .drops(DropReason::VipNoPort)
            .check()?;
    }
    Ok(())
}

pub fn ttl_1_to_the_ld_is_not_touched(fx: &mut Fixture) -> Result<()> {
    // It is not routed here; the hop is counted when the packet returns.
    let packet = syn(50_030).ttl(1);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}

pub fn options_to_the_ld(fx: &mut Fixture) -> Result<()> {
    let packet = syn(50_031).options(&[7, 7, 4, 0, 0, 0, 0, 0]);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}

pub fn missing_bucket(fx: &mut Fixture) -> Result<()> {
    let packet = syn(50_040);
    let at = (flow_hash(&packet) & 0xff) as u16;
    fx.delete(&bucket(GROUP, at, slot_of_bucket(at)))?;
    fx.packet(UPLINK, from_client(&packet)?)
        .drops(DropReason::SteeringMiss)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}

pub fn missing_slot(fx: &mut Fixture) -> Result<()> {
    let packet = syn(50_041);
    fx.delete(&slot(slot_of(&packet)))?;
    fx.packet(UPLINK, from_client(&packet)?)
        .drops(DropReason::SteeringMiss)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}

pub fn slot_of_a_local_address_missing(fx: &mut Fixture) -> Result<()> {
    fx.delete(&slot(LIP_SLOT))?;
    let packet = Ip::tcp((SERVER, 8080), (LIP, 20_999), ACK);
    fx.packet(SERVERS, from_server(&packet)?)
        .drops(DropReason::SteeringMiss)
        .check()
}

pub fn jumbo_to_the_ld(fx: &mut Fixture) -> Result<()> {
    // 1550 bytes, 1600 with the tunnel: all that the link takes.
    let packet = Ip::tcp((CLIENT, 50_050), (VIP, 80), ACK).total(1550)?;
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}
