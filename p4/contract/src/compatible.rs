//! Does a switch run a program that this code can drive?

use p4runtime_proto::p4::config::v1::{
    Action, ActionRef, CounterSpec, MatchField, P4Info, Preamble, Table, match_field,
};

use crate::pipeline;

/// The first thing in which a switch's program differs from the contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {part} is {theirs} on the switch and {ours} in the contract")]
pub struct ContractMismatch {
    /// The table, action, counter or header.
    pub object: String,
    /// What of it: a field, a limit.
    pub part: String,
    /// What this code was built for.
    pub ours: String,
    /// What the switch has.
    pub theirs: String,
}

/// Whether entries and counters of the contract mean the same to a switch with
/// this P4Info.
///
/// The switch's program may have more objects and more room than the contract,
/// not less of either.
///
/// # Errors
/// [`ContractMismatch`] names the first difference.
pub fn compatible(theirs: &P4Info) -> Result<(), ContractMismatch> {
    let ours = pipeline::p4info().map_err(|error| ContractMismatch {
        object: "the contract".into(),
        part: "its P4Info".into(),
        ours: error.to_string(),
        theirs: "not looked at".into(),
    })?;
    for table in &ours.tables {
        let object = describe("table", table.preamble.as_ref());
        let other = theirs
            .tables
            .iter()
            .find(|other| id(other.preamble.as_ref()) == id(table.preamble.as_ref()));
        compare_tables(&object, table, present(&object, other)?)?;
    }
    for action in &ours.actions {
        let object = describe("action", action.preamble.as_ref());
        let other = theirs
            .actions
            .iter()
            .find(|other| id(other.preamble.as_ref()) == id(action.preamble.as_ref()));
        compare_actions(&object, action, present(&object, other)?)?;
    }
    for counter in &ours.counters {
        let object = describe("counter", counter.preamble.as_ref());
        let other = theirs
            .counters
            .iter()
            .find(|other| id(other.preamble.as_ref()) == id(counter.preamble.as_ref()));
        let other = present(&object, other)?;
        same_unit(&object, counter.spec.as_ref(), other.spec.as_ref())?;
        at_least(&object, counter.size, other.size)?;
    }
    for counter in &ours.direct_counters {
        let object = describe("counter", counter.preamble.as_ref());
        let other = theirs
            .direct_counters
            .iter()
            .find(|other| id(other.preamble.as_ref()) == id(counter.preamble.as_ref()));
        let other = present(&object, other)?;
        same_unit(&object, counter.spec.as_ref(), other.spec.as_ref())?;
        same(
            &object,
            "table",
            counter.direct_table_id,
            other.direct_table_id,
        )?;
    }
    for header in &ours.controller_packet_metadata {
        let object = describe("header", header.preamble.as_ref());
        let other = theirs
            .controller_packet_metadata
            .iter()
            .find(|other| id(other.preamble.as_ref()) == id(header.preamble.as_ref()));
        let other = present(&object, other)?;
        same(
            &object,
            "number of fields",
            header.metadata.len(),
            other.metadata.len(),
        )?;
        for (field, other) in header.metadata.iter().zip(&other.metadata) {
            let part = format!("field {}", field.name);
            same(
                &object,
                &part,
                format!("{} of id {}, {} bits", field.name, field.id, field.bitwidth),
                format!("{} of id {}, {} bits", other.name, other.id, other.bitwidth),
            )?;
        }
    }
    Ok(())
}

fn compare_tables(object: &str, ours: &Table, theirs: &Table) -> Result<(), ContractMismatch> {
    same_name(object, ours.preamble.as_ref(), theirs.preamble.as_ref())?;
    let number = "number of key fields";
    same(
        object,
        number,
        ours.match_fields.len(),
        theirs.match_fields.len(),
    )?;
    for (field, other) in ours.match_fields.iter().zip(&theirs.match_fields) {
        let part = format!("key field {}", field.name);
        same(object, &part, describe_field(field), describe_field(other))?;
    }
    for reference in &ours.action_refs {
        let other = theirs
            .action_refs
            .iter()
            .find(|other| other.id == reference.id);
        let part = format!("action {:#010x}", reference.id);
        let scope = |reference: Option<&ActionRef>| {
            reference.map_or("absent".to_owned(), |reference| {
                reference.scope().as_str_name().to_owned()
            })
        };
        same(object, &part, scope(Some(reference)), scope(other))?;
    }
    let timeout = |table: &Table| table.idle_timeout_behavior().as_str_name();
    same(object, "idle timeout", timeout(ours), timeout(theirs))?;
    at_least(object, ours.size, theirs.size)
}

fn compare_actions(object: &str, ours: &Action, theirs: &Action) -> Result<(), ContractMismatch> {
    same_name(object, ours.preamble.as_ref(), theirs.preamble.as_ref())?;
    same(
        object,
        "number of parameters",
        ours.params.len(),
        theirs.params.len(),
    )?;
    for (param, other) in ours.params.iter().zip(&theirs.params) {
        let part = format!("parameter {}", param.name);
        same(
            object,
            &part,
            format!("{} of id {}, {} bits", param.name, param.id, param.bitwidth),
            format!("{} of id {}, {} bits", other.name, other.id, other.bitwidth),
        )?;
    }
    Ok(())
}

fn describe_field(field: &MatchField) -> String {
    let kind = match &field.r#match {
        Some(match_field::Match::MatchType(kind)) => match_field::MatchType::try_from(*kind)
            .map_or("of an unknown kind", |kind| kind.as_str_name()),
        _ => "of a kind of its own",
    };
    let MatchField {
        name, id, bitwidth, ..
    } = field;
    format!("{name} of id {id}, {kind}, {bitwidth} bits")
}

fn id(preamble: Option<&Preamble>) -> u32 {
    preamble.map_or(0, |preamble| preamble.id)
}

fn describe(kind: &str, preamble: Option<&Preamble>) -> String {
    preamble.map_or_else(
        || format!("a {kind} without name"),
        |preamble| format!("{kind} {}", preamble.alias),
    )
}

fn present<'a, T>(object: &str, theirs: Option<&'a T>) -> Result<&'a T, ContractMismatch> {
    theirs.ok_or_else(|| ContractMismatch {
        object: object.to_owned(),
        part: "it".into(),
        ours: "present".into(),
        theirs: "absent".into(),
    })
}

fn same<T: PartialEq + ToString>(
    object: &str,
    part: &str,
    ours: T,
    theirs: T,
) -> Result<(), ContractMismatch> {
    if ours == theirs {
        return Ok(());
    }
    Err(ContractMismatch {
        object: object.to_owned(),
        part: part.to_owned(),
        ours: ours.to_string(),
        theirs: theirs.to_string(),
    })
}

fn same_name(
    object: &str,
    ours: Option<&Preamble>,
    theirs: Option<&Preamble>,
) -> Result<(), ContractMismatch> {
    let name = |preamble: Option<&Preamble>| preamble.map_or(String::new(), |p| p.name.clone());
    same(object, "name", name(ours), name(theirs))
}

fn same_unit(
    object: &str,
    ours: Option<&CounterSpec>,
    theirs: Option<&CounterSpec>,
) -> Result<(), ContractMismatch> {
    let unit = |spec: Option<&CounterSpec>| spec.map_or("none", |spec| spec.unit().as_str_name());
    same(object, "unit", unit(ours), unit(theirs))
}

fn at_least(object: &str, ours: i64, theirs: i64) -> Result<(), ContractMismatch> {
    if theirs >= ours {
        return Ok(());
    }
    same(object, "size", ours, theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn altered(change: impl FnOnce(&mut P4Info)) -> String {
        let mut theirs = pipeline::p4info().unwrap();
        change(&mut theirs);
        compatible(&theirs).unwrap_err().to_string()
    }

    fn table<'a>(p4info: &'a mut P4Info, alias: &str) -> &'a mut Table {
        let mut tables = p4info.tables.iter_mut();
        tables
            .find(|table| table.preamble.as_ref().unwrap().alias == alias)
            .unwrap()
    }

    #[test]
    fn the_contract_fits_itself_and_what_has_more_room() {
        let mut theirs = pipeline::p4info().unwrap();
        assert_eq!(compatible(&theirs), Ok(()));
        table(&mut theirs, "vip_v4").size += 1;
        theirs.tables.push(Table::default());
        theirs.tables.reverse();
        assert_eq!(compatible(&theirs), Ok(()));
    }

    #[test]
    fn names_the_first_difference() {
        assert_eq!(
            altered(|p4info| p4info.tables.clear()),
            "table ingress_port: it is absent on the switch and present in the contract"
        );
        assert_eq!(
            altered(|p4info| table(p4info, "vip_v4").match_fields[3].bitwidth = 8),
            "table vip_v4: key field port is port of id 4, RANGE, 8 bits on the switch \
             and port of id 4, RANGE, 16 bits in the contract"
        );
        assert_eq!(
            altered(|p4info| table(p4info, "slot").size = 16),
            "table slot: size is 16 on the switch and 4096 in the contract"
        );
        assert_eq!(
            altered(|p4info| table(p4info, "flow_fwd_v4").idle_timeout_behavior = 0),
            "table flow_fwd_v4: idle timeout is NO_TIMEOUT on the switch \
             and NOTIFY_CONTROL in the contract"
        );
        assert_eq!(
            altered(|p4info| p4info.counters[0].size = 1),
            "counter ingress_port_rx: size is 1 on the switch and 512 in the contract"
        );
        let missing_param = altered(|p4info| {
            let actions = p4info.actions.iter_mut();
            for action in actions {
                action.params.pop();
            }
        });
        assert!(
            missing_param.contains("action set_port: number of parameters is 2"),
            "{missing_param}"
        );
    }
}
