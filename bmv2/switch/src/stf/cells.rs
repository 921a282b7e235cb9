//! Counters, meters and registers of a test or an entries file.

use num_bigint::{BigInt, Sign};

use super::matching::{bytes_of, number, pick, small};
use super::parse::{Cell, Comparison, Number};
use super::setup::Setup;
use crate::control::{
    CounterTarget, CounterValue, EntryKey, MeterConfig, MeterTarget, TableOp, Value,
};
use crate::program::{CounterId, MeterId, RegisterId, TableId, Unit};
use crate::switch::Timestamp;

/// bmv2's shell has rates in units a microsecond, the switch in units a second.
const MICROSECONDS: f64 = 1e6;

impl Setup<'_> {
    /// A command about counters, meters or registers, with its arguments.
    pub(super) fn cells(
        &mut self,
        name: &str,
        words: &[&str],
        now: Timestamp,
    ) -> Result<(), String> {
        match (name, words) {
            ("counter_read", [counter, index]) => {
                let (name, target) = self.counter(counter, small(index)?)?;
                let value = self.switch.read_counter(&target).map_err(said)?;
                let CounterValue { packets, bytes } = value.first().copied().unwrap_or_default();
                (self.log)(&format!(
                    "{name}[{index}]= {packets} packets, {bytes} bytes"
                ));
                Ok(())
            }
            ("counter_write", [counter, index, packets, bytes]) => {
                let (_, target) = self.counter(counter, small(index)?)?;
                let value = CounterValue {
                    packets: small(packets)?,
                    bytes: small(bytes)?,
                };
                self.apply(TableOp::WriteCounter { target, value }, now)
            }
            ("register_read", [register, index @ ..]) => {
                let (name, register) = self.register(register)?;
                let at = index.first().map(|index| small(index)).transpose()?;
                let cells = self.switch.read_register(register, at).map_err(said)?;
                let cells: Vec<String> = cells
                    .iter()
                    .map(|cell| BigInt::from_bytes_be(Sign::Plus, cell).to_string())
                    .collect();
                let at = at.map_or_else(String::new, |at: u32| format!("[{at}]"));
                (self.log)(&format!("{name}{at}= {}", cells.join(", ")));
                Ok(())
            }
            ("register_write", [register, index, value]) => {
                let value = bytes_of(&number(&Number((*value).to_owned()))?)?;
                self.write_register(register, Some(small(index)?), value, now)
            }
            ("register_reset", [register]) => {
                self.write_register(register, None, Value::new(), now)
            }
            ("meter_get_rates", [meter, index]) => {
                let (name, unit, target) = self.meter(meter, Some(small(index)?))?;
                let config = self.switch.read_meter(&target).map_err(said)?;
                let config = config.first().copied().flatten();
                let rates =
                    config.map_or_else(|| "no rates".to_owned(), |c| rates_in_words(&c, unit));
                (self.log)(&format!("{name}[{index}]: {rates}"));
                Ok(())
            }
            ("meter_set_rates", [meter, index, rates @ ..]) => {
                let (_, _, target) = self.meter(meter, Some(small(index)?))?;
                let config = Some(rates_of(rates)?);
                self.apply(TableOp::ConfigureMeter { target, config }, now)
            }
            ("meter_array_set_rates", [meter, rates @ ..]) => {
                let (_, _, target) = self.meter(meter, None)?;
                let config = Some(rates_of(rates)?);
                self.apply(TableOp::ConfigureMeter { target, config }, now)
            }
            _ => Err(format!("{name} is not supported")),
        }
    }

    /// Writes a cell of a register, or all.
    fn write_register(
        &mut self,
        name: &str,
        index: Option<u32>,
        value: Value,
        now: Timestamp,
    ) -> Result<(), String> {
        let (_, register) = self.register(name)?;
        let op = TableOp::WriteRegister {
            register,
            index,
            value,
        };
        self.apply(op, now)
    }

    /// Compares a counter: what is wrong with it, if anything.
    pub(super) fn check_counter(
        &self,
        counter: &str,
        cell: &Cell,
        bytes: bool,
        check: Option<(Comparison, u64)>,
    ) -> Result<Option<String>, String> {
        let target = match cell {
            Cell::Index(index) => self.counter(counter, *index)?.1,
            Cell::Label(label) => self.labelled(counter, label)?,
        };
        let value = self.switch.read_counter(&target).map_err(said)?;
        let value = value.first().copied().unwrap_or_default();
        let n = if bytes { value.bytes } else { value.packets };
        let Some((comparison, wanted)) = check else {
            return Ok(None);
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
            return Ok(None);
        }
        Ok(Some(format!("the counter is {n}, compared with {wanted}")))
    }

    /// The direct counter of the entry with a label.
    fn labelled(&self, counter: &str, label: &str) -> Result<CounterTarget, String> {
        let id = self.counter_id(counter)?;
        let (table, key) = self.labels.get(label).ok_or_else(|| {
            format!(
                "no entry has the label {label:?}: one gets it from `add … = {label}` on a \
                 line before"
            )
        })?;
        let info = self.program.counters().get(id.index());
        if info.and_then(|c| c.direct) != Some(*table) {
            return Err(format!(
                "{} does not count entries of the table {}, as {label} is one",
                info.map_or("", |c| c.name.as_str()),
                self.table_name(*table),
            ));
        }
        Ok(CounterTarget::Direct {
            table: *table,
            key: key.clone(),
        })
    }

    fn counter_id(&self, name: &str) -> Result<CounterId, String> {
        let names = self.program.counters().iter().map(|c| c.name.as_str());
        Ok(CounterId(id(pick("counter", names, name)?)))
    }

    /// A cell of a counter, and the counter's whole name.
    fn counter(&self, name: &str, index: u32) -> Result<(String, CounterTarget), String> {
        let counter = self.counter_id(name)?;
        let info = self.program.counters().get(counter.index());
        let info = info.ok_or("no such counter")?;
        let target = match info.direct {
            Some(table) => CounterTarget::Direct {
                table,
                key: self.entry(table, index)?,
            },
            None => CounterTarget::Indexed {
                counter,
                index: Some(index),
            },
        };
        Ok((info.name.clone(), target))
    }

    /// A cell of a meter, or all; the meter's whole name, and what it measures.
    fn meter(&self, name: &str, index: Option<u32>) -> Result<(String, Unit, MeterTarget), String> {
        let meters = self.program.meters();
        let found = pick("meter", meters.iter().map(|m| m.name.as_str()), name)?;
        let info = meters.get(found).ok_or("no such meter")?;
        let target = match (info.direct, index) {
            (Some(_), None) => {
                return Err(format!(
                    "{} is the meter of a table's entries, not an array: set each one's rates",
                    info.name
                ));
            }
            (Some(table), Some(index)) => MeterTarget::Direct {
                table,
                key: self.entry(table, index)?,
            },
            _ => MeterTarget::Indexed {
                meter: MeterId(id(found)),
                index,
            },
        };
        Ok((info.name.clone(), info.unit, target))
    }

    fn register(&self, name: &str) -> Result<(String, RegisterId), String> {
        let registers = self.program.registers();
        let found = pick("register", registers.iter().map(|r| r.name.as_str()), name)?;
        let name = registers.get(found).map_or("", |r| r.name.as_str());
        Ok((name.to_owned(), RegisterId(id(found))))
    }

    /// The entry with a handle. Those of the program have the first ones.
    fn entry(&self, table: TableId, handle: u32) -> Result<EntryKey, String> {
        let own = self.program.entries.iter().map(|(t, e)| (t, &e.key));
        let added = self.added.iter().map(|(t, key)| (t, key));
        own.chain(added)
            .filter(|(t, _)| **t == table)
            .nth(handle as usize)
            .map(|(_, key)| key.clone())
            .ok_or_else(|| {
                format!(
                    "the table {} has no entry with the handle {handle}",
                    self.table_name(table)
                )
            })
    }

    fn table_name(&self, table: TableId) -> &str {
        let info = self.program.tables().get(table.index());
        info.map_or("", |t| t.name.as_str())
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn id(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// `rate:burst` twice, committed first.
fn rates_of(words: &[&str]) -> Result<MeterConfig, String> {
    let pair = |i: usize| -> Result<(u64, u64), String> {
        let word = words.get(i).ok_or("a meter needs two rates")?;
        let (rate, burst) = word
            .split_once(':')
            .ok_or_else(|| format!("{word:?}: write a rate as RATE:BURST"))?;
        let rate: f64 = rate
            .parse()
            .ok()
            .filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)
            .ok_or_else(|| format!("{rate:?} is not a rate"))?;
        Ok(((rate * MICROSECONDS) as u64, small(burst)?))
    };
    let ((cir, cburst), (pir, pburst)) = (pair(0)?, pair(1)?);
    Ok(MeterConfig {
        cir,
        cburst,
        pir,
        pburst,
        eburst: None,
    })
}

fn rates_in_words(c: &MeterConfig, unit: Unit) -> String {
    let unit = match unit {
        Unit::Packets => "packets",
        Unit::Bytes => "bytes",
    };
    let rate = |rate: u64| rate as f64 / MICROSECONDS;
    format!(
        "committed {} {unit}/us, burst {}; peak {} {unit}/us, burst {}",
        rate(c.cir),
        c.cburst,
        rate(c.pir),
        c.pburst
    )
}
