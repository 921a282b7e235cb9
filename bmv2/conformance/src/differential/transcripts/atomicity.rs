//! Batches that are to be all or nothing, and writes by those who may not.

use anyhow::Result;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::write_request::Atomicity;

use super::Program;
use crate::differential::cases::Case;
use crate::differential::generate::update;
use crate::differential::reads;
use crate::differential::side::{DEVICE, ELECTION};
use crate::differential::step::Step;

/// A number that is no way of writing.
const UNKNOWN: i32 = 9;

pub(super) fn all(program: &Program<'_>) -> Result<Vec<Case>> {
    Ok(vec![atomic(program)?, of_whom(program)?])
}

fn request(updates: Vec<p4::Update>) -> p4::WriteRequest {
    p4::WriteRequest {
        device_id: DEVICE,
        election_id: Some(ELECTION),
        updates,
        ..p4::WriteRequest::default()
    }
}

fn write(request: p4::WriteRequest) -> Step {
    Step::WriteAs(Box::new(request))
}

fn host(program: &Program<'_>, key: u128) -> Result<p4::Update> {
    let entry = program.entry("host", key, "host_forward", &[2])?;
    Ok(update(Type::Insert, Entity::TableEntry(entry)))
}

fn atomic(program: &Program<'_>) -> Result<Case> {
    let mut steps = Vec::new();
    let (a, b) = (host(program, 1)?, host(program, 2)?);
    let batches = [
        vec![a.clone(), b.clone()],
        vec![a.clone(), b.clone(), a.clone()],
        Vec::new(),
    ];
    let ways = [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic];
    for atomicity in ways.map(i32::from).into_iter().chain([UNKNOWN]) {
        for updates in &batches {
            steps.push(write(p4::WriteRequest {
                atomicity,
                ..request(updates.clone())
            }));
            steps.extend(reads::everything(program.info()));
        }
    }
    // And without, for comparison.
    for updates in batches {
        steps.push(write(request(updates)));
        steps.extend(reads::everything(program.info()));
    }
    Ok(program.case("atomicity", steps))
}

/// Who writes and reads, and where.
fn of_whom(program: &Program<'_>) -> Result<Case> {
    let right = || -> Result<p4::WriteRequest> { Ok(request(vec![host(program, 3)?])) };
    let mut steps = Vec::new();
    for election_id in [
        None,
        Some(p4::Uint128 { high: 0, low: 0 }),
        Some(p4::Uint128 { high: 0, low: 2 }),
        Some(p4::Uint128 { high: 1, low: 1 }),
    ] {
        steps.push(write(p4::WriteRequest {
            election_id,
            ..right()?
        }));
    }
    for device_id in [0, 99] {
        for election_id in [Some(ELECTION), None] {
            steps.push(write(p4::WriteRequest {
                device_id,
                election_id,
                ..right()?
            }));
        }
        steps.push(Step::ReadAs(Box::new(p4::ReadRequest {
            device_id,
            entities: vec![p4::TableEntry::default().into()],
            ..p4::ReadRequest::default()
        })));
    }
    steps.push(write(p4::WriteRequest {
        role: "nobody's".into(),
        ..right()?
    }));
    steps.push(write(p4::WriteRequest {
        role_id: 7,
        ..right()?
    }));
    steps.push(Step::ReadAs(Box::new(p4::ReadRequest {
        device_id: DEVICE,
        role: "nobody's".into(),
        entities: vec![p4::TableEntry::default().into()],
    })));
    steps.extend(reads::everything(program.info()));
    Ok(program.case("writes-of-whom", steps))
}
