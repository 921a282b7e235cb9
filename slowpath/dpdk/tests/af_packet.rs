//! The AF_PACKET driver on a pair of virtual interfaces, in a network namespace
//! made for the test. Needs root, `ip` and `ethtool`; prints SKIPPED otherwise.
//!
//! The driver opens its sockets in the namespace of the process, so the test
//! runs itself again inside (`ip netns exec`).

// Helpers of a test may panic as the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    net::UdpSocket,
    process::Command,
    time::{Duration, Instant},
};

use dpdk::{
    Burst, Eal, EalArgs, Error, Mempool, PoolConfig, PortConfig, PortStats, Started, Wake,
    af_packet::VdevArgs,
};

const INSIDE: &str = "SLUICE_TEST_INSIDE_NETNS";
/// Of both interfaces; a frame of 1614 bytes without VLAN tag.
const MTU: u16 = 1600;

#[test]
fn af_packet() {
    if std::env::var_os(INSIDE).is_some() {
        inside();
        return;
    }
    if let Some(reason) = missing() {
        println!("SKIPPED af_packet: {reason}");
        return;
    }
    let namespace = Namespace::create();
    let status = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "af_packet", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "the test inside the namespace failed");
}

fn missing() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if id.stdout.trim_ascii() != b"0" {
        return Some("not root");
    }
    for (tool, argument) in [("ip", "-V"), ("ethtool", "--version")] {
        if Command::new(tool).arg(argument).output().is_err() {
            return Some("ip (Debian iproute2) or ethtool is not installed");
        }
    }
    None
}

/// Interfaces `left` and `right`, joined, in a namespace of its own; gone when
/// dropped.
struct Namespace(String);

impl Namespace {
    fn create() -> Self {
        let name = format!("sluice-dpdk-{}", std::process::id());
        run(&["ip", "netns", "add", &name]);
        let namespace = Self(name);
        // Without IPv6 the kernel sends nothing of its own.
        let disable = "f=/proc/sys/net/ipv6/conf/default/disable_ipv6; ! test -e $f || echo 1 >$f";
        namespace.run(&["sh", "-c", disable]);
        namespace.run(&[
            "ip", "link", "add", "left", "type", "veth", "peer", "name", "right",
        ]);
        for interface in ["left", "right"] {
            namespace.run(&["ip", "link", "set", interface, "mtu", &MTU.to_string()]);
            let mut ethtool = vec!["ethtool", "-K", interface];
            for feature in ["tx", "tso", "gso", "gro"] {
                ethtool.extend([feature, "off"]);
            }
            namespace.run(&ethtool);
            namespace.run(&["ip", "link", "set", interface, "up"]);
        }
        namespace.run(&["ip", "addr", "add", "192.0.2.1/24", "dev", "left"]);
        namespace
    }

    fn run(&self, command: &[&str]) {
        let mut whole = vec!["ip", "netns", "exec", &self.0];
        whole.extend(command);
        run(&whole);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn run(command: &[&str]) {
    let output = Command::new(command[0])
        .args(&command[1..])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn inside() {
    let left = VdevArgs::new(0, "left").mtu(MTU);
    let right = VdevArgs::new(1, "right").queues(2).mtu(MTU);
    assert_eq!(left.name(), "net_af_packet0");
    let args = EalArgs::without_huge_pages(128)
        .vdev(left.to_string())
        .vdev(right.to_string());
    let eal = Eal::init(&args).unwrap();
    let pool = Mempool::create(
        eal,
        "packets",
        PoolConfig {
            count: 8191,
            cache: 0,
            // Room for a frame that the driver refuses to send.
            data_room: left.data_room().unwrap() + 64,
        },
    )
    .unwrap();

    refusals(eal, &pool);
    let config = PortConfig {
        mtu: MTU,
        ..PortConfig::default()
    };
    // Sent before the ports start, so not received.
    kernel_sends(1);
    let mut left = eal
        .port("net_af_packet0")
        .unwrap()
        .start(&config, &[pool])
        .unwrap();
    let both = PortConfig {
        rx_queues: 2,
        ..config
    };
    let mut right = eal
        .port("net_af_packet1")
        .unwrap()
        .start(&both, &[pool])
        .unwrap();
    assert_eq!(right.port.mtu().unwrap(), u32::from(MTU));
    assert_eq!(left.port.info().max_frame, 2048 - 66);

    frames_pass_whole(&pool, &mut left, &mut right);
    too_long_frames_are_lost_or_cut(&pool, &mut left, &mut right);
    flows_stay_on_their_queue(&pool, &mut left, &mut right);
    fragments_arrive_reassembled(&pool, &mut left, &mut right);
    what_the_host_sends_is_left_out(&mut left, &mut right);
    waiting(&pool, &mut left, &mut right);
    full_rings_are_counted(&pool, &mut left, &mut right);

    drop((left, right));
    assert_eq!(pool.in_use(), 0, "every buffer came back");
    assert_eq!(eal.port_names(), Vec::<String>::new());
}

fn refusals(eal: Eal, pool: &Mempool) {
    let take = || eal.port("net_af_packet0").unwrap();
    let mtu = |mtu| PortConfig {
        mtu,
        ..PortConfig::default()
    };
    let Err(Error::InterfaceMtu {
        interface,
        actual,
        wanted,
        ..
    }) = take().start(&mtu(1700), &[*pool])
    else {
        panic!("the interface has 1600");
    };
    assert_eq!((interface.as_str(), actual, wanted), ("left", 1600, 1700));

    let Err(Error::FrameTooLarge {
        needed,
        limit,
        remedy,
        ..
    }) = take().start(&mtu(1961), &[*pool])
    else {
        panic!("the ring frame has 2048 bytes");
    };
    assert_eq!((needed, limit), (1983, 1982));
    assert!(remedy.contains("framesz=4096,blocksz=4096"), "{remedy}");

    let config = PoolConfig {
        count: 63,
        cache: 0,
        data_room: 2016 + 127,
    };
    let tight = Mempool::create(eal, "tight", config).unwrap();
    let Err(Error::BufferTooSmall {
        needed, available, ..
    }) = take().start(&mtu(1500), &[tight])
    else {
        panic!("the driver needs a byte more");
    };
    assert_eq!((needed, available), (2144, 2143));

    let many = PortConfig {
        rx_queues: 2,
        ..PortConfig::default()
    };
    assert!(matches!(
        take().start(&many, &[*pool]),
        Err(Error::TooManyQueues { available: 1, .. })
    ));
}

/// An Ethernet frame of a length with a pattern, a type and perhaps a VLAN tag
/// (type and identifier).
fn frame(length: usize, tag: Option<(u16, u16)>) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if let Some((kind, identifier)) = tag {
        frame.extend(kind.to_be_bytes());
        frame.extend(identifier.to_be_bytes());
    }
    // An experimental type that the kernel ignores.
    frame.extend([0x88, 0xb5]);
    let pattern = (0_u8..=250).cycle();
    let rest = length - frame.len();
    frame.extend(pattern.take(rest));
    frame
}

fn send(pool: &Mempool, from: &mut Started, frames: &[Vec<u8>]) {
    for chunk in frames.chunks(32) {
        let mut burst: Burst = Burst::new();
        for bytes in chunk {
            burst.push(pool.alloc_with(bytes).unwrap()).unwrap();
        }
        assert_eq!(from.tx[0].tx_burst(&mut burst), chunk.len());
    }
}

/// Everything that arrives, by queue, until nothing has come for a while.
fn receive(to: &mut Started) -> Vec<Vec<Vec<u8>>> {
    let mut got = vec![Vec::new(); to.rx.len()];
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(100) {
        for (queue, got) in to.rx.iter_mut().zip(&mut got) {
            let mut burst: Burst = Burst::new();
            if queue.rx_burst(&mut burst) > 0 {
                last = Instant::now();
            }
            got.extend(burst.drain().map(|mbuf| mbuf.data().to_vec()));
        }
    }
    got
}

fn frames_pass_whole(pool: &Mempool, left: &mut Started, right: &mut Started) {
    let frames = [
        frame(60, None),
        frame(1514, None),
        // The largest 802.1Q frame of a standard MTU.
        frame(1518, Some((0x8100, 0x6123))),
        frame(1600, None),
        frame(1614, None),
        frame(1618, Some((0x8100, 42))),
    ];
    for (one, expected) in frames.iter().enumerate() {
        send(pool, left, &frames[one..=one]);
        let got = receive(right).concat();
        assert_eq!(got.len(), 1, "frame {one}");
        assert!(
            got[0] == *expected,
            "frame {one} of {} bytes",
            expected.len()
        );
    }
    send(pool, right, &frames);
    let got = receive(left).concat();
    assert!(got == frames, "the other way, in order");

    // Two tags: the outer one comes back as 802.1Q whatever it was.
    let mut double = frame(1000, Some((0x88a8, 7)));
    double[16..20].copy_from_slice(&[0x81, 0x00, 0x00, 0x05]);
    send(pool, left, &[double.clone()]);
    double[12..14].copy_from_slice(&[0x81, 0x00]);
    assert!(receive(right).concat() == [double]);

    let (sent, received) = (stats(left), stats(right));
    assert_eq!((sent.tx_packets, received.rx_packets), (7, 7));
    assert_eq!((sent.tx_errors, received.rx_missed), (0, 0));
    let bytes: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
    assert_eq!(
        (sent.tx_bytes, received.rx_bytes),
        (bytes + 1000, bytes + 1000)
    );
    assert_eq!(sent.rx_before_start, 1, "sent by the kernel on this side");
    assert_eq!(received.rx_before_start, 1, "and received on that");
}

fn stats(started: &Started) -> PortStats {
    started.port.stats().unwrap()
}

fn too_long_frames_are_lost_or_cut(pool: &Mempool, left: &mut Started, right: &mut Started) {
    let before = stats(left);
    // Longer than the interface's MTU: the kernel leaves it out.
    send(pool, left, &[frame(1619, None)]);
    assert_eq!(receive(right).concat().len(), 0);
    assert_eq!(
        stats(left).tx_errors,
        before.tx_errors,
        "and nobody counts it"
    );
    // Longer than the ring frame: the driver drops and counts.
    send(pool, left, &[frame(2017, None)]);
    assert_eq!(receive(right).concat().len(), 0);
    assert_eq!(stats(left).tx_errors, before.tx_errors + 1);
    // Fits to be sent, and is longer than what can be received: cut in silence.
    for interface in ["left", "right"] {
        run(&["ip", "link", "set", interface, "mtu", "4000"]);
    }
    let long = frame(2016, None);
    send(pool, left, std::slice::from_ref(&long));
    assert!(receive(right).concat() == [&long[..1982]]);
}

/// The kernel puts fragments together before the port sees them.
fn fragments_arrive_reassembled(pool: &Mempool, left: &mut Started, right: &mut Started) {
    let whole = udp_frame(0xc000);
    let fragment = |flags_and_offset: u16, payload: &[u8]| {
        let mut frame = whole[..34].to_vec();
        frame[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&flags_and_offset.to_be_bytes());
        set_checksum(&mut frame);
        frame.extend(payload);
        frame.resize(60, 0);
        frame
    };
    let first = fragment(0x2000, &whole[34..50]);
    let second = fragment(0x0002, &whole[50..]);
    send(pool, left, &[first]);
    assert_eq!(receive(right).concat().len(), 0);
    send(pool, left, &[second]);
    let got = receive(right).concat();
    assert_eq!(got.len(), 1);
    assert!(
        got[0][34..] == whole[34..],
        "the payload of the whole packet"
    );
}

/// A VXLAN-like packet: outer IPv4 and UDP with a source port.
fn udp_frame(source_port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 46, 0, 9, 0, 0, 64, 17, 0, 0]);
    frame.extend([198, 51, 100, 1, 198, 51, 100, 2]);
    set_checksum(&mut frame);
    frame.extend(source_port.to_be_bytes());
    frame.extend(4789_u16.to_be_bytes());
    frame.extend([0, 26, 0, 0]);
    frame.extend([0; 18]);
    frame
}

/// The IPv4 header checksum (RFC 1071) of a frame without options or tags.
fn set_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let mut sum: u32 = frame[14..34]
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn flows_stay_on_their_queue(pool: &Mempool, left: &mut Started, right: &mut Started) {
    let flows: Vec<Vec<u8>> = (0..64).map(|n| udp_frame(0xc000 + n)).collect();
    send(pool, left, &flows);
    let first = receive(right);
    assert_eq!(first[0].len() + first[1].len(), 64);
    assert!(first[0].len() > 8 && first[1].len() > 8, "{first:?}");
    send(pool, left, &flows);
    assert!(receive(right) == first, "the same flows on the same queues");
}

fn kernel_sends(count: usize) {
    let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
    // To everyone, so that no ARP goes before it.
    socket.set_broadcast(true).unwrap();
    for _ in 0..count {
        socket.send_to(b"from the kernel", "192.0.2.255:9").unwrap();
    }
}

fn what_the_host_sends_is_left_out(left: &mut Started, right: &mut Started) {
    kernel_sends(5);
    let got = receive(right).concat();
    assert_eq!(got.len(), 5, "the other side receives it");
    assert!(got[0].ends_with(b"from the kernel"));
    assert_eq!(receive(left).concat().len(), 0, "this side does not");
}

fn waiting(pool: &Mempool, left: &mut Started, right: &mut Started) {
    let rx = &mut left.rx[0];
    let start = Instant::now();
    assert_eq!(
        rx.wait(Duration::from_millis(20), None, || true),
        Wake::Timeout
    );
    assert!(start.elapsed() >= Duration::from_millis(20));
    let long = Duration::from_secs(20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            send(pool, right, &[frame(60, None)]);
        });
        assert_eq!(rx.wait(long, None, || true), Wake::Work);
    });
    assert!(start.elapsed() < long, "the packet woke the sleeper");
    assert_eq!(receive(left).concat().len(), 1);

    // Each queue sleeps on its own socket.
    let flows: Vec<Vec<u8>> = (0..64).map(|n| udp_frame(0xc000 + n)).collect();
    send(pool, left, &flows);
    let by_queue = receive(right);
    for busy in 0..2 {
        send(pool, left, &by_queue[busy][..1]);
        let short = Duration::from_millis(20);
        let woken: Vec<Wake> = right
            .rx
            .iter_mut()
            .map(|rx| rx.wait(short, None, || true))
            .collect();
        assert_eq!(woken[busy], Wake::Work);
        assert_eq!(woken[1 - busy], Wake::Timeout);
        assert_eq!(receive(right).concat().len(), 1);
    }
}

fn full_rings_are_counted(pool: &Mempool, left: &mut Started, right: &mut Started) {
    let before = stats(right);
    // Two rings of 512 frames; nobody reads them meanwhile.
    let flood: Vec<Vec<u8>> = (0..3000_u16).map(udp_frame).collect();
    send(pool, left, &flood);
    let got = receive(right).concat().len() as u64;
    let after = stats(right);
    assert!(got >= 512, "{got}");
    assert_eq!(after.rx_packets - before.rx_packets, got);
    assert_eq!(
        after.rx_missed - before.rx_missed,
        3000 - got,
        "no silent drop"
    );
    assert_eq!(
        stats(right).rx_missed,
        after.rx_missed,
        "reading changes nothing"
    );
}
