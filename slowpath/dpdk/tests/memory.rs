//! Packet buffers, bursts, rings, threads and the clock, in one process with
//! one EAL and no port.

// Helpers of a test may panic as the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use dpdk::{Burst, Eal, EalArgs, Error, HEADROOM, Mempool, PoolConfig, Tsc, ring, thread};

#[test]
fn memory() {
    let eal = Eal::init(&EalArgs::without_huge_pages(64)).unwrap();
    assert!(matches!(
        Eal::init(&EalArgs::new()),
        Err(Error::EalAlreadyInitialised)
    ));
    assert!(dpdk::version().starts_with("DPDK 2"), "{}", dpdk::version());

    let config = PoolConfig {
        count: 127,
        cache: 0,
        data_room: 512 + HEADROOM,
    };
    let pool = Mempool::create(eal, "small", config).unwrap();
    pool_errors(eal, config);
    balance(&pool);
    boundaries(&pool);
    bursts(&pool);
    rings(eal, &pool);
    threads(eal, &pool);
    clock(eal);
    assert_eq!(pool.in_use(), 0, "every buffer came back");
    assert_eq!(pool.available(), 127);
}

fn pool_errors(eal: Eal, config: PoolConfig) {
    let Err(Error::PoolCreate { errno, name, .. }) = Mempool::create(eal, "small", config) else {
        panic!("a name is good for one pool");
    };
    assert_eq!((errno.code(), name.as_str()), (libc::EEXIST, "small"));
    let Err(Error::PoolCreate { errno, .. }) = Mempool::create(
        eal,
        "huge",
        PoolConfig {
            count: 1 << 20,
            ..config
        },
    ) else {
        panic!("64 MiB do not hold a million buffers");
    };
    assert_eq!(errno.code(), libc::ENOMEM);
    assert!(matches!(
        Mempool::create(eal, "nul\0", config),
        Err(Error::NulByte { .. })
    ));
}

fn balance(pool: &Mempool) {
    let mut taken = Vec::new();
    while let Ok(mbuf) = pool.alloc() {
        taken.push(mbuf);
    }
    assert_eq!(taken.len(), 127);
    assert_eq!((pool.available(), pool.in_use()), (0, 127));
    assert!(matches!(
        pool.alloc_with(b"x"),
        Err(Error::PoolExhausted { wanted: 1 })
    ));
    taken.truncate(100);
    assert_eq!((pool.available(), pool.in_use()), (27, 100));
    let mut burst: Burst<32> = Burst::new();
    assert!(matches!(
        pool.alloc_bulk(&mut burst, 28),
        Err(Error::PoolExhausted { wanted: 28 })
    ));
    assert_eq!(pool.available(), 27, "all or none");
    pool.alloc_bulk(&mut burst, 27).unwrap();
    assert_eq!((burst.len(), pool.available()), (27, 0));
    drop(burst);
    drop(taken);
    assert_eq!(pool.in_use(), 0);
}

fn boundaries(pool: &Mempool) {
    let mut mbuf = pool.alloc_with(&[1, 2, 3, 4]).unwrap();
    assert_eq!(mbuf.data(), [1, 2, 3, 4]);
    assert_eq!((mbuf.segments(), mbuf.headroom()), (1, HEADROOM));
    assert_eq!(mbuf.tailroom(), 508);

    assert!(mbuf.prepend(HEADROOM + 1).is_none());
    assert_eq!((mbuf.len(), mbuf.packet_len()), (4, 4));
    mbuf.prepend(HEADROOM).unwrap().fill(9);
    assert_eq!(mbuf.headroom(), 0);
    assert!(mbuf.prepend(1).is_none());
    assert_eq!(mbuf.len(), 4 + usize::from(HEADROOM));
    assert_eq!(mbuf.data()[usize::from(HEADROOM) - 1..][..2], [9, 1]);

    assert!(mbuf.append(509).is_none());
    mbuf.append(508).unwrap().fill(7);
    assert_eq!(mbuf.tailroom(), 0);
    assert!(mbuf.append(1).is_none());
    assert_eq!(mbuf.packet_len(), 512 + u32::from(HEADROOM));

    mbuf.adj(HEADROOM).unwrap();
    assert_eq!(mbuf.data()[..5], [1, 2, 3, 4, 7]);
    mbuf.trim(507).unwrap();
    assert_eq!(mbuf.data(), [1, 2, 3, 4, 7]);
    assert!(mbuf.adj(6).is_none());
    assert!(mbuf.trim(6).is_none());
    mbuf.data_mut()[0] = 0xff;
    assert_eq!(mbuf.data(), [0xff, 2, 3, 4, 7]);
    mbuf.adj(5).unwrap();
    assert!(mbuf.is_empty());
    assert_eq!(mbuf.packet_len(), 0);

    assert!(pool.alloc_with(&[0; 512]).is_ok());
    let Err(Error::FrameTooLong { length, room }) = pool.alloc_with(&[0; 513]) else {
        panic!("513 bytes do not fit into 512");
    };
    assert_eq!((length, room), (513, 512));
    assert_eq!(pool.in_use(), 1, "the refused buffer went back");
}

fn marked(pool: &Mempool, marks: std::ops::Range<u8>) -> Burst<32> {
    let mut burst = Burst::new();
    for mark in marks {
        burst.push(pool.alloc_with(&[mark]).unwrap()).unwrap();
    }
    burst
}

fn marks<const N: usize>(burst: &Burst<N>) -> Vec<u8> {
    burst.iter().map(|mbuf| mbuf.data()[0]).collect()
}

fn bursts(pool: &Mempool) {
    let mut burst = marked(pool, 0..32);
    assert!(burst.is_full());
    let refused = burst.push(pool.alloc_with(&[99]).unwrap()).unwrap_err();
    assert_eq!(refused.data(), [99]);
    drop(refused);
    assert_eq!(burst.pop().unwrap().data(), [31]);
    assert_eq!(marks(&burst), (0..31).collect::<Vec<_>>());
    let first: Vec<u8> = burst.drain().take(3).map(|mbuf| mbuf.data()[0]).collect();
    assert_eq!(first, [0, 1, 2]);
    assert!(burst.is_empty());
    assert_eq!(pool.in_use(), 0, "a drain frees what it did not yield");
    assert!(burst.pop().is_none());
}

fn rings(eal: Eal, pool: &Mempool) {
    let (mut into, mut out) = ring::create(eal, "redirect", 40).unwrap();
    assert!(matches!(
        ring::create(eal, "redirect", 40),
        Err(Error::RingCreate { .. })
    ));
    assert!(ring::create(eal, "none", 0).is_err());
    assert_eq!((into.capacity(), out.capacity()), (40, 40));

    let mut burst = marked(pool, 0..32);
    assert_eq!(into.enqueue(&mut burst), 32);
    assert!(burst.is_empty());
    let mut burst = marked(pool, 32..64);
    assert_eq!(into.enqueue(&mut burst), 8, "room for eight");
    assert_eq!(marks(&burst), (40..64).collect::<Vec<_>>());
    assert_eq!(into.push(burst.pop().unwrap()).unwrap_err().data(), [63]);
    assert_eq!(out.len(), 40);

    let mut got: Burst<32> = Burst::new();
    assert_eq!(out.dequeue(&mut got), 32);
    assert_eq!(marks(&got), (0..32).collect::<Vec<_>>());
    assert_eq!(out.dequeue(&mut got), 0, "no room in the burst");
    got.clear();
    assert_eq!(into.enqueue(&mut burst), 23);
    assert_eq!(out.dequeue(&mut got), 31);
    assert_eq!(marks(&got), (32..63).collect::<Vec<_>>());
    assert!(out.is_empty() && into.is_empty());

    into.push(got.pop().unwrap()).unwrap();
    drop(got);
    assert_eq!(pool.in_use(), 1);
    drop(into);
    drop(out);
    assert_eq!(pool.in_use(), 0, "a ring gives back what is in it");
    ring::create(eal, "redirect", 40).expect("the name is free again");
}

fn threads(eal: Eal, pool: &Mempool) {
    let pool = *pool;
    let mbuf = pool.alloc_with(b"from afar").unwrap();
    let cpu = thread::Affinity::current().unwrap().cpus()[0];
    let worker = thread::spawn(eal, "worker", Some(cpu), move |registered| {
        let lcore = registered.unwrap().lcore();
        assert!(thread::Registered::register(eal).is_err(), "only once");
        assert_eq!(thread::Affinity::current().unwrap().cpus(), [cpu]);
        assert_eq!(std::thread::current().name(), Some("worker"));
        assert_eq!(mbuf.data(), b"from afar");
        lcore
    })
    .unwrap();
    let lcore = worker.join().unwrap();
    assert!(lcore < 128, "{lcore}");

    let worker = thread::spawn(eal, "nowhere", Some(1023), |registered| {
        matches!(registered, Err(Error::ThreadSpawn { .. }))
    })
    .unwrap();
    assert!(worker.join().unwrap(), "there is no processor 1023");
}

fn clock(eal: Eal) {
    let tsc = Tsc::new(eal);
    let (start, at) = (tsc.now(), Instant::now());
    std::thread::sleep(Duration::from_millis(50));
    let (ticks, time) = (tsc.now() - start, at.elapsed());
    let measured = tsc.nanoseconds(ticks) as f64 / time.as_nanos() as f64;
    assert!((0.9..1.1).contains(&measured), "{measured}");
    assert_eq!(tsc.ticks(Duration::from_secs(3)), 3 * tsc.hz());
    assert_eq!(tsc.nanoseconds(tsc.hz()), 1_000_000_000);
}
