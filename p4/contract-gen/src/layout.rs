//! Where the files are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The program, relative to the P4 folder.
pub const PROGRAM: &str = "gateway.p4";
/// Compiler output, relative to the P4 folder.
pub const PIPELINE_JSON: &str = "build/gateway.json";
/// Compiler output, relative to the P4 folder.
pub const P4INFO: &str = "build/gateway.p4info.txtpb";
/// Which sources gave which outputs, relative to the P4 folder.
pub const MANIFEST: &str = "build/manifest.json";

/// The P4 folder of a source tree.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout of the P4 folder at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The P4 folder of the source tree that this program was built from.
    pub fn of_this_tree() -> Self {
        Self::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
    }

    /// The P4 folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The source tree that the P4 folder is in.
    pub fn tree(&self) -> PathBuf {
        self.path("..")
    }

    /// A file of the P4 folder.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// The folder of the generated Rust sources.
    pub fn generated(&self) -> PathBuf {
        self.path("contract/src/generated")
    }

    /// The document that describes the contract to people.
    pub fn document(&self) -> PathBuf {
        self.path("../docs/table-contract.md")
    }

    /// Reads a file of the P4 folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, relative: &str) -> Result<Vec<u8>> {
        let path = self.path(relative);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Reads a text file of the P4 folder.
    ///
    /// # Errors
    /// When it cannot be read or is not UTF-8.
    pub fn read_text(&self, relative: &str) -> Result<String> {
        String::from_utf8(self.read(relative)?).with_context(|| format!("{relative} is not UTF-8"))
    }

    /// All `.p4` files, sorted, relative to the P4 folder.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn sources(&self) -> Result<Vec<String>> {
        let mut found = vec![PROGRAM.to_owned()];
        let mut folders = vec!["include".to_owned()];
        while let Some(folder) = folders.pop() {
            let path = self.path(&folder);
            let entries = std::fs::read_dir(&path)
                .with_context(|| format!("cannot list {}", path.display()))?;
            for entry in entries {
                let entry = entry.with_context(|| format!("cannot list {}", path.display()))?;
                let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if entry.path().is_dir() {
                    folders.push(name);
                } else if name.ends_with(".p4") {
                    found.push(name);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
