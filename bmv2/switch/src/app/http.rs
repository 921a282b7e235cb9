//! Port statistics over HTTP.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Serialize;
use softswitch::p4rt::P4RuntimeServer;
use softswitch::ports::{DataPlane, DataPlaneSnapshot, LinkState};
use tokio::net::TcpListener;

#[derive(Clone)]
struct State {
    plane: Arc<DataPlane>,
    server: Arc<P4RuntimeServer>,
}

#[derive(Debug, Serialize)]
struct Stats {
    #[serde(flatten)]
    plane: DataPlaneSnapshot,
    /// Packets, digests and notices that a controller was too slow to take.
    controller_messages_lost: u64,
}

impl State {
    fn stats(&self) -> Stats {
        Stats {
            plane: self.plane.snapshot(),
            controller_messages_lost: self.server.messages_lost(),
        }
    }
}

/// Serves until the process ends.
pub(crate) async fn serve(
    listener: TcpListener,
    plane: Arc<DataPlane>,
    server: Arc<P4RuntimeServer>,
) -> anyhow::Result<()> {
    let state = State { plane, server };
    let router = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/stats", get(stats))
        .route("/metrics", get(metrics))
        .with_state(state);
    axum::serve(listener, router)
        .await
        .context("the HTTP server failed")
}

async fn stats(axum::extract::State(state): axum::extract::State<State>) -> Response {
    match serde_json::to_string(&state.stats()) {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
        )
            .into_response(),
    }
}

async fn metrics(axum::extract::State(state): axum::extract::State<State>) -> Response {
    let text = prometheus(&state.stats());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The statistics in the text format of Prometheus.
fn prometheus(stats: &Stats) -> String {
    let mut text = String::new();
    let plane = &stats.plane;
    type Field = fn(&softswitch::ports::PortSnapshot) -> u64;
    let by_port: [(&str, &str, Field); 14] = [
        ("rx_packets", "Packets received.", |p| p.rx_packets),
        ("rx_bytes", "Bytes received.", |p| p.rx_bytes),
        (
            "rx_missed",
            "Packets lost before the switch: receive ring full.",
            |p| p.rx_missed,
        ),
        (
            "rx_truncated",
            "Packets dropped: longer than the MTU.",
            |p| p.rx_truncated,
        ),
        (
            "rx_checksum_unfinished",
            "Packets received with a checksum left to hardware.",
            |p| p.rx_checksum_unfinished,
        ),
        ("tx_packets", "Packets sent.", |p| p.tx_packets),
        ("tx_bytes", "Bytes sent.", |p| p.tx_bytes),
        (
            "tx_queue_full",
            "Packets not sent: transmit queue full.",
            |p| p.tx_queue_full,
        ),
        ("tx_port_down", "Packets not sent: interface down.", |p| {
            p.tx_port_down
        }),
        (
            "tx_too_long",
            "Packets not sent: longer than the MTU.",
            |p| p.tx_too_long,
        ),
        (
            "tx_refused",
            "Packets not sent: refused by the system.",
            |p| p.tx_refused,
        ),
        (
            "rx_file_damaged",
            "Input files that could not be read to their end.",
            |p| p.rx_file_damaged,
        ),
        (
            "not_captured",
            "Packets missing from the capture files.",
            |p| p.not_captured,
        ),
        (
            "reopened",
            "Times that the interface was opened again.",
            |p| p.reopened,
        ),
    ];
    for (name, help, field) in by_port {
        head(&mut text, &format!("port_{name}"), help);
        for port in &plane.ports {
            let _ = writeln!(
                text,
                "softswitch_port_{name}_total{{port=\"{}\",interface=\"{}\"}} {}",
                port.port,
                port.interface,
                field(port)
            );
        }
    }
    let _ = writeln!(
        text,
        "# HELP softswitch_port_up Whether the link behind the port is up.\n\
         # TYPE softswitch_port_up gauge"
    );
    for port in &plane.ports {
        let _ = writeln!(
            text,
            "softswitch_port_up{{port=\"{}\",interface=\"{}\"}} {}",
            port.port,
            port.interface,
            u8::from(port.link == LinkState::Up)
        );
    }
    head(&mut text, "dropped", "Packets dropped in the pipeline.");
    for (reason, count) in &plane.dropped {
        let _ = writeln!(
            text,
            "softswitch_dropped_total{{reason=\"{reason}\"}} {count}"
        );
    }
    let totals = [
        ("received", "Packets given to the pipeline.", plane.received),
        (
            "transmitted",
            "Packets that left the pipeline for a port.",
            plane.transmitted,
        ),
        (
            "copies",
            "Copies made by clone and multicast.",
            plane.copies,
        ),
        (
            "reruns",
            "Packets resubmitted or recirculated.",
            plane.reruns,
        ),
        (
            "no_such_port",
            "Packets for a port that does not exist.",
            plane.no_such_port,
        ),
        (
            "packet_ins",
            "Packets passed to the controller.",
            plane.packet_ins,
        ),
        (
            "packet_ins_lost",
            "Packets for the controller that were lost.",
            plane.packet_ins_lost,
        ),
        (
            "packet_outs",
            "Packets from the controller.",
            plane.packet_outs,
        ),
        (
            "packet_outs_lost",
            "Packets from the controller that were lost.",
            plane.packet_outs_lost,
        ),
        (
            "digests_lost",
            "Digests that were lost.",
            plane.digests_lost,
        ),
        (
            "controller_messages_lost",
            "Messages that a controller was too slow to take.",
            stats.controller_messages_lost,
        ),
    ];
    for (name, help, value) in totals {
        head(&mut text, name, help);
        let _ = writeln!(text, "softswitch_{name}_total {value}");
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(
        text,
        "# HELP softswitch_{name}_total {help}\n# TYPE softswitch_{name}_total counter"
    );
}
