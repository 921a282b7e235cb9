//! The subcommands, through the binary.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod files;
mod output;
mod start;
mod stf;
mod trace;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program with one of everything; see its source beside it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/p4rt/p4rt.json");
const P4INFO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/testdata/p4rt/p4rt.p4info.txtpb"
);

fn softswitch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softswitch"));
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// Exit code, standard output and standard error.
fn outcome(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    (
        status.code().unwrap(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

/// A folder that goes away with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("softswitch-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_may_have_the_name_of_a_subcommand() {
    let folder = Folder::new("names");
    for name in ["run", "stf", "trace"] {
        folder.file(name, "not a program");
        let (code, _, stderr) = outcome(
            softswitch()
                .current_dir(folder.path())
                .arg(format!("./{name}")),
        );
        assert_eq!(code, 1);
        let wanted = format!("softswitch: cannot load the program ./{name}: ");
        assert!(stderr.starts_with(&wanted), "{stderr}");
    }
}

#[test]
fn what_is_missing_is_said() {
    let (code, _, stderr) = outcome(softswitch().arg("run"));
    assert_eq!(code, 2);
    assert!(stderr.contains("<JSON>"), "{stderr}");

    let (code, _, stderr) = outcome(softswitch().args(["run", "no/such.json"]));
    assert_eq!(code, 1);
    let wanted = "softswitch: cannot read the program no/such.json: No such file or directory";
    assert!(stderr.starts_with(wanted), "{stderr}");

    let (code, _, stderr) = outcome(&mut softswitch());
    assert_eq!(code, 1);
    assert!(stderr.contains("there is no program"), "{stderr}");
}
