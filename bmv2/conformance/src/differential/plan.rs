//! The steps for one program.

use std::time::Duration;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime_proto::p4::v1::replica::PortKind;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::update::Type;

use super::cases::Case;
use super::generate::{Generator, id, update};
use super::pipeline;
use super::reads::{self, read};
use super::side::{CPU_PORT, PORTS};
use super::step::Step;

/// Longer than the idle timeouts of these entries, and bmv2's sweep after it.
const UNTIL_IDLE: Duration = Duration::from_millis(2_500);

/// How much is asked.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Entries of each table.
    pub entries: usize,
    /// Packets between two changes of the tables.
    pub packets: usize,
    /// Changes of the tables.
    pub rounds: usize,
}

/// The steps for a program: `first` is done before anything by chance.
pub fn steps(case: &Case, first: Vec<Step>, seed: u64, size: Size) -> Vec<Step> {
    let (info, seeds) = (&case.info, &case.seeds);
    let mut generator = Generator::new(info, seeds, seed);
    let mut steps = reads::everything(info);
    steps.extend(first);
    steps.extend(replication());
    let profiles = generator.profiles();
    steps.extend(profiles.into_iter().map(|update| Step::Write(vec![update])));
    meters(info, &mut steps);
    for (port, frame) in seeds {
        steps.push(Step::Packet {
            port: *port,
            frame: frame.clone(),
        });
    }
    let mut present: Vec<p4::TableEntry> = Vec::new();
    for _ in 0..size.rounds {
        for table in generator.tables() {
            if let Some(entry) = generator.default_entry(table)
                && generator.random.one_in(3)
            {
                steps.push(one(Type::Modify, Entity::TableEntry(entry)));
            }
            for _ in 0..size.entries {
                if generator.random.one_in(3)
                    && let Some(wrong) = generator.wrong(table)
                {
                    steps.push(Step::Write(vec![wrong]));
                }
                let Some(entry) = generator.entry(table) else {
                    break;
                };
                steps.push(one(Type::Insert, Entity::TableEntry(entry.clone())));
                present.push(entry);
            }
        }
        for _ in 0..size.entries {
            change(&mut generator, &mut present, &mut steps);
            if let Some(changed) = generator.profile_change() {
                steps.push(Step::Write(vec![changed]));
            }
            if let Some(entry) = generator.random.pick(&present).cloned() {
                direct(&mut generator, &entry, &mut steps);
                steps.push(reads::one(&mut generator, &entry));
            }
        }
        steps.extend(reads::everything(info));
        steps.extend((0..4).map(|_| replication_change(&mut generator)));
        for _ in 0..size.packets {
            let (port, frame) = generator.packet();
            // bmv2's ingress has begun with one packet of a burst before its
            // egress is done with another; registers would tell.
            let bursts = info.registers.is_empty();
            steps.push(if bursts && generator.random.one_in(8) {
                let more = 1 + generator.random.below(7);
                let more: Vec<_> = (0..more).map(|_| generator.packet().1).collect();
                let frames = [vec![frame], more].concat();
                Step::Burst { port, frames }
            } else {
                Step::Packet { port, frame }
            });
        }
        packet_outs(&mut generator, info, &mut steps);
    }
    steps.extend(reads::everything(info));
    idle(&mut generator, &mut steps);
    // The program again: such that everything stays, and anew.
    for action in [Action::Unspecified, Action::Verify] {
        steps.push(push(action, case));
    }
    some_packets(&mut generator, size, &mut steps);
    steps.extend(reads::everything(info));
    steps.push(push(Action::VerifyAndCommit, case));
    steps.extend(reads::everything(info));
    some_packets(&mut generator, size, &mut steps);
    let profiles = generator.profiles();
    steps.extend(profiles.into_iter().map(|update| Step::Write(vec![update])));
    for table in generator.tables() {
        for _ in 0..size.entries / 2 {
            if let Some(entry) = generator.entry(table) {
                steps.push(one(Type::Insert, Entity::TableEntry(entry)));
            }
        }
    }
    some_packets(&mut generator, size, &mut steps);
    steps.extend(reads::everything(info));
    steps
}

fn push(action: Action, case: &Case) -> Step {
    Step::Pipeline(Box::new(pipeline::request(action, Some(case.config()))))
}

fn some_packets(generator: &mut Generator<'_>, size: Size, steps: &mut Vec<Step>) {
    for _ in 0..size.packets.div_ceil(10) {
        let (port, frame) = generator.packet();
        steps.push(Step::Packet { port, frame });
    }
}

/// Entries that nobody hits, until they are reported.
fn idle(generator: &mut Generator<'_>, steps: &mut Vec<Step>) {
    for table in generator.tables() {
        if table.idle_timeout_behavior == 0 {
            continue;
        }
        let mut entries = Vec::new();
        for number in 0..3 {
            if let Some(entry) = generator.entry(table) {
                entries.push(p4::TableEntry {
                    idle_timeout_ns: (100 + 50 * number) * 1_000_000,
                    ..entry
                });
            }
        }
        let entity = |entry: &p4::TableEntry| Entity::TableEntry(entry.clone());
        let all = |kind| entries.iter().map(move |e| one(kind, entity(e)));
        steps.extend(all(Type::Insert));
        steps.push(Step::Wait(UNTIL_IDLE));
        steps.extend(all(Type::Delete));
    }
}

/// A multicast group or clone session that is made, changed or removed.
fn replication_change(generator: &mut Generator<'_>) -> Step {
    let random = &mut generator.random;
    let mut replicas: Vec<p4::Replica> = Vec::new();
    for _ in 0..=random.below(6) {
        let port = match random.below(12) {
            0 => CPU_PORT,
            1 => 300,
            _ => random.pick(&PORTS).copied().unwrap_or_default(),
        };
        replicas.push(replica(port, u32::try_from(random.below(13)).unwrap_or(0)));
    }
    let kind = match random.below(5) {
        0 => Type::Delete,
        1 | 2 => Type::Insert,
        _ => Type::Modify,
    };
    let entity = if random.one_in(2) {
        group(u32::try_from(random.below(12)).unwrap_or(0), replicas)
    } else {
        session(u32::try_from(4 + random.below(7)).unwrap_or(0), replicas, 0)
    };
    one(kind, entity)
}

pub(super) fn replica(port: u16, instance: u32) -> p4::Replica {
    p4::Replica {
        instance,
        port_kind: Some(PortKind::EgressPort(port.into())),
        ..p4::Replica::default()
    }
}

fn replicated(kind: Replication) -> Entity {
    Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
}

pub(super) fn group(id: u32, replicas: Vec<p4::Replica>) -> Entity {
    replicated(Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
        multicast_group_id: id,
        replicas,
        ..p4::MulticastGroupEntry::default()
    }))
}

pub(super) fn session(id: u32, replicas: Vec<p4::Replica>, length: i32) -> Entity {
    replicated(Replication::CloneSessionEntry(p4::CloneSessionEntry {
        session_id: id,
        replicas,
        packet_length_bytes: length,
        ..p4::CloneSessionEntry::default()
    }))
}

fn one(kind: Type, entity: Entity) -> Step {
    Step::Write(vec![update(kind, entity)])
}

/// Modifies, deletes or inserts again something that may be there, alone or
/// with others.
fn change(generator: &mut Generator<'_>, present: &mut Vec<p4::TableEntry>, steps: &mut Vec<Step>) {
    if present.is_empty() {
        return;
    }
    let at = generator.random.below(present.len());
    let entry = present.swap_remove(at);
    let table = generator
        .tables()
        .iter()
        .find(|t| id(t.preamble.as_ref()) == entry.table_id);
    match generator.random.below(4) {
        0 => steps.push(one(Type::Insert, Entity::TableEntry(entry.clone()))),
        1 => {
            if let Some(other) = table.and_then(|t| generator.entry(t)) {
                let mut changed = p4::TableEntry {
                    action: other.action,
                    ..entry.clone()
                };
                if generator.random.one_in(2) {
                    changed.meter_config = None;
                    changed.counter_data = None;
                }
                steps.push(one(Type::Modify, Entity::TableEntry(changed)));
            }
        }
        2 => {
            steps.push(one(Type::Delete, Entity::TableEntry(entry.clone())));
            steps.push(one(Type::Delete, Entity::TableEntry(entry)));
            return;
        }
        _ => {
            // In one batch: a change of what is there, of what is not, and a
            // doubled insert.
            let missing = table.and_then(|t| generator.entry(t));
            let mut batch = vec![update(Type::Modify, Entity::TableEntry(entry.clone()))];
            if let Some(missing) = missing {
                batch.push(update(Type::Delete, Entity::TableEntry(missing)));
            }
            batch.push(update(Type::Insert, Entity::TableEntry(entry.clone())));
            steps.push(Step::Write(batch));
        }
    }
    present.push(entry);
}

/// Sets the counter or the meter of an entry that may be there.
fn direct(generator: &mut Generator<'_>, entry: &p4::TableEntry, steps: &mut Vec<Step>) {
    let table_entry = Some(p4::TableEntry {
        action: None,
        ..entry.clone()
    });
    let entity = if generator.random.one_in(2) {
        Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry,
            data: (!generator.random.one_in(8)).then(|| generator.counter_data()),
        })
    } else {
        Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry,
            config: (!generator.random.one_in(8)).then(|| generator.meter_config(None)),
            ..p4::DirectMeterEntry::default()
        })
    };
    let kind = match generator.random.below(10) {
        0 => Type::Insert,
        _ => Type::Modify,
    };
    steps.push(one(kind, entity));
}

/// Groups 1 to 3 and 9, clone sessions 5 to 9.
fn replication() -> Vec<Step> {
    let all_groups = group(0, Vec::new());
    let all_sessions = session(0, Vec::new(), 0);
    vec![
        one(Type::Insert, group(1, vec![replica(1, 0)])),
        one(
            Type::Insert,
            group(2, vec![replica(2, 5), replica(1, 5), replica(3, 6)]),
        ),
        one(
            Type::Insert,
            group(3, vec![replica(4, 1), replica(4, 2), replica(2, 1)]),
        ),
        one(Type::Insert, group(3, vec![replica(4, 1)])),
        one(Type::Modify, group(1, vec![replica(1, 1), replica(2, 2)])),
        one(
            Type::Insert,
            group(9, vec![replica(CPU_PORT, 1), replica(3, 1)]),
        ),
        one(Type::Insert, group(10, vec![replica(1, 1), replica(1, 1)])),
        one(Type::Insert, group(0, vec![replica(1, 1)])),
        one(Type::Delete, group(77, Vec::new())),
        one(Type::Insert, session(5, vec![replica(3, 0)], 0)),
        one(
            Type::Insert,
            session(6, vec![replica(2, 3), replica(4, 4)], 0),
        ),
        one(Type::Insert, session(7, vec![replica(2, 3)], 50)),
        one(Type::Insert, session(7, vec![replica(2, 3)], 0)),
        one(
            Type::Insert,
            session(8, vec![replica(2, 0), replica(4, 0)], 0),
        ),
        one(
            Type::Insert,
            session(9, vec![replica(2, 0), replica(2, 1)], 0),
        ),
        one(Type::Insert, session(0, vec![replica(2, 3)], 0)),
        one(Type::Delete, session(44, Vec::new(), 0)),
        read(all_groups),
        read(all_sessions),
        read(group(2, Vec::new())),
        read(group(88, Vec::new())),
    ]
}

/// Meters whose buckets are not filled again during a run: what colour a
/// packet gets depends on no clock.
fn meters(info: &P4Info, steps: &mut Vec<Step>) {
    let config = p4::MeterConfig {
        cir: 0,
        cburst: 3,
        pir: 0,
        pburst: 6,
        ..p4::MeterConfig::default()
    };
    for meter in &info.meters {
        let meter_id = id(meter.preamble.as_ref());
        let of_bytes = meter.spec.as_ref().is_some_and(|s| {
            s.unit == p4runtime_proto::p4::config::v1::meter_spec::Unit::Bytes as i32
        });
        let scale = if of_bytes { 100 } else { 1 };
        for index in [1, 2] {
            let entry = p4::MeterEntry {
                meter_id,
                index: Some(p4::Index { index }),
                config: Some(p4::MeterConfig {
                    cburst: config.cburst * scale,
                    pburst: config.pburst * scale,
                    ..config
                }),
                ..p4::MeterEntry::default()
            };
            steps.push(one(Type::Modify, Entity::MeterEntry(entry)));
            steps.push(read(Entity::MeterEntry(p4::MeterEntry {
                config: None,
                ..entry
            })));
        }
        // Beyond the array, and an insert where there is only a change.
        let mut entry = p4::MeterEntry {
            meter_id,
            index: Some(p4::Index { index: 1 << 20 }),
            config: Some(config),
            ..p4::MeterEntry::default()
        };
        steps.push(one(Type::Modify, Entity::MeterEntry(entry)));
        entry.index = Some(p4::Index { index: 0 });
        steps.push(one(Type::Insert, Entity::MeterEntry(entry)));
        entry.config = None;
        steps.push(one(Type::Modify, Entity::MeterEntry(entry)));
    }
    for counter in &info.counters {
        let mut entry = p4::CounterEntry {
            counter_id: id(counter.preamble.as_ref()),
            index: Some(p4::Index { index: 3 }),
            data: Some(p4::CounterData {
                byte_count: 1000,
                packet_count: 10,
            }),
        };
        steps.push(one(Type::Modify, Entity::CounterEntry(entry)));
        steps.push(one(Type::Insert, Entity::CounterEntry(entry)));
        entry.index = Some(p4::Index { index: 1 << 20 });
        steps.push(one(Type::Modify, Entity::CounterEntry(entry)));
        steps.push(read(Entity::CounterEntry(entry)));
    }
    for register in &info.registers {
        steps.push(read(Entity::RegisterEntry(p4::RegisterEntry {
            register_id: id(register.preamble.as_ref()),
            ..p4::RegisterEntry::default()
        })));
    }
    for digest in &info.digests {
        let entry = |max_list_size| {
            Entity::DigestEntry(p4::DigestEntry {
                digest_id: id(digest.preamble.as_ref()),
                config: Some(p4::digest_entry::Config {
                    max_timeout_ns: 0,
                    max_list_size,
                    ack_timeout_ns: 0,
                }),
            })
        };
        steps.push(one(Type::Insert, entry(1)));
        steps.push(one(Type::Insert, entry(1)));
        steps.push(read(entry(0)));
    }
}

/// Packets from the controller, for a program with a `packet_out` header.
fn packet_outs(generator: &mut Generator<'_>, info: &P4Info, steps: &mut Vec<Step>) {
    let Some(header) = info
        .controller_packet_metadata
        .iter()
        .find(|h| h.preamble.as_ref().is_some_and(|p| p.name == "packet_out"))
    else {
        return;
    };
    for _ in 0..4 {
        let (port, payload) = generator.packet();
        let metadata = header
            .metadata
            .iter()
            .map(|field| p4::PacketMetadata {
                metadata_id: field.id,
                value: p4runtime_proto::bytestring::encode(match field.bitwidth {
                    9 => u128::from(port),
                    bits => u128::from(generator.random.word()) & ((1 << bits.min(1)) - 1),
                }),
            })
            .collect();
        steps.push(Step::PacketOut { payload, metadata });
    }
}
