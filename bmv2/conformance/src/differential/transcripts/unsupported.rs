//! Entities that bmv2's server does not know.

use anyhow::{Context, Result};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::{bytestring, entry};

use super::Program;
use crate::differential::cases::Case;
use crate::differential::generate::{id, update};
use crate::differential::reads::read;
use crate::differential::step::Step;

pub(super) fn all(program: &Program<'_>) -> Result<Vec<Case>> {
    Ok(vec![value_sets(program)?, externs(program)])
}

/// A set of values for a parser, which goes again before packets come.
fn value_sets(program: &Program<'_>) -> Result<Case> {
    let set = program.info().value_sets.first().context("no value set")?;
    let value_set_id = id(set.preamble.as_ref());
    let of = |values: &[u128]| {
        let member = |value: &u128| p4::ValueSetMember {
            r#match: vec![entry::exact(1, *value)],
        };
        Entity::ValueSetEntry(p4::ValueSetEntry {
            value_set_id,
            members: values.iter().map(member).collect(),
        })
    };
    let mut steps = program.packets();
    for (kind, values) in [
        (Type::Modify, &[0x88b7, 0x88b8][..]),
        (Type::Insert, &[0x88b7]),
        (Type::Delete, &[]),
        (Type::Unspecified, &[]),
        // More than it has room for.
        (Type::Modify, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (Type::Modify, &[]),
    ] {
        steps.push(Step::Write(vec![update(kind, of(values))]));
        steps.push(read(of(&[])));
    }
    for value_set_id in [0, 0x7fff_ffff] {
        let other = Entity::ValueSetEntry(p4::ValueSetEntry {
            value_set_id,
            members: Vec::new(),
        });
        steps.push(read(other.clone()));
        steps.push(Step::Write(vec![update(Type::Modify, other)]));
    }
    steps.extend(program.packets());
    Ok(program.case("value-sets", steps))
}

/// No extern of v1model has entries, and an entity may be nothing at all.
fn externs(program: &Program<'_>) -> Case {
    let unknown = Entity::ExternEntry(p4::ExternEntry {
        extern_type_id: 0x81,
        extern_id: 7,
        entry: None,
    });
    let nothing = || p4::Entity { entity: None };
    let mut steps = vec![read(unknown.clone()), Step::Read(vec![nothing()])];
    for kind in [Type::Insert, Type::Modify, Type::Delete] {
        steps.push(Step::Write(vec![update(kind, unknown.clone())]));
        steps.push(Step::Write(vec![p4::Update {
            r#type: kind.into(),
            entity: Some(nothing()),
        }]));
    }
    steps.push(Step::Write(vec![p4::Update::default()]));
    // Reads of what has no number.
    steps.push(read(Entity::DigestEntry(p4::DigestEntry::default())));
    let value = bytestring::encode(1);
    let register = p4::RegisterEntry {
        register_id: 0x7fff_ffff,
        index: Some(p4::Index { index: 0 }),
        data: Some(p4::P4Data {
            data: Some(p4::p4_data::Data::Bitstring(value)),
        }),
    };
    steps.push(read(Entity::RegisterEntry(register.clone())));
    steps.push(Step::Write(vec![update(
        Type::Modify,
        Entity::RegisterEntry(register),
    )]));
    program.case("unknown-entities", steps)
}
