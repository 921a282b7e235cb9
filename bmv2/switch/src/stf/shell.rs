//! Commands of bmv2's own shell (`simple_switch_CLI`), as tests and
//! `commands.txt` files have them.

use num_bigint::BigInt;

use super::matching::{bytes_of, number, pick, prefix, small};
use super::parse::Number;
use super::setup::Setup;
use crate::control::{
    ActionCall, CounterTarget, CounterValue, EntryAction, EntryKey, FieldMatch, Group, GroupMember,
    Member, MeterConfig, MeterTarget, Selection, TableOp, Value,
};
use crate::program::{KeyFieldInfo, MatchKind, ProfileId, TableId};
use crate::switch::{Replica, Timestamp};

impl Setup<'_> {
    pub(super) fn direct(
        &mut self,
        name: &str,
        words: &[String],
        now: Timestamp,
    ) -> Result<(), String> {
        let word = |i: usize| {
            words
                .get(i)
                .map(String::as_str)
                .ok_or_else(|| format!("{name} needs more arguments"))
        };
        match name {
            "mc_mgrp_create" => {
                self.groups.insert(small(word(0)?)?, Vec::new());
                {
                    self.sync();
                    Ok(())
                }
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
                {
                    self.sync();
                    Ok(())
                }
            }
            "mirroring_add" => {
                let port = small(word(1)?)?;
                self.sessions.entry(small(word(0)?)?).or_default().port = Some(port);
                {
                    self.sync();
                    Ok(())
                }
            }
            "mirroring_add_mc" => {
                let group = small(word(1)?)?;
                self.sessions.entry(small(word(0)?)?).or_default().group = Some(group);
                {
                    self.sync();
                    Ok(())
                }
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
                    .ok_or_else(|| format!("there is no group {handle}"))?;
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
            return Err("write table_add TABLE ACTION MATCH… => PARAMETER… [PRIORITY]".into());
        };
        let table = self.table(table)?;
        let (matches, mut params) = split_at_arrow(rest)?;
        let key = self.positional_key(table, matches, &mut params)?;
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
            return Err("write table_indirect_add TABLE MATCH… => HANDLE [PRIORITY]".into());
        };
        let table = self.table(table)?;
        let (matches, mut params) = split_at_arrow(rest)?;
        let key = self.positional_key(table, matches, &mut params)?;
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
        let found = pick(profiles.iter().map(|p| p.name.as_str()), name)
            .ok_or_else(|| format!("there is no action profile {name:?}"))?;
        Ok(ProfileId(u32::try_from(found).unwrap_or(u32::MAX)))
    }

    /// A key from its fields in order; takes the priority from the end of
    /// `params` where the table has one. As in the shell, the lower number
    /// wins.
    fn positional_key(
        &self,
        table: TableId,
        matches: &[String],
        params: &mut &[String],
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
        let mut priority = 0;
        if info.needs_priority {
            let Some((last, rest)) = params.split_last() else {
                return Err(format!(
                    "table {} needs a priority at the end of the line",
                    info.name
                ));
            };
            *params = rest;
            let given: u32 = small(last)?;
            priority = i32::try_from(given)
                .ok()
                .and_then(|given| i32::MAX.checked_sub(given))
                .filter(|p| *p > 0)
                .ok_or_else(|| format!("the priority {given} is too large"))?;
        }
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

fn split_at_arrow(words: &[String]) -> Result<(&[String], &[String]), String> {
    let arrow = words
        .iter()
        .position(|w| w == "=>")
        .ok_or("the => between matches and parameters is missing")?;
    Ok((
        words.get(..arrow).unwrap_or(&[]),
        words.get(arrow + 1..).unwrap_or(&[]),
    ))
}

/// A number, or an address where the width is that of one.
fn shell_number(text: &str, width: u32) -> Result<BigInt, String> {
    let bytes = match width {
        32 if text.contains('.') => text
            .parse::<std::net::Ipv4Addr>()
            .map(|a| a.octets().to_vec())
            .map_err(|_| format!("{text:?} is not an IPv4 address"))?,
        48 if text.contains(':') => {
            mac(text).ok_or_else(|| format!("{text:?} is not a MAC address"))?
        }
        128 if text.contains(':') => text
            .parse::<std::net::Ipv6Addr>()
            .map(|a| a.octets().to_vec())
            .map_err(|_| format!("{text:?} is not an IPv6 address"))?,
        _ => return number(&Number(text.to_owned())),
    };
    Ok(BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes))
}

fn mac(text: &str) -> Option<Vec<u8>> {
    let bytes: Option<Vec<u8>> = text
        .split(':')
        .map(|part| {
            (part.len() <= 2)
                .then(|| u8::from_str_radix(part, 16).ok())
                .flatten()
        })
        .collect();
    bytes.filter(|bytes| bytes.len() == 6)
}

fn shell_match(f: &KeyFieldInfo, text: &str) -> Result<FieldMatch, String> {
    let pair = |separator: &str, form: &str| {
        text.split_once(separator)
            .ok_or_else(|| format!("{text:?}: write the {} field {} as {form}", f.kind, f.name))
    };
    Ok(match f.kind {
        MatchKind::Exact => FieldMatch::Exact(bytes_of(&match text {
            "true" | "True" => BigInt::from(1),
            "false" | "False" => BigInt::from(0),
            _ => shell_number(text, f.width)?,
        })?),
        MatchKind::Lpm => {
            let (value, len) = pair("/", "VALUE/LENGTH")?;
            prefix(f, shell_number(value, f.width)?, small(len)?)?
        }
        MatchKind::Ternary => {
            let (value, mask) = pair("&&&", "VALUE&&&MASK")?;
            let mask = shell_number(mask, f.width)?;
            if mask == BigInt::ZERO {
                return Ok(FieldMatch::Any);
            }
            let value = shell_number(value, f.width)? & &mask;
            FieldMatch::Ternary {
                value: bytes_of(&value)?,
                mask: bytes_of(&mask)?,
            }
        }
        MatchKind::Range => {
            let (low, high) = pair("->", "LOW->HIGH")?;
            FieldMatch::Range {
                low: bytes_of(&shell_number(low, f.width)?)?,
                high: bytes_of(&shell_number(high, f.width)?)?,
            }
        }
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
        eburst: None,
    })
}
