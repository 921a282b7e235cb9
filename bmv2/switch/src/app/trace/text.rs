//! A packet's path for people.

use std::fmt::Write as _;

use softswitch::stf::Priority;
use softswitch::{EntryAction, TraceEvent};

use super::{Path, hex, matches, parser_error, why};

/// Width of the column that names the step.
const STEP: usize = 11;

impl Path<'_> {
    /// Several lines, the last one ended.
    pub(super) fn text(&self) -> String {
        let mut text = Lines::default();
        text.line(
            0,
            "packet",
            &format!("{} bytes into port {}", self.packet.len(), self.port),
        );
        let mut sent = self.sent.iter();
        // The action of a table stands with it.
        let mut in_table = false;
        for event in self.events {
            let depth = if in_table { 2 } else { 1 };
            in_table = matches!(event, TraceEvent::Table { .. });
            match event {
                TraceEvent::Ingress {
                    instance_type,
                    bytes,
                } => text.line(
                    0,
                    "ingress",
                    &format!("{bytes} bytes, {}", why(*instance_type)),
                ),
                TraceEvent::Egress {
                    port,
                    instance_type,
                } => text.line(
                    0,
                    "egress",
                    &format!("port {port}, {}", why(*instance_type)),
                ),
                TraceEvent::ParserState { name } => text.line(1, "state", name),
                TraceEvent::Extracted { header, bytes } => {
                    text.line(2, "extract", &format!("{header}, {bytes} bytes"));
                }
                TraceEvent::ParserError { code } => {
                    let name = parser_error(*code).unwrap_or("of the program");
                    text.line(2, "error", &format!("{code} ({name})"));
                }
                TraceEvent::ChecksumVerified { name, computed, ok } => {
                    let verdict = if *ok { "right" } else { "wrong" };
                    text.line(1, "verify", &format!("{name}: {verdict}, {computed:#x}"));
                }
                TraceEvent::ChecksumUpdated { name, computed } => {
                    text.line(1, "checksum", &format!("{name} = {computed:#x}"));
                }
                TraceEvent::Condition { name, value } => {
                    text.line(1, "if", &format!("{name}: {value}"));
                }
                TraceEvent::Table { name, key, entry } => {
                    let verdict = if entry.is_some() { "hit" } else { "miss" };
                    text.line(1, "table", &format!("{name}: {verdict}"));
                    let fields = key.iter().map(|(n, v)| (n.as_str(), v.as_str()));
                    text.pairs("key", fields, " = ");
                    let Some(state) = entry else { continue };
                    let fields = matches(self.table(name), &state.entry.key);
                    let fields = fields.iter().map(|(n, v)| (n.as_str(), v.as_str()));
                    text.pairs("entry", fields, " = ");
                    if state.entry.key.priority != 0 {
                        let priority = state.entry.key.priority;
                        let priority = match self.written_priority(name, priority) {
                            None => format!("priority {priority}"),
                            Some(Priority::HigherWins(n)) => {
                                format!("priority {n} (the higher number wins)")
                            }
                            Some(Priority::LowerWins(n)) => {
                                format!("priority {n} (the lower number wins)")
                            }
                        };
                        text.line(2, "", &priority);
                    }
                    match state.entry.action {
                        EntryAction::Call(_) => {}
                        EntryAction::Member(id) => text.line(2, "member", &id.to_string()),
                        EntryAction::Group(id) => text.line(2, "group", &id.to_string()),
                    }
                }
                TraceEvent::Action { name, params } => {
                    let params: Vec<_> = self
                        .parameters(name, params)
                        .into_iter()
                        .map(|(name, value)| format!("{name} = {value}"))
                        .collect();
                    text.line(depth, "action", &format!("{name}({})", params.join(", ")));
                }
                TraceEvent::FieldChanged { field, from, to } => {
                    text.line(2, "set", &format!("{field}: {from} -> {to}"));
                }
                TraceEvent::ValidityChanged { header, valid } => {
                    let now = if *valid { "valid" } else { "invalid" };
                    text.line(2, "header", &format!("{header}: {now}"));
                }
                TraceEvent::Log { text: said } => text.line(2, "log", said),
                TraceEvent::Copied {
                    why,
                    port,
                    instance,
                } => text.line(
                    1,
                    "copy",
                    &format!("{why} to port {port}, instance {instance}"),
                ),
                TraceEvent::NotCloned {
                    session,
                    session_exists,
                } => {
                    let why = if *session_exists {
                        "it has no port"
                    } else {
                        "there is no such session"
                    };
                    text.line(1, "no clone", &format!("to session {session}: {why}"));
                }
                TraceEvent::Digest { name } => text.line(1, "digest", name),
                TraceEvent::Sent { port, bytes } => {
                    let to = if self.cpu_port == Some(*port) {
                        format!("the controller (port {port})")
                    } else {
                        format!("port {port}")
                    };
                    text.line(0, "sent", &format!("{bytes} bytes to {to}"));
                    if let Some(packet) = sent.next() {
                        for piece in packet.chunks(32) {
                            text.line(2, "", &hex(piece));
                        }
                    }
                }
                TraceEvent::Dropped { reason } => text.line(0, "dropped", reason),
            }
        }
        text.0
    }
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, depth: usize, step: &str, what: &str) {
        let indent = depth * 2;
        let width = STEP + 4 - indent;
        let _ = writeln!(self.0, "{:indent$}{step:width$}{what}", "");
    }

    /// Names and values under each other, the values aligned.
    fn pairs<'p>(
        &mut self,
        step: &str,
        pairs: impl Iterator<Item = (&'p str, &'p str)> + Clone,
        between: &str,
    ) {
        let width = pairs.clone().map(|(name, _)| name.len()).max();
        let width = width.unwrap_or(0);
        for (i, (name, value)) in pairs.enumerate() {
            let step = if i == 0 { step } else { "" };
            self.line(2, step, &format!("{name:width$}{between}{value}"));
        }
    }
}
