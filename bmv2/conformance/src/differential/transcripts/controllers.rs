//! Several controllers: who becomes primary, who is told, and what a backup may
//! not do.

use anyhow::Result;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::update::Type;

use super::Program;
use crate::differential::cases::Case;
use crate::differential::generate::update;
use crate::differential::side::{DEVICE, ELECTION};
use crate::differential::step::{MAIN, Step, StreamNumber};

/// Streams that bmv2 takes, [`MAIN`] among them.
const MOST_STREAMS: usize = 16;

pub(super) fn all(program: &Program<'_>) -> Result<Vec<Case>> {
    Ok(vec![
        succession(program)?,
        many(program),
        roles(program)?,
        without_id(program)?,
        elsewhere(program),
        unasked(program)?,
        same_id(program)?,
    ])
}

fn says(stream: StreamNumber, update: Up) -> Step {
    Step::Tell {
        stream,
        message: p4::StreamMessageRequest {
            update: Some(update),
        },
    }
}

fn candidate(id: u64) -> p4::MasterArbitrationUpdate {
    p4::MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: Some(p4::Uint128 { high: 0, low: id }),
        ..p4::MasterArbitrationUpdate::default()
    }
}

/// A stream asks to become primary with an election id.
fn arbitrate(stream: StreamNumber, id: u64) -> Step {
    says(stream, Up::Arbitration(candidate(id)))
}

/// Writes an entry with an election id and takes it back.
fn write_as(program: &Program<'_>, id: Option<u64>) -> Result<[Step; 2]> {
    let entry = program.entry("host", 77, "host_forward", &[2])?;
    let by = |kind| {
        Step::WriteAs(Box::new(p4::WriteRequest {
            device_id: DEVICE,
            election_id: id.map(|low| p4::Uint128 { high: 0, low }),
            updates: vec![update(kind, Entity::TableEntry(entry.clone()))],
            ..p4::WriteRequest::default()
        }))
    };
    Ok([by(Type::Insert), by(Type::Delete)])
}

/// One for the controller, which the primary alone gets.
fn punt(program: &Program<'_>) -> Result<Step> {
    let entry = program.entry("host", 0xffff_ffff_ffff, "host_to_controller", &[])?;
    Ok(super::insert(Entity::TableEntry(entry)))
}

fn packet_out(stream: StreamNumber) -> Step {
    let packet = p4::PacketOut {
        payload: vec![0x11; 60],
        metadata: vec![
            p4runtime_proto::entry::metadata(1, 3),
            p4runtime_proto::entry::metadata(2, 0),
        ],
    };
    says(stream, Up::Packet(packet))
}

/// Others come with higher and lower ids, change them and leave.
fn succession(program: &Program<'_>) -> Result<Case> {
    let mut steps = vec![punt(program)?];
    let check = |steps: &mut Vec<Step>| -> Result<()> {
        for id in [1, 2, 3, 5, 9] {
            steps.extend(write_as(program, Some(id))?);
        }
        steps.extend(program.packets());
        steps.extend([packet_out(MAIN), packet_out(1)]);
        Ok(())
    };
    // Takes over.
    steps.push(arbitrate(1, 5));
    check(&mut steps)?;
    // A backup, and one with an id that is there.
    steps.extend([arbitrate(2, 3), arbitrate(3, 5)]);
    check(&mut steps)?;
    // The same again, and the primary with a higher one.
    steps.extend([arbitrate(2, 3), arbitrate(1, 5), arbitrate(1, 9)]);
    check(&mut steps)?;
    // It steps down.
    steps.push(arbitrate(1, 2));
    check(&mut steps)?;
    // Up again, and the backup goes.
    steps.extend([arbitrate(1, 9), Step::Close(2)]);
    check(&mut steps)?;
    // The primary goes: the next is primary, and comes back.
    steps.push(Step::Close(1));
    steps.extend(write_as(program, Some(1))?);
    steps.extend(write_as(program, Some(9))?);
    steps.extend(program.packets());
    steps.push(arbitrate(1, 9));
    check(&mut steps)?;
    steps.push(Step::Close(MAIN));
    steps.extend(write_as(program, Some(9))?);
    // Nobody is there.
    steps.push(Step::Close(1));
    steps.extend(program.packets());
    steps.extend(write_as(program, Some(9))?);
    steps.extend(write_as(program, None)?);
    steps.push(super::pipelines::again_by(program, None));
    steps.push(arbitrate(MAIN, ELECTION.low));
    steps.push(punt(program)?);
    check(&mut steps)?;
    Ok(program.case("controllers", steps))
}

/// More than there may be.
fn many(program: &Program<'_>) -> Case {
    let mut steps = vec![arbitrate(MAIN, 1000)];
    for (stream, id) in (1..=MOST_STREAMS).zip((100..900).rev()) {
        steps.push(arbitrate(stream, id));
    }
    // One goes, so there is room.
    steps.extend([Step::Close(1), arbitrate(MOST_STREAMS + 1, 2)]);
    steps.push(Step::Close(MAIN));
    for stream in 2..MOST_STREAMS {
        steps.push(Step::Close(stream));
    }
    program.case("controllers-many", steps)
}

/// Roles, which bmv2 does not know.
fn roles(program: &Program<'_>) -> Result<Case> {
    let role = |stream, id, name: &str, number| {
        says(
            stream,
            Up::Arbitration(p4::MasterArbitrationUpdate {
                role: Some(p4::Role {
                    name: name.into(),
                    id: number,
                    config: None,
                }),
                ..candidate(id)
            }),
        )
    };
    let mut steps = Vec::new();
    // With the primary's id, with another, and with a number for a name.
    for (stream, id, name, number) in [(1, 1, "learner", 0), (2, 7, "other", 0), (3, 8, "", 5)] {
        steps.push(role(stream, id, name, number));
        steps.extend(write_as(program, Some(1))?);
        steps.push(Step::Close(stream));
    }
    // The default role by its name, and a change of role.
    steps.push(role(4, 6, "", 0));
    steps.extend(write_as(program, Some(6))?);
    steps.push(role(4, 6, "late", 0));
    steps.push(Step::Close(4));
    steps.extend(write_as(program, Some(1))?);
    Ok(program.case("controllers-roles", steps))
}

/// Without an election id, which never is primary; to bmv2 it is 0.
fn without_id(program: &Program<'_>) -> Result<Case> {
    let nameless = |stream| {
        says(
            stream,
            Up::Arbitration(p4::MasterArbitrationUpdate {
                device_id: DEVICE,
                ..p4::MasterArbitrationUpdate::default()
            }),
        )
    };
    let mut steps = vec![nameless(1), nameless(2)];
    steps.extend(write_as(program, None)?);
    steps.push(Step::Close(MAIN));
    for id in [None, Some(0), Some(1)] {
        steps.extend(write_as(program, id)?);
    }
    steps.extend([Step::Close(1), Step::Close(2), arbitrate(MAIN, 0)]);
    for id in [Some(0), Some(1)] {
        steps.extend(write_as(program, id)?);
    }
    Ok(program.case("controllers-without-id", steps))
}

/// For a device that is not there.
fn elsewhere(program: &Program<'_>) -> Case {
    let other = |stream, id| {
        says(
            stream,
            Up::Arbitration(p4::MasterArbitrationUpdate {
                device_id: 99,
                ..candidate(id)
            }),
        )
    };
    let mut steps = vec![other(1, 5), Step::Close(1)];
    // A stream that has had a device.
    steps.extend([arbitrate(2, 5), other(2, 5)]);
    program.case("controllers-elsewhere", steps)
}

/// Messages of those who have not said who they are, and of none that the
/// switch awaits.
fn unasked(program: &Program<'_>) -> Result<Case> {
    let ack = |digest_id| {
        Up::DigestAck(p4::DigestListAck {
            digest_id,
            list_id: 77,
        })
    };
    let digest = program.digest()?;
    let mut steps = vec![packet_out(1), says(2, ack(digest))];
    let nothing = p4::StreamMessageRequest { update: None };
    for stream in [3, MAIN] {
        steps.push(Step::Tell {
            stream,
            message: nothing.clone(),
        });
    }
    steps.extend([says(MAIN, ack(digest)), says(MAIN, ack(0x7fff_ffff))]);
    // Of a packet out there may be too little, too much and something else.
    let metadata = p4runtime_proto::entry::metadata;
    for fields in [
        vec![],
        vec![metadata(1, 3)],
        vec![metadata(2, 0)],
        vec![metadata(1, 3), metadata(2, 0), metadata(3, 0)],
        vec![metadata(9, 0)],
        vec![metadata(1, 3), metadata(1, 2), metadata(2, 0)],
        vec![metadata(1, 1 << 9), metadata(2, 0)],
        vec![metadata(2, 0), metadata(1, 3)],
    ] {
        let packet = p4::PacketOut {
            payload: vec![0x22; 60],
            metadata: fields,
        };
        steps.push(says(MAIN, Up::Packet(packet)));
    }
    steps.extend([Step::Close(1), Step::Close(2), Step::Close(3)]);
    Ok(program.case("controllers-unasked", steps))
}

/// One takes the id of another, after which bmv2 knows neither.
fn same_id(program: &Program<'_>) -> Result<Case> {
    let mut steps = vec![arbitrate(1, 5), arbitrate(2, 3), arbitrate(2, 5)];
    steps.extend(write_as(program, Some(5))?);
    Ok(program.case("controllers-same-id", steps))
}
