//! A program with one table of each kind, and what is asked of it.
//!
//! `tables.p4` of softswitch's tests: the first byte of a packet chooses the
//! table, the answer is the parameter of the entry that matched.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use softswitch::{
    ActionCall, EntryAction, EntryKey, FieldMatch, Output, Program, Switch, SwitchConfig,
    TableEntry, TableId, TableOp, Timestamp, Value, Worker,
};

const PROGRAM: &str = include_str!("../../../bmv2/switch/testdata/tables.json");

/// Entries that every table is declared for here.
pub const SIZE: u32 = 1 << 20;

/// A switch with that program and empty tables of [`SIZE`] entries.
pub fn switch() -> Result<Arc<Switch>> {
    let mut program: Json = serde_json::from_str(PROGRAM)?;
    let pipelines = program
        .get_mut("pipelines")
        .and_then(Json::as_array_mut)
        .context("the program has no pipelines")?;
    for table in pipelines
        .iter_mut()
        .filter_map(|p| p.get_mut("tables")?.as_array_mut())
        .flatten()
    {
        if let Some(size) = table.get_mut("max_size") {
            *size = SIZE.into();
        }
    }
    let switch = Switch::new(SwitchConfig::default());
    switch.install(Program::load(&serde_json::to_vec(&program)?)?);
    Ok(switch)
}

/// A table of the program, and the number by which packets choose it.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub number: u8,
}

impl Table {
    const fn new(name: &'static str, number: u8) -> Self {
        Self { name, number }
    }
}

pub const EXACT: Table = Table::new("In.exact_ab", 1);
pub const LPM: Table = Table::new("In.lpm_a", 2);
pub const WIDE_LPM: Table = Table::new("In.lpm_bc", 3);
pub const TERNARY: Table = Table::new("In.ternary_abc", 4);
pub const MIXED: Table = Table::new("In.mixed", 6);
/// No table at all.
pub const NONE: u8 = 0;

/// What a packet asks.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub a: u32,
    pub b: u16,
    pub c: u128,
}

impl Ask {
    pub fn packet(self, number: u8) -> Vec<u8> {
        let mut packet = vec![number];
        packet.extend_from_slice(&self.a.to_be_bytes());
        packet.extend_from_slice(&self.b.to_be_bytes());
        packet.extend_from_slice(&self.c.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet
    }
}

/// The answer in a packet that came out.
pub fn answer(packet: &[u8]) -> u32 {
    match packet.get(23..27).map(<[u8; 4]>::try_from) {
        Some(Ok(bytes)) => u32::from_be_bytes(bytes),
        _ => 0,
    }
}

/// One entry: its match, its priority, and its answer.
pub struct Rule {
    pub fields: Vec<FieldMatch>,
    pub priority: i32,
    pub id: u32,
}

fn value(bytes: &[u8]) -> Value {
    Value::from_slice(bytes)
}

pub fn exact32(v: u32) -> FieldMatch {
    FieldMatch::Exact(value(&v.to_be_bytes()))
}

pub fn exact16(v: u16) -> FieldMatch {
    FieldMatch::Exact(value(&v.to_be_bytes()))
}

pub fn prefix32(v: u32, prefix_len: u32) -> FieldMatch {
    match prefix_len {
        0 => FieldMatch::Any,
        _ => FieldMatch::Lpm {
            value: value(&v.to_be_bytes()),
            prefix_len,
        },
    }
}

pub fn prefix128(v: u128, prefix_len: u32) -> FieldMatch {
    match prefix_len {
        0 => FieldMatch::Any,
        _ => FieldMatch::Lpm {
            value: value(&v.to_be_bytes()),
            prefix_len,
        },
    }
}

/// A ternary match; a mask of zero is "any".
pub fn ternary(v: &[u8], mask: &[u8]) -> FieldMatch {
    if mask.iter().all(|b| *b == 0) {
        return FieldMatch::Any;
    }
    FieldMatch::Ternary {
        value: value(v),
        mask: value(mask),
    }
}

pub fn range16(low: u16, high: u16) -> FieldMatch {
    if (low, high) == (0, u16::MAX) {
        return FieldMatch::Any;
    }
    FieldMatch::Range {
        low: value(&low.to_be_bytes()),
        high: value(&high.to_be_bytes()),
    }
}

/// Makes operations for a table of the switch.
pub struct Writer {
    pub table: TableId,
    action: softswitch::ActionId,
}

impl Writer {
    pub fn new(switch: &Switch, table: Table) -> Result<Self> {
        let program = switch.program().context("no program runs")?;
        let at = program.tables().iter().position(|t| t.name == table.name);
        let at = at.with_context(|| format!("there is no table {}", table.name))?;
        let found = program.tables()[at]
            .actions
            .iter()
            .find(|(name, _)| name.ends_with("found"));
        Ok(Self {
            table: TableId(u32::try_from(at)?),
            action: found.context("there is no action found")?.1,
        })
    }

    pub fn insert(&self, rule: &Rule) -> TableOp {
        TableOp::Insert {
            table: self.table,
            entry: TableEntry {
                key: EntryKey {
                    fields: rule.fields.clone(),
                    priority: rule.priority,
                },
                action: EntryAction::Call(ActionCall {
                    action: self.action,
                    params: vec![value(&rule.id.to_be_bytes())],
                }),
                idle_timeout_ns: 0,
                cookie: 0,
                metadata: Vec::new(),
            },
        }
    }
}

/// Carries out operations that must all succeed.
pub fn apply(switch: &Switch, ops: &[TableOp]) -> Result<()> {
    for (result, op) in switch.apply(Timestamp::default(), ops).iter().zip(ops) {
        ensure!(result.is_ok(), "{result:?} for {op:?}");
    }
    Ok(())
}

/// Runs one burst; returns how many packets got an answer.
pub fn burst(worker: &mut Worker, packets: &[Vec<u8>]) -> u64 {
    let mut answered = 0;
    let mut burst = worker.burst(Timestamp::default());
    for packet in packets {
        burst.process(1, packet, &mut |out| {
            if let Output::Transmit { bytes, .. } = out {
                answered += u64::from(answer(bytes) != 0);
            }
        });
    }
    answered
}

/// Pseudo-random numbers, the same in every run (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn wide(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Brings a list into random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            list.swap(i, j);
        }
    }
}
