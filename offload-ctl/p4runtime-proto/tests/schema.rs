//! Our schema against the official one, field by field.
//!
//! `p4runtime_schema.txt` lists the facts of the descriptors that the Python
//! package finsy 0.30.0 ships (P4Runtime 1.5.0); `list_schema.py` says how to
//! make it anew.

use std::collections::BTreeSet;

use p4runtime_proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
};

#[test]
fn schema_is_the_official_one() {
    let official = include_str!("p4runtime_schema.txt")
        .lines()
        .map(str::to_owned)
        .collect::<BTreeSet<_>>();
    let ours = our_facts(&FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap());

    let missing: Vec<_> = official.difference(&ours).collect();
    let added: Vec<_> = ours.difference(&official).collect();
    assert!(
        missing.is_empty() && added.is_empty(),
        "missing or different here: {missing:#?}\nonly here: {added:#?}"
    );
    // An empty listing would agree with an empty schema.
    assert!(official.contains("field p4.v1.TableEntry.is_const = 13 bool single"));
}

fn our_facts(set: &FileDescriptorSet) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for file in &set.file {
        if file.package() == "google.protobuf" {
            continue;
        }
        for item in &file.enum_type {
            add_enum(&mut facts, file.package(), item);
        }
        for item in &file.message_type {
            add_message(&mut facts, file.package(), item);
        }
        for item in &file.service {
            add_service(&mut facts, file.package(), item);
        }
    }
    facts
}

fn add_enum(facts: &mut BTreeSet<String>, scope: &str, item: &EnumDescriptorProto) {
    for value in &item.value {
        facts.insert(format!(
            "enum {scope}.{}.{} = {}",
            item.name(),
            value.name(),
            value.number()
        ));
    }
}

fn add_message(facts: &mut BTreeSet<String>, scope: &str, item: &DescriptorProto) {
    let name = format!("{scope}.{}", item.name());
    facts.insert(format!("message {name}"));
    for field in &item.field {
        let mut fact = format!(
            "field {name}.{} = {} {} {}",
            field.name(),
            field.number(),
            kind(field),
            if field.label() == Label::Repeated {
                "repeated"
            } else {
                "single"
            }
        );
        if let Some(index) = field.oneof_index {
            let oneof = item.oneof_decl[index as usize].name();
            fact.push_str(&format!(" oneof={oneof}"));
        }
        facts.insert(fact);
    }
    for nested in &item.enum_type {
        add_enum(facts, &name, nested);
    }
    for nested in &item.nested_type {
        add_message(facts, &name, nested);
    }
}

fn add_service(facts: &mut BTreeSet<String>, scope: &str, item: &ServiceDescriptorProto) {
    let stream = |yes| if yes { "stream " } else { "" };
    for method in &item.method {
        facts.insert(format!(
            "rpc {scope}.{}.{} {}{} -> {}{}",
            item.name(),
            method.name(),
            stream(method.client_streaming()),
            method.input_type(),
            stream(method.server_streaming()),
            method.output_type()
        ));
    }
}

/// A message or enum by its full name, a scalar by its keyword.
fn kind(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().to_owned(),
        scalar => scalar
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase(),
    }
}
