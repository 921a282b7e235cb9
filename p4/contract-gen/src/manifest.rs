//! The record of a compilation.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::layout::{self, Layout};

/// Which sources, compiled how, gave which outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The compiler and its version, as it names itself.
    pub compiler: String,
    /// Its arguments, without the paths of outputs and of the program.
    pub flags: Vec<String>,
    /// SHA-256 of each source file, by its path in the P4 folder.
    pub sources: BTreeMap<String, String>,
    /// SHA-256 of each output, by its path in the P4 folder.
    pub outputs: BTreeMap<String, String>,
}

impl Manifest {
    /// The record of what lies in the P4 folder now.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn of(layout: &Layout, compiler: String, flags: Vec<String>) -> Result<Self> {
        let sources = layout.sources()?;
        let outputs = [layout::PIPELINE_JSON, layout::P4INFO].map(str::to_owned);
        Ok(Self {
            compiler,
            flags,
            sources: hashes(layout, sources)?,
            outputs: hashes(layout, outputs)?,
        })
    }

    /// Reads the record in the P4 folder.
    ///
    /// # Errors
    /// When it is missing or no manifest.
    pub fn read(layout: &Layout) -> Result<Self> {
        serde_json::from_slice(&layout.read(layout::MANIFEST)?)
            .with_context(|| format!("{} is not a manifest", layout::MANIFEST))
    }

    /// Writes the record to the P4 folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, layout: &Layout) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self).context("cannot encode the manifest")?;
        text.push('\n');
        let path = layout.path(layout::MANIFEST);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Files whose hash in `now` is not the one in `then`, each with what happened.
pub fn differences(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, hash) in then {
        match now.get(file) {
            None => found.push(format!("{file} is gone")),
            Some(other) if other != hash => found.push(format!("{file} has changed")),
            Some(_) => {}
        }
    }
    let new = now.keys().filter(|file| !then.contains_key(*file));
    found.extend(new.map(|file| format!("{file} is new")));
    found
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hashes(
    layout: &Layout,
    files: impl IntoIterator<Item = String>,
) -> Result<BTreeMap<String, String>> {
    files
        .into_iter()
        .map(|file| {
            let hash = sha256(&layout.read(&file)?);
            Ok((file, hash))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_others_do() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn names_each_difference() {
        let files = |list: &[(&str, &str)]| {
            let pairs = list
                .iter()
                .map(|(name, hash)| (name.to_string(), hash.to_string()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let then = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let now = files(&[("a", "1"), ("b", "9"), ("d", "4")]);
        assert_eq!(
            differences(&then, &now),
            ["b has changed", "c is gone", "d is new"]
        );
        assert!(differences(&then, &then).is_empty());
    }
}
