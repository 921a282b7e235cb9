//! A small program, as its JSON document.

use serde_json::{Value as Json, json};
use softswitch::{LoadError, Program};

/// A program with a header `h` (`a` and `b` of 8 bits, `c` of 16) and a stack
/// `s` of two of them. It extracts one into each of `h`, `s[0]` and `s[1]`, as
/// far as the packet goes, runs the primitives, sends the packet to port 1.
pub(crate) fn document(primitives: Json) -> Json {
    let standard = [
        ("ingress_port", 9),
        ("egress_spec", 9),
        ("egress_port", 9),
        ("instance_type", 32),
        ("packet_length", 32),
        ("priority", 3),
        ("padding", 3),
    ];
    let standard: Vec<Json> = standard.iter().map(|(n, w)| json!([n, w, false])).collect();
    let header = |name: &str, id: u32, metadata: bool| {
        let ty = if metadata { name } else { "h_t" };
        json!({"name": name, "id": id, "header_type": ty, "metadata": metadata})
    };
    let extract = |kind: &str, name: &str| json!({"op": "extract", "parameters": [{"type": kind, "value": name}]});
    json!({
        "header_types": [
            {"name": "scalars", "id": 0, "fields": [["index", 32, false], ["flag", 1, false]]},
            {"name": "standard_metadata", "id": 1, "fields": standard},
            {"name": "h_t", "id": 2, "fields": [["a", 8, false], ["b", 8, false], ["c", 16, false]]},
        ],
        "headers": [
            header("scalars", 0, true),
            header("standard_metadata", 1, true),
            header("h", 2, false),
            header("s[0]", 3, false),
            header("s[1]", 4, false),
        ],
        "header_stacks": [{"name": "s", "id": 0, "header_type": "h_t", "size": 2, "header_ids": [3, 4]}],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
            "name": "start", "id": 0,
            "parser_ops": [extract("regular", "h"), extract("stack", "s"), extract("stack", "s")],
            "transitions": [], "transition_key": []}]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h", "s[0]", "s[1]"]}],
        "actions": [{"name": "all", "id": 0, "runtime_data": [], "primitives": primitives}],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "run",
             "action_calls": [{"name": "run", "id": 0, "action_id": 0, "next_node": null}]},
            {"name": "egress", "id": 1, "init_table": null},
        ],
    })
}

/// A field as an operand.
pub(crate) fn field(header: &str, name: &str) -> Json {
    json!({"type": "field", "value": [header, name]})
}

/// A constant as an operand.
pub(crate) fn hex(n: u32) -> Json {
    json!({"type": "hexstr", "value": format!("{n:#x}")})
}

/// A primitive or an operation of the parser.
pub(crate) fn op(name: &str, parameters: &[Json]) -> Json {
    json!({"op": name, "parameters": parameters})
}

/// Loads a document.
pub(crate) fn load(document: &Json) -> Result<Program, LoadError> {
    Program::load(document.to_string().as_bytes())
}
