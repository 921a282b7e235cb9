//! The packet suite: the gateway's pipeline on a P4Runtime switch, packet by
//! packet.
//!
//! `SLUICE_TARGET` chooses the switch: `softswitch` (default) or `bmv2`. An
//! argument chooses the cases whose names contain it. The suite is a program
//! of its own rather than a set of `#[test]` functions because all cases share
//! one switch, and because what was skipped, and why, must not be hidden.

mod cases;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hw_tests::books;
use hw_tests::fixture::Fixture;
use hw_tests::rig::Rig;
use hw_tests::target::Target;
use hw_tests::{netns, scene};

/// A case: its name, and what it does.
type Case = (&'static str, fn(&mut Fixture) -> Result<()>);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all: Vec<Case> = cases::all();
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in all {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let chosen = all
        .into_iter()
        .filter(|(name, _)| filter.is_none_or(|part| name.contains(part.as_str())))
        .collect();
    match run(chosen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("packet suite: FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cases: Vec<Case>) -> Result<()> {
    let target = Target::chosen()?;
    let missing = netns::missing().or_else(|| target.program().err().map(|e| e.to_string()));
    if let Some(reason) = missing {
        println!("packet suite on {target}: SKIPPED: {reason}");
        return Ok(());
    }
    println!(
        "packet suite on {target} ({}): {} cases",
        target.program()?.display(),
        cases.len()
    );
    let start = Instant::now();
    let rig = Rig::start(target, "suite", &scene::PORTS, scene::MTU)?;
    rig.controller
        .insert(&scene::entries())
        .context("configuration")?;
    let mut fixture = Fixture::new(rig);

    let mut failed = Vec::new();
    for (name, case) in cases {
        let result = one(&mut fixture, case);
        match &result {
            Ok(()) => println!("test {name} ... ok"),
            Err(error) => println!("test {name} ... FAILED\n  {error:#}"),
        }
        if result.is_err() {
            failed.push(name);
        }
        // Without the switch the other cases would only repeat this.
        fixture.rig.process.check()?;
    }
    if let Err(error) = afterwards(&mut fixture) {
        println!("test books_and_tables_afterwards ... FAILED\n  {error:#}");
        failed.push("books_and_tables_afterwards");
    } else {
        println!("test books_and_tables_afterwards ... ok");
    }
    let seconds = start.elapsed().as_secs_f64();
    if failed.is_empty() {
        println!("packet suite on {target}: ok in {seconds:.1} s");
        return Ok(());
    }
    bail!("on {target}, {} cases: {}", failed.len(), failed.join(", "))
}

fn one(fixture: &mut Fixture, case: fn(&mut Fixture) -> Result<()>) -> Result<()> {
    let result = catch_unwind(AssertUnwindSafe(|| case(fixture))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        bail!("panicked: {}", text.unwrap_or("without words"))
    });
    let undone = fixture.undo();
    // What a failed case left on the wires is not the next one's.
    let silent = fixture.expect_silence(Duration::ZERO);
    if result.is_err() {
        while fixture.expect_silence(Duration::from_millis(50)).is_err() {}
    }
    result.and(undone).and(silent)
}

/// What must hold of the whole run: balanced books, nothing counted that no
/// case looks at, and the tables as they were before the first case.
fn afterwards(fixture: &mut Fixture) -> Result<()> {
    let rig = &fixture.rig;
    let all = rig
        .controller
        .wait(books::read_all(&rig.controller.client))?;
    books::balance(&all)?;
    let watched = fixture.counts()?;
    for (cell, count) in &all {
        ensure!(
            watched.get(cell) == Some(count),
            "{cell} counted {count}, which no case expects"
        );
    }
    cases::control::tables_hold_the_configuration(fixture)
}
