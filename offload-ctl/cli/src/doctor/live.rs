//! A gateway that runs: is everything connected, converged, with room?

use offload_api::address::ApiAddress;
use offload_api::v1::{GetStatusRequest, GetStatusResponse, LdStatus, SwitchStatus};

use super::report::Report;
use crate::client;

/// A table that is fuller than this is worth a note, percent.
const FULL_PERCENT: u64 = 80;

/// Asks offload-ctl.
pub(super) async fn look(api: &ApiAddress, report: &mut Report) {
    let what = format!("offload-ctl {api}");
    let answer = match client::connect(api).await {
        Ok(mut client) => client
            .get_status(GetStatusRequest {})
            .await
            .map_err(client::Failure::from),
        Err(failure) => Err(failure),
    };
    match answer {
        Ok(status) => judge(what, &status.into_inner(), report),
        Err(failure) => report.problem(
            what,
            failure.to_string(),
            "before a start, name the files: sluice doctor --config offload-ctl.toml --slowpath slowpath.toml --gateway gateway.toml",
        ),
    }
}

fn judge(what: String, status: &GetStatusResponse, report: &mut Report) {
    if status.config_version == 0 {
        report.problem(what, "nothing was applied yet", "sluice apply gateway.toml");
    } else {
        report.ok(
            what,
            format!("configuration version {}", status.config_version),
        );
    }
    if let Some(switch) = &status.switch {
        of_switch(switch, report);
    }
    for ld in &status.lds {
        of_ld(ld, status.config_version, report);
    }
}

fn of_switch(switch: &SwitchStatus, report: &mut Report) {
    let what = format!("switch {}", switch.target);
    if !switch.connected {
        report.problem(
            what,
            format!("not connected: {}", switch.detail),
            "start the switch, or correct `p4runtime` in offload-ctl.toml; offload-ctl keeps trying",
        );
        return;
    }
    if !switch.converged {
        report.problem(
            what,
            format!("does not hold the configuration yet: {}", switch.detail),
            "look again in some seconds, then at offload-ctl's log",
        );
    } else if switch.detail.starts_with("next hops not resolved") {
        report.problem(
            what,
            switch.detail.clone(),
            "see that these hosts are up and on the right port; they must answer ARP",
        );
    } else {
        report.ok(what, switch.detail.clone());
    }
    for table in &switch.tables {
        if table.entries * 100 > table.size * FULL_PERCENT {
            report.note(
                format!("table {}", table.table),
                format!("{} of {} entries are used", table.entries, table.size),
            );
        }
    }
}

fn of_ld(ld: &LdStatus, version: u64, report: &mut Report) {
    let what = format!("ld \"{}\"", ld.name);
    if !ld.connected {
        report.problem(
            what,
            "is not connected to offload-ctl; packets that need it are lost",
            "start slowpath on it, and look at its log",
        );
    } else if !ld.snapshot_error.is_empty() {
        report.problem(
            what,
            format!("refuses the configuration: {}", ld.snapshot_error),
            "correct gateway.toml and apply it; until then the ld works with its last one",
        );
    } else if ld.last.as_ref().is_some_and(|last| !last.healthy) {
        let detail = ld.last.as_ref().map(|last| last.health_detail.clone());
        report.problem(
            what,
            format!("is unhealthy: {}", detail.unwrap_or_default()),
            "look at slowpath's log",
        );
    } else if ld.config_version != version {
        report.note(
            what,
            format!(
                "works with version {}, not yet {version}",
                ld.config_version
            ),
        );
    } else {
        report.ok(
            what,
            format!(
                "connected, {} workers, {} offloaded sessions",
                ld.workers, ld.flows
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    fn worst(status: &GetStatusResponse) -> Vec<(Level, String)> {
        let mut report = Report::default();
        judge("offload-ctl".to_owned(), status, &mut report);
        report
            .findings
            .into_iter()
            .filter(|finding| finding.level != Level::Ok)
            .map(|finding| (finding.level, finding.what))
            .collect()
    }

    fn good() -> GetStatusResponse {
        GetStatusResponse {
            config_version: 4,
            switch: Some(SwitchStatus {
                target: "s".to_owned(),
                connected: true,
                converged: true,
                detail: "in line with the configuration".to_owned(),
                ..SwitchStatus::default()
            }),
            lds: vec![LdStatus {
                name: "ld1".to_owned(),
                connected: true,
                config_version: 4,
                ..LdStatus::default()
            }],
            ..GetStatusResponse::default()
        }
    }

    #[test]
    fn each_fault_is_told_of_its_own() {
        assert_eq!(worst(&good()), []);
        type Spoil = fn(&mut GetStatusResponse);
        let cases: [(Spoil, Level, &str); 7] = [
            (
                |s| s.switch.as_mut().unwrap().connected = false,
                Level::Problem,
                "switch s",
            ),
            (
                |s| s.switch.as_mut().unwrap().converged = false,
                Level::Problem,
                "switch s",
            ),
            (
                |s| s.switch.as_mut().unwrap().detail = "next hops not resolved: x".to_owned(),
                Level::Problem,
                "switch s",
            ),
            (|s| s.lds[0].connected = false, Level::Problem, "ld \"ld1\""),
            (
                |s| s.lds[0].snapshot_error = "no".to_owned(),
                Level::Problem,
                "ld \"ld1\"",
            ),
            (|s| s.lds[0].config_version = 3, Level::Note, "ld \"ld1\""),
            (
                |s| {
                    s.switch.as_mut().unwrap().tables = vec![offload_api::v1::TableFill {
                        table: "slot".to_owned(),
                        entries: 81,
                        size: 100,
                    }];
                },
                Level::Note,
                "table slot",
            ),
        ];
        for (spoil, level, what) in cases {
            let mut status = good();
            spoil(&mut status);
            assert_eq!(worst(&status), [(level, what.to_owned())]);
        }
    }
}
