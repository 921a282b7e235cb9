//! Action profiles and selectors.
//!
//! Members sit in slots, the lowest free first: bmv2 orders a group's members
//! by their handles, and that order decides which one a hash picks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::control::{Group, GroupMember, Member, TableError};
use crate::program::ActionId;
use crate::switch::port_state::PortsDown;

/// Most shares of one group.
const MAX_SHARES: u64 = 1 << 20;

/// A member's action, ready to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot {
    pub(crate) action: u32,
    pub(crate) params: Box<[u64]>,
}

#[derive(Debug)]
struct MemberRecord {
    slot: u32,
    /// Entries that name it, and groups that have it.
    entries: u64,
    groups: u64,
}

#[derive(Debug)]
struct GroupRecord {
    slot: u32,
    members: Vec<GroupMember>,
    entries: u64,
}

/// Slots handed out lowest first.
#[derive(Debug)]
struct Slots<T> {
    items: Vec<T>,
    free: BinaryHeap<Reverse<u32>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: BinaryHeap::new(),
        }
    }
}

impl<T: Default> Slots<T> {
    fn add(&mut self, item: T) -> u32 {
        if let Some(Reverse(slot)) = self.free.pop() {
            self.set(slot, item);
            return slot;
        }
        self.items.push(item);
        u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX)
    }

    fn set(&mut self, slot: u32, item: T) {
        if let Some(i) = self.items.get_mut(slot as usize) {
            *i = item;
        }
    }

    fn remove(&mut self, slot: u32) {
        self.set(slot, T::default());
        self.free.push(Reverse(slot));
    }
}

/// The state of one profile.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    name: String,
    size: u32,
    /// bmv2 does not enforce the size; neither is it enforced for groups here.
    members: BTreeMap<u32, MemberRecord>,
    groups: BTreeMap<u32, GroupRecord>,
    slots: Slots<Slot>,
    /// For each group, the member slots that a hash may pick.
    choices: Slots<Vec<u32>>,
    down: PortsDown,
    /// Groups with members that watch a port: port and group.
    watching: BTreeSet<(u16, u32)>,
}

impl Profile {
    pub(crate) fn new(name: &str, size: u32) -> Self {
        Self {
            name: name.to_owned(),
            size,
            ..Self::default()
        }
    }

    fn place(&self) -> String {
        format!("action profile {}", self.name)
    }

    fn not_found<T>(&self, what: String) -> Result<T, TableError> {
        Err(TableError::NotFound {
            place: self.place(),
            what,
        })
    }

    /// A member by its slot.
    #[inline]
    pub(crate) fn member(&self, slot: u32) -> Option<&Slot> {
        self.slots.items.get(slot as usize)
    }

    /// The member that a hash picks from a group; `None` if it is empty.
    #[inline]
    pub(crate) fn choose(&self, group: u32, hash: u64) -> Option<&Slot> {
        let choices = self.choices.items.get(group as usize)?;
        let n = u64::try_from(choices.len()).ok().filter(|&n| n > 0)?;
        self.member(*choices.get(usize::try_from(hash % n).ok()?)?)
    }

    /// The slot of a member.
    pub(crate) fn member_slot(&self, id: u32) -> Result<u32, TableError> {
        match self.members.get(&id) {
            Some(m) => Ok(m.slot),
            None => self.not_found(format!("member {id}")),
        }
    }

    /// The slot of a group.
    pub(crate) fn group_slot(&self, id: u32) -> Result<u32, TableError> {
        match self.groups.get(&id) {
            Some(g) => Ok(g.slot),
            None => self.not_found(format!("group {id}")),
        }
    }

    /// The id of the member in a slot.
    pub(crate) fn member_at(&self, slot: u32) -> u32 {
        self.members
            .iter()
            .find(|(_, m)| m.slot == slot)
            .map_or(0, |(&id, _)| id)
    }

    /// The id of the group in a slot.
    pub(crate) fn group_at(&self, slot: u32) -> u32 {
        self.groups
            .iter()
            .find(|(_, g)| g.slot == slot)
            .map_or(0, |(&id, _)| id)
    }

    /// Counts an entry that uses, or no longer uses, a member or group.
    pub(crate) fn refer(&mut self, is_group: bool, slot: u32, more: bool) {
        let count = if is_group {
            self.groups
                .values_mut()
                .find(|g| g.slot == slot)
                .map(|g| &mut g.entries)
        } else {
            self.members
                .values_mut()
                .find(|m| m.slot == slot)
                .map(|m| &mut m.entries)
        };
        if let Some(n) = count {
            *n = if more { *n + 1 } else { n.saturating_sub(1) };
        }
    }

    pub(crate) fn insert_member(&mut self, id: u32, slot: Slot) -> Result<(), TableError> {
        if self.members.contains_key(&id) {
            return Err(TableError::AlreadyExists {
                place: self.place(),
                what: format!("member {id}"),
            });
        }
        if self.size > 0 && self.members.len() as u64 >= u64::from(self.size) {
            return Err(TableError::Full {
                place: self.place(),
                size: u64::from(self.size),
            });
        }
        let slot = self.slots.add(slot);
        self.members.insert(
            id,
            MemberRecord {
                slot,
                entries: 0,
                groups: 0,
            },
        );
        Ok(())
    }

    pub(crate) fn modify_member(&mut self, id: u32, slot: Slot) -> Result<(), TableError> {
        let at = self.member_slot(id)?;
        self.slots.set(at, slot);
        Ok(())
    }

    pub(crate) fn delete_member(&mut self, id: u32) -> Result<(), TableError> {
        let Some(m) = self.members.get(&id) else {
            return self.not_found(format!("member {id}"));
        };
        let used = |users, by| TableError::InUse {
            place: self.place(),
            what: format!("member {id}"),
            users,
            by,
        };
        if m.entries > 0 {
            return Err(used(m.entries, "entries"));
        }
        if m.groups > 0 {
            return Err(used(m.groups, "groups"));
        }
        let slot = m.slot;
        self.members.remove(&id);
        self.slots.remove(slot);
        Ok(())
    }

    /// Takes the ports that are down; returns the groups whose choices no
    /// longer hold.
    pub(crate) fn set_ports_down(&mut self, down: PortsDown) -> Vec<u32> {
        let old = std::mem::replace(&mut self.down, down);
        let changed = |port| old.contains(port) != down.contains(port);
        let stale = self.watching.iter().filter(|(port, _)| changed(*port));
        let groups: BTreeSet<u32> = stale.map(|&(_, group)| group).collect();
        groups.into_iter().collect()
    }

    /// Chooses the members of groups anew.
    pub(crate) fn choose_anew(&mut self, groups: &[u32]) {
        for id in groups {
            let Some(g) = self.groups.get(id) else {
                continue;
            };
            // Checked when they were written.
            if let Ok(choices) = self.choices_of(&g.members) {
                self.choices.set(g.slot, choices);
            }
        }
    }

    fn watch(&mut self, group: u32, members: &[GroupMember], more: bool) {
        for port in members.iter().filter_map(|m| m.watch_port) {
            if more {
                self.watching.insert((port, group));
            } else {
                self.watching.remove(&(port, group));
            }
        }
    }

    fn choices_of(&self, members: &[GroupMember]) -> Result<Vec<u32>, TableError> {
        let invalid = |what: String| TableError::Invalid {
            place: self.place(),
            what,
        };
        let shares: u64 = members.iter().map(|m| u64::from(m.weight)).sum();
        if shares > MAX_SHARES {
            return Err(invalid(format!(
                "the weights add up to {shares}, more than {MAX_SHARES}"
            )));
        }
        let mut choices = Vec::new();
        let mut seen = BTreeSet::new();
        for m in members {
            if m.weight == 0 {
                return Err(invalid(format!("member {} has weight 0", m.member)));
            }
            if !seen.insert(m.member) {
                return Err(invalid(format!("member {} is named twice", m.member)));
            }
            let slot = self.member_slot(m.member)?;
            if m.watch_port.is_none_or(|port| !self.down.contains(port)) {
                choices.extend(std::iter::repeat_n(slot, m.weight as usize));
            }
        }
        choices.sort_unstable();
        Ok(choices)
    }

    fn count_groups(&mut self, members: &[GroupMember], more: bool) {
        for m in members {
            if let Some(r) = self.members.get_mut(&m.member) {
                r.groups = if more {
                    r.groups + 1
                } else {
                    r.groups.saturating_sub(1)
                };
            }
        }
    }

    pub(crate) fn insert_group(&mut self, group: &Group) -> Result<(), TableError> {
        if self.groups.contains_key(&group.id) {
            return Err(TableError::AlreadyExists {
                place: self.place(),
                what: format!("group {}", group.id),
            });
        }
        let choices = self.choices_of(&group.members)?;
        let slot = self.choices.add(choices);
        self.count_groups(&group.members, true);
        self.watch(group.id, &group.members, true);
        self.groups.insert(
            group.id,
            GroupRecord {
                slot,
                members: group.members.clone(),
                entries: 0,
            },
        );
        Ok(())
    }

    pub(crate) fn modify_group(&mut self, group: &Group) -> Result<(), TableError> {
        let slot = self.group_slot(group.id)?;
        let choices = self.choices_of(&group.members)?;
        self.choices.set(slot, choices);
        self.count_groups(&group.members, true);
        let old = self
            .groups
            .get_mut(&group.id)
            .map(|g| std::mem::replace(&mut g.members, group.members.clone()))
            .unwrap_or_default();
        self.count_groups(&old, false);
        self.watch(group.id, &old, false);
        self.watch(group.id, &group.members, true);
        Ok(())
    }

    pub(crate) fn delete_group(&mut self, id: u32) -> Result<(), TableError> {
        let Some(g) = self.groups.get(&id) else {
            return self.not_found(format!("group {id}"));
        };
        if g.entries > 0 {
            return Err(TableError::InUse {
                place: self.place(),
                what: format!("group {id}"),
                users: g.entries,
                by: "entries",
            });
        }
        if let Some(g) = self.groups.remove(&id) {
            self.choices.remove(g.slot);
            self.count_groups(&g.members, false);
            self.watch(id, &g.members, false);
        }
        Ok(())
    }

    /// All members by id; `call` turns a slot into a call.
    pub(crate) fn members(
        &self,
        call: impl Fn(ActionId, &[u64]) -> crate::control::ActionCall,
    ) -> Vec<Member> {
        self.members
            .iter()
            .filter_map(|(&id, m)| {
                let slot = self.member(m.slot)?;
                Some(Member {
                    id,
                    call: call(ActionId(slot.action), &slot.params),
                })
            })
            .collect()
    }

    /// All groups by id.
    pub(crate) fn groups(&self) -> Vec<Group> {
        self.groups
            .iter()
            .map(|(&id, g)| Group {
                id,
                members: g.members.clone(),
            })
            .collect()
    }
}
