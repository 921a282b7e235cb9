//! Internet checksums over inputs of all kinds, whole words or not.

use serde_json::{Value as Json, json};
use softswitch::{Switch, SwitchConfig};

use crate::build::{Out, bytes, run};
use crate::small::{document, field, hex, load, op};

/// `h`, `s[0]`, and three bytes that are too few for `s[1]`.
const PACKET: &str = "1234 0000 0102 0304 a1b2 c3";

/// The checksum of some inputs, which goes to `h.c`.
fn checksum(inputs: &[Json]) -> u16 {
    let port = field("standard_metadata", "egress_spec");
    let mut document = document(json!([op("assign", &[port, hex(1)])]));
    document["calculations"] = json!([{"name": "sum", "id": 0, "algo": "csum16", "input": inputs}]);
    document["checksums"] = json!([{
        "name": "sum", "id": 0, "target": ["h", "c"], "type": "generic",
        "calculation": "sum", "verify": false, "update": true}]);
    let s = Switch::new(SwitchConfig::default());
    s.install(load(&document).unwrap());
    match run(&mut s.worker(), 0, &bytes(PACKET), 0).as_slice() {
        [Out::Sent(1, out)] => u16::from_be_bytes([out[2], out[3]]),
        other => panic!("{other:?}"),
    }
}

fn constant(text: &str, bitwidth: u32) -> Json {
    json!({"type": "hexstr", "value": text, "bitwidth": bitwidth})
}

#[test]
fn inputs_are_summed_as_if_they_followed_one_another() {
    let (a, b) = (field("h", "a"), field("h", "b"));
    let payload = json!({"type": "payload", "value": null});
    let cases = [
        (vec![], 0),
        (vec![a.clone(), b.clone()], 0x1234),
        // 1234 a1b2 c300: the carry comes round.
        (vec![a.clone(), b.clone(), payload.clone()], 0x76e7),
        // 12a1 b2c3.
        (vec![a.clone(), payload], 0xc564),
        // Of an invalid header, nothing.
        (vec![a.clone(), field("s[1]", "a"), b.clone()], 0x1234),
        (vec![a.clone(), b.clone(), constant("0x0011", 16)], 0x1245),
        (vec![constant("0x11", 8), a], 0x1112),
        (vec![b, field("s[0]", "a")], 0x3401),
        (vec![field("s[0]", "c"), constant("0xf", 4)], 0xf304),
        // 0304, and the header as a whole.
        (
            vec![
                field("s[0]", "c"),
                json!({"type": "header", "value": "s[0]"}),
            ],
            0x070a,
        ),
    ];
    for (inputs, sum) in cases {
        assert_eq!(!checksum(&inputs), sum, "{inputs:?}");
    }
}
