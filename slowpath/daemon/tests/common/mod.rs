//! Workers over plain memory, and packets built by a third party (etherparse).

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use etherparse::PacketBuilder;
use offload_api::v1;
use session_engine::{Engine, EngineConfig, HashKeys};
use slowpath::clock::Clock;
use slowpath::control::Rings;
use slowpath::io::{BURST, Burst, Packet, PacketIo};
use slowpath::message::{Command, Event};
use slowpath::report::Report;
use slowpath::worker::{Setup, Turn, Worker};

// ------------------------------------------------------------------- memory

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemPacket(pub Vec<u8>);

impl Packet for MemPacket {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
    fn truncate(&mut self, len: usize) -> bool {
        let fits = len <= self.0.len();
        if fits {
            self.0.truncate(len);
        }
        fits
    }
    fn is_contiguous(&self) -> bool {
        true
    }
}

#[derive(Debug, Default)]
pub struct MemBurst(Vec<MemPacket>);

impl Deref for MemBurst {
    type Target = [MemPacket];
    fn deref(&self) -> &[MemPacket] {
        &self.0
    }
}

impl DerefMut for MemBurst {
    fn deref_mut(&mut self) -> &mut [MemPacket] {
        &mut self.0
    }
}

impl Burst for MemBurst {
    type Packet = MemPacket;
    fn push(&mut self, packet: MemPacket) -> Result<(), MemPacket> {
        if self.0.len() == BURST {
            return Err(packet);
        }
        self.0.push(packet);
        Ok(())
    }
    fn drain(&mut self) -> impl Iterator<Item = MemPacket> {
        self.0.drain(..)
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a worker's port and rings hold; the test looks and changes it.
#[derive(Debug, Default)]
pub struct Wires {
    pub rx: VecDeque<Vec<u8>>,
    pub tx: Vec<Vec<u8>>,
    /// Frames the port still takes.
    pub tx_room: usize,
    /// Frames from other workers.
    pub ring: VecDeque<Vec<u8>>,
    pub ring_room: usize,
}

#[derive(Debug)]
pub struct MemIo {
    me: usize,
    wires: Vec<Rc<RefCell<Wires>>>,
}

impl MemIo {
    fn mine(&self) -> std::cell::RefMut<'_, Wires> {
        self.wires[self.me].borrow_mut()
    }
}

impl PacketIo for MemIo {
    type Burst = MemBurst;
    fn receive(&mut self, burst: &mut MemBurst) -> usize {
        let mut n = 0;
        while burst.len() < BURST
            && let Some(frame) = self.mine().rx.pop_front()
        {
            burst.push(MemPacket(frame)).unwrap();
            n += 1;
        }
        n
    }
    fn send(&mut self, burst: &mut MemBurst) -> usize {
        let mut wires = self.mine();
        let n = burst.len().min(wires.tx_room);
        wires.tx_room -= n;
        wires.tx.extend(burst.0.drain(..n).map(|p| p.0));
        n
    }
    fn redirect(&mut self, to: u16, packet: MemPacket) -> Result<(), MemPacket> {
        assert_ne!(usize::from(to), self.me, "a worker hands nothing to itself");
        let mut wires = self.wires[usize::from(to)].borrow_mut();
        if wires.ring.len() >= wires.ring_room {
            return Err(packet);
        }
        wires.ring.push_back(packet.0);
        Ok(())
    }
    fn wake(&mut self, _woken: u32) {}
    fn receive_redirected(&mut self, burst: &mut MemBurst) -> usize {
        let mut n = 0;
        while burst.len() < BURST
            && let Some(frame) = self.mine().ring.pop_front()
        {
            burst.push(MemPacket(frame)).unwrap();
            n += 1;
        }
        n
    }
    fn wait(&mut self, _limit: Duration, _idle: impl FnOnce() -> bool) {}
}

/// One tick a microsecond, and only when the test says so.
#[derive(Clone, Debug, Default)]
pub struct TestClock(pub Rc<Cell<u64>>);

impl Clock for TestClock {
    fn now(&self) -> u64 {
        self.0.get()
    }
    fn hz(&self) -> u64 {
        1_000_000
    }
}

// ---------------------------------------------------------------- a whole LD

pub struct Ld {
    pub workers: Vec<Worker<MemIo, TestClock>>,
    pub wires: Vec<Rc<RefCell<Wires>>>,
    pub rings: Vec<Rings>,
    pub clock: TestClock,
}

pub const SWITCH_VTEP: [u8; 4] = [10, 3, 0, 1];
pub const LD_VTEP: [u8; 4] = [10, 3, 0, 2];
pub const SWITCH_MAC: [u8; 6] = [2, 0, 0, 0, 5, 5];
pub const LD_MAC: [u8; 6] = [2, 0, 0, 0, 3, 1];
pub const CLIENT: [u8; 4] = [10, 1, 0, 2];
pub const VIP: [u8; 4] = [10, 100, 0, 10];
pub const SERVER: [u8; 4] = [10, 2, 1, 2];
pub const LIP: [u8; 4] = [10, 9, 0, 1];
pub const SLOT: u16 = 3;

impl Ld {
    /// Workers without a configuration.
    pub fn bare(n: u16) -> Self {
        let clock = TestClock::default();
        let wires: Vec<_> = (0..n)
            .map(|_| {
                Rc::new(RefCell::new(Wires {
                    tx_room: usize::MAX,
                    ring_room: 1024,
                    ..Wires::default()
                }))
            })
            .collect();
        let rings: Vec<Rings> = (0..n).map(|_| Rings::new()).collect();
        let workers = (0..n)
            .map(|i| {
                let engine = Engine::new(EngineConfig {
                    worker: i as u8,
                    workers: n as u8,
                    max_records: 1 << 16,
                    ..EngineConfig::new(7, HashKeys::from_seed(1))
                })
                .unwrap();
                let setup = Setup {
                    worker: i,
                    workers: n,
                    vtep: LD_VTEP.into(),
                    rings: rings[usize::from(i)].clone(),
                    notify: Arc::default(),
                };
                let io = MemIo {
                    me: usize::from(i),
                    wires: wires.clone(),
                };
                Worker::new(setup, io, clock.clone(), engine)
            })
            .collect();
        Self {
            workers,
            wires,
            rings,
            clock,
        }
    }

    /// Workers with one TCP and one UDP service.
    pub fn new(n: u16) -> Self {
        let mut ld = Self::bare(n);
        let config = Arc::new(slowpath::snapshot::build(&snapshot()).unwrap());
        for rings in &ld.rings {
            rings
                .commands
                .push(Command::Configure(Arc::clone(&config)))
                .unwrap();
            rings.commands.push(Command::Open).unwrap();
        }
        ld.turns(1);
        for i in 0..usize::from(n) {
            let events = ld.events(i);
            assert!(
                matches!(events[..], [Event::Configured { version: 7 }]),
                "{events:?}"
            );
        }
        ld
    }

    /// Lets every worker turn so often.
    pub fn turns(&mut self, n: usize) {
        let mut burst = MemBurst::default();
        for _ in 0..n {
            for worker in &mut self.workers {
                assert_ne!(worker.turn(&mut burst), Turn::Stop);
                assert!(burst.is_empty());
            }
        }
    }

    /// Lets time pass, in steps in which housekeeping keeps up.
    pub fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(50) {
            self.clock.0.set(self.clock.0.get() + 50_000);
            self.turns(2);
        }
    }

    /// A frame arrives at a worker's queue; what the workers send.
    pub fn receive(&mut self, worker: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.wires[worker].borrow_mut().rx.push_back(frame);
        self.turns(self.workers.len() + 1);
        self.sent()
    }

    /// What was sent since the last call.
    pub fn sent(&mut self) -> Vec<Vec<u8>> {
        self.wires
            .iter()
            .flat_map(|w| std::mem::take(&mut w.borrow_mut().tx))
            .collect()
    }

    pub fn events(&self, worker: usize) -> Vec<Event> {
        std::iter::from_fn(|| self.rings[worker].events.pop()).collect()
    }

    pub fn command(&mut self, worker: usize, command: Command) {
        self.rings[worker].commands.push(command).unwrap();
        self.turns(1);
    }

    pub fn report(&mut self, worker: usize) -> Report {
        self.command(worker, Command::Report(Box::default()));
        self.events(worker)
            .into_iter()
            .find_map(|event| match event {
                Event::Report(report) => Some(*report),
                _ => None,
            })
            .unwrap()
    }

    /// The books of every worker, and those of all together, balance.
    pub fn assert_books(&mut self) -> Vec<Report> {
        let reports: Vec<Report> = (0..self.workers.len()).map(|i| self.report(i)).collect();
        let mut on_the_way = 0;
        for report in &reports {
            assert_eq!(report.unaccounted(), 0, "{report:#?}");
            assert_eq!(report.engine.unaccounted(), 0, "{report:#?}");
        }
        for wires in &self.wires {
            on_the_way += wires.borrow().ring.len() as u64;
        }
        let sum = |f: &dyn Fn(&Report) -> u64| reports.iter().map(f).sum::<u64>();
        assert_eq!(
            sum(&|r| r.frames.redirected_out),
            sum(&|r| r.frames.redirected_in) + on_the_way
        );
        reports
    }
}

pub fn snapshot() -> v1::Snapshot {
    let timeouts = v1::Timeouts {
        syn_ms: 2_000,
        established_ms: 10_000,
        fin_ms: 2_000,
        time_wait_ms: 1_000,
        close_ms: 1_000,
        udp_ms: 3_000,
        port_hold_ms: 500,
    };
    let vip = |vip_id: u32, protocol: u32, port: u32, server: v1::Server| v1::Vip {
        vip_id,
        name: format!("vip{vip_id}"),
        vni: 0,
        address: u32::from_be_bytes(VIP),
        port_low: port,
        port_high: port,
        protocol,
        scheduler: v1::Scheduler::Wrr.into(),
        timeouts: Some(timeouts),
        offload: Some(v1::OffloadPolicy {
            enabled: true,
            min_packets: 4,
        }),
        servers: vec![server],
        generation: 1,
        max_sessions: 0,
    };
    let server = |server_id: u32, port: u32| v1::Server {
        server_id,
        name: format!("s{server_id}"),
        address: u32::from_be_bytes(SERVER),
        port,
        weight: 1,
        state: v1::ServerState::Up.into(),
        mtu: 1400,
    };
    v1::Snapshot {
        version: 7,
        vips: vec![
            vip(1, 6, 80, server(1, 8080)),
            vip(2, 17, 5353, server(2, 53)),
        ],
        locals: vec![v1::Local {
            local_id: 1,
            address: u32::from_be_bytes(LIP),
            slot: SLOT.into(),
            vni: 0,
            draining: false,
        }],
        client_mtu: 1500,
        switch_vtep: u32::from_be_bytes(SWITCH_VTEP),
        slots: vec![SLOT.into()],
    }
}

// ------------------------------------------------------------------ packets

/// The inner Ethernet header of the tunnel contract.
fn inner_ethernet() -> etherparse::PacketBuilderStep<etherparse::Ethernet2Header> {
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
}

/// An inner IPv4 packet as the switch puts it into the tunnel: TTL 63.
pub fn tcp(src: ([u8; 4], u16), dst: ([u8; 4], u16), flags: &str, payload: &[u8]) -> Vec<u8> {
    let mut b = inner_ethernet()
        .ipv4(src.0, dst.0, 63)
        .tcp(src.1, dst.1, 1000, 64_240);
    for flag in flags.chars() {
        b = match flag {
            'S' => b.syn(),
            'A' => b.ack(2000),
            'F' => b.fin(),
            'R' => b.rst(),
            'P' => b.psh(),
            other => panic!("flag {other}"),
        };
    }
    let mut out = Vec::new();
    b.write(&mut out, payload).unwrap();
    out
}

pub fn udp(src: ([u8; 4], u16), dst: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    inner_ethernet()
        .ipv4(src.0, dst.0, 63)
        .udp(src.1, dst.1)
        .write(&mut out, payload)
        .unwrap();
    out
}

/// In the tunnel from the switch: outer source port and slot as the contract
/// has it, outer UDP checksum zero.
pub fn from_switch(source_port: u16, slot: u16, inner: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x88, 0];
    payload.extend(slot.to_be_bytes());
    payload.extend([0, 0, 0, 0]);
    payload.extend(inner);
    tunnel(
        (SWITCH_MAC, SWITCH_VTEP),
        (LD_MAC, LD_VTEP),
        source_port,
        &payload,
    )
}

/// In the tunnel to the switch.
pub fn to_switch(source_port: u16, inner: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x08, 0, 0, 0, 0, 0, 0, 0];
    payload.extend(inner);
    tunnel(
        (LD_MAC, LD_VTEP),
        (SWITCH_MAC, SWITCH_VTEP),
        source_port,
        &payload,
    )
}

fn tunnel(
    src: ([u8; 6], [u8; 4]),
    dst: ([u8; 6], [u8; 4]),
    source_port: u16,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    PacketBuilder::ethernet2(src.0, dst.0)
        .ipv4(src.1, dst.1, 64)
        .udp(source_port, 4789)
        .write(&mut out, payload)
        .unwrap();
    out[40..42].fill(0);
    out
}

/// Source and destination port of the inner packet in a tunnel frame.
pub fn inner_ports(frame: &[u8]) -> (u16, u16) {
    let at = 14 + 20 + 8 + 8 + 14 + 20;
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    (port(at), port(at + 2))
}
