//! Requests and packets for any program, made from its P4Info and from packets
//! that it is known to understand.

use std::collections::BTreeSet;

use p4runtime_proto::bytestring::canonical;
use p4runtime_proto::p4::config::v1 as info;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::field_match::{self, FieldMatchType};
use p4runtime_proto::p4::v1::{entity::Entity, table_action, update};

use super::profiles::{GROUPS, MEMBERS};
use super::random::Random;
use super::side::{CPU_PORT, PORTS};

/// Where fields of well-known headers begin in a frame.
const OFFSETS: [usize; 12] = [0, 6, 12, 14, 15, 16, 18, 23, 26, 30, 34, 36];

/// Shortest frame that an Ethernet interface takes.
const SHORTEST: usize = 14;

/// Longest frame that is made: jumbo frames, with room for tags.
const LONGEST: usize = 9000;

/// Makes requests and packets.
#[derive(Debug)]
pub struct Generator<'a> {
    pub(super) info: &'a P4Info,
    /// Packets that the program understands, and where they come from.
    seeds: &'a [(u16, Vec<u8>)],
    /// Selectors that are programmed by members and groups; the others by
    /// action sets.
    manual: BTreeSet<u32>,
    /// What is decided by chance.
    pub random: Random,
}

impl<'a> Generator<'a> {
    /// A generator that always makes the same.
    pub fn new(info: &'a P4Info, seeds: &'a [(u16, Vec<u8>)], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let selectors = info.action_profiles.iter().filter(|p| p.with_selector);
        let manual = selectors
            .filter(|_| random.one_in(2))
            .map(|p| id(p.preamble.as_ref()))
            .collect();
        Self {
            info,
            seeds,
            manual,
            random,
        }
    }

    /// A frame for one of the ports: a seed, mostly with changes.
    pub fn packet(&mut self) -> (u16, Vec<u8>) {
        let (mut port, mut frame) = self.random.pick(self.seeds).cloned().unwrap_or_default();
        if self.random.one_in(4) {
            port = self.random.pick(&PORTS).copied().unwrap_or_default();
        }
        if !self.random.one_in(4) {
            for _ in 0..=self.random.below(3) {
                let within = frame.len().min(80);
                let at = match self.random.below(2) {
                    0 => self.random.below(within),
                    _ => self.random.pick(&OFFSETS).copied().unwrap_or_default(),
                };
                let value = match self.random.below(3) {
                    0 => self.random.below(8),
                    _ => self.random.below(256),
                };
                if let (Some(byte), Ok(value)) = (frame.get_mut(at), u8::try_from(value)) {
                    *byte = value;
                }
            }
        }
        for _ in 0..self.random.below(4).saturating_sub(1) {
            if self.random.one_in(6) && frame.len() > 12 {
                let kind = if self.random.one_in(3) {
                    0x88a8
                } else {
                    0x8100
                };
                let tag = u16::try_from(self.random.below(1 << 16)).unwrap_or(0);
                let tag = [u16::to_be_bytes(kind), tag.to_be_bytes()].concat();
                frame.splice(12..12, tag);
            }
        }
        match self.random.below(13) {
            3 if self.random.one_in(4) => {
                let more = self.random.below(LONGEST);
                frame.extend(self.random.bytes(more));
            }
            0 => {
                let length = self.random.below(frame.len());
                frame.truncate(length);
            }
            1 => {
                let more = self.random.below(64);
                frame.extend(self.random.bytes(more));
            }
            2 => {
                let more = self.random.below(1000);
                frame.extend(self.random.bytes(more));
            }
            _ => {}
        }
        frame.resize(frame.len().clamp(SHORTEST, LONGEST), 0);
        (port, frame)
    }

    /// A number of `bits` bits that a packet may well have.
    fn value(&mut self, bits: i32) -> Vec<u8> {
        let bits = usize::try_from(bits).unwrap_or(0);
        let length = bits.div_ceil(8);
        let mut bytes = match self.random.below(8) {
            0..=3 => {
                let at = match self.random.below(4) {
                    0 => self.random.below(60),
                    _ => self.random.pick(&OFFSETS).copied().unwrap_or_default(),
                };
                let seed = self.random.pick(self.seeds);
                seed.and_then(|(_, frame)| frame.get(at..at + length))
                    .map_or_else(|| vec![0; length], <[u8]>::to_vec)
            }
            4..=5 => {
                let mut bytes = vec![0; length];
                let small = u8::try_from(self.random.below(8)).unwrap_or(0);
                bytes.iter_mut().rev().take(1).for_each(|b| *b = small);
                bytes
            }
            6 => vec![0xff; length],
            _ => self.random.bytes(length),
        };
        trim(&mut bytes, bits);
        bytes
    }

    fn parameter(&mut self, name: &str, bits: i32) -> Vec<u8> {
        let number = match bits {
            // A port.
            9 => match self.random.below(20) {
                0 => CPU_PORT,
                1 => 511,
                _ => self.random.pick(&PORTS).copied().unwrap_or_default(),
            },
            // Perhaps a group.
            16 if name.contains("group") || name.contains("grp") => {
                u16::try_from(1 + self.random.below(4)).unwrap_or(1)
            }
            _ => return canonical(&self.value(bits)),
        };
        canonical(&number.to_be_bytes())
    }

    /// The tables of the program.
    pub fn tables(&self) -> &'a [info::Table] {
        &self.info.tables
    }

    /// An entry of a table without an action, with all key fields that it
    /// must have.
    fn key(&mut self, table: &info::Table) -> p4::TableEntry {
        let mut entry = p4::TableEntry {
            table_id: id(table.preamble.as_ref()),
            ..p4::TableEntry::default()
        };
        for field in &table.match_fields {
            let bits = field.bitwidth;
            let width = usize::try_from(bits).unwrap_or(0);
            let kind = match field.r#match {
                Some(info::match_field::Match::MatchType(kind)) => kind,
                _ => continue,
            };
            let kind = info::match_field::MatchType::try_from(kind)
                .unwrap_or(info::match_field::MatchType::Unspecified);
            use info::match_field::MatchType;
            let value = self.value(bits);
            let matched = match kind {
                MatchType::Exact => FieldMatchType::Exact(field_match::Exact {
                    value: canonical(&value),
                }),
                MatchType::Lpm => {
                    let length = match self.random.below(3) {
                        0 => width,
                        1 => width.min(8 * (1 + self.random.below(4))),
                        _ => self.random.below(width + 1),
                    };
                    if length == 0 {
                        continue;
                    }
                    let mask = prefix_mask(width, length);
                    FieldMatchType::Lpm(field_match::Lpm {
                        value: canonical(&and(&value, &mask)),
                        prefix_len: i32::try_from(length).unwrap_or(0),
                    })
                }
                MatchType::Ternary => {
                    if self.random.one_in(4) {
                        continue;
                    }
                    let mut mask = match self.random.below(3) {
                        0 => self.random.bytes(value.len()),
                        1 => prefix_mask(width, self.random.below(width + 1)),
                        _ => prefix_mask(width, width),
                    };
                    trim(&mut mask, width);
                    if mask.iter().all(|b| *b == 0) {
                        continue;
                    }
                    FieldMatchType::Ternary(field_match::Ternary {
                        value: canonical(&and(&value, &mask)),
                        mask: canonical(&mask),
                    })
                }
                MatchType::Range => {
                    let other = self.value(bits);
                    let (low, high) = if value <= other {
                        (value, other)
                    } else {
                        (other, value)
                    };
                    let full = low.iter().all(|b| *b == 0) && high == prefix_mask(width, width);
                    if full || self.random.one_in(4) {
                        continue;
                    }
                    FieldMatchType::Range(field_match::Range {
                        low: canonical(&low),
                        high: canonical(&high),
                    })
                }
                MatchType::Optional => {
                    if self.random.one_in(3) {
                        continue;
                    }
                    FieldMatchType::Optional(field_match::Optional {
                        value: canonical(&value),
                    })
                }
                MatchType::Unspecified => continue,
            };
            entry.r#match.push(p4::FieldMatch {
                field_id: field.id,
                field_match_type: Some(matched),
            });
        }
        if needs_priority(table) {
            // What wins of equal ones is nobody's promise, but people see it.
            let highest = if self.random.one_in(3) { 4 } else { 1 << 20 };
            entry.priority = i32::try_from(1 + self.random.below(highest)).unwrap_or(1);
        }
        entry
    }

    /// Whether a selector is programmed by members and groups.
    pub(super) fn is_manual(&self, profile: &info::ActionProfile) -> bool {
        self.manual.contains(&id(profile.preamble.as_ref()))
    }

    /// A call of one of the actions that a table's entries may have.
    pub(super) fn call(&mut self, table: &info::Table, for_default: bool) -> Option<p4::Action> {
        use info::action_ref::Scope;
        let excluded = if for_default {
            Scope::TableOnly
        } else {
            Scope::DefaultOnly
        };
        let allowed: Vec<u32> = table
            .action_refs
            .iter()
            .filter(|r| r.scope != excluded as i32)
            .map(|r| r.id)
            .collect();
        let chosen = *self.random.pick(&allowed)?;
        let info = self.info;
        let action = info
            .actions
            .iter()
            .find(|a| id(a.preamble.as_ref()) == chosen)?;
        let params = action
            .params
            .iter()
            .map(|param| p4::action::Param {
                param_id: param.id,
                value: self.parameter(&param.name, param.bitwidth),
            })
            .collect();
        Some(p4::Action {
            action_id: chosen,
            params,
        })
    }

    /// A valid entry, `None` when a table takes none.
    pub fn entry(&mut self, table: &info::Table) -> Option<p4::TableEntry> {
        if table.is_const_table {
            return None;
        }
        let mut entry = self.key(table);
        let action = self.table_action(table)?;
        entry.action = Some(p4::TableAction {
            r#type: Some(action),
        });
        if self.random.one_in(4) {
            entry.metadata = self.random.bytes(3);
        }
        self.direct_resources(table, &mut entry);
        Some(entry)
    }

    /// Sets the counter and the meter of an entry; now and then also where
    /// there is none.
    fn direct_resources(&mut self, table: &info::Table, entry: &mut p4::TableEntry) {
        let info = self.info;
        let table_id = entry.table_id;
        let mut counters = info.direct_counters.iter();
        let counted = counters.any(|c| c.direct_table_id == table_id);
        let meter = info
            .direct_meters
            .iter()
            .find(|m| m.direct_table_id == table_id);
        if self.random.one_in(if counted { 3 } else { 60 }) {
            entry.counter_data = Some(self.counter_data());
        }
        // Without one, the meter of a new entry is in bmv2 as a former entry
        // left it.
        if meter.is_some() || self.random.one_in(60) {
            let spec = meter.and_then(|m| m.spec.as_ref());
            entry.meter_config = Some(self.meter_config(spec));
        }
        if table.idle_timeout_behavior != 0 && self.random.one_in(4) {
            // Longer than any run.
            entry.idle_timeout_ns = 3_600_000_000_000;
        }
    }

    /// What a counter may be set to.
    pub fn counter_data(&mut self) -> p4::CounterData {
        let mut number = || i64::try_from(self.random.below(1 << 20)).unwrap_or(0);
        p4::CounterData {
            byte_count: number(),
            packet_count: number(),
        }
    }

    /// A meter whose buckets are filled again never or at once: what colour a
    /// packet gets depends on no clock.
    pub fn meter_config(&mut self, spec: Option<&info::MeterSpec>) -> p4::MeterConfig {
        let of_bytes = spec.is_some_and(|s| s.unit == info::meter_spec::Unit::Bytes as i32);
        let scale = if of_bytes { 100 } else { 1 };
        let (never, at_once) = (0, 1_000_000_000);
        let small = i64::try_from(self.random.below(5)).unwrap_or(0) * scale;
        let large = small + i64::try_from(self.random.below(5)).unwrap_or(0) * scale;
        let ample = 1_000_000;
        let (cir, cburst, pir, pburst) = match self.random.below(10) {
            0 => (at_once, ample, at_once, ample),
            1 => (never, small, at_once, ample),
            2 => (at_once, ample, at_once, 0),
            3 => (never, -5, never, large),
            _ => (never, small, never, large),
        };
        p4::MeterConfig {
            cir,
            cburst,
            pir,
            pburst,
            ..p4::MeterConfig::default()
        }
    }

    fn table_action(&mut self, table: &info::Table) -> Option<table_action::Type> {
        if table.implementation_id == 0 {
            return Some(table_action::Type::Action(self.call(table, false)?));
        }
        let info = self.info;
        let profile = info
            .action_profiles
            .iter()
            .find(|p| id(p.preamble.as_ref()) == table.implementation_id)?;
        let number = |n: usize| u32::try_from(n).unwrap_or(1);
        let manual = self.manual.contains(&id(profile.preamble.as_ref()));
        // Now and then the other way of programming.
        if profile.with_selector && manual == self.random.one_in(30) {
            return self.action_set(table);
        }
        // Members and groups are made beforehand, and some go again.
        Some(if profile.with_selector && !self.random.one_in(3) {
            table_action::Type::ActionProfileGroupId(number(1 + self.random.below(GROUPS)))
        } else {
            table_action::Type::ActionProfileMemberId(number(1 + self.random.below(MEMBERS)))
        })
    }

    fn action_set(&mut self, table: &info::Table) -> Option<table_action::Type> {
        let count = 1 + self.random.below(3);
        let mut set = p4::ActionProfileActionSet::default();
        for n in 0..count {
            set.action_profile_actions.push(p4::ActionProfileAction {
                action: Some(self.call(table, false)?),
                weight: self.weight(),
                // One that does not watch, since an empty group ends bmv2.
                watch_kind: if n == 0 { None } else { self.watch() },
            });
        }
        Some(table_action::Type::ActionProfileActionSet(set))
    }

    /// An entry that sets a table's default action, where that can be set.
    pub fn default_entry(&mut self, table: &info::Table) -> Option<p4::TableEntry> {
        if table.implementation_id != 0 || table.const_default_action_id != 0 {
            return None;
        }
        Some(p4::TableEntry {
            table_id: id(table.preamble.as_ref()),
            is_default_action: true,
            action: Some(p4::TableAction {
                r#type: Some(table_action::Type::Action(self.call(table, true)?)),
            }),
            ..p4::TableEntry::default()
        })
    }

    /// An update that is wrong in one way, made from a valid entry.
    pub fn wrong(&mut self, table: &info::Table) -> Option<p4::Update> {
        let mut entry = self.entry(table)?;
        let mut kind = update::Type::Insert;
        match self.random.below(14) {
            0 => entry.table_id ^= 0x00ff_0000,
            1 => entry.r#match.push(entry.r#match.first()?.clone()),
            2 => entry.r#match.first_mut()?.field_id = 99,
            3 => {
                let field = entry.r#match.first_mut()?;
                let wide = vec![0x7f; 40];
                field.field_match_type = Some(match field.field_match_type.take()? {
                    FieldMatchType::Exact(_) => {
                        FieldMatchType::Exact(field_match::Exact { value: wide })
                    }
                    FieldMatchType::Lpm(m) => FieldMatchType::Lpm(field_match::Lpm {
                        value: wide,
                        prefix_len: m.prefix_len,
                    }),
                    other => other,
                });
            }
            4 => {
                let field = entry.r#match.first_mut()?;
                field.field_match_type = Some(FieldMatchType::Exact(field_match::Exact {
                    value: Vec::new(),
                }));
            }
            5 => entry.priority = if entry.priority == 0 { 7 } else { 0 },
            6 => entry.priority = -1,
            7 => match entry.action.as_mut()?.r#type.as_mut()? {
                table_action::Type::Action(action) => action.action_id ^= 0x00ff_0000,
                table_action::Type::ActionProfileMemberId(member) => *member = 999,
                _ => return None,
            },
            8 => match entry.action.as_mut()?.r#type.as_mut()? {
                table_action::Type::Action(action) => {
                    action.params.pop()?;
                }
                _ => return None,
            },
            9 => match entry.action.as_mut()?.r#type.as_mut()? {
                table_action::Type::Action(action) => {
                    action.params.first_mut()?.value = vec![0xff; 40];
                }
                _ => return None,
            },
            10 => entry.action = None,
            11 => entry.is_default_action = true,
            12 => kind = update::Type::Unspecified,
            _ => {
                // Bits below the prefix or outside the mask.
                let field = entry.r#match.first_mut()?;
                match field.field_match_type.as_mut()? {
                    FieldMatchType::Lpm(m) => m.prefix_len = 1_000,
                    FieldMatchType::Ternary(m) => {
                        m.value = vec![3];
                        m.mask = vec![4];
                    }
                    FieldMatchType::Range(m) => {
                        m.low = vec![9];
                        m.high = vec![8];
                    }
                    _ => return None,
                }
            }
        }
        Some(update(kind, Entity::TableEntry(entry)))
    }
}

/// The id in a preamble.
pub fn id(preamble: Option<&info::Preamble>) -> u32 {
    preamble.map_or(0, |p| p.id)
}

/// An update.
pub fn update(kind: update::Type, entity: Entity) -> p4::Update {
    p4::Update {
        r#type: kind as i32,
        entity: Some(p4::Entity {
            entity: Some(entity),
        }),
    }
}

/// Whether entries of this table are ordered by priority (specification 9.1.1).
fn needs_priority(table: &info::Table) -> bool {
    use info::match_field::{Match, MatchType};
    table.match_fields.iter().any(|field| {
        matches!(field.r#match, Some(Match::MatchType(kind))
            if kind == MatchType::Ternary as i32
                || kind == MatchType::Range as i32
                || kind == MatchType::Optional as i32)
    })
}

/// Clears what is above the number's width.
fn trim(bytes: &mut [u8], bits: usize) {
    let above = bytes.len() * 8 - bits.min(bytes.len() * 8);
    if let Some(first) = bytes.first_mut() {
        *first &= 0xff_u8
            .checked_shr(u32::try_from(above).unwrap_or(8))
            .unwrap_or(0);
    }
}

fn and(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

/// `length` ones, then zeros, as a number of `bits` bits.
fn prefix_mask(bits: usize, length: usize) -> Vec<u8> {
    let bytes = bits.div_ceil(8);
    let pad = bytes * 8 - bits;
    (0..bytes)
        .map(|byte| {
            (0..8).fold(0_u8, |mask, bit| {
                let at = byte * 8 + bit;
                mask << 1 | u8::from(at >= pad && at < pad + length)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_wide_as_the_field() {
        assert_eq!(prefix_mask(32, 8), [0xff, 0, 0, 0]);
        assert_eq!(prefix_mask(9, 1), [0x01, 0x00]);
        assert_eq!(prefix_mask(9, 9), [0x01, 0xff]);
        assert_eq!(prefix_mask(12, 5), [0x0f, 0x80]);
        assert_eq!(prefix_mask(16, 0), [0, 0]);
    }

    #[test]
    fn values_are_as_wide_as_the_field() {
        for (bits, wanted) in [(9, [0x01, 0xff]), (16, [0xff, 0xff]), (12, [0x0f, 0xff])] {
            let mut bytes = [0xff, 0xff];
            trim(&mut bytes, bits);
            assert_eq!(bytes, wanted, "{bits}");
        }
    }
}
