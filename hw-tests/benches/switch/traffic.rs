//! The sessions of the benchmark and their packets.

use anyhow::Result;
use hw_tests::controller::Controller;
use hw_tests::frame::{self, ACK, Ip, SYN};
use hw_tests::scene::{
    self, CLIENT, CLIENT_MAC, LIP, SERVER, SERVER_MAC, SERVERS, Session, UPLINK, VIP, WEB,
    WEB_SERVER, port_mac,
};

/// Lengths of frames in bytes, from the Ethernet header on.
pub const LENGTHS: [usize; 2] = [64, 1000];

/// Offloaded sessions.
pub const SESSIONS: u16 = 4096;

/// A session by number.
pub fn session(number: u16) -> Session {
    Session {
        protocol: 6,
        client_port: 2048 + number,
        vip_id: WEB,
        vip_port: 80,
        server_id: WEB_SERVER,
        local_id: 21,
        local_port: 20_000 + number,
    }
}

/// Bytes of Ethernet header.
pub const ETHERNET: usize = 14;

/// Gives a switch the scene and all sessions.
pub fn install(controller: &Controller) -> Result<()> {
    controller.insert(&scene::configuration())?;
    let entries: Vec<_> = (0..SESSIONS)
        .flat_map(|at| session(at).entries(0))
        .collect();
    controller.insert(&entries)
}

fn request(session: &Session, length: usize) -> Result<Ip> {
    Ip::tcp((CLIENT, session.client_port), (VIP, 80), ACK).total(length - ETHERNET)
}

/// A client's frame.
pub fn forward(session: &Session, length: usize) -> Result<Vec<u8>> {
    frame::ipv4(port_mac(UPLINK), CLIENT_MAC, &request(session, length)?)
}

/// What the server must get of it.
pub fn forward_out(session: &Session, length: usize) -> Result<Vec<u8>> {
    let there = request(session, length)?.from(LIP, session.local_port);
    frame::ipv4(
        SERVER_MAC,
        port_mac(SERVERS),
        &there.to(SERVER, 8080).routed(),
    )
}

/// A server's frame.
pub fn reply(session: &Session, length: usize) -> Result<Vec<u8>> {
    let packet = Ip::tcp((SERVER, 8080), (LIP, session.local_port), ACK);
    frame::ipv4(
        port_mac(SERVERS),
        SERVER_MAC,
        &packet.total(length - ETHERNET)?,
    )
}

/// A client's SYN, which goes to the load director.
pub fn opening(session: &Session, length: usize) -> Result<Vec<u8>> {
    let packet = Ip::tcp((CLIENT, session.client_port), (VIP, 80), SYN);
    frame::ipv4(
        port_mac(UPLINK),
        CLIENT_MAC,
        &packet.total(length - ETHERNET)?,
    )
}

/// Frames of all sessions, those of neighbours apart from each other (an odd
/// factor permutes the numbers below a power of two).
pub fn frames(make: fn(&Session, usize) -> Result<Vec<u8>>, length: usize) -> Result<Vec<Vec<u8>>> {
    (0..SESSIONS)
        .map(|at| make(&session(at.wrapping_mul(2655) % SESSIONS), length))
        .collect()
}
