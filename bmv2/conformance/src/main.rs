//! The binary `softswitch-conformance`.

mod cli_differential;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use softswitch_conformance::load_suite;
use softswitch_conformance::stf_suite::{self, Verdict};

/// Shows that softswitch behaves as bmv2 does.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile and run the STF tests of a checkout of p4c.
    Conformance {
        /// The checkout.
        #[arg(long, value_name = "DIR")]
        p4c: PathBuf,
        /// Only tests whose name contains this.
        #[arg(long, default_value = "", value_name = "TEXT")]
        only: String,
        /// Tests that must pass; the exit code tells.
        #[arg(long, default_value_t = 200, value_name = "N")]
        at_least: usize,
        /// Where the results go.
        #[arg(long, default_value = "target/conformance.json", value_name = "FILE")]
        json: PathBuf,
    },
    /// Compile and load all programs for v1model of a checkout of p4c.
    Load {
        /// The checkout.
        #[arg(long, value_name = "DIR")]
        p4c: PathBuf,
        /// Only programs whose name contains this.
        #[arg(long, default_value = "", value_name = "TEXT")]
        only: String,
        /// Where the results go.
        #[arg(long, default_value = "target/load.json", value_name = "FILE")]
        json: PathBuf,
    },
    /// Run softswitch and simple_switch_grpc side by side and compare.
    Differential {
        /// Also compare on the samples of this checkout of p4c.
        #[arg(long, value_name = "DIR")]
        p4c: Option<PathBuf>,
        /// Only programs whose name contains this.
        #[arg(long, default_value = "", value_name = "TEXT")]
        only: String,
        /// Chance begins here; another number makes other requests and packets.
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
        /// Compare with softswitch as the P4Runtime specification has it, not
        /// with `--compat`.
        #[arg(long)]
        strict: bool,
        /// Report also the steps on which both agree.
        #[arg(long)]
        all: bool,
        /// The program softswitch; the one beside this program if absent.
        #[arg(long, value_name = "FILE")]
        softswitch: Option<PathBuf>,
        /// Where the results go.
        #[arg(long, default_value = "target/differential.json", value_name = "FILE")]
        json: PathBuf,
    },
    /// Run one STF test in this process.
    #[command(hide = true)]
    StfOne {
        /// The compiled program.
        json: PathBuf,
        /// The test.
        test: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    match options.command {
        Command::Conformance {
            p4c,
            only,
            at_least,
            json,
        } => conformance(&p4c, &only, at_least, &json),
        Command::Differential {
            p4c,
            only,
            seed,
            strict,
            all,
            softswitch,
            json,
        } => cli_differential::run(&cli_differential::Asked {
            p4c,
            only,
            seed,
            strict,
            all,
            softswitch,
            json,
        }),
        Command::Load { p4c, only, json } => load(&p4c, &only, &json),
        Command::StfOne { json, test } => stf_suite::run_test(&json, &test),
    }
}

fn conformance(p4c: &Path, only: &str, at_least: usize, json: &Path) -> Result<()> {
    let own = std::env::current_exe().context("can't tell where this program is")?;
    let report = stf_suite::run(p4c, only, &own, &|name, verdict| {
        if let Verdict::Failed(reason) = verdict {
            println!("FAILED {name}: {reason}");
        }
    })?;
    write_json(json, &report)?;
    let mut table = table(["program", "result", "reason"]);
    for (name, verdict) in &report.tests {
        let (result, reason) = match verdict {
            Verdict::Passed => ("passed", ""),
            Verdict::Failed(reason) => ("FAILED", reason.as_str()),
            Verdict::NotApplicable(reason) => ("not applicable", reason.as_str()),
        };
        table.add_row([name, result, reason]);
    }
    println!("{table}");
    println!(
        "{} of {} tests for v1model passed, {} failed; {} are for something else; details in {}",
        report.passed,
        report.passed + report.failed,
        report.failed,
        report.not_applicable,
        json.display()
    );
    if only.is_empty() && report.passed < at_least {
        bail!("at least {at_least} must pass");
    }
    Ok(())
}

fn load(p4c: &Path, only: &str, json: &Path) -> Result<()> {
    let report = load_suite::run(p4c, only)?;
    write_json(json, &report)?;
    let mut table = table(["program", "refused because"]);
    for (name, reason) in report.refused.iter().chain(&report.not_for_bmv2) {
        table.add_row([name, reason]);
    }
    println!("{table}");
    println!(
        "{} programs load, {} do not; {} are refused by bmv2, too, and {} by p4c; details in {}",
        report.loaded,
        report.refused.len(),
        report.not_for_bmv2.len(),
        report.not_compiled.len(),
        json.display()
    );
    if !report.refused.is_empty() {
        bail!("{} programs do not load", report.refused.len());
    }
    Ok(())
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't make {}", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(value)?;
    std::fs::write(path, text + "\n").with_context(|| format!("can't write {}", path.display()))
}
