//! Do the files parse, and do they fit together?

use std::path::Path;

use p4_contract::constants::TUNNEL_OVERHEAD;
use sluice_config::{Gateway, Invalid, OffloadCtl, PortRole, Slowpath};

use super::report::Report;

pub(super) fn gateway(path: Option<&Path>, report: &mut Report) -> Option<Gateway> {
    let gateway = file(path, Gateway::parse, report)?;
    if let Some(path) = path {
        report.ok(
            path.display().to_string(),
            format!(
                "valid: {} ports, {} lds, {} vips",
                gateway.ports.len(),
                gateway.lds.len(),
                gateway.vips.len()
            ),
        );
    }
    Some(gateway)
}

pub(super) fn slowpath(path: Option<&Path>, report: &mut Report) -> Option<Slowpath> {
    let slowpath = file(path, Slowpath::parse, report)?;
    if let Some(path) = path {
        report.ok(
            path.display().to_string(),
            format!(
                "valid: ld \"{}\", {} workers",
                slowpath.name, slowpath.workers
            ),
        );
    }
    Some(slowpath)
}

pub(super) fn offload_ctl(path: Option<&Path>, report: &mut Report) -> Option<OffloadCtl> {
    let config = file(path, OffloadCtl::parse, report)?;
    if let Some(path) = path {
        report.ok(
            path.display().to_string(),
            format!("valid: switch at {}", config.p4runtime.address),
        );
    }
    Some(config)
}

fn file<T>(
    path: Option<&Path>,
    parse: impl FnOnce(&str) -> Result<T, Invalid>,
    report: &mut Report,
) -> Option<T> {
    let path = path?;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            report.problem(
                path.display().to_string(),
                format!("cannot be read: {error}"),
                "correct the path, or the file's permissions",
            );
            return None;
        }
    };
    match parse(&text) {
        Ok(value) => Some(value),
        Err(invalid) => {
            for problem in invalid.problems {
                report.problem(
                    format!("{} {}", path.display(), problem.place),
                    problem.what,
                    problem.way_out,
                );
            }
            None
        }
    }
}

/// What two files have to agree on.
pub(super) fn together(
    gateway: Option<&Gateway>,
    slowpath: Option<&Slowpath>,
    config: Option<&OffloadCtl>,
    report: &mut Report,
) {
    if let (Some(slowpath), Some(config)) = (slowpath, config)
        && !config.api.contains(&slowpath.api)
    {
        report.problem(
            "slowpath.toml api",
            format!("{} is none of offload-ctl's addresses", slowpath.api),
            "name one of `api` in offload-ctl.toml, or add it there",
        );
    }
    let (Some(gateway), Some(slowpath)) = (gateway, slowpath) else {
        return;
    };
    let Some(ld) = gateway.lds.iter().find(|ld| ld.name == slowpath.name) else {
        report.problem(
            "slowpath.toml name",
            format!("there is no ld \"{}\" in gateway.toml", slowpath.name),
            "correct the name, or add the ld",
        );
        return;
    };
    if ld.vtep != slowpath.vtep {
        report.problem(
            "slowpath.toml vtep",
            format!(
                "{} here, {} for ld \"{}\" in gateway.toml",
                slowpath.vtep, ld.vtep, ld.name
            ),
            "write the same address in both",
        );
    }
    let largest = gateway
        .ports
        .iter()
        .filter(|port| port.role != PortRole::Ld)
        .map(|port| port.mtu)
        .max()
        .unwrap_or(0);
    let needed = largest.saturating_add(TUNNEL_OVERHEAD);
    if slowpath.eal.mtu < needed {
        report.problem(
            "slowpath.toml eal.mtu",
            format!(
                "{} bytes do not carry the largest packet ({largest}) in the tunnel",
                slowpath.eal.mtu
            ),
            format!("write at least {needed}"),
        );
    }
}
