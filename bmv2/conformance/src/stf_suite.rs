//! p4c's STF tests, each compiled and run in a process of its own: a test that
//! ends badly or does not end then costs no other one its result.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::child;
use crate::compiler;
use crate::each::each;
use crate::samples::{self, Sample};

/// How long the packets of one test may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// How one test went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result", content = "reason")]
pub enum Verdict {
    /// Every packet as expected.
    Passed,
    /// Not so; with the first thing that went wrong.
    Failed(String),
    /// There is nothing that softswitch could run.
    NotApplicable(String),
}

/// What all tests gave.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that are not for v1model.
    pub not_applicable: usize,
    /// By the name of the program.
    pub tests: BTreeMap<String, Verdict>,
}

/// Runs the tests of a checkout whose name contains `only`. `run_one` is the
/// program that, called with `stf-one JSON TEST`, runs a single test.
///
/// # Errors
/// If the checkout has no tests, or the compiler can't be started.
pub fn run(
    checkout: &Path,
    only: &str,
    run_one: &Path,
    progress: &(dyn Fn(&str, &Verdict) + Sync),
) -> Result<Report> {
    compiler::require()?;
    let samples: Vec<Sample> = samples::find(checkout)?
        .into_iter()
        .filter(|sample| sample.name.contains(only))
        .collect();
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    let tests = Mutex::new(BTreeMap::new());
    each(&samples, |index, sample| {
        let own = folder.path().join(index.to_string());
        let verdict = one(sample, &own, run_one)?;
        progress(&sample.name, &verdict);
        if let Ok(mut tests) = tests.lock() {
            tests.insert(sample.name.clone(), verdict);
        }
        Ok(())
    })?;
    let tests = tests.into_inner().unwrap_or_default();
    let count = |test: fn(&Verdict) -> bool| tests.values().filter(|v| test(v)).count();
    Ok(Report {
        passed: count(|v| matches!(v, Verdict::Passed)),
        failed: count(|v| matches!(v, Verdict::Failed(_))),
        not_applicable: count(|v| matches!(v, Verdict::NotApplicable(_))),
        tests,
    })
}

fn one(sample: &Sample, folder: &PathBuf, run_one: &Path) -> Result<Verdict> {
    if let Some(reason) = &sample.not_applicable {
        return Ok(Verdict::NotApplicable(reason.clone()));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
    let compiled = match compiler::compile(&sample.program, folder, false)? {
        Ok(compiled) => compiled,
        Err(said) => return Ok(Verdict::Failed(format!("p4c refuses the program: {said}"))),
    };
    let mut command = Command::new(run_one);
    command.arg("stf-one").args([&compiled.json, &sample.test]);
    let outcome = child::run(&mut command, DEADLINE)?;
    if outcome.success() {
        return Ok(Verdict::Passed);
    }
    let Some(status) = outcome.status else {
        return Ok(Verdict::Failed(format!(
            "not done after {} s",
            DEADLINE.as_secs()
        )));
    };
    let said = outcome.stderr.trim();
    Ok(Verdict::Failed(if said.is_empty() {
        status.to_string()
    } else {
        said.lines().collect::<Vec<_>>().join(" | ")
    }))
}

/// Runs one test of one compiled program in this process.
///
/// # Errors
/// The first thing that went wrong.
pub fn run_test(json: &Path, test: &Path) -> Result<()> {
    let bytes = std::fs::read(json).with_context(|| format!("can't read {}", json.display()))?;
    let text =
        std::fs::read_to_string(test).with_context(|| format!("can't read {}", test.display()))?;
    let program = softswitch::Program::load(&bytes).context("the program does not load")?;
    softswitch::stf::run(program, &text, |_| {})?;
    Ok(())
}
