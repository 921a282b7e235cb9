//! From the P4 folder to the generated Rust sources.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use p4runtime_proto::p4info;
use sha2::{Digest, Sha256};

use crate::layout::{self, Layout};
use crate::{model, render, source};

/// Files by their name in the folder of generated sources.
pub type Files = BTreeMap<String, String>;

/// All that is generated.
#[derive(Debug)]
pub struct Generated {
    /// The Rust sources.
    pub files: Files,
    /// docs/table-contract.md with the generated part up to date.
    pub document: String,
}

/// Renders everything from what lies in the P4 folder.
///
/// # Errors
/// When an input is missing or not of the promised form, or `rustfmt` fails.
pub fn render(layout: &Layout) -> Result<Generated> {
    let text = layout.read_text(layout::P4INFO)?;
    let constants = source::constants(&layout.read_text("include/constants.p4")?)
        .context("include/constants.p4")?;
    let enumerations =
        source::enumerations(&layout.read_text("include/types.p4")?).context("include/types.p4")?;
    let p4info = p4info::from_text(&text).context(layout::P4INFO)?;
    let mut types = BTreeMap::new();
    for name in layout.sources()? {
        types.extend(source::typed_values(&layout.read_text(&name)?));
    }
    let declared = model::Declarations {
        constants,
        enumerations,
        types,
    };
    let contract = model::build(&p4info, declared).context(layout::P4INFO)?;
    let cookie = cookie(text.as_bytes(), &layout.read(layout::PIPELINE_JSON)?);
    let mut files = render::render(&contract, cookie);
    for (name, content) in &mut files {
        *content = format(content).with_context(|| format!("generated {name}"))?;
    }
    let path = layout.document();
    let document = render::doc::insert(&document(layout)?, &render::doc::render(&contract))
        .with_context(|| format!("{} has no generated part", path.display()))?;
    Ok(Generated { files, document })
}

/// The document as it lies there.
///
/// # Errors
/// When it cannot be read.
pub fn document(layout: &Layout) -> Result<String> {
    let path = layout.document();
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes everything and removes sources that are no longer generated.
///
/// # Errors
/// When a file cannot be written or removed.
pub fn write(layout: &Layout, generated: &Generated) -> Result<()> {
    let Generated { files, document } = generated;
    for name in present(layout)?.keys() {
        if !files.contains_key(name) {
            let path = layout.generated().join(name);
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    for (name, content) in files {
        let path = layout.generated().join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let path = layout.document();
    std::fs::write(&path, document).with_context(|| format!("cannot write {}", path.display()))
}

/// The files that lie in the folder of generated sources.
///
/// # Errors
/// When one cannot be read.
pub fn present(layout: &Layout) -> Result<Files> {
    let mut files = Files::new();
    for folder in ["", "tables"] {
        let path = layout.generated().join(folder);
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("cannot list {}", path.display()))?,
        };
        for entry in entries {
            let path = entry.context("cannot list a folder")?.path();
            let Some(name) = path.file_name() else {
                continue;
            };
            if path.is_file() {
                let content = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let name = name.to_string_lossy();
                let name = if folder.is_empty() {
                    name.into_owned()
                } else {
                    format!("{folder}/{name}")
                };
                files.insert(name, content);
            }
        }
    }
    Ok(files)
}

/// Tells this program from any other, for P4Runtime's pipeline cookie: the
/// first eight bytes of a hash over both outputs.
fn cookie(p4info: &[u8], pipeline: &[u8]) -> u64 {
    let digest = Sha256::new()
        .chain_update(p4info)
        .chain_update(pipeline)
        .finalize();
    let first = digest.iter().take(8);
    first.fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn format(content: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run rustfmt: add the component to the Rust toolchain")?;
    // A file is far smaller than what rustfmt reads before it writes, so one
    // pipe after the other cannot block.
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(content.as_bytes())
            .context("cannot feed rustfmt")?;
    }
    let output = child.wait_with_output().context("rustfmt did not end")?;
    if !output.status.success() {
        bail!(
            "rustfmt refuses it: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("rustfmt wrote no UTF-8")
}
