//! Runs STF tests (the "simple test framework" of p4c) in memory, and carries
//! out entries files.
//!
//! Names of tables, fields and actions may be given by their ends, as p4c's
//! own driver allows. A higher priority wins. Expected data is compared as far
//! as it goes; a `$` at its end asks for nothing more behind it. The commands
//! of `simple_switch_CLI` that change state may stand between the others.

mod cells;
mod matching;
mod parse;
mod positional;
mod replication;
mod setup;
mod shell;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::program::{Program, TableId};
use crate::switch::{Output, Switch, SwitchConfig, Timestamp};
use parse::Command;
use setup::Setup;

/// Time between two commands, in microseconds.
const STEP_US: u64 = 1_000;

/// Why a test did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StfError {
    /// The test cannot be read or carried out.
    #[error("line {line}: {what}")]
    Line {
        /// Line of the test.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The packets are not the expected ones.
    #[error("port {port}: {what}")]
    Packets {
        /// Port.
        port: u16,
        /// What differs.
        what: String,
    },
}

/// Something that a test expects, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Line of the test.
    pub line: usize,
    /// What is expected.
    pub subject: Subject,
    /// What came instead; `None` if it was met.
    pub failure: Option<String>,
}

/// What an [`Expectation`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A packet out of this port.
    Packet(u16),
    /// The value of the counter with this name.
    Counter(String),
}

/// What became of a test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// In the order of the test.
    pub expectations: Vec<Expectation>,
    /// Packets that nothing expects, with their ports. None if the test was
    /// stopped, for what came after might have expected them.
    pub unexpected: Vec<(u16, Vec<u8>)>,
    /// Why the test was not carried out to its end.
    pub stopped: Option<StfError>,
}

impl Report {
    /// Whether everything is as expected.
    pub fn passed(&self) -> bool {
        self.stopped.is_none()
            && self.unexpected.is_empty()
            && self.expectations.iter().all(|e| e.failure.is_none())
    }
}

/// A priority as a file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// STF's.
    HigherWins(i32),
    /// That of the commands of `simple_switch_CLI`.
    LowerWins(u32),
}

/// What a file has for the priorities of a table's entries.
pub type Priorities = BTreeMap<(TableId, i32), Priority>;

/// What was done with an entries file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    /// Lines carried out.
    pub count: usize,
    /// Where the switch's priorities come from.
    pub priorities: Priorities,
}

/// Runs a test against a program.
///
/// `log` gets a line for everything that the test prints.
///
/// # Errors
/// The first thing that went wrong.
pub fn run(program: Program, test: &str, log: impl FnMut(&str)) -> Result<(), StfError> {
    let report = check(program, test, log)?;
    if let Some(stopped) = report.stopped {
        return Err(stopped);
    }
    for e in report.expectations {
        let Some(what) = e.failure else { continue };
        return Err(match e.subject {
            Subject::Packet(port) => StfError::Packets {
                port,
                what: format!("line {}: {what}", e.line),
            },
            Subject::Counter(_) => StfError::Line { line: e.line, what },
        });
    }
    match report.unexpected.first() {
        Some((port, packet)) => Err(StfError::Packets {
            port: *port,
            what: format!("a packet that nothing expects: {}", hex(packet)),
        }),
        None => Ok(()),
    }
}

/// Runs a test to its end and reports on every expectation.
///
/// `log` gets a line for everything that the test prints.
///
/// # Errors
/// [`StfError::Line`] if the test cannot be read. Of a line that cannot be
/// carried out the report tells.
pub fn check(program: Program, test: &str, mut log: impl FnMut(&str)) -> Result<Report, StfError> {
    let statements = parse::parse(test).map_err(|(line, what)| StfError::Line { line, what })?;
    let switch = Switch::new(SwitchConfig::default());
    switch.install(program);
    let Some(setup) = Setup::new(switch, &mut log) else {
        return Ok(Report::default());
    };
    let mut driver = Driver {
        setup,
        expected: Vec::new(),
        got: BTreeMap::new(),
        counters: Vec::new(),
    };
    let mut stopped = None;
    for (i, s) in statements.iter().enumerate() {
        let now = Timestamp::from_micros(STEP_US.saturating_mul(i as u64 + 1));
        if let Err(what) = driver.command(&s.command, s.line, now) {
            stopped = Some(StfError::Line { line: s.line, what });
            break;
        }
    }
    let mut report = driver.report();
    if stopped.is_some() {
        report.unexpected.clear();
    }
    report.stopped = stopped;
    Ok(report)
}

/// Carries out the lines of an entries file: STF's `add` and `setdefault`, and
/// the commands of `simple_switch_CLI`.
///
/// # Errors
/// [`StfError::Line`] for the first line that cannot be carried out; those
/// before it stay in force.
pub fn apply_entries(
    switch: &Arc<Switch>,
    text: &str,
    now: Timestamp,
    mut log: impl FnMut(&str),
) -> Result<Entries, StfError> {
    let fail = |(line, what)| StfError::Line { line, what };
    let statements = parse::parse(text).map_err(fail)?;
    let Some(mut setup) = Setup::new(Arc::clone(switch), &mut log) else {
        return Err(fail((1, "the switch has no program".into())));
    };
    for s in &statements {
        setup
            .command(&s.command, now)
            .map_err(|what| fail((s.line, what)))?;
    }
    Ok(Entries {
        count: statements.len(),
        priorities: setup.priorities,
    })
}

/// A packet that a test expects.
struct Expected {
    line: usize,
    port: u16,
    /// `None`: any packet.
    nibbles: Option<Vec<Option<u8>>>,
    exact: bool,
}

/// What a test has done so far.
struct Driver<'a> {
    setup: Setup<'a>,
    expected: Vec<Expected>,
    got: BTreeMap<u16, Vec<Vec<u8>>>,
    counters: Vec<Expectation>,
}

impl Driver<'_> {
    fn command(&mut self, c: &Command, line: usize, now: Timestamp) -> Result<(), String> {
        match c {
            // What comes out and is not expected is reported at the end.
            Command::NoPacket => {}
            Command::Packet { port, bytes } => {
                let got = &mut self.got;
                let mut worker = self.setup.switch.worker();
                worker.process(*port, bytes, now, &mut |out| {
                    if let Output::Transmit { port, bytes } = out {
                        got.entry(port).or_default().push(bytes.to_vec());
                    }
                });
            }
            Command::Expect {
                port,
                nibbles,
                exact,
            } => self.expected.push(Expected {
                line,
                port: *port,
                nibbles: nibbles.clone(),
                exact: *exact,
            }),
            Command::CheckCounter {
                counter,
                cell,
                bytes,
                check,
            } => {
                let failure = self.setup.check_counter(counter, cell, *bytes, *check)?;
                self.counters.push(Expectation {
                    line,
                    subject: Subject::Counter(counter.clone()),
                    failure,
                });
            }
            other => self.setup.command(other, now)?,
        }
        Ok(())
    }

    /// Holds what came out of each port against what is expected there, in
    /// order.
    fn report(mut self) -> Report {
        let mut report = Report {
            expectations: self.counters,
            ..Report::default()
        };
        let ports: BTreeSet<u16> = self.expected.iter().map(|e| e.port).collect();
        for port in ports {
            let expected: Vec<_> = self.expected.iter().filter(|e| e.port == port).collect();
            let got = self.got.remove(&port).unwrap_or_default();
            // A port of which nothing more is said than that packets come.
            let any = matches!(expected.as_slice(), [e] if e.nibbles.is_none());
            let mut packets = got.into_iter();
            for e in expected {
                let failure = match packets.next() {
                    Some(packet) if matches(e, &packet) => None,
                    Some(packet) => Some(format!("another packet came: {}", hex(&packet))),
                    None => Some("no packet came".to_owned()),
                };
                report.expectations.push(Expectation {
                    line: e.line,
                    subject: Subject::Packet(port),
                    failure,
                });
            }
            if !any {
                report.unexpected.extend(packets.map(|p| (port, p)));
            }
        }
        for (port, packets) in self.got {
            report
                .unexpected
                .extend(packets.into_iter().map(|p| (port, p)));
        }
        report.expectations.sort_by_key(|e| e.line);
        report
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

fn matches(e: &Expected, got: &[u8]) -> bool {
    let Some(nibbles) = &e.nibbles else {
        return true;
    };
    let have = got.iter().flat_map(|b| [b >> 4, b & 15]);
    let len = got.len() * 2;
    (if e.exact {
        nibbles.len() == len
    } else {
        nibbles.len() <= len
    }) && nibbles
        .iter()
        .zip(have)
        .all(|(want, have)| want.is_none_or(|w| w == have))
}
