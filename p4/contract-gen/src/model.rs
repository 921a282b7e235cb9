//! P4Info as the renderer wants it: resolved, in the order of the pipeline,
//! with everything checked that the generated code relies on.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use p4runtime_proto::p4::config::v1::action_ref::Scope;
use p4runtime_proto::p4::config::v1::counter_spec::Unit;
use p4runtime_proto::p4::config::v1::match_field::{Match, MatchType};
use p4runtime_proto::p4::config::v1::table::IdleTimeoutBehavior;
use p4runtime_proto::p4::config::v1::{CounterSpec, P4Info, Preamble};

use crate::source::{Constant, Enumeration};

/// The whole contract.
#[derive(Debug)]
pub struct Contract {
    /// In the order of P4Info, which is the order of the pipeline.
    pub tables: Vec<Table>,
    /// Indexed counters first, then those of tables.
    pub counters: Vec<Counter>,
    /// `packet_in` and `packet_out`.
    pub headers: Vec<Header>,
    /// From the sources.
    pub enumerations: Vec<Enumeration>,
    /// From the sources.
    pub constants: Vec<Constant>,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Id in P4Info.
    pub id: u32,
    /// The short name.
    pub name: String,
    /// The name with the controls around it.
    pub full_name: String,
    /// Entries it holds.
    pub size: i64,
    /// Its key.
    pub fields: Vec<Field>,
    /// What its entries may do; default-only actions are left out.
    pub actions: Vec<Action>,
    /// Whether entries have an idle timeout.
    pub idle_timeout: bool,
    /// The counter of each entry.
    pub direct_counter: Option<u32>,
}

impl Table {
    /// Whether entries have a priority (P4Runtime: with ternary, range or
    /// optional keys).
    pub fn has_priority(&self) -> bool {
        self.fields.iter().any(|field| field.kind == Kind::Range)
    }
}

/// How a key element matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The very value.
    Exact,
    /// A prefix.
    Lpm,
    /// Between two bounds.
    Range,
}

/// An element of a key.
#[derive(Debug)]
pub struct Field {
    /// Id in the table.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// In bits.
    pub width: u32,
    /// How it matches.
    pub kind: Kind,
}

/// An action.
#[derive(Debug)]
pub struct Action {
    /// Id in P4Info.
    pub id: u32,
    /// The short name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Value>,
}

/// A parameter of an action or a field of a controller header.
#[derive(Debug, Clone)]
pub struct Value {
    /// Id in the action or header.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// In bits.
    pub width: u32,
    /// The enum that it is of.
    pub enumeration: Option<String>,
}

/// A counter.
#[derive(Debug)]
pub struct Counter {
    /// Id in P4Info.
    pub id: u32,
    /// The short name.
    pub name: String,
    /// `Packets`, `Bytes` or `Both`.
    pub unit: &'static str,
    /// Cells of an indexed counter, or the table of a direct one.
    pub place: Place,
}

/// What a counter counts for.
#[derive(Debug)]
pub enum Place {
    /// An array of this size.
    Indexed(i64),
    /// The entries of this table.
    Direct(u32),
}

/// A controller header.
#[derive(Debug)]
pub struct Header {
    /// `packet_in` or `packet_out`.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Value>,
}

/// What the sources declare.
#[derive(Debug)]
pub struct Declarations {
    /// Constants.
    pub constants: Vec<Constant>,
    /// Enums.
    pub enumerations: Vec<Enumeration>,
    /// Types of parameters and header fields, see [`crate::source::typed_values`].
    pub types: BTreeMap<(String, String), String>,
}

impl Declarations {
    /// The enum that a parameter or header field is of.
    fn enumeration_of(&self, owner: &str, name: &str) -> Option<String> {
        let ty = self.types.get(&(owner.to_owned(), name.to_owned()))?;
        let known = self.enumerations.iter().any(|item| item.name == *ty);
        known.then(|| ty.clone())
    }
}

/// Builds the contract from P4Info and what the sources declare.
///
/// # Errors
/// When P4Info holds something that the renderer has no form for, or an enum
/// differs between P4Info and the sources.
pub fn build(p4info: &P4Info, declared: Declarations) -> Result<Contract> {
    check_enumerations(p4info, &declared.enumerations)?;

    let mut actions = BTreeMap::new();
    for action in &p4info.actions {
        let preamble = preamble(action.preamble.as_ref())?;
        let name = &preamble.alias;
        let mut params = Vec::new();
        for param in &action.params {
            params.push(Value {
                id: param.id,
                name: param.name.clone(),
                width: width(&param.name, param.bitwidth)?,
                enumeration: declared.enumeration_of(name, &param.name),
            });
        }
        actions.insert(preamble.id, (name.clone(), params));
    }

    let mut tables = Vec::new();
    for table in &p4info.tables {
        let preamble = preamble(table.preamble.as_ref())?;
        tables.push(
            build_table(table, preamble, &actions, p4info)
                .with_context(|| format!("table {}", preamble.alias))?,
        );
    }

    let mut headers = Vec::new();
    for header in &p4info.controller_packet_metadata {
        let preamble = preamble(header.preamble.as_ref())?;
        let mut fields = Vec::new();
        for field in &header.metadata {
            fields.push(Value {
                id: field.id,
                name: field.name.clone(),
                width: width(&field.name, field.bitwidth)?,
                enumeration: declared.enumeration_of(&preamble.alias, &field.name),
            });
        }
        headers.push(Header {
            name: preamble.alias.clone(),
            fields,
        });
    }

    let contract = Contract {
        tables,
        counters: counters(p4info)?,
        headers,
        enumerations: declared.enumerations,
        constants: declared.constants,
    };
    check_use(p4info, &contract)?;
    Ok(contract)
}

fn preamble(preamble: Option<&Preamble>) -> Result<&Preamble> {
    let preamble = preamble.context("an object of P4Info has no preamble")?;
    let name = &preamble.alias;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if preamble.alias != "NoAction" && (name.is_empty() || !name.chars().all(plain)) {
        bail!(
            "the short name of {} is {name:?}, which is no Rust name: is another object's the same?",
            preamble.name
        );
    }
    Ok(preamble)
}

fn build_table(
    table: &p4runtime_proto::p4::config::v1::Table,
    preamble: &Preamble,
    all_actions: &BTreeMap<u32, (String, Vec<Value>)>,
    p4info: &P4Info,
) -> Result<Table> {
    let mut fields = Vec::new();
    for field in &table.match_fields {
        let kind = match field.r#match {
            Some(Match::MatchType(kind)) if kind == MatchType::Exact as i32 => Kind::Exact,
            Some(Match::MatchType(kind)) if kind == MatchType::Lpm as i32 => Kind::Lpm,
            Some(Match::MatchType(kind)) if kind == MatchType::Range as i32 => Kind::Range,
            _ => bail!("no form for the match kind of {}", field.name),
        };
        fields.push(Field {
            id: field.id,
            name: field.name.clone(),
            width: width(&field.name, field.bitwidth)?,
            kind,
        });
    }

    let mut actions = Vec::new();
    for reference in &table.action_refs {
        if reference.scope == Scope::DefaultOnly as i32 {
            continue;
        }
        let (name, params) = all_actions
            .get(&reference.id)
            .with_context(|| format!("no action {}", reference.id))?;
        actions.push(Action {
            id: reference.id,
            name: name.clone(),
            params: params.clone(),
        });
    }

    let direct_counter = p4info
        .direct_counters
        .iter()
        .find(|counter| counter.direct_table_id == preamble.id)
        .and_then(|counter| counter.preamble.as_ref())
        .map(|preamble| preamble.id);

    Ok(Table {
        id: preamble.id,
        name: preamble.alias.clone(),
        full_name: preamble.name.clone(),
        size: table.size,
        fields,
        actions,
        idle_timeout: table.idle_timeout_behavior == IdleTimeoutBehavior::NotifyControl as i32,
        direct_counter,
    })
}

fn counters(p4info: &P4Info) -> Result<Vec<Counter>> {
    let mut counters = Vec::new();
    for counter in &p4info.counters {
        let preamble = preamble(counter.preamble.as_ref())?;
        counters.push(Counter {
            id: preamble.id,
            name: preamble.alias.clone(),
            unit: unit(counter.spec.as_ref())?,
            place: Place::Indexed(counter.size),
        });
    }
    for counter in &p4info.direct_counters {
        let preamble = preamble(counter.preamble.as_ref())?;
        counters.push(Counter {
            id: preamble.id,
            name: preamble.alias.clone(),
            unit: unit(counter.spec.as_ref())?,
            place: Place::Direct(counter.direct_table_id),
        });
    }
    Ok(counters)
}

fn unit(spec: Option<&CounterSpec>) -> Result<&'static str> {
    match spec.map(|spec| spec.unit()) {
        Some(Unit::Packets) => Ok("Packets"),
        Some(Unit::Bytes) => Ok("Bytes"),
        Some(Unit::Both) => Ok("Both"),
        _ => bail!("a counter without unit"),
    }
}

fn width(name: &str, bitwidth: i32) -> Result<u32> {
    match u32::try_from(bitwidth) {
        Ok(width @ 1..=64) => Ok(width),
        _ => bail!("{name} has {bitwidth} bits; there is a form for 1 to 64"),
    }
}

fn check_enumerations(p4info: &P4Info, enumerations: &[Enumeration]) -> Result<()> {
    let Some(types) = &p4info.type_info else {
        return Ok(());
    };
    for (name, compiled) in &types.serializable_enums {
        let declared = enumerations
            .iter()
            .find(|item| item.name == *name)
            .with_context(|| format!("the sources declare no enum {name}"))?;
        let compiled: Vec<(&str, Option<&u8>)> = compiled
            .members
            .iter()
            .map(|member| (member.name.as_str(), member.value.last()))
            .collect();
        let read: Vec<(&str, Option<&u8>)> = declared
            .members
            .iter()
            .map(|member| (member.name.as_str(), Some(&member.value)))
            .collect();
        if compiled != read {
            bail!("enum {name} is {compiled:?} in P4Info and {read:?} in the sources");
        }
    }
    Ok(())
}

/// An enum that P4Info names is the type of something: if nothing was found,
/// the sources have a form that [`crate::source::typed_values`] does not read.
fn check_use(p4info: &P4Info, contract: &Contract) -> Result<()> {
    let params = contract
        .tables
        .iter()
        .flat_map(|table| &table.actions)
        .flat_map(|action| &action.params);
    let fields = contract.headers.iter().flat_map(|header| &header.fields);
    let used: Vec<&str> = params
        .chain(fields)
        .filter_map(|value| value.enumeration.as_deref())
        .collect();
    let named = p4info
        .type_info
        .iter()
        .flat_map(|types| types.serializable_enums.keys());
    for name in named {
        if !used.contains(&name.as_str()) {
            bail!("no parameter or header field of enum {name} was found in the sources");
        }
    }
    Ok(())
}
