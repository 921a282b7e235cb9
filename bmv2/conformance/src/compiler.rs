//! `p4c-bm2-ss`, wherever it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::child;

/// The compiler's name.
pub const NAME: &str = "p4c-bm2-ss";

/// How long one program may take; the largest samples need some seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// What the compiler wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The JSON for the switch.
    pub json: PathBuf,
    /// The P4Info as text, if it was asked for.
    pub p4info: Option<PathBuf>,
}

/// Where a program is, going by the `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|program| program.is_file())
    })
}

/// Says what to do where the compiler is missing.
///
/// # Errors
/// If it is.
pub fn require() -> Result<PathBuf> {
    on_path(NAME).with_context(|| format!("{NAME} is not on the PATH: build and install p4c first"))
}

/// Compiles one program into `folder`. The inner `Err` is what the compiler
/// said, in one line.
///
/// # Errors
/// If the compiler can't be started.
pub fn compile(
    source: &Path,
    folder: &Path,
    with_p4info: bool,
) -> Result<Result<Compiled, String>> {
    let stem = source
        .file_stem()
        .with_context(|| format!("{} has no file name", source.display()))?;
    let json = folder.join(stem).with_extension("json");
    let p4info = with_p4info.then(|| folder.join(stem).with_extension("p4info.txtpb"));
    let mut command = Command::new(NAME);
    command.arg("-o").arg(&json);
    if let Some(p4info) = &p4info {
        command.arg("--p4runtime-files").arg(p4info);
    }
    let outcome = child::run(command.arg(source), DEADLINE)?;
    if outcome.success() && json.is_file() {
        return Ok(Ok(Compiled { json, p4info }));
    }
    let said = outcome
        .stderr
        .lines()
        .find(|line| line.contains("error") || line.contains("Compiler Bug"))
        .map(|line| line.replace(&format!("{}", source.display()), "program"))
        .unwrap_or_else(|| match outcome.status {
            Some(status) => format!("{status}"),
            None => format!("not done after {} s", DEADLINE.as_secs()),
        });
    Ok(Err(said))
}
