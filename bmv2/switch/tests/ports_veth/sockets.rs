//! Ports that are packet sockets.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use softswitch::ports::{DataPlane, DataPlaneConfig, LinkState, PortSpec};

use crate::HOSTS;
use crate::hosts::{Echo, Stream, client, everything_arrives, round_trip};
use crate::namespaces::{Namespaces, alone, ip, obstacle};
use crate::switch::{idle_costs_nothing, loaded, start, with_workers};

const MTU: u32 = 9000;

fn specs() -> [PortSpec; 2] {
    HOSTS.map(|port| PortSpec::Interface {
        port,
        interface: format!("p{port}"),
    })
}

#[test]
fn hosts_talk_through_the_switch() {
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    let namespaces = Namespaces::new("", MTU);
    for workers in [1, 2] {
        talk(&namespaces, workers);
        goes_and_comes_back(&namespaces, workers);
        changes_its_mtu_under_traffic(&namespaces, workers);
    }
}

fn talk(namespaces: &Namespaces, workers: usize) {
    let switch = loaded();
    let captures = std::env::temp_dir().join(format!("{}-pcap", namespaces.prefix));
    std::fs::create_dir_all(&captures).unwrap();
    let config = DataPlaneConfig {
        workers,
        capture: Some(captures.clone()),
        ..DataPlaneConfig::default()
    };
    let plane = start(namespaces, &switch, specs(), config).unwrap();

    let echo = Echo::start(namespaces.host(2));
    let client = client(namespaces, Duration::from_secs(1));
    everything_arrives(namespaces, &client, &plane);
    drop(echo);
    idle_costs_nothing(workers);
    let echo = Echo::start(namespaces.host(2));

    // A port that goes down loses packets under a name.
    let switch_ns = namespaces.switch();
    ip(&format!("-n {switch_ns} link set p2 down"));
    for _ in 0..2 {
        assert!(round_trip(&client, 100).is_err());
    }
    let port = &plane.snapshot().ports[1];
    assert!(port.tx_port_down >= 2, "{port:?}");
    ip(&format!("-n {switch_ns} link set p2 up"));
    let deadline = Instant::now() + Duration::from_secs(5);
    while round_trip(&client, 100).is_err() {
        assert!(Instant::now() < deadline, "the port did not come back");
    }
    drop(echo);
    plane.stop();
    for port in plane.snapshot().ports {
        let name = &port.interface;
        let [received, sent] = ["in", "out"].map(|direction| {
            records(&std::fs::read(captures.join(format!("{name}_{direction}.pcap"))).unwrap())
        });
        assert_eq!(received, (port.rx_packets, port.rx_bytes), "{port:?}");
        // Written before it is known whether they can be sent.
        assert_eq!(sent.0, port.tx_packets + port.tx_dropped, "{port:?}");
        assert_eq!(port.not_captured, 0);
    }
    std::fs::remove_dir_all(captures).unwrap();
}

/// An interface that is deleted and made again is a port again.
fn goes_and_comes_back(namespaces: &Namespaces, workers: usize) {
    let switch = loaded();
    let plane = start(namespaces, &switch, specs(), with_workers(workers)).unwrap();
    let reaches = |state: LinkState, reopened: u64| {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let port = &plane.snapshot().ports[1];
            let up = switch.is_port_up(2);
            // Made first and given its MTU then, it may be opened twice.
            let opened = (port.reopened > 0) == (reopened > 0);
            if (port.link, up) == (state, state == LinkState::Up) && opened {
                return;
            }
            assert!(Instant::now() < deadline, "{up} {port:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let echo = Echo::start(namespaces.host(2));
    let client = client(namespaces, Duration::from_millis(300));
    let switch_ns = namespaces.switch();

    reaches(LinkState::Up, 0);
    assert_eq!(round_trip(&client, 100), Ok(()));
    ip(&format!("-n {switch_ns} link set p2 down"));
    reaches(LinkState::Down, 0);
    ip(&format!("-n {switch_ns} link set p2 up"));
    reaches(LinkState::Up, 0);

    ip(&format!("-n {switch_ns} link del p2"));
    reaches(LinkState::Gone, 0);
    assert!(round_trip(&client, 100).is_err());
    assert!(plane.snapshot().ports[1].tx_port_down >= 1);
    assert!(switch.is_port_up(1));
    namespaces.join(2);
    reaches(LinkState::Up, 1);
    let deadline = Instant::now() + Duration::from_secs(10);
    while round_trip(&client, MTU - 28).is_err() {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
    }
    for size in [1, 1000, MTU - 28] {
        assert_eq!(round_trip(&client, size), Ok(()), "{:?}", plane.snapshot());
    }
    longer_than_the_mtu(namespaces, &client, &plane);
    drop(echo);
    plane.stop();
}

/// An MTU that shrinks holds for what is sent from then on: what is longer is
/// counted, and what is not goes through.
fn longer_than_the_mtu(namespaces: &Namespaces, client: &UdpSocket, plane: &DataPlane) {
    let port = || plane.snapshot().ports[1].clone();
    let opened = port().reopened;
    let switch_ns = namespaces.switch();
    ip(&format!("-n {switch_ns} link set p2 mtu 1280"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while port().reopened == opened {
        assert!(Instant::now() < deadline, "{:?}", port());
        std::thread::sleep(Duration::from_millis(2));
    }
    // IPv4 and UDP headers take 28 bytes.
    assert!(round_trip(client, 1280 - 27).is_err());
    assert_eq!(port().tx_too_long, 1, "{:?}", port());
    for size in [1280 - 28, 1] {
        assert_eq!(round_trip(client, size), Ok(()), "{:?}", port());
    }
    ip(&format!("-n {switch_ns} link set p2 mtu {MTU}"));
}

/// A port that is opened again because its MTU changes gets no packet twice,
/// and none before an earlier one.
fn changes_its_mtu_under_traffic(namespaces: &Namespaces, workers: usize) {
    let switch = loaded();
    let plane = start(namespaces, &switch, specs(), with_workers(workers)).unwrap();
    let stream = Stream::start(namespaces);
    let reopened = || plane.snapshot().ports[0].reopened;
    for mtu in [8000, MTU, 7000, MTU] {
        let before = reopened();
        std::thread::sleep(Duration::from_millis(50));
        ip(&format!("-n {} link set p1 mtu {mtu}", namespaces.switch()));
        let deadline = Instant::now() + Duration::from_secs(10);
        while reopened() == before {
            assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    let (sent, received) = stream.stop();
    let wrong: Vec<_> = received.windows(2).filter(|w| w[0] >= w[1]).collect();
    assert!(wrong.is_empty(), "{workers} workers: {wrong:?} of {sent}");
    // A few are lost while one socket takes over from the other, and in the
    // host, whose receive buffer may run over; most are not.
    let port = &plane.snapshot().ports[0];
    assert!(port.rx_packets > u64::from(sent) / 2, "{port:?} of {sent}");
    assert!(!received.is_empty(), "none of {sent}");
    plane.stop();
}

/// Packets in a pcap file, and their bytes.
fn records(bytes: &[u8]) -> (u64, u64) {
    let (mut at, mut packets, mut total) = (24, 0, 0);
    while at < bytes.len() {
        let length = u32::from_ne_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        (packets, total) = (packets + 1, total + u64::from(length));
        at += 16 + length as usize;
    }
    assert_eq!(at, bytes.len(), "the last record is cut");
    (packets, total)
}
