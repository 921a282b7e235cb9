//! `cargo xtask test`: every test, from format to the lab.

use std::process::Command;

use crate::{lab, packages, step};

/// What a call of `test` asks for.
struct Wanted {
    /// Only this P4Runtime target; both that are there if absent.
    target: Option<String>,
    lab: bool,
}

fn wanted(arguments: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted {
        target: None,
        lab: true,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--target" => {
                let target = rest.next().ok_or("--target takes softswitch or bmv2")?;
                if !["softswitch", "bmv2"].contains(&target.as_str()) {
                    return Err(format!(
                        "there is no target \"{target}\"; there are softswitch and bmv2"
                    ));
                }
                wanted.target = Some(target.clone());
            }
            "--no-lab" => wanted.lab = false,
            other => {
                return Err(format!(
                    "test takes --target softswitch|bmv2 and --no-lab, not \"{other}\""
                ));
            }
        }
    }
    Ok(wanted)
}

/// Runs what `arguments` ask for; without any, everything.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let wanted = wanted(arguments)?;
    packages::install(packages::ALL)?;
    if wanted.target.is_none() {
        step::run("format", step::cargo().args(["fmt", "--all", "--check"]))?;
        step::run(
            "clippy",
            step::cargo().args([
                "clippy",
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ]),
        )?;
        step::run(
            "documentation",
            step::cargo().env("RUSTDOCFLAGS", "-D warnings").args([
                "doc",
                "--workspace",
                "--no-deps",
                "--quiet",
            ]),
        )?;
        dependencies()?;
        step::run(
            "tests",
            step::cargo().args(["test", "--workspace", "--quiet"]),
        )?;
    }
    lab::prepare()?;
    let mut targets = Vec::new();
    for target in ["softswitch", "bmv2"] {
        let asked = wanted.target.as_deref() == Some(target);
        if wanted.target.is_some() && !asked {
            continue;
        }
        let found = target == "softswitch" || step::on_path("simple_switch_grpc");
        if asked && !found {
            return Err(
                "simple_switch_grpc is not on the PATH; install bmv2, or use --target softswitch"
                    .into(),
            );
        }
        if !found {
            println!("\nSKIPPED target bmv2: simple_switch_grpc is not on the PATH");
            targets.push(format!("{target}: skipped, not found"));
            continue;
        }
        suite(target)?;
        if wanted.lab {
            whole_loop(target)?;
        }
        targets.push(format!("{target}: ran"));
    }
    if !packages::is_root() {
        targets.push("tests in network namespaces: skipped, they need root".into());
    }
    println!("\nP4Runtime targets: {}", targets.join("; "));
    println!("test: ok");
    Ok(())
}

/// The packet suite against one target.
fn suite(target: &str) -> Result<(), String> {
    step::run(
        &format!("packet suite on {target}"),
        step::cargo().env("SLUICE_TARGET", target).args([
            "test",
            "--release",
            "--package",
            "hw-tests",
            "--test",
            "suite",
        ]),
    )
}

/// The lab against one target, as a system test.
fn whole_loop(target: &str) -> Result<(), String> {
    if !packages::is_root() {
        println!("\nSKIPPED the lab on {target}: network namespaces need root");
        return Ok(());
    }
    step::run(
        &format!("lab on {target}"),
        Command::new(step::target_dir().join("release").join("sluice-lab"))
            .args(["run", "--target", target]),
    )
}

/// Licences and sources of the dependencies.
fn dependencies() -> Result<(), String> {
    let found = step::cargo()
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!(
            "\nSKIPPED cargo-deny: it is not installed (cargo install cargo-deny); \
             licences are checked by xtask/tests/licences.rs all the same, advisories are not"
        );
        return Ok(());
    }
    // Advisories need the RustSec database, which an offline machine lacks.
    let advisories = std::env::var_os("HOME").is_some_and(|home| {
        std::path::Path::new(&home)
            .join(".cargo/advisory-dbs")
            .exists()
    });
    let mut checks = vec!["licenses", "bans", "sources"];
    if advisories {
        checks.push("advisories");
    } else {
        println!("\nSKIPPED advisories: there is no copy of the RustSec database here");
    }
    step::run(
        "dependencies",
        step::cargo()
            .args(["deny", "--offline", "--log-level", "error", "check"])
            .args(checks),
    )
}
