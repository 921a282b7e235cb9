//! Action profiles: members, groups and one-shot programming
//! (specification, "ActionProfileMember & ActionProfileGroup").

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};
use p4runtime_proto::p4::v1::update::Type as UpdateType;
use tonic::Code;

use super::Mode;
use super::binding::{Binding, ProfileBinding, TableBinding};
use super::canonical;
use super::entry::{self, ActionUse};
use super::fault::{Fault, Outcome};
use super::sdn_port::{self, Watch};
use crate::switch::Journal;
use crate::{
    EntryAction, Group, GroupMember, Member, ProfileId, Selection, Switch, SwitchConfig, TableOp,
    Timestamp,
};

/// What the server keeps beside the switch's members and groups. Messages are
/// shared: a copy of the whole is cheap.
#[derive(Debug, Default, Clone)]
pub(super) struct Profiles {
    states: HashMap<u32, ProfileState>,
}

#[derive(Debug, Default, Clone)]
struct ProfileState {
    /// Groups as they were written.
    groups: BTreeMap<u32, Arc<p4::ActionProfileGroup>>,
    /// Action sets of one-shot entries, by the group that holds them. With any,
    /// all members and groups are those of action sets.
    one_shots: HashMap<u32, Arc<OneShot>>,
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
    pub(super) members: Vec<u32>,
}

/// Who writes members and groups to the switch.
pub(super) struct Writer<'w> {
    pub(super) binding: &'w Binding,
    pub(super) switch: &'w Switch,
    pub(super) mode: Mode,
    pub(super) now: Timestamp,
    pub(super) journal: &'w mut Journal,
}

impl Writer<'_> {
    fn apply(&mut self, op: TableOp) -> Outcome<()> {
        let results = self
            .switch
            .apply_noting(self.now, &[op], |_| false, self.journal);
        results
            .into_iter()
            .try_for_each(|result| result.map_err(Fault::from))
    }
}

impl Profiles {
    pub(super) fn write_member(
        &self,
        writer: &mut Writer<'_>,
        kind: UpdateType,
        message: &p4::ActionProfileMember,
    ) -> Outcome<()> {
        let binding = writer.binding;
        let profile = binding.profile(message.action_profile_id)?;
        self.check_manual(profile)?;
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
        writer.apply(op)
    }

    pub(super) fn write_group(
        &mut self,
        writer: &mut Writer<'_>,
        kind: UpdateType,
        mut message: p4::ActionProfileGroup,
    ) -> Outcome<()> {
        let profile = writer.binding.profile(message.action_profile_id)?;
        self.check_manual(profile)?;
        let state = self.states.entry(profile.id).or_default();
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
            writer.apply(TableOp::DeleteGroup { profile, id })?;
            state.groups.remove(&id);
            return Ok(());
        }
        if kind == UpdateType::Modify {
            // Before the members are looked at, as bmv2's server does.
            let old = state.groups.get(&id);
            let old = old.ok_or_else(|| Fault::not_found(format!("{place} does not exist")))?;
            if writer.mode == Mode::Compat && message.max_size == 0 {
                // bmv2's server takes 0 for what it was.
                message.max_size = old.max_size;
            }
            if old.max_size != message.max_size {
                return Err(Fault::invalid(format!(
                    "{place}: max_size is fixed when the group is inserted"
                )));
            }
        }
        let group = Group {
            id,
            members: decode_members(profile, &place, writer.switch.config(), &message)?,
            selection: Selection::Selector,
        };
        let profile = profile.core;
        let op = match kind {
            UpdateType::Insert => TableOp::InsertGroup { profile, group },
            UpdateType::Modify => TableOp::ModifyGroup { profile, group },
            _ => return Err(Fault::invalid("the update has no type")),
        };
        writer.apply(op)?;
        canonical::group(&mut message);
        state.groups.insert(id, Arc::new(message));
        Ok(())
    }

    /// Whether a profile is programmed with one-shot action sets.
    pub(super) fn is_one_shot(&self, profile: &ProfileBinding) -> bool {
        let state = self.states.get(&profile.id);
        state.is_some_and(|state| !state.one_shots.is_empty())
    }

    /// Checks that a profile may have members and groups that controllers know
    /// of.
    pub(super) fn check_manual(&self, profile: &ProfileBinding) -> Outcome<()> {
        if self.is_one_shot(profile) {
            return Err(Fault::invalid(format!(
                "{}: it is programmed with one-shot action sets, which excludes members and groups",
                profile.name
            )));
        }
        Ok(())
    }

    /// Checks that entries may have action sets of their own.
    fn check_one_shot(&self, switch: &Switch, profile: &ProfileBinding) -> Outcome<()> {
        if !self.is_one_shot(profile) {
            let members = switch.member_count(profile.core)?;
            if members > 0 || switch.has_groups(profile.core)? {
                return Err(Fault::invalid(format!(
                    "{}: it is programmed with members and groups, which excludes one-shot \
                     action sets",
                    profile.name
                )));
            }
        }
        Ok(())
    }

    /// Checks that a profile is programmed in the way of an entry's action.
    pub(super) fn check_way(
        &self,
        switch: &Switch,
        profile: &ProfileBinding,
        action: Option<&p4::TableAction>,
    ) -> Outcome<()> {
        use p4::table_action::Type;
        match action.and_then(|action| action.r#type.as_ref()) {
            Some(Type::ActionProfileActionSet(_)) => self.check_one_shot(switch, profile),
            Some(Type::ActionProfileMemberId(_) | Type::ActionProfileGroupId(_)) => {
                self.check_manual(profile)
            }
            _ => Ok(()),
        }
    }

    /// The operations that create the members and the group of a one-shot
    /// action set. The group of a `former` set gets the new members instead of
    /// its own. Nothing is remembered before [`Self::commit_one_shot`].
    pub(super) fn prepare_one_shot(
        &mut self,
        switch: &Switch,
        profile: &ProfileBinding,
        table: &TableBinding,
        set: &p4::ActionProfileActionSet,
        former: Option<&EntryAction>,
    ) -> Outcome<Prepared> {
        let place = format!("table {}: action set", table.name);
        if !profile.with_selector {
            return Err(Fault::invalid(format!(
                "{place}: {} has no selector",
                profile.name
            )));
        }
        let (selection, size) = decode_selection(profile, &place, set)?;
        self.check_one_shot(switch, profile)?;
        let state = self.states.entry(profile.id).or_default();
        let former = state.former(former);
        let mut ops = Vec::new();
        let mut members = Vec::new();
        let mut sizes = Sizes::default();
        for action in &set.action_profile_actions {
            let call = action
                .action
                .as_ref()
                .ok_or_else(|| Fault::invalid(format!("{place}: an action is missing")))?;
            let weight = decode_weight(profile, size, &place, action.weight)?;
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
                watch_port: sdn_port::watched(&place, switch.config(), watch)?,
            });
        }
        sizes.check(profile, size, &place, 0, Code::InvalidArgument)?;
        let ids = members.iter().map(|m| m.member).collect();
        let profile = profile.core;
        let of_group = |id, members| Group {
            id,
            members,
            selection,
        };
        let id = match former {
            None => {
                let id = state.unused_group();
                let group = of_group(id, members);
                ops.push(TableOp::InsertGroup { profile, group });
                id
            }
            // The old members first: the profile may have room for no more.
            Some((id, old)) => {
                let group = of_group(id, Vec::new());
                let mut all = vec![TableOp::ModifyGroup { profile, group }];
                let gone = old.members.iter();
                all.extend(gone.map(|&id| TableOp::DeleteMember { profile, id }));
                all.append(&mut ops);
                let group = of_group(id, members);
                all.push(TableOp::ModifyGroup { profile, group });
                ops = all;
                id
            }
        };
        Ok(Prepared {
            ops,
            group: id,
            members: ids,
        })
    }

    /// Remembers the action set of a group.
    pub(super) fn commit_one_shot(
        &mut self,
        profile: &ProfileBinding,
        group: u32,
        members: Vec<u32>,
        set: p4::ActionProfileActionSet,
    ) {
        let state = self.states.entry(profile.id).or_default();
        let one_shot = Arc::new(OneShot { set, members });
        state.one_shots.insert(group, one_shot);
    }

    /// The operations that remove the action set behind an entry's former
    /// action, if there is one.
    pub(super) fn removal_of(
        &self,
        profile: &ProfileBinding,
        former: Option<&EntryAction>,
    ) -> Option<Vec<TableOp>> {
        let (group, one_shot) = self.states.get(&profile.id)?.former(former)?;
        Some(removal(profile.core, group, &one_shot.members))
    }

    /// Forgets the action set behind an entry's former action.
    pub(super) fn forget_one_shot(
        &mut self,
        profile: &ProfileBinding,
        former: Option<&EntryAction>,
    ) {
        if let (Some(state), Some(EntryAction::Group(group))) =
            (self.states.get_mut(&profile.id), former)
        {
            state.one_shots.remove(group);
        }
    }

    /// The action set that an entry was written with.
    pub(super) fn one_shot(&self, profile: u32, group: u32) -> Option<&p4::ActionProfileActionSet> {
        let one_shot = self.states.get(&profile)?.one_shots.get(&group)?;
        Some(&one_shot.set)
    }

    /// Groups as they were written, one or all; those of one-shot sets are not
    /// among them.
    pub(super) fn groups(&self, profile: u32, id: Option<u32>) -> Vec<Arc<p4::ActionProfileGroup>> {
        let Some(state) = self.states.get(&profile) else {
            return Vec::new();
        };
        match id {
            None => state.groups.values().cloned().collect(),
            Some(id) => state.groups.get(&id).cloned().into_iter().collect(),
        }
    }

    /// Takes over the groups that are in the switch and that nobody wrote by
    /// P4Runtime.
    pub(super) fn adopt(&mut self, switch: &Switch, profile: &ProfileBinding) -> Outcome<()> {
        if self.is_one_shot(profile) {
            return Ok(());
        }
        let state = self.states.entry(profile.id).or_default();
        for group in switch.groups(profile.core)? {
            let message = || {
                Arc::new(p4::ActionProfileGroup {
                    action_profile_id: profile.id,
                    group_id: group.id,
                    members: group.members.iter().map(encode_member).collect(),
                    max_size: profile.max_group_size,
                })
            };
            state.groups.entry(group.id).or_insert_with(message);
        }
        Ok(())
    }
}

fn encode_member(member: &GroupMember) -> p4::action_profile_group::Member {
    use p4::action_profile_group::member::WatchKind;
    let watch = |port: u16| WatchKind::WatchPort(sdn_port::to_bytes(port));
    p4::action_profile_group::Member {
        member_id: member.member,
        weight: i32::try_from(member.weight).unwrap_or(i32::MAX),
        watch_kind: member.watch_port.map(watch),
    }
}

impl ProfileState {
    /// The group of an entry's former action set, and the set.
    fn former(&self, action: Option<&EntryAction>) -> Option<(u32, Arc<OneShot>)> {
        let Some(EntryAction::Group(group)) = action else {
            return None;
        };
        Some((*group, Arc::clone(self.one_shots.get(group)?)))
    }

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
        let weight = decode_weight(profile, profile.size_semantics(), place, member.weight)?;
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
    let size = profile.size_semantics();
    sizes.check(profile, size, place, max_size, Code::ResourceExhausted)?;
    Ok(members)
}

/// How the group of an action set picks, and what its size is: what the set
/// says, or what the selector and P4Info have (specification, "One Shot Action
/// Selector Programming").
fn decode_selection(
    profile: &ProfileBinding,
    place: &str,
    set: &p4::ActionProfileActionSet,
) -> Outcome<(Selection, SizeSemantics)> {
    let mode = ActionSelectionMode::try_from(set.action_selection_mode);
    let size = SizeSemantics::try_from(set.size_semantics);
    let (Ok(mode), Ok(size)) = (mode, size) else {
        return Err(Fault::invalid(format!(
            "{place}: the selection mode or the size semantics is unknown"
        )));
    };
    let selection = match mode {
        ActionSelectionMode::DefaultModeDeterminedByActionSelector => Selection::Selector,
        ActionSelectionMode::Hash if profile.picks_at_random => {
            return Err(Fault::invalid(format!(
                "{place}: {} picks at random, so it has no hash to pick by",
                profile.name
            )));
        }
        ActionSelectionMode::Hash => Selection::Selector,
        ActionSelectionMode::Random => Selection::Random,
    };
    let size = match size {
        SizeSemantics::DefaultSizeDeterminedByActionSelector => profile.size_semantics(),
        other => other,
    };
    Ok((selection, size))
}

fn decode_weight(
    profile: &ProfileBinding,
    size: SizeSemantics,
    place: &str,
    weight: i32,
) -> Outcome<u32> {
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
        Some(max)
            if size == SizeSemantics::SumOfMembers && max > 0 && weight > max.unsigned_abs() =>
        {
            Err(Fault::invalid(format!(
                "{place}: the greatest weight of a member is {max}"
            )))
        }
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
        size: SizeSemantics,
        place: &str,
        max_size: i32,
        code: Code,
    ) -> Outcome<()> {
        let size = match size {
            SizeSemantics::SumOfMembers => self.members,
            _ => self.weights,
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
