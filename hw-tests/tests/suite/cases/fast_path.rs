//! Offloaded sessions: rewritten by the switch, or handed to the load
//! director untouched.

use anyhow::{Result, ensure};
use hw_tests::books::Cell;
use hw_tests::fixture::Fixture;
use hw_tests::frame::{self, ACK, FIN, Ip, L4, PSH, RST, SYN, internet_checksum};
use hw_tests::scene::{
    CLIENT, DNS_SESSION, LIP, LIP_2, LIP_SLOT, NH_CLIENT, NH_SERVER, RANGE_SESSION, SERVER,
    SERVERS, SMALL_MAC, SMALL_MTU, SMALL_SERVER, SMALL_SESSION, Session, TAGGED, TAGGED_SERVER,
    UPLINK, VIP, WEB, WEB_SERVER, WEB_SESSION, local, mtu, port_mac, route, server, vip_out,
};
use p4_contract::{DropReason, Path};

use super::{
    TO_LD, forward_cells, from_client, from_server, from_tagged, reverse_cells, steered,
    steered_reply, to_client, to_server, to_tagged,
};

/// A segment of the client on [`WEB_SESSION`].
fn request(flags: u8) -> Ip {
    Ip::tcp((CLIENT, WEB_SESSION.client_port), (VIP, 80), flags)
}

/// The same as the server must get it.
fn request_out(packet: &Ip) -> Ip {
    let there = packet.clone().from(LIP, WEB_SESSION.local_port);
    there.to(SERVER, 8080).routed()
}

/// A segment of the server on [`WEB_SESSION`].
fn reply(flags: u8) -> Ip {
    Ip::tcp((SERVER, 8080), (LIP, WEB_SESSION.local_port), flags)
}

/// The same as the client must get it.
fn reply_out(packet: &Ip) -> Ip {
    let back = packet.clone().from(VIP, 80);
    back.to(CLIENT, WEB_SESSION.client_port).routed()
}

/// A datagram of the client on [`DNS_SESSION`], and as the server must get it.
fn query() -> Ip {
    Ip::udp((CLIENT, DNS_SESSION.client_port), (VIP, 53))
}

fn query_out(packet: &Ip) -> Ip {
    let there = packet.clone().from(LIP, DNS_SESSION.local_port);
    there.to(SERVER, 5353).routed()
}

fn forwarded(fx: &mut Fixture, session: &Session, packet: &Ip, expected: &Ip) -> Result<()> {
    fx.packet(UPLINK, from_client(packet)?)
        .transmits(SERVERS, Path::FastFwd, to_server(expected)?)
        .counts(&forward_cells(session))
        .check()
}

fn answered(fx: &mut Fixture, session: &Session, packet: &Ip, expected: &Ip) -> Result<()> {
    fx.packet(SERVERS, from_server(packet)?)
        .transmits(UPLINK, Path::FastRev, to_client(expected)?)
        .counts(&reverse_cells(session))
        .check()
}

pub fn tcp_forward(fx: &mut Fixture) -> Result<()> {
    let packet = request(ACK | PSH);
    forwarded(fx, &WEB_SESSION, &packet, &request_out(&packet))
}

pub fn tcp_reply(fx: &mut Fixture) -> Result<()> {
    let packet = reply(ACK);
    answered(fx, &WEB_SESSION, &packet, &reply_out(&packet))
}

pub fn udp_forward(fx: &mut Fixture) -> Result<()> {
    forwarded(fx, &DNS_SESSION, &query(), &query_out(&query()))
}

pub fn udp_reply(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::udp((SERVER, 5353), (LIP, DNS_SESSION.local_port));
    let back = packet.clone().from(VIP, 53);
    let back = back.to(CLIENT, DNS_SESSION.client_port).routed();
    answered(fx, &DNS_SESSION, &packet, &back)
}

pub fn udp_without_checksum_stays_without(fx: &mut Fixture) -> Result<()> {
    let packet = query().without_checksum();
    forwarded(fx, &DNS_SESSION, &packet, &query_out(&packet))?;
    let packet = Ip::udp((SERVER, 5353), (LIP, DNS_SESSION.local_port)).without_checksum();
    let back = packet.clone().from(VIP, 53);
    let back = back.to(CLIENT, DNS_SESSION.client_port).routed();
    answered(fx, &DNS_SESSION, &packet, &back)
}

/// Two bytes of payload that make the L4 checksum come out as zero.
fn zeroing(packet: &Ip, checksum_at: usize) -> Result<[u8; 2]> {
    let bytes = packet.clone().payload(&[0, 0]).bytes()?;
    Ok([bytes[checksum_at], bytes[checksum_at + 1]])
}

/// Where the checksum is in a packet without IP options.
const UDP_CHECKSUM: usize = 20 + 6;
const TCP_CHECKSUM: usize = 20 + 16;

pub fn udp_checksum_that_comes_out_as_zero(fx: &mut Fixture) -> Result<()> {
    let packet = query().payload(&zeroing(&query_out(&query()), UDP_CHECKSUM)?);
    let expected = query_out(&packet);
    let checksum = &expected.bytes()?[UDP_CHECKSUM..UDP_CHECKSUM + 2];
    ensure!(checksum == [0xff, 0xff], "RFC 768: zero is sent as ones");
    forwarded(fx, &DNS_SESSION, &packet, &expected)
}

pub fn udp_checksum_that_was_ffff(fx: &mut Fixture) -> Result<()> {
    let packet = query().payload(&zeroing(&query(), UDP_CHECKSUM)?);
    let checksum = &packet.bytes()?[UDP_CHECKSUM..UDP_CHECKSUM + 2];
    ensure!(checksum == [0xff, 0xff], "RFC 768: zero is sent as ones");
    forwarded(fx, &DNS_SESSION, &packet, &query_out(&packet))
}

pub fn tcp_checksum_that_comes_out_as_zero(fx: &mut Fixture) -> Result<()> {
    let packet = request(ACK).payload(&zeroing(&request_out(&request(ACK)), TCP_CHECKSUM)?);
    let expected = request_out(&packet);
    let checksum = &expected.bytes()?[TCP_CHECKSUM..TCP_CHECKSUM + 2];
    ensure!(checksum == [0, 0], "TCP has no rule about zero");
    forwarded(fx, &WEB_SESSION, &packet, &expected)
}

pub fn ipv4_checksum_that_comes_out_as_zero(fx: &mut Fixture) -> Result<()> {
    let mut packet = request(ACK);
    packet.id = 0;
    let bytes = request_out(&packet).bytes()?;
    packet.id = u16::from_be_bytes([bytes[10], bytes[11]]);
    let expected = request_out(&packet);
    ensure!(
        expected.bytes()?[10..12] == [0, 0],
        "the packet is chosen so"
    );
    forwarded(fx, &WEB_SESSION, &packet, &expected)
}

pub fn wrong_l4_checksum_stays_wrong(fx: &mut Fixture) -> Result<()> {
    for (session, packet, expected) in [
        (WEB_SESSION, request(ACK), request_out(&request(ACK))),
        (DNS_SESSION, query(), query_out(&query())),
    ] {
        let (mut sent, mut expected) = (from_client(&packet)?, to_server(&expected)?);
        for frame in [&mut sent, &mut expected] {
            let last = frame.len() - 1;
            frame[last] ^= 0x40;
        }
        ensure!(
            internet_checksum(&sent[14..34]) == 0,
            "the IPv4 header is right"
        );
        fx.packet(UPLINK, sent)
            .transmits(SERVERS, Path::FastFwd, expected)
            .counts(&forward_cells(&session))
            .check()?;
    }
    Ok(())
}

pub fn ip_options(fx: &mut Fixture) -> Result<()> {
    // No-operations, a record route, and as much as there can be.
    let record_route = [7, 7, 4, 0, 0, 0, 0, 0];
    for options in [&[1, 1, 1, 0][..], &record_route, &[1; 40]] {
        let packet = request(ACK).options(options);
        forwarded(fx, &WEB_SESSION, &packet, &request_out(&packet))?;
        let packet = query().options(options);
        forwarded(fx, &DNS_SESSION, &packet, &query_out(&packet))?;
        let packet = reply(ACK).options(options);
        answered(fx, &WEB_SESSION, &packet, &reply_out(&packet))?;
    }
    Ok(())
}

pub fn tcp_options(fx: &mut Fixture) -> Result<()> {
    let mut packet = request(ACK);
    if let L4::Tcp { options, .. } = &mut packet.l4 {
        options.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
    forwarded(fx, &WEB_SESSION, &packet, &request_out(&packet))
}

pub fn all_other_flags(fx: &mut Fixture) -> Result<()> {
    // Any mix of flags without SYN, FIN and RST: PSH, ACK, URG, ECE, CWR, none.
    for flags in [0, 0x20 | ACK, 0x40 | ACK, 0x80 | ACK, 0xf8] {
        let packet = request(flags);
        forwarded(fx, &WEB_SESSION, &packet, &request_out(&packet))?;
    }
    Ok(())
}

pub fn tos_id_and_payload_are_kept(fx: &mut Fixture) -> Result<()> {
    let mut packet = request(ACK).payload(&[0xff; 33]);
    packet.tos = 0xb9;
    packet.id = 0xffff;
    packet.df = false;
    packet.ttl = 255;
    forwarded(fx, &WEB_SESSION, &packet, &request_out(&packet))?;
    let empty = request(ACK).payload(b"");
    forwarded(fx, &WEB_SESSION, &empty, &request_out(&empty))
}

pub fn port_range_keeps_the_port(fx: &mut Fixture) -> Result<()> {
    let session = RANGE_SESSION;
    let packet = Ip::tcp((CLIENT, session.client_port), (VIP, 8042), ACK);
    let there = packet.clone().from(LIP_2, session.local_port);
    let there = there.to(TAGGED_SERVER, 8042).routed();
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TAGGED, Path::FastFwd, to_tagged(&there)?)
        .counts(&forward_cells(&session))
        .check()?;
    let packet = Ip::tcp((TAGGED_SERVER, 8042), (LIP_2, session.local_port), ACK);
    let back = packet.clone().from(VIP, 8042);
    let back = back.to(CLIENT, session.client_port).routed();
    fx.packet(TAGGED, from_tagged(&packet)?)
        .transmits(UPLINK, Path::FastRev, to_client(&back)?)
        .counts(&reverse_cells(&session))
        .check()
}

pub fn port_range_reply_from_another_port(fx: &mut Fixture) -> Result<()> {
    // Right server, but not the port that the session's client asked for.
    let session = RANGE_SESSION;
    let packet = Ip::tcp((TAGGED_SERVER, 8043), (LIP_2, session.local_port), ACK);
    fx.packet(TAGGED, from_tagged(&packet)?)
        .drops(DropReason::ReplySourceMismatch)
        .counts(&[Cell::FlowRev(session.reverse_key())])
        .check()
}

pub fn malformed_l4_goes_to_the_ld(fx: &mut Fixture) -> Result<()> {
    // The data offset is below the header's own length (RFC 9293, 3.1).
    let mut frame = from_client(&request(ACK))?;
    let offset = 14 + 20 + 12;
    frame[offset] = 4 << 4 | frame[offset] & 0x0f;
    let mut expected = steered(&request(ACK))?;
    expected[50 + offset] = frame[offset];
    fx.packet(UPLINK, frame)
        .transmits(TO_LD, Path::SteerVip, expected)
        .counts(&[Cell::VipRx(WEB)])
        .check()
}

pub fn syn_fin_rst_go_to_the_ld(fx: &mut Fixture) -> Result<()> {
    for flags in [SYN, FIN | ACK, RST, RST | ACK, SYN | FIN] {
        let packet = request(flags);
        fx.packet(UPLINK, from_client(&packet)?)
            .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
            .counts(&[Cell::VipRx(WEB)])
            .check()?;
    }
    Ok(())
}

pub fn fin_and_rst_of_the_server_go_to_the_ld(fx: &mut Fixture) -> Result<()> {
    for flags in [SYN | ACK, FIN | ACK, RST] {
        let packet = reply(flags);
        let expected = steered_reply(&packet, WEB_SESSION.local_port, LIP_SLOT)?;
        fx.packet(SERVERS, from_server(&packet)?)
            .transmits(TO_LD, Path::SteerLip, expected)
            .check()?;
    }
    Ok(())
}

fn mismatch(fx: &mut Fixture, packet: &Ip) -> Result<()> {
    fx.packet(SERVERS, from_server(packet)?)
        .drops(DropReason::ReplySourceMismatch)
        .counts(&[Cell::FlowRev(WEB_SESSION.reverse_key())])
        .check()
}

pub fn reply_from_another_server(fx: &mut Fixture) -> Result<()> {
    mismatch(fx, &reply(ACK).from(SMALL_SERVER, 8080))
}

pub fn reply_from_another_port(fx: &mut Fixture) -> Result<()> {
    mismatch(fx, &reply(ACK).from(SERVER, 8081))
}

/// A hit whose small tables are not complete goes the slow way.
fn incomplete_forward(fx: &mut Fixture) -> Result<()> {
    let packet = request(ACK);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .counts(&[
            Cell::Path(Path::FastIncomplete),
            Cell::VipRx(WEB),
            Cell::FlowFwd(WEB_SESSION.forward_key()),
        ])
        .check()
}

fn incomplete_reply(fx: &mut Fixture) -> Result<()> {
    let packet = reply(ACK);
    let expected = steered_reply(&packet, WEB_SESSION.local_port, LIP_SLOT)?;
    fx.packet(SERVERS, from_server(&packet)?)
        .transmits(TO_LD, Path::SteerLip, expected)
        .counts(&[
            Cell::Path(Path::FastIncomplete),
            Cell::FlowRev(WEB_SESSION.reverse_key()),
        ])
        .check()
}

pub fn server_missing(fx: &mut Fixture) -> Result<()> {
    fx.delete(&server(WEB_SERVER, SERVER, 8080))?;
    incomplete_forward(fx)?;
    incomplete_reply(fx)
}

pub fn local_missing(fx: &mut Fixture) -> Result<()> {
    fx.delete(&local(21, LIP))?;
    incomplete_forward(fx)
}

pub fn vip_out_missing(fx: &mut Fixture) -> Result<()> {
    fx.delete(&vip_out(WEB))?;
    incomplete_reply(fx)
}

pub fn too_big_for_the_server_goes_to_the_ld(fx: &mut Fixture) -> Result<()> {
    let packet = Ip::tcp((CLIENT, SMALL_SESSION.client_port), (VIP, 80), ACK);
    let packet = packet.total(usize::from(SMALL_MTU) + 1)?;
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerMtu, steered(&packet)?)
        .counts(&[Cell::VipRx(WEB), Cell::FlowFwd(SMALL_SESSION.forward_key())])
        .check()
}

pub fn too_big_for_the_client_goes_to_the_ld(fx: &mut Fixture) -> Result<()> {
    fx.modify(&mtu(NH_CLIENT, 1550), &mtu(NH_CLIENT, 1000))?;
    let packet = reply(ACK).total(1001)?;
    let expected = steered_reply(&packet, WEB_SESSION.local_port, LIP_SLOT)?;
    fx.packet(SERVERS, from_server(&packet)?)
        .transmits(TO_LD, Path::SteerMtu, expected)
        .counts(&[Cell::FlowRev(WEB_SESSION.reverse_key())])
        .check()?;
    let packet = reply(ACK).total(1000)?;
    answered(fx, &WEB_SESSION, &packet, &reply_out(&packet))
}

pub fn largest_packet_that_fits(fx: &mut Fixture) -> Result<()> {
    let session = SMALL_SESSION;
    let packet = Ip::tcp((CLIENT, session.client_port), (VIP, 80), ACK);
    let packet = packet.total(usize::from(SMALL_MTU))?;
    let there = packet.clone().from(LIP, session.local_port);
    let there = there.to(SMALL_SERVER, 8080).routed();
    let expected = frame::ipv4(SMALL_MAC, port_mac(SERVERS), &there)?;
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(SERVERS, Path::FastFwd, expected)
        .counts(&forward_cells(&session))
        .check()?;
    let packet = request(ACK).total(1550)?;
    forwarded(fx, &WEB_SESSION, &packet, &request_out(&packet))
}

pub fn no_route_to_the_server(fx: &mut Fixture) -> Result<()> {
    fx.delete(&route(0, frame::addr(10, 2, 1, 0), 24, NH_SERVER))?;
    fx.packet(UPLINK, from_client(&request(ACK))?)
        .drops(DropReason::NoRoute)
        .counts(&[Cell::VipRx(WEB), Cell::FlowFwd(WEB_SESSION.forward_key())])
        .check()
}

pub fn ttl_1_on_a_session(fx: &mut Fixture) -> Result<()> {
    fx.packet(UPLINK, from_client(&request(ACK).ttl(1))?)
        .drops(DropReason::TtlExpired)
        .counts(&[Cell::VipRx(WEB), Cell::FlowFwd(WEB_SESSION.forward_key())])
        .check()
}

pub fn moved_server_takes_effect(fx: &mut Fixture) -> Result<()> {
    // One write in the small table moves all its sessions.
    fx.modify(
        &server(WEB_SERVER, SERVER, 8080),
        &server(WEB_SERVER, SERVER, 9090),
    )?;
    let packet = request(ACK);
    let expected = request_out(&packet).to(SERVER, 9090);
    forwarded(fx, &WEB_SESSION, &packet, &expected)?;
    mismatch(fx, &reply(ACK))
}

pub fn deleted_flow_goes_to_the_ld(fx: &mut Fixture) -> Result<()> {
    for entry in WEB_SESSION.entries(0) {
        fx.delete(&entry)?;
    }
    let packet = request(ACK);
    fx.packet(UPLINK, from_client(&packet)?)
        .transmits(TO_LD, Path::SteerVip, steered(&packet)?)
        .counts(&[Cell::VipRx(WEB)])
        .check()?;
    let packet = reply(ACK);
    let expected = steered_reply(&packet, WEB_SESSION.local_port, LIP_SLOT)?;
    fx.packet(SERVERS, from_server(&packet)?)
        .transmits(TO_LD, Path::SteerLip, expected)
        .check()
}
