//! Does what is committed belong together?

use anyhow::{Context, Result};

use crate::layout::{self, Layout};
use crate::manifest::{self, Manifest};
use crate::{compile, generate};

/// What a check found.
#[derive(Debug, Default)]
pub struct Report {
    /// What does not belong together, each with what to do; empty if all does.
    pub faults: Vec<String>,
    /// What was not checked, and why.
    pub skipped: Vec<String>,
}

/// Checks sources, outputs and generated Rust against each other, and against
/// a recompilation where the recorded compiler is installed.
///
/// # Errors
/// When something needed for the check cannot be read or run.
pub fn check(layout: &Layout) -> Result<Report> {
    let mut report = Report::default();
    let then = Manifest::read(layout)?;
    let now = Manifest::of(layout, then.compiler.clone(), then.flags.clone())?;

    for difference in manifest::differences(&then.sources, &now.sources) {
        let fault = format!("source {difference} since the last compilation: run `cargo xtask p4`");
        report.faults.push(fault);
    }
    for difference in manifest::differences(&then.outputs, &now.outputs) {
        let fault = format!("output {difference} without a compilation: run `cargo xtask p4`");
        report.faults.push(fault);
    }

    let generate::Generated {
        files: wanted,
        document,
    } = generate::render(layout)?;
    if generate::document(layout)? != document {
        let fault = "docs/table-contract.md does not fit P4Info: run `cargo xtask p4`".to_owned();
        report.faults.push(fault);
    }
    let present = generate::present(layout)?;
    for (name, content) in &wanted {
        if present.get(name) != Some(content) {
            let fault = format!("generated {name} does not fit P4Info: run `cargo xtask p4`");
            report.faults.push(fault);
        }
    }
    for name in present.keys().filter(|name| !wanted.contains_key(*name)) {
        let fault = format!("{name} lies among the generated files and is none: remove it");
        report.faults.push(fault);
    }

    recompile(layout, &then, &mut report)?;
    Ok(report)
}

fn recompile(layout: &Layout, then: &Manifest, report: &mut Report) -> Result<()> {
    if let Some(why) = no_recompilation(then)? {
        report.skipped.push(format!("recompilation: {why}"));
        return Ok(());
    }
    let compiled = compile::compile(layout, &then.flags).context("recompilation")?;
    let outputs: [(&str, &[u8]); 2] = [
        (layout::PIPELINE_JSON, &compiled.pipeline),
        (layout::P4INFO, compiled.p4info.as_bytes()),
    ];
    for (name, content) in outputs {
        if layout.read(name)? != content {
            let fault = format!("a recompilation gives another {name}: run `cargo xtask p4`");
            report.faults.push(fault);
        }
    }
    Ok(())
}

/// Why the compiler here cannot make the recorded outputs again.
pub(crate) fn no_recompilation(then: &Manifest) -> Result<Option<String>> {
    Ok(match compile::version()? {
        None => Some(format!("{} is not installed", compile::COMPILER)),
        Some(version) if version != then.compiler => {
            let recorded = &then.compiler;
            Some(format!("{version} is installed, recorded is {recorded}"))
        }
        Some(_) => None,
    })
}
