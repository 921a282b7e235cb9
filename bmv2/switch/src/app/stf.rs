//! `softswitch stf`: runs a test and says what became of each expectation.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use softswitch::stf::{self, StfError, Subject};

use super::load;
use super::print::Printer;
use super::trace::hex;

/// Run an STF test (p4c's "simple test framework") against a program, in
/// memory.
///
/// Exit code: 0 if everything came as expected, 1 if not, 2 if the test could
/// not be read or carried out, or its outcome not be printed.
#[derive(Debug, Parser)]
#[command(name = "softswitch stf", bin_name = "softswitch stf", version)]
pub(super) struct Options {
    /// The program: the JSON that p4c-bm2-ss wrote.
    #[arg(value_name = "JSON")]
    program: PathBuf,

    /// The test.
    #[arg(value_name = "TEST")]
    test: PathBuf,

    /// Say nothing of expectations that were met.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let program = load::program(&options.program)?;
    let test = load::text(&options.test, "the test")?;
    let mut printer = Printer::new(std::io::stdout());
    let cannot = || format!("cannot carry out {}", options.test.display());
    let report = stf::check(program, &test, |line| printer.line(line)).with_context(cannot)?;
    let passed = report.passed();
    let mut met = 0;
    for e in &report.expectations {
        let subject = match &e.subject {
            Subject::Packet(port) => format!("port {port}"),
            Subject::Counter(name) => format!("counter {name}"),
        };
        match &e.failure {
            None => {
                met += 1;
                if !options.quiet {
                    printer.line(&format!("ok      line {:<4} {subject}", e.line));
                }
            }
            Some(what) => {
                printer.line(&format!("FAILED  line {:<4} {subject}: {what}", e.line));
            }
        }
    }
    for (port, packet) in &report.unexpected {
        printer.line(&format!(
            "FAILED            port {port}: nothing expects {}",
            hex(packet)
        ));
    }
    let expectations = report.expectations.len();
    match &report.stopped {
        None => printer.line(&format!(
            "{met} of {expectations} expectations met, {} unexpected packets",
            report.unexpected.len()
        )),
        Some(StfError::Line { line, .. }) if expectations > 0 => printer.line(&format!(
            "{met} of {expectations} expectations met before line {line}, which could not be \
             carried out"
        )),
        // The error says all there is to say.
        Some(_) => {}
    }
    printer.finish()?;
    if let Some(stopped) = report.stopped {
        return Err(stopped).with_context(cannot);
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
