//! Several workers and a program with registers: one after the other, or with
//! `unordered` at the same time. What workers tell the controller.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use softswitch::ports::{
    ChannelPort, Clock, DataPlane, DataPlaneConfig, PacketInSink, PortSpec, channel_port,
};
use softswitch::{CounterTarget, Switch, Timestamp};

use crate::commands::{ask, switch};

/// Commands of `testdata/externs.p4`.
const OP_DIGEST: u8 = 7;
const OP_REGISTER: u8 = 8;
const OP_TO_CPU: u8 = 13;

/// A switch with two workers that never sleep, and its ports 1 and 3.
fn start(
    unordered: bool,
    sink: Option<Arc<dyn PacketInSink>>,
) -> (Arc<Switch>, DataPlane, [ChannelPort; 2]) {
    let switch = switch();
    let ((one, one_end), (three, three_end)) = (channel_port(), channel_port());
    let specs = [(1, one_end), (3, three_end)].map(|(port, end)| PortSpec::Channel { port, end });
    let config = DataPlaneConfig {
        workers: 2,
        unordered,
        spins: u32::MAX,
        ..DataPlaneConfig::default()
    };
    let plane = DataPlane::start(&switch, Clock::start(), specs.into(), config, sink).unwrap();
    (switch, plane, [one, three])
}

/// Where packets for the controller wait for others that are processed
/// meanwhile.
#[derive(Default)]
struct Meeting {
    inside: AtomicUsize,
    met: AtomicBool,
    passed: AtomicUsize,
}

impl PacketInSink for Meeting {
    fn packet_in(&self, _bytes: &[u8]) -> bool {
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.met.store(true, Ordering::SeqCst);
        }
        // The first packets wait so long that any other worker would come.
        if self.passed.fetch_add(1, Ordering::SeqCst) < 5 {
            let deadline = Instant::now() + Duration::from_millis(200);
            while !self.met.load(Ordering::SeqCst) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        true
    }
}

/// Whether two of 300 packets were ever processed at the same time.
fn two_at_once(unordered: bool) -> bool {
    let meeting = Arc::new(Meeting::default());
    let sink = Arc::clone(&meeting) as Arc<dyn PacketInSink>;
    let (_switch, plane, [_, port]) = start(unordered, Some(sink));
    for _ in 0..300 {
        port.send(ask(OP_TO_CPU, 0, 0)).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while meeting.passed.load(Ordering::SeqCst) < 300 {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        std::thread::sleep(Duration::from_millis(1));
    }
    plane.stop();
    meeting.met.load(Ordering::SeqCst)
}

#[test]
fn unordered_packets_are_processed_at_the_same_time() {
    assert!(two_at_once(true));
}

#[test]
fn ordered_packets_wait_for_each_other() {
    assert!(!two_at_once(false));
}

/// Packets that the program has counted for a command.
fn counted(switch: &Switch, op: u8) -> u64 {
    let program = switch.program().unwrap();
    let target = CounterTarget::Indexed {
        counter: program.counter_by_name("In.by_op").unwrap(),
        index: Some(op.into()),
    };
    switch.read_counter(&target).unwrap()[0].packets
}

/// A controller that reads the counters with each packet that it gets.
#[derive(Default)]
struct Auditor {
    switch: OnceLock<Weak<Switch>>,
    told: AtomicU64,
    /// Packets that were not counted yet.
    missing: AtomicU64,
}

impl PacketInSink for Auditor {
    fn packet_in(&self, _bytes: &[u8]) -> bool {
        let told = self.told.fetch_add(1, Ordering::SeqCst) + 1;
        let switch = self.switch.get().and_then(Weak::upgrade).unwrap();
        if counted(&switch, OP_TO_CPU) < told {
            self.missing.fetch_add(1, Ordering::SeqCst);
        }
        true
    }
}

#[test]
fn packets_for_the_controller_have_been_counted() {
    let auditor = Arc::new(Auditor::default());
    let sink = Arc::clone(&auditor) as Arc<dyn PacketInSink>;
    let (switch, plane, [_, port]) = start(false, Some(sink));
    auditor.switch.set(Arc::downgrade(&switch)).unwrap();
    for _ in 0..300 {
        port.send(ask(OP_TO_CPU, 0, 0)).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while auditor.told.load(Ordering::SeqCst) < 300 {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        std::thread::sleep(Duration::from_millis(1));
    }
    plane.stop();
    assert_eq!(auditor.missing.load(Ordering::SeqCst), 0);
}

#[test]
fn packets_of_digests_have_been_counted() {
    let switch = switch();
    let seen = Arc::new(AtomicU64::new(0));
    let (weak, found) = (Arc::downgrade(&switch), Arc::clone(&seen));
    switch.set_digest_waker(move || {
        let switch = weak.upgrade().unwrap();
        found.store(counted(&switch, OP_DIGEST), Ordering::SeqCst);
    });
    let packet = ask(OP_DIGEST, 1, 2);
    let now = Timestamp::from_micros(1);
    switch.worker().process(3, &packet, now, &mut |_| ());
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    assert_eq!(switch.drain_digests(9).len(), 1);
}

/// What each of `packets` additions of 1 to a register found in it, and how
/// many the program's counter has.
fn additions(unordered: bool, packets: u16) -> (Vec<u16>, u64) {
    let (switch, plane, [out, port]) = start(unordered, None);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut found = Vec::new();
    let mut sent = 0;
    while found.len() < usize::from(packets) {
        assert!(Instant::now() < deadline, "{:?}", plane.snapshot());
        // No more under way than a port's queue holds.
        while sent < packets && usize::from(sent) < found.len() + 1000 {
            port.send(ask(OP_REGISTER, 2, 1)).unwrap();
            sent += 1;
        }
        while let Some(answer) = out.try_receive() {
            found.push(u16::from_be_bytes([answer[2], answer[3]]));
        }
    }
    plane.stop();
    (found, counted(&switch, OP_REGISTER))
}

#[test]
fn ordered_additions_are_all_there() {
    let (found, counted) = additions(false, 10_000);
    let distinct: BTreeSet<u16> = found.iter().copied().collect();
    assert_eq!(distinct, (0..10_000).collect());
    assert_eq!((found.len(), counted), (10_000, 10_000));
}

/// Additions may be lost, packets and counts may not.
#[test]
fn unordered_packets_are_all_answered_and_counted() {
    let (found, counted) = additions(true, 10_000);
    assert!(found.iter().all(|n| *n < 10_000));
    assert_eq!((found.len(), counted), (10_000, 10_000));
}
