//! softswitch and bmv2's `simple_switch_grpc` side by side: the same requests
//! and packets for both, and what comes of them compared.
//!
//! Each program gets a fresh pair of switches, each in a network namespace of
//! its own ([`side`]). [`cases`] has the programs, [`plan`] makes the steps
//! from P4Info and chance ([`generate`], [`random`]), [`explain`] knows the
//! differences that are meant.

pub mod canonical;
pub mod cases;
mod controllers;
pub mod explain;
mod frames;
pub mod generate;
mod pipeline;
pub mod plan;
mod process;
mod profiles;
pub mod random;
mod reads;
pub mod side;
pub mod step;
mod transcripts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use p4runtime_proto::p4::v1::{Update, WriteRequest, update::Type};
use serde::Serialize;

use cases::{Case, Deeds};
use plan::Size;
use side::{Kind, Launch, Side};
use step::{Outcome, Step, describe};

/// Differences of one program after which it is left.
const MOST_DIFFERENCES: usize = 200;

/// Steps before a switch's end in which it may already be ending.
const LAST_STEPS: usize = 3;

/// Stands for the explanation of a step on which both agree.
const EQUAL: &str = "equal";

/// Something that the two switches did not do alike.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// The program.
    pub program: String,
    /// The number of the step.
    pub step: usize,
    /// What was asked.
    pub what: String,
    /// What softswitch did.
    pub softswitch: Outcome,
    /// What bmv2 did.
    pub bmv2: Outcome,
    /// The id of its explanation, if there is one.
    pub explanation: Option<&'static str>,
}

/// What came of one program.
#[derive(Debug, Default, Serialize)]
pub struct ProgramResult {
    /// Steps taken.
    pub steps: usize,
    /// Steps that were packets.
    pub packets: usize,
    /// Frames and messages that came out of softswitch.
    pub out: usize,
    /// Differences with an explanation, by its id.
    pub explained: BTreeMap<&'static str, usize>,
    /// Differences without.
    pub unexplained: usize,
    /// Why the program could not be compared to the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// What came of all programs.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// By program.
    pub programs: BTreeMap<String, ProgramResult>,
    /// All differences.
    pub differences: Vec<Difference>,
}

/// How both are started.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Ours.
    pub softswitch: Launch,
    /// bmv2.
    pub bmv2: Launch,
    /// Whether steps without a difference are reported, too.
    pub all: bool,
}

/// Compares the two on one program and adds to the report.
///
/// # Errors
/// If the report can't be made at all; what happens to a switch is in it.
pub fn compare(pair: &Pair, case: &Case, seed: u64, size: Size, report: &mut Report) -> Result<()> {
    let steps = match &case.deeds {
        Deeds::ByChance(first) => plan::steps(case, first.clone(), seed, size),
        Deeds::Written(steps) | Deeds::FromNothing(steps) => steps.clone(),
    };
    let mut result = ProgramResult::default();
    if let Err(stop) = run(pair, case, &steps, &mut result, &mut report.differences) {
        result.stopped = Some(format!("{:#}", stop.error));
        match explain::explain_end(stop.of, &case.name, result.steps) {
            Some(id) => {
                *result.explained.entry(id).or_default() += 1;
                lost_in_end(id, &case.name, &mut result, &mut report.differences);
            }
            None => result.unexplained += 1,
        }
    }
    report.programs.insert(case.name.clone(), result);
    Ok(())
}

/// What a dying switch did not send any more has the end's explanation: the
/// process may need longer to end than the driver listens.
fn lost_in_end(
    id: &'static str,
    program: &str,
    result: &mut ProgramResult,
    differences: &mut [Difference],
) {
    let last = result.steps;
    for d in differences.iter_mut().rev() {
        if d.program != program || d.step + LAST_STEPS < last {
            return;
        }
        if d.explanation.is_none() && explain::is_loss(&d.softswitch, &d.bmv2) {
            d.explanation = Some(id);
            result.unexplained -= 1;
            *result.explained.entry(id).or_default() += 1;
        }
    }
}

/// Why a comparison ended early.
struct Stop {
    /// Whose doing it was, if it was one side's.
    of: Option<Kind>,
    error: anyhow::Error,
}

impl Stop {
    fn by(of: Kind) -> impl Fn(anyhow::Error) -> Self {
        move |error| Self {
            of: Some(of),
            error,
        }
    }
}

fn run(
    pair: &Pair,
    case: &Case,
    steps: &[Step],
    result: &mut ProgramResult,
    differences: &mut Vec<Difference>,
) -> Result<(), Stop> {
    let (by_ours, by_bmv2) = (Stop::by(Kind::Softswitch), Stop::by(Kind::Bmv2));
    let softswitch = Remote::start(pair.softswitch.clone(), case);
    let bmv2 = Remote::start(pair.bmv2.clone(), case);
    let both = (softswitch.ready(), bmv2.ready());
    both.0.map_err(&by_ours)?;
    both.1.map_err(&by_bmv2)?;
    let mut facts = explain::Facts::of(&case.name, &case.info, &case.json);
    let mut found = 0;
    for (number, step) in steps.iter().enumerate() {
        let order = || Order::Run(step.clone());
        softswitch.ask(order()).map_err(&by_ours)?;
        bmv2.ask(order()).map_err(&by_bmv2)?;
        let (ours, theirs) = (softswitch.answer(), bmv2.answer());
        let mut ours = ours.map_err(&by_ours)?;
        let mut theirs = theirs.map_err(&by_bmv2)?;
        let is_packet = !step.is_call();
        if ours != theirs && is_packet {
            // One of them may only be slower.
            softswitch.ask(Order::Late).map_err(&by_ours)?;
            bmv2.ask(Order::Late).map_err(&by_bmv2)?;
            ours.merge(softswitch.answer().map_err(&by_ours)?);
            theirs.merge(bmv2.answer().map_err(&by_bmv2)?);
            if !matches!(step, Step::Wait(_)) {
                for outcome in [&mut ours, &mut theirs] {
                    let idle = |message: &String| message.starts_with(canonical::IDLE);
                    outcome.messages.retain(|message| !idle(message));
                }
            }
            for outcome in [&mut ours, &mut theirs] {
                match step {
                    Step::Wait(_) => canonical::dedup_idle(&mut outcome.messages),
                    // How often the same is said depends on timing.
                    Step::Burst { .. } => outcome.messages.dedup(),
                    _ => {}
                }
            }
        }
        let explanation = match ours == theirs {
            true => Some(EQUAL),
            false => explain::explain(&facts, step, &ours, &theirs),
        };
        facts.observe(step, &ours, &theirs);
        if let Some(undo) = undo(step, &ours, &theirs) {
            // So that one difference does not become many.
            let mut outcomes = Vec::new();
            for (side, by) in [(&softswitch, &by_ours), (&bmv2, &by_bmv2)] {
                side.ask(Order::Run(undo.clone())).map_err(by)?;
                outcomes.push(side.answer().map_err(by)?);
            }
            if let [ours, theirs] = outcomes.as_slice() {
                facts.observe(&undo, ours, theirs);
            }
        }
        result.steps += 1;
        result.packets += usize::from(is_packet);
        result.out += ours.frames.values().map(Vec::len).sum::<usize>() + ours.messages.len();
        match explanation {
            Some(EQUAL) if !pair.all => continue,
            Some(EQUAL) => {}
            Some(id) => *result.explained.entry(id).or_default() += 1,
            None => result.unexplained += 1,
        }
        differences.push(Difference {
            program: case.name.clone(),
            step: number,
            what: describe(step),
            softswitch: ours,
            bmv2: theirs,
            explanation,
        });
        found += usize::from(explanation.is_none());
        if found >= MOST_DIFFERENCES {
            return Err(Stop {
                of: None,
                error: anyhow::anyhow!("left after {found} differences"),
            });
        }
    }
    Ok(())
}

/// Removes what updates that one side took, and the other did not, may have
/// inserted.
fn undo(step: &Step, ours: &Outcome, theirs: &Outcome) -> Option<Step> {
    let updates = step.updates();
    let (ours, theirs) = (explain::each_status(ours), explain::each_status(theirs));
    // A call that succeeded has one status for all.
    let status = |all: &[String], at: usize| all.get(if all.len() == 1 { 0 } else { at }).cloned();
    let mut deletes = Vec::new();
    for (at, update) in updates.iter().enumerate() {
        let (a, b) = (status(&ours, at), status(&theirs, at));
        let taken = |status: &Option<String>| status.as_deref() == Some("OK");
        if taken(&a) != taken(&b) {
            deletes.push(Update {
                r#type: Type::Delete as i32,
                entity: update.entity.clone(),
            });
        }
    }
    if deletes.is_empty() {
        return None;
    }
    Some(match step {
        // By the same controller.
        Step::WriteAs(request) => Step::WriteAs(Box::new(WriteRequest {
            updates: deletes,
            atomicity: 0,
            ..(**request).clone()
        })),
        _ => Step::Write(deletes),
    })
}

enum Order {
    Run(Step),
    Late,
}

/// A switch with the thread that owns its namespace.
struct Remote {
    kind: Kind,
    orders: Option<Sender<Order>>,
    answers: Receiver<Result<Outcome>>,
    thread: Option<JoinHandle<()>>,
}

impl Remote {
    fn start(launch: Launch, case: &Case) -> Self {
        let (orders, to_do) = channel();
        let (done, answers) = channel();
        let kind = launch.kind;
        let case = case.clone();
        let thread = std::thread::spawn(move || {
            let mut side = match Side::start(&launch, &case) {
                Ok(side) => side,
                Err(error) => {
                    // Nobody may be waiting any more.
                    let _ = done.send(Err(error));
                    return;
                }
            };
            if done.send(Ok(Outcome::default())).is_err() {
                return;
            }
            while let Ok(order) = to_do.recv() {
                let answer = match order {
                    Order::Run(step) => side
                        .run(&step)
                        .with_context(|| format!("{kind}: {}", describe(&step))),
                    Order::Late => side.late(),
                };
                if done.send(answer).is_err() {
                    return;
                }
            }
        });
        Self {
            kind,
            orders: Some(orders),
            answers,
            thread: Some(thread),
        }
    }

    fn ready(&self) -> Result<()> {
        self.answer().map(|_| ())
    }

    fn ask(&self, order: Order) -> Result<()> {
        self.orders
            .as_ref()
            .and_then(|orders| orders.send(order).ok())
            .with_context(|| format!("{} is gone", self.kind))
    }

    fn answer(&self) -> Result<Outcome> {
        self.answers
            .recv()
            .with_context(|| format!("{} is gone", self.kind))?
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it has been printed.
            let _ = thread.join();
        }
    }
}

/// Why nothing can be compared here, if that is so.
pub fn missing(bmv2: Option<&Path>) -> Option<String> {
    if bmv2.is_none() {
        return Some("simple_switch_grpc is not on the PATH: install bmv2 to compare".into());
    }
    hw_tests::netns::missing()
}
