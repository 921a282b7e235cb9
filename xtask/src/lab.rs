//! `cargo xtask lab`: set-up, build, and the lab.

use crate::{packages, step};

/// The programs the lab runs.
const PROGRAMS: &[&str] = &[
    "sluice-lab",
    "softswitch",
    "offload-ctl",
    "slowpath",
    "sluice",
];

/// Builds the lab's programs and runs the lab with `arguments`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    prepare()?;
    let mut command =
        std::process::Command::new(step::target_dir().join("release").join("sluice-lab"));
    match arguments.first().map(String::as_str) {
        Some("down") => command.args(arguments),
        _ => command.arg("run").args(arguments),
    };
    let status = command
        .status()
        .map_err(|error| format!("can't start the lab: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!(
            "the lab failed ({status}); its logs are in target/lab/logs"
        ))
    }
}

/// Installs what is missing and builds the lab's programs.
pub(crate) fn prepare() -> Result<(), String> {
    packages::install(packages::ALL)?;
    let mut build = step::cargo();
    build.args(["build", "--release"]);
    for program in PROGRAMS {
        build.args(["--package", program]);
    }
    step::run("building the lab's programs", &mut build)
}
