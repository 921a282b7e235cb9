//! From the document to the program that runs.

mod action;
mod calc;
mod code;
mod control;
mod direct;
mod entries;
mod expr;
mod key;
mod layout;
mod optimise;
mod parser;
mod select;
mod standard;
mod symbols;
mod typed;

use std::collections::HashMap;

use crate::ir::code::Span;
use crate::ir::{self, Checksum, DirectMeter, Errors, FieldKind, FieldList, Ir, Node, Wire};
use crate::load::{Document, Operand};
use crate::meters::Meter;
use crate::program::{
    ActionInfo, CounterId, CounterInfo, DigestInfo, HeaderFieldInfo, HeaderInfo, LoadError,
    MeterInfo, ParamInfo, ProfileId, ProfileInfo, Program, RegisterInfo, TableId, TableInfo, Unit,
    ValueSetInfo,
};
use action::Actions;
use expr::Scope;
use parser::Parsers;
use symbols::{Symbols, invalid, limit, unsupported};

/// Most memory for the cells of all counters, all meters, or all registers, in
/// bytes.
const MAX_CELL_BYTES: u64 = 1 << 30;

/// What a counter's cell takes, in bytes.
const COUNTER_BYTES: u64 = 16;

/// What a meter's cell takes, in bytes.
const METER_BYTES: u64 = size_of::<Meter>() as u64;

/// What tables and pipelines are collected in.
struct Builder<'a, 'b> {
    doc: &'a Document,
    symbols: &'a Symbols,
    action_infos: &'b [ActionInfo],
    action_by_id: HashMap<u32, u32>,
    direct_meters: HashMap<String, DirectMeter>,
    profile_by_name: HashMap<String, ProfileId>,
    nodes: Vec<Node>,
    node_names: Vec<String>,
    ir_tables: Vec<ir::Table>,
    tables: Vec<TableInfo>,
    profiles: Vec<ProfileInfo>,
    selectors: Vec<Option<ir::Calc>>,
    defaults: Vec<(TableId, crate::control::ActionCall)>,
    entries: Vec<(TableId, crate::control::TableEntry)>,
}

/// Lowers a document.
pub(crate) fn lower(doc: &Document) -> Result<Program, LoadError> {
    if let Some(e) = doc.extern_instances.first() {
        return unsupported(
            format!("extern instance {:?}", e.name),
            format!("the extern {:?} (no modules can be loaded)", e.kind),
        );
    }
    let mut symbols = Symbols::build(doc)?;
    let (counters, direct_counters) = counters(doc, &mut symbols)?;
    let (meters, direct_meters) = meters(doc, &mut symbols)?;
    let registers = registers(doc, &mut symbols)?;
    let mut calcs = Vec::new();
    for c in &doc.calculations {
        let place = format!("calculation {:?}", c.name);
        calcs.push(calc::calculation(&symbols, &place, &c.algo, &c.input)?);
        let id = u32::try_from(calcs.len() - 1).unwrap_or(u32::MAX);
        symbols.calcs.insert(c.name.clone(), id);
    }
    let symbols = &symbols;
    let (mut value_sets, vset_by_name) = value_sets(doc)?;

    let mut actions = Actions {
        symbols,
        log: Vec::new(),
    };
    let mut ir_actions = Vec::with_capacity(doc.actions.len());
    let mut action_infos = Vec::with_capacity(doc.actions.len());
    let mut action_by_id = HashMap::new();
    for a in &doc.actions {
        ir_actions.push(actions.action(a)?);
        let index = u32::try_from(action_infos.len()).unwrap_or(u32::MAX);
        if action_by_id.insert(a.id, index).is_some() {
            return invalid(
                format!("action {:?}", a.name),
                format!("two have id {}", a.id),
            );
        }
        action_infos.push(ActionInfo {
            name: a.name.clone(),
            params: a
                .runtime_data
                .iter()
                .map(|p| ParamInfo {
                    name: p.name.clone(),
                    width: p.bitwidth,
                })
                .collect(),
        });
    }
    let mut parsers = Parsers {
        actions: &mut actions,
        vset_by_name: &vset_by_name,
        vset_widths: vec![Vec::new(); value_sets.len()],
    };
    let parser = parsers.parser(doc)?;
    for (set, widths) in value_sets.iter_mut().zip(parsers.vset_widths) {
        set.fields = widths;
    }
    let deparser = parser::deparser(doc, &mut actions)?;

    let mut builder = Builder {
        doc,
        symbols,
        action_infos: &action_infos,
        action_by_id,
        direct_meters,
        profile_by_name: HashMap::new(),
        nodes: Vec::new(),
        node_names: Vec::new(),
        ir_tables: Vec::new(),
        tables: Vec::new(),
        profiles: Vec::new(),
        selectors: Vec::new(),
        defaults: Vec::new(),
        entries: Vec::new(),
    };
    let ingress = builder.pipeline("ingress")?;
    let egress = builder.pipeline("egress")?;
    let Builder {
        nodes,
        node_names,
        ir_tables,
        mut tables,
        profiles,
        selectors,
        defaults,
        entries,
        ..
    } = builder;
    let mut counters = counters;
    bind_counters(&direct_counters, &mut tables, &mut counters);
    let mut meters = meters;
    for (i, t) in tables.iter().enumerate() {
        if let Some(m) = t.direct_meter.and_then(|m| meters.get_mut(m.index())) {
            m.direct = Some(TableId(u32::try_from(i).unwrap_or(u32::MAX)));
        }
    }
    let (verify, update) = checksums(doc, symbols)?;
    let (digests, digest_infos) = digests(doc, symbols)?;
    let source = code::Program {
        headers: &symbols.headers,
        nodes: &nodes,
        tables: &ir_tables,
        actions: &ir_actions,
        ingress,
        egress,
    };
    let plain = optimise::optimise(&source, code::code(source, false));
    let traced = code::code(source, true);
    let ir = Ir {
        image: symbols.image,
        wires: symbols
            .headers
            .iter()
            .map(|h| Wire {
                offset: h.offset,
                fixed: h.fixed,
                union: h.union,
            })
            .collect(),
        initially_valid: symbols.headers.iter().map(|h| h.metadata).collect(),
        headers: symbols.headers.clone(),
        metadata: symbols.metadata.clone(),
        stacks: symbols.stacks.clone(),
        union_stacks: symbols.union_stacks.clone(),
        unions: symbols.unions.clone(),
        field_lists: field_lists(doc, symbols)?,
        parser,
        errors: errors(doc),
        node_names,
        code: plain,
        traced,
        actions: ir_actions,
        tables: ir_tables,
        selectors,
        calcs,
        verify,
        update,
        deparser,
        digests,
        standard: standard::standard(symbols)?,
        log: actions.log,
    };
    let program = Program {
        tables,
        actions: action_infos,
        profiles,
        counters,
        meters,
        registers,
        digests: digest_infos,
        headers: headers(symbols),
        value_sets,
        defaults,
        entries,
        ir,
    };
    check_entries(&program)?;
    Ok(program)
}

/// Inserts the program's own entries once, so that a bad one is found now.
fn check_entries(program: &Program) -> Result<(), LoadError> {
    let tables = crate::tables::Tables::new(program);
    for (id, info) in program.tables.iter().enumerate() {
        let id = TableId(u32::try_from(id).unwrap_or(u32::MAX));
        let wanted = program.entries.iter().filter(|(t, _)| *t == id).count() as u64;
        if tables.count(id).unwrap_or(0) == wanted {
            continue;
        }
        return invalid(
            format!("table {:?}", info.name),
            "two of its constant entries have the same key, or one is malformed",
        );
    }
    Ok(())
}

fn cells(place: &str, total: &mut u64, size: u32, bytes: u64) -> Result<(), LoadError> {
    *total = total.saturating_add(u64::from(size).saturating_mul(bytes));
    limit(
        place,
        "the memory for the cells of it and those before it, in bytes",
        *total,
        MAX_CELL_BYTES,
    )
}

/// What a register's cell may take, in bytes.
fn register_bytes(width: u32) -> u64 {
    match width {
        0..=64 => 8,
        _ => 32 + u64::from(width).div_ceil(8),
    }
}

type DirectCounters = Vec<(String, u32)>;

fn counters(
    doc: &Document,
    symbols: &mut Symbols,
) -> Result<(Vec<CounterInfo>, DirectCounters), LoadError> {
    let (mut infos, mut direct, mut total) = (Vec::new(), Vec::new(), 0);
    for c in &doc.counter_arrays {
        let place = format!("counter {:?}", c.name);
        let id = u32::try_from(infos.len()).unwrap_or(u32::MAX);
        if c.is_direct {
            direct.push((c.binding.clone().unwrap_or_default(), id));
        } else {
            cells(&place, &mut total, c.size, COUNTER_BYTES)?;
            symbols.counters.insert(c.name.clone(), id);
        }
        infos.push(CounterInfo {
            name: c.name.clone(),
            size: if c.is_direct { 0 } else { c.size },
            direct: None,
        });
    }
    Ok((infos, direct))
}

fn bind_counters(direct: &DirectCounters, tables: &mut [TableInfo], counters: &mut [CounterInfo]) {
    for (binding, id) in direct {
        if let Some((i, t)) = tables
            .iter_mut()
            .enumerate()
            .find(|(_, t)| t.name == *binding)
        {
            t.direct_counter = Some(CounterId(*id));
            if let Some(c) = counters.get_mut(*id as usize) {
                c.direct = Some(TableId(u32::try_from(i).unwrap_or(u32::MAX)));
            }
        }
    }
}

fn meters(
    doc: &Document,
    symbols: &mut Symbols,
) -> Result<(Vec<MeterInfo>, HashMap<String, DirectMeter>), LoadError> {
    let (mut infos, mut direct, mut total) = (Vec::new(), HashMap::new(), 0);
    for m in &doc.meter_arrays {
        let place = format!("meter {:?}", m.name);
        let id = u32::try_from(infos.len()).unwrap_or(u32::MAX);
        let unit = match m.unit.as_str() {
            "packets" => Unit::Packets,
            "bytes" => Unit::Bytes,
            other => return unsupported(place, format!("a meter of type {other:?}")),
        };
        if m.rate_count != 2 {
            return unsupported(place, format!("a meter with {} rates", m.rate_count));
        }
        if m.is_direct {
            let Some((header, field)) = &m.result_target else {
                return invalid(place, "it is direct but names no result field");
            };
            let result = symbols.field(&place, header, field)?;
            if result.kind != FieldKind::Plain {
                return unsupported(place, "a result field of this kind");
            }
            let loc = result.loc();
            direct.insert(m.name.clone(), DirectMeter { id, result, loc });
        } else {
            cells(&place, &mut total, m.size, METER_BYTES)?;
            symbols.meters.insert(m.name.clone(), id);
        }
        infos.push(MeterInfo {
            name: m.name.clone(),
            size: if m.is_direct { 0 } else { m.size },
            direct: None,
            unit,
        });
    }
    Ok((infos, direct))
}

fn registers(doc: &Document, symbols: &mut Symbols) -> Result<Vec<RegisterInfo>, LoadError> {
    let (mut infos, mut total) = (Vec::new(), 0);
    for r in &doc.register_arrays {
        let place = format!("register {:?}", r.name);
        cells(&place, &mut total, r.size, register_bytes(r.bitwidth))?;
        if r.bitwidth == 0 || r.bitwidth > 1 << 14 {
            return invalid(place, format!("cells of {} bits", r.bitwidth));
        }
        let id = u32::try_from(infos.len()).unwrap_or(u32::MAX);
        symbols.registers.insert(r.name.clone(), (id, r.bitwidth));
        infos.push(RegisterInfo {
            name: r.name.clone(),
            size: r.size,
            width: r.bitwidth,
        });
    }
    Ok(infos)
}

fn value_sets(doc: &Document) -> Result<(Vec<ValueSetInfo>, HashMap<String, u32>), LoadError> {
    let mut infos = Vec::new();
    let mut by_name = HashMap::new();
    for v in &doc.parse_vsets {
        let id = u32::try_from(infos.len()).unwrap_or(u32::MAX);
        if by_name.insert(v.name.clone(), id).is_some() {
            return invalid(
                format!("value set {:?}", v.name),
                "there are two of this name",
            );
        }
        infos.push(ValueSetInfo {
            name: v.name.clone(),
            width: v.compressed_bitwidth,
            size: v.max_size.unwrap_or(1024),
            fields: Vec::new(),
        });
    }
    Ok((infos, by_name))
}

fn checksums(
    doc: &Document,
    symbols: &Symbols,
) -> Result<(Vec<Checksum>, Vec<Checksum>), LoadError> {
    let (mut verify, mut update) = (Vec::new(), Vec::new());
    for c in &doc.checksums {
        let place = format!("checksum {:?}", c.name);
        if c.kind != "generic" {
            return unsupported(place, format!("a checksum of type {:?}", c.kind));
        }
        let name = c.calculation.as_deref().unwrap_or("");
        let Some(&calc) = symbols.calcs.get(name) else {
            return invalid(place, format!("there is no calculation {name:?}"));
        };
        let target = symbols.field(&place, &c.target.0, &c.target.1)?;
        if target.kind != FieldKind::Plain {
            return unsupported(place, "a target that is not a plain field");
        }
        let scope = Scope {
            symbols,
            params: &[],
            place: &place,
        };
        let cond = match &c.if_cond {
            Some(json) if !json.is_null() => Some(scope.cond(json)?),
            _ => None,
        };
        let make = || Checksum {
            name: c.name.clone(),
            target,
            span: target.loc().filter(|_| !target.signed).and_then(Span::new),
            calc,
            cond: cond.clone(),
        };
        if c.verify {
            verify.push(make());
        }
        if c.update {
            update.push(make());
        }
    }
    Ok((verify, update))
}

fn list_fields<'a>(
    symbols: &Symbols,
    place: &str,
    elements: impl Iterator<Item = &'a Operand>,
) -> Result<Vec<ir::Field>, LoadError> {
    elements
        .map(|o| match o.kind.as_str() {
            "field" => symbols.field_pair(place, &o.value),
            other => unsupported(place, format!("an element of type {other:?}")),
        })
        .collect()
}

fn field_lists(doc: &Document, symbols: &Symbols) -> Result<Vec<FieldList>, LoadError> {
    doc.field_lists
        .iter()
        .map(|l| {
            // Of a constant, nothing is copied.
            let fields = l.elements.iter().filter(|o| o.kind != "hexstr");
            let place = format!("field list {}", l.id);
            let fields = list_fields(symbols, &place, fields)?;
            if fields.iter().any(|f| f.kind == FieldKind::Varbit) {
                return unsupported(place, "a varbit in a list");
            }
            Ok(FieldList { id: l.id, fields })
        })
        .collect()
}

type Digests = (Vec<Vec<ir::Field>>, Vec<DigestInfo>);

fn digests(doc: &Document, symbols: &Symbols) -> Result<Digests, LoadError> {
    let (mut lists, mut infos) = (Vec::new(), Vec::new());
    for l in &doc.learn_lists {
        let place = format!("learn list {:?}", l.name);
        let fields = list_fields(symbols, &place, l.elements.iter())?;
        infos.push(DigestInfo {
            name: l.name.clone(),
            json_id: l.id,
            widths: fields.iter().map(|f| f.width).collect(),
        });
        lists.push(fields);
    }
    Ok((lists, infos))
}

fn errors(doc: &Document) -> Errors {
    let code = |name, fallback| parser::error_code(doc, name, fallback);
    Errors {
        no_error: code("NoError", 0),
        packet_too_short: code("PacketTooShort", 1),
        stack_out_of_bounds: code("StackOutOfBounds", 3),
        header_too_short: code("HeaderTooShort", 4),
        parser_timeout: code("ParserTimeout", 5),
        parser_invalid_argument: code("ParserInvalidArgument", 6),
    }
}

fn headers(symbols: &Symbols) -> Vec<HeaderInfo> {
    symbols
        .headers
        .iter()
        .map(|h| HeaderInfo {
            name: h.name.clone(),
            metadata: h.metadata,
            fields: h
                .fields
                .iter()
                .zip(&h.field_names)
                .filter(|(f, _)| f.kind != FieldKind::Valid)
                .map(|(f, name)| HeaderFieldInfo {
                    name: name.clone(),
                    width: f.width,
                    signed: f.signed,
                    varbit: f.kind == FieldKind::Varbit,
                })
                .collect(),
        })
        .collect()
}
