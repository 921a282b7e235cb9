//! Programs that are almost right: documents as p4c writes them, changed as a
//! faulty compiler or an attacker would. Each is refused with the place named,
//! or runs packets without a panic, a hang or a flood.

// Helpers of tests may fail the test.
#![allow(clippy::unwrap_used)]

mod copying;
mod hostile;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use softswitch::{LoadError, Program};

use copying::switch;
use hostile::{count, load, nth, send};

/// How long one document with all its packets may take, in a build without
/// optimisation on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Small programs with forms that the larger ones do not have.
const FORMS: [&str; 6] = [
    "ranges",
    "chosen_keys",
    "select_forms",
    "calc_inputs",
    "unaligned",
    "half_bytes",
];

/// Programs of every kind that the repository has.
fn documents() -> Vec<Json> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = root.join("../conformance/programs/build");
    [
        root.join("testdata/externs.json"),
        root.join("testdata/tables.json"),
        root.join("../../p4/build/gateway.json"),
        programs.join("parsing.json"),
        programs.join("stacks.json"),
        programs.join("copies.json"),
        programs.join("keys.json"),
        programs.join("wide.json"),
    ]
    .into_iter()
    .chain(FORMS.map(|name| root.join(format!("testdata/v1model/{name}.json"))))
    .map(|path| {
        let mut document = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        without_sources(&mut document);
        document
    })
    .collect()
}

/// Removes what only describes the source: changing it changes nothing.
fn without_sources(json: &mut Json) {
    match json {
        Json::Array(a) => a.iter_mut().for_each(without_sources),
        Json::Object(o) => {
            o.remove("source_info");
            o.values_mut().for_each(without_sources);
        }
        _ => {}
    }
}

/// The `n`th value, going round.
fn pick(json: &mut Json, n: u32) -> &mut Json {
    let mut n = n as usize % count(json);
    nth(json, &mut n).unwrap()
}

/// Numbers that limits are about.
const NUMBERS: [i64; 14] = [
    0,
    1,
    2,
    7,
    63,
    65,
    255,
    16_384,
    16_385,
    70_000,
    1 << 31,
    u32::MAX as i64,
    i64::MAX,
    -1,
];

/// One change: where, what, and with what.
type Change = (u32, u8, u32);

fn change(document: &mut Json, (at, kind, with): Change) {
    let number = NUMBERS[with as usize % NUMBERS.len()];
    match kind % 11 {
        // A key or an element is missing.
        0 => match pick(document, at) {
            Json::Object(o) => {
                let keys: Vec<String> = o.keys().cloned().collect();
                if let Some(key) = keys.get(with as usize % keys.len().max(1)) {
                    o.remove(key);
                }
            }
            Json::Array(a) if !a.is_empty() => {
                a.remove(with as usize % a.len());
            }
            other => *other = Json::Null,
        },
        // Two values change places.
        1 => {
            let one = pick(document, at).clone();
            let other = std::mem::replace(pick(document, with), one);
            *pick(document, at) = other;
        }
        // A value of another place, mostly of the same type: names of things
        // that exist, but are something else.
        2 | 3 => {
            let wanted = std::mem::discriminant(pick(document, at));
            let found = (0..200)
                .map(|i| pick(document, with.wrapping_add(i * 7919)).clone())
                .find(|j| std::mem::discriminant(j) == wanted);
            if let Some(found) = found {
                *pick(document, at) = found;
            }
        }
        // An element more than once.
        4 => {
            if let Json::Array(a) = pick(document, at)
                && let Some(element) = a.first().cloned()
            {
                a.extend(std::iter::repeat_n(element, with as usize % 300));
            }
        }
        5 => *pick(document, at) = json!(number),
        6 => *pick(document, at) = json!(format!("0x{number:x}")),
        7 => *pick(document, at) = json!(format!("0x{}", "f".repeat(with as usize % 6000))),
        // An expression deep in others.
        8 => {
            let mut inner = pick(document, at).take();
            for _ in 0..with % 300 {
                inner = json!({"type": "expression", "value":
                    {"op": "+", "left": inner, "right": {"type": "hexstr", "value": "0x1"}}});
            }
            *pick(document, at) = inner;
        }
        9 => {
            let value = pick(document, at);
            *value = match &*value {
                Json::String(s) => json!([s]),
                Json::Number(n) => json!(n.to_string()),
                Json::Bool(b) => json!(i32::from(*b)),
                Json::Array(_) => json!({}),
                Json::Object(_) => json!([]),
                Json::Null => json!(""),
            };
        }
        // Only numbers become other numbers.
        _ => {
            let document = &mut *document;
            for i in 0..500 {
                let value = pick(document, at.wrapping_add(i));
                if value.is_number() {
                    *value = json!(number);
                    return;
                }
            }
        }
    }
}

/// Packets that reach most of the programs' states and actions.
fn packets() -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = (0..24u8).map(|op| vec![op; 60]).collect();
    for kind in [
        [0x88, 0xb5],
        [0x88, 0xb6],
        [0x08, 0x00],
        [0x88, 0x47],
        [0x09, 0x01],
        [0x10, 0x01],
    ] {
        for what in [0x00, 0x01, 0x05, 0x0f, 0x45, 0xff] {
            let mut packet = vec![2; 12];
            packet.extend(kind);
            packet.push(what);
            packet.extend((0..200).map(|i| i as u8 & 0x87));
            packets.push(packet);
        }
    }
    packets.push(Vec::new());
    packets
}

fn run(program: Program) {
    let packets = packets();
    let packets: Vec<(u16, &[u8])> = packets.iter().map(|p| (1, p.as_slice())).collect();
    send(&switch(program), &packets);
}

#[test]
fn the_documents_themselves_run() {
    for document in documents() {
        run(load(document.to_string().as_bytes()).unwrap());
    }
}

#[test]
fn changed_documents() {
    let documents = documents();
    bolero::check!()
        .with_iterations(700)
        .with_type::<(u8, Vec<Change>)>()
        .for_each(|(which, changes)| {
            let mut document = documents[usize::from(*which) % documents.len()].clone();
            for c in changes.iter().take(3) {
                change(&mut document, *c);
            }
            let start = Instant::now();
            if let Some(program) = load(document.to_string().as_bytes()) {
                run(program);
            }
            let took = start.elapsed();
            assert!(took < DEADLINE, "{took:?} for {changes:?} of {which}");
        });
}

/// The reason why a changed document is refused.
fn refused(edit: impl FnOnce(&mut Json)) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/externs.json");
    let mut document = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    edit(&mut document);
    let error = Program::load(document.to_string().as_bytes()).unwrap_err();
    assert!(!matches!(error, LoadError::Syntax(_)), "{error}");
    error.to_string()
}

#[test]
fn what_would_take_too_much_memory_is_named() {
    let huge = json!(u32::MAX);
    let text = refused(|d| d["register_arrays"][0]["size"] = huge.clone());
    assert!(text.starts_with("register \""), "{text}");
    // Few cells, but of a size to match.
    let text = refused(|d| {
        d["register_arrays"][0]["size"] = json!(1 << 20);
        d["register_arrays"][0]["bitwidth"] = json!(1 << 14);
    });
    assert!(text.starts_with("register \""), "{text}");
    let text = refused(|d| d["register_arrays"][0]["bitwidth"] = huge.clone());
    assert!(text.starts_with("register \""), "{text}");
    let text = refused(|d| d["counter_arrays"][0]["size"] = huge.clone());
    assert!(text.starts_with("counter \""), "{text}");
    let text = refused(|d| {
        for m in d["meter_arrays"].as_array_mut().unwrap() {
            m["size"] = json!(u32::MAX);
            m["is_direct"] = json!(false);
        }
    });
    assert!(text.starts_with("meter \""), "{text}");
    let text = refused(|d| d["header_types"][2]["fields"][0][1] = huge.clone());
    assert!(text.starts_with("header type \""), "{text}");
    let text = refused(|d| {
        d["header_types"][2]["fields"] = json!([["wide", "*", false]]);
        d["header_types"][2]["max_length"] = huge.clone();
    });
    assert!(text.starts_with("header type \""), "{text}");
    // Many instances of what alone would be small enough.
    let text = refused(|d| {
        let field = json!(["f", 16_384, false]);
        d["header_types"][2]["fields"] = Json::Array(vec![field; 8]);
        let ty = d["header_types"][2]["name"].clone();
        let headers = d["headers"].as_array_mut().unwrap();
        for n in 0..64 {
            headers.push(json!({"name": format!("more{n}"), "id": 1000 + n,
                "header_type": ty, "metadata": false}));
        }
    });
    assert!(text.starts_with("header \"more"), "{text}");
}

#[test]
fn a_huge_table_takes_memory_only_for_its_entries() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tables.json");
    let mut document: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for p in document["pipelines"].as_array_mut().unwrap() {
        for t in p["tables"].as_array_mut().unwrap() {
            t["max_size"] = json!(u32::MAX);
        }
    }
    let start = Instant::now();
    run(load(document.to_string().as_bytes()).unwrap());
    assert!(start.elapsed() < DEADLINE);
}
