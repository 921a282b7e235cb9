//! Code that was made shorter does what the code does that was not: traces run
//! the latter. Two switches with the same entries get the same packets, one of
//! them traced. Where a table misses, an entry for just that key is added, with
//! an action by chance: so packets come far.

// Helpers of tests may fail the test.
#![allow(clippy::unwrap_used)]

mod copying;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use softswitch::{
    ActionCall, CounterTarget, EntryAction, EntryKey, FieldMatch, MatchKind, Output, Program,
    Switch, TableEntry, TableId, TableOp, Timestamp, TraceEvent, Value,
};

use copying::switch;

/// Packets of each round, all on the same entries.
const PACKETS: usize = 24;

/// Every program of the repository that has tables or conditions to speak of.
fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [
        "p4/build",
        "bmv2/switch/testdata",
        "bmv2/switch/testdata/v1model",
        "bmv2/switch/testdata/p4rt",
        "bmv2/conformance/programs/build",
    ];
    let mut found: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| path.file_stem().is_some_and(|name| name != "manifest"))
        .collect();
    found.sort();
    found
}

/// Numbers by chance (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A number of so many bits: often a small one.
    fn value(&mut self, bits: u32) -> Value {
        let mut value = Value::from_elem(0, bits.div_ceil(8) as usize);
        match self.below(4) {
            0 => {}
            1 | 2 => {
                if let Some(last) = value.last_mut() {
                    *last = self.below(4) as u8;
                }
            }
            _ => value.iter_mut().for_each(|b| *b = self.next() as u8),
        }
        if let (Some(first), 1..) = (value.first_mut(), bits % 8) {
            *first &= (1 << (bits % 8)) - 1;
        }
        value
    }

    /// A frame: Ethernet, perhaps tags and IPv4 with TCP or UDP, and noise.
    fn frame(&mut self) -> Vec<u8> {
        let mut f: Vec<u8> = Vec::new();
        for _ in 0..2 {
            f.extend([2, 0, 0, 0, 0, self.below(4) as u8]);
        }
        match self.below(6) {
            0 => f.extend([0x88, 0xb5]),
            1 => f.extend([0x86, 0xdd, 0x60, 0, 0, 0]),
            2 => f.extend([0x81, 0x00, 0, self.below(4) as u8, 0x08, 0x00]),
            _ => f.extend([0x08, 0x00]),
        }
        let (protocol, ttl) = ([6, 17, 1, 4][self.below(4)], [0, 1, 2, 64][self.below(4)]);
        f.extend([0x45, 0, 0, 60, 0, 0, self.below(2) as u8 * 0x40, 0]);
        f.extend([ttl, protocol, 0, 0, 10, 0, 0, self.below(3) as u8]);
        f.extend([10, 1, 0, self.below(3) as u8, 0, 80, 0, 80]);
        f.extend([
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            1,
            0x50,
            1 << self.below(6),
            1,
            1,
            0,
            0,
            0,
            0,
        ]);
        f.extend((0..self.below(60)).map(|_| 0));
        for _ in 0..self.below(4) {
            let at = self.below(f.len());
            f[at] = [0, 1, 2, 3, 0xff, self.next() as u8][self.below(6)];
        }
        f.truncate(if self.below(8) == 0 {
            self.below(f.len())
        } else {
            f.len()
        });
        f
    }
}

/// All that comes out of a packet.
type Outcome = Vec<String>;

fn note(out: &mut Outcome) -> impl FnMut(Output<'_>) + '_ {
    |o| out.push(format!("{o:?}"))
}

/// An entry for a key as a trace shows it; `None` if the table takes none.
fn new_entry(
    program: &Program,
    table: TableId,
    key: &[(String, String)],
    c: &mut Chance,
) -> Option<TableOp> {
    let info = &program.tables()[table.index()];
    if info.is_const || info.key.is_empty() || info.profile.is_some() {
        return None;
    }
    let fields = info.key.iter().zip(key).map(|(field, (_, digits))| {
        let digits = digits.strip_prefix("0x").unwrap();
        let value: Value = (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        let mut ones = Value::from_elem(0xff, value.len());
        if let (Some(first), 1..) = (ones.first_mut(), field.width % 8) {
            *first = (1 << (field.width % 8)) - 1;
        }
        match field.kind {
            MatchKind::Exact => FieldMatch::Exact(value),
            MatchKind::Lpm => FieldMatch::Lpm {
                value,
                prefix_len: field.width,
            },
            MatchKind::Ternary => FieldMatch::Ternary { value, mask: ones },
            MatchKind::Range => FieldMatch::Range {
                low: value.clone(),
                high: value,
            },
        }
    });
    let (_, action) = &info.actions[c.below(info.actions.len())];
    let params = &program.actions()[action.index()].params;
    Some(TableOp::Insert {
        table,
        entry: TableEntry {
            key: EntryKey {
                fields: fields.collect(),
                priority: i32::from(info.needs_priority),
            },
            action: EntryAction::Call(ActionCall {
                action: *action,
                params: params.iter().map(|p| c.value(p.width)).collect(),
            }),
            idle_timeout_ns: 0,
            cookie: 0,
            metadata: Vec::new(),
        },
    })
}

/// What the counters of a switch hold.
fn counted(switch: &Arc<Switch>, program: &Program) -> Vec<String> {
    let counters = program.counters().iter().enumerate();
    counters
        .filter(|(_, info)| info.direct.is_none())
        .map(|(i, info)| {
            let counter = softswitch::CounterId(i as u32);
            let all = switch.read_counter(&CounterTarget::Indexed {
                counter,
                index: None,
            });
            let set: Vec<_> = all
                .unwrap()
                .into_iter()
                .enumerate()
                .filter(|(_, v)| v.packets > 0)
                .collect();
            format!("{}: {set:?}", info.name)
        })
        .collect()
}

/// One round of packets; returns how many times an entry matched.
fn round(json: &[u8], seed: u64) -> usize {
    let mut c = Chance(seed);
    let load = || Program::load(json).unwrap();
    let program = load();
    let (plain, traced) = (switch(load()), switch(load()));
    let (mut short, mut long) = (plain.worker(), traced.worker());
    let mut hits = 0;
    for n in 0..PACKETS {
        let (port, frame) = (c.below(4) as u16, c.frame());
        // The same packet again, as long as that takes it further.
        for _ in 0..16 {
            let now = Timestamp::from_micros(n as u64);
            let (mut got, mut expected) = (Outcome::new(), Outcome::new());
            short.process(port, &frame, now, &mut note(&mut got));
            let events = long.trace(port, &frame, now, &mut note(&mut expected));
            assert_eq!(got, expected, "seed {seed}, packet {n}: {frame:02x?}");
            let mut missed = None;
            for event in &events {
                if let TraceEvent::Table { name, key, entry } = event {
                    hits += usize::from(entry.is_some());
                    let table = program.table_by_name(name).unwrap();
                    if entry.is_none() && c.below(4) > 0 && missed.is_none() {
                        missed = new_entry(&program, table, key, &mut c);
                    }
                }
            }
            let Some(op) = missed else { break };
            let ops = [op];
            if plain.apply(now, &ops) != traced.apply(now, &ops) {
                break;
            }
        }
    }
    assert_eq!(
        counted(&plain, &program),
        counted(&traced, &program),
        "seed {seed}"
    );
    assert_eq!(plain.stats(), traced.stats(), "seed {seed}");
    hits
}

/// Rounds of each program; more with `SOFTSWITCH_ROUNDS`.
fn rounds() -> u64 {
    let more = std::env::var("SOFTSWITCH_ROUNDS").ok();
    more.and_then(|n| n.parse().ok()).unwrap_or(12)
}

#[test]
fn short_code_does_what_long_code_does() {
    let programs = programs();
    assert!(programs.len() >= 24, "{programs:?}");
    let mut hits = 0;
    for path in programs {
        let json = std::fs::read(&path).unwrap();
        if Program::load(&json).is_err() {
            continue;
        }
        let of_this: usize = (0..rounds()).map(|seed| round(&json, seed)).sum();
        eprintln!("{}: {of_this} matches", path.display());
        hits += of_this;
    }
    // Else nothing but misses would have been compared.
    assert!(hits > 1_000, "{hits}");
}
