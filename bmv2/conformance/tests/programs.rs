//! What is committed in `programs/build` is what the compiler makes of the
//! programs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use softswitch_conformance::compiler;

#[test]
fn committed_outputs_fit_the_programs() {
    if compiler::on_path(compiler::NAME).is_none() {
        // Past the capture of passing tests' output.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the drift of programs/build: {} is not on the PATH",
            compiler::NAME
        );
        return;
    }
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "clients", "parsing", "externs", "wide", "stacks", "copies", "keys",
    ] {
        let json = folder.path().join(format!("{name}.json"));
        let p4info = folder.path().join(format!("{name}.p4info.txtpb"));
        // From the programs' folder, as build.sh does: the JSON names files.
        let done = Command::new(compiler::NAME)
            .current_dir(&programs)
            .arg("--p4runtime-files")
            .arg(&p4info)
            .arg("-o")
            .arg(&json)
            .arg(format!("{name}.p4"))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        for made in [json, p4info] {
            let committed = programs.join("build").join(made.file_name().unwrap());
            assert!(
                std::fs::read(&made).unwrap() == std::fs::read(&committed).unwrap(),
                "{} is not what p4c makes of {name}.p4: run programs/build.sh",
                committed.display()
            );
        }
    }
}
