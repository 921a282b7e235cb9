//! What the hosts say to each other.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use softswitch::ports::{
    ChannelPort, Clock, DataPlane, DataPlaneConfig, DataPlaneSnapshot, PortSpec, channel_port,
};

use crate::HOSTS;
use crate::namespaces::{Namespaces, within};
use crate::switch::{forward, loaded};

const ECHO_PORT: u16 = 7007;

/// Sends every datagram back.
pub(crate) struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Echo {
    pub(crate) fn start(namespace: String) -> Self {
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

/// One datagram to the echo and back.
pub(crate) fn round_trip(client: &UdpSocket, size: u32) -> Result<(), String> {
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

/// A socket of host 1 that waits so long for an answer.
pub(crate) fn client(namespaces: &Namespaces, patience: Duration) -> UdpSocket {
    let client = within(namespaces.host(1), || UdpSocket::bind("0.0.0.0:0").unwrap());
    client.set_read_timeout(Some(patience)).unwrap();
    client
}

/// Datagrams of all sizes and frames with tags, none of which is lost.
pub(crate) fn everything_arrives(namespaces: &Namespaces, client: &UdpSocket, plane: &DataPlane) {
    // Smallest, and as large as the MTU allows (IPv4 and UDP headers: 28).
    for size in [1, 18, namespaces.mtu - 28] {
        assert_eq!(round_trip(client, size), Ok(()), "{:?}", plane.snapshot());
    }
    for i in 0..2000 {
        assert_eq!(round_trip(client, 1000), Ok(()), "packet {i}");
    }
    tagged_frames(namespaces);
    let stats = settled(plane);
    for port in &stats.ports {
        let lost = port.rx_missed + port.rx_truncated + port.tx_dropped;
        assert_eq!(lost, 0, "{port:?}");
        // 2003 datagrams and 12 frames each way, and what the hosts say.
        assert!(
            port.rx_packets >= 2015 && port.tx_packets >= 2015,
            "{port:?}"
        );
        assert!(port.tx_bytes > 2000 * 1042, "{port:?}");
    }
    assert_eq!(stats.no_such_port, 0);
}

/// The counters when those of the ports and of the switch agree, which they do
/// not while a burst is under way.
fn settled(plane: &DataPlane) -> DataPlaneSnapshot {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let stats = plane.snapshot();
        let received: u64 = stats.ports.iter().map(|p| p.rx_packets).sum();
        let transmitted: u64 = stats.ports.iter().map(|p| p.tx_packets).sum();
        if (stats.received, stats.transmitted) == (received, transmitted) {
            return stats;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Numbered datagrams from host 1 to host 2, some 20,000 a second.
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    sender: Option<std::thread::JoinHandle<u32>>,
    receiver: Option<std::thread::JoinHandle<Vec<u32>>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    pub(crate) fn start(namespaces: &Namespaces) -> Self {
        let to = within(namespaces.host(2), || {
            UdpSocket::bind(("10.70.0.2", 0)).unwrap()
        });
        let from = within(namespaces.host(1), || UdpSocket::bind("0.0.0.0:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sender = std::thread::spawn(move || {
            let mut number = 0_u32;
            while !stopped.load(Ordering::Relaxed) {
                for _ in 0..8 {
                    from.send(&number.to_be_bytes()).unwrap();
                    number += 1;
                }
                std::thread::sleep(Duration::from_micros(300));
            }
            number
        });
        let receiver = std::thread::spawn(move || {
            let (mut numbers, mut buffer) = (Vec::new(), [0; 4]);
            while let Ok(length) = to.recv(&mut buffer) {
                assert_eq!(length, 4);
                numbers.push(u32::from_be_bytes(buffer));
            }
            numbers
        });
        Self {
            stop,
            sender: Some(sender),
            receiver: Some(receiver),
        }
    }

    /// How many were sent, and those that arrived.
    pub(crate) fn stop(mut self) -> (u32, Vec<u32>) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.take().unwrap().join().unwrap();
        (sent, self.receiver.take().unwrap().join().unwrap())
    }
}

/// A wire end in a host's namespace: frames go out of `h0` as they are given,
/// and come in as they are.
pub(crate) struct Tap {
    pub(crate) port: ChannelPort,
    _plane: DataPlane,
}

impl Tap {
    pub(crate) fn start(namespaces: &Namespaces, host: u16) -> Self {
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
