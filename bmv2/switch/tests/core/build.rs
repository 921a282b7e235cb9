//! Entries and packets, shortly said.

use softswitch::{
    ActionCall, EntryAction, EntryKey, FieldMatch, Program, Switch, TableEntry, TableId, TableOp,
    Timestamp, Value,
};

/// A number as big-endian bytes.
pub(crate) fn value(n: u128) -> Value {
    let bytes = n.to_be_bytes();
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    Value::from_slice(&bytes[zeros..])
}

/// An exact match.
pub(crate) fn exact(n: u128) -> FieldMatch {
    FieldMatch::Exact(value(n))
}

/// A prefix.
pub(crate) fn lpm(n: u128, prefix_len: u32) -> FieldMatch {
    FieldMatch::Lpm {
        value: value(n),
        prefix_len,
    }
}

/// A value and mask.
pub(crate) fn ternary(n: u128, mask: u128) -> FieldMatch {
    FieldMatch::Ternary {
        value: value(n),
        mask: value(mask),
    }
}

/// An interval.
pub(crate) fn range(low: u128, high: u128) -> FieldMatch {
    FieldMatch::Range {
        low: value(low),
        high: value(high),
    }
}

/// A table by the end of its name.
pub(crate) fn table(program: &Program, name: &str) -> TableId {
    let found: Vec<usize> = program
        .tables()
        .iter()
        .enumerate()
        .filter(|(_, t)| t.name == name || t.name.ends_with(&format!(".{name}")))
        .map(|(i, _)| i)
        .collect();
    assert_eq!(found.len(), 1, "tables named {name}");
    TableId(u32::try_from(found[0]).unwrap())
}

/// An action of a table with its parameters.
pub(crate) fn call(program: &Program, table: TableId, name: &str, params: &[u128]) -> ActionCall {
    let info = &program.tables()[table.index()];
    let action = info
        .actions
        .iter()
        .find(|(n, _)| n == name || n.ends_with(&format!(".{name}")))
        .unwrap_or_else(|| panic!("{} has no action {name}", info.name))
        .1;
    ActionCall {
        action,
        params: params.iter().map(|&p| value(p)).collect(),
    }
}

/// An entry without timeout.
pub(crate) fn entry(fields: Vec<FieldMatch>, priority: i32, call: ActionCall) -> TableEntry {
    TableEntry {
        key: EntryKey { fields, priority },
        action: EntryAction::Call(call),
        idle_timeout_ns: 0,
        cookie: 0,
        metadata: Vec::new(),
    }
}

/// Inserts an entry that must be accepted.
pub(crate) fn insert(
    switch: &Switch,
    name: &str,
    fields: Vec<FieldMatch>,
    priority: i32,
    action: &str,
    params: &[u128],
) {
    let program = switch.program().unwrap();
    let id = table(&program, name);
    let entry = entry(fields, priority, call(&program, id, action, params));
    let op = TableOp::Insert { table: id, entry };
    let result = switch.apply(Timestamp::from_nanos(0), &[op]);
    assert_eq!(result, vec![Ok(())], "inserting into {name}");
}

/// Bytes from hexadecimal digits; blanks are ignored.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).unwrap() as u8)
        .collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks(2).map(|p| (p[0] << 4) | p[1]).collect()
}

/// What came out, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Out {
    Sent(u16, Vec<u8>),
    Cpu(Vec<u8>),
    Dropped(&'static str),
}

/// Runs one packet.
pub(crate) fn run(worker: &mut softswitch::Worker, port: u16, packet: &[u8], us: u64) -> Vec<Out> {
    let mut outs = Vec::new();
    worker.process(port, packet, Timestamp::from_micros(us), &mut |o| {
        outs.push(match o {
            softswitch::Output::Transmit { port, bytes } => Out::Sent(port, bytes.to_vec()),
            softswitch::Output::PacketIn { bytes } => Out::Cpu(bytes.to_vec()),
            softswitch::Output::Dropped { reason } => Out::Dropped(reason.name()),
        });
    });
    outs
}
