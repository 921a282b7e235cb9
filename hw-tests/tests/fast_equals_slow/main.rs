//! Invariant I2: switch and slow path make the same bytes of the same packet.
//!
//! Generated packets of real sessions go two ways. The slow way is the whole
//! one: through a switch without flow entries, in its tunnel to the session
//! engine, rewritten there, back in the tunnel, and routed by the switch. The
//! fast way is a switch with the entries that the engine asked for. What leaves
//! the gateway in the end must be the same frame: TTL, checksums and all. Only
//! the tunnel's own headers, which the outside never sees, are left out.
//!
//! Where a packet's checksums are right, the frame must also be the one that
//! is built from nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Test code.

mod gateway;
mod generate;
mod slow_path;

use std::cell::RefCell;

use anyhow::{Context, Result, ensure};
use hw_tests::embedded::Embedded;
use hw_tests::frame::{self, SYN};
use hw_tests::rig::Rig;
use hw_tests::scene::{LD, PORTS};
use hw_tests::target::Target;
use hw_tests::{netns, scene};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use gateway::Gateway;
use generate::{Checksum, Generated, generated};
use slow_path::{Established, SlowPath};

/// Two gateways with the same sessions: one without their entries, one with.
struct Pair<G> {
    slow: SlowPath<G>,
    fast: G,
    sessions: Vec<Established>,
}

impl<G: Gateway> Pair<G> {
    fn establish(slow: G, mut fast: G) -> Result<Self> {
        let mut slow = SlowPath::new(slow)?;
        let sessions = slow.establish()?;
        ensure!(sessions.len() == 24, "{} sessions", sessions.len());
        for session in &sessions {
            fast.insert(&session.entries())?;
        }
        Ok(Self {
            slow,
            fast,
            sessions,
        })
    }

    /// Sends one packet both ways and compares.
    fn compare(&mut self, packet: &Generated) -> Result<()> {
        let session = &self.sessions[packet.session % self.sessions.len()];
        let (port, sent) = packet.frame(session)?;
        let slow = self.slow.pass(port, &sent)?;
        let fast = self.fast.pass(port, &sent)?;
        if packet.ttl < 2 {
            // Not forwarded by either.
            ensure!(slow.is_none() && fast.is_none(), "TTL {}", packet.ttl);
            return Ok(());
        }
        let slow = slow.context("the slow path dropped it")?;
        let fast = fast.context("the switch dropped it")?;
        ensure!(fast.0 != LD, "the switch did not use its entry");
        ensure!(
            slow.0 == fast.0,
            "slow leaves by port {}, fast by port {}",
            slow.0,
            fast.0
        );
        ensure!(
            slow.1 == fast.1,
            "slow is \"expected\", fast is \"found\": {}",
            frame::difference(&slow.1, &fast.1)
        );
        if packet.checksum == Checksum::Right {
            let expected = packet.expected(session)?;
            ensure!(
                fast.1 == expected,
                "both differ from the packet built anew: {}",
                frame::difference(&expected, &fast.1)
            );
        }
        Ok(())
    }
}

/// softswitch with the scene's configuration, in this process.
fn gateway() -> Embedded {
    let embedded = Embedded::start().unwrap();
    embedded.controller.insert(&scene::configuration()).unwrap();
    embedded
}

/// Compares `cases` generated packets with a TTL of at least `ttl`: that
/// nothing leaves takes long to see over links.
fn run<G: Gateway>(pair: Pair<G>, cases: u32, ttl: u8) {
    let pair = RefCell::new(pair);
    let mut runner = TestRunner::new(Config {
        cases,
        source_file: Some(file!()),
        ..Config::default()
    });
    let result = runner.run(&generated(ttl), |packet| {
        pair.borrow_mut()
            .compare(&packet)
            .map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn softswitch_equals_the_engine() {
    run(Pair::establish(gateway(), gateway()).unwrap(), 2000, 0);
}

#[test]
fn bmv2_equals_the_engine() {
    let missing = netns::missing().or_else(|| Target::Bmv2.program().err().map(|e| e.to_string()));
    if let Some(reason) = missing {
        eprintln!("SKIPPED: fast equals slow on bmv2: {reason}");
        return;
    }
    let gateway = |name| {
        let rig = Rig::start(Target::Bmv2, name, &PORTS, scene::MTU).unwrap();
        rig.controller.insert(&scene::configuration()).unwrap();
        rig
    };
    // The namespace that was entered last is left first: fields are dropped in
    // the order of their declaration, so the slow one is made last.
    let fast = gateway("equal-fast");
    let slow = gateway("equal-slow");
    run(Pair::establish(slow, fast).unwrap(), 200, 2);
}

/// The comparison can fail: a switch whose entry has another port is noticed.
#[test]
fn a_difference_is_noticed() {
    let mut fast = gateway();
    let mut slow = SlowPath::new(gateway()).unwrap();
    let mut sessions = slow.establish().unwrap();
    for session in &mut sessions {
        session.flow.local_port ^= 1;
        fast.insert(&session.entries()).unwrap();
        session.flow.local_port ^= 1;
    }
    let mut pair = Pair {
        slow,
        fast,
        sessions,
    };
    let packet = Generated {
        reply: false,
        ..Generated::plain()
    };
    assert!(pair.compare(&packet).is_err());
    let syn = Generated {
        flags: SYN,
        ..Generated::plain()
    };
    assert!(pair.compare(&syn).is_err(), "a SYN has no fast way");
}

/// A packet to a session's local port that is not from the session's server
/// goes nowhere, whichever way it takes.
#[test]
fn replies_of_others_are_dropped_both_ways() {
    let mut pair = Pair::establish(gateway(), gateway()).unwrap();
    // Every session, and another address or port.
    for session in 0..pair.sessions.len() {
        let mut other_address = pair.sessions[session].clone();
        other_address.server.0 += 1;
        let mut other_port = pair.sessions[session].clone();
        other_port.server.1 += 1;
        for stranger in [other_address, other_port] {
            let packet = Generated {
                reply: true,
                ..Generated::plain()
            };
            let (port, frame) = packet.frame(&stranger).unwrap();
            assert_eq!(pair.fast.pass(port, &frame), []);
            let verdict = pair.slow.pass(port, &frame).unwrap_err().to_string();
            assert!(verdict.contains("ReplySourceMismatch"), "{verdict}");
        }
    }
}
