//! Ports of the `net_null` and `net_ring` drivers, in one process.

// Helpers of a test may panic as the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use dpdk::{
    Burst, Eal, EalArgs, Error, Mempool, PoolConfig, PortConfig, Started, UdpSourceMatch, Wake,
    Waker, ring,
};

const STEER: UdpSourceMatch = UdpSourceMatch {
    port: 0x8000,
    mask: 0xc000,
    destination: Some(4789),
};

#[test]
fn ports() {
    let args = EalArgs::without_huge_pages(64)
        .vdev("net_null0,size=100")
        .vdev("net_ring0");
    let before = dpdk::thread::Affinity::current().unwrap().cpus();
    let eal = Eal::init(&args).unwrap();
    assert_eq!(
        dpdk::thread::Affinity::current().unwrap().cpus(),
        before,
        "the EAL does not bind the thread for good"
    );
    let config = PoolConfig {
        count: 1023,
        cache: 0,
        ..PoolConfig::default()
    };
    let pool = Mempool::create(eal, "packets", config).unwrap();
    assert_eq!(eal.port_names(), ["net_null0", "net_ring0"]);

    refusals(eal, &pool);
    null(eal, &pool);
    ring_loop(eal, &pool);
    ring_port(eal, &pool);
    assert_eq!(pool.in_use(), 0, "every buffer came back");
    assert_eq!(eal.port_names(), Vec::<String>::new(), "all ports closed");
}

fn refusals(eal: Eal, pool: &Mempool) {
    let Err(Error::NoSuchPort { name, present }) = eal.port("net_null7") else {
        panic!("there is no such port");
    };
    assert_eq!(name, "net_null7");
    assert_eq!(present, ["net_null0", "net_ring0"]);

    let port = eal.port("net_ring0").unwrap();
    assert!(matches!(
        eal.port("net_ring0"),
        Err(Error::PortInUse { .. })
    ));
    let many = PortConfig {
        tx_queues: 17,
        ..PortConfig::default()
    };
    let Err(Error::TooManyQueues {
        direction,
        wanted,
        available,
        ..
    }) = port.start(&many, &[*pool])
    else {
        panic!("net_ring0 has 16 queues");
    };
    assert_eq!((direction, wanted, available), ("transmit", 17, 16));

    let jumbo = PortConfig {
        mtu: 9000,
        ..PortConfig::default()
    };
    let Err(Error::BufferTooSmall {
        needed, available, ..
    }) = eal.port("net_ring0").unwrap().start(&jumbo, &[*pool])
    else {
        panic!("9000 bytes do not fit into 2048");
    };
    assert_eq!((needed, available), (9000 + 14 + 8 + 128, 2048 + 128));
    let without = eal.port("net_ring0").unwrap();
    assert!(matches!(
        without.start(&PortConfig::default(), &[]),
        Err(Error::BufferTooSmall { available: 0, .. })
    ));
}

fn null(eal: Eal, pool: &Mempool) {
    let port = eal.port("net_null0").unwrap();
    assert_eq!(port.info().driver, "net_null");
    assert_eq!(port.info().device_arguments, "size=100");
    let Started {
        port,
        mut rx,
        mut tx,
    } = port.start(&PortConfig::default(), &[*pool]).unwrap();
    let mut burst: Burst = Burst::new();
    assert_eq!(rx[0].rx_burst(&mut burst), 32);
    assert_eq!(rx[0].rx_burst(&mut burst), 0, "the burst is full");
    assert_eq!(pool.in_use(), 32);
    for mbuf in burst.iter() {
        assert_eq!((mbuf.len(), mbuf.port()), (100, port.id()));
    }
    assert_eq!(tx[0].tx_burst(&mut burst), 32);
    assert!(burst.is_empty());
    assert_eq!(pool.in_use(), 0);
    let stats = port.stats().unwrap();
    assert_eq!((stats.rx_packets, stats.tx_packets), (32, 32));
    assert_eq!((stats.rx_missed, stats.tx_errors), (0, 0));
    assert!(port.link().unwrap().up);
    assert_eq!(port.mtu().unwrap(), 1500);
    assert!(matches!(
        port.check_flow(STEER, 0),
        Err(Error::NotSupported { .. })
    ));
    let error = port.add_flow(STEER, 0).unwrap_err().to_string();
    assert_eq!(
        error,
        "port net_null0: its driver net_null does not support steering by the outer UDP source \
         port"
    );
    // The queues alone keep the port open.
    drop(port);
    assert_eq!(rx[0].rx_burst(&mut burst), 32);
    drop(rx);
    drop(tx);
    assert!(matches!(
        eal.port("net_null0"),
        Err(Error::NoSuchPort { .. })
    ));
}

/// What goes out of `net_ring0` comes in again.
fn ring_loop(eal: Eal, pool: &Mempool) {
    let mut started = eal
        .port("net_ring0")
        .unwrap()
        .start(&PortConfig::default(), &[*pool])
        .unwrap();
    let (rx, tx) = (&mut started.rx[0], &mut started.tx[0]);
    let mut burst: Burst = Burst::new();
    assert_eq!(rx.rx_burst(&mut burst), 0);
    for mark in 0..20 {
        burst.push(pool.alloc_with(&[mark; 60]).unwrap()).unwrap();
    }
    assert_eq!(tx.tx_burst(&mut burst), 20);
    assert_eq!(rx.rx_burst(&mut burst), 20);
    for (mark, mbuf) in (0..20).zip(burst.iter()) {
        assert_eq!(mbuf.data(), [mark; 60]);
    }
    burst.clear();
    let extended = started.port.extended_stats().unwrap();
    let value = |name: &str| {
        extended
            .iter()
            .find(|stat| stat.name == name)
            .unwrap()
            .value
    };
    assert_eq!(value("rx_good_packets"), 20);
    assert_eq!(value("tx_good_packets"), 20);
    assert_eq!(value("rx_missed_errors"), 0);
}

/// A port whose other side the test holds: full rings, queues, sleeping.
fn ring_port(eal: Eal, pool: &Mempool) {
    let mut made = ring::port(eal, "test", 2, 40).unwrap();
    assert_eq!(made.port.info().name, "net_ring_test");
    let config = PortConfig {
        rx_queues: 2,
        tx_queues: 2,
        ..PortConfig::default()
    };
    let mut started = made.port.start(&config, &[*pool]).unwrap();

    made.to_rx[1]
        .push(pool.alloc_with(b"one").unwrap())
        .unwrap();
    let mut burst: Burst = Burst::new();
    assert_eq!(started.rx[0].rx_burst(&mut burst), 0);
    assert_eq!(started.rx[1].rx_burst(&mut burst), 1);
    assert_eq!(burst[0].data(), b"one");

    // 65 packets do not fit into a ring of 40: the unsent stay, in order.
    let mut many: Burst<64> = Burst::new();
    for mark in 0..64 {
        many.push(pool.alloc_with(&[mark]).unwrap()).unwrap();
    }
    assert_eq!(started.tx[0].tx_burst(&mut burst), 1);
    assert_eq!(started.tx[0].tx_burst(&mut many), 39);
    assert_eq!(many.len(), 25);
    assert_eq!(many[0].data(), [39]);
    assert_eq!(started.tx[0].tx_burst(&mut many), 0);
    assert_eq!(made.from_tx[0].dequeue(&mut burst), 32);
    assert_eq!(burst[0].data(), b"one");
    assert_eq!(burst[1].data(), [0]);
    assert_eq!(started.tx[0].tx_burst(&mut many), 25);
    burst.clear();
    assert_eq!(made.from_tx[0].dequeue(&mut burst), 32);
    burst.clear();
    assert_eq!(made.from_tx[0].dequeue(&mut burst), 1);
    assert_eq!(burst[0].data(), [63]);
    assert_eq!(made.from_tx[1].len(), 0);

    sleeping(&mut started);
}

fn sleeping(started: &mut Started) {
    let rx = &mut started.rx[0];
    let long = Duration::from_secs(20);
    let start = Instant::now();
    assert_eq!(
        rx.wait(Duration::from_millis(30), None, || true),
        Wake::Timeout
    );
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(
        rx.wait(long, None, || false),
        Wake::Work,
        "not idle after all"
    );

    let waker = Waker::new().unwrap();
    // Waking nobody leaves nothing behind.
    waker.wake();
    assert_eq!(
        rx.wait(Duration::from_millis(10), Some(&waker), || true),
        Wake::Timeout
    );
    // A wake between the last look and the sleep is not lost.
    let early = waker.clone();
    assert_eq!(
        rx.wait(long, Some(&waker), || {
            early.wake();
            true
        }),
        Wake::Work
    );
    let other = waker.clone();
    let sleeper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        other.wake();
    });
    assert_eq!(rx.wait(long, Some(&waker), || true), Wake::Work);
    sleeper.join().unwrap();
    assert!(start.elapsed() < long);
}
