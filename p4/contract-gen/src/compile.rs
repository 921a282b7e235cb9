//! Runs the P4 compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::layout::{self, Layout};

/// The compiler's program.
pub const COMPILER: &str = "p4c-bm2-ss";

/// Arguments besides the paths of outputs and of the program.
pub const FLAGS: [&str; 4] = ["--std", "p4-16", "--Werror", "-DFLOW_COUNTERS=2"];

/// What the compiler writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiled {
    /// The pipeline for simple_switch and softswitch.
    pub pipeline: Vec<u8>,
    /// P4Info in text format, normalised.
    pub p4info: String,
}

/// The compiler and its version as it names itself, without the commit and the
/// kind of build, which some builds name too; `None` where it is not installed.
///
/// # Errors
/// When it is installed but does not run.
pub fn version() -> Result<Option<String>> {
    let output = match Command::new(COMPILER).arg("--version").output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output.with_context(|| format!("cannot run {COMPILER}"))?,
    };
    // Versions differ in which of the two they write to.
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both);
    match named(&text) {
        Some(version) if output.status.success() => Ok(Some(version)),
        _ => bail!("{COMPILER} --version failed: {text}"),
    }
}

/// Program and version out of what `--version` prints.
fn named(text: &str) -> Option<String> {
    let words = text.split('(').next()?.split_whitespace();
    let words: Vec<&str> = words.filter(|word| *word != "Version").collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Compiles the program with `flags`; nothing in the tree is touched.
///
/// # Errors
/// When the compiler does not run or refuses the program.
pub fn compile(layout: &Layout, flags: &[String]) -> Result<Compiled> {
    compile_in(layout.root(), flags, layout::PROGRAM)
}

/// Compiles a program of a folder.
///
/// # Errors
/// As for [`compile`].
pub(crate) fn compile_in(folder: &Path, flags: &[String], program: &str) -> Result<Compiled> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let pipeline = scratch.path().join("gateway.json");
    let p4info = scratch.path().join("gateway.p4info.txtpb");
    // From within the folder and with relative names: the names end up in the
    // output, which must be the same on every machine.
    let output = Command::new(COMPILER)
        .current_dir(folder)
        .args(flags)
        .arg("-o")
        .arg(&pipeline)
        .arg("--p4runtime-files")
        .arg(&p4info)
        .arg(program)
        .output()
        .with_context(|| format!("cannot run {COMPILER}: is p4c installed and on the PATH?"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{COMPILER} refuses {program}:\n{said}");
    }
    let compiled = Compiled {
        pipeline: read(&pipeline)?,
        p4info: normalise(&String::from_utf8_lossy(&read(&p4info)?)),
    };
    let text = String::from_utf8_lossy(&compiled.pipeline);
    if let Some(line) = text.lines().find(|line| names_absolute_path(line)) {
        bail!("the pipeline names a path of this machine: {}", line.trim());
    }
    Ok(compiled)
}

/// Writes outputs to the P4 folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(layout: &Layout, compiled: &Compiled) -> Result<()> {
    let outputs: [(PathBuf, &[u8]); 2] = [
        (layout.path(layout::PIPELINE_JSON), &compiled.pipeline),
        (layout.path(layout::P4INFO), compiled.p4info.as_bytes()),
    ];
    for (path, content) in outputs {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{COMPILER} wrote no {}", path.display()))
}

fn names_absolute_path(line: &str) -> bool {
    line.trim_start().starts_with("\"filename\" : \"/")
}

/// Sorts the blocks of P4Info's `type_info`.
///
/// They are a protobuf map, which the compiler writes in another order from
/// run to run.
fn normalise(p4info: &str) -> String {
    const OPEN: &str = "type_info {\n";
    let Some(start) = p4info.find(OPEN).map(|at| at + OPEN.len()) else {
        return p4info.to_owned();
    };
    let Some(end) = p4info[start..].find("\n}").map(|at| start + at + 1) else {
        return p4info.to_owned();
    };
    let mut blocks: Vec<String> = Vec::new();
    for line in p4info[start..end].split_inclusive('\n') {
        let opens = line.starts_with("  ") && !line.starts_with("   ") && !line.starts_with("  }");
        match blocks.last_mut() {
            Some(block) if !opens => block.push_str(line),
            _ => blocks.push(line.to_owned()),
        }
    }
    blocks.sort();
    format!("{}{}{}", &p4info[..start], blocks.concat(), &p4info[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_types_is_fixed() {
        let first = "  enums {\n    key: \"A\"\n    value {\n    }\n  }\n";
        let second = "  enums {\n    key: \"B\"\n  }\n";
        let sorted = format!("tables {{\n}}\ntype_info {{\n{first}{second}}}\n");
        let other = format!("tables {{\n}}\ntype_info {{\n{second}{first}}}\n");
        assert_ne!(sorted, other);
        assert_eq!(normalise(&other), sorted);
        assert_eq!(normalise(&sorted), sorted);
        assert_eq!(normalise("tables {\n}\n"), "tables {\n}\n");
    }

    #[test]
    fn a_version_is_the_same_with_and_without_its_commit() {
        let version = Some("p4c-bm2-ss 1.2.5.16".to_owned());
        assert_eq!(named("p4c-bm2-ss\nVersion 1.2.5.16\n"), version);
        let built = "p4c-bm2-ss\nVersion 1.2.5.16 (SHA: 0123abc BUILD: Release)\n";
        assert_eq!(named(built), version);
        assert_eq!(named(""), None);
    }

    #[test]
    fn finds_paths_of_this_machine() {
        assert!(names_absolute_path(
            "   \"filename\" : \"/usr/share/core.p4\","
        ));
        assert!(!names_absolute_path(
            "   \"filename\" : \"include/books.p4\","
        ));
    }
}
