//! `apply` and `plan`.

use std::path::Path;
use std::process::ExitCode;

use offload_api::address::ApiAddress;
use offload_api::v1::{ApplyRequest, ApplyResponse, GetConfigRequest, change::Kind};
use serde_json::json;

use crate::client::{Failure, connect, read};
use crate::output::print_json;

pub(crate) async fn run(
    api: &ApiAddress,
    file: &Path,
    dry_run: bool,
    expected_version: u64,
    json: bool,
) -> Result<ExitCode, Failure> {
    let config_toml = read(file)?;
    let name = file.display().to_string();
    apply(api, &name, config_toml, dry_run, expected_version, json).await
}

/// Applies an earlier version again.
pub(crate) async fn rollback(
    api: &ApiAddress,
    version: u64,
    dry_run: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let config = connect(api)
        .await?
        .get_config(GetConfigRequest { version })
        .await?
        .into_inner();
    let name = format!("version {version}");
    apply(api, &name, config.config_toml, dry_run, 0, json).await
}

async fn apply(
    api: &ApiAddress,
    name: &str,
    config_toml: String,
    dry_run: bool,
    expected_version: u64,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut client = connect(api).await?;
    let response = client
        .apply(ApplyRequest {
            config_toml,
            dry_run,
            expected_version,
        })
        .await?
        .into_inner();
    if json {
        print_json(&to_json(&response, dry_run));
    } else if response.problems.is_empty() {
        print_changes(&response, dry_run);
    }
    if response.problems.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if json {
        return Ok(ExitCode::from(1));
    }
    let count = response.problems.len();
    let mut text = format!(
        "{name} is not valid, nothing was changed ({count} problem{})",
        if count == 1 { "" } else { "s" }
    );
    for problem in &response.problems {
        text.push_str(&format!(
            "\n  {}: {}\n    -> {}",
            problem.place, problem.what, problem.way_out
        ));
    }
    Err(Failure::Refused(text))
}

fn print_changes(response: &ApplyResponse, dry_run: bool) {
    for change in &response.changes {
        let sign = match change.kind() {
            Kind::Add => "+",
            Kind::Remove => "-",
            Kind::Modify => "~",
            Kind::Unspecified => "?",
        };
        println!("{sign} {}: {}", change.object, change.detail);
    }
    let count = response.changes.len();
    let s = if count == 1 { "" } else { "s" };
    if dry_run && count == 0 {
        println!("no change to version {}", response.version);
    } else if dry_run {
        println!(
            "{count} change{s} to version {}; nothing was changed yet",
            response.version
        );
    } else {
        println!(
            "version {} is in force, {count} change{s}",
            response.version
        );
    }
}

fn to_json(response: &ApplyResponse, dry_run: bool) -> serde_json::Value {
    let changes: Vec<_> = response
        .changes
        .iter()
        .map(|change| {
            let kind = match change.kind() {
                Kind::Add => "add",
                Kind::Remove => "remove",
                Kind::Modify => "modify",
                Kind::Unspecified => "unspecified",
            };
            json!({"kind": kind, "object": change.object, "detail": change.detail})
        })
        .collect();
    let problems: Vec<_> = response
        .problems
        .iter()
        .map(|p| json!({"place": p.place, "what": p.what, "way_out": p.way_out}))
        .collect();
    json!({
        "version": response.version,
        "applied": !dry_run && response.problems.is_empty(),
        "changes": changes,
        "problems": problems,
    })
}
