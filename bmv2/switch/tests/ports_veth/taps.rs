//! Ports that are TAP devices.

use std::time::{Duration, Instant};

use softswitch::ports::{LinkState, PortSpec};

use crate::HOSTS;
use crate::hosts::{Echo, client, round_trip};
use crate::namespaces::{Namespaces, alone, ip, obstacle};
use crate::switch::{forward, idle_costs_nothing, loaded, start, with_workers};

const MTU: u32 = 9000;

/// The hosts are network stacks at TAP devices: the switch's own namespace has
/// one, and the other is moved to a host's.
#[test]
fn hosts_talk_over_taps() {
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    let namespaces = &Namespaces::new("t", MTU);
    let switch = loaded();
    let specs = HOSTS.map(|port| PortSpec::Tap {
        port,
        interface: format!("t{port}"),
    });
    let plane = start(namespaces, &switch, specs, with_workers(2)).unwrap();
    let switch_ns = namespaces.switch();
    let join = |host: u16| {
        let (ns, other) = (namespaces.host(host), HOSTS[0] + HOSTS[1] - host);
        ip(&format!("-n {switch_ns} link set t{host} netns {ns}"));
        ip(&format!(
            "-n {ns} link set t{host} address 02:00:00:00:01:0{host} mtu {MTU} up"
        ));
        ip(&format!("-n {ns} addr flush dev h0"));
        ip(&format!("-n {ns} addr add 10.70.0.{host}/24 dev t{host}"));
        ip(&format!(
            "-n {ns} neigh add 10.70.0.{other} lladdr 02:00:00:00:01:0{other} dev t{host}"
        ));
    };
    for host in HOSTS {
        forward([2, 0, 0, 0, 1, host as u8], host, &switch);
        join(host);
    }
    let echo = Echo::start(namespaces.host(2));
    let client = client(namespaces, Duration::from_secs(1));
    for size in [1, 18, 1000, MTU - 28] {
        assert_eq!(round_trip(&client, size), Ok(()), "{:?}", plane.snapshot());
    }
    // They are other namespaces', but they are there.
    for port in plane.snapshot().ports {
        assert_eq!(port.link, LinkState::Up, "{port:?}");
    }

    // One that is deleted is noticed, and costs nothing.
    let reaches = |state: LinkState, reopened: u64| {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let port = &plane.snapshot().ports[1];
            let up = switch.is_port_up(2);
            let reached = (port.link, up) == (state, state == LinkState::Up);
            if reached && (port.reopened > 0) == (reopened > 0) {
                return;
            }
            assert!(Instant::now() < deadline, "{up} {port:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    ip(&format!("-n {} link del t2", namespaces.host(2)));
    reaches(LinkState::Gone, 0);
    assert!(round_trip(&client, 100).is_err());
    assert!(plane.snapshot().ports[1].tx_port_down >= 1);
    idle_costs_nothing(2);

    // Whoever makes it again, the switch takes it.
    ip(&format!("-n {switch_ns} tuntap add dev t2 mode tap"));
    ip(&format!("-n {switch_ns} link set t2 up"));
    reaches(LinkState::Up, 1);
    ip(&format!("-n {switch_ns} link set t2 down"));
    reaches(LinkState::Down, 1);
    join(2);
    reaches(LinkState::Up, 1);
    for size in [1, 18, 1000, MTU - 28] {
        assert_eq!(round_trip(&client, size), Ok(()), "{:?}", plane.snapshot());
    }
    drop(echo);
    // A worker counts a burst once it has sent it, which the client may have
    // received by then.
    plane.stop();
    for port in plane.snapshot().ports {
        assert!(port.rx_packets >= 8 && port.tx_packets >= 8, "{port:?}");
        assert_eq!(port.tx_dropped, port.tx_port_down, "{port:?}");
    }
}
