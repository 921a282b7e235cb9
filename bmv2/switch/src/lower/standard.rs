//! Standard metadata that the switch itself reads and writes.

use super::symbols::{Symbols, invalid};
use crate::ir::bits::Loc;
use crate::ir::{Field, Standard};
use crate::program::LoadError;

/// Standard metadata; to be called when all that can name a field is lowered.
pub(super) fn standard(symbols: &Symbols) -> Result<Standard, LoadError> {
    let place = "standard_metadata";
    let header = symbols.header_of_fields(place, "standard_metadata")?;
    let field = |name: &str| symbols.field_of(place, header, name).ok();
    let required = |name: &str| match field(name).and_then(|f| Some((f, f.loc()?))) {
        Some(found) => Ok(found),
        None => invalid(place, format!("it has no field {name:?}")),
    };
    let named = |(f, loc): (Field, Loc)| symbols.is_named(f).then_some(loc);
    let optional = |name: &str| required(name).ok().and_then(named);
    Ok(Standard {
        ingress_port: named(required("ingress_port")?),
        egress_spec: required("egress_spec")?.1,
        egress_port: named(required("egress_port")?),
        instance_type: required("instance_type")?.1,
        packet_length: named(required("packet_length")?),
        enq_timestamp: optional("enq_timestamp"),
        enq_qdepth: optional("enq_qdepth"),
        deq_timedelta: optional("deq_timedelta"),
        deq_qdepth: optional("deq_qdepth"),
        ingress_timestamp: optional("ingress_global_timestamp"),
        egress_timestamp: optional("egress_global_timestamp"),
        mcast_grp: optional("mcast_grp"),
        egress_rid: optional("egress_rid"),
        checksum_error: optional("checksum_error"),
        parser_error: optional("parser_error"),
        priority: optional("priority"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use crate::program::Program;

    const NAMES: [&str; 8] = [
        "ingress_port",
        "egress_spec",
        "egress_port",
        "instance_type",
        "packet_length",
        "deq_qdepth",
        "priority",
        "mcast_grp",
    ];

    /// Which of those that it may leave alone the switch sets in a program
    /// where `key` of the document, and the parser's select key, are these.
    fn set(key: &str, value: Json, select: Json) -> Vec<&'static str> {
        let mut fields: Vec<Json> = NAMES.iter().map(|n| json!([n, 16, false])).collect();
        fields.push(json!(["_padding", 3, false]));
        let mut document = json!({
            "header_types": [{"name": "standard_metadata", "id": 0, "fields": fields}],
            "headers": [{"name": "standard_metadata", "id": 0,
                         "header_type": "standard_metadata", "metadata": true}],
            "field_aliases": [["queueing_metadata.depth", ["standard_metadata", "deq_qdepth"]]],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
                "name": "start", "id": 0, "parser_ops": [],
                "transitions": [], "transition_key": select}]}],
            "deparsers": [{"name": "deparser", "id": 0, "order": []}],
            "pipelines": [
                {"name": "ingress", "id": 0, "init_table": null},
                {"name": "egress", "id": 1, "init_table": null},
            ],
        });
        document[key] = value;
        let program = Program::load(document.to_string().as_bytes()).unwrap();
        let s = &program.ir.standard;
        [
            ("ingress_port", s.ingress_port),
            ("egress_port", s.egress_port),
            ("packet_length", s.packet_length),
            ("deq_qdepth", s.deq_qdepth),
            ("priority", s.priority),
            ("mcast_grp", s.mcast_grp),
        ]
        .iter()
        .filter_map(|(name, loc)| loc.map(|_| *name))
        .collect()
    }

    fn field(header: &str, name: &str) -> Json {
        json!({"type": "field", "value": [header, name]})
    }

    /// An action of one primitive.
    fn action(op: &str, parameters: Json) -> Json {
        json!([{"name": "a", "id": 0, "runtime_data": [],
                "primitives": [{"op": op, "parameters": parameters}]}])
    }

    #[test]
    fn only_what_the_program_names_is_set() {
        let (of, none) = (|name| field("standard_metadata", name), json!([]));
        assert!(set("actions", json!([]), none.clone()).is_empty());
        assert_eq!(
            set("actions", json!([]), json!([of("ingress_port")])),
            ["ingress_port"]
        );
        let assign = action("assign", json!([of("priority"), of("packet_length")]));
        assert_eq!(
            set("actions", assign, none.clone()),
            ["packet_length", "priority"]
        );
        let alias = action(
            "assign",
            json!([of("instance_type"), field("queueing_metadata", "depth")]),
        );
        assert_eq!(set("actions", alias, none.clone()), ["deq_qdepth"]);
        let list = json!([{"name": "l", "id": 1, "elements": [of("egress_port")]}]);
        assert_eq!(
            set("field_lists", list.clone(), none.clone()),
            ["egress_port"]
        );
        assert_eq!(set("learn_lists", list, none.clone()), ["egress_port"]);
        let hash = |input: Json| json!([{"name": "c", "id": 0, "algo": "crc32", "input": [input]}]);
        assert_eq!(
            set("calculations", hash(of("mcast_grp")), none.clone()),
            ["mcast_grp"]
        );
        // `mark_to_drop` only clears the group.
        let header = json!({"type": "header", "value": "standard_metadata"});
        let drop = action("mark_to_drop", json!([header]));
        assert!(set("actions", drop, none.clone()).is_empty());
        assert_eq!(
            set("calculations", hash(header), none).len(),
            6,
            "the whole header"
        );
    }
}
