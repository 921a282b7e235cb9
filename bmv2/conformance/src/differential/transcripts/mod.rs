//! Steps that somebody wrote, for what chance does not come upon: pipelines
//! that replace each other, several controllers, acknowledgements, links that
//! go down.

use anyhow::{Context, Result};
use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::{P4Info, Preamble};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type;

use super::cases::{Case, Deeds};
use super::generate::{id, update};
use super::step::Step;

mod atomicity;
mod controllers;
mod digests;
mod links;
mod pipelines;
mod unsupported;

/// All of them, made of our programs.
///
/// # Errors
/// If a program lacks what its transcript is about.
pub(super) fn all(programs: &[Case]) -> Result<Vec<Case>> {
    let find = |name: &str| {
        let found = programs.iter().find(|case| case.name == name);
        found.map(|case| Program { case })
    };
    let program = |name: &str| find(name).with_context(|| format!("no program {name}"));
    let clients = program("clients")?;
    let mut cases = pipelines::all(&clients, &program("parsing")?)?;
    cases.extend(controllers::all(&clients)?);
    cases.extend(atomicity::all(&clients)?);
    cases.extend(digests::all(&clients)?);
    cases.extend(links::all(&clients)?);
    cases.extend(unsupported::all(&program("stacks")?)?);
    Ok(cases)
}

/// A program of ours, by the names in it.
struct Program<'c> {
    case: &'c Case,
}

impl Program<'_> {
    fn info(&self) -> &P4Info {
        &self.case.info
    }

    /// A case with this program.
    fn case(&self, name: &str, steps: Vec<Step>) -> Case {
        Case {
            name: format!("transcript/{name}"),
            deeds: Deeds::Written(steps),
            ..self.case.clone()
        }
    }

    /// A case with this program that begins without it.
    fn bare_case(&self, name: &str, steps: Vec<Step>) -> Case {
        Case {
            deeds: Deeds::FromNothing(steps),
            ..self.case(name, Vec::new())
        }
    }

    fn table(&self, name: &str) -> Result<u32> {
        find(self.info().tables.iter().map(|t| t.preamble.as_ref()), name)
    }

    fn action(&self, name: &str) -> Result<u32> {
        let actions = self.info().actions.iter();
        find(actions.map(|a| a.preamble.as_ref()), name)
    }

    fn digest(&self) -> Result<u32> {
        let digest = self.info().digests.first().context("no digest")?;
        Ok(id(digest.preamble.as_ref()))
    }

    /// An entry of a table with one exact key field; the action's parameters
    /// are in order.
    fn entry(
        &self,
        table: &str,
        key: u128,
        action: &str,
        params: &[u128],
    ) -> Result<p4::TableEntry> {
        Ok(p4::TableEntry {
            table_id: self.table(table)?,
            r#match: vec![entry::exact(1, key)],
            action: Some(entry::direct_action(
                self.action(action)?,
                (1..)
                    .zip(params)
                    .map(|(n, v)| entry::param(n, *v))
                    .collect(),
            )),
            ..p4::TableEntry::default()
        })
    }

    /// The packets that the program understands.
    fn packets(&self) -> Vec<Step> {
        let packet = |(port, frame): &(u16, Vec<u8>)| Step::Packet {
            port: *port,
            frame: frame.clone(),
        };
        self.case.seeds.iter().map(packet).collect()
    }
}

/// Finds what is called so, in the control block that it is in or another.
fn find<'p>(preambles: impl Iterator<Item = Option<&'p Preamble>>, name: &str) -> Result<u32> {
    let mut named = preambles.flatten();
    let found = named.find(|p| p.name.rsplit('.').next() == Some(name));
    found.map(|p| p.id).with_context(|| format!("no {name}"))
}

fn insert(entity: Entity) -> Step {
    Step::Write(vec![update(Type::Insert, entity)])
}

fn modify(entity: Entity) -> Step {
    Step::Write(vec![update(Type::Modify, entity)])
}

fn delete(entity: Entity) -> Step {
    Step::Write(vec![update(Type::Delete, entity)])
}
