//! Binding P4Info to a program, object by object.

use std::collections::{HashMap, HashSet};

use p4runtime_proto::p4::config::v1::{
    self as p4info, P4Info, P4TypeInfo, match_field::Match, match_field::MatchType,
};

use super::{
    ActionBinding, Binding, DigestBinding, FieldBinding, FieldKind, ParamBinding, ProfileBinding,
    RegisterBinding, TableBinding, ValueSetBinding,
};
use crate::Program;
use crate::p4rt::data::DataType;
use crate::p4rt::fault::{Fault, Outcome};
use crate::p4rt::packet_header::PacketHeader;
use crate::p4rt::translation::Form;
use crate::program::{ActionInfo, HeaderInfo};

impl Binding {
    /// Whether an object of P4Info was left out by the compiler. Then P4Info
    /// names more than the program has; if the program also has objects that
    /// P4Info does not name, the two do not belong together.
    pub(super) fn note_removed(
        &mut self,
        kind: &str,
        preamble: &p4info::Preamble,
        unnamed: bool,
    ) -> Outcome<()> {
        if unnamed {
            return Err(missing(kind, &preamble.name));
        }
        tracing::debug!(kind, name = preamble.name, "not in the program");
        self.removed.insert(preamble.id, preamble.name.clone());
        Ok(())
    }

    /// Binds P4Info to a program.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the name of the first object that does not
    /// agree.
    pub(in crate::p4rt) fn new(info: &P4Info, program: &Program) -> Outcome<Self> {
        let mut binding = Self::default();
        let actions: HashMap<u32, &p4info::Action> = info
            .actions
            .iter()
            .filter_map(|action| Some((action.preamble.as_ref()?.id, action)))
            .collect();
        let unnamed = Unnamed::new(info, program);
        for table in &info.tables {
            let preamble = preamble_of(table.preamble.as_ref(), "table")?;
            if program.table_by_name(&preamble.name).is_none() {
                binding.note_removed("table", preamble, unnamed.tables)?;
                continue;
            }
            let bound = bind_table(table, &actions, program, info.type_info.as_ref())?;
            binding.table_ids.insert(bound.core, bound.id);
            insert(&mut binding.tables, bound.id, bound, "table")?;
        }
        check_direct_resources(info)?;
        for profile in &info.action_profiles {
            let preamble = preamble_of(profile.preamble.as_ref(), "action profile")?;
            if program.profile_by_name(&preamble.name).is_none() {
                binding.note_removed("action profile", preamble, unnamed.profiles)?;
                continue;
            }
            let bound = bind_profile(profile, program)?;
            insert(&mut binding.profiles, bound.id, bound, "action profile")?;
        }
        for table in binding.tables.values() {
            if let Some(profile) = table.profile
                && !binding.profiles.contains_key(&profile)
                && !binding.removed.contains_key(&profile)
            {
                return Err(mismatch(
                    "table",
                    &table.name,
                    "its action profile is missing",
                ));
            }
        }
        binding.bind_arrays(info, program, unnamed)?;
        binding.bind_data(info, program, unnamed)?;
        for header in &info.controller_packet_metadata {
            let (id, name) = identity(header.preamble.as_ref(), "controller packet metadata")?;
            let widths = program_widths(header, program);
            let types = info.type_info.as_ref();
            let bound = PacketHeader::new(name, header, widths.as_deref(), types)
                .map_err(|what| mismatch("controller header", name, &what))?;
            match name {
                "packet_in" => binding.packet_in = Some(bound),
                "packet_out" => binding.packet_out = Some(bound),
                _ => {
                    let what = format!("id {id}: only packet_in and packet_out exist");
                    return Err(mismatch("controller header", name, &what));
                }
            }
        }
        Ok(binding)
    }

    fn bind_data(&mut self, info: &P4Info, program: &Program, unnamed: Unnamed) -> Outcome<()> {
        let types = info.type_info.as_ref();
        for register in &info.registers {
            let preamble = preamble_of(register.preamble.as_ref(), "register")?;
            let (id, name) = (preamble.id, preamble.name.as_str());
            let Some(core) = program.register_by_name(name) else {
                self.note_removed("register", preamble, unnamed.registers)?;
                continue;
            };
            let found = &program.registers()[core.index()];
            check_size("register", name, register.size.into(), found.size)?;
            let data = DataType::new(register.type_spec.as_ref(), types);
            if let Ok(data) = &data
                && !data.has_width(found.width)
            {
                let what = format!("its type does not have the {} bits of a cell", found.width);
                return Err(mismatch("register", name, &what));
            }
            let bound = RegisterBinding {
                core,
                name: name.to_owned(),
                size: found.size,
                data,
            };
            insert(&mut self.registers, id, bound, "register")?;
        }
        self.bind_digests(info, program)?;
        for value_set in &info.value_sets {
            let preamble = preamble_of(value_set.preamble.as_ref(), "value set")?;
            let (id, name) = (preamble.id, preamble.name.as_str());
            if program.value_sets().iter().all(|found| found.name != name) {
                self.note_removed("value set", preamble, unnamed.value_sets)?;
                continue;
            }
            let bound = bind_value_set(value_set, name, program, types)?;
            insert(&mut self.value_sets, id, bound, "value set")?;
        }
        Ok(())
    }

    /// Binds digests. They never refuse a pipeline: what cannot be sent can
    /// only not be switched on.
    fn bind_digests(&mut self, info: &P4Info, program: &Program) -> Outcome<()> {
        let types = info.type_info.as_ref();
        let lists = super::digests::match_lists(info, program);
        for (digest, lists) in info.digests.iter().zip(lists) {
            let preamble = preamble_of(digest.preamble.as_ref(), "digest")?;
            let (id, name) = (preamble.id, preamble.name.as_str());
            let Some(first) = lists.first() else {
                self.note_removed("digest", preamble, false)?;
                continue;
            };
            let found = program.digests()[first.index()].widths.len();
            let data = DataType::new(digest.type_spec.as_ref(), types);
            let data = data.and_then(|data| match data.leaves() {
                leaves if leaves == found => Ok(data),
                leaves => Err(format!(
                    "the number of values differs: {leaves} and {found}"
                )),
            });
            if let Err(why) = &data {
                tracing::warn!(digest = name, why, "this digest cannot be switched on");
            }
            self.digest_ids
                .extend(lists.into_iter().map(|list| (list, id)));
            let name = name.to_owned();
            insert(
                &mut self.digests,
                id,
                DigestBinding { name, data },
                "digest",
            )?;
        }
        Ok(())
    }
}

/// Of which kinds the program has objects that P4Info does not name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unnamed {
    pub(super) tables: bool,
    pub(super) profiles: bool,
    pub(super) counters: bool,
    pub(super) meters: bool,
    pub(super) registers: bool,
    pub(super) value_sets: bool,
}

impl Unnamed {
    fn new(info: &P4Info, program: &Program) -> Self {
        fn any<'n>(
            mut in_program: impl Iterator<Item = &'n String>,
            in_p4info: impl Iterator<Item = Option<&'n p4info::Preamble>>,
        ) -> bool {
            let named: HashSet<&str> = in_p4info.flatten().map(|p| p.name.as_str()).collect();
            in_program.any(|name| !named.contains(name.as_str()))
        }
        // Tables that the compiler makes have names like this; P4Info never
        // has them.
        let own_tables = program.tables().iter().map(|t| &t.name);
        let own_tables = own_tables.filter(|name| !name.starts_with("tbl_"));
        let counters = program.counters().iter().filter(|c| c.direct.is_none());
        let meters = program.meters().iter().filter(|m| m.direct.is_none());
        Self {
            tables: any(own_tables, info.tables.iter().map(|o| o.preamble.as_ref())),
            profiles: any(
                program.profiles().iter().map(|p| &p.name),
                info.action_profiles.iter().map(|o| o.preamble.as_ref()),
            ),
            counters: any(
                counters.map(|c| &c.name),
                info.counters.iter().map(|o| o.preamble.as_ref()),
            ),
            meters: any(
                meters.map(|m| &m.name),
                info.meters.iter().map(|o| o.preamble.as_ref()),
            ),
            registers: any(
                program.registers().iter().map(|r| &r.name),
                info.registers.iter().map(|o| o.preamble.as_ref()),
            ),
            value_sets: any(
                program.value_sets().iter().map(|v| &v.name),
                info.value_sets.iter().map(|o| o.preamble.as_ref()),
            ),
        }
    }
}

/// Whether P4Info has the direct resources that it says tables to have.
fn check_direct_resources(info: &P4Info) -> Outcome<()> {
    let counters = info.direct_counters.iter().map(|c| c.preamble.as_ref());
    let meters = info.direct_meters.iter().map(|m| m.preamble.as_ref());
    let known: HashSet<u32> = counters.chain(meters).flatten().map(|p| p.id).collect();
    for table in &info.tables {
        let mut ids = table.direct_resource_ids.iter();
        if let Some(id) = ids.find(|id| !known.contains(id)) {
            let (_, name) = identity(table.preamble.as_ref(), "table")?;
            let what = format!("P4Info has no direct resource with id {id}");
            return Err(mismatch("table", name, &what));
        }
    }
    Ok(())
}

fn bind_table(
    table: &p4info::Table,
    actions: &HashMap<u32, &p4info::Action>,
    program: &Program,
    types: Option<&P4TypeInfo>,
) -> Outcome<TableBinding> {
    let (id, name) = identity(table.preamble.as_ref(), "table")?;
    let wrong = |what: String| mismatch("table", name, &what);
    let core = program
        .table_by_name(name)
        .ok_or_else(|| missing("table", name))?;
    let found = &program.tables()[core.index()];
    if table.match_fields.len() != found.key.len() {
        return Err(wrong(format!(
            "the number of key fields differs: {} and {}",
            table.match_fields.len(),
            found.key.len()
        )));
    }
    let mut fields = Vec::with_capacity(found.key.len());
    for (position, key) in found.key.iter().enumerate() {
        // Names may repeat; the order then decides.
        let field = table
            .match_fields
            .get(position)
            .filter(|field| field.name == key.name)
            .or_else(|| table.match_fields.iter().find(|f| f.name == key.name))
            .ok_or_else(|| wrong(format!("key field {} is missing in P4Info", key.name)))?;
        let kind = field_kind(field)
            .ok_or_else(|| wrong(format!("key field {}: unknown match type", key.name)))?;
        if kind.in_program() != key.kind {
            return Err(wrong(format!(
                "key field {}: the match type differs: {kind} and {}",
                key.name, key.kind
            )));
        }
        check_width(field.bitwidth, field.type_name.is_some(), key.width)
            .map_err(|what| wrong(format!("key field {}: {what}", key.name)))?;
        fields.push(FieldBinding {
            id: field.id,
            name: key.name.clone(),
            kind,
            width: key.width,
            form: Form::of(field.type_name.as_ref(), types),
        });
    }
    let needs_priority = fields.iter().any(|f| f.kind.needs_priority());
    if needs_priority != found.needs_priority {
        return Err(wrong("only one of the two gives entries a priority".into()));
    }
    let mut bound_actions = Vec::with_capacity(table.action_refs.len());
    for reference in &table.action_refs {
        let action = actions
            .get(&reference.id)
            .ok_or_else(|| wrong(format!("P4Info has no action with id {}", reference.id)))?;
        let (_, action_name) = identity(action.preamble.as_ref(), "action")?;
        let core = found
            .action_by_name(action_name)
            .ok_or_else(|| wrong(format!("it has no action {action_name} in the program")))?;
        let params = bind_params(action, &program.actions()[core.index()], types)
            .map_err(|what| mismatch("action", action_name, &what))?;
        bound_actions.push(ActionBinding {
            id: reference.id,
            core,
            name: action_name.to_owned(),
            scope: reference.scope(),
            params,
        });
    }
    let defaults = [
        ("constant", table.const_default_action_id),
        (
            "initial",
            table
                .initial_default_action
                .as_ref()
                .map_or(0, |action| action.action_id),
        ),
    ];
    for (which, id) in defaults {
        if id != 0 && bound_actions.iter().all(|action| action.id != id) {
            let what = format!("its {which} default action {id} is not one of its actions");
            return Err(wrong(what));
        }
    }
    let profile = (table.implementation_id != 0).then_some(table.implementation_id);
    if profile.is_some() != found.profile.is_some() {
        return Err(wrong(
            "only one of the two gives it an action profile".into(),
        ));
    }
    Ok(TableBinding {
        id,
        core,
        name: name.to_owned(),
        fields,
        actions: bound_actions,
        needs_priority,
        is_const: table.is_const_table || found.is_const,
        const_default: table.const_default_action_id != 0 || found.const_default_params,
        supports_timeout: found.support_timeout
            && table.idle_timeout_behavior() == p4info::table::IdleTimeoutBehavior::NotifyControl,
        profile,
        counter: None,
        meter: None,
    })
}

fn bind_params(
    action: &p4info::Action,
    found: &ActionInfo,
    types: Option<&P4TypeInfo>,
) -> Result<Vec<ParamBinding>, String> {
    if action.params.len() != found.params.len() {
        return Err(format!(
            "the number of parameters differs: {} and {}",
            action.params.len(),
            found.params.len()
        ));
    }
    found
        .params
        .iter()
        .map(|known| {
            let param = action
                .params
                .iter()
                .find(|p| p.name == known.name)
                .ok_or_else(|| format!("parameter {} is missing in P4Info", known.name))?;
            check_width(param.bitwidth, param.type_name.is_some(), known.width)
                .map_err(|what| format!("parameter {}: {what}", known.name))?;
            Ok(ParamBinding {
                id: param.id,
                name: param.name.clone(),
                form: Form::of(param.type_name.as_ref(), types),
            })
        })
        .collect()
}

fn bind_profile(profile: &p4info::ActionProfile, program: &Program) -> Outcome<ProfileBinding> {
    use p4info::action_profile::SelectorSizeSemantics;
    let (id, name) = identity(profile.preamble.as_ref(), "action profile")?;
    let core = program
        .profile_by_name(name)
        .ok_or_else(|| missing("action profile", name))?;
    let found = &program.profiles()[core.index()];
    if profile.with_selector != found.with_selector {
        let what = "only one of the two has a selector";
        return Err(mismatch("action profile", name, what));
    }
    if profile.max_group_size < 0 {
        let what = "its max_group_size is negative";
        return Err(mismatch("action profile", name, what));
    }
    Ok(ProfileBinding {
        id,
        core,
        name: name.to_owned(),
        with_selector: profile.with_selector,
        max_group_size: profile.max_group_size,
        sum_of_members: match &profile.selector_size_semantics {
            Some(SelectorSizeSemantics::SumOfMembers(sum)) => Some(sum.max_member_weight),
            _ => None,
        },
        picks_at_random: program.picks_at_random(core),
        weights_disallowed: profile.weights_disallowed,
        tables: profile.table_ids.clone(),
    })
}

fn bind_value_set(
    set: &p4info::ValueSet,
    name: &str,
    program: &Program,
    types: Option<&P4TypeInfo>,
) -> Outcome<ValueSetBinding> {
    let wrong = |what: String| mismatch("value set", name, &what);
    let (core, found) = (0..)
        .zip(program.value_sets())
        .find(|(_, found)| found.name == name)
        .ok_or_else(|| missing("value set", name))?;
    check_size("value set", name, set.size.into(), found.size)?;
    if set.r#match.len() != found.fields.len() {
        return Err(wrong(format!(
            "the number of fields differs: {} and {}",
            set.r#match.len(),
            found.fields.len()
        )));
    }
    let mut fields = Vec::with_capacity(found.fields.len());
    for (field, &width) in set.r#match.iter().zip(&found.fields) {
        let kind = field_kind(field)
            .ok_or_else(|| wrong(format!("field {}: unknown match type", field.name)))?;
        check_width(field.bitwidth, field.type_name.is_some(), width)
            .map_err(|what| wrong(format!("field {}: {what}", field.name)))?;
        fields.push(FieldBinding {
            id: field.id,
            name: field.name.clone(),
            kind,
            width,
            form: Form::of(field.type_name.as_ref(), types),
        });
    }
    Ok(ValueSetBinding {
        core,
        name: name.to_owned(),
        fields,
    })
}

/// The widths that the program gives the fields of a header for the controller:
/// P4Info has the controller's, which may differ. `None` if no header of the
/// program has these fields.
fn program_widths(
    header: &p4info::ControllerPacketMetadata,
    program: &Program,
) -> Option<Vec<u32>> {
    let fits = |found: &&HeaderInfo| {
        // The compiler fills the last byte up.
        let fields = found
            .fields
            .iter()
            .filter(|f| !f.name.starts_with("_padding"));
        let mut fields = fields.map(|field| (field.name.as_str(), i64::from(field.width)));
        let mut same = header.metadata.iter().map(|wanted| {
            fields.next().is_some_and(|(name, width)| {
                let open = wanted.type_name.is_some() || wanted.bitwidth == 0;
                name == wanted.name && (open || width == i64::from(wanted.bitwidth))
            })
        });
        !found.metadata && same.all(|same| same) && fields.next().is_none()
    };
    let found = program.headers().iter().find(fits)?;
    let fields = found.fields.iter().take(header.metadata.len());
    Some(fields.map(|field| field.width).collect())
}

fn field_kind(field: &p4info::MatchField) -> Option<FieldKind> {
    let Some(Match::MatchType(kind)) = field.r#match else {
        return None;
    };
    match MatchType::try_from(kind).ok()? {
        MatchType::Exact => Some(FieldKind::Exact),
        MatchType::Lpm => Some(FieldKind::Lpm),
        MatchType::Ternary => Some(FieldKind::Ternary),
        MatchType::Range => Some(FieldKind::Range),
        MatchType::Optional => Some(FieldKind::Optional),
        MatchType::Unspecified => None,
    }
}

/// P4Info gives a translated type the controller's width, which may differ, and
/// gives no width to what is no number (`error`, an enum, a string).
fn check_width(in_p4info: i32, translated: bool, in_program: u32) -> Result<(), String> {
    if translated || in_p4info == 0 || i64::from(in_p4info) == i64::from(in_program) {
        Ok(())
    } else {
        Err(format!("the width differs: {in_p4info} and {in_program}"))
    }
}

pub(super) fn check_size(kind: &str, name: &str, in_p4info: i64, in_program: u32) -> Outcome<()> {
    if in_p4info == i64::from(in_program) {
        Ok(())
    } else {
        let what = format!("the size differs: {in_p4info} and {in_program}");
        Err(mismatch(kind, name, &what))
    }
}

pub(super) fn insert<T>(map: &mut HashMap<u32, T>, id: u32, value: T, kind: &str) -> Outcome<()> {
    match map.insert(id, value) {
        None => Ok(()),
        Some(_) => Err(Fault::invalid(format!(
            "P4Info has two objects of kind {kind} with id {id}"
        ))),
    }
}

pub(super) fn identity<'p>(
    preamble: Option<&'p p4info::Preamble>,
    kind: &str,
) -> Outcome<(u32, &'p str)> {
    let preamble = preamble_of(preamble, kind)?;
    Ok((preamble.id, &preamble.name))
}

pub(super) fn preamble_of<'p>(
    preamble: Option<&'p p4info::Preamble>,
    kind: &str,
) -> Outcome<&'p p4info::Preamble> {
    let preamble =
        preamble.ok_or_else(|| Fault::invalid(format!("P4Info has a {kind} without preamble")))?;
    if preamble.id == 0 {
        let name = &preamble.name;
        return Err(Fault::invalid(format!(
            "P4Info: {kind} {name} has the id 0"
        )));
    }
    Ok(preamble)
}

fn missing(kind: &str, name: &str) -> Fault {
    mismatch(kind, name, "the program does not have it")
}

pub(super) fn mismatch(kind: &str, name: &str, what: &str) -> Fault {
    Fault::invalid(format!(
        "P4Info and the program do not belong together: {kind} {name}: {what}"
    ))
}
