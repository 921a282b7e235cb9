//! The programs that are compared: ours, and p4c's from a checkout.

use std::path::Path;

use anyhow::{Context, Result};
use hw_tests::frame::{self, Ip};
use hw_tests::scene;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::{entry, p4info};

use super::frames;
use super::generate::update;
use super::side::PORTS;
use super::step::Step;
use super::transcripts;
use crate::compiler;
use crate::samples;

/// A program and what it is fed.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its P4Info.
    pub info: P4Info,
    /// Its JSON.
    pub json: Vec<u8>,
    /// Packets that it understands, and the ports they come from.
    pub seeds: Vec<(u16, Vec<u8>)>,
    /// What is done.
    pub deeds: Deeds,
}

/// What is done to both switches.
#[derive(Debug, Clone)]
pub enum Deeds {
    /// What chance decides, after these steps.
    ByChance(Vec<Step>),
    /// These steps, beginning with the program.
    Written(Vec<Step>),
    /// These steps, beginning without a program.
    FromNothing(Vec<Step>),
}

impl Case {
    /// The configuration with which the program is pushed.
    pub fn config(&self) -> ForwardingPipelineConfig {
        ForwardingPipelineConfig {
            p4info: Some(self.info.clone()),
            p4_device_config: self.json.clone(),
            cookie: None,
        }
    }

    /// Whether the switches have the program at the start.
    pub fn is_loaded(&self) -> bool {
        !matches!(self.deeds, Deeds::FromNothing(_))
    }
}

/// The P4Info and JSON of one of our programs.
macro_rules! built {
    ($name:literal) => {
        (
            include_str!(concat!("../../programs/build/", $name, ".p4info.txtpb")),
            &include_bytes!(concat!("../../programs/build/", $name, ".json"))[..],
        )
    };
}

/// The programs with which softswitch's own tests go through v1model and
/// P4Runtime: name, P4Info, JSON, and the STF test if there is one.
type Tested = (&'static str, &'static str, &'static str, &'static str);

macro_rules! tested {
    ($($name:literal),*) => {
        [$((
            $name,
            include_str!(concat!("../../../switch/testdata/v1model/", $name, ".p4info.txtpb")),
            include_str!(concat!("../../../switch/testdata/v1model/", $name, ".json")),
            include_str!(concat!("../../../switch/testdata/v1model/", $name, ".stf")),
        )),*]
    };
}

/// Those that bmv2 loads and survives.
const V1MODEL: [Tested; 11] = tested![
    "again",
    "arithmetic",
    "checksums",
    "control",
    "errors",
    "loops",
    "metadata_headers",
    "ranges",
    "records",
    "unaligned",
    "unions"
];

/// Of these, the one through which many packets never end. It gets only those
/// of its test.
const ENDLESS: &str = "again";

/// The P4Info and JSON of a program for tests of the P4Runtime server.
macro_rules! served {
    ($name:literal) => {
        (
            include_str!(concat!(
                "../../../switch/testdata/p4rt/",
                $name,
                ".p4info.txtpb"
            )),
            &include_bytes!(concat!("../../../switch/testdata/p4rt/", $name, ".json"))[..],
        )
    };
}

/// Our programs.
///
/// # Errors
/// If one of them can't be read.
pub fn ours() -> Result<Vec<Case>> {
    let small = |name: &str, (info, json): (&str, &[u8]), seeds: Vec<Vec<u8>>| -> Result<Case> {
        Ok(Case {
            name: name.into(),
            info: p4info::from_text(info).with_context(|| format!("P4Info of {name}"))?,
            json: json.to_vec(),
            seeds: seeds.into_iter().map(|frame| (1, frame)).collect(),
            deeds: Deeds::ByChance(Vec::new()),
        })
    };
    let mut cases = vec![
        gateway()?,
        small("clients", built!("clients"), frames::plain()?)?,
        small("parsing", built!("parsing"), frames::parsing()?)?,
        small("externs", built!("externs"), frames::externs())?,
        small("wide", built!("wide"), frames::wide())?,
        small("stacks", built!("stacks"), frames::stacks())?,
        small("copies", built!("copies"), frames::copies())?,
        small("keys", built!("keys"), frames::keys())?,
    ];
    for (name, info, json, test) in V1MODEL {
        let program = (info, json.as_bytes());
        let mut case = small(&format!("v1model/{name}"), program, Vec::new())?;
        case.seeds = packets_of(test);
        if name == ENDLESS {
            let packet = |(port, frame)| Step::Packet { port, frame };
            case.deeds = Deeds::Written(case.seeds.iter().cloned().map(packet).collect());
        }
        cases.push(case);
    }
    cases.push(small("p4rt/p4rt", served!("p4rt"), frames::plain()?)?);
    cases.push(small("p4rt/next", served!("next"), frames::plain()?)?);
    cases.extend(transcripts::all(&cases)?);
    Ok(cases)
}

/// Our gateway with the configuration of the packet suite.
fn gateway() -> Result<Case> {
    let first = scene::entries()
        .into_iter()
        .map(|entry| {
            let entity = entry::insert(entry.to_proto()).entity;
            Step::Write(
                entity
                    .and_then(|e| e.entity)
                    .map(|e| update(Type::Insert, e))
                    .into_iter()
                    .collect(),
            )
        })
        .collect();
    let to = |port: u16, from, packet: &Ip| -> Result<(u16, Vec<u8>)> {
        Ok((port, frame::ipv4(scene::port_mac(port), from, packet)?))
    };
    let mut seeds = Vec::new();
    for (port, flags) in [(80, 0x02), (80, 0x10), (8000, 0x02), (81, 0x02)] {
        let syn = Ip::tcp((scene::CLIENT, 40_000), (scene::VIP, port), flags);
        seeds.push(to(scene::UPLINK, scene::CLIENT_MAC, &syn)?);
    }
    let dns = Ip::udp((scene::CLIENT, 40_000), (scene::VIP, 53));
    seeds.push(to(scene::UPLINK, scene::CLIENT_MAC, &dns)?);
    let back = Ip::tcp((scene::SERVER, 8080), (scene::LIP, 20_000), 0x12);
    seeds.push(to(scene::SERVERS, scene::SERVER_MAC, &back)?);
    let ping = Ip::echo(scene::CLIENT, scene::VIP);
    seeds.push(to(scene::UPLINK, scene::CLIENT_MAC, &ping)?);
    let transit = Ip::udp((scene::CLIENT, 5), (scene::SERVER, 7));
    seeds.push(to(scene::UPLINK, scene::CLIENT_MAC, &transit)?);
    let (port, untagged) = to(scene::TAGGED, scene::TAGGED_MAC, &back)?;
    seeds.push((port, frame::tagged(&untagged, 0x8100, scene::VLAN)));
    Ok(Case {
        name: "gateway".into(),
        info: p4_contract::p4info().context("P4Info of the gateway")?,
        json: p4_contract::PIPELINE_JSON.to_vec(),
        seeds,
        deeds: Deeds::ByChance(first),
    })
}

/// The v1model samples of a checkout of p4c, compiled; those that `p4c`
/// refuses are left out.
///
/// # Errors
/// If there are none, or the compiler can't be started.
pub fn of_p4c(checkout: &Path, only: &str) -> Result<Vec<Case>> {
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    let mut cases = Vec::new();
    for sample in samples::find(checkout)? {
        if sample.not_applicable.is_some() || !sample.name.contains(only) {
            continue;
        }
        let Ok(compiled) = compiler::compile(&sample.program, folder.path(), true)? else {
            continue;
        };
        let test = std::fs::read_to_string(&sample.test)
            .with_context(|| format!("can't read {}", sample.test.display()))?;
        let Some(info) = &compiled.p4info else {
            continue;
        };
        cases.push(Case {
            info: p4info::read(info)?,
            json: std::fs::read(&compiled.json)?,
            seeds: packets_of(&test),
            deeds: Deeds::ByChance(Vec::new()),
            name: format!("p4c/{}", sample.name),
        });
    }
    Ok(cases)
}

/// The packets that an STF test sends, long enough for an interface.
fn packets_of(test: &str) -> Vec<(u16, Vec<u8>)> {
    let mut packets = Vec::new();
    for line in test.lines() {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        if words.next() != Some("packet") {
            continue;
        }
        let Some(port) = words.next().and_then(|word| word.parse().ok()) else {
            continue;
        };
        let port = if PORTS.contains(&port) { port } else { 1 };
        let digits: Vec<u8> = words
            .flat_map(str::chars)
            .filter_map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
            .collect();
        let mut packet: Vec<u8> = digits
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        if packet.len() < 14 {
            packet.resize(14, 0);
        }
        packets.push((port, packet));
    }
    if packets.is_empty() {
        packets.push((1, vec![0; 64]));
    }
    packets
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn packets_of_a_test_are_found() {
        let test = "# packet 1 ff\nadd t k:1 a()\npacket 0 00112233 445566778899aabbccddee # one\npacket 1 0a\n";
        let mut short = vec![0x0a];
        short.resize(14, 0);
        assert_eq!(
            packets_of(test),
            [
                (
                    0,
                    vec![
                        0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
                        0xdd, 0xee
                    ]
                ),
                (1, short)
            ]
        );
    }

    #[test]
    fn our_programs_are_readable() {
        let cases = ours().unwrap();
        let names = cases.iter().map(|case| case.name.as_str());
        let chance = names.clone().filter(|name| !name.contains('/'));
        let expected = [
            "gateway", "clients", "parsing", "externs", "wide", "stacks", "copies", "keys",
        ];
        assert_eq!(chance.collect::<Vec<_>>(), expected);
        let distinct: BTreeSet<&str> = names.collect();
        assert_eq!(distinct.len(), cases.len());
    }
}
