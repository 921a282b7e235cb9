//! How many members softswitch's action profiles have.

use std::collections::{BTreeMap, BTreeSet};

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::table_action::Type as ActionType;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use p4runtime_proto::p4::v1::{TableEntry, Update};

use crate::differential::generate::id;

/// The profiles of a program.
#[derive(Debug, Default, Clone)]
pub(super) struct Profiles {
    /// The most members of each; a profile without a limit is not here.
    sizes: BTreeMap<u32, usize>,
    /// The profile of each table that has one.
    of_tables: BTreeMap<u32, u32>,
    /// The members that controllers made, by profile.
    members: BTreeSet<(u32, u32)>,
    /// How many members the action set of an entry has made, by profile and
    /// the entry's key.
    sets: BTreeMap<(u32, String), usize>,
}

impl Profiles {
    /// The profiles of a program, without members.
    pub(super) fn of(info: &P4Info) -> Self {
        let sizes = info.action_profiles.iter().filter_map(|profile| {
            let size = usize::try_from(profile.size)
                .ok()
                .filter(|size| *size > 0)?;
            Some((id(profile.preamble.as_ref()), size))
        });
        let indirect = info.tables.iter().filter(|t| t.implementation_id != 0);
        Self {
            sizes: sizes.collect(),
            of_tables: indirect
                .map(|t| (id(t.preamble.as_ref()), t.implementation_id))
                .collect(),
            ..Self::default()
        }
    }

    /// All members are gone.
    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.sets.clear();
    }

    /// Notes an update that was carried out.
    pub(super) fn written(&mut self, update: &Update) {
        let is_delete = update.r#type() == UpdateType::Delete;
        match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            Some(Entity::ActionProfileMember(member)) => {
                let member = (member.action_profile_id, member.member_id);
                if is_delete {
                    self.members.remove(&member);
                } else {
                    self.members.insert(member);
                }
            }
            Some(Entity::TableEntry(entry)) => {
                let Some(place) = self.place(entry) else {
                    return;
                };
                if is_delete {
                    self.sets.remove(&place);
                } else if let Some(actions) = set_of(entry) {
                    self.sets.insert(place, actions);
                }
            }
            _ => {}
        }
    }

    /// Whether each update whose statuses differ has no room in its profile,
    /// given those before it.
    pub(super) fn exceed(&self, updates: &[Update], statuses: &[(String, String)]) -> bool {
        let mut state = self.clone();
        updates
            .iter()
            .zip(statuses)
            .all(|(update, (ours, theirs))| {
                if ours == theirs {
                    if ours == "OK" {
                        state.written(update);
                    }
                    return true;
                }
                state.has_no_room(update)
            })
    }

    fn has_no_room(&self, update: &Update) -> bool {
        let (profile, more, fewer) = match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            Some(Entity::ActionProfileMember(member)) => (member.action_profile_id, 1, 0),
            Some(Entity::TableEntry(entry)) => {
                let (Some(place), Some(actions)) = (self.place(entry), set_of(entry)) else {
                    return false;
                };
                // A set that is replaced makes room first.
                let former = self.sets.get(&place).copied().unwrap_or(0);
                (place.0, actions, former)
            }
            _ => return false,
        };
        let Some(size) = self.sizes.get(&profile) else {
            return false;
        };
        self.count(profile) + more - fewer > *size
    }

    fn count(&self, profile: u32) -> usize {
        let members = self.members.iter().filter(|(of, _)| *of == profile);
        let sets = self.sets.iter().filter(|((of, _), _)| *of == profile);
        members.count() + sets.map(|(_, actions)| actions).sum::<usize>()
    }

    /// Where the action set of an entry is counted.
    fn place(&self, entry: &TableEntry) -> Option<(u32, String)> {
        let profile = self.of_tables.get(&entry.table_id)?;
        let mut key = entry.r#match.clone();
        key.sort_by_key(|field| field.field_id);
        let key = format!("{} {} {key:?}", entry.table_id, entry.priority);
        Some((*profile, key))
    }
}

/// How many actions an entry's own action set has.
fn set_of(entry: &TableEntry) -> Option<usize> {
    match entry.action.as_ref()?.r#type.as_ref()? {
        ActionType::ActionProfileActionSet(set) => Some(set.action_profile_actions.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use p4runtime_proto::p4::config::v1::{ActionProfile, Preamble, Table};
    use p4runtime_proto::p4::v1::{
        ActionProfileAction, ActionProfileActionSet, ActionProfileMember, TableAction,
    };

    use super::*;
    use crate::differential::generate::update;

    const TABLE: u32 = 1;
    const PROFILE: u32 = 2;

    /// One profile with room for three members.
    fn profiles() -> Profiles {
        let preamble = |id| {
            Some(Preamble {
                id,
                ..Preamble::default()
            })
        };
        Profiles::of(&P4Info {
            tables: vec![Table {
                preamble: preamble(TABLE),
                implementation_id: PROFILE,
                ..Table::default()
            }],
            action_profiles: vec![ActionProfile {
                preamble: preamble(PROFILE),
                size: 3,
                ..ActionProfile::default()
            }],
            ..P4Info::default()
        })
    }

    fn member(member_id: u32) -> Entity {
        Entity::ActionProfileMember(ActionProfileMember {
            action_profile_id: PROFILE,
            member_id,
            action: None,
        })
    }

    fn set(priority: i32, actions: usize) -> Entity {
        let set = ActionProfileActionSet {
            action_profile_actions: vec![ActionProfileAction::default(); actions],
            ..ActionProfileActionSet::default()
        };
        Entity::TableEntry(TableEntry {
            table_id: TABLE,
            priority,
            action: Some(TableAction {
                r#type: Some(ActionType::ActionProfileActionSet(set)),
            }),
            ..TableEntry::default()
        })
    }

    fn exceeds(profiles: &Profiles, entity: Entity) -> bool {
        let statuses = [("RESOURCE_EXHAUSTED".to_owned(), "OK".to_owned())];
        profiles.exceed(&[update(UpdateType::Insert, entity)], &statuses)
    }

    #[test]
    fn a_member_beyond_the_size_exceeds_it() {
        let mut profiles = profiles();
        for id in 1..=3 {
            assert!(!exceeds(&profiles, member(id)), "{id}");
            profiles.written(&update(UpdateType::Insert, member(id)));
        }
        assert!(exceeds(&profiles, member(4)));
        // A change adds none.
        profiles.written(&update(UpdateType::Modify, member(3)));
        profiles.written(&update(UpdateType::Delete, member(2)));
        assert!(!exceeds(&profiles, member(4)));
        profiles.clear();
        assert_eq!(profiles.count(PROFILE), 0);
    }

    #[test]
    fn the_actions_of_sets_count() {
        let mut profiles = profiles();
        assert!(exceeds(&profiles, set(1, 4)));
        profiles.written(&update(UpdateType::Insert, set(1, 2)));
        assert!(!exceeds(&profiles, set(2, 1)));
        assert!(exceeds(&profiles, set(2, 2)));
        // In place of the two that it has.
        assert!(!exceeds(&profiles, set(1, 3)));
        profiles.written(&update(UpdateType::Delete, set(1, 0)));
        assert!(!exceeds(&profiles, set(2, 3)));
    }

    #[test]
    fn updates_of_one_request_add_up() {
        let inserts = |count: u32| -> Vec<Update> {
            let members = (1..=count).map(member);
            members.map(|m| update(UpdateType::Insert, m)).collect()
        };
        let statuses = |count: usize| {
            let taken = ("OK".to_owned(), "OK".to_owned());
            let refused = ("RESOURCE_EXHAUSTED".to_owned(), "OK".to_owned());
            [vec![taken; count - 1], vec![refused]].concat()
        };
        assert!(profiles().exceed(&inserts(4), &statuses(4)));
        assert!(!profiles().exceed(&inserts(3), &statuses(3)));
    }
}
