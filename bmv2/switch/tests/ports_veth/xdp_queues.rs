//! AF_XDP ports on interfaces with several receive queues. The kernel spreads
//! the flows over them.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use softswitch::ports::DataPlane;

use crate::namespaces::{Namespaces, alone, obstacle, run, within};
use crate::switch::{loaded, with_workers};
use crate::xdp::start;

const MTU: u32 = 1500;
const PORT: u16 = 7008;
/// So many that none of four queues is without: three quarters to the power of
/// 64, four times, is one in ten million.
const FLOWS: usize = 64;
/// Datagrams of a flow that follow one another at once.
const BURST: u32 = 8;

/// Sockets of host 1, a flow each, and the one of host 2 that all send to.
struct Flows {
    senders: Vec<UdpSocket>,
    receiver: UdpSocket,
    /// Datagrams that each flow has sent.
    sent: u32,
}

impl Flows {
    fn start(namespaces: &Namespaces) -> Self {
        let receiver = within(namespaces.host(2), || {
            UdpSocket::bind(("0.0.0.0", PORT)).unwrap()
        });
        // A whole burst of all flows waits here.
        setsockopt(&receiver, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        let patience = Some(Duration::from_millis(500));
        receiver.set_read_timeout(patience).unwrap();
        let senders = within(namespaces.host(1), || {
            let open = |_| {
                let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
                sender.connect(("10.70.0.2", PORT)).unwrap();
                sender
            };
            (0..FLOWS).map(open).collect()
        });
        Self {
            senders,
            receiver,
            sent: 0,
        }
    }

    /// Sends a burst of each flow, and returns what arrived: for each flow the
    /// numbers of its datagrams.
    fn burst(&mut self) -> Vec<Vec<u32>> {
        for _ in 0..BURST {
            for (flow, sender) in (0u32..).zip(&self.senders) {
                let mut datagram = [flow.to_be_bytes(), self.sent.to_be_bytes()].concat();
                datagram.resize(100, 0);
                sender.send(&datagram).unwrap();
            }
            self.sent += 1;
        }
        let mut arrived = vec![Vec::new(); FLOWS];
        let mut buffer = [0; 200];
        for _ in 0..FLOWS as u32 * BURST {
            let Ok(100) = self.receiver.recv(&mut buffer) else {
                break;
            };
            let number = |at: usize| u32::from_be_bytes(buffer[at..at + 4].try_into().unwrap());
            arrived[number(0) as usize].push(number(4));
        }
        arrived
    }

    /// All datagrams of a burst arrive, those of each flow in order.
    fn all_arrive(&mut self, plane: &DataPlane) {
        let first = self.sent;
        let arrived = self.burst();
        let expected: Vec<_> = (first..self.sent).collect();
        for (flow, numbers) in arrived.iter().enumerate() {
            assert_eq!(*numbers, expected, "flow {flow}: {:?}", plane.snapshot());
        }
    }
}

fn ethtool(namespace: &str, arguments: &str) -> Result<String, String> {
    run(&format!("ip netns exec {namespace} ethtool {arguments}"))
}

/// Why AF_XDP ports cannot be tested here.
fn no_xdp(error: &str) -> bool {
    error.contains("AF_XDP") && !error.contains("is in use")
}

#[test]
fn xdp_serves_all_queues() {
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    let namespaces = Namespaces::with_queues("q", MTU, 4);
    // One for all queues, two for each, one for each, more than queues.
    for workers in [1, 2, 4, 6] {
        let plane = match start(&namespaces, &loaded(), with_workers(workers)) {
            Err(error) if no_xdp(&error) => {
                println!("SKIPPED: {error}");
                return;
            }
            other => other.unwrap(),
        };
        let mut flows = Flows::start(&namespaces);
        for _ in 0..20 {
            flows.all_arrive(&plane);
        }
        let sent = u64::from(flows.sent) * FLOWS as u64;
        let stats = plane.snapshot();
        let [from, to] = &stats.ports[..] else {
            panic!("{stats:?}");
        };
        // The hosts say a few things of their own.
        for (packets, bytes) in [
            (from.rx_packets, from.rx_bytes),
            (to.tx_packets, to.tx_bytes),
        ] {
            assert!((sent..sent + 100).contains(&packets), "{stats:?}");
            // Ethernet, IPv4 and UDP headers: 14, 20 and 8 bytes.
            let length = 100 + 42;
            assert!(bytes >= sent * length, "{stats:?}");
            assert!(bytes < (sent + 100) * length, "{stats:?}");
        }
        assert_eq!((from.rx_missed, to.tx_dropped), (0, 0), "{stats:?}");
    }
}

/// Queues that an interface gets while the switch runs are served too.
#[test]
fn xdp_follows_the_number_of_queues() {
    if let Some(why) = obstacle() {
        println!("SKIPPED: {why}");
        return;
    }
    let _alone = alone();
    let namespaces = Namespaces::with_queues("n", MTU, 70);
    // What a host's end sends on a queue comes in on the one of the same number.
    let set_queues = |queues: u32| {
        for host in [1, 2] {
            let counts = format!("rx {queues} tx {queues}");
            ethtool(&namespaces.switch(), &format!("-L p{host} {counts}"))?;
            ethtool(&namespaces.host(host), &format!("-L h0 {counts}"))?;
        }
        Ok::<_, String>(())
    };
    set_queues(2).unwrap();
    let plane = match start(&namespaces, &loaded(), with_workers(2)) {
        Err(error) if no_xdp(&error) => {
            println!("SKIPPED: {error}");
            return;
        }
        other => other.unwrap(),
    };
    let mut flows = Flows::start(&namespaces);
    flows.all_arrive(&plane);
    set_queues(4).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while flows.burst().iter().any(|flow| flow.len() < BURST as usize) {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
    }
    for _ in 0..5 {
        flows.all_arrive(&plane);
    }
    let count = plane.snapshot().ports[0].rx_packets;
    // While sockets are bound to them, the kernel takes no queue away.
    for counts in ["rx 1", "tx 1"] {
        let error = ethtool(&namespaces.switch(), &format!("-L p2 {counts}")).unwrap_err();
        assert!(error.contains("AF_XDP"), "{counts}: {error}");
    }
    // Too many to receive from: the first ones are served as before.
    ethtool(&namespaces.switch(), "-L p1 rx 70").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    flows.all_arrive(&plane);
    let stats = plane.snapshot();
    assert!(stats.ports[0].rx_packets >= count + 512, "{stats:?}");
    assert_eq!(stats.ports[0].reopened, 0, "{stats:?}");
}
