//! Ports by AF_XDP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use softswitch::Switch;
use softswitch::ports::{DataPlane, DataPlaneConfig, LinkState, PortSpec};

use crate::HOSTS;
use crate::hosts::{Echo, Tap, client, everything_arrives, round_trip};
use crate::namespaces::{Namespaces, alone, ip, obstacle};
use crate::switch::{idle_costs_nothing, loaded, with_workers};

/// The longest that fits: 4096 bytes of a page without the kernel's 256, an
/// Ethernet header and two VLAN tags.
const XDP_MTU: u32 = 4096 - 256 - 14 - 8;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

pub(crate) fn start(
    namespaces: &Namespaces,
    switch: &Arc<Switch>,
    config: DataPlaneConfig,
) -> Result<DataPlane, String> {
    let specs = HOSTS.map(|port| PortSpec::Xdp {
        port,
        interface: format!("p{port}"),
    });
    crate::switch::start(namespaces, switch, specs, config)
}

#[test]
fn xdp_ports_forward_and_count() {
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    for (queues, workers) in [(1, 1), (1, 2), (4, 1), (4, 2)] {
        let namespaces = Namespaces::with_queues("x", XDP_MTU, queues);
        let switch = loaded();
        let plane = match start(&namespaces, &switch, with_workers(workers)) {
            Err(error) if error.contains("AF_XDP") && !error.contains("is in use") => {
                println!("SKIPPED: {error}");
                return;
            }
            other => other.unwrap(),
        };
        let echo = Echo::start(namespaces.host(2));
        let client = client(&namespaces, PATIENCE);
        everything_arrives(&namespaces, &client, &plane);
        drop(echo);
        idle_costs_nothing(workers);
        comes_back(&namespaces, &switch, &plane);
    }
}

/// A port that goes down, and one whose interface is deleted and made again.
fn comes_back(namespaces: &Namespaces, switch: &Switch, plane: &DataPlane) {
    let echo = Echo::start(namespaces.host(2));
    let client = client(namespaces, PATIENCE);
    let switch_ns = namespaces.switch();
    let reaches = |state: LinkState| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while plane.snapshot().ports[1].link != state {
            assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let works = || {
        let deadline = Instant::now() + Duration::from_secs(10);
        while round_trip(&client, 100).is_err() {
            assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        }
        assert_eq!(round_trip(&client, XDP_MTU - 28), Ok(()));
    };
    ip(&format!("-n {switch_ns} link set p2 down"));
    reaches(LinkState::Down);
    for _ in 0..2 {
        assert!(round_trip(&client, 100).is_err());
    }
    let down = plane.snapshot().ports[1].tx_port_down;
    assert!(down >= 2, "{:?}", plane.snapshot());
    ip(&format!("-n {switch_ns} link set p2 up"));
    reaches(LinkState::Up);
    // Late packets may come first.
    std::thread::sleep(Duration::from_millis(100));
    let mut buffer = vec![0; 1 << 16];
    client.set_nonblocking(true).unwrap();
    while client.recv(&mut buffer).is_ok() {}
    client.set_nonblocking(false).unwrap();
    works();

    ip(&format!("-n {switch_ns} link del p2"));
    reaches(LinkState::Gone);
    assert!(round_trip(&client, 100).is_err());
    assert!(plane.snapshot().ports[1].tx_port_down > down);
    assert!(switch.is_port_up(1));
    namespaces.join(2);
    reaches(LinkState::Up);
    works();
    assert!(plane.snapshot().ports[1].reopened >= 1);
    drop(echo);
}

/// While no worker takes packets, the ring takes as many as it has frames for;
/// the others are counted as missed. None is lost without a count.
#[test]
fn xdp_losses_are_counted() {
    const SENT: u64 = 5000;
    const FRAMES: u64 = 64;
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    let namespaces = Namespaces::new("l", XDP_MTU);
    let switch = loaded();
    let config = DataPlaneConfig {
        ring_frames: FRAMES as usize,
        ..DataPlaneConfig::default()
    };
    let plane = match start(&namespaces, &switch, config) {
        Err(error) if error.contains("AF_XDP") && !error.contains("is in use") => {
            println!("SKIPPED: {error}");
            return;
        }
        other => other.unwrap(),
    };
    let tap = Tap::start(&namespaces, 1);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.resize(1000, 0x5a);
    let pause = plane.pause();
    let deadline = Instant::now() + Duration::from_secs(20);
    for _ in 0..SENT {
        while tap.port.send(frame.clone()).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    while plane.snapshot().ports[0].rx_missed < SENT - 2 * FRAMES {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(pause);
    let arrived = || {
        let port = &plane.snapshot().ports[0];
        port.rx_packets + port.rx_missed
    };
    while arrived() < SENT {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(50));
    let stats = plane.snapshot();
    let [first, second] = &stats.ports[..] else {
        panic!("{stats:?}");
    };
    // The hosts say a few things of their own.
    let total = first.rx_packets + first.rx_missed;
    assert!((SENT..SENT + 50).contains(&total), "{stats:?}");
    // What was in the ring, and what a worker had taken before it waited.
    let processed = FRAMES..=2 * FRAMES + 50;
    assert!(processed.contains(&first.rx_packets), "{stats:?}");
    assert_eq!(second.tx_dropped, 0, "{stats:?}");
    // All frames are in use again: one by one, all come through.
    for sent in 1..=10 * FRAMES {
        tap.port.send(frame.clone()).unwrap();
        while plane.snapshot().ports[1].tx_packets < second.tx_packets + sent {
            assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        }
    }
}

/// What cannot work is refused, and the sentence says what does.
#[test]
fn xdp_refusals_say_what_to_do() {
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    let namespaces = Namespaces::new("r", XDP_MTU + 1);
    let error = start(&namespaces, &loaded(), with_workers(1)).unwrap_err();
    assert!(error.contains("3818") && error.contains("3819"), "{error}");
    assert!(error.contains("`-i 1@p1`"), "{error}");

    drop(namespaces);
    let namespaces = Namespaces::with_queues("r", 1500, 65);
    let error = start(&namespaces, &loaded(), with_workers(1)).unwrap_err();
    assert!(
        error.contains("at most 64") && error.contains("has 65"),
        "{error}"
    );
    assert!(error.contains("ethtool -L"), "{error}");
}
