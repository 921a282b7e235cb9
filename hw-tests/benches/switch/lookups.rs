//! How long a look-up takes by kind of table, with 10,000 entries.
//!
//! Every packet hits; packets ask for all entries in random order. What a
//! table costs is the time of a packet that asks it, less the time of one that
//! asks none: key, look-up, counting and action.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};
use softswitch::Worker;

use crate::ask::{self, Ask, Random, Rule, Table, Writer};

/// Entries of each table.
const ENTRIES: u32 = 10_000;
const BURST: usize = 64;
const ROUND: Duration = Duration::from_millis(150);
/// The best of so many rounds counts, since whatever disturbs can only add.
const ROUNDS: usize = 5;

/// What fills a table, and a packet that hits each entry unless a stronger
/// one takes it.
struct Mix {
    name: &'static str,
    table: Table,
    make: fn(&mut Random, u32) -> (Rule, Ask),
}

const MIXES: [Mix; 9] = [
    Mix {
        name: "exact",
        table: ask::EXACT,
        make: exact,
    },
    Mix {
        name: "lpm_32_routes",
        table: ask::LPM,
        make: routes,
    },
    Mix {
        name: "lpm_128_routes",
        table: ask::WIDE_LPM,
        make: wide_routes,
    },
    Mix {
        name: "ternary_8_masks",
        table: ask::TERNARY,
        make: few_masks,
    },
    Mix {
        name: "ternary_1000_masks",
        table: ask::TERNARY,
        make: many_masks,
    },
    Mix {
        name: "ternary_acl",
        table: ask::TERNARY,
        make: acl,
    },
    Mix {
        name: "ternary_acl_one_priority",
        table: ask::TERNARY,
        make: acl_one_priority,
    },
    Mix {
        name: "ternary_firewall",
        table: ask::TERNARY,
        make: firewall,
    },
    Mix {
        name: "range_firewall",
        table: ask::MIXED,
        make: ranges,
    },
];

fn top32(len: u64) -> u32 {
    u32::MAX.checked_shl(32 - len as u32).unwrap_or(0)
}

fn top128(len: u64) -> u128 {
    u128::MAX.checked_shl(128 - len as u32).unwrap_or(0)
}

fn any(r: &mut Random) -> Ask {
    Ask {
        a: r.next() as u32,
        b: r.next() as u16,
        c: r.wide(),
    }
}

fn exact(r: &mut Random, id: u32) -> (Rule, Ask) {
    let q = any(r);
    let rule = Rule {
        fields: vec![ask::exact32(q.a), ask::exact16(q.b)],
        priority: 0,
        id,
    };
    (rule, q)
}

/// Lengths as in a table of Internet routes: more than half are /24.
fn routes(r: &mut Random, id: u32) -> (Rule, Ask) {
    let q = any(r);
    let len = match r.below(100) {
        0..58 => 24,
        58..70 => 22,
        70..78 => 23,
        78..92 => 17 + r.below(5),
        92..98 => 9 + r.below(8),
        _ => 25 + r.below(8),
    };
    let rule = Rule {
        fields: vec![ask::prefix32(q.a & top32(len), len as u32)],
        priority: 0,
        id,
    };
    (rule, q)
}

/// Under 2000::/3: /48 most of all, then /32 and others.
fn wide_routes(r: &mut Random, id: u32) -> (Rule, Ask) {
    let mut q = any(r);
    q.b = r.below(4) as u16;
    q.c = (q.c >> 3) | (1 << 125);
    let len = match r.below(100) {
        0..48 => 48,
        48..65 => 32,
        65..80 => 44,
        80..90 => 33 + r.below(11),
        90..98 => 20 + r.below(12),
        _ => 64,
    };
    let rule = Rule {
        fields: vec![
            ask::exact16(q.b),
            ask::prefix128(q.c & top128(len), len as u32),
        ],
        priority: 0,
        id,
    };
    (rule, q)
}

fn ternary(q: Ask, am: u32, bm: u16, cm: u128, priority: i32, id: u32) -> (Rule, Ask) {
    let rule = Rule {
        fields: vec![
            ask::ternary(&(q.a & am).to_be_bytes(), &am.to_be_bytes()),
            ask::ternary(&(q.b & bm).to_be_bytes(), &bm.to_be_bytes()),
            ask::ternary(&(q.c & cm).to_be_bytes(), &cm.to_be_bytes()),
        ],
        priority,
        id,
    };
    (rule, q)
}

fn priority(r: &mut Random) -> i32 {
    1 + r.below(65_000) as i32
}

fn few_masks(r: &mut Random, id: u32) -> (Rule, Ask) {
    let q = any(r);
    let (am, bm, cm) = [
        (u32::MAX, u16::MAX, u128::MAX),
        (u32::MAX, 0, u128::MAX),
        (top32(24), u16::MAX, 0),
        (top32(24), 0, top128(48)),
        (u32::MAX, 0, 0),
        (0, u16::MAX, u128::MAX),
        (0, 0, top128(64)),
        (top32(16), 0, u128::MAX),
    ][r.below(8) as usize];
    let p = priority(r);
    ternary(q, am, bm, cm, p, id)
}

/// A thousand masks without any order among them, each of 24 bits or more.
fn many_masks(r: &mut Random, id: u32) -> (Rule, Ask) {
    let q = any(r);
    let mut m = Random(r.below(1000));
    let (am, bm) = (m.next() as u32, if m.below(2) == 0 { 0 } else { u16::MAX });
    let cm = m.wide() & m.wide();
    let p = priority(r);
    ternary(q, am | 0xff, bm, cm | 0xffff, p, id)
}

/// Pairs of prefixes and a port, as filters of an access router: hosts and
/// subnetworks on both sides.
fn acl(r: &mut Random, id: u32) -> (Rule, Ask) {
    let p = priority(r);
    acl_of(r, id, p)
}

fn acl_one_priority(r: &mut Random, id: u32) -> (Rule, Ask) {
    acl_of(r, id, 7)
}

fn acl_of(r: &mut Random, id: u32, priority: i32) -> (Rule, Ask) {
    let q = any(r);
    let source = match r.below(10) {
        0..4 => 32,
        4..7 => 24,
        _ => 8 + r.below(24),
    };
    let dest = match r.below(10) {
        0..4 => 128,
        4..7 => 64,
        _ => 16 + r.below(112),
    };
    let port = if r.below(3) == 0 { 0 } else { u16::MAX };
    ternary(q, top32(source), port, top128(dest), priority, id)
}

/// As [`acl`], but a third has no source and a quarter no destination.
fn firewall(r: &mut Random, id: u32) -> (Rule, Ask) {
    let q = any(r);
    let (source, dest) = match r.below(12) {
        0..4 => (0, 24 + r.below(105)),
        4..7 => (12 + r.below(21), 0),
        _ => (8 + r.below(25), 16 + r.below(113)),
    };
    let port = if r.below(2) == 0 { 0 } else { u16::MAX };
    let p = priority(r);
    ternary(q, top32(source), port, top128(dest), p, id)
}

fn ranges(r: &mut Random, id: u32) -> (Rule, Ask) {
    let mut q = any(r);
    let source = 12 + r.below(21);
    let (low, high) = match r.below(4) {
        0 => (0, u16::MAX),
        1 => (1024, u16::MAX),
        2 => (q.b, q.b),
        _ => (q.b & 0xff00, q.b | 0xff),
    };
    q.b = q.b.clamp(low, high);
    let c = if r.below(2) == 0 {
        ask::ternary(&q.c.to_be_bytes(), &[0xff; 16])
    } else {
        softswitch::FieldMatch::Any
    };
    let rule = Rule {
        fields: vec![
            ask::prefix32(q.a & top32(source), source as u32),
            ask::range16(low, high),
            c,
        ],
        priority: priority(r),
        id,
    };
    (rule, q)
}

/// Nanoseconds by mix.
pub fn measure() -> Result<Value> {
    let none = {
        let switch = ask::switch()?;
        let mut r = Random(7);
        let packets: Vec<_> = (0..ENTRIES)
            .map(|_| any(&mut r).packet(ask::NONE))
            .collect();
        time(&mut switch.worker(), &packets, 0)?
    };
    let mut all = Map::new();
    let mut exact = 0.0;
    for mix in &MIXES {
        let switch = ask::switch()?;
        let writer = Writer::new(&switch, mix.table)?;
        let mut r = Random(1);
        let (mut packets, mut seen) = (Vec::new(), BTreeSet::new());
        let mut inserts = Duration::ZERO;
        while packets.len() < ENTRIES as usize {
            let (rule, q) = (mix.make)(&mut r, packets.len() as u32 + 1);
            if !seen.insert(format!("{:?}", rule.fields)) {
                continue;
            }
            packets.push(q.packet(mix.table.number));
            let op = [writer.insert(&rule)];
            let start = Instant::now();
            ask::apply(&switch, &op)?;
            inserts += start.elapsed();
        }
        r.shuffle(&mut packets);
        let ns = time(&mut switch.worker(), &packets, BURST as u64)?;
        let table = ns - none;
        if mix.name == "exact" {
            exact = table;
        }
        let insert = inserts.as_nanos() as f64 / f64::from(ENTRIES);
        println!(
            "{:<26} {ns:>7.0} ns a packet, {table:>7.0} ns of the table ({:.1} times exact), \
             {insert:.0} ns an insert",
            mix.name,
            table / exact
        );
        all.insert(
            mix.name.into(),
            json!({
                "packet_ns": round(ns),
                "table_ns": round(table),
                "times_exact": round(table / exact),
                "insert_ns": round(insert),
            }),
        );
    }
    all.insert("without_table_packet_ns".into(), json!(round(none)));
    Ok(Value::Object(all))
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn time(worker: &mut Worker, packets: &[Vec<u8>], wanted: u64) -> Result<f64> {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let mut count = 0_u64;
        let start = Instant::now();
        while start.elapsed() < ROUND {
            for chunk in packets.chunks_exact(BURST) {
                let answered = ask::burst(worker, chunk);
                ensure!(
                    answered == wanted,
                    "{answered} of {wanted} packets hit an entry"
                );
                count += BURST as u64;
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    Ok(best)
}
