//! Metrics in Prometheus' text format, and health.

use std::fmt::Write;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use offload_api::v1;

use crate::core::AdminRequest;
use crate::grpc::{self, Api};

/// The routes: /metrics, /healthz, /readyz.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(api)
}

/// Ready: something was applied, and the switch has it.
async fn ready(State(api): State<Api>) -> Response {
    match api.ask(AdminRequest::GetStatus).await {
        Ok(status) => {
            let converged = status
                .switch
                .as_ref()
                .is_some_and(|switch| switch.converged);
            if status.config_version == 0 {
                let text = "nothing was applied yet; run `sluice apply gateway.toml`\n";
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            } else if converged {
                "ready\n".into_response()
            } else {
                let detail = status
                    .switch
                    .map(|switch| switch.detail)
                    .unwrap_or_default();
                (StatusCode::SERVICE_UNAVAILABLE, format!("{detail}\n")).into_response()
            }
        }
        Err(status) => {
            let text = format!("{}\n", status.message());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn metrics(State(api): State<Api>) -> Response {
    let status = match api.ask(AdminRequest::GetStatus).await {
        Ok(status) => status,
        Err(status) => {
            let text = format!("{}\n", status.message());
            return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
        }
    };
    // Scrapes read the switch's small counters; flow tables are not read.
    let books = match api.ask(AdminRequest::Counters).await {
        Ok(view) => view
            .dataplane
            .read_counters(vec![
                crate::dataplane::Counter::Drop,
                crate::dataplane::Counter::Path,
            ])
            .await
            .ok(),
        Err(_) => None,
    };
    let mut text = Text::default();
    render_status(&mut text, &status);
    if let Some(cells) = books {
        text.family(
            "sluice_switch_drops_total",
            "counter",
            "Packets dropped by the switch, by reason.",
        );
        for (index, count) in cells
            .get(&crate::dataplane::Counter::Drop)
            .into_iter()
            .flatten()
        {
            let reason = grpc::drop_name(*index);
            text.sample(
                "sluice_switch_drops_total",
                &[("reason", &reason)],
                count.packets,
            );
        }
        text.family(
            "sluice_switch_path_packets_total",
            "counter",
            "Packets that were not dropped, by their way through the switch.",
        );
        for (index, count) in cells
            .get(&crate::dataplane::Counter::Path)
            .into_iter()
            .flatten()
        {
            let path = p4_contract::Path::ALL
                .into_iter()
                .find(|path| *path as u32 == *index)
                .map_or_else(|| index.to_string(), |path| path.name().to_owned());
            text.sample(
                "sluice_switch_path_packets_total",
                &[("path", &path)],
                count.packets,
            );
        }
    }
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        text.0,
    )
        .into_response()
}

fn render_status(text: &mut Text, status: &v1::GetStatusResponse) {
    text.family(
        "sluice_config_version",
        "gauge",
        "Version of the applied configuration.",
    );
    text.sample("sluice_config_version", &[], status.config_version);
    text.family("sluice_flows", "gauge", "Offloaded sessions.");
    text.sample("sluice_flows", &[], status.flows);
    if let Some(switch) = &status.switch {
        text.family(
            "sluice_switch_connected",
            "gauge",
            "Whether the switch is connected.",
        );
        text.sample("sluice_switch_connected", &[], u64::from(switch.connected));
        text.family(
            "sluice_switch_converged",
            "gauge",
            "Whether the switch holds what the configuration says.",
        );
        text.sample("sluice_switch_converged", &[], u64::from(switch.converged));
        text.family(
            "sluice_switch_last_readback_seconds",
            "gauge",
            "When the switch was compared last, since 1970.",
        );
        text.sample(
            "sluice_switch_last_readback_seconds",
            &[],
            switch.last_readback_unix_ms / 1000,
        );
        text.family("sluice_table_entries", "gauge", "Entries of a table.");
        for table in &switch.tables {
            text.sample(
                "sluice_table_entries",
                &[("table", &table.table)],
                table.entries,
            );
        }
        text.family("sluice_table_size", "gauge", "Room of a table.");
        for table in &switch.tables {
            text.sample("sluice_table_size", &[("table", &table.table)], table.size);
        }
    }
    text.family(
        "sluice_offload_ctl_total",
        "counter",
        "Counters of offload-ctl itself, by name.",
    );
    let mut counters: Vec<_> = status.counters.iter().collect();
    counters.sort();
    for (name, value) in counters {
        text.sample("sluice_offload_ctl_total", &[("name", name)], *value);
    }
    text.family(
        "sluice_ld_connected",
        "gauge",
        "Whether an LD is connected.",
    );
    for ld in &status.lds {
        text.sample(
            "sluice_ld_connected",
            &[("ld", &ld.name)],
            u64::from(ld.connected),
        );
    }
    text.family("sluice_ld_flows", "gauge", "Offloaded sessions of an LD.");
    for ld in &status.lds {
        text.sample("sluice_ld_flows", &[("ld", &ld.name)], ld.flows);
    }
    text.family(
        "sluice_ld_config_version",
        "gauge",
        "Version of the snapshot an LD works with.",
    );
    for ld in &status.lds {
        text.sample(
            "sluice_ld_config_version",
            &[("ld", &ld.name)],
            ld.config_version,
        );
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_in_the_text_format() {
        let mut text = Text::default();
        text.family("x", "gauge", "Help.");
        text.sample("x", &[], 1);
        text.sample("x", &[("a", "b\"c"), ("d", "e")], 2);
        assert_eq!(
            text.0,
            "# HELP x Help.\n# TYPE x gauge\nx 1\nx{a=\"b\\\"c\",d=\"e\"} 2\n"
        );
    }
}
