//! Members and groups of action profiles and selectors.

use p4runtime_proto::p4::config::v1::{ActionProfile, Table};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::action_profile_action::WatchKind;
use p4runtime_proto::p4::v1::action_profile_group::{Member, member};
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type;

use super::generate::{Generator, id, update};
use super::side::PORTS;

/// How many members a profile gets, with ids from 1.
pub const MEMBERS: usize = 6;

/// The group whose members watch ports. It does not change.
const WATCHING: usize = 3;

/// How many of the members are used by groups, which keeps them.
const LASTING: usize = 4;

/// How many groups a selector gets, with ids from 1.
pub const GROUPS: usize = 3;

/// A port that has no interface, and so is down.
const NO_PORT: u16 = 7;

impl Generator<'_> {
    /// The members and groups that are made before anything else.
    pub fn profiles(&mut self) -> Vec<p4::Update> {
        let mut updates = Vec::new();
        for profile in &self.info.action_profiles {
            if profile.with_selector && !self.is_manual(profile) {
                continue;
            }
            for n in 1..=MEMBERS {
                let member = self.member(profile, n);
                updates.push(update(Type::Insert, Entity::ActionProfileMember(member)));
            }
            for n in 1..=if profile.with_selector { GROUPS } else { 0 } {
                let group = self.group(profile, n);
                updates.push(update(Type::Insert, Entity::ActionProfileGroup(group)));
            }
        }
        updates
    }

    /// A change of a member or a group, which may be wrong or in vain.
    ///
    /// What bmv2 does not survive, or half does, is not made: a packet for a
    /// group without members (or none whose port is up) ends it; a group whose
    /// insertion it refuses is there nevertheless, it takes groups for profiles
    /// without a selector, it makes copies of members with a weight, which it
    /// reads back and chooses as if they were others, and it fails in some
    /// changes of groups that watch ports.
    pub fn profile_change(&mut self) -> Option<p4::Update> {
        let info = self.info;
        let profile = self.random.pick(&info.action_profiles)?;
        let kind = match self.random.below(6) {
            0 | 1 => Type::Insert,
            2 => Type::Delete,
            _ => Type::Modify,
        };
        let entity = if self.random.one_in(3) || !profile.with_selector {
            let n = match kind {
                // The groups' are there as long as they are.
                Type::Delete => LASTING + 1 + self.random.below(MEMBERS - LASTING + 2),
                _ => 1 + self.random.below(MEMBERS + 2),
            };
            Entity::ActionProfileMember(self.member(profile, n))
        } else {
            let n = match 1 + self.random.below(GROUPS + 1) {
                WATCHING => 1,
                n => n,
            };
            let mut group = self.group(profile, n);
            if kind == Type::Modify {
                self.spoil(&mut group);
            }
            Entity::ActionProfileGroup(group)
        };
        Some(update(kind, entity))
    }

    /// Makes a group wrong, or not.
    fn spoil(&mut self, group: &mut p4::ActionProfileGroup) {
        let known = group.members.first().cloned().unwrap_or_default();
        match self.random.below(12) {
            0 => group.members.push(known),
            1 => group.members.push(Member {
                member_id: 999,
                ..known
            }),
            2 => group.members.push(Member {
                member_id: 1,
                weight: 0,
                ..known
            }),
            3 => group.max_size = 3,
            4 => group.max_size = -1,
            5 => group.members.push(Member {
                weight: 5_000,
                ..known
            }),
            _ => {}
        }
    }

    fn member(&mut self, profile: &ActionProfile, n: usize) -> p4::ActionProfileMember {
        let tables: Vec<&Table> = self
            .info
            .tables
            .iter()
            .filter(|t| profile.table_ids.contains(&id(t.preamble.as_ref())))
            .collect();
        p4::ActionProfileMember {
            action_profile_id: id(profile.preamble.as_ref()),
            member_id: u32::try_from(n).unwrap_or(0),
            action: tables.first().and_then(|table| self.call(table, false)),
        }
    }

    fn group(&mut self, profile: &ActionProfile, n: usize) -> p4::ActionProfileGroup {
        // The first is there as long as the group, and never watches.
        let first = 1 + self.random.below(LASTING);
        let mut members = vec![Member {
            member_id: u32::try_from(first).unwrap_or(0),
            weight: 1,
            watch_kind: None,
        }];
        for _ in 0..self.random.below(5) {
            let lasting = 1 + self.random.below(LASTING);
            let member_id = u32::try_from(lasting).unwrap_or(0);
            if members.iter().any(|m| m.member_id == member_id) {
                continue;
            }
            let watch = match self.watch() {
                Some(WatchKind::Watch(port)) => Some(member::WatchKind::Watch(port)),
                Some(WatchKind::WatchPort(port)) => Some(member::WatchKind::WatchPort(port)),
                None => None,
            };
            members.push(Member {
                member_id,
                weight: 1,
                watch_kind: watch.filter(|_| n == WATCHING),
            });
        }
        p4::ActionProfileGroup {
            action_profile_id: id(profile.preamble.as_ref()),
            group_id: u32::try_from(n).unwrap_or(0),
            members,
            max_size: 0,
        }
    }

    /// The weight of an action in a set.
    pub(super) fn weight(&mut self) -> i32 {
        i32::try_from(1 + self.random.below(3)).unwrap_or(1)
    }

    /// A port to watch, mostly none.
    pub(super) fn watch(&mut self) -> Option<WatchKind> {
        let port = match self.random.below(3) {
            0 => NO_PORT,
            _ => self.random.pick(&PORTS).copied()?,
        };
        match self.random.below(5) {
            0 => Some(WatchKind::Watch(port.into())),
            1 => Some(WatchKind::WatchPort(p4runtime_proto::bytestring::encode(
                port.into(),
            ))),
            _ => None,
        }
    }
}
