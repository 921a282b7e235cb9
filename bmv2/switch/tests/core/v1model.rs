//! The programs in `testdata/v1model`, which together use what v1model and
//! p4c's bmv2 backend have to offer. Each has an STF test that says what bmv2
//! does with its packets; where bmv2 does not load a program, what it does with
//! the same program said in other words (`EQUIVALENT`), or it is by hand.

use std::path::{Path, PathBuf};

use softswitch::{Program, stf};

/// The programs that have a test, by name.
fn programs() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v1model");
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "stf"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().into(), path))
        .collect();
    found.sort();
    found
}

#[test]
fn every_program_does_what_bmv2_does() {
    let programs = programs();
    assert!(programs.len() >= 16, "{programs:?}");
    let mut failed = Vec::new();
    for (name, test) in programs {
        let json = std::fs::read(test.with_extension("json")).unwrap();
        let text = std::fs::read_to_string(&test).unwrap();
        let expected = text.lines().filter(|l| l.starts_with("expect")).count();
        assert!(expected >= 8, "{name} expects {expected} packets");
        let result = match Program::load(&json) {
            Ok(program) => stf::run(program, &text, |_| {}).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        };
        if let Err(e) = result {
            failed.push(format!("{name}: {e}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
