//! Finds programs for v1model, and which of them come with an STF test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where a checkout of p4c has its P4_16 samples.
pub const FOLDER: &str = "testdata/p4_16_samples";

/// How deep samples include files of their own.
const DEEPEST_INCLUDE: usize = 8;

/// A program with its test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// Path below the folder of samples, without `.p4`.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// The test.
    pub test: PathBuf,
    /// Why the test does not apply to a v1model switch, if that is so.
    pub not_applicable: Option<String>,
}

/// All STF tests below the samples of a checkout, sorted by name.
///
/// # Errors
/// If there are none.
pub fn find(checkout: &Path) -> Result<Vec<Sample>> {
    let root = checkout.join(FOLDER);
    let mut tests = Vec::new();
    collect(&root, "stf", &mut tests).with_context(|| no_checkout(checkout))?;
    let mut samples: Vec<Sample> = tests
        .into_iter()
        .map(|test| {
            let program = test.with_extension("p4");
            Sample {
                name: name(&root, &program),
                not_applicable: not_applicable(&program),
                program,
                test,
            }
        })
        .collect();
    if samples.is_empty() {
        bail!("there is no .stf file in {}", root.display());
    }
    samples.sort();
    Ok(samples)
}

/// All programs for v1model below the samples of a checkout, with their names,
/// whether or not they have a test.
///
/// # Errors
/// If there are none.
pub fn programs(checkout: &Path) -> Result<Vec<(String, PathBuf)>> {
    let root = checkout.join(FOLDER);
    let mut files = Vec::new();
    collect(&root, "p4", &mut files).with_context(|| no_checkout(checkout))?;
    let mut programs: Vec<(String, PathBuf)> = files
        .into_iter()
        .filter(|file| not_applicable(file).is_none())
        .map(|file| (name(&root, &file), file))
        .collect();
    if programs.is_empty() {
        bail!("there is no program for v1model in {}", root.display());
    }
    programs.sort();
    Ok(programs)
}

fn no_checkout(checkout: &Path) -> String {
    format!(
        "{} is no checkout of p4c: can't read {FOLDER} there",
        checkout.display()
    )
}

/// The path of a program below the folder of samples, without `.p4`.
fn name(root: &Path, program: &Path) -> String {
    let below = program.strip_prefix(root).unwrap_or(program);
    below.with_extension("").display().to_string()
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    Ok(())
}

fn not_applicable(program: &Path) -> Option<String> {
    if !program.is_file() {
        return Some("there is no program of that name".into());
    }
    let mut models = BTreeSet::new();
    architectures(program, 0, &mut models);
    if models.contains("v1model.p4") {
        return None;
    }
    Some(match models.first() {
        Some(model) => format!("written for {model}"),
        None => "names no architecture".into(),
    })
}

/// The file names of the architectures that a program includes, itself or by
/// files of its own.
fn architectures(file: &Path, depth: usize, models: &mut BTreeSet<String>) {
    let Ok(text) = std::fs::read(file) else {
        return;
    };
    let text = String::from_utf8_lossy(&text);
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let Some(target) = rest.trim_start().strip_prefix("include") else {
            continue;
        };
        let target = target.trim().trim_matches(['<', '>', '"']);
        let name = target.rsplit('/').next().unwrap_or(target);
        let own = file.with_file_name("").join(target);
        if MODELS.contains(&name) {
            models.insert(name.to_owned());
        } else if own.is_file() && depth < DEEPEST_INCLUDE {
            architectures(&own, depth + 1, models);
        }
    }
}

/// Files of `p4include` that define an architecture.
const MODELS: [&str; 8] = [
    "v1model.p4",
    "psa.p4",
    "pna.p4",
    "ebpf_model.p4",
    "ubpf_model.p4",
    "xdp_model.p4",
    "tna.p4",
    "tofino.p4",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_apart_by_what_they_include() {
        let checkout = tempfile::tempdir().unwrap();
        let root = checkout.path().join(FOLDER);
        std::fs::create_dir_all(root.join("sub")).unwrap();
        for (name, text) in [
            ("one.p4", "# include <v1model.p4>\n"),
            ("one.stf", ""),
            ("psa.p4", "#include <core.p4>\n#include \"bmv2/psa.p4\"\n"),
            ("psa.stf", ""),
            ("no-test.p4", "#include <v1model.p4>\n"),
            ("lonely.stf", ""),
            ("sub/two.p4", "#include \"common.p4\"\n"),
            ("sub/two.stf", ""),
            ("sub/common.p4", "#include <v1model.p4>\n"),
        ] {
            std::fs::write(root.join(name), text).unwrap();
        }
        let found = find(checkout.path()).unwrap();
        let facts: Vec<(&str, Option<&str>)> = found
            .iter()
            .map(|s| (s.name.as_str(), s.not_applicable.as_deref()))
            .collect();
        assert_eq!(
            facts,
            [
                ("lonely", Some("there is no program of that name")),
                ("one", None),
                ("psa", Some("written for psa.p4")),
                ("sub/two", None),
            ]
        );
        let all = programs(checkout.path()).unwrap();
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        // A file that others include looks like a program, too.
        assert_eq!(names, ["no-test", "one", "sub/common", "sub/two"]);
    }

    #[test]
    fn a_folder_without_samples_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("is no checkout of p4c"),
            "{error}"
        );
    }
}
