//! `cargo xtask lab | test | bench | p4 | ci | …`: all that anyone needs to know.
//!
//! Depends on the standard library only: it is compiled before anything has
//! been installed, and it installs what the rest needs.

mod bench;
mod lab;
mod packages;
mod step;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask COMMAND

  lab   [--target softswitch|bmv2] [--keep] [--repeat N]
                                the whole loop on this machine
  lab down [ID]                 end a lab that was left running with --keep
  test  [--target softswitch|bmv2] [--no-lab]
                                every test, set-up included
  bench [engine|floor|switch]   measurements, as JSON in target/bench/
  bench switch -- PART          only memory, tables, lookups, links, inserts or a target
  p4    [check]                 compile p4/ with p4c, or check what is committed
  ci                            what .ci/run calls: the same as test
  conformance --p4c DIR         p4c's STF tests on softswitch, from a checkout of p4c
  load --p4c DIR                whether all its programs for v1model load
  differential [--p4c DIR]      softswitch and simple_switch_grpc side by side
  setup [bench]                 only install the Debian packages that are missing

conformance, load and differential take more options:
cargo run --package softswitch-conformance -- COMMAND --help
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    // Nobody who asks for help waits for a build.
    let help = |a: &String| matches!(a.as_str(), "help" | "--help" | "-h");
    if rest.first().is_some_and(help) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let outcome = step::enter_workspace().and_then(|()| match command.as_str() {
        "lab" => lab::run(&rest),
        "test" | "ci" => test::run(&rest),
        "bench" => bench::run(&rest),
        "p4" => p4(&rest),
        "conformance" | "load" | "differential" => conformance(&command, &rest),
        "setup" => packages::install(if rest.iter().any(|a| a == "bench") {
            packages::BENCH
        } else {
            packages::ALL
        }),
        "" | "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("there is no command \"{other}\"\n\n{HELP}")),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the switch with p4c's expectations, or with bmv2.
fn conformance(command: &str, arguments: &[String]) -> Result<(), String> {
    packages::install(packages::ALL)?;
    step::run(
        "the switch",
        step::cargo().args(["build", "--quiet", "--release", "--package", "softswitch"]),
    )?;
    let run = ["run", "--quiet", "--release", "--package"];
    step::run(
        command,
        step::cargo()
            .args(run)
            .args(["softswitch-conformance", "--", command])
            .args(arguments),
    )
}

/// Compiles the P4 program, or checks that what is committed fits.
fn p4(arguments: &[String]) -> Result<(), String> {
    packages::install(packages::BUILD)?;
    let verb = match arguments {
        [] => "compile",
        [only] if only == "check" => "check",
        _ => return Err(format!("p4 takes nothing or \"check\"\n\n{HELP}")),
    };
    step::run(
        "the P4 program",
        step::cargo().args(["run", "--quiet", "--package", "p4-contract-gen", "--", verb]),
    )
}
