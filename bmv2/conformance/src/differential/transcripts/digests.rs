//! Lists of digests: how long they wait, and what is suppressed until they are
//! acknowledged.

use std::time::Duration;

use anyhow::{Context, Result};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::digest_entry::Config;
use p4runtime_proto::p4::v1::entity::Entity;

use super::{Program, delete, insert, modify};
use crate::differential::cases::Case;
use crate::differential::reads::read;
use crate::differential::step::{Acknowledge, Step};

/// Longer than any of these takes: bmv2's server looks at its timeouts at
/// intervals, and acts when it sees one for the second time.
const LONG: Duration = Duration::from_millis(1_200);

/// Long enough for what is sent at once.
const SOON: Duration = Duration::from_millis(200);

/// A timeout within [`LONG`], and one beyond the whole transcript, in ns.
const SHORT_NS: i64 = 200_000_000;
const ENDLESS_NS: i64 = 600_000_000_000;

pub(super) fn all(program: &Program<'_>) -> Result<Vec<Case>> {
    Ok(vec![
        lists(program)?,
        acknowledged(program)?,
        entries(program)?,
    ])
}

fn config(max_timeout_ns: i64, max_list_size: i32, ack_timeout_ns: i64) -> Config {
    Config {
        max_timeout_ns,
        max_list_size,
        ack_timeout_ns,
    }
}

/// Where a digest comes from.
struct Source<'p> {
    digest_id: u32,
    /// A packet whose source is reported.
    frame: &'p [u8],
}

impl<'p> Source<'p> {
    fn of(program: &'p Program<'_>) -> Result<Self> {
        let seeds = program.case.seeds.iter();
        let longest = seeds
            .map(|(_, frame)| frame.as_slice())
            .max_by_key(|f| f.len());
        Ok(Self {
            digest_id: program.digest()?,
            frame: longest.context("no packet")?,
        })
    }

    fn entry(&self, config: Option<Config>) -> Entity {
        Entity::DigestEntry(p4::DigestEntry {
            digest_id: self.digest_id,
            config,
        })
    }

    /// Packets of these hosts, and what comes of them within a time.
    fn seen(&self, hosts: &[u8], time: Duration) -> [Step; 2] {
        let frame = |host: &u8| {
            let mut frame = self.frame.to_vec();
            // The source is in bytes 6 to 11.
            frame.splice(6..12, [2, 0, 0, 0, 1, *host]);
            frame
        };
        let frames = hosts.iter().map(frame).collect();
        [Step::Unheard { port: 1, frames }, Step::Wait(time)]
    }
}

/// Lists of several lengths and delays, nothing suppressed.
fn lists(program: &Program<'_>) -> Result<Case> {
    let source = Source::of(program)?;
    let mut steps = Vec::new();
    for (timeout, size) in [
        (0, 1),
        (SHORT_NS, 1),
        (SHORT_NS, 3),
        (SHORT_NS, 100),
        (SHORT_NS, 0),
    ] {
        steps.push(insert(source.entry(Some(config(timeout, size, 0)))));
        for hosts in [
            &[1][..],
            &[1],
            &[1, 2],
            &[3, 4, 5],
            &[6, 7, 8, 9, 10, 11, 12],
        ] {
            steps.extend(source.seen(hosts, LONG));
        }
        steps.push(delete(source.entry(None)));
        steps.extend(source.seen(&[1, 2, 3], LONG));
    }
    Ok(program.case("digest-lists", steps))
}

/// What waits for its acknowledgement is not reported again.
fn acknowledged(program: &Program<'_>) -> Result<Case> {
    let source = Source::of(program)?;
    let last = Step::Acknowledge(Acknowledge::Last(source.digest_id));
    let mut steps = vec![Step::Acknowledge(Acknowledge::Never)];
    // Never in time.
    steps.push(insert(source.entry(Some(config(0, 1, ENDLESS_NS)))));
    for host in [1, 1, 2, 2, 1] {
        steps.extend(source.seen(&[host], SOON));
    }
    steps.push(last.clone());
    for host in [1, 2, 2] {
        steps.extend(source.seen(&[host], SOON));
    }
    // A change of the configuration.
    steps.push(modify(source.entry(Some(config(0, 1, SHORT_NS)))));
    steps.extend(source.seen(&[3], LONG));
    steps.extend(source.seen(&[3], LONG));
    // A new one, twice: it knows nothing of what the one before waits for.
    for _ in 0..2 {
        steps.push(delete(source.entry(None)));
        steps.push(insert(source.entry(Some(config(0, 1, ENDLESS_NS)))));
        for host in [1, 2, 1] {
            steps.extend(source.seen(&[host], SOON));
        }
    }
    // Acknowledged as they come.
    steps.push(last);
    steps.push(Step::Acknowledge(Acknowledge::AtOnce));
    for host in [4, 4, 4] {
        steps.extend(source.seen(&[host], SOON));
    }
    // Of a list, all at once.
    steps.push(Step::Acknowledge(Acknowledge::Never));
    steps.push(delete(source.entry(None)));
    steps.push(insert(source.entry(Some(config(SHORT_NS, 3, ENDLESS_NS)))));
    steps.extend(source.seen(&[1, 2, 3], LONG));
    steps.extend(source.seen(&[2, 3, 4], LONG));
    steps.push(Step::Acknowledge(Acknowledge::Last(source.digest_id)));
    steps.extend(source.seen(&[3, 4], LONG));
    Ok(program.case("digest-acks", steps))
}

/// Entries for digests, right and wrong.
fn entries(program: &Program<'_>) -> Result<Case> {
    let source = Source::of(program)?;
    let unknown = Entity::DigestEntry(p4::DigestEntry {
        digest_id: 0x7fff_ffff,
        config: Some(config(0, 1, 0)),
    });
    let asked = source.entry(None);
    let mut steps = vec![read(asked.clone()), read(unknown.clone()), insert(unknown)];
    steps.extend([modify(asked.clone()), delete(asked.clone())]);
    for given in [
        None,
        Some(config(0, 0, 0)),
        Some(config(1, 1, 1)),
        Some(config(-1, 1, 0)),
        Some(config(0, -1, 0)),
        Some(config(0, 1, -1)),
        Some(config(0, i32::MAX, 0)),
    ] {
        let entry = source.entry(given);
        steps.extend([insert(entry.clone()), read(asked.clone()), insert(entry)]);
        steps.extend([
            modify(source.entry(Some(config(0, 1, 0)))),
            read(asked.clone()),
        ]);
        steps.extend([delete(asked.clone()), read(asked.clone())]);
    }
    Ok(program.case("digest-entries", steps))
}
