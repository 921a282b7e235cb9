//! Primitives that no program of the tests has, since p4c says the same in other
//! words: those of older compilers, and copies of whole stacks and unions.

use serde_json::{Value as Json, json};
use softswitch::{Switch, SwitchConfig};

use crate::build::{Out, bytes, run};
use crate::small::{document, field, hex, load, op};

fn header(name: &str) -> Json {
    json!({"type": "header", "value": name})
}

/// A stack, a union, or a stack of unions.
fn named(kind: &str, name: &str) -> Json {
    json!({"type": kind, "value": name})
}

fn to_port_1() -> Json {
    op(
        "assign",
        &[field("standard_metadata", "egress_spec"), hex(1)],
    )
}

/// What leaves for a packet. The egress port is set first.
fn outcome(document: impl Fn(Json) -> Json, primitives: &[Json], packet: &str) -> Vec<Out> {
    let mut all = vec![to_port_1()];
    all.extend_from_slice(primitives);
    let s = Switch::new(SwitchConfig::default());
    s.install(load(&document(json!(all))).unwrap());
    run(&mut s.worker(), 0, &bytes(packet), 0)
}

fn sent(primitives: &[Json], packet: &str) -> Vec<u8> {
    match outcome(document, primitives, packet).as_slice() {
        [Out::Sent(1, out)] => out.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn headers_of_older_compilers() {
    // `h` and the first element of `s`.
    let packet = "0102 0304 1112 1314";
    let copy = op("copy_header", &[header("h"), header("s[0]")]);
    assert_eq!(sent(&[copy], packet), bytes("1112 1314 1112 1314"));
    // A copy of a header that is not valid is not valid.
    let copy = op("copy_header", &[header("h"), header("s[1]")]);
    assert_eq!(sent(&[copy], packet), bytes("1112 1314"));
    let add = op("add_header_fast", &[header("s[1]")]);
    assert_eq!(sent(&[add], packet), bytes("0102 0304 1112 1314 0000 0000"));
    // One that is there stays as it is.
    let add = op("add_header_fast", &[header("h")]);
    assert_eq!(sent(&[add], packet), bytes(packet));
    assert_eq!(sent(&[op("no_op", &[])], packet), bytes(packet));
}

#[test]
fn packets_are_dropped_by_either_name() {
    for name in ["drop", "mark_to_drop"] {
        let dropped = outcome(document, &[op(name, &[])], "0102 0304");
        assert_eq!(dropped, [Out::Dropped("ingress_drop")], "{name}");
    }
}

#[test]
fn a_false_assumption_drops_the_packet() {
    let is_one = json!({"type": "expression", "value": {
        "op": "==", "left": field("h", "a"), "right": hex(1)}});
    let assume = op("assume", &[is_one]);
    assert_eq!(
        sent(std::slice::from_ref(&assume), "0102 0304"),
        bytes("0102 0304")
    );
    let dropped = outcome(document, &[assume], "0202 0304");
    assert_eq!(dropped, [Out::Dropped("assertion")]);
}

#[test]
fn random_numbers_are_within_their_bounds() {
    let random = |low, high| op("modify_field_rng_uniform", &[field("h", "c"), low, high]);
    let number = |out: &[u8]| u16::from_be_bytes([out[2], out[3]]);
    let mut seen = std::collections::BTreeSet::new();
    let s = Switch::new(SwitchConfig::default());
    let all = [to_port_1(), random(hex(7), hex(10))];
    s.install(load(&document(json!(all))).unwrap());
    let mut worker = s.worker();
    for _ in 0..200 {
        match run(&mut worker, 0, &bytes("0102 0304"), 0).as_slice() {
            [Out::Sent(1, out)] => seen.insert(number(out)),
            other => panic!("{other:?}"),
        };
    }
    // That one of four is never among 200 has a chance of 1 in 10^24.
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [7, 8, 9, 10]);
    let one = sent(&[random(hex(0xffff), hex(0xffff))], "0102 0304");
    assert_eq!(number(&one), 0xffff);
    // No number is within these: the field stays.
    let none = sent(&[random(hex(8), hex(7))], "0102 0304");
    assert_eq!(number(&none), 0x0304);
}

#[test]
fn messages_change_nothing() {
    let none = json!({"type": "parameters_vector", "value": {}});
    let both = json!({"type": "parameters_vector", "value": [field("h", "a"), field("h", "c")]});
    for (text, values) in [("plain", none), ("a is {} and c is {}", both)] {
        let text = json!({"type": "string", "value": text});
        let log = op("log_msg", &[text, values]);
        assert_eq!(sent(&[log], "0102 0304"), bytes("0102 0304"));
    }
}

/// The small program with stacks `s` and `t` of the header `h_t`.
fn with_two_stacks(primitives: Json) -> Json {
    let mut all = document(primitives);
    let headers = all["headers"].as_array_mut().unwrap();
    for (name, id) in [("t[0]", 5), ("t[1]", 6)] {
        headers.push(json!({"name": name, "id": id, "header_type": "h_t", "metadata": false}));
    }
    all["header_stacks"].as_array_mut().unwrap().push(json!({
        "name": "t", "id": 1, "header_type": "h_t", "size": 2, "header_ids": [5, 6]}));
    all["deparsers"][0]["order"] = json!(["t[0]", "t[1]", "h"]);
    all
}

#[test]
fn a_stack_is_copied_with_what_is_valid() {
    let copy = |to, from| {
        op(
            "assign_header_stack",
            &[named("header_stack", to), named("header_stack", from)],
        )
    };
    let out = |primitives: &[Json], packet| match outcome(with_two_stacks, primitives, packet)
        .as_slice()
    {
        [Out::Sent(1, out)] => out.clone(),
        other => panic!("{other:?}"),
    };
    let full = "0102 0304 1112 1314 2122 2324";
    assert_eq!(
        out(&[copy("t", "s")], full),
        bytes("1112 1314 2122 2324 0102 0304")
    );
    // Of one that is half full.
    let half = "0102 0304 1112 1314";
    assert_eq!(out(&[copy("t", "s")], half), bytes("1112 1314 0102 0304"));
    // What was there and is not in the other is gone, and its place is the next.
    let primitives = [
        op("add_header", &[header("t[1]")]),
        copy("t", "s"),
        op("push", &[named("header_stack", "t"), hex(1)]),
    ];
    assert_eq!(out(&primitives, half), bytes("1112 1314 0102 0304"));
}

/// The small program with unions `u` and `v`, and stacks `us` and `vs` of them;
/// each has a member `h_t` and one of the other type `g_t`.
fn with_unions(primitives: Json) -> Json {
    let mut all = document(primitives);
    all["header_types"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "g_t", "id": 3, "fields": [["x", 8, false], ["y", 8, false]]}));
    let members = json!([["one", "h_t"], ["two", "g_t"]]);
    all["header_union_types"] = json!([{"name": "u_t", "id": 0, "headers": members}]);
    let (mut unions, mut order) = (Vec::new(), Vec::new());
    let mut id = 5;
    for (at, name) in ["u", "v", "us[0]", "us[1]", "vs[0]", "vs[1]"]
        .iter()
        .enumerate()
    {
        let (one, two) = (format!("{name}.one"), format!("{name}.two"));
        for (member, kind) in [(&one, "h_t"), (&two, "g_t")] {
            let header = json!({"name": member, "id": id, "header_type": kind, "metadata": false});
            all["headers"].as_array_mut().unwrap().push(header);
            order.push(json!(member));
            id += 1;
        }
        unions.push(json!({"name": name, "id": at, "union_type": "u_t",
                           "header_ids": [id - 2, id - 1]}));
    }
    all["header_unions"] = json!(unions);
    all["header_union_stacks"] = json!([
        {"name": "us", "id": 0, "union_type": "u_t", "size": 2, "header_union_ids": [2, 3]},
        {"name": "vs", "id": 1, "union_type": "u_t", "size": 2, "header_union_ids": [4, 5]},
    ]);
    all["deparsers"][0]["order"] = json!(order);
    all
}

#[test]
fn unions_and_stacks_of_them_are_copied() {
    let out = |primitives: &[Json]| match outcome(with_unions, primitives, "0102 0304").as_slice() {
        [Out::Sent(1, out)] => out.clone(),
        other => panic!("{other:?}"),
    };
    let fill = |name: &str| op("assign_header", &[header(name), header("h")]);
    let union = |to, from| {
        let kind = "header_union";
        op("assign_union", &[named(kind, to), named(kind, from)])
    };
    let stack = |to, from| {
        let kind = "header_union_stack";
        op("assign_union_stack", &[named(kind, to), named(kind, from)])
    };
    assert_eq!(
        out(&[fill("u.one"), union("v", "u")]),
        bytes("0102 0304 0102 0304")
    );
    // The member that was valid is so no longer, and of no member there is none.
    let two = op("add_header", &[header("v.two")]);
    assert_eq!(
        out(&[fill("u.one"), two.clone(), union("v", "u")]),
        bytes("0102 0304 0102 0304")
    );
    assert_eq!(out(&[two, union("v", "u")]), bytes(""));
    let primitives = [
        fill("us[1].one"),
        op("add_header", &[header("us[0].two")]),
        fill("vs[0].one"),
        stack("vs", "us"),
    ];
    assert_eq!(out(&primitives), bytes("0000 0102 0304 0000 0102 0304"));
}

#[test]
fn headers_leave_in_the_order_of_the_deparser() {
    let packet = "0102 0304 1112 1314 2122 2324 ff";
    for (order, left) in [
        (json!(["h", "s[0]", "s[1]"]), packet),
        (json!(["h", "s[1]"]), "0102 0304 2122 2324 ff"),
        (
            json!(["s[1]", "h", "s[0]"]),
            "2122 2324 0102 0304 1112 1314 ff",
        ),
        (json!(["h", "h"]), "0102 0304 0102 0304 ff"),
        (json!([]), "ff"),
    ] {
        let ordered = |primitives| {
            let mut document = document(primitives);
            document["deparsers"][0]["order"] = order.clone();
            document
        };
        assert_eq!(
            outcome(ordered, &[], packet),
            [Out::Sent(1, bytes(left))],
            "{order}"
        );
    }
}
