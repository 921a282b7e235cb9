//! Commands of bmv2's own shell (`simple_switch_CLI`), as tests and
//! `commands.txt` files have them.

use super::Priority;
use super::matching::{bytes_of, pick, small};
use super::positional::{shell_match, shell_number, split_at_arrow};
use super::setup::Setup;
use crate::control::{
    ActionCall, EntryAction, EntryKey, Group, GroupMember, Member, Selection, TableOp,
};
use crate::program::{ProfileId, TableId};
use crate::switch::Timestamp;

/// How a command is written.
pub(super) struct Usage {
    name: &'static str,
    arguments: &'static str,
    least: usize,
    most: usize,
}

impl Usage {
    const fn new(name: &'static str, arguments: &'static str, least: usize, most: usize) -> Self {
        Self {
            name,
            arguments,
            least,
            most,
        }
    }

    /// Whether there may be so many arguments.
    pub(super) fn check(&self, count: usize) -> Result<(), String> {
        if (self.least..=self.most).contains(&count) {
            return Ok(());
        }
        Err(format!("write {} {}", self.name, self.arguments))
    }
}

const MANY: usize = usize::MAX;

const COMMANDS: [Usage; 25] = [
    Usage::new("act_prof_add_member_to_group", "PROFILE MEMBER GROUP", 3, 3),
    Usage::new("act_prof_create_group", "PROFILE", 1, 1),
    Usage::new(
        "act_prof_create_member",
        "PROFILE ACTION PARAMETER…",
        2,
        MANY,
    ),
    Usage::new("counter_read", "COUNTER INDEX", 2, 2),
    Usage::new("counter_write", "COUNTER INDEX PACKETS BYTES", 4, 4),
    Usage::new("mc_mgrp_create", "GROUP", 1, 1),
    Usage::new("mc_node_associate", "GROUP NODE", 2, 2),
    Usage::new("mc_node_create", "RID PORT…", 1, MANY),
    Usage::new("mc_node_update", "NODE PORT…", 2, MANY),
    Usage::new("meter_array_set_rates", "METER RATE:BURST RATE:BURST", 3, 3),
    Usage::new("meter_get_rates", "METER INDEX", 2, 2),
    Usage::new("meter_set_rates", "METER INDEX RATE:BURST RATE:BURST", 4, 4),
    Usage::new("mirroring_add", "SESSION PORT", 2, 2),
    Usage::new("mirroring_add_mc", "SESSION GROUP", 2, 2),
    Usage::new("mirroring_delete", "SESSION", 1, 1),
    Usage::new("mirroring_get", "SESSION", 1, 1),
    Usage::new("register_read", "REGISTER [INDEX]", 1, 2),
    Usage::new("register_reset", "REGISTER", 1, 1),
    Usage::new("register_write", "REGISTER INDEX VALUE", 3, 3),
    Usage::new(
        "table_add",
        "TABLE ACTION MATCH… => PARAMETER… [PRIORITY]",
        3,
        MANY,
    ),
    Usage::new(
        "table_indirect_add",
        "TABLE MATCH… => MEMBER [PRIORITY]",
        2,
        MANY,
    ),
    Usage::new(
        "table_indirect_add_with_group",
        "TABLE MATCH… => GROUP [PRIORITY]",
        2,
        MANY,
    ),
    Usage::new("table_indirect_set_default", "TABLE MEMBER", 2, 2),
    Usage::new("table_indirect_set_default_with_group", "TABLE GROUP", 2, 2),
    Usage::new("table_set_default", "TABLE ACTION PARAMETER…", 2, MANY),
];

/// How the command of this name is written, if there is one.
pub(super) fn usage(name: &str) -> Option<&'static Usage> {
    COMMANDS.iter().find(|usage| usage.name == name)
}

impl Setup<'_> {
    pub(super) fn direct(
        &mut self,
        name: &str,
        words: &[String],
        now: Timestamp,
    ) -> Result<(), String> {
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let word = |i: usize| {
            arguments
                .get(i)
                .copied()
                .ok_or_else(|| format!("{name} needs more arguments"))
        };
        match name {
            _ if name.starts_with("mc_") || name.starts_with("mirroring_") => {
                self.replicate(name, &arguments)
            }
            _ if ["counter_", "meter_", "register_"]
                .iter()
                .any(|kind| name.starts_with(kind)) =>
            {
                self.cells(name, &arguments, now)
            }
            "table_add" => self.table_add(words, now),
            "table_set_default" => {
                let table = self.table(word(0)?)?;
                let call = self.positional(table, word(1)?, words.get(2..).unwrap_or(&[]))?;
                let action = EntryAction::Call(call);
                self.apply(TableOp::SetDefault { table, action }, now)
            }
            "table_indirect_add" | "table_indirect_add_with_group" => {
                let group = name.ends_with("group");
                self.table_indirect_add(words, group, now)
            }
            "table_indirect_set_default" | "table_indirect_set_default_with_group" => {
                let table = self.table(word(0)?)?;
                let handle = id_of(word(1)?)?;
                let action = if name.ends_with("group") {
                    EntryAction::Group(handle)
                } else {
                    EntryAction::Member(handle)
                };
                self.apply(TableOp::SetDefault { table, action }, now)
            }
            "act_prof_create_member" => self.create_member(words, now),
            "act_prof_create_group" => {
                let profile = self.profile(word(0)?)?;
                let groups = self.profile_groups.entry(profile.0).or_default();
                let group = group_of(groups.len(), Vec::new());
                groups.push(Vec::new());
                self.apply(TableOp::InsertGroup { profile, group }, now)
            }
            "act_prof_add_member_to_group" => {
                let profile = self.profile(word(0)?)?;
                let (member, handle): (u32, usize) = (id_of(word(1)?)?, small(word(2)?)?);
                let members = self
                    .profile_groups
                    .get_mut(&profile.0)
                    .and_then(|groups| groups.get_mut(handle))
                    .ok_or_else(|| {
                        format!(
                            "there is no group {handle}: act_prof_create_group makes groups, \
                             which are numbered from 0"
                        )
                    })?;
                members.push(member);
                let members = members
                    .iter()
                    .map(|&member| GroupMember {
                        member,
                        weight: 1,
                        watch_port: None,
                    })
                    .collect();
                let group = group_of(handle, members);
                self.apply(TableOp::ModifyGroup { profile, group }, now)
            }
            other => Err(format!("{other} is not supported")),
        }
    }

    /// `TABLE ACTION MATCH… => PARAMETER… [PRIORITY]`
    fn table_add(&mut self, words: &[String], now: Timestamp) -> Result<(), String> {
        let [table, action, rest @ ..] = words else {
            return Err("table_add needs more arguments".into());
        };
        let table = self.table(table)?;
        let (matches, mut params) = split_at_arrow(rest)?;
        let action_id = self.action(table, action)?;
        let wanted = self.program.actions().get(action_id.index());
        let wanted = wanted.map_or(0, |a| a.params.len());
        let key = self.positional_key(table, matches, &mut params, wanted)?;
        let call = self.positional(table, action, params)?;
        self.insert(table, key, EntryAction::Call(call), now)
    }

    /// `TABLE MATCH… => HANDLE [PRIORITY]`
    fn table_indirect_add(
        &mut self,
        words: &[String],
        group: bool,
        now: Timestamp,
    ) -> Result<(), String> {
        let [table, rest @ ..] = words else {
            return Err("table_indirect_add needs more arguments".into());
        };
        let table = self.table(table)?;
        let (matches, mut params) = split_at_arrow(rest)?;
        let key = self.positional_key(table, matches, &mut params, 1)?;
        let [handle] = params else {
            return Err("one handle must follow the =>".into());
        };
        let handle = id_of(handle)?;
        let action = if group {
            EntryAction::Group(handle)
        } else {
            EntryAction::Member(handle)
        };
        self.insert(table, key, action, now)
    }

    /// `PROFILE ACTION PARAMETER…`; members are numbered from 0.
    fn create_member(&mut self, words: &[String], now: Timestamp) -> Result<(), String> {
        let [name, action, params @ ..] = words else {
            return Err("write act_prof_create_member PROFILE ACTION PARAMETER…".into());
        };
        let profile = self.profile(name)?;
        let table = self
            .program
            .profiles()
            .get(profile.index())
            .and_then(|p| p.tables.first().copied())
            .ok_or_else(|| format!("no table uses the action profile {name:?}"))?;
        let call = self.positional(table, action, params)?;
        let next = self.members.entry(profile.0).or_default();
        *next += 1;
        let id = *next;
        let member = Member { id, call };
        self.apply(TableOp::InsertMember { profile, member }, now)
    }

    fn profile(&self, name: &str) -> Result<ProfileId, String> {
        let profiles = self.program.profiles();
        let names = profiles.iter().map(|p| p.name.as_str());
        let found = pick("action profile", names, name)?;
        Ok(ProfileId(u32::try_from(found).unwrap_or(u32::MAX)))
    }

    /// A key from its fields in order; takes the priority from the end of
    /// `params`, after the `wanted` ones, where the table has one. As in the
    /// shell, the lower number wins.
    fn positional_key(
        &mut self,
        table: TableId,
        matches: &[String],
        params: &mut &[String],
        wanted: usize,
    ) -> Result<EntryKey, String> {
        let info = self
            .program
            .tables()
            .get(table.index())
            .ok_or("no such table")?;
        if matches.len() != info.key.len() {
            return Err(format!(
                "table {} has {} key fields, {} matches are given",
                info.name,
                info.key.len(),
                matches.len()
            ));
        }
        let fields = info
            .key
            .iter()
            .zip(matches)
            .map(|(field, text)| shell_match(field, text))
            .collect::<Result<_, _>>()?;
        if !info.needs_priority {
            if params.len() == wanted + 1 {
                return Err(format!(
                    "{:?} at the end of the line is too much: entries of table {} have no priority",
                    params.last().map_or("", String::as_str),
                    info.name
                ));
            }
            return Ok(EntryKey {
                fields,
                priority: 0,
            });
        }
        let last = params.split_last().filter(|_| params.len() > wanted);
        let Some((last, rest)) = last else {
            let after = match wanted {
                0 => String::new(),
                1 => ", after one parameter".to_owned(),
                n => format!(", after {n} parameters"),
            };
            return Err(format!(
                "table {} needs a priority at the end of the line{after}; the lowest number wins",
                info.name
            ));
        };
        *params = rest;
        let given: u32 = small(last)?;
        let priority = i32::try_from(given)
            .ok()
            .and_then(|given| i32::MAX.checked_sub(given))
            .filter(|p| *p > 0)
            .ok_or_else(|| format!("the priority {given} is too large"))?;
        self.priorities
            .insert((table, priority), Priority::LowerWins(given));
        Ok(EntryKey { fields, priority })
    }

    /// An action with its parameters in order.
    fn positional(
        &self,
        table: TableId,
        action: &str,
        params: &[String],
    ) -> Result<ActionCall, String> {
        let id = self.action(table, action)?;
        let infos = self
            .program
            .actions()
            .get(id.index())
            .map_or(&[][..], |a| a.params.as_slice());
        if infos.len() != params.len() {
            return Err(format!(
                "action {action} has {} parameters, {} are given",
                infos.len(),
                params.len()
            ));
        }
        let params = infos
            .iter()
            .zip(params)
            .map(|(p, text)| bytes_of(&shell_number(text, p.width)?))
            .collect::<Result<_, _>>()?;
        Ok(ActionCall { action: id, params })
    }
}

/// The id of the member or group with this handle. Handles count from 0, which
/// P4Runtime has for "none".
fn id_of(handle: &str) -> Result<u32, String> {
    let handle: u32 = small(handle)?;
    let id = handle.checked_add(1);
    id.ok_or_else(|| format!("the handle {handle} is too large"))
}

fn group_of(handle: usize, members: Vec<GroupMember>) -> Group {
    Group {
        id: u32::try_from(handle + 1).unwrap_or(u32::MAX),
        members,
        selection: Selection::Selector,
    }
}
