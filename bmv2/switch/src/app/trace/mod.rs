//! `softswitch trace`: what happens to a packet, step by step.

mod json;
mod text;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context as _;
use clap::Parser;
use softswitch::p4rt::{P4RuntimeServer, ServerConfig};
use softswitch::ports::Clock;
use softswitch::stf::{Priorities, Priority};
use softswitch::{
    EntryKey, FieldMatch, Output, Switch, SwitchConfig, TraceEvent, program::TableInfo,
};

use super::load;
use super::print::Printer;

/// Print the path of a packet through a program: parser states, tables with
/// key, entry and action, fields that changed, and where the packet went.
///
/// Exit code: 0 if that was done, 2 if something could not be read or printed.
#[derive(Debug, Parser)]
#[command(name = "softswitch trace", bin_name = "softswitch trace", version)]
pub(super) struct Options {
    /// The program: the JSON that p4c-bm2-ss wrote.
    #[arg(value_name = "JSON")]
    program: PathBuf,

    /// The packet in hexadecimal; spaces and colons may separate the bytes.
    /// Several are sent one after the other.
    #[arg(long, value_name = "HEX", required = true)]
    packet: Vec<Packet>,

    /// The port at which it comes in.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u16).range(..512))]
    port: u16,

    /// Entries, as for `softswitch run`.
    #[arg(long, value_name = "FILE")]
    entries: Option<PathBuf>,

    /// The P4Info that belongs to the program.
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,

    /// The port that stands for the controller.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..512))]
    cpu_port: Option<u16>,

    /// The port that means "drop".
    #[arg(long, default_value_t = 511, value_name = "N", value_parser = clap::value_parser!(u16).range(..512))]
    drop_port: u16,

    /// One JSON object a packet.
    #[arg(long)]
    json: bool,
}

/// Bytes written in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet(Vec<u8>);

impl FromStr for Packet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("0x").unwrap_or(text);
        let digits = text
            .chars()
            .enumerate()
            .filter(|(_, c)| !c.is_whitespace() && *c != ':')
            .map(|(i, c)| {
                c.to_digit(16)
                    .and_then(|d| u8::try_from(d).ok())
                    .ok_or_else(|| format!("{c:?} at position {} is no hexadecimal digit", i + 1))
            })
            .collect::<Result<Vec<u8>, _>>()?;
        if digits.len() % 2 != 0 {
            return Err(format!(
                "{} digits are no whole number of bytes: two are needed for each",
                digits.len()
            ));
        }
        let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]);
        Ok(Self(bytes.collect()))
    }
}

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let switch = Switch::new(SwitchConfig {
        cpu_port: options.cpu_port,
        drop_port: options.drop_port,
        ..SwitchConfig::default()
    });
    let clock = Clock::start();
    let server = P4RuntimeServer::new(ServerConfig::default(), &switch, clock)
        .context("cannot start a thread")?;
    load::install(
        &options.program,
        options.p4info.as_deref(),
        &switch,
        &server,
    )?;
    let mut priorities = Priorities::new();
    if let Some(entries) = &options.entries {
        // Standard output is for the packets alone.
        let log = |line: &str| {
            let _ = writeln!(std::io::stderr(), "{line}");
        };
        let loaded = load::entries(entries, &switch, &server, options.p4info.is_some(), log)?;
        priorities = loaded.priorities;
    }
    let Some(program) = switch.program() else {
        anyhow::bail!("there is no program");
    };
    let mut worker = switch.worker();
    let mut printer = Printer::new(std::io::stdout());
    for Packet(packet) in &options.packet {
        let mut sent = Vec::new();
        let events = worker.trace(options.port, packet, clock.now(), &mut |out| match out {
            Output::Transmit { bytes, .. } | Output::PacketIn { bytes } => {
                sent.push(bytes.to_vec());
            }
            Output::Dropped { .. } => {}
        });
        let path = Path {
            port: options.port,
            cpu_port: options.cpu_port,
            packet,
            events: &events,
            sent: &sent,
            program: &program,
            priorities: &priorities,
        };
        if options.json {
            printer.line(&path.json().to_string());
        } else {
            printer.text(&path.text());
        }
        if printer.is_closed() {
            break;
        }
    }
    printer.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// A packet's path.
struct Path<'a> {
    port: u16,
    cpu_port: Option<u16>,
    packet: &'a [u8],
    events: &'a [TraceEvent],
    /// The packets sent, in the order of the events.
    sent: &'a [Vec<u8>],
    program: &'a softswitch::Program,
    priorities: &'a Priorities,
}

impl Path<'_> {
    fn table(&self, name: &str) -> Option<&TableInfo> {
        self.program.tables().iter().find(|t| t.name == name)
    }

    /// What the entries file has for a priority of the switch.
    fn written_priority(&self, table: &str, priority: i32) -> Option<Priority> {
        let table = self.program.table_by_name(table)?;
        self.priorities.get(&(table, priority)).copied()
    }

    /// Names and values of an action's parameters.
    fn parameters<'e>(&self, action: &str, values: &'e [String]) -> Vec<(String, &'e str)> {
        let info = self
            .program
            .actions()
            .iter()
            .find(|a| a.name == action && a.params.len() == values.len());
        values
            .iter()
            .enumerate()
            .map(|(i, value)| {
                let name = info.and_then(|a| a.params.get(i)).map(|p| p.name.clone());
                (name.unwrap_or_else(|| i.to_string()), value.as_str())
            })
            .collect()
    }
}

/// An entry's match, field by field.
fn matches(table: Option<&TableInfo>, key: &EntryKey) -> Vec<(String, String)> {
    let name = |i: usize| table.and_then(|t| t.key.get(i)).map(|f| f.name.clone());
    key.fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let value = match field {
                FieldMatch::Exact(value) => number(value),
                FieldMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", number(value)),
                FieldMatch::Ternary { value, mask } => {
                    format!("{} &&& {}", number(value), number(mask))
                }
                FieldMatch::Range { low, high } => format!("{}..{}", number(low), number(high)),
                FieldMatch::Any => "*".to_owned(),
            };
            (name(i).unwrap_or_else(|| i.to_string()), value)
        })
        .collect()
}

fn number(bytes: &[u8]) -> String {
    format!("0x{}", hex(bytes))
}

/// v1model's `instance_type` in words.
fn why(instance_type: u32) -> &'static str {
    match instance_type {
        0 => "normal",
        1 => "ingress clone",
        2 => "egress clone",
        4 => "recirculated",
        5 => "replicated",
        6 => "resubmitted",
        _ => "unknown",
    }
}

/// The names that core.p4 gives to parser errors.
fn parser_error(code: u32) -> Option<&'static str> {
    Some(match code {
        0 => "NoError",
        1 => "PacketTooShort",
        2 => "NoMatch",
        3 => "StackOutOfBounds",
        4 => "HeaderTooShort",
        5 => "ParserTimeout",
        6 => "ParserInvalidArgument",
        _ => return None,
    })
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read() {
        let packet = |text: &str| text.parse::<Packet>().map(|p| p.0);
        assert_eq!(packet("0aFf"), Ok(vec![10, 255]));
        assert_eq!(packet("0x0a ff\n"), Ok(vec![10, 255]));
        assert_eq!(packet("0a:ff"), Ok(vec![10, 255]));
        assert_eq!(packet(""), Ok(vec![]));
        assert!(packet("0ag0").unwrap_err().contains("'g' at position 3"));
        assert!(packet("0af").unwrap_err().contains("3 digits"));
    }
}
