//! Broken and impossible packets.

use anyhow::Result;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, ACK, Ip, addr, internet_checksum};
use hw_tests::scene::{CLIENT, CLIENT_MAC, SERVER, SERVERS, UPLINK, port_mac};
use p4_contract::{DropReason, Path};

use super::{from_client, to_server};

/// The IPv4 header begins behind 14 bytes of Ethernet.
const IP: usize = 14;

fn transit() -> Ip {
    Ip::tcp((CLIENT, 1000), (SERVER, 2000), ACK)
}

/// The frame with some bytes of its 20-byte IPv4 header changed, and that
/// header's checksum made right again.
fn altered(packet: &Ip, alter: impl FnOnce(&mut [u8])) -> Result<Vec<u8>> {
    let mut frame = from_client(packet)?;
    let header = &mut frame[IP..IP + 20];
    alter(header);
    header[10..12].fill(0);
    let sum = internet_checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(frame)
}

fn dropped(fx: &mut Fixture, frame: Vec<u8>, reason: DropReason) -> Result<()> {
    fx.packet(UPLINK, frame).drops(reason).check()
}

pub fn bad_ipv4_checksum(fx: &mut Fixture) -> Result<()> {
    // One bit wrong, in the checksum and in a field.
    for at in [IP + 11, IP + 4] {
        let mut frame = from_client(&transit())?;
        frame[at] ^= 0x10;
        dropped(fx, frame, DropReason::BadIpv4Checksum)?;
    }
    Ok(())
}

pub fn bad_ipv4_checksum_with_options(fx: &mut Fixture) -> Result<()> {
    let mut frame = from_client(&transit().options(&[1, 1, 1, 1]))?;
    frame[IP + 20] = 0;
    dropped(fx, frame, DropReason::BadIpv4Checksum)
}

pub fn ip_version_5_in_an_ipv4_frame(fx: &mut Fixture) -> Result<()> {
    let frame = altered(&transit(), |header| header[0] = 0x55)?;
    dropped(fx, frame, DropReason::ParserError)
}

pub fn header_length_of_four_words(fx: &mut Fixture) -> Result<()> {
    let frame = altered(&transit(), |header| header[0] = 0x44)?;
    dropped(fx, frame, DropReason::ParserError)
}

pub fn truncated_ipv4_header(fx: &mut Fixture) -> Result<()> {
    let mut frame = from_client(&transit())?;
    frame.truncate(IP + 19);
    dropped(fx, frame, DropReason::ParserError)
}

pub fn truncated_ipv4_options(fx: &mut Fixture) -> Result<()> {
    let mut frame = from_client(&transit().options(&[1; 40]))?;
    frame.truncate(IP + 20 + 39);
    dropped(fx, frame, DropReason::ParserError)
}

pub fn truncated_tcp_header(fx: &mut Fixture) -> Result<()> {
    let mut frame = from_client(&transit())?;
    frame.truncate(IP + 20 + 19);
    dropped(fx, frame, DropReason::ParserError)
}

pub fn truncated_udp_header(fx: &mut Fixture) -> Result<()> {
    let mut frame = from_client(&Ip::udp((CLIENT, 1), (SERVER, 2)))?;
    frame.truncate(IP + 20 + 7);
    dropped(fx, frame, DropReason::ParserError)
}

pub fn truncated_arp(fx: &mut Fixture) -> Result<()> {
    let frame = frame::ethernet(port_mac(UPLINK), CLIENT_MAC, 0x0806, &[0; 27]);
    dropped(fx, frame, DropReason::ParserError)
}

pub fn total_length_beyond_the_frame(fx: &mut Fixture) -> Result<()> {
    let mut frame = from_client(&transit())?;
    frame.pop();
    dropped(fx, frame, DropReason::BadIpv4Length)
}

pub fn total_length_within_the_l4_header(fx: &mut Fixture) -> Result<()> {
    let frame = altered(&transit(), |header| header[2..4].copy_from_slice(&[0, 39]))?;
    dropped(fx, frame, DropReason::BadIpv4Length)
}

pub fn total_length_within_the_ip_header(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::raw(CLIENT, SERVER, 89);
    let frame = altered(&packet, |header| header[2..4].copy_from_slice(&[0, 19]))?;
    dropped(fx, frame, DropReason::BadIpv4Length)
}

pub fn martian_sources(fx: &mut Fixture) -> Result<()> {
    let martians = [
        addr(0, 0, 0, 0),
        addr(0, 1, 2, 3),
        addr(127, 0, 0, 1),
        addr(224, 0, 0, 1),
        addr(239, 1, 2, 3),
        addr(240, 0, 0, 1),
        addr(255, 255, 255, 255),
    ];
    for source in martians {
        let frame = from_client(&transit().from(source, 1000))?;
        dropped(fx, frame, DropReason::MartianSource)?;
    }
    // Their neighbours are good.
    for source in [addr(1, 0, 0, 0), addr(126, 0, 0, 1), addr(223, 0, 0, 1)] {
        let packet = transit().from(source, 1000);
        fx.packet(UPLINK, from_client(&packet)?)
            .transmits(SERVERS, Path::Routed, to_server(&packet.routed())?)
            .check()?;
    }
    Ok(())
}

pub fn land_attack(fx: &mut Fixture) -> Result<()> {
    let frame = from_client(&transit().from(SERVER, 1000))?;
    dropped(fx, frame, DropReason::MartianSource)
}

pub fn ttl_1_and_0(fx: &mut Fixture) -> Result<()> {
    for ttl in [1, 0] {
        let frame = from_client(&transit().ttl(ttl))?;
        dropped(fx, frame, DropReason::TtlExpired)?;
    }
    let packet = transit().ttl(2);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(SERVERS, Path::Routed, to_server(&packet.routed())?)
        .check()
}

pub fn ethernet_padding_stays_behind_the_packet(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::udp((CLIENT, 1000), (SERVER, 2000)).payload(&[9]);
    let (mut sent, mut expected) = (from_client(&packet)?, to_server(&packet.routed())?);
    sent.resize(60, 0xee);
    expected.resize(60, 0xee);
    fx.packet(UPLINK, sent)
        .transmits(SERVERS, Path::Routed, expected)
        .check()
}
