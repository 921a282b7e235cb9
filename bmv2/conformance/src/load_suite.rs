//! p4c's samples for v1model, with or without a test: whatever the compiler
//! makes of them must load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::compiler;
use crate::each::each;
use crate::samples;

/// Programs of which p4c makes what bmv2 does not load either: keys that are
/// expressions, and a header of a type that is not there.
const NOT_FOR_BMV2: [&str; 3] = [
    "control-hs-index-test6",
    "extract_for_header_union",
    "issue3374",
];

/// What all programs gave.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Programs that load.
    pub loaded: usize,
    /// Programs that bmv2 refuses, too, with our reasons.
    pub not_for_bmv2: BTreeMap<String, String>,
    /// Programs that only this switch refuses, with its reasons.
    pub refused: BTreeMap<String, String>,
    /// Programs that p4c refuses, with its reasons.
    pub not_compiled: BTreeMap<String, String>,
}

/// Compiles and loads the programs of a checkout whose name contains `only`.
///
/// # Errors
/// If the checkout has no programs, or the compiler can't be started.
pub fn run(checkout: &Path, only: &str) -> Result<Report> {
    compiler::require()?;
    let programs: Vec<_> = samples::programs(checkout)?
        .into_iter()
        .filter(|(name, _)| name.contains(only))
        .collect();
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    let report = Mutex::new(Report::default());
    each(&programs, |index, (name, source)| {
        // Programs of one name may lie in different folders.
        let own = folder.path().join(index.to_string());
        std::fs::create_dir_all(&own).with_context(|| format!("can't make {}", own.display()))?;
        let result = match compiler::compile(source, &own, false)? {
            Ok(compiled) => {
                let json = std::fs::read(&compiled.json)
                    .with_context(|| format!("can't read {}", compiled.json.display()))?;
                Ok(softswitch::Program::load(&json))
            }
            Err(said) => Err(said),
        };
        let Ok(mut report) = report.lock() else {
            return Ok(());
        };
        match result {
            Ok(Ok(_)) => report.loaded += 1,
            Ok(Err(reason)) => {
                let refused = if NOT_FOR_BMV2.contains(&name.as_str()) {
                    &mut report.not_for_bmv2
                } else {
                    &mut report.refused
                };
                refused.insert(name.clone(), reason.to_string());
            }
            Err(said) => {
                report.not_compiled.insert(name.clone(), said);
            }
        }
        Ok(())
    })?;
    Ok(report.into_inner().unwrap_or_default())
}
