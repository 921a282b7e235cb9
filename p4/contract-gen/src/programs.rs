//! The programs of tests and examples, and what the compiler makes of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::check::{Report, no_recompilation};
use crate::compile;
use crate::manifest::{self, Manifest};

/// Programs in one folder of the source tree.
#[derive(Debug, Clone, Copy)]
pub struct Set {
    /// Where the sources are, relative to the source tree.
    pub folder: &'static str,
    /// Where the outputs and the manifest go, relative to `folder`.
    pub output: &'static str,
    /// Sources that are included by others and no programs themselves.
    pub parts: &'static [&'static str],
    /// Other outputs of a program: their name, the program, and flags.
    pub variants: &'static [(&'static str, &'static str, &'static str)],
    /// Whether P4Info is wanted too.
    pub p4info: bool,
    /// Whether the JSON goes on one line: programs that nobody reads.
    pub compact: bool,
}

const PLAIN: Set = Set {
    folder: "",
    output: "",
    parts: &[],
    variants: &[],
    p4info: true,
    compact: false,
};

/// All of them.
pub const SETS: [Set; 5] = [
    Set {
        folder: "bmv2/conformance/programs",
        output: "build/",
        parts: &["common"],
        ..PLAIN
    },
    Set {
        folder: "bmv2/switch/testdata",
        ..PLAIN
    },
    Set {
        folder: "bmv2/switch/testdata/p4rt",
        variants: &[("next", "p4rt", "-DNEXT")],
        ..PLAIN
    },
    Set {
        folder: "bmv2/switch/testdata/v1model",
        parts: &["first", "rest"],
        compact: true,
        ..PLAIN
    },
    Set {
        folder: "bmv2/switch/examples/embed",
        p4info: false,
        ..PLAIN
    },
];

/// Compiles all sets below `tree` and writes outputs and manifests.
///
/// # Errors
/// When the compiler refuses a program or a file cannot be written.
pub fn compile(tree: &Path, compiler: &str) -> Result<()> {
    for set in SETS {
        let folder = tree.join(set.folder);
        for (name, content) in outputs(&set, &folder)? {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)
                    .with_context(|| format!("cannot make {}", parent.display()))?;
            }
            std::fs::write(&path, content)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let text = serde_json::to_string_pretty(&now(&set, &folder, compiler.to_owned())?)
            .context("cannot encode a manifest")?;
        let path = manifest_of(&set, &folder);
        std::fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Checks that sources and outputs are those of the manifests and, where the
/// recorded compiler is installed, that it makes these outputs of them.
///
/// # Errors
/// When something needed for the check cannot be read or run.
pub fn check(tree: &Path, sets: &[Set], report: &mut Report) -> Result<()> {
    for set in sets {
        let folder = tree.join(set.folder);
        let path = manifest_of(set, &folder);
        let text =
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let then: Manifest = serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a manifest", path.display()))?;
        let now = now(set, &folder, then.compiler.clone())?;
        let mut fault = |what: String| {
            let fault = format!("{}: {what}: run `cargo xtask p4`", set.folder);
            report.faults.push(fault);
        };
        for difference in manifest::differences(&then.sources, &now.sources) {
            fault(format!("source {difference} since the last compilation"));
        }
        for difference in manifest::differences(&then.outputs, &now.outputs) {
            fault(format!("output {difference} without a compilation"));
        }
        if let Some(why) = no_recompilation(&then)? {
            let skipped = format!("recompilation of {}: {why}", set.folder);
            report.skipped.push(skipped);
            continue;
        }
        for (name, content) in outputs(set, &folder)? {
            if std::fs::read(folder.join(&name)).ok() != Some(content) {
                fault(format!("a recompilation gives another {name}"));
            }
        }
    }
    Ok(())
}

fn manifest_of(set: &Set, folder: &Path) -> PathBuf {
    folder.join(format!("{}manifest.json", set.output))
}

/// The record of what lies there now.
fn now(set: &Set, folder: &Path, compiler: String) -> Result<Manifest> {
    let hashes = |names: Vec<String>| {
        // An output that is gone is a difference, not an error.
        let files = names.into_iter().filter_map(|name| {
            let content = std::fs::read(folder.join(&name)).ok()?;
            Some((name, manifest::sha256(&content)))
        });
        files.collect::<BTreeMap<_, _>>()
    };
    let sources = sources(folder)?.into_iter();
    let outputs = targets(set, folder)?.into_iter();
    Ok(Manifest {
        compiler,
        flags: set
            .variants
            .iter()
            .map(|(name, program, flags)| format!("{name}: {flags} {program}.p4"))
            .collect(),
        sources: hashes(sources.map(|name| format!("{name}.p4")).collect()),
        outputs: hashes(outputs.flat_map(|target| target.files(set)).collect()),
    })
}

/// What one call of the compiler makes.
struct Target {
    name: String,
    program: String,
    flags: Option<&'static str>,
}

impl Target {
    /// Its outputs: the JSON, then P4Info if that is wanted.
    fn files(&self, set: &Set) -> Vec<String> {
        let json = format!("{}{}.json", set.output, self.name);
        let p4info = format!("{}{}.p4info.txtpb", set.output, self.name);
        std::iter::once(json)
            .chain(set.p4info.then_some(p4info))
            .collect()
    }
}

fn targets(set: &Set, folder: &Path) -> Result<Vec<Target>> {
    let programs = sources(folder)?.into_iter();
    let own = programs.filter(|name| !set.parts.contains(&name.as_str()));
    let own = own.map(|name| Target {
        program: name.clone(),
        name,
        flags: None,
    });
    let variants = set.variants.iter().map(|(name, program, flags)| Target {
        name: (*name).to_owned(),
        program: (*program).to_owned(),
        flags: Some(flags),
    });
    Ok(own.chain(variants).collect())
}

/// The names of the `.p4` files, sorted, without the ending.
fn sources(folder: &Path) -> Result<Vec<String>> {
    let listing = || format!("cannot list {}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(listing)? {
        let name = entry.with_context(listing)?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".p4")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What the compiler makes of the set, by path in its folder.
fn outputs(set: &Set, folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for target in targets(set, folder)? {
        let flags: Vec<String> = target.flags.iter().map(|flag| (*flag).to_owned()).collect();
        let compiled = compile::compile_in(folder, &flags, &format!("{}.p4", target.program))?;
        let json = if set.compact {
            one_line(&compiled.pipeline)?
        } else {
            compiled.pipeline
        };
        let contents = [json, compiled.p4info.into_bytes()];
        all.extend(target.files(set).into_iter().zip(contents));
    }
    Ok(all)
}

/// JSON without spaces, members in the order they were in.
fn one_line(json: &[u8]) -> Result<Vec<u8>> {
    let text = std::str::from_utf8(json).context("the compiler's JSON is not UTF-8")?;
    let (mut out, mut quoted, mut escaped) = (String::with_capacity(text.len()), false, false);
    for letter in text.chars() {
        if quoted || !letter.is_ascii_whitespace() {
            out.push(letter);
        }
        quoted ^= letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
    }
    out.push('\n');
    Ok(out.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_keeps_what_is_quoted() {
        let json = br#"{ "a b" : [1,
            "c \" \\" , 2] }"#;
        let made = one_line(json).unwrap();
        assert_eq!(
            String::from_utf8(made).unwrap(),
            "{\"a b\":[1,\"c \\\" \\\\\",2]}\n"
        );
    }
}
