//! Action profiles and selectors.
//!
//! Members sit in slots, the lowest free first: bmv2 orders a group's members
//! by their handles, and that order decides which one a hash picks.

use std::collections::{BTreeMap, BTreeSet};

use crate::control::{ActionCall, Group, GroupMember, Member, Selection, TableError};
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
    selection: Selection,
    entries: u64,
}

impl GroupRecord {
    fn group(&self, id: u32) -> Group {
        Group {
            id,
            members: self.members.clone(),
            selection: self.selection,
        }
    }
}

/// Who a group's packets may get.
#[derive(Debug, Default)]
struct Choices {
    /// The slot of a member once for each of its shares.
    slots: Vec<u32>,
    random: bool,
}

/// Slots handed out lowest first.
#[derive(Debug)]
struct Slots<T> {
    items: Vec<T>,
    /// Who has each slot.
    ids: Vec<u32>,
    free: BTreeSet<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            ids: Vec::new(),
            free: BTreeSet::new(),
        }
    }
}

impl<T: Default> Slots<T> {
    /// Fills a certain slot that is free, or the lowest.
    fn add(&mut self, certain: Option<u32>, id: u32, item: T) -> u32 {
        let freed = match certain.filter(|slot| self.free.remove(slot)) {
            Some(slot) => Some(slot),
            None => self.free.pop_first(),
        };
        let Some(slot) = freed else {
            self.items.push(item);
            self.ids.push(id);
            return u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX);
        };
        self.set(slot, item);
        if let Some(of) = self.ids.get_mut(slot as usize) {
            *of = id;
        }
        slot
    }

    fn set(&mut self, slot: u32, item: T) {
        if let Some(i) = self.items.get_mut(slot as usize) {
            *i = item;
        }
    }

    fn id(&self, slot: u32) -> u32 {
        self.ids.get(slot as usize).copied().unwrap_or(0)
    }

    fn remove(&mut self, slot: u32) {
        self.set(slot, T::default());
        self.free.insert(slot);
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
    choices: Slots<Choices>,
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
        let choices = &self.choices.items.get(group as usize)?.slots;
        let n = u64::try_from(choices.len()).ok().filter(|&n| n > 0)?;
        self.member(*choices.get(usize::try_from(hash % n).ok()?)?)
    }

    /// Whether a group wants a random number for its hash.
    #[inline]
    pub(crate) fn is_random(&self, group: u32) -> bool {
        let choices = self.choices.items.get(group as usize);
        choices.is_some_and(|choices| choices.random)
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
        self.slots.id(slot)
    }

    /// The id of the group in a slot.
    pub(crate) fn group_at(&self, slot: u32) -> u32 {
        self.choices.id(slot)
    }

    /// Counts an entry that uses, or no longer uses, a member or group.
    pub(crate) fn refer(&mut self, is_group: bool, slot: u32, more: bool) {
        let count = if is_group {
            let id = self.choices.id(slot);
            self.groups.get_mut(&id).map(|g| &mut g.entries)
        } else {
            let id = self.slots.id(slot);
            self.members.get_mut(&id).map(|m| &mut m.entries)
        };
        if let Some(n) = count {
            *n = if more { *n + 1 } else { n.saturating_sub(1) };
        }
    }

    /// Adds a member. `at`: into the slot that it had before.
    pub(crate) fn insert_member(
        &mut self,
        id: u32,
        slot: Slot,
        at: Option<u32>,
    ) -> Result<(), TableError> {
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
        let slot = self.slots.add(at, id, slot);
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
            if let Ok(choices) = self.choices_of(&g.members, g.selection) {
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

    fn choices_of(
        &self,
        members: &[GroupMember],
        selection: Selection,
    ) -> Result<Choices, TableError> {
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
        let mut slots = Vec::new();
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
                slots.extend(std::iter::repeat_n(slot, m.weight as usize));
            }
        }
        slots.sort_unstable();
        Ok(Choices {
            slots,
            random: selection == Selection::Random,
        })
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

    /// Adds a group. `at`: into the slot that it had before.
    pub(crate) fn insert_group(
        &mut self,
        group: &Group,
        at: Option<u32>,
    ) -> Result<(), TableError> {
        if self.groups.contains_key(&group.id) {
            return Err(TableError::AlreadyExists {
                place: self.place(),
                what: format!("group {}", group.id),
            });
        }
        let choices = self.choices_of(&group.members, group.selection)?;
        let slot = self.choices.add(at, group.id, choices);
        self.count_groups(&group.members, true);
        self.watch(group.id, &group.members, true);
        self.groups.insert(
            group.id,
            GroupRecord {
                slot,
                members: group.members.clone(),
                selection: group.selection,
                entries: 0,
            },
        );
        Ok(())
    }

    pub(crate) fn modify_group(&mut self, group: &Group) -> Result<(), TableError> {
        let slot = self.group_slot(group.id)?;
        let choices = self.choices_of(&group.members, group.selection)?;
        self.choices.set(slot, choices);
        self.count_groups(&group.members, true);
        let old = self
            .groups
            .get_mut(&group.id)
            .map(|g| {
                g.selection = group.selection;
                std::mem::replace(&mut g.members, group.members.clone())
            })
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

    /// How many members there are.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// Whether there are groups.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Members by id, one or all; `call` turns a slot into a call.
    pub(crate) fn members(
        &self,
        id: Option<u32>,
        call: impl Fn(ActionId, &[u64]) -> ActionCall,
    ) -> Vec<Member> {
        let member = |(&id, m): (&u32, &MemberRecord)| {
            let slot = self.member(m.slot)?;
            Some(Member {
                id,
                call: call(ActionId(slot.action), &slot.params),
            })
        };
        match id {
            None => self.members.iter().filter_map(member).collect(),
            Some(id) => {
                let found = self.members.get_key_value(&id);
                found.and_then(member).into_iter().collect()
            }
        }
    }

    /// All groups by id.
    pub(crate) fn groups(&self) -> Vec<Group> {
        self.groups.iter().map(|(&id, g)| g.group(id)).collect()
    }

    /// One group.
    pub(crate) fn group(&self, id: u32) -> Option<Group> {
        self.groups.get(&id).map(|g| g.group(id))
    }
}
