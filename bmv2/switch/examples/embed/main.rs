//! softswitch as a library: a router in a few lines, without a network.
//!
//! `cargo run -p softswitch --example embed`
//!
//! 1. Load a program that `p4c-bm2-ss` compiled.
//! 2. Add a table entry.
//! 3. Push one packet through it by hand, and look at its path.
//! 4. Give the switch ports and let its own threads do the work.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use softswitch::ports::{Clock, DataPlane, DataPlaneConfig, PortSpec, channel_port};
use softswitch::{
    ActionCall, CounterTarget, EntryAction, EntryKey, FieldMatch, Output, Switch, SwitchConfig,
    TableEntry, TableOp, Timestamp, Value,
};

/// Made from `router.p4` by `p4c-bm2-ss`.
const PROGRAM: &[u8] = include_bytes!("router.json");

fn main() -> Result<(), Box<dyn Error>> {
    // 1. The program is checked and lowered once, here; an error says which
    //    part of the document is at fault.
    let switch = Switch::load(PROGRAM, SwitchConfig::default())?;
    let program = switch.program().ok_or("no program is installed")?;
    let route = program.table_by_name("In.route").ok_or("no table")?;
    let forward = program.tables()[route.index()]
        .action_by_name("In.forward")
        .ok_or("no action")?;

    // 2. 10.2.0.0/16 is behind port 2. Numbers are big-endian bytes.
    let key = EntryKey {
        fields: vec![FieldMatch::Lpm {
            value: Value::from_slice(&[10, 2, 0, 0]),
            prefix_len: 16,
        }],
        priority: 0,
    };
    let entry = TableEntry {
        key: key.clone(),
        action: EntryAction::Call(ActionCall {
            action: forward,
            params: vec![Value::from_slice(&[2]), Value::from_slice(&NEXT_HOP)],
        }),
        idle_timeout_ns: 0,
        cookie: 0,
        metadata: Vec::new(),
    };
    let clock = Clock::start();
    for result in switch.apply(
        clock.now(),
        &[TableOp::Insert {
            table: route,
            entry,
        }],
    ) {
        result?;
    }

    // 3. One packet by hand. A worker belongs to one thread.
    let mut worker = switch.worker();
    let mut sent = Vec::new();
    let path = worker.trace(1, &packet(64), Timestamp::from_micros(1), &mut |out| {
        if let Output::Transmit { port, bytes } = out {
            sent.push((port, bytes.to_vec()));
        }
    });
    for step in path {
        say(format_args!("{step:?}"))?;
    }
    let (port, bytes) = sent.pop().ok_or("the packet was dropped")?;
    say(format_args!("out of port {port}, TTL {}", bytes[22]))?;
    assert_eq!((port, bytes[22], sent.len()), (2, 63, 0));
    assert_eq!(bytes[..6], NEXT_HOP);

    // 4. The same with ports. These are queues within the process; there are
    //    also interfaces, TAP devices and capture files.
    let (left, left_end) = channel_port();
    let (right, right_end) = channel_port();
    let ports = vec![
        PortSpec::Channel {
            port: 1,
            end: left_end,
        },
        PortSpec::Channel {
            port: 2,
            end: right_end,
        },
    ];
    let plane = DataPlane::start(&switch, clock, ports, DataPlaneConfig::default(), None)?;
    left.send(packet(10))
        .map_err(|_| "the port's queue is full")?;
    let until = Instant::now() + Duration::from_secs(5);
    let arrived = loop {
        if let Some(bytes) = right.try_receive() {
            break bytes;
        }
        if Instant::now() > until {
            return Err("nothing arrived in five seconds".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    plane.stop();
    say(format_args!("arrived on port 2 with TTL {}", arrived[22]))?;
    assert_eq!(arrived[22], 9);

    // Both packets are in the entry's counter.
    let counted = switch.read_counter(&CounterTarget::Direct { table: route, key })?;
    let packets = counted[0].packets;
    say(format_args!("the route was used by {packets} packets"))?;
    assert_eq!((counted[0].packets, counted[0].bytes), (2, 68));
    Ok(())
}

/// Prints a line. That its reader has gone is no failure.
fn say(line: impl Display) -> io::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A bare IPv4 packet to 10.2.3.4.
fn packet(ttl: u8) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    p.extend([
        0x45, 0, 0, 20, 0, 0, 0, 0, ttl, 17, 0, 0, 10, 1, 0, 1, 10, 2, 3, 4,
    ]);
    p
}
