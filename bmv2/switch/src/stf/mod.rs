//! Runs STF tests (the "simple test framework" of p4c) in memory.
//!
//! Names of tables, fields and actions may be given by their ends, as p4c's
//! own driver allows. A higher priority wins. Expected data is compared as far
//! as it goes; a `$` at its end asks for nothing more behind it.

mod parse;

use std::collections::BTreeMap;

use num_bigint::BigInt;

use crate::control::{
    ActionCall, CounterTarget, CounterValue, EntryAction, EntryKey, FieldMatch, MeterConfig,
    MeterTarget, TableEntry, TableOp, Value,
};
use crate::program::{ActionId, KeyFieldInfo, MatchKind, Program, TableId};
use crate::switch::{
    CloneSession, MulticastGroup, Output, Replica, Switch, SwitchConfig, Timestamp,
};
use parse::{Call, Command, Comparison, Match, Number};

/// Time between two commands, in microseconds.
const STEP_US: u64 = 1_000;

/// Why a test did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StfError {
    /// The test cannot be read or carried out.
    #[error("line {line}: {what}")]
    Line {
        /// Line of the test.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The packets are not the expected ones.
    #[error("port {port}: {what}")]
    Packets {
        /// Port.
        port: u16,
        /// What differs.
        what: String,
    },
}

/// A packet that a test expects.
struct Expected {
    line: usize,
    nibbles: Option<Vec<Option<u8>>>,
    exact: bool,
}

/// What a test has done so far.
struct Driver<'a> {
    switch: std::sync::Arc<Switch>,
    program: std::sync::Arc<Program>,
    expected: BTreeMap<u16, Vec<Expected>>,
    got: BTreeMap<u16, Vec<Vec<u8>>>,
    labels: BTreeMap<String, (TableId, EntryKey)>,
    added: Vec<(TableId, EntryKey)>,
    nodes: Vec<(u16, Vec<u16>)>,
    groups: BTreeMap<u16, Vec<Replica>>,
    sessions: BTreeMap<u16, Session>,
    log: &'a mut dyn FnMut(&str),
}

/// A mirroring session as bmv2's shell has it.
#[derive(Default)]
struct Session {
    port: Option<u16>,
    group: Option<u16>,
}

/// Runs a test against a program.
///
/// `log` gets a line for everything that the test prints.
///
/// # Errors
/// The first thing that went wrong.
pub fn run(program: Program, test: &str, mut log: impl FnMut(&str)) -> Result<(), StfError> {
    let statements = parse::parse(test).map_err(|(line, what)| StfError::Line { line, what })?;
    let switch = Switch::new(SwitchConfig::default());
    switch.install(program);
    let Some(program) = switch.program() else {
        return Ok(());
    };
    let mut driver = Driver {
        switch,
        program,
        expected: BTreeMap::new(),
        got: BTreeMap::new(),
        labels: BTreeMap::new(),
        added: Vec::new(),
        nodes: Vec::new(),
        groups: BTreeMap::new(),
        sessions: BTreeMap::new(),
        log: &mut log,
    };
    for (i, s) in statements.iter().enumerate() {
        let now = Timestamp::from_micros(STEP_US.saturating_mul(i as u64 + 1));
        driver
            .command(&s.command, s.line, now)
            .map_err(|what| StfError::Line { line: s.line, what })?;
    }
    driver.compare()
}

impl Driver<'_> {
    fn command(&mut self, c: &Command, line: usize, now: Timestamp) -> Result<(), String> {
        match c {
            Command::Wait | Command::NoPacket => Ok(()),
            Command::Packet { port, bytes } => {
                let got = &mut self.got;
                let mut worker = self.switch.worker();
                worker.process(*port, bytes, now, &mut |out| {
                    if let Output::Transmit { port, bytes } = out {
                        got.entry(port).or_default().push(bytes.to_vec());
                    }
                });
                Ok(())
            }
            Command::Expect {
                port,
                nibbles,
                exact,
            } => {
                self.expected.entry(*port).or_default().push(Expected {
                    line,
                    nibbles: nibbles.clone(),
                    exact: *exact,
                });
                Ok(())
            }
            Command::Add {
                table,
                priority,
                matches,
                call,
                label,
            } => {
                let id = self.table(table)?;
                let key = self.key(id, *priority, matches)?;
                let action = EntryAction::Call(self.call(id, call)?);
                let entry = TableEntry {
                    key: key.clone(),
                    action,
                    idle_timeout_ns: 0,
                    cookie: 0,
                    metadata: Vec::new(),
                };
                self.apply(TableOp::Insert { table: id, entry }, now)?;
                if let Some(l) = label {
                    self.labels.insert(l.clone(), (id, key.clone()));
                }
                self.added.push((id, key));
                Ok(())
            }
            Command::RemoveAll => {
                for (table, key) in std::mem::take(&mut self.added) {
                    self.apply(TableOp::Delete { table, key }, now)?;
                }
                Ok(())
            }
            Command::SetDefault { table, call } => {
                let table = self.table(table)?;
                let action = EntryAction::Call(self.call(table, call)?);
                self.apply(TableOp::SetDefault { table, action }, now)
            }
            Command::CheckCounter {
                counter,
                target,
                bytes,
                check,
            } => self.check_counter(counter, target, *bytes, *check),
            Command::Direct(name, words) => self.direct(name, words, now),
        }
    }

    fn apply(&self, op: TableOp, now: Timestamp) -> Result<(), String> {
        match self.switch.apply(now, &[op]).into_iter().next() {
            Some(Err(e)) => Err(e.to_string()),
            _ => Ok(()),
        }
    }

    fn table(&self, name: &str) -> Result<TableId, String> {
        let tables = self.program.tables();
        let found = pick(tables.iter().map(|t| t.name.as_str()), name)
            .ok_or_else(|| format!("no table, or more than one, is named {name:?}"))?;
        Ok(TableId(u32::try_from(found).unwrap_or(u32::MAX)))
    }

    fn call(&self, table: TableId, call: &Call) -> Result<ActionCall, String> {
        let info = self.program.tables().get(table.index());
        let actions = info.map_or(&[][..], |t| t.actions.as_slice());
        let found = pick(actions.iter().map(|(n, _)| n.as_str()), &call.action)
            .and_then(|i| actions.get(i))
            .ok_or_else(|| format!("no action, or more than one, is named {:?}", call.action))?;
        let id: ActionId = found.1;
        let params = self
            .program
            .actions()
            .get(id.index())
            .map_or(&[][..], |a| a.params.as_slice());
        let params = params
            .iter()
            .map(|p| {
                let arg = call.args.iter().find(|(n, _)| *n == p.name);
                let Some((_, n)) = arg else {
                    return Err(format!("the argument {:?} is missing", p.name));
                };
                bytes_of(&number(n)?)
            })
            .collect::<Result<_, String>>()?;
        Ok(ActionCall { action: id, params })
    }

    fn key(
        &self,
        table: TableId,
        priority: Option<i32>,
        matches: &[(String, Match)],
    ) -> Result<EntryKey, String> {
        let info = self
            .program
            .tables()
            .get(table.index())
            .ok_or("no such table")?;
        let mut fields: Vec<FieldMatch> = info
            .key
            .iter()
            .map(|f| match f.kind {
                MatchKind::Exact => FieldMatch::Exact(Value::new()),
                _ => FieldMatch::Any,
            })
            .collect();
        for (name, m) in matches {
            let i = field_index(&info.key, name)
                .ok_or_else(|| format!("table {} has no key field {name:?}", info.name))?;
            if let (Some(slot), Some(f)) = (fields.get_mut(i), info.key.get(i)) {
                *slot = field_match(f, m)?;
            }
        }
        Ok(EntryKey {
            fields,
            priority: if info.needs_priority {
                priority.unwrap_or(0).saturating_add(1)
            } else {
                0
            },
        })
    }

    fn check_counter(
        &self,
        counter: &str,
        target: &str,
        bytes: bool,
        check: Option<(Comparison, u64)>,
    ) -> Result<(), String> {
        let target = match self.labels.get(target) {
            Some((table, key)) => CounterTarget::Direct {
                table: *table,
                key: key.clone(),
            },
            None => CounterTarget::Indexed {
                counter: self.counter(counter)?,
                index: Some(small(target)?),
            },
        };
        let value = self
            .switch
            .read_counter(&target)
            .map_err(|e| e.to_string())?;
        let value = value.first().copied().unwrap_or_default();
        let n = if bytes { value.bytes } else { value.packets };
        let Some((comparison, wanted)) = check else {
            return Ok(());
        };
        let holds = match comparison {
            Comparison::Eq => n == wanted,
            Comparison::Ne => n != wanted,
            Comparison::Lt => n < wanted,
            Comparison::Le => n <= wanted,
            Comparison::Gt => n > wanted,
            Comparison::Ge => n >= wanted,
        };
        if holds {
            return Ok(());
        }
        Err(format!("the counter is {n}, compared with {wanted}"))
    }

    fn counter(&self, name: &str) -> Result<crate::program::CounterId, String> {
        let i = pick(
            self.program.counters().iter().map(|c| c.name.as_str()),
            name,
        )
        .ok_or_else(|| format!("there is no counter {name:?}"))?;
        Ok(crate::program::CounterId(
            u32::try_from(i).unwrap_or(u32::MAX),
        ))
    }

    fn register(&self, name: &str) -> Result<crate::program::RegisterId, String> {
        let i = pick(
            self.program.registers().iter().map(|r| r.name.as_str()),
            name,
        )
        .ok_or_else(|| format!("there is no register {name:?}"))?;
        Ok(crate::program::RegisterId(
            u32::try_from(i).unwrap_or(u32::MAX),
        ))
    }

    fn meter(&self, name: &str) -> Result<crate::program::MeterId, String> {
        let i = pick(self.program.meters().iter().map(|m| m.name.as_str()), name)
            .ok_or_else(|| format!("there is no meter {name:?}"))?;
        Ok(crate::program::MeterId(
            u32::try_from(i).unwrap_or(u32::MAX),
        ))
    }

    fn direct(&mut self, name: &str, words: &[String], now: Timestamp) -> Result<(), String> {
        let word = |i: usize| {
            words
                .get(i)
                .map(String::as_str)
                .ok_or_else(|| format!("{name} needs more arguments"))
        };
        match name {
            "mc_mgrp_create" => {
                self.groups.insert(small(word(0)?)?, Vec::new());
                self.sync(now)
            }
            "mc_node_create" => {
                let ports = words
                    .get(1..)
                    .unwrap_or(&[])
                    .iter()
                    .map(|w| small(w))
                    .collect::<Result<_, _>>()?;
                self.nodes.push((small(word(0)?)?, ports));
                Ok(())
            }
            "mc_node_update" => {
                let node: usize = small(word(0)?)?;
                let ports = words
                    .get(1..)
                    .unwrap_or(&[])
                    .iter()
                    .map(|w| small(w))
                    .collect::<Result<_, _>>()?;
                if let Some(n) = self.nodes.get_mut(node) {
                    n.1 = ports;
                }
                Ok(())
            }
            "mc_node_associate" => {
                let (group, node): (u16, usize) = (small(word(0)?)?, small(word(1)?)?);
                let (rid, ports) = self
                    .nodes
                    .get(node)
                    .ok_or_else(|| format!("there is no node {node}"))?;
                let list = self
                    .groups
                    .get_mut(&group)
                    .ok_or_else(|| format!("there is no group {group}"))?;
                list.extend(ports.iter().map(|&port| Replica {
                    instance: *rid,
                    port,
                }));
                self.sync(now)
            }
            "mirroring_add" => {
                let port = small(word(1)?)?;
                self.sessions.entry(small(word(0)?)?).or_default().port = Some(port);
                self.sync(now)
            }
            "mirroring_add_mc" => {
                let group = small(word(1)?)?;
                self.sessions.entry(small(word(0)?)?).or_default().group = Some(group);
                self.sync(now)
            }
            "mirroring_delete" => {
                let id = small(word(0)?)?;
                self.sessions.remove(&id);
                self.switch.delete_clone_session(id);
                Ok(())
            }
            "register_write" => self.apply(
                TableOp::WriteRegister {
                    register: self.register(word(0)?)?,
                    index: Some(small(word(1)?)?),
                    value: bytes_of(&number(&Number(word(2)?.to_owned()))?)?,
                },
                now,
            ),
            "register_reset" => self.apply(
                TableOp::WriteRegister {
                    register: self.register(word(0)?)?,
                    index: None,
                    value: Value::new(),
                },
                now,
            ),
            "register_read" => {
                let r = self.register(word(0)?)?;
                let cells = self
                    .switch
                    .read_register(r, Some(small(word(1)?)?))
                    .map_err(|e| e.to_string())?;
                (self.log)(&format!("register {}: {cells:02x?}", word(0)?));
                Ok(())
            }
            "counter_write" => self.apply(
                TableOp::WriteCounter {
                    target: CounterTarget::Indexed {
                        counter: self.counter(word(0)?)?,
                        index: Some(small(word(1)?)?),
                    },
                    value: CounterValue {
                        packets: small(word(2)?)?,
                        bytes: small(word(3)?)?,
                    },
                },
                now,
            ),
            "counter_read" => {
                let target = CounterTarget::Indexed {
                    counter: self.counter(word(0)?)?,
                    index: Some(small(word(1)?)?),
                };
                let v = self
                    .switch
                    .read_counter(&target)
                    .map_err(|e| e.to_string())?;
                (self.log)(&format!("counter {}: {v:?}", word(0)?));
                Ok(())
            }
            "meter_set_rates" | "meter_array_set_rates" => {
                let array = name == "meter_array_set_rates";
                let rates = words.get(if array { 1 } else { 2 }..).unwrap_or(&[]);
                let index = if array { None } else { Some(small(word(1)?)?) };
                self.apply(
                    TableOp::ConfigureMeter {
                        target: MeterTarget::Indexed {
                            meter: self.meter(word(0)?)?,
                            index,
                        },
                        config: Some(rates_of(rates)?),
                    },
                    now,
                )
            }
            "mirroring_get" | "meter_get_rates" => {
                (self.log)(&format!("{name} {}", words.join(" ")));
                Ok(())
            }
            other => Err(format!("{other} is not supported")),
        }
    }

    /// Brings groups and sessions to the switch.
    fn sync(&self, _now: Timestamp) -> Result<(), String> {
        for (&id, replicas) in &self.groups {
            self.switch.set_multicast_group(MulticastGroup {
                id,
                replicas: replicas.clone(),
            });
        }
        for (&id, s) in &self.sessions {
            let mut replicas = s
                .group
                .and_then(|g| self.groups.get(&g))
                .cloned()
                .unwrap_or_default();
            replicas.extend(s.port.map(|port| Replica { instance: 0, port }));
            self.switch.set_clone_session(CloneSession {
                id,
                replicas,
                truncate_to: 0,
                class_of_service: 0,
            });
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), StfError> {
        let ports: std::collections::BTreeSet<u16> = self
            .expected
            .keys()
            .chain(self.got.keys())
            .copied()
            .collect();
        for port in ports {
            let bad = |what: String| Err(StfError::Packets { port, what });
            let none = Vec::new();
            let expected = self.expected.get(&port).unwrap_or(&none);
            let empty = Vec::new();
            let got = self.got.get(&port).unwrap_or(&empty);
            if expected.len() == 1
                && expected.iter().all(|e| e.nibbles.is_none())
                && !got.is_empty()
            {
                continue;
            }
            if expected.len() != got.len() {
                return bad(format!(
                    "{} packets expected, {} sent: {}",
                    expected.len(),
                    got.len(),
                    got.iter().map(|p| hex(p)).collect::<Vec<_>>().join(" ")
                ));
            }
            for (e, g) in expected.iter().zip(got) {
                if !matches(e, g) {
                    return bad(format!(
                        "line {} differs from the packet sent: {}",
                        e.line,
                        hex(g)
                    ));
                }
            }
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

fn matches(e: &Expected, got: &[u8]) -> bool {
    let Some(nibbles) = &e.nibbles else {
        return true;
    };
    let have = got.iter().flat_map(|b| [b >> 4, b & 15]);
    let len = got.len() * 2;
    (if e.exact {
        nibbles.len() == len
    } else {
        nibbles.len() <= len
    }) && nibbles
        .iter()
        .zip(have)
        .all(|(want, have)| want.is_none_or(|w| w == have))
}

/// The position of a name, or of the only name that ends with it.
fn pick<'n>(names: impl Iterator<Item = &'n str> + Clone, wanted: &str) -> Option<usize> {
    if let Some(i) = names.clone().position(|n| n == wanted) {
        return Some(i);
    }
    let mut ends = names.enumerate().filter(|(_, n)| n.ends_with(wanted));
    let first = ends.next()?;
    // Copies of one action are one action.
    ends.all(|(_, n)| n == first.1).then_some(first.0)
}

/// A key field by one of the ways in which tests name it.
fn field_index(key: &[KeyFieldInfo], name: &str) -> Option<usize> {
    let name = bracketed(name);
    let position = |test: &dyn Fn(&str) -> bool| key.iter().position(|f| test(&f.name));
    let valid = name.strip_suffix(".valid").map(|n| format!("{n}.$valid$"));
    position(&|n| n == name)
        .or_else(|| position(&|n| n == format!("{name}$")))
        .or_else(|| position(&|n| n == format!("{name}.$valid$")))
        .or_else(|| position(&|n| Some(n) == valid.as_deref()))
        .or_else(|| {
            // p4c's driver takes the last of several.
            key.iter().rposition(|f| {
                f.name.ends_with(&format!(".{name}"))
                    || f.name.ends_with(&format!(".{name}$"))
                    || valid
                        .as_ref()
                        .is_some_and(|v| f.name.ends_with(&format!(".{v}")))
                    || (name == "valid" && f.name.ends_with("$valid$"))
            })
        })
}

/// `a$0.b` as `a[0].b`.
fn bracketed(name: &str) -> String {
    let Some((head, tail)) = name.split_once('$') else {
        return name.to_owned();
    };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return name.to_owned();
    }
    let (index, rest) = tail.split_at(digits);
    format!("{head}[{index}]{rest}")
}

fn small<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let n = number(&Number(text.to_owned()))?;
    u64::try_from(n)
        .ok()
        .and_then(|n| T::try_from(n).ok())
        .ok_or_else(|| format!("{text:?} is out of range"))
}

/// Digits and base of a number.
fn digits(n: &Number) -> Result<(&str, u32, u32), String> {
    let text = n.0.as_str();
    let (digits, base, bits) = match text.get(..2) {
        Some("0x" | "0X") => (text.get(2..).unwrap_or(""), 16, 4),
        Some("0b" | "0B") => (text.get(2..).unwrap_or(""), 2, 1),
        Some("0o" | "0O") => (text.get(2..).unwrap_or(""), 8, 3),
        _ => (text, 10, 0),
    };
    let fine = !digits.is_empty() && digits.chars().all(|c| c == '*' || c.is_digit(base));
    if fine {
        Ok((digits, base, bits))
    } else {
        Err(format!("{text:?} is not a number"))
    }
}

/// A number without `*`.
fn number(n: &Number) -> Result<BigInt, String> {
    let (text, base, _) = digits(n)?;
    BigInt::parse_bytes(text.as_bytes(), base).ok_or_else(|| format!("{:?} is not a number", n.0))
}

fn bytes_of(n: &BigInt) -> Result<Value, String> {
    Ok(Value::from_vec(n.to_bytes_be().1))
}

/// A number with `*`: its value, a mask with ones for the digits given, and
/// the bits of all digits but the `*`.
fn masked(n: &Number) -> Result<(BigInt, BigInt, u32), String> {
    let (text, base, bits) = digits(n)?;
    if base == 10 {
        return Err(format!("{:?}: a decimal number has no mask", n.0));
    }
    let all = char::from_digit(base - 1, base).unwrap_or('1');
    let value: String = text.replace('*', "0");
    let mask: String = text
        .chars()
        .map(|c| if c == '*' { '0' } else { all })
        .collect();
    let given = text.chars().filter(|c| *c != '*').count();
    let read = |t: &str| BigInt::parse_bytes(t.as_bytes(), base).unwrap_or_default();
    Ok((
        read(&value),
        read(&mask),
        u32::try_from(given)
            .unwrap_or(u32::MAX)
            .saturating_mul(bits),
    ))
}

fn field_match(f: &KeyFieldInfo, m: &Match) -> Result<FieldMatch, String> {
    let ones = |len: u32| (BigInt::from(1) << len.min(f.width)) - 1;
    Ok(match (f.kind, m) {
        (MatchKind::Exact, Match::Number(n)) => FieldMatch::Exact(bytes_of(&number(n)?)?),
        (MatchKind::Ternary, Match::Number(n)) => {
            let (value, mask, _) = masked(n)?;
            // A driver that knows no widths gives masks of whole digits.
            let mask = mask & ones(f.width);
            FieldMatch::Ternary {
                value: bytes_of(&(value & &mask))?,
                mask: bytes_of(&mask)?,
            }
        }
        (MatchKind::Ternary, Match::Masked(n, m)) => {
            let (value, mask) = (number(n)?, number(m)? & ones(f.width));
            FieldMatch::Ternary {
                value: bytes_of(&(value & &mask))?,
                mask: bytes_of(&mask)?,
            }
        }
        (MatchKind::Lpm, Match::Prefix(n, len)) => prefix(f, number(n)?, *len)?,
        (MatchKind::Lpm, Match::Number(n)) if !n.0.starts_with("0x") && !n.0.starts_with("0b") => {
            prefix(f, number(n)?, f.width)?
        }
        (MatchKind::Lpm, Match::Number(n)) => {
            let (value, _, len) = masked(n)?;
            prefix(f, value, len)?
        }
        (kind, _) => {
            return Err(format!(
                "the match does not fit the {kind} field {}",
                f.name
            ));
        }
    })
}

fn prefix(f: &KeyFieldInfo, value: BigInt, len: u32) -> Result<FieldMatch, String> {
    // bmv2 counts from the field's left end padded to whole bytes.
    let padding = f.width.div_ceil(8) * 8 - f.width;
    let len = len.min(f.width + padding).saturating_sub(0).min(f.width);
    let host = f.width - len;
    let value = (value >> host) << host;
    Ok(FieldMatch::Lpm {
        value: bytes_of(&value)?,
        prefix_len: len,
    })
}

/// `rate:burst` twice, committed first; rates are units a microsecond.
fn rates_of(words: &[String]) -> Result<MeterConfig, String> {
    let pair = |i: usize| -> Result<(u64, u64), String> {
        let word = words.get(i).ok_or("a meter needs two rates")?;
        let (rate, burst) = word.split_once(':').ok_or("a rate is RATE:BURST")?;
        let rate: f64 = rate.parse().map_err(|_| format!("{rate:?} is no rate"))?;
        Ok(((rate * 1e6) as u64, small(burst)?))
    };
    let ((cir, cburst), (pir, pburst)) = (pair(0)?, pair(1)?);
    Ok(MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
    })
}
