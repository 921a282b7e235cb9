//! Lowered expressions against arithmetic with integers of any size.
//!
//! Programs of one action are generated as the compiler would write them; an
//! evaluator of a few lines, which knows nothing of words, says what must come
//! out.

use num_bigint::BigInt;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use softswitch::{Output, Program, Switch, SwitchConfig, Timestamp};

/// Widths of the input fields; the odd ones are signed.
const WIDTHS: [(u32, bool); 10] = [
    (1, false),
    (8, false),
    (13, true),
    (32, false),
    (48, false),
    (64, false),
    (64, true),
    (100, false),
    (128, false),
    (200, false),
];
/// Widths of the results.
const RESULTS: [(u32, bool); 6] = [
    (8, false),
    (16, true),
    (64, false),
    (128, false),
    (40, true),
    (160, false),
];

/// An expression.
#[derive(Debug, Clone)]
enum Ex {
    Const(i64),
    Field(usize),
    Bin(&'static str, Box<Ex>, Box<Ex>),
    Not(Box<Ex>),
    Mask(Box<Ex>, u32),
    Wrap(Box<Ex>, u32),
    Usat(Box<Ex>, u32),
    Sat(Box<Ex>, u32),
    If(&'static str, Box<Ex>, Box<Ex>),
}

fn ex() -> impl Strategy<Value = Ex> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            0i64,
            1,
            2,
            7,
            255,
            256,
            0xffff,
            i64::from(u32::MAX),
            i64::MAX
        ])
        .prop_map(Ex::Const),
        (0..WIDTHS.len()).prop_map(Ex::Field),
    ];
    let width = prop::sample::select(vec![
        1u32, 4, 8, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129,
    ]);
    leaf.prop_recursive(5, 40, 2, move |inner| {
        let b = |e| Box::new(e);
        let ops = vec!["+", "-", "*", "&", "|", "^", "/", "%"];
        let compare = vec!["==", "!=", "<", "<=", ">", ">="];
        prop_oneof![
            (prop::sample::select(ops), inner.clone(), inner.clone())
                .prop_map(move |(op, x, y)| Ex::Bin(op, b(x), b(y))),
            (
                prop::sample::select(vec!["<<", ">>"]),
                inner.clone(),
                0..140i64
            )
                .prop_map(move |(op, x, n)| Ex::Bin(op, b(x), b(Ex::Const(n)))),
            // A shift by a field of few bits.
            (prop::sample::select(vec!["<<", ">>"]), inner.clone())
                .prop_map(move |(op, x)| Ex::Bin(op, b(x), b(Ex::Field(1)))),
            inner.clone().prop_map(move |x| Ex::Not(b(x))),
            (inner.clone(), width.clone()).prop_map(move |(x, w)| Ex::Mask(b(x), w)),
            (inner.clone(), width.clone()).prop_map(move |(x, w)| Ex::Wrap(b(x), w)),
            (inner.clone(), width.clone()).prop_map(move |(x, w)| Ex::Usat(b(x), w)),
            (inner.clone(), width.clone()).prop_map(move |(x, w)| Ex::Sat(b(x), w)),
            (prop::sample::select(compare), inner.clone(), inner)
                .prop_map(move |(op, x, y)| Ex::If(op, b(x), b(y))),
        ]
    })
}

impl Ex {
    fn json(&self) -> Json {
        let op = |op: &str, l: Json, r: Json| json!({"type": "expression", "value": {"op": op, "left": l, "right": r}});
        let hex =
            |n: &BigInt| json!({"type": "hexstr", "value": format!("0x{}", n.to_str_radix(16))});
        match self {
            Self::Const(n) => hex(&BigInt::from(*n)),
            Self::Field(i) => json!({"type": "field", "value": ["scalars", format!("f{i}")]}),
            Self::Bin(o, x, y) => op(o, x.json(), y.json()),
            Self::Not(x) => op("~", Json::Null, x.json()),
            Self::Mask(x, w) => op("&", x.json(), hex(&((BigInt::from(1) << *w) - 1))),
            Self::Wrap(x, w) => op("two_comp_mod", x.json(), hex(&BigInt::from(*w))),
            Self::Usat(x, w) => op("usat_cast", x.json(), hex(&BigInt::from(*w))),
            Self::Sat(x, w) => op("sat_cast", x.json(), hex(&BigInt::from(*w))),
            Self::If(o, x, y) => json!({"type": "expression", "value": {
                "op": "?", "cond": op(o, x.json(), y.json()), "left": x.json(), "right": y.json()}}),
        }
    }

    /// `None`: division by zero or a number that outgrows all limits.
    fn eval(&self, fields: &[BigInt]) -> Option<BigInt> {
        Some(match self {
            Self::Const(n) => BigInt::from(*n),
            Self::Field(i) => fields[*i].clone(),
            Self::Bin(op, x, y) => {
                let (x, y) = (x.eval(fields)?, y.eval(fields)?);
                match *op {
                    "+" => x + y,
                    "-" => x - y,
                    "*" => x * y,
                    "&" => x & y,
                    "|" => x | y,
                    "^" => x ^ y,
                    "/" | "%" if y == BigInt::ZERO => return None,
                    "/" => x / y,
                    "%" => x % y,
                    "<<" => x << u64::try_from(y).ok()?,
                    _ => x >> u64::try_from(y).ok()?,
                }
            }
            Self::Not(x) => -x.eval(fields)? - 1,
            Self::Mask(x, w) => x.eval(fields)? & ((BigInt::from(1) << *w) - 1),
            Self::Wrap(x, w) => cut(x.eval(fields)?, *w, true),
            Self::Usat(x, w) => x
                .eval(fields)?
                .clamp(BigInt::ZERO, (BigInt::from(1) << *w) - 1),
            Self::Sat(x, w) => {
                let half = BigInt::from(1) << (w - 1);
                x.eval(fields)?.clamp(-half.clone(), half - 1)
            }
            Self::If(op, x, y) => {
                let (a, b) = (x.eval(fields)?, y.eval(fields)?);
                let holds = match *op {
                    "==" => a == b,
                    "!=" => a != b,
                    "<" => a < b,
                    "<=" => a <= b,
                    ">" => a > b,
                    _ => a >= b,
                };
                if holds { a } else { b }
            }
        })
    }
}

/// The low bits of a number.
fn cut(n: BigInt, width: u32, signed: bool) -> BigInt {
    let modulus = BigInt::from(1) << width;
    let low = ((n % &modulus) + &modulus) % &modulus;
    if signed && low >= &modulus / 2 {
        low - modulus
    } else {
        low
    }
}

/// A program that copies a header into fields, computes, and emits the results.
fn program(e: &Ex) -> Vec<u8> {
    let field = |prefix: &str, i: usize, (w, s): (u32, bool)| json!([format!("{prefix}{i}"), w, s]);
    let scalars: Vec<Json> = WIDTHS
        .iter()
        .enumerate()
        .map(|(i, w)| field("f", i, *w))
        .collect();
    let total = |list: &[(u32, bool)]| list.iter().map(|w| w.0).sum::<u32>();
    let padded = |prefix: &str, list: &[(u32, bool)]| {
        let mut fields: Vec<Json> = list
            .iter()
            .enumerate()
            .map(|(i, w)| field(prefix, i, (w.0, false)))
            .collect();
        let pad = total(list).div_ceil(8) * 8 - total(list);
        if pad > 0 {
            fields.push(json!(["pad", pad, false]));
        }
        fields
    };
    let out: Vec<Json> = RESULTS
        .iter()
        .enumerate()
        .map(|(i, w)| field("r", i, *w))
        .collect();
    let set = |h: &str, f: String, v: Json| json!({"op": "assign", "parameters": [{"type": "field", "value": [h, f]}, v]});
    let mut primitives: Vec<Json> = (0..WIDTHS.len())
        .map(|i| {
            set(
                "scalars",
                format!("f{i}"),
                json!({"type": "field", "value": ["input", format!("f{i}")]}),
            )
        })
        .collect();
    primitives
        .push(json!({"op": "add_header", "parameters": [{"type": "header", "value": "output"}]}));
    for i in 0..RESULTS.len() {
        primitives.push(set(
            "output",
            format!("r{i}"),
            json!({"type": "expression", "value": e.json()}),
        ));
    }
    primitives.push(set(
        "standard_metadata",
        "egress_spec".into(),
        json!({"type": "hexstr", "value": "0x1"}),
    ));
    let standard = [
        ("ingress_port", 9),
        ("egress_spec", 9),
        ("egress_port", 9),
        ("instance_type", 32),
        ("packet_length", 32),
    ];
    let standard: Vec<Json> = standard.iter().map(|(n, w)| json!([n, w, false])).collect();
    json!({
        "header_types": [
            {"name": "scalars_t", "id": 0, "fields": scalars},
            {"name": "standard_t", "id": 1, "fields": standard},
            {"name": "input_t", "id": 2, "fields": padded("f", &WIDTHS)},
            {"name": "output_t", "id": 3, "fields": out},
        ],
        "headers": [
            {"name": "scalars", "id": 0, "header_type": "scalars_t", "metadata": true},
            {"name": "standard_metadata", "id": 1, "header_type": "standard_t", "metadata": true},
            {"name": "input", "id": 2, "header_type": "input_t", "metadata": false},
            {"name": "output", "id": 3, "header_type": "output_t", "metadata": false},
        ],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [{
            "name": "start", "id": 0,
            "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "input"}]}],
            "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}],
            "transition_key": []}]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["output"], "primitives": []}],
        "actions": [{"name": "compute", "id": 0, "runtime_data": [], "primitives": primitives}],
        "pipelines": [
            {"name": "ingress", "id": 0, "init_table": "run", "tables": [], "conditionals": [], "action_profiles": [],
             "action_calls": [{"name": "run", "id": 0, "action_id": 0, "next_node": null}]},
            {"name": "egress", "id": 1, "init_table": null, "tables": [], "conditionals": [], "action_profiles": []},
        ],
        "__meta__": {"version": [2, 23]},
    })
    .to_string()
    .into_bytes()
}

/// Appends `width` bits of a number to a bit string.
fn push_bits(bits: &mut Vec<u8>, n: &BigInt, width: u32) {
    let low = cut(n.clone(), width, false);
    bits.extend((0..width).rev().map(|i| u8::from(low.bit(u64::from(i)))));
}

fn to_bytes(bits: &[u8]) -> Vec<u8> {
    bits.chunks(8)
        .map(|c| c.iter().fold(0, |b, bit| (b << 1) | bit) << (8 - c.len()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_expression_has_its_exact_value(e in ex(), raw in prop::collection::vec(any::<[u64; 4]>(), WIDTHS.len())) {
        let program = Program::load(&program(&e));
        prop_assert!(program.is_ok(), "{:?}", program.err());
        let mut bits = Vec::new();
        let mut fields = Vec::new();
        for (words, (width, signed)) in raw.iter().zip(WIDTHS) {
            // Small values and the extremes are as likely as any.
            let n = match words[0] % 4 {
                0 => BigInt::from(words[1] % 4),
                1 => BigInt::from(-1),
                _ => words.iter().fold(BigInt::ZERO, |n, w| (n << 64) + *w),
            };
            push_bits(&mut bits, &n, width);
            fields.push(cut(n, width, signed));
        }
        let packet = to_bytes(&bits);
        let s = Switch::new(SwitchConfig::default());
        s.install(program.unwrap());
        let mut got = None;
        s.worker().process(2, &packet, Timestamp::default(), &mut |o| {
            got = match o {
                Output::Transmit { bytes, .. } => Some(bytes.to_vec()),
                _ => None,
            };
        });
        match e.eval(&fields) {
            Some(value) => {
                let mut bits = Vec::new();
                for (width, _) in RESULTS {
                    push_bits(&mut bits, &value, width);
                }
                prop_assert_eq!(got, Some(to_bytes(&bits)), "{} of {:?}", value, fields);
            }
            // A division by zero drops the packet.
            None => prop_assert_eq!(got, None),
        }
    }
}
