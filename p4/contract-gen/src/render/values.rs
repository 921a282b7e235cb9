//! Constants, enums and controller headers.

use std::fmt::Write as _;

use super::{bits, camel, integer};
use crate::model::{Header, Value};
use crate::source::{Constant, Enumeration};

pub(super) fn constants(constants: &[Constant]) -> String {
    let mut out = String::from("//! Fixed numbers of the program.\n");
    for constant in constants {
        let Constant { name, width, .. } = constant;
        if constant.doc.is_empty() {
            let _ = writeln!(out, "/// `{name}`, {}.", bits(*width));
        } else {
            doc(&mut out, &constant.doc);
        }
        let literal = literal(constant);
        let _ = writeln!(out, "pub const {name}: {} = {literal};\n", integer(*width));
    }
    out
}

fn literal(constant: &Constant) -> String {
    match constant.literal.strip_prefix("0x") {
        Some(digits) if digits.len() > 4 => {
            let padded = format!("{digits:0>width$}", width = digits.len().div_ceil(4) * 4);
            let groups: Vec<&str> = (0..padded.len() / 4)
                .map(|i| &padded[i * 4..i * 4 + 4])
                .collect();
            format!("0x{}", groups.join("_"))
        }
        Some(_) => constant.literal.clone(),
        None => {
            let digits = constant.value.to_string();
            let head = digits.len() % 3;
            let (first, rest) = digits.split_at(head);
            let groups = (0..rest.len() / 3).map(|i| &rest[i * 3..i * 3 + 3]);
            let first = (head > 0).then_some(first);
            let groups: Vec<&str> = first.into_iter().chain(groups).collect();
            if digits.len() > 4 {
                groups.join("_")
            } else {
                digits
            }
        }
    }
}

pub(super) fn enumerations(enumerations: &[Enumeration]) -> String {
    let mut out = String::from(
        "//! Enums that both P4 and Rust speak.\n\
         use std::fmt;\n\n\
         use crate::ContractError;\n\n",
    );
    for item in enumerations {
        enumeration(&mut out, item);
    }
    out
}

fn enumeration(out: &mut String, item: &Enumeration) {
    let name = &item.name;
    let count = item.members.len();
    doc(out, &item.doc);
    out.push_str(
        "#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n#[repr(u8)]\n",
    );
    let _ = writeln!(out, "pub enum {name} {{");
    for member in &item.members {
        if member.doc.is_empty() {
            let _ = writeln!(out, "/// `{}`.", member.name);
        } else {
            doc(out, &member.doc);
        }
        let _ = writeln!(out, "{} = {},", camel(&member.name), member.value);
    }
    let variants: Vec<String> = item
        .members
        .iter()
        .map(|member| format!("Self::{}", camel(&member.name)))
        .collect();
    let _ = write!(
        out,
        "}}\n\n\
         impl {name} {{\n\
         /// All members.\n\
         pub const ALL: [Self; {count}] = [{}];\n\n\
         /// The name in P4.\n\
         pub fn name(self) -> &'static str {{ match self {{\n",
        variants.join(", ")
    );
    for member in &item.members {
        let _ = writeln!(out, "Self::{} => {:?},", camel(&member.name), member.name);
    }
    let _ = write!(
        out,
        "}} }}\n\n\
         /// The names of all members, in order.\n\
         pub fn names() -> impl Iterator<Item = &'static str> {{\n\
         Self::ALL.into_iter().map(Self::name)\n}}\n}}\n\n\
         impl fmt::Display for {name} {{\n\
         fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{ f.pad(self.name()) }}\n}}\n\n\
         impl From<{name}> for u8 {{\n\
         fn from(member: {name}) -> Self {{ member as Self }}\n}}\n\n\
         impl TryFrom<u8> for {name} {{\n\
         type Error = ContractError;\n\n\
         fn try_from(value: u8) -> Result<Self, ContractError> {{\n\
         match value {{\n"
    );
    for member in &item.members {
        let _ = writeln!(
            out,
            "{} => Ok(Self::{}),",
            member.value,
            camel(&member.name)
        );
    }
    let _ = write!(
        out,
        "_ => Err(ContractError::UnknownMember {{ enumeration: {name:?}, value }}),\n}}\n}}\n}}\n\n"
    );
}

pub(super) fn headers(headers: &[Header]) -> String {
    let mut out = String::from(
        "//! What goes with a frame to and from the controller.\n\
         use p4runtime_proto::entry::{self, EntryError};\n\
         use p4runtime_proto::p4::v1::PacketMetadata;\n\n\
         use crate::ContractError;\n",
    );
    let mut used: Vec<&str> = headers
        .iter()
        .flat_map(|header| &header.fields)
        .filter_map(|field| field.enumeration.as_deref())
        .collect();
    used.sort_unstable();
    used.dedup();
    for name in used {
        let _ = writeln!(out, "use super::enums::{name};");
    }
    for item in headers {
        header(&mut out, item);
    }
    out
}

fn header(out: &mut String, item: &Header) {
    let (name, ty) = (&item.name, camel(&item.name));
    let _ = write!(
        out,
        "\n/// Controller header `{name}`.\n\
         #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]\n\
         pub struct {ty} {{\n"
    );
    for field in &item.fields {
        let _ = writeln!(out, "/// Field `{}`, {}.", field.name, bits(field.width));
        let _ = writeln!(out, "pub {}: {},", field.name, type_of(field));
    }
    let _ = write!(
        out,
        "}}\n\n\
         impl {ty} {{\n\
         /// The fields as P4Runtime has them.\n\
         pub fn to_metadata(&self) -> Vec<PacketMetadata> {{\nvec![\n"
    );
    for field in &item.fields {
        let value = as_number(field, &format!("self.{}", field.name));
        let _ = writeln!(out, "entry::metadata({}, {value}),", field.id);
    }
    let _ = write!(
        out,
        "]\n}}\n\n\
         /// Reads the fields.\n\
         ///\n\
         /// # Errors\n\
         /// [`ContractError`] when one is missing or does not fit.\n\
         pub fn from_metadata(metadata: &[PacketMetadata]) -> Result<Self, ContractError> {{\n\
         let error = |source: EntryError| ContractError::Packet {{ header: {name:?}, source }};\n\
         Ok(Self {{\n"
    );
    for field in &item.fields {
        let read = format!(
            "entry::read_metadata(metadata, {}, {}).map_err(error)?",
            field.id, field.width
        );
        let _ = writeln!(out, "{}: {},", field.name, from_number(field, &read));
    }
    out.push_str("})\n}\n}\n");
}

/// The Rust type of a parameter or header field.
pub(super) fn type_of(value: &Value) -> &str {
    match &value.enumeration {
        Some(name) => name,
        None => integer(value.width),
    }
}

/// An expression that makes a `u128` of a field.
pub(super) fn as_number(value: &Value, expression: &str) -> String {
    match &value.enumeration {
        Some(_) => format!("u128::from(u8::from({expression}))"),
        None => format!("u128::from({expression})"),
    }
}

/// An expression that makes a field of a `u128` that fits its width.
pub(super) fn from_number(value: &Value, expression: &str) -> String {
    match &value.enumeration {
        Some(name) => format!("{name}::try_from({expression} as u8)?"),
        None => format!("{expression} as {}", integer(value.width)),
    }
}

fn doc(out: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(out, "{}", format!("/// {line}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_grouped() {
        let of = |literal: &str, value| literal_of(literal, value);
        assert_eq!(of("510", 510), "510");
        assert_eq!(of("4096", 4096), "4096");
        assert_eq!(of("16384", 16384), "16_384");
        assert_eq!(of("1234567", 1_234_567), "1_234_567");
        assert_eq!(of("0x8100", 0x8100), "0x8100");
        assert_eq!(of("0x020000000001", 0x0200_0000_0001), "0x0200_0000_0001");
    }

    fn literal_of(text: &str, value: u64) -> String {
        literal(&Constant {
            name: String::new(),
            width: 64,
            value,
            literal: text.to_owned(),
            doc: Vec::new(),
        })
    }
}
