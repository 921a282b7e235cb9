//! Tables: one module each, and an index over all.

use std::fmt::Write as _;

use super::values::{as_number, from_number, type_of};
use super::{bits, camel, hex, integer};
use crate::model::{Action, Field, Kind, Table};

/// `tables/mod.rs`.
pub(super) fn index(tables: &[Table]) -> String {
    let mut out = String::from("//! Tables, in the order of the pipeline.\n");
    for table in tables {
        let _ = writeln!(out, "pub mod {};", table.name);
    }
    let infos: Vec<String> = tables
        .iter()
        .map(|table| format!("{}::INFO", table.name))
        .collect();
    let _ = write!(
        out,
        "\nuse p4runtime_proto::p4::v1::TableEntry;\n\n\
         use crate::{{ContractError, TableInfo}};\n\n\
         /// All tables.\n\
         pub const ALL: &[TableInfo] = &[{}];\n\n\
         /// An entry of any table.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\n\
         pub enum AnyEntry {{\n",
        infos.join(", ")
    );
    for table in tables {
        let _ = writeln!(out, "/// An entry of `{}`.", table.name);
        let _ = writeln!(out, "{}({}::Entry),", camel(&table.name), table.name);
    }
    out.push_str(
        "}\n\nimpl AnyEntry {\n\
         /// The table.\n\
         pub fn table(&self) -> TableInfo {\nmatch self {\n",
    );
    for table in tables {
        let _ = writeln!(
            out,
            "Self::{}(_) => {}::INFO,",
            camel(&table.name),
            table.name
        );
    }
    out.push_str(
        "}\n}\n\n\
         /// The entry as P4Runtime has it.\n\
         pub fn to_proto(&self) -> TableEntry {\nmatch self {\n",
    );
    for table in tables {
        let _ = writeln!(
            out,
            "Self::{}(entry) => entry.to_proto(),",
            camel(&table.name)
        );
    }
    out.push_str(
        "}\n}\n\n\
         /// Reads an entry of any table.\n\
         ///\n\
         /// # Errors\n\
         /// [`ContractError`] when the program has no such table or the entry is not\n\
         /// as the program has it.\n\
         pub fn from_proto(entry: &TableEntry) -> Result<Self, ContractError> {\n\
         match entry.table_id {\n",
    );
    for table in tables {
        let (name, variant) = (&table.name, camel(&table.name));
        let _ = writeln!(
            out,
            "id if id == {name}::INFO.id => {name}::Entry::from_proto(entry).map(Self::{variant}),"
        );
    }
    out.push_str("id => Err(ContractError::UnknownTable { id }),\n}\n}\n}\n");
    for table in tables {
        let (name, variant) = (&table.name, camel(&table.name));
        let _ = write!(
            out,
            "\nimpl From<{name}::Entry> for AnyEntry {{\n\
             fn from(entry: {name}::Entry) -> Self {{ Self::{variant}(entry) }}\n}}\n"
        );
    }
    out
}

/// `tables/<name>.rs`.
pub(super) fn module(table: &Table) -> String {
    let name = &table.name;
    let mut out = format!(
        "//! Table `{name}`.\n\
         use p4runtime_proto::entry::{{self, EntryError}};\n\
         use p4runtime_proto::p4::v1::{{self, TableAction, TableEntry}};\n\n\
         use crate::{{ContractError, Row, TableInfo}};\n"
    );
    let has = |kind| table.fields.iter().any(|field| field.kind == kind);
    if has(Kind::Lpm) {
        out.push_str("use crate::Lpm;\n");
    }
    if has(Kind::Range) {
        out.push_str("use crate::Range;\n");
    }
    let mut used: Vec<&str> = table
        .actions
        .iter()
        .flat_map(|action| &action.params)
        .filter_map(|param| param.enumeration.as_deref())
        .collect();
    used.sort_unstable();
    used.dedup();
    for name in used {
        let _ = writeln!(out, "use crate::generated::enums::{name};");
    }
    info(&mut out, table);
    key(&mut out, table);
    action(&mut out, table);
    entry(&mut out, table);
    out
}

fn info(out: &mut String, table: &Table) {
    let counter = table
        .direct_counter
        .map_or("None".to_owned(), |id| format!("Some({})", hex(id)));
    let _ = write!(
        out,
        "\n/// The table.\n\
         pub const INFO: TableInfo = TableInfo {{\n\
         id: {}, name: {:?}, full_name: {:?}, size: {}, priority: {}, idle_timeout: {}, \
         direct_counter: {counter} }};\n\n",
        hex(table.id),
        table.name,
        table.full_name,
        table.size,
        table.has_priority(),
        table.idle_timeout,
    );
}

fn key(out: &mut String, table: &Table) {
    let priority = table.has_priority();
    let _ = write!(
        out,
        "/// A key of `{}`.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         pub struct Key {{\n",
        table.name
    );
    for field in &table.fields {
        let ty = integer(field.width);
        let (kind, ty) = match field.kind {
            Kind::Exact => ("", ty.to_owned()),
            Kind::Lpm => (", a prefix", format!("Lpm<{ty}>")),
            Kind::Range => (", a range", format!("Range<{ty}>")),
        };
        let _ = writeln!(out, "/// `{}`, {}{kind}.", field.name, bits(field.width));
        let _ = writeln!(out, "pub {}: {ty},", field.name);
    }
    let (doc, argument, set) = if priority {
        (
            "/// An entry with this key and priority (above 0) and no action, as a deletion or\n\
             /// a read has it.\n",
            ", priority: i32",
            "priority, ",
        )
    } else {
        (
            "/// An entry with this key and no action, as a deletion or a read has it.\n",
            "",
            "",
        )
    };
    let _ = write!(
        out,
        "}}\n\n\
         impl Key {{\n{doc}pub fn to_proto(&self{argument}) -> TableEntry {{\n"
    );
    let elements: Vec<String> = table.fields.iter().map(element).collect();
    if table.fields.iter().all(|field| field.kind == Kind::Exact) {
        let _ = writeln!(out, "let r#match = vec![{}];", elements.join(", "));
    } else {
        let optional: Vec<String> = table
            .fields
            .iter()
            .zip(&elements)
            .map(|(field, element)| match field.kind {
                Kind::Exact => format!("Some({element})"),
                Kind::Lpm | Kind::Range => element.clone(),
            })
            .collect();
        let _ = writeln!(
            out,
            "// An element that matches anything is left out.\n\
             let elements = [{}];\n\
             let r#match = elements.into_iter().flatten().collect();",
            optional.join(", ")
        );
    }
    let _ = write!(
        out,
        "TableEntry {{ table_id: INFO.id, r#match, {set}..TableEntry::default() }}\n}}\n\n\
         /// Reads the key of an entry of this table.\n\
         ///\n\
         /// # Errors\n\
         /// [`ContractError`] when the entry is of another table or its key is not as the\n\
         /// program has it.\n\
         pub fn from_proto(entry: &TableEntry) -> Result<Self, ContractError> {{\n\
         INFO.own(entry)?;\n\
         let error = |source: EntryError| INFO.error(source);\n"
    );
    for field in &table.fields {
        read_element(out, field);
    }
    out.push_str("Ok(Self {\n");
    for field in &table.fields {
        let (name, ty) = (&field.name, integer(field.width));
        let _ = match field.kind {
            Kind::Exact => writeln!(out, "{name}: {name} as {ty},"),
            Kind::Lpm => writeln!(
                out,
                "{name}: Lpm {{ value: {name}.0 as {ty}, prefix_len: {name}.1 }},"
            ),
            Kind::Range => {
                writeln!(
                    out,
                    "{name}: Range {{ low: {name}.0 as {ty}, high: {name}.1 as {ty} }},"
                )
            }
        };
    }
    out.push_str("})\n}\n}\n\n");
}

fn element(field: &Field) -> String {
    let Field {
        id, name, width, ..
    } = field;
    match field.kind {
        Kind::Exact => format!("entry::exact({id}, u128::from(self.{name}))"),
        Kind::Lpm => format!(
            "entry::lpm({id}, u128::from(self.{name}.value), self.{name}.prefix_len, {width})"
        ),
        Kind::Range => format!(
            "entry::range({id}, u128::from(self.{name}.low), u128::from(self.{name}.high), {width})"
        ),
    }
}

fn read_element(out: &mut String, field: &Field) {
    let Field {
        id, name, width, ..
    } = field;
    let read = match field.kind {
        Kind::Exact => format!("entry::read_exact(entry, {id}, {width}).map_err(error)?"),
        Kind::Lpm => format!("INFO.read_lpm(entry, ({id}, {name:?}), {width})?"),
        Kind::Range => format!("INFO.read_range(entry, ({id}, {name:?}), {width})?"),
    };
    let _ = writeln!(out, "let {name} = {read};");
}

fn action(out: &mut String, table: &Table) {
    let _ = write!(
        out,
        "/// What an entry of `{}` does.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         pub enum Action {{\n",
        table.name
    );
    for action in &table.actions {
        let _ = writeln!(out, "/// `{}`.", action.name);
        let _ = write!(out, "{}", camel(&action.name));
        if !action.params.is_empty() {
            out.push_str(" {\n");
            for param in &action.params {
                let _ = writeln!(out, "/// `{}`, {}.", param.name, bits(param.width));
                let _ = writeln!(out, "{}: {},", param.name, type_of(param));
            }
            out.push('}');
        }
        out.push_str(",\n");
    }
    out.push_str(
        "}\n\nimpl Action {\n\
         /// The action as P4Runtime has it.\n\
         pub fn to_proto(&self) -> TableAction {\nmatch *self {\n",
    );
    for action in &table.actions {
        let params: Vec<String> = action
            .params
            .iter()
            .map(|param| {
                format!(
                    "entry::param({}, {})",
                    param.id,
                    as_number(param, &param.name)
                )
            })
            .collect();
        let _ = writeln!(
            out,
            "{} => entry::direct_action({}, vec![{}]),",
            pattern(action),
            hex(action.id),
            params.join(", ")
        );
    }
    let any_params = table.actions.iter().any(|action| !action.params.is_empty());
    out.push_str(
        "}\n}\n\n\
         /// Reads an action of this table.\n\
         ///\n\
         /// # Errors\n\
         /// [`ContractError`] when it is of another table or its parameters are not as the\n\
         /// program has them.\n\
         pub fn from_proto(action: &v1::Action) -> Result<Self, ContractError> {\n",
    );
    if any_params {
        out.push_str(
            "let param = |id, bitwidth| {\n\
             entry::read_param(action, id, bitwidth).map_err(|source| INFO.error(source))\n};\n",
        );
    }
    out.push_str("match action.action_id {\n");
    for action in &table.actions {
        let _ = write!(
            out,
            "{} => Ok(Self::{}",
            hex(action.id),
            camel(&action.name)
        );
        if !action.params.is_empty() {
            out.push_str(" {\n");
            for param in &action.params {
                let read = format!("param({}, {})?", param.id, param.width);
                let _ = writeln!(out, "{}: {},", param.name, from_number(param, &read));
            }
            out.push('}');
        }
        out.push_str("),\n");
    }
    out.push_str("id => Err(ContractError::UnknownAction { table: INFO.name, id }),\n}\n}\n}\n\n");
}

fn pattern(action: &Action) -> String {
    let names: Vec<&str> = action
        .params
        .iter()
        .map(|param| param.name.as_str())
        .collect();
    if names.is_empty() {
        format!("Self::{}", camel(&action.name))
    } else {
        format!("Self::{} {{ {} }}", camel(&action.name), names.join(", "))
    }
}

fn entry(out: &mut String, table: &Table) {
    let (priority, timeout) = (table.has_priority(), table.idle_timeout);
    let _ = write!(
        out,
        "/// An entry of `{}`.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n\
         pub struct Entry {{\n\
         /// What it matches.\n\
         pub key: Key,\n\
         /// What it does.\n\
         pub action: Action,\n",
        table.name
    );
    if priority {
        out.push_str(
            "/// Above 0; of several entries that match, the highest wins.\npub priority: i32,\n",
        );
    }
    if timeout {
        out.push_str(
            "/// Nanoseconds without a packet after which the switch reports the entry; 0 for\n\
             /// never.\n\
             pub idle_timeout_ns: i64,\n",
        );
    }
    let _ = write!(
        out,
        "}}\n\n\
         impl Entry {{\n\
         /// The entry as P4Runtime has it, in canonical form.\n\
         pub fn to_proto(&self) -> TableEntry {{\n\
         TableEntry {{ action: Some(self.action.to_proto()), {}..self.key.to_proto({}) }}\n}}\n\n\
         /// Reads an entry of this table.\n\
         ///\n\
         /// # Errors\n\
         /// [`ContractError`] when it is of another table or not as the program has it.\n\
         pub fn from_proto(entry: &TableEntry) -> Result<Self, ContractError> {{\n\
         let key = Key::from_proto(entry)?;\n\
         let action =\n\
         entry::action_of(entry).ok_or(ContractError::NoAction {{ table: INFO.name }})?;\n\
         Ok(Self {{ key, action: Action::from_proto(action)?, {}{} }})\n}}\n}}\n\n\
         impl Row for Entry {{\n\
         const TABLE: TableInfo = INFO;\n\n\
         fn to_proto(&self) -> TableEntry {{ Self::to_proto(self) }}\n\n\
         fn from_proto(entry: &TableEntry) -> Result<Self, ContractError> {{ Self::from_proto(entry) }}\n}}\n",
        if timeout {
            "idle_timeout_ns: self.idle_timeout_ns, "
        } else {
            ""
        },
        if priority { "self.priority" } else { "" },
        if priority {
            "priority: entry.priority, "
        } else {
            ""
        },
        if timeout {
            "idle_timeout_ns: entry.idle_timeout_ns, "
        } else {
            ""
        },
    );
}
