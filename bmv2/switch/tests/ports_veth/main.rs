//! Ports on real interfaces: two hosts in network namespaces of their own talk
//! through the switch. The kernel on both ends is the judge: it hands a datagram
//! to the socket only if every byte came through. Tagged frames, which the
//! kernel may not be able to make, go from tap to tap.
//!
//! Needs root, `ip` and `ethtool`; prints SKIPPED otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod xdp;

use std::fs::File;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use softswitch::ports::{
    ChannelPort, Clock, DataPlane, DataPlaneConfig, LinkState, PortSpec, channel_port,
};
use softswitch::{
    ActionCall, EntryAction, EntryKey, FieldMatch, Program, Switch, SwitchConfig, TableEntry,
    TableOp, Value,
};

const JSON: &str = include_str!("../../testdata/p4rt/p4rt.json");
const MTU: u32 = 9000;
const HOSTS: [u16; 2] = [1, 2];

fn run(command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command}: {}\n{text}{error}", output.status))
}

fn ip(arguments: &str) {
    run(&format!("ip {arguments}")).unwrap();
}

/// Network namespaces that go away with this value.
struct Namespaces {
    prefix: String,
    mtu: u32,
}

impl Namespaces {
    /// The switch's namespace and one for each host, joined by veth pairs.
    /// `tag` tells apart those of one process.
    fn new(tag: &str, mtu: u32) -> Self {
        let this = Self {
            prefix: format!("sstest{}{tag}", std::process::id()),
            mtu,
        };
        ip(&format!("netns add {}", this.switch()));
        for host in HOSTS {
            ip(&format!("netns add {}", this.host(host)));
            this.join(host);
        }
        this
    }

    /// Makes the veth pair between a host and the switch.
    fn join(&self, host: u16) {
        let (ns, switch, mtu) = (self.host(host), self.switch(), self.mtu);
        ip(&format!(
            "link add h0 netns {ns} type veth peer name p{host} netns {switch}"
        ));
        ip(&format!("-n {switch} link set p{host} mtu {mtu} up"));
        ip(&format!(
            "-n {ns} link set h0 address 02:00:00:00:00:0{host} mtu {mtu} up"
        ));
        // veth leaves checksums to hardware that is not there.
        run(&format!("ip netns exec {ns} ethtool -K h0 tx off")).unwrap();
        let other = HOSTS[0] + HOSTS[1] - host;
        ip(&format!("-n {ns} addr add 10.70.0.{host}/24 dev h0"));
        ip(&format!(
            "-n {ns} neigh add 10.70.0.{other} lladdr 02:00:00:00:00:0{other} dev h0"
        ));
    }

    fn switch(&self) -> String {
        format!("{}s", self.prefix)
    }

    fn host(&self, host: u16) -> String {
        format!("{}h{host}", self.prefix)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [self.switch(), self.host(1), self.host(2)] {
            let _ = run(&format!("ip netns del {name}"));
        }
    }
}

fn forward(mac: [u8; 6], port: u16, switch: &Switch) {
    let program = switch.program().unwrap();
    let table = program.table_by_name("MyIngress.l2").unwrap();
    let action = program.tables()[table.index()]
        .action_by_name("MyIngress.counted_forward")
        .unwrap();
    let entry = TableEntry {
        key: EntryKey {
            fields: vec![FieldMatch::Exact(Value::from_slice(&mac))],
            priority: 0,
        },
        action: EntryAction::Call(ActionCall {
            action,
            params: vec![Value::from_slice(&port.to_be_bytes())],
        }),
        idle_timeout_ns: 0,
        cookie: 0,
        metadata: Vec::new(),
    };
    let result = switch.apply(Clock::start().now(), &[TableOp::Insert { table, entry }]);
    assert_eq!(result, [Ok(())]);
}

/// One test at a time: they look at what the process uses.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|error| error.into_inner())
}

/// Why the test cannot run here.
fn obstacle() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root");
    }
    if run("ip netns list").is_err() {
        return Some("`ip netns` does not work here");
    }
    run("ethtool --version")
        .is_err()
        .then_some("there is no ethtool")
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
    }
    talk_over_taps(&namespaces, 2);
}

/// The hosts are network stacks at TAP devices: the switch's own namespace has
/// one, and the other is moved to a host's.
fn talk_over_taps(namespaces: &Namespaces, workers: usize) {
    let switch = loaded();
    let specs = HOSTS.map(|port| PortSpec::Tap {
        port,
        interface: format!("t{port}"),
    });
    let plane = within(namespaces.switch(), {
        let switch = Arc::clone(&switch);
        let config = DataPlaneConfig {
            workers,
            ..DataPlaneConfig::default()
        };
        move || DataPlane::start(&switch, Clock::start(), specs.into(), config, None).unwrap()
    });
    let switch_ns = namespaces.switch();
    for host in HOSTS {
        forward([2, 0, 0, 0, 1, host as u8], host, &switch);
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
    }
    let echo = Echo::start(namespaces.host(2));
    let client = within(namespaces.host(1), || UdpSocket::bind("0.0.0.0:0").unwrap());
    client
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    for size in [1, 18, 1000, MTU - 28] {
        assert_eq!(round_trip(&client, size), Ok(()), "{:?}", plane.snapshot());
    }
    for port in plane.snapshot().ports {
        assert!(port.rx_packets >= 4 && port.tx_packets >= 4, "{port:?}");
        assert_eq!(port.tx_dropped, 0, "{port:?}");
    }
    drop(echo);
    plane.stop();
}

/// An interface that is deleted and made again is a port again.
fn goes_and_comes_back(namespaces: &Namespaces, workers: usize) {
    let switch = loaded();
    for host in HOSTS {
        forward([2, 0, 0, 0, 0, host as u8], host, &switch);
    }
    let specs = HOSTS.map(|port| PortSpec::Interface {
        port,
        interface: format!("p{port}"),
    });
    let plane = within(namespaces.switch(), {
        let switch = Arc::clone(&switch);
        let config = DataPlaneConfig {
            workers,
            ..DataPlaneConfig::default()
        };
        move || DataPlane::start(&switch, Clock::start(), specs.into(), config, None).unwrap()
    });
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
    let client = within(namespaces.host(1), || UdpSocket::bind("0.0.0.0:0").unwrap());
    let patience = Some(Duration::from_millis(300));
    client.set_read_timeout(patience).unwrap();
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
    drop(echo);
    plane.stop();
}

/// A switch that runs the test program.
fn loaded() -> Arc<Switch> {
    let switch = Switch::new(SwitchConfig {
        cpu_port: Some(510),
        ..SwitchConfig::default()
    });
    switch.install(Program::load(JSON.as_bytes()).unwrap());
    switch
}

fn talk(namespaces: &Namespaces, workers: usize) {
    let switch = loaded();
    let clock = Clock::start();
    for host in HOSTS {
        forward([2, 0, 0, 0, 0, host as u8], host, &switch);
    }
    let specs = HOSTS.map(|port| PortSpec::Interface {
        port,
        interface: format!("p{port}"),
    });
    let captures = std::env::temp_dir().join(format!("{}-pcap", namespaces.prefix));
    std::fs::create_dir_all(&captures).unwrap();
    let config = DataPlaneConfig {
        workers,
        capture: Some(captures.clone()),
        ..DataPlaneConfig::default()
    };
    let plane = within(namespaces.switch(), {
        let switch = Arc::clone(&switch);
        move || DataPlane::start(&switch, clock, specs.into(), config, None).unwrap()
    });

    let echo = Echo::start(namespaces.host(2));
    let client = within(namespaces.host(1), || UdpSocket::bind("0.0.0.0:0").unwrap());
    client
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    // Smallest, and as large as the MTU allows (IPv4 and UDP headers: 28).
    for size in [1, 18, MTU - 28] {
        let result = round_trip(&client, size);
        assert_eq!(
            result,
            Ok(()),
            "{workers} workers, {size} bytes: {:?}",
            plane.snapshot()
        );
    }
    for i in 0..2000 {
        assert_eq!(round_trip(&client, 1000), Ok(()), "packet {i}");
    }
    tagged_frames(namespaces);

    let stats = plane.snapshot();
    for port in &stats.ports {
        let lost = port.rx_missed + port.rx_truncated + port.tx_dropped;
        assert_eq!(lost, 0, "{port:?}");
        assert!(
            port.rx_packets >= 2006 && port.tx_packets >= 2006,
            "{port:?}"
        );
    }
    let transmitted: u64 = stats.ports.iter().map(|p| p.tx_packets).sum();
    assert_eq!(stats.transmitted, transmitted);
    assert_eq!(stats.no_such_port, 0);

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

/// Runs something in a namespace. Sockets stay in the namespace of the thread
/// that opened them.
fn within<T: Send + 'static>(name: String, work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let namespace = File::open(format!("/var/run/netns/{name}")).unwrap();
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        work()
    });
    thread.join().unwrap()
}

/// A wire end in a host's namespace: frames go out of `h0` as they are given,
/// and come in as they are.
struct Tap {
    port: ChannelPort,
    _plane: DataPlane,
}

impl Tap {
    fn start(namespaces: &Namespaces, host: u16) -> Self {
        let switch = loaded();
        // Frames for the other host go out, those for this one to the tap.
        for to in HOSTS {
            let port = if to == host { 2 } else { 1 };
            forward([2, 0, 0, 0, 0, to as u8], port, &switch);
        }
        let (port, end) = channel_port();
        let specs = vec![
            PortSpec::Interface {
                port: 1,
                interface: "h0".into(),
            },
            PortSpec::Channel { port: 2, end },
        ];
        let plane = within(namespaces.host(host), move || {
            let config = DataPlaneConfig::default();
            DataPlane::start(&switch, Clock::start(), specs, config, None).unwrap()
        });
        Self {
            port,
            _plane: plane,
        }
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if let Some(frame) = self.port.try_receive() {
                return Some(frame);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

/// Tags of every kind, priority bits included, come through unchanged.
fn tagged_frames(namespaces: &Namespaces) {
    let taps = HOSTS.map(|host| Tap::start(namespaces, host));
    let tags: [&[u8]; 6] = [
        &[],
        &[0x81, 0x00, 0x00, 0x64],
        &[0x81, 0x00, 0xef, 0xff], // priority 7, VLAN 4095
        &[0x81, 0x00, 0x00, 0x00], // priority tag
        &[0x88, 0xa8, 0x20, 0xc8],
        &[0x88, 0xa8, 0x00, 0xc8, 0x81, 0x00, 0x01, 0x2c],
    ];
    for (tag, payload) in tags
        .iter()
        .flat_map(|tag| [(tag, 46), (tag, namespaces.mtu as usize)])
    {
        // Packet sockets allow one 802.1Q tag beyond the MTU, no other.
        let allowed = if tag.starts_with(&[0x81]) { 4 } else { 0 };
        let payload = payload - tag.len().saturating_sub(allowed);
        for (from, to) in [(0, 1), (1, 0)] {
            let mut frame = vec![2, 0, 0, 0, 0, HOSTS[to] as u8];
            frame.extend([2, 0, 0, 0, 0, HOSTS[from] as u8]);
            frame.extend(*tag);
            frame.extend([0x88, 0xb5]); // local experimental EtherType
            frame.extend((0..payload).map(|i| (i * 13) as u8));
            taps[from].port.send(frame.clone()).unwrap();
            let received = taps[to].receive();
            assert!(received == Some(frame), "tag {tag:x?}, {payload} bytes");
        }
    }
}

const ECHO_PORT: u16 = 7007;

/// Sends every datagram back.
struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Echo {
    fn start(namespace: String) -> Self {
        let socket = within(namespace, || {
            UdpSocket::bind(("0.0.0.0", ECHO_PORT)).unwrap()
        });
        let pause = Some(Duration::from_millis(100));
        socket.set_read_timeout(pause).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while !stopped.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..length], from);
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn round_trip(client: &UdpSocket, size: u32) -> Result<(), String> {
    let sent: Vec<u8> = (0..size).map(|i| (i * 7 + size) as u8).collect();
    let to = format!("10.70.0.2:{ECHO_PORT}");
    client
        .send_to(&sent, to)
        .map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 1 << 16];
    let length = client
        .recv(&mut buffer)
        .map_err(|error| error.to_string())?;
    if buffer[..length] == sent {
        Ok(())
    } else {
        Err(format!("{length} other bytes came back"))
    }
}

/// The whole process uses next to no processor time while nothing arrives.
fn idle_costs_nothing(workers: usize) {
    // proc(5): utime and stime, fields 14 and 15, in ticks of 10 ms; field 2
    // ends with the last parenthesis.
    let used = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let rest = stat.rsplit_once(')').unwrap().1;
        let fields: Vec<_> = rest.split_whitespace().collect();
        let ticks = |i: usize| fields[i].parse::<u64>().unwrap();
        ticks(11) + ticks(12)
    };
    std::thread::sleep(Duration::from_millis(100));
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    let ticks = used() - before;
    assert!(ticks <= 3, "{workers} workers: {ticks} ticks in a second");
}
