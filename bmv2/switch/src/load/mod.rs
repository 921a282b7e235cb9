//! The JSON document as p4c writes it, before any of it is believed.
//!
//! Unknown keys are tolerated, as bmv2 does (`source_info`, `pi_omit` and the
//! like). Expressions and parameters stay as JSON values here: their shape
//! depends on what they describe, and `lower` checks it.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::program::LoadError;

/// Deepest nesting of arrays and objects that is read. p4c needs two levels
/// for each operator of an expression.
const MAX_DEPTH: usize = 1024;

/// Largest file that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Version of the format up to which bmv2 itself reads.
pub(crate) const VERSION: (u32, u32) = (2, 24);

#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    #[serde(default)]
    pub(crate) header_types: Vec<HeaderType>,
    #[serde(default)]
    pub(crate) headers: Vec<Header>,
    #[serde(default)]
    pub(crate) header_stacks: Vec<HeaderStack>,
    #[serde(default)]
    pub(crate) header_union_types: Vec<UnionType>,
    #[serde(default)]
    pub(crate) header_unions: Vec<Union>,
    #[serde(default)]
    pub(crate) header_union_stacks: Vec<UnionStack>,
    #[serde(default)]
    pub(crate) field_lists: Vec<FieldList>,
    #[serde(default)]
    pub(crate) errors: Vec<(String, u32)>,
    #[serde(default)]
    pub(crate) parsers: Vec<Parser>,
    #[serde(default)]
    pub(crate) parse_vsets: Vec<ParseVset>,
    #[serde(default)]
    pub(crate) deparsers: Vec<Deparser>,
    #[serde(default)]
    pub(crate) meter_arrays: Vec<MeterArray>,
    #[serde(default)]
    pub(crate) counter_arrays: Vec<CounterArray>,
    #[serde(default)]
    pub(crate) register_arrays: Vec<RegisterArray>,
    #[serde(default)]
    pub(crate) calculations: Vec<Calculation>,
    #[serde(default)]
    pub(crate) learn_lists: Vec<FieldList>,
    #[serde(default)]
    pub(crate) actions: Vec<Action>,
    #[serde(default)]
    pub(crate) pipelines: Vec<Pipeline>,
    #[serde(default)]
    pub(crate) checksums: Vec<Checksum>,
    #[serde(default)]
    pub(crate) extern_instances: Vec<ExternInstance>,
    #[serde(default)]
    pub(crate) field_aliases: Vec<(String, (String, String))>,
    #[serde(default, rename = "__meta__")]
    meta: Option<Meta>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    version: Option<(u32, u32)>,
}

/// A field is `[name, width]`, `[name, width, signed]` or
/// `[name, width, signed, saturating]`; the width `"*"` is a varbit.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderType {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) fields: Vec<Vec<Json>>,
    pub(crate) max_length: Option<u32>,
    pub(crate) length_exp: Option<Json>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) header_type: String,
    #[serde(default)]
    pub(crate) metadata: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HeaderStack {
    pub(crate) name: String,
    pub(crate) header_type: String,
    pub(crate) header_ids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UnionType {
    pub(crate) name: String,
    pub(crate) headers: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Union {
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) union_type: String,
    pub(crate) header_ids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UnionStack {
    pub(crate) name: String,
    pub(crate) union_type: String,
    pub(crate) header_union_ids: Vec<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FieldList {
    pub(crate) id: u32,
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) elements: Vec<Operand>,
}

/// Anything of the shape `{"type": …, "value": …}`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Operand {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) value: Json,
    pub(crate) bitwidth: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Parser {
    pub(crate) name: String,
    pub(crate) init_state: Option<String>,
    #[serde(default)]
    pub(crate) parse_states: Vec<ParseState>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ParseState {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) parser_ops: Vec<ParserOp>,
    #[serde(default)]
    pub(crate) transitions: Vec<Transition>,
    #[serde(default)]
    pub(crate) transition_key: Vec<Operand>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ParserOp {
    pub(crate) op: String,
    #[serde(default)]
    pub(crate) parameters: Vec<Json>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Transition {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) mask: Option<String>,
    pub(crate) next_state: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ParseVset {
    pub(crate) name: String,
    pub(crate) compressed_bitwidth: u32,
    #[serde(default)]
    pub(crate) max_size: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Deparser {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) order: Vec<String>,
    #[serde(default)]
    pub(crate) primitives: Vec<Primitive>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MeterArray {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) unit: String,
    pub(crate) rate_count: u32,
    #[serde(default)]
    pub(crate) size: u32,
    #[serde(default)]
    pub(crate) is_direct: bool,
    pub(crate) result_target: Option<(String, String)>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CounterArray {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) size: u32,
    #[serde(default)]
    pub(crate) is_direct: bool,
    pub(crate) binding: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RegisterArray {
    pub(crate) name: String,
    pub(crate) size: u32,
    pub(crate) bitwidth: u32,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Calculation {
    pub(crate) name: String,
    pub(crate) algo: String,
    /// Operands, and lists of them: p4c leaves structs nested.
    #[serde(default)]
    pub(crate) input: Vec<Json>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Action {
    pub(crate) name: String,
    pub(crate) id: u32,
    #[serde(default)]
    pub(crate) runtime_data: Vec<RuntimeData>,
    #[serde(default)]
    pub(crate) primitives: Vec<Primitive>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RuntimeData {
    pub(crate) name: String,
    pub(crate) bitwidth: u32,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Primitive {
    pub(crate) op: String,
    #[serde(default)]
    pub(crate) parameters: Vec<Operand>,
    pub(crate) source_info: Option<SourceInfo>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SourceInfo {
    #[serde(default)]
    pub(crate) filename: String,
    #[serde(default)]
    pub(crate) line: u32,
    #[serde(default)]
    pub(crate) source_fragment: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Pipeline {
    pub(crate) name: String,
    pub(crate) init_table: Option<String>,
    #[serde(default)]
    pub(crate) tables: Vec<Table>,
    #[serde(default)]
    pub(crate) action_profiles: Vec<ActionProfile>,
    #[serde(default)]
    pub(crate) conditionals: Vec<Conditional>,
    #[serde(default)]
    pub(crate) action_calls: Vec<ActionCall>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Table {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) key: Vec<KeyField>,
    pub(crate) match_type: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) max_size: Option<u32>,
    #[serde(default)]
    pub(crate) with_counters: bool,
    #[serde(default)]
    pub(crate) support_timeout: bool,
    pub(crate) direct_meters: Option<String>,
    #[serde(default)]
    pub(crate) action_ids: Vec<u32>,
    pub(crate) action_profile: Option<String>,
    pub(crate) base_default_next: Option<String>,
    #[serde(default)]
    pub(crate) next_tables: HashMap<String, Option<String>>,
    pub(crate) default_entry: Option<DefaultEntry>,
    pub(crate) entries: Option<Vec<Entry>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct KeyField {
    pub(crate) match_type: String,
    pub(crate) name: Option<String>,
    /// `[header, field]`, or a header's name where the kind is `valid`.
    pub(crate) target: Json,
    pub(crate) mask: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DefaultEntry {
    pub(crate) action_id: u32,
    #[serde(default)]
    pub(crate) action_const: bool,
    #[serde(default)]
    pub(crate) action_data: Vec<String>,
    #[serde(default)]
    pub(crate) action_entry_const: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Entry {
    pub(crate) match_key: Vec<EntryKey>,
    pub(crate) action_entry: EntryAction,
    #[serde(default)]
    pub(crate) priority: i32,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EntryKey {
    pub(crate) match_type: String,
    #[serde(default)]
    pub(crate) key: Json,
    pub(crate) mask: Option<String>,
    pub(crate) prefix_length: Option<u32>,
    pub(crate) start: Option<String>,
    pub(crate) end: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct EntryAction {
    pub(crate) action_id: u32,
    #[serde(default)]
    pub(crate) action_data: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ActionProfile {
    pub(crate) name: String,
    pub(crate) max_size: u32,
    pub(crate) selector: Option<Selector>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Selector {
    pub(crate) algo: String,
    /// Operands, and lists of them: p4c leaves structs nested.
    #[serde(default)]
    pub(crate) input: Vec<Json>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Conditional {
    pub(crate) name: String,
    pub(crate) expression: Json,
    pub(crate) true_next: Option<String>,
    pub(crate) false_next: Option<String>,
    #[serde(default)]
    pub(crate) source_info: Option<SourceInfo>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ActionCall {
    pub(crate) name: String,
    pub(crate) action_id: u32,
    pub(crate) next_node: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ExternInstance {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, rename = "type")]
    pub(crate) kind: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Checksum {
    pub(crate) name: String,
    pub(crate) target: (String, String),
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) calculation: Option<String>,
    #[serde(default = "yes")]
    pub(crate) verify: bool,
    #[serde(default = "yes")]
    pub(crate) update: bool,
    pub(crate) if_cond: Option<Json>,
}

fn yes() -> bool {
    true
}

/// Reads the document and checks its version.
pub(crate) fn parse(json: &[u8]) -> Result<Document, LoadError> {
    if json.len() > MAX_BYTES {
        return Err(LoadError::Limit {
            place: "the file".into(),
            what: format!("its length of {} bytes", json.len()),
            limit: MAX_BYTES as u64,
        });
    }
    check_depth(json)?;
    let mut reader = serde_json::Deserializer::from_slice(json);
    reader.disable_recursion_limit();
    let document = Document::deserialize(&mut reader)
        .and_then(|d| reader.end().map(|()| d))
        .map_err(|e| LoadError::Syntax(e.to_string()))?;
    if let Some((major, minor)) = document.meta.as_ref().and_then(|m| m.version)
        && (major != VERSION.0 || minor > VERSION.1)
    {
        return Err(LoadError::Version { major, minor });
    }
    Ok(document)
}

/// Refuses nesting that would need more stack than the reader may use.
fn check_depth(json: &[u8]) -> Result<(), LoadError> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(LoadError::Limit {
                place: "the file".into(),
                what: "the nesting of its arrays and objects".into(),
                limit: MAX_DEPTH as u64,
            });
        }
    }
    Ok(())
}
