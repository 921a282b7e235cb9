//! Pipelines: tables, conditions, and the graph that links them.

use std::collections::HashMap;

use super::Builder;
use super::calc::calculation;
use super::expr::Scope;
use super::symbols::{invalid, limit, unsupported};
use crate::ir::{self, END, Node, NodeId};
use crate::load::{self, Pipeline};
use crate::program::{ActionId, LoadError, ProfileId, ProfileInfo, TableId, TableInfo};

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
            // p4c names conditions `node_7`; people know them by their source.
            let source = c.source_info.as_ref().map(|s| s.source_fragment.as_str());
            self.node_names.push(match source {
                Some(text) if !text.is_empty() => format!("{text} ({})", c.name),
                _ => c.name.clone(),
            });
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
                Some(meter) => Some(*meter),
                None => return invalid(place, format!("there is no direct meter {name:?}")),
            },
        };
        let default = match &t.default_entry {
            Some(d) => Some((d, self.action_index(&place, d.action_id)?)),
            None => None,
        };
        if let Some((d, action)) = default {
            let call = self.call(&place, action, &d.action_data)?;
            if !actions.iter().any(|(_, a)| a.0 == action) {
                return invalid(place, "its default action is not one of its actions");
            }
            self.defaults.push((id, call));
        }
        let fixed = default.is_some_and(|(d, _)| d.action_entry_const);
        let info = TableInfo {
            name: t.name.clone(),
            key,
            kind,
            needs_priority: layout.prioritised,
            actions,
            size,
            is_const: t.entries.is_some(),
            const_default_action: fixed || default.is_some_and(|(d, _)| d.action_const),
            const_default_params: fixed,
            support_timeout: t.support_timeout,
            direct_counter: None,
            direct_meter: meter.map(|m| crate::program::MeterId(m.id)),
            profile,
        };
        let node = match (&info, default) {
            // What p4c makes of statements between tables.
            (info, Some((d, action)))
                if info.key.is_empty() && fixed && d.action_data.is_empty() =>
            {
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
            actions: info.actions.iter().map(|(_, a)| a.0).collect(),
            fixed_default: default
                .filter(|_| profile.is_none() && info.const_default_action)
                .map(|(_, action)| action),
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
}
