//! A packet's path for machines.

use serde_json::{Map, Value, json};
use softswitch::stf::Priority;
use softswitch::{EntryAction, TraceEvent};

use super::{Path, hex, matches, parser_error, why};

impl Path<'_> {
    /// An object with the packet and its events, in order.
    pub(super) fn json(&self) -> Value {
        let mut sent = self.sent.iter();
        let events: Vec<_> = self
            .events
            .iter()
            .map(|event| self.event(event, &mut sent))
            .collect();
        json!({
            "port": self.port,
            "packet": hex(self.packet),
            "events": events,
        })
    }

    fn event<'s>(&self, event: &TraceEvent, sent: &mut impl Iterator<Item = &'s Vec<u8>>) -> Value {
        match event {
            TraceEvent::Ingress {
                instance_type,
                bytes,
            } => json!({
                "event": "ingress", "bytes": bytes,
                "instance_type": instance_type, "why": why(*instance_type),
            }),
            TraceEvent::Egress {
                port,
                instance_type,
            } => json!({
                "event": "egress", "port": port,
                "instance_type": instance_type, "why": why(*instance_type),
            }),
            TraceEvent::ParserState { name } => json!({"event": "parser_state", "name": name}),
            TraceEvent::Extracted { header, bytes } => {
                json!({"event": "extracted", "header": header, "bytes": bytes})
            }
            TraceEvent::ParserError { code } => {
                json!({"event": "parser_error", "code": code, "name": parser_error(*code)})
            }
            TraceEvent::ChecksumVerified { name, computed, ok } => json!({
                "event": "checksum_verified", "name": name, "computed": computed, "ok": ok,
            }),
            TraceEvent::ChecksumUpdated { name, computed } => {
                json!({"event": "checksum_updated", "name": name, "computed": computed})
            }
            TraceEvent::Condition { name, value } => {
                json!({"event": "condition", "name": name, "value": value})
            }
            TraceEvent::Table { name, key, entry } => {
                let entry = entry.as_ref().map(|state| {
                    let entry = &state.entry;
                    let mut object = Map::new();
                    object.insert("match".into(), pairs(matches(self.table(name), &entry.key)));
                    let priority = entry.key.priority;
                    object.insert("priority".into(), priority.into());
                    if let Some(written) = self.written_priority(name, priority) {
                        let written = match written {
                            Priority::HigherWins(n) => Value::from(n),
                            Priority::LowerWins(n) => Value::from(n),
                        };
                        object.insert("written_priority".into(), written);
                    }
                    match entry.action {
                        EntryAction::Call(_) => {}
                        EntryAction::Member(id) => {
                            object.insert("member".into(), id.into());
                        }
                        EntryAction::Group(id) => {
                            object.insert("group".into(), id.into());
                        }
                    }
                    Value::Object(object)
                });
                json!({
                    "event": "table", "name": name, "hit": entry.is_some(),
                    "key": pairs(key.iter().cloned()), "entry": entry,
                })
            }
            TraceEvent::Action { name, params } => {
                let params = self.parameters(name, params);
                let params = params.into_iter().map(|(name, value)| (name, value.into()));
                json!({"event": "action", "name": name, "params": pairs(params)})
            }
            TraceEvent::FieldChanged { field, from, to } => {
                json!({"event": "field_changed", "field": field, "from": from, "to": to})
            }
            TraceEvent::ValidityChanged { header, valid } => {
                json!({"event": "validity_changed", "header": header, "valid": valid})
            }
            TraceEvent::Log { text } => json!({"event": "log", "text": text}),
            TraceEvent::Copied {
                why,
                port,
                instance,
            } => json!({"event": "copied", "why": why, "port": port, "instance": instance}),
            TraceEvent::NotCloned {
                session,
                session_exists,
            } => json!({
                "event": "not_cloned", "session": session, "session_exists": session_exists,
            }),
            TraceEvent::Digest { name } => json!({"event": "digest", "name": name}),
            TraceEvent::Sent { port, bytes } => json!({
                "event": "sent", "port": port, "bytes": bytes,
                "packet_in": self.cpu_port == Some(*port),
                "packet": sent.next().map(|packet| hex(packet)),
            }),
            TraceEvent::Dropped { reason } => json!({"event": "dropped", "reason": reason}),
        }
    }
}

/// An object of strings.
fn pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Value {
    Value::Object(pairs.into_iter().map(|(k, v)| (k, v.into())).collect())
}
