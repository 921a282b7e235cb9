//! Action profiles: members, groups and one-shot programming
//! (specification, "ActionProfileMember & ActionProfileGroup").

use std::collections::{BTreeMap, BTreeSet, HashMap};

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use tonic::Code;

use super::binding::{Binding, ProfileBinding, TableBinding};
use super::entry::{self, ActionUse};
use super::fault::{Fault, Outcome};
use super::sdn_port::{self, Watch};
use crate::{
    EntryAction, Group, GroupMember, Member, ProfileId, Switch, SwitchConfig, TableOp, Timestamp,
};

/// What the server keeps beside the switch's members and groups.
#[derive(Debug, Default, Clone)]
pub(super) struct Profiles {
    states: HashMap<u32, ProfileState>,
}

#[derive(Debug, Default, Clone)]
struct ProfileState {
    /// Groups as they were written.
    groups: BTreeMap<u32, p4::ActionProfileGroup>,
    members: BTreeSet<u32>,
    /// Action sets of one-shot entries, by the group that holds them.
    one_shots: HashMap<u32, OneShot>,
    next_group: u32,
    next_member: u32,
}

#[derive(Debug, Clone)]
struct OneShot {
    set: p4::ActionProfileActionSet,
    members: Vec<u32>,
}

/// The operations that make up a one-shot action set, and its group.
pub(super) struct Prepared {
    pub(super) ops: Vec<TableOp>,
    pub(super) group: u32,
    members: Vec<u32>,
}

impl Profiles {
    pub(super) fn write_member(
        &mut self,
        binding: &Binding,
        switch: &Switch,
        now: Timestamp,
        kind: UpdateType,
        message: &p4::ActionProfileMember,
    ) -> Outcome<()> {
        let profile = binding.profile(message.action_profile_id)?;
        let state = self.manual(profile)?;
        if message.member_id == 0 {
            return Err(Fault::invalid(format!(
                "{}: a member cannot have the id 0",
                profile.name
            )));
        }
        let id = message.member_id;
        let op = if kind == UpdateType::Delete {
            TableOp::DeleteMember {
                profile: profile.core,
                id,
            }
        } else {
            let table = binding.profile_table(profile)?;
            let action = message.action.as_ref().ok_or_else(|| {
                Fault::invalid(format!("{}: member {id} has no action", profile.name))
            })?;
            let member = Member {
                id,
                call: entry::decode_action(table, action, ActionUse::Entry)?,
            };
            match kind {
                UpdateType::Insert => TableOp::InsertMember {
                    profile: profile.core,
                    member,
                },
                UpdateType::Modify => TableOp::ModifyMember {
                    profile: profile.core,
                    member,
                },
                _ => return Err(Fault::invalid("the update has no type")),
            }
        };
        apply_one(switch, now, op)?;
        match kind {
            UpdateType::Delete => state.members.remove(&id),
            _ => state.members.insert(id),
        };
        Ok(())
    }

    pub(super) fn write_group(
        &mut self,
        binding: &Binding,
        switch: &Switch,
        now: Timestamp,
        kind: UpdateType,
        message: p4::ActionProfileGroup,
    ) -> Outcome<()> {
        let profile = binding.profile(message.action_profile_id)?;
        let state = self.manual(profile)?;
        let id = message.group_id;
        let place = format!("{}: group {id}", profile.name);
        if !profile.with_selector {
            return Err(Fault::invalid(format!(
                "{}: it has no selector, so no groups",
                profile.name
            )));
        }
        if id == 0 {
            return Err(Fault::invalid(format!("{place}: the id cannot be 0")));
        }
        if kind == UpdateType::Delete {
            let profile = profile.core;
            apply_one(switch, now, TableOp::DeleteGroup { profile, id })?;
            state.groups.remove(&id);
            return Ok(());
        }
        let group = Group {
            id,
            members: decode_members(profile, &place, switch.config(), &message)?,
        };
        let profile = profile.core;
        let op = match kind {
            UpdateType::Insert => TableOp::InsertGroup { profile, group },
            UpdateType::Modify => {
                if let Some(old) = state.groups.get(&id)
                    && old.max_size != message.max_size
                {
                    return Err(Fault::invalid(format!(
                        "{place}: max_size is fixed when the group is inserted"
                    )));
                }
                TableOp::ModifyGroup { profile, group }
            }
            _ => return Err(Fault::invalid("the update has no type")),
        };
        apply_one(switch, now, op)?;
        state.groups.insert(id, message);
        Ok(())
    }

    /// The state of a profile that is programmed with members and groups.
    fn manual(&mut self, profile: &ProfileBinding) -> Outcome<&mut ProfileState> {
        self.check_manual(profile)?;
        Ok(self.states.entry(profile.id).or_default())
    }

    /// Checks that a profile may have members and groups that controllers know
    /// of.
    pub(super) fn check_manual(&self, profile: &ProfileBinding) -> Outcome<()> {
        let state = self.states.get(&profile.id);
        if state.is_some_and(|state| !state.one_shots.is_empty()) {
            return Err(Fault::invalid(format!(
                "{}: it is programmed with one-shot action sets, which excludes members and groups",
                profile.name
            )));
        }
        Ok(())
    }

    /// The operations that create the members and the group of a one-shot
    /// action set. Nothing is remembered before [`Self::commit_one_shot`].
    pub(super) fn prepare_one_shot(
        &mut self,
        config: &SwitchConfig,
        profile: &ProfileBinding,
        table: &TableBinding,
        set: &p4::ActionProfileActionSet,
    ) -> Outcome<Prepared> {
        let place = format!("table {}: action set", table.name);
        if !profile.with_selector {
            return Err(Fault::invalid(format!(
                "{place}: {} has no selector",
                profile.name
            )));
        }
        check_selection(profile, &place, set)?;
        let state = self.states.entry(profile.id).or_default();
        if !state.members.is_empty() || !state.groups.is_empty() {
            return Err(Fault::invalid(format!(
                "{}: it is programmed with members and groups, which excludes one-shot action sets",
                profile.name
            )));
        }
        let mut ops = Vec::new();
        let mut members = Vec::new();
        let mut sizes = Sizes::default();
        for action in &set.action_profile_actions {
            let call = action
                .action
                .as_ref()
                .ok_or_else(|| Fault::invalid(format!("{place}: an action is missing")))?;
            let weight = decode_weight(profile, &place, action.weight)?;
            sizes.add(weight);
            let id = state.unused_member();
            ops.push(TableOp::InsertMember {
                profile: profile.core,
                member: Member {
                    id,
                    call: entry::decode_action(table, call, ActionUse::Entry)?,
                },
            });
            let watch = match &action.watch_kind {
                None => Watch::None,
                Some(p4::action_profile_action::WatchKind::Watch(port)) => Watch::Number(*port),
                Some(p4::action_profile_action::WatchKind::WatchPort(port)) => Watch::Bytes(port),
            };
            members.push(GroupMember {
                member: id,
                weight,
                watch_port: sdn_port::watched(&place, config, watch)?,
            });
        }
        sizes.check(profile, &place, 0, Code::InvalidArgument)?;
        let ids = members.iter().map(|m| m.member).collect();
        let group = state.unused_group();
        ops.push(TableOp::InsertGroup {
            profile: profile.core,
            group: Group { id: group, members },
        });
        Ok(Prepared {
            ops,
            group,
            members: ids,
        })
    }

    pub(super) fn commit_one_shot(
        &mut self,
        profile: &ProfileBinding,
        prepared: Prepared,
        set: p4::ActionProfileActionSet,
    ) {
        let state = self.states.entry(profile.id).or_default();
        let members = prepared.members;
        state
            .one_shots
            .insert(prepared.group, OneShot { set, members });
    }

    /// Forgets the action set behind an entry's former action and returns the
    /// operations that remove it.
    pub(super) fn release_one_shot(
        &mut self,
        profile: &ProfileBinding,
        action: &EntryAction,
    ) -> Vec<TableOp> {
        let EntryAction::Group(group) = action else {
            return Vec::new();
        };
        let state = self.states.entry(profile.id).or_default();
        match state.one_shots.remove(group) {
            Some(one_shot) => removal(profile.core, *group, &one_shot.members),
            None => Vec::new(),
        }
    }

    /// The action set that an entry was written with.
    pub(super) fn one_shot(&self, profile: u32, group: u32) -> Option<&p4::ActionProfileActionSet> {
        let one_shot = self.states.get(&profile)?.one_shots.get(&group)?;
        Some(&one_shot.set)
    }

    /// Groups as they were written; those of one-shot sets are not among them.
    pub(super) fn groups(&self, profile: u32) -> Vec<p4::ActionProfileGroup> {
        let state = self.states.get(&profile);
        state.map_or_else(Vec::new, |s| s.groups.values().cloned().collect())
    }

    /// Ids of the members that a controller wrote.
    pub(super) fn has_member(&self, profile: u32, member: u32) -> bool {
        let state = self.states.get(&profile);
        state.is_some_and(|s| s.members.contains(&member))
    }
}

impl Prepared {
    /// The operations that take it back.
    pub(super) fn undo(&self, profile: ProfileId) -> Vec<TableOp> {
        removal(profile, self.group, &self.members)
    }
}

impl ProfileState {
    fn unused_member(&mut self) -> u32 {
        self.next_member = self.next_member.wrapping_add(1).max(1);
        self.next_member
    }

    fn unused_group(&mut self) -> u32 {
        self.next_group = self.next_group.wrapping_add(1).max(1);
        self.next_group
    }
}

fn removal(profile: ProfileId, group: u32, members: &[u32]) -> Vec<TableOp> {
    let group = TableOp::DeleteGroup { profile, id: group };
    let members = members
        .iter()
        .map(|&id| TableOp::DeleteMember { profile, id });
    std::iter::once(group).chain(members).collect()
}

fn apply_one(switch: &Switch, now: Timestamp, op: TableOp) -> Outcome<()> {
    switch
        .apply(now, &[op])
        .into_iter()
        .try_for_each(|result| result.map_err(Fault::from))
}

fn decode_members(
    profile: &ProfileBinding,
    place: &str,
    config: &SwitchConfig,
    message: &p4::ActionProfileGroup,
) -> Outcome<Vec<GroupMember>> {
    let max_size = message.max_size;
    if max_size < 0 || (profile.max_group_size > 0 && max_size > profile.max_group_size) {
        return Err(Fault::invalid(format!(
            "{place}: max_size {max_size} is not within 0 to {}",
            profile.max_group_size
        )));
    }
    let mut seen = BTreeSet::new();
    let mut sizes = Sizes::default();
    let mut members = Vec::with_capacity(message.members.len());
    for member in &message.members {
        if !seen.insert(member.member_id) {
            return Err(Fault::invalid(format!(
                "{place}: member {} is given twice; use its weight",
                member.member_id
            )));
        }
        let weight = decode_weight(profile, place, member.weight)?;
        sizes.add(weight);
        let watch = match &member.watch_kind {
            None => Watch::None,
            Some(p4::action_profile_group::member::WatchKind::Watch(port)) => Watch::Number(*port),
            Some(p4::action_profile_group::member::WatchKind::WatchPort(port)) => {
                Watch::Bytes(port)
            }
        };
        members.push(GroupMember {
            member: member.member_id,
            weight,
            watch_port: sdn_port::watched(place, config, watch)?,
        });
    }
    sizes.check(profile, place, max_size, Code::ResourceExhausted)?;
    Ok(members)
}

/// The selector hashes, and P4Info has its size semantics: an action set may
/// leave both to it or say the same (specification, "One Shot Action Selector
/// Programming").
fn check_selection(
    profile: &ProfileBinding,
    place: &str,
    set: &p4::ActionProfileActionSet,
) -> Outcome<()> {
    use p4::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
    let mode = ActionSelectionMode::try_from(set.action_selection_mode);
    let size = SizeSemantics::try_from(set.size_semantics);
    let (Ok(mode), Ok(size)) = (mode, size) else {
        return Err(Fault::invalid(format!(
            "{place}: the selection mode or the size semantics is unknown"
        )));
    };
    let sizes_agree = match size {
        SizeSemantics::DefaultSizeDeterminedByActionSelector => true,
        SizeSemantics::SumOfWeights => profile.sum_of_members.is_none(),
        SizeSemantics::SumOfMembers => profile.sum_of_members.is_some(),
    };
    if mode == ActionSelectionMode::Random || !sizes_agree {
        return Err(Fault::unimplemented(format!(
            "{place}: its selection mode and size semantics must be the selector's, \
             which hashes"
        )));
    }
    Ok(())
}

fn decode_weight(profile: &ProfileBinding, place: &str, weight: i32) -> Outcome<u32> {
    if profile.weights_disallowed {
        return match weight {
            0 => Ok(1),
            _ => Err(Fault::invalid(format!("{place}: weights are disallowed"))),
        };
    }
    let weight = u32::try_from(weight).unwrap_or(0);
    if weight == 0 {
        return Err(Fault::invalid(format!("{place}: a weight must be above 0")));
    }
    match profile.sum_of_members {
        Some(max) if max > 0 && i64::from(weight) > i64::from(max) => Err(Fault::invalid(format!(
            "{place}: the greatest weight of a member is {max}"
        ))),
        _ => Ok(weight),
    }
}

#[derive(Default)]
struct Sizes {
    weights: u64,
    members: u64,
}

/// Most shares of a group, whatever P4Info allows: bounds memory.
const MAX_WEIGHTS: u64 = 1 << 16;

impl Sizes {
    fn add(&mut self, weight: u32) {
        self.weights += u64::from(weight);
        self.members += 1;
    }

    fn check(
        &self,
        profile: &ProfileBinding,
        place: &str,
        max_size: i32,
        code: Code,
    ) -> Outcome<()> {
        let size = match profile.sum_of_members {
            Some(_) => self.members,
            None => self.weights,
        };
        let limit = [max_size, profile.max_group_size]
            .into_iter()
            .filter_map(|limit| u64::try_from(limit).ok())
            .find(|limit| *limit > 0);
        if let Some(limit) = limit
            && size > limit
        {
            return Err(Fault::new(
                code,
                format!("{place}: its size is {size}, the greatest is {limit}"),
            ));
        }
        if self.weights > MAX_WEIGHTS {
            return Err(Fault::new(
                Code::ResourceExhausted,
                format!("{place}: the weights add up to more than {MAX_WEIGHTS}"),
            ));
        }
        Ok(())
    }
}
