//! Counters and meters: arrays, and those of tables.

use p4runtime_proto::p4::config::v1::{self as p4info, P4Info};

use super::bind::{Unnamed, check_size, identity, insert, mismatch, preamble_of};
use super::{Binding, CounterBinding, CounterUnit, MeterBinding, MeterKind, TableBinding};
use crate::Program;
use crate::p4rt::fault::Outcome;
use crate::program::TableInfo;

impl Binding {
    pub(super) fn bind_arrays(
        &mut self,
        info: &P4Info,
        program: &Program,
        unnamed: Unnamed,
    ) -> Outcome<()> {
        for counter in &info.counters {
            let preamble = preamble_of(counter.preamble.as_ref(), "counter")?;
            let (id, name) = (preamble.id, preamble.name.as_str());
            let Some(core) = program.counter_by_name(name) else {
                self.note_removed("counter", preamble, unnamed.counters)?;
                continue;
            };
            let found = &program.counters()[core.index()];
            check_size("counter", name, counter.size, found.size)?;
            let bound = CounterBinding {
                core,
                name: name.to_owned(),
                size: found.size,
                unit: counter_unit(counter.spec.as_ref()),
            };
            insert(&mut self.counters, id, bound, "counter")?;
        }
        for meter in &info.meters {
            let preamble = preamble_of(meter.preamble.as_ref(), "meter")?;
            let (id, name) = (preamble.id, preamble.name.as_str());
            let Some(core) = program.meter_by_name(name) else {
                self.note_removed("meter", preamble, unnamed.meters)?;
                continue;
            };
            let found = &program.meters()[core.index()];
            check_size("meter", name, meter.size, found.size)?;
            let bound = MeterBinding {
                core,
                name: name.to_owned(),
                size: found.size,
                kind: meter_kind(meter.spec.as_ref()),
            };
            insert(&mut self.meters, id, bound, "meter")?;
        }
        for counter in &info.direct_counters {
            let id = counter.direct_table_id;
            let Some(table) =
                self.direct_table(counter.preamble.as_ref(), id, "direct counter", program)?
            else {
                continue;
            };
            table.counter = Some(counter_unit(counter.spec.as_ref()));
        }
        for meter in &info.direct_meters {
            let id = meter.direct_table_id;
            let preamble = meter.preamble.as_ref();
            if let Some(table) = self.direct_table(preamble, id, "direct meter", program)? {
                table.meter = Some(meter_kind(meter.spec.as_ref()));
            }
        }
        Ok(())
    }

    /// The table of a direct resource; none if the compiler left it out.
    fn direct_table(
        &mut self,
        preamble: Option<&p4info::Preamble>,
        table_id: u32,
        kind: &str,
        program: &Program,
    ) -> Outcome<Option<&mut TableBinding>> {
        let (_, name) = identity(preamble, kind)?;
        if self.removed.contains_key(&table_id) {
            return Ok(None);
        }
        let table = self
            .tables
            .get_mut(&table_id)
            .ok_or_else(|| mismatch(kind, name, "its table is missing"))?;
        let found: &TableInfo = &program.tables()[table.core.index()];
        let there = match kind {
            "direct counter" => found.direct_counter.is_some(),
            _ => found.direct_meter.is_some(),
        };
        if !there {
            let what = format!("table {} of the program has none", found.name);
            return Err(mismatch(kind, name, &what));
        }
        Ok(Some(table))
    }
}

fn counter_unit(spec: Option<&p4info::CounterSpec>) -> CounterUnit {
    use p4info::counter_spec::Unit;
    match spec.map(p4info::CounterSpec::unit) {
        Some(Unit::Bytes) => CounterUnit::Bytes,
        Some(Unit::Packets) => CounterUnit::Packets,
        _ => CounterUnit::Both,
    }
}

fn meter_kind(spec: Option<&p4info::MeterSpec>) -> MeterKind {
    use p4info::meter_spec::Type;
    match spec.map(p4info::MeterSpec::r#type) {
        Some(Type::SingleRateThreeColor) => MeterKind::OneRate,
        Some(Type::SingleRateTwoColor) => MeterKind::TwoColours,
        _ => MeterKind::TwoRates,
    }
}
