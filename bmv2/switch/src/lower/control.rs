//! Pipelines: tables, conditions, and the graph that links them.

use std::collections::HashMap;

use num_bigint::BigInt;
use smallvec::SmallVec;

use super::calc::calculation;
use super::expr::Scope;
use super::symbols::{hex_number, invalid, limit, number_bytes, pair, unsupported};
use super::{Builder, Direct};
use crate::control::{ActionCall, EntryAction, EntryKey, FieldMatch, TableEntry, Value};
use crate::ir::bits::mask64;
use crate::ir::{self, END, FieldKind, Node, NodeId};
use crate::load::{self, Pipeline};
use crate::program::{
    ActionId, KeyFieldInfo, LoadError, MatchKind, ProfileId, ProfileInfo, TableId, TableInfo,
};
use crate::tables::key::{KeyField, KeyLayout, MAX_WORDS, Piece, Source, pack};

/// Size of a table that names none.
const DEFAULT_SIZE: u32 = 1024;
/// Most tables, conditions and calls together.
const MAX_NODES: u64 = 1 << 16;

/// The nodes of a pipeline by name.
struct Names<'a> {
    pipeline: &'a str,
    by_name: HashMap<&'a str, NodeId>,
}

impl Names<'_> {
    fn next(&self, place: &str, name: Option<&str>) -> Result<NodeId, LoadError> {
        match name {
            None => Ok(END),
            Some(n) => match self.by_name.get(n) {
                Some(&id) => Ok(id),
                None => invalid(
                    place,
                    format!("pipeline {:?} has no node {n:?}", self.pipeline),
                ),
            },
        }
    }
}

impl Builder<'_, '_> {
    /// Lowers the pipeline of a name; its first node.
    pub(crate) fn pipeline(&mut self, name: &str) -> Result<NodeId, LoadError> {
        let doc = self.doc;
        let Some(p) = doc.pipelines.iter().find(|p| p.name == name) else {
            return invalid("pipelines", format!("the program has no pipeline {name:?}"));
        };
        limit(
            format!("pipeline {name:?}"),
            "the number of its nodes",
            (p.tables.len() + p.conditionals.len() + p.action_calls.len()) as u64,
            MAX_NODES,
        )?;
        self.profiles(p)?;
        let names = self.name_nodes(p)?;
        for t in &p.tables {
            self.table(t, &names)?;
        }
        for c in &p.conditionals {
            let place = format!("condition {:?}", c.name);
            let scope = Scope {
                symbols: self.symbols,
                params: &[],
                place: &place,
            };
            let node = Node::If {
                cond: scope.cond(&c.expression)?,
                yes: names.next(&place, c.true_next.as_deref())?,
                no: names.next(&place, c.false_next.as_deref())?,
            };
            self.nodes.push(node);
            self.node_names.push(c.name.clone());
        }
        for c in &p.action_calls {
            let place = format!("action call {:?}", c.name);
            let action = self.action_index(&place, c.action_id)?;
            if self.action_params(action) > 0 {
                return invalid(place, "its action has parameters");
            }
            let next = names.next(&place, c.next_node.as_deref())?;
            self.nodes.push(Node::Call { action, next });
            self.node_names.push(c.name.clone());
        }
        let first = names.next(&format!("pipeline {name:?}"), p.init_table.as_deref())?;
        self.acyclic(p, first)?;
        Ok(first)
    }

    /// Ids in the order in which `pipeline` pushes the nodes.
    fn name_nodes<'p>(&self, p: &'p Pipeline) -> Result<Names<'p>, LoadError> {
        let mut by_name = HashMap::new();
        let names = p
            .tables
            .iter()
            .map(|t| t.name.as_str())
            .chain(p.conditionals.iter().map(|c| c.name.as_str()))
            .chain(p.action_calls.iter().map(|c| c.name.as_str()));
        for (i, name) in names.enumerate() {
            let id = NodeId::try_from(self.nodes.len() + i).unwrap_or(END);
            if by_name.insert(name, id).is_some() {
                return invalid(
                    format!("pipeline {:?}", p.name),
                    format!("two nodes are named {name:?}"),
                );
            }
        }
        Ok(Names {
            pipeline: &p.name,
            by_name,
        })
    }

    /// Refuses a graph in which a packet could go round.
    fn acyclic(&self, p: &Pipeline, first: NodeId) -> Result<(), LoadError> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        let mut stack = vec![(first, false)];
        while let Some((node, leave)) = stack.pop() {
            let Some(mark) = marks.get_mut(node as usize) else {
                continue;
            };
            if leave {
                *mark = Mark::Done;
                continue;
            }
            match *mark {
                Mark::Done => continue,
                Mark::Open => {
                    return invalid(format!("pipeline {:?}", p.name), "its nodes form a loop");
                }
                Mark::New => *mark = Mark::Open,
            }
            stack.push((node, true));
            for next in self.successors(node) {
                match marks.get(next as usize) {
                    Some(Mark::Open) => {
                        return invalid(format!("pipeline {:?}", p.name), "its nodes form a loop");
                    }
                    Some(Mark::New) => stack.push((next, false)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn successors(&self, node: NodeId) -> Vec<NodeId> {
        match self.nodes.get(node as usize) {
            Some(Node::If { yes, no, .. }) => vec![*yes, *no],
            Some(Node::Call { next, .. }) => vec![*next],
            Some(Node::Table(t)) => match self.ir_tables.get(*t as usize) {
                Some(t) => t
                    .next
                    .iter()
                    .copied()
                    .chain(t.hit)
                    .chain(t.miss)
                    .chain([t.base_default_next])
                    .collect(),
                None => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    fn profiles(&mut self, p: &Pipeline) -> Result<(), LoadError> {
        for a in &p.action_profiles {
            let place = format!("action profile {:?}", a.name);
            let id = ProfileId(u32::try_from(self.profiles.len()).unwrap_or(u32::MAX));
            if self.profile_by_name.insert(a.name.clone(), id).is_some() {
                return invalid(place, "there are two of this name");
            }
            let selector = match &a.selector {
                Some(s) => Some(calculation(self.symbols, &place, &s.algo, &s.input)?),
                None => None,
            };
            self.profiles.push(ProfileInfo {
                name: a.name.clone(),
                size: a.max_size,
                with_selector: selector.is_some(),
                tables: Vec::new(),
            });
            self.selectors.push(selector);
        }
        Ok(())
    }

    fn table(&mut self, t: &load::Table, names: &Names<'_>) -> Result<(), LoadError> {
        let place = format!("table {:?}", t.name);
        let id = TableId(u32::try_from(self.tables.len()).unwrap_or(u32::MAX));
        let (key, layout, kind) = self.key(&place, t)?;
        let profile = match (t.kind.as_str(), t.action_profile.as_deref()) {
            ("simple", _) => None,
            ("indirect" | "indirect_ws", Some(name)) => match self.profile_by_name.get(name) {
                Some(&p) => Some(p),
                None => return invalid(place, format!("there is no action profile {name:?}")),
            },
            ("indirect" | "indirect_ws", None) => {
                return invalid(place, "it is indirect but names no action profile");
            }
            (other, _) => return unsupported(place, format!("a table of type {other:?}")),
        };
        if let Some(p) = profile.and_then(|p| self.profiles.get_mut(p.index())) {
            p.tables.push(id);
        }
        let mut actions = Vec::with_capacity(t.action_ids.len());
        let mut next = vec![END; self.action_infos.len()];
        let hit_or_miss = t.next_tables.contains_key("__HIT__");
        for &json_id in &t.action_ids {
            let index = self.action_index(&place, json_id)?;
            let name = self
                .action_infos
                .get(index as usize)
                .map(|a| a.name.clone())
                .unwrap_or_default();
            let target = match t.next_tables.get(&name) {
                Some(n) => names.next(&place, n.as_deref())?,
                None if hit_or_miss => END,
                None => return invalid(place, format!("it does not say what follows {name:?}")),
            };
            if let Some(n) = next.get_mut(index as usize) {
                *n = target;
            }
            actions.push((name, ActionId(index)));
        }
        let branch = |name: &str| match t.next_tables.get(name) {
            Some(n) => names.next(&place, n.as_deref()).map(Some),
            None => Ok(None),
        };
        let (hit, miss) = (branch("__HIT__")?, branch("__MISS__")?);
        let size = match &t.entries {
            Some(e) => u32::try_from(e.len()).unwrap_or(u32::MAX),
            None => t.max_size.unwrap_or(DEFAULT_SIZE),
        };
        let meter = match t.direct_meters.as_deref() {
            None => None,
            Some(name) => match self.direct_meters.get(name) {
                Some(Direct { id, result }) => Some((*id, *result)),
                None => return invalid(place, format!("there is no direct meter {name:?}")),
            },
        };
        let default = t.default_entry.as_ref();
        if let Some(d) = default {
            let action = self.action_index(&place, d.action_id)?;
            let call = self.call(&place, action, &d.action_data)?;
            if !actions.iter().any(|(_, a)| a.0 == action) {
                return invalid(place, "its default action is not one of its actions");
            }
            self.defaults.push((id, call));
        }
        let fixed = default.is_some_and(|d| d.action_entry_const);
        let info = TableInfo {
            name: t.name.clone(),
            key,
            kind,
            needs_priority: layout.prioritised,
            actions,
            size,
            is_const: t.entries.is_some(),
            const_default_action: fixed || default.is_some_and(|d| d.action_const),
            const_default_params: fixed,
            support_timeout: t.support_timeout,
            direct_counter: None,
            direct_meter: meter.map(|(m, _)| crate::program::MeterId(m)),
            profile,
        };
        let node = match (&info, default) {
            // What p4c makes of statements between tables.
            (info, Some(d)) if info.key.is_empty() && fixed && d.action_data.is_empty() => {
                let action = self.action_index(&place, d.action_id)?;
                let after = next.get(action as usize).copied().unwrap_or(END);
                Node::Call {
                    action,
                    next: miss.unwrap_or(after),
                }
            }
            _ => Node::Table(id.0),
        };
        self.nodes.push(node);
        self.node_names.push(t.name.clone());
        let entries = match &t.entries {
            Some(e) => self.entries(&place, &info, e)?,
            None => Vec::new(),
        };
        self.entries.extend(entries.into_iter().map(|e| (id, e)));
        self.ir_tables.push(ir::Table {
            layout,
            next,
            hit,
            miss,
            base_default_next: names.next(&place, t.base_default_next.as_deref())?,
            counted: t.with_counters,
            meter,
            timed: t.support_timeout,
            profile: profile.map(|p| p.0),
        });
        self.tables.push(info);
        Ok(())
    }

    fn key(
        &self,
        place: &str,
        t: &load::Table,
    ) -> Result<(Vec<KeyFieldInfo>, KeyLayout, MatchKind), LoadError> {
        let kind = match_kind(place, &t.match_type)?;
        let mut infos = Vec::with_capacity(t.key.len());
        let mut fields = Vec::with_capacity(t.key.len());
        let mut masks: Vec<Option<Value>> = Vec::new();
        let mut lpm = None;
        for (i, k) in t.key.iter().enumerate() {
            let place = format!("{place} key field {i}");
            if k.target.is_object() {
                // p4c's form for `stack[index].field`; bmv2 crashes on it.
                return unsupported(place, "a key that is an expression");
            }
            let (field, kind) = if k.match_type == "valid" {
                let name = k.target.as_str().unwrap_or("");
                let h = self.symbols.header(&place, name)?;
                (
                    self.symbols.field_of(&place, h, "$valid$")?,
                    MatchKind::Exact,
                )
            } else {
                (
                    self.symbols.field_pair(&place, &k.target)?,
                    match_kind(&place, &k.match_type)?,
                )
            };
            if field.kind == FieldKind::Varbit {
                return unsupported(place, "a varbit in a key");
            }
            if kind == MatchKind::Lpm && lpm.replace(i).is_some() {
                return invalid(place, "it is the second lpm field");
            }
            if kind == MatchKind::Range && field.width > 64 {
                return unsupported(place, "a range over more than 64 bits");
            }
            let name = match &k.name {
                Some(n) => n.clone(),
                None => match pair(&place, &k.target) {
                    Ok((h, f)) => format!("{h}.{f}"),
                    Err(_) => k.target.as_str().unwrap_or("").to_owned(),
                },
            };
            masks.push(match &k.mask {
                None => None,
                Some(m) => {
                    let n = hex_number(&place, m)?;
                    let len = field.width.div_ceil(8) as usize;
                    match number_bytes(&n, len) {
                        Some(b) => Some(Value::from_vec(b)),
                        None => return invalid(place, "its mask is wider than it"),
                    }
                }
            });
            infos.push(KeyFieldInfo {
                name,
                kind,
                width: field.width,
            });
            fields.push(field);
        }
        // p4c writes what the whole table needs; a ternary or range field
        // decides over priority, an lpm field beside one is just a mask.
        let prioritised = infos
            .iter()
            .any(|f| matches!(f.kind, MatchKind::Ternary | MatchKind::Range));
        let found = if prioritised {
            kind
        } else if lpm.is_some() {
            MatchKind::Lpm
        } else {
            MatchKind::Exact
        };
        if !infos.is_empty()
            && (prioritised != matches!(kind, MatchKind::Ternary | MatchKind::Range))
        {
            return invalid(
                place,
                format!("its match_type is {kind}, its fields say {found}"),
            );
        }
        let (places, words) = pack(&infos.iter().map(|f| f.width).collect::<Vec<_>>());
        limit(
            place,
            "the width of its key in words",
            words as u64,
            MAX_WORDS as u64,
        )?;
        let layout = layout(place, &infos, &fields, places, words, &masks, prioritised)?;
        Ok((infos, layout, found))
    }

    /// An action's index by its id in the document.
    pub(crate) fn action_index(&self, place: &str, json_id: u32) -> Result<u32, LoadError> {
        match self.action_by_id.get(&json_id) {
            Some(&i) => Ok(i),
            None => invalid(place, format!("no action has id {json_id}")),
        }
    }

    fn action_params(&self, action: u32) -> usize {
        self.action_infos
            .get(action as usize)
            .map_or(0, |a| a.params.len())
    }

    fn call(&self, place: &str, action: u32, data: &[String]) -> Result<ActionCall, LoadError> {
        let empty = Vec::new();
        let params = self
            .action_infos
            .get(action as usize)
            .map_or(&empty, |a| &a.params);
        if params.len() != data.len() {
            return invalid(
                place,
                format!(
                    "an action of {} parameters gets {}",
                    params.len(),
                    data.len()
                ),
            );
        }
        let params = params
            .iter()
            .zip(data)
            .map(|(p, text)| {
                let n = hex_number(place, text)?;
                Ok(low_bytes(n, p.width))
            })
            .collect::<Result<_, LoadError>>()?;
        Ok(ActionCall {
            action: ActionId(action),
            params,
        })
    }

    fn entries(
        &self,
        place: &str,
        info: &TableInfo,
        entries: &[load::Entry],
    ) -> Result<Vec<TableEntry>, LoadError> {
        let last = entries.iter().map(|e| e.priority).max().unwrap_or(0);
        entries
            .iter()
            .enumerate()
            .map(|(i, e)| {
                let place = format!("{place} entry {i}");
                if e.match_key.len() != info.key.len() {
                    return invalid(place, "its key has another number of fields than the table");
                }
                let fields = e
                    .match_key
                    .iter()
                    .zip(&info.key)
                    .map(|(m, f)| entry_field(&place, m, f))
                    .collect::<Result<_, _>>()?;
                let action = self.action_index(&place, e.action_entry.action_id)?;
                if !info.actions.iter().any(|(_, a)| a.0 == action) {
                    return invalid(place, "its action is not one of the table's");
                }
                // In the document the lowest number wins, in P4Runtime the
                // highest.
                let priority = if info.needs_priority {
                    last.saturating_sub(e.priority).saturating_add(1).max(1)
                } else {
                    0
                };
                Ok(TableEntry {
                    key: EntryKey { fields, priority },
                    action: EntryAction::Call(self.call(
                        &place,
                        action,
                        &e.action_entry.action_data,
                    )?),
                    idle_timeout_ns: 0,
                    cookie: 0,
                    metadata: Vec::new(),
                })
            })
            .collect()
    }
}

fn match_kind(place: &str, name: &str) -> Result<MatchKind, LoadError> {
    Ok(match name {
        "exact" => MatchKind::Exact,
        "lpm" => MatchKind::Lpm,
        "ternary" | "optional" => MatchKind::Ternary,
        "range" => MatchKind::Range,
        other => return unsupported(place, format!("the match kind {other:?}")),
    })
}

#[allow(clippy::too_many_arguments)]
fn layout(
    place: &str,
    infos: &[KeyFieldInfo],
    fields: &[ir::Field],
    places: Vec<SmallVec<[crate::tables::key::Place; 1]>>,
    words: usize,
    masks: &[Option<Value>],
    prioritised: bool,
) -> Result<KeyLayout, LoadError> {
    let mut l = KeyLayout {
        words,
        prioritised,
        ..KeyLayout::default()
    };
    let mut program_mask: SmallVec<[u64; 4]> = SmallVec::from_elem(0, words);
    for (((info, field), places), mask) in infos.iter().zip(fields).zip(places).zip(masks) {
        for p in &places {
            let source = match field.kind {
                FieldKind::Valid => Source::Valid,
                _ => match field.slice(p.right, p.width) {
                    Some(loc) => Source::Loc(loc),
                    None => return unsupported(place, "a key field of this width"),
                },
            };
            l.pieces.push(Piece {
                header: field.header,
                source,
                place: *p,
            });
            let bits = match mask {
                Some(m) => crate::tables::key::chunk(m, p.right, p.width),
                None => mask64(p.width),
            };
            if let Some(w) = program_mask.get_mut(p.word) {
                *w |= bits << p.shift;
            }
        }
        let range = (info.kind == MatchKind::Range).then(|| {
            l.ranges.extend(places.first().copied());
            l.ranges.len() - 1
        });
        l.fields.push(KeyField {
            name: info.name.clone(),
            kind: info.kind,
            width: info.width,
            places,
            range,
        });
    }
    if masks.iter().any(Option::is_some) {
        l.program_mask = program_mask;
    }
    Ok(l)
}

/// The low bits of a number as big-endian bytes.
fn low_bytes(n: BigInt, width: u32) -> Value {
    let low = crate::ir::expr::wrap(n, width, false);
    Value::from_vec(number_bytes(&low, width.div_ceil(8) as usize).unwrap_or_default())
}

/// A field of an entry in the document. p4c cuts masks of more than 64 bits
/// and overflows the end of "any" ranges; neither makes an entry unusable.
fn entry_field(place: &str, m: &load::EntryKey, f: &KeyFieldInfo) -> Result<FieldMatch, LoadError> {
    let text = |j: &Option<String>| j.clone().unwrap_or_default();
    let number = |t: &str| hex_number(place, t);
    let bytes = |n: BigInt| low_bytes(n, f.width);
    let kind = match m.match_type.as_str() {
        "valid" => MatchKind::Exact,
        other => match_kind(place, other)?,
    };
    if kind != f.kind {
        return invalid(
            place,
            format!("a field is {kind}, in the table it is {}", f.kind),
        );
    }
    let key = || -> Result<BigInt, LoadError> {
        match (&m.key, m.key.as_str()) {
            (serde_json::Value::Bool(b), _) => Ok(BigInt::from(u8::from(*b))),
            (_, Some(t)) => number(t),
            _ => invalid(place, "a field has no key"),
        }
    };
    Ok(match f.kind {
        MatchKind::Exact => FieldMatch::Exact(bytes(key()?)),
        MatchKind::Lpm => {
            let prefix_len = m.prefix_length.unwrap_or(0);
            if prefix_len > f.width {
                return invalid(
                    place,
                    format!("a prefix of {prefix_len} bits in {}", f.width),
                );
            }
            let host = f.width - prefix_len;
            let value = (crate::ir::expr::wrap(key()?, f.width, false) >> host) << host;
            FieldMatch::Lpm {
                value: bytes(value),
                prefix_len,
            }
        }
        MatchKind::Ternary => {
            let mask = number(&text(&m.mask))?;
            let value = crate::ir::expr::wrap(key()?, f.width, false)
                & crate::ir::expr::wrap(mask.clone(), f.width, false);
            FieldMatch::Ternary {
                value: bytes(value),
                mask: bytes(mask),
            }
        }
        MatchKind::Range => {
            let top = (BigInt::from(1) << f.width) - 1;
            let low = number(&text(&m.start))?;
            let high = number(&text(&m.end))?;
            if low == BigInt::ZERO && (high > top || high < low) {
                return Ok(FieldMatch::Any);
            }
            if low > high || high > top {
                return invalid(place, "a range is empty or beyond its field");
            }
            FieldMatch::Range {
                low: bytes(low),
                high: bytes(high),
            }
        }
    })
}
