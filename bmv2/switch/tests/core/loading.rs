//! What programs may contain beside what p4c's usual samples do.

use serde_json::{Value as Json, json};
use softswitch::{LoadError, Switch, SwitchConfig};

use crate::build::{Out, bytes, run};
use crate::small::{document, field, hex, load, op};

/// What `h` begins with after the primitives.
fn h_after(primitives: &[Json], packet: &str) -> Vec<u8> {
    let mut all = primitives.to_vec();
    all.push(op(
        "assign",
        &[field("standard_metadata", "egress_spec"), hex(1)],
    ));
    let program = load(&document(json!(all))).unwrap();
    let s = Switch::new(SwitchConfig::default());
    s.install(program);
    match run(&mut s.worker(), 0, &bytes(packet), 0).as_slice() {
        [Out::Sent(1, out)] => out[..4].to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arithmetic_of_older_compilers() {
    let (a, b, c) = (field("h", "a"), field("h", "b"), field("h", "c"));
    for (primitive, want) in [
        (op("add_to_field", &[a.clone(), b.clone()]), "0305 0102"),
        (op("add_to_field", &[a.clone(), hex(0x103)]), "0105 0102"),
        (
            op("subtract_from_field", &[a.clone(), hex(0xff)]),
            "ff05 0102",
        ),
        (op("add", &[c.clone(), a.clone(), b.clone()]), "fe05 0103"),
        (
            op("subtract", &[c.clone(), b.clone(), a.clone()]),
            "fe05 ff07",
        ),
        (
            op("bit_and", &[c.clone(), a.clone(), hex(0x13c)]),
            "fe05 003c",
        ),
        (
            op("bit_or", &[c.clone(), a.clone(), hex(0x101)]),
            "fe05 01ff",
        ),
        (
            op("bit_xor", &[c.clone(), a.clone(), hex(0xff)]),
            "fe05 0001",
        ),
        (
            op("shift_left", &[c.clone(), a.clone(), hex(4)]),
            "fe05 0fe0",
        ),
        (
            op("shift_right", &[c.clone(), a.clone(), hex(4)]),
            "fe05 000f",
        ),
        (op("modify_field", &[c.clone(), b.clone()]), "fe05 0005"),
    ] {
        assert_eq!(
            h_after(std::slice::from_ref(&primitive), "fe05 0102"),
            bytes(want),
            "{primitive}"
        );
    }
}

#[test]
fn the_last_element_and_validity_chosen_at_run_time() {
    let packet = "00000000 11111111 22222222";
    // p4c writes `s.last` like a field of that name.
    let last =
        json!({"type": "expression", "value": {"type": "stack_field", "value": ["s", "last"]}});
    let copy = op(
        "assign_header",
        &[json!({"type": "header", "value": "h"}), last],
    );
    assert_eq!(
        h_after(std::slice::from_ref(&copy), packet),
        bytes("22222222")
    );
    assert_eq!(h_after(&[copy], "00000000 11111111"), bytes("11111111"));
    // And `s[index].isValid()` like a field of an expression.
    let chosen = json!([
        {"op": "dereference_header_stack", "left": {"type": "header_stack", "value": "s"},
         "right": field("h", "a")},
        "$valid$"
    ]);
    let valid = json!({"type": "expression", "value": {"type": "expression",
        "value": {"op": "d2b", "left": null, "right": {"type": "field", "value": chosen}}}});
    let note = op("assign", &[field("h", "c"), valid]);
    let one = "00000000 11111111";
    assert_eq!(h_after(std::slice::from_ref(&note), one), bytes("00000001"));
    assert_eq!(
        h_after(&[note], &one.replacen("00", "01", 1)),
        bytes("01000000")
    );
}

#[test]
fn messages_without_values() {
    let text = json!({"type": "string", "value": "hello"});
    let log = op(
        "log_msg",
        &[text, json!({"type": "parameters_vector", "value": {}})],
    );
    assert_eq!(h_after(&[log], "01020304"), bytes("01020304"));
}

#[test]
fn constants_in_field_lists_are_skipped() {
    let mut d = document(json!([]));
    d["field_lists"] = json!([{"id": 1, "name": "l", "elements": [
        field("scalars", "flag"), {"type": "hexstr", "value": "0x1", "bitwidth": 8}]}]);
    assert!(load(&d).is_ok());
    // bmv2 takes only fields into a digest.
    d["learn_lists"] = d["field_lists"].clone();
    let error = load(&d).unwrap_err().to_string();
    assert!(error.starts_with("learn list \"l\": "), "{error}");
}

#[test]
fn a_jump_in_the_parser_ends_its_primitive() {
    let mut d = document(json!([]));
    let ops = &mut d["parsers"][0]["parse_states"][0]["parser_ops"];
    ops[1] = json!({"op": "primitive", "parameters": [op("_jump", &[hex(1)])]});
    assert!(load(&d).is_ok());
    // One that goes back to itself never ends: the packet does.
    let ops = &mut d["parsers"][0]["parse_states"][0]["parser_ops"];
    ops[1] = json!({"op": "primitive", "parameters": [op("_jump", &[hex(0)])]});
    let s = Switch::new(SwitchConfig::default());
    s.install(load(&d).unwrap());
    assert_eq!(
        run(&mut s.worker(), 0, &[0; 12], 0),
        [Out::Dropped("program_fault")]
    );
    let ops = &mut d["parsers"][0]["parse_states"][0]["parser_ops"];
    ops[1] = json!({"op": "primitive", "parameters": [op("_jump", &[hex(2)])]});
    assert!(load(&d).is_err());
}

#[test]
fn externs_of_modules_are_named() {
    let mut d = document(json!([]));
    d["extern_instances"] = json!([{"name": "c", "id": 0, "type": "jnf_counter"}]);
    let error = load(&d).unwrap_err();
    assert!(matches!(error, LoadError::Unsupported { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("\"c\"") && text.contains("\"jnf_counter\""),
        "{text}"
    );
    // Without an instance, what calls it is named.
    let error = load(&document(json!([op("_jnf_counter_count_2", &[])]))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"_jnf_counter_count_2\""), "{text}");
}

#[test]
fn a_field_without_width_holds_nothing() {
    let send = op(
        "assign",
        &[field("standard_metadata", "egress_spec"), hex(1)],
    );
    let set = op("assign", &[field("scalars", "index"), hex(5)]);
    let copy = op("assign", &[field("h", "a"), field("scalars", "index")]);
    let mut d = document(json!([set, copy, send]));
    d["header_types"][0]["fields"][0][1] = json!(0);
    let s = Switch::new(SwitchConfig::default());
    s.install(load(&d).unwrap());
    let mut w = s.worker();
    assert_eq!(
        run(&mut w, 3, &[7, 2, 3, 4], 0),
        [Out::Sent(1, vec![0, 2, 3, 4])]
    );
}

#[test]
fn a_key_without_a_header_is_named() {
    let mut d = document(json!([]));
    let target = json!({"type": "expression", "value": {"op": "access_field", "right": 0}});
    d["pipelines"][1]["tables"] = json!([{"name": "t", "id": 0, "match_type": "exact",
        "type": "simple", "key": [{"match_type": "exact", "target": target}]}]);
    let text = load(&d).unwrap_err().to_string();
    assert!(text.starts_with("table \"t\" key field 0: "), "{text}");
}

/// `hash(h.c, algorithm, 0, {h.a, h.b}, 0xffffffff)`.
fn hashed(algorithm: &str, times: usize) -> Result<Vec<u8>, LoadError> {
    let hash = op(
        "modify_field_with_hash_based_offset",
        &[
            field("h", "c"),
            hex(0),
            json!({"type": "calculation", "value": "calc"}),
            hex(u32::MAX),
        ],
    );
    let send = op(
        "assign",
        &[field("standard_metadata", "egress_spec"), hex(1)],
    );
    let mut d = document(json!([hash, send]));
    d["calculations"] = json!([{"name": "calc", "id": 0, "algo": algorithm,
        "input": [field("h", "a"), field("h", "b")]}]);
    let s = Switch::new(SwitchConfig::default());
    s.install(load(&d)?);
    let mut w = s.worker();
    let mut last = Vec::new();
    for n in 0..times {
        // The first and third packet are alike.
        let packet = [0x12, 0x34, 0, 0].map(|b| b + (n % 2) as u8);
        match run(&mut w, 0, &packet, 0).as_slice() {
            [Out::Sent(1, out)] => last = out[2..4].to_vec(),
            other => panic!("{other:?}"),
        }
    }
    Ok(last)
}

#[test]
fn hashes_by_their_names() {
    // Of the bytes 12 34: CRC-16/XMODEM and CRC-16/UMTS by hand.
    assert_eq!(hashed("xmodem", 1).unwrap(), [0x13, 0xc6]);
    assert_eq!(hashed("poly_0x11021_not_rev", 1).unwrap(), [0x13, 0xc6]);
    assert_eq!(hashed("toeplitz", 1).unwrap(), [0, 0]);
    assert_eq!(hashed("round_robin", 3).unwrap(), [0, 2]);
    assert_eq!(hashed("round_robin_consistent", 3).unwrap(), [0, 0]);
    assert_ne!(hashed("random", 1).unwrap(), hashed("random", 2).unwrap());
    let text = hashed("sha1", 1).unwrap_err().to_string();
    assert!(text.contains("\"sha1\""), "{text}");
}
