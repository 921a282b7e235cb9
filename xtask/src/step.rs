//! Running one step after the other, and saying how it goes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Goes to the workspace's root, so that paths below it can be relative.
pub(crate) fn enter_workspace() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("xtask is not inside the workspace")?;
    std::env::set_current_dir(root)
        .map_err(|error| format!("can't enter {}: {error}", root.display()))
}

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

/// Runs `command` with its output shown, and says how long it took.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<(), String> {
    println!("\n== {what}");
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{what}: can't start {:?}: {error}", command.get_program()))?;
    let seconds = start.elapsed().as_secs_f32();
    if status.success() {
        println!("== {what}: ok ({seconds:.1} s)");
        Ok(())
    } else {
        Err(format!(
            "{what}: {status} after {seconds:.1} s; the reason stands above"
        ))
    }
}

/// Whether `program` is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}
