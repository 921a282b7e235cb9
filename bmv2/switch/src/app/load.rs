//! What the subcommands read: programs, their P4Info, entries.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use p4runtime_proto::p4::v1::ForwardingPipelineConfig;
use p4runtime_proto::p4info::{self, P4InfoError};
use softswitch::p4rt::P4RuntimeServer;
use softswitch::stf::{self, Entries};
use softswitch::{Program, Switch, Timestamp};

use super::format::{Format, UNDERSTOOD, update_lines};

/// Reads a text file.
pub(super) fn text(path: &Path, what: &str) -> anyhow::Result<String> {
    let bytes =
        std::fs::read(path).with_context(|| format!("cannot read {what} {}", path.display()))?;
    String::from_utf8(bytes)
        .map_err(|_| anyhow!("cannot read {what} {}: it is not text", path.display()))
}

/// Loads a program from its JSON.
pub(super) fn program(path: &Path) -> anyhow::Result<Program> {
    Program::load(&json(path)?)
        .with_context(|| format!("cannot load the program {}", path.display()))
}

/// Makes a program the running one, with its P4Info if there is one.
pub(super) fn install(
    path: &Path,
    p4info: Option<&Path>,
    switch: &Switch,
    server: &P4RuntimeServer,
) -> anyhow::Result<()> {
    let Some(p4info) = p4info else {
        switch.install(program(path)?);
        return Ok(());
    };
    let info = p4info::read(p4info).map_err(|error| match error {
        P4InfoError::Text(error) => anyhow!("cannot read the P4Info {}: {error}", p4info.display()),
        error => anyhow!(error),
    })?;
    server
        .preload(ForwardingPipelineConfig {
            p4info: Some(info),
            p4_device_config: json(path)?,
            cookie: None,
        })
        .with_context(|| format!("cannot use {} with {}", path.display(), p4info.display()))
}

fn json(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read the program {}", path.display()))
}

/// Brings the entries of a file into the switch: a WriteRequest in protobuf
/// text format, or lines. `log` gets what the lines ask to be shown.
pub(super) fn entries(
    path: &Path,
    switch: &Arc<Switch>,
    server: &P4RuntimeServer,
    has_p4info: bool,
    log: impl FnMut(&str),
) -> anyhow::Result<Entries> {
    let text = text(path, "the entries")?;
    let format = Format::of(&text);
    if let Format::Other(what) = format {
        bail!(
            "cannot use the entries in {}: the file is {what}. {UNDERSTOOD}",
            path.display()
        );
    }
    if format == Format::Lines {
        let entries = stf::apply_entries(switch, &text, Timestamp::default(), log)
            .with_context(|| format!("cannot use the entries in {}", path.display()))?;
        if has_p4info {
            server
                .adopt_entries()
                .with_context(|| format!("cannot use the entries in {}", path.display()))?;
        }
        return Ok(entries);
    }
    if !has_p4info {
        bail!(
            "the entries in {} are a WriteRequest, which refers to objects by the ids of \
             the P4Info: give it with --p4info",
            path.display()
        );
    }
    let request = p4runtime_proto::write_text::from_text(&text)
        .with_context(|| format!("cannot read the entries in {}", path.display()))?;
    let count = request.updates.len();
    server.preload_updates(request.updates).map_err(|failed| {
        let places = update_lines(&text);
        // A list in brackets has lines of its own.
        let place = |i: usize| match places.get(i) {
            Some(line) if places.len() == count => format!("line {line}, updates[{i}]"),
            _ => format!("updates[{i}]"),
        };
        let lines: Vec<_> = failed
            .iter()
            .map(|(i, error)| format!("\n  {}: {error}", place(*i)))
            .collect();
        anyhow!(
            "{} of {count} updates in {} were refused:{}",
            failed.len(),
            path.display(),
            lines.concat()
        )
    })?;
    Ok(Entries {
        count,
        ..Entries::default()
    })
}
