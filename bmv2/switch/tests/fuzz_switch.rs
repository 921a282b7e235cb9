//! Hostile programs and hostile packets: an error or a drop, never a panic, a
//! hang or a flood.

// Helpers of tests may fail the test.
#![allow(clippy::unwrap_used)]

mod copying;
mod hostile;

use serde_json::Value as Json;

use copying::switch;
use hostile::{count, load, nth, send};

const EXTERNS: &[u8] = include_bytes!("../testdata/externs.json");
const TABLES: &[u8] = include_bytes!("../testdata/tables.json");
const GATEWAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/build/gateway.json");

#[test]
fn random_packets() {
    let gateway = std::fs::read(GATEWAY).unwrap();
    let switches: Vec<Vec<u8>> = vec![EXTERNS.to_vec(), TABLES.to_vec(), gateway];
    bolero::check!()
        .with_iterations(400)
        .with_type::<(u8, u16, Vec<u8>, u8)>()
        .for_each(|(which, port, bytes, op)| {
            let json = &switches[usize::from(*which) % switches.len()];
            let s = switch(load(json).unwrap());
            // Random bytes seldom name an operation: one packet does.
            let mut command = vec![*op % 24];
            command.extend_from_slice(bytes);
            send(&s, &[(*port % 512, bytes), (3, &command)]);
        });
}

#[test]
fn bytes_of_a_program_changed() {
    bolero::check!()
        .with_iterations(300)
        .with_type::<(bool, Vec<(u32, u8)>)>()
        .for_each(|(which, changes)| {
            let mut json = if *which {
                EXTERNS.to_vec()
            } else {
                TABLES.to_vec()
            };
            for (at, byte) in changes.iter().take(4) {
                let at = *at as usize % json.len();
                json[at] = *byte;
            }
            if let Some(p) = load(&json) {
                send(&switch(p), &[(1, &[3; 40]), (1, &[])]);
            }
        });
}

#[test]
fn values_of_a_program_changed() {
    let documents: Vec<Json> = [EXTERNS, TABLES]
        .iter()
        .map(|d| serde_json::from_slice(d).unwrap())
        .collect();
    let sizes: Vec<usize> = documents.iter().map(count).collect();
    bolero::check!()
        .with_iterations(600)
        .with_type::<(bool, Vec<(u32, u8, u32)>)>()
        .for_each(|(which, changes)| {
            let i = usize::from(*which);
            let mut json = documents[i].clone();
            for (at, kind, number) in changes.iter().take(3) {
                let mut n = *at as usize % sizes[i];
                let Some(place) = nth(&mut json, &mut n) else {
                    continue;
                };
                *place = match kind % 8 {
                    0 => Json::Null,
                    1 => Json::from(*number),
                    2 => Json::from(u64::MAX),
                    3 => Json::from(format!("0x{number:x}")),
                    4 => Json::from("0xffffffffffffffffffffffffffffffffffffff"),
                    5 => Json::Array(Vec::new()),
                    6 => Json::from(number % 4),
                    _ => Json::from(-1),
                };
            }
            if let Some(p) = load(json.to_string().as_bytes()) {
                let packets: Vec<Vec<u8>> = (0..20).map(|op| vec![op; 40]).collect();
                let packets: Vec<(u16, &[u8])> =
                    packets.iter().map(|p| (1, p.as_slice())).collect();
                send(&switch(p), &packets);
            }
        });
}

#[test]
fn deep_nesting_is_refused_or_read() {
    // As deep as p4c could write, and far deeper.
    for depth in [100usize, 400, 100_000] {
        let mut json = String::from(r#"{"pipelines": "#);
        json.push_str(&"[".repeat(depth));
        json.push_str(&"]".repeat(depth));
        json.push('}');
        assert!(load(json.as_bytes()).is_none());
    }
}
