//! Metrics and health over HTTP.
//!
//! * `GET /metrics`: Prometheus's text format.
//! * `GET /healthz`: 200 while all workers run, else 503; the reason as text.
//! * `GET /readyz`: 200 while packets are handled, else 503.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::http::{StatusCode, header};
use axum::routing::get;
use axum::{Router, extract::State};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::status::Status;

type Shared = watch::Receiver<Arc<Status>>;

/// Binds the address. Apart from serving, so that an address in use is found
/// before anything else starts.
///
/// # Errors
/// A sentence that names the address and the way out.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot serve HTTP on {address}; change `http` in slowpath.toml or stop what listens \
             there"
        )
    })
}

/// Serves until the process ends.
///
/// # Errors
/// The listener's.
pub async fn serve(listener: TcpListener, status: Shared) -> std::io::Result<()> {
    axum::serve(listener, router(status)).await
}

/// The three pages.
pub fn router(status: Shared) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(status)
}

async fn metrics(
    State(status): State<Shared>,
) -> ([(header::HeaderName, &'static str); 1], String) {
    let text = status.borrow().prometheus();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

async fn healthz(State(status): State<Shared>) -> (StatusCode, String) {
    let status = status.borrow().clone();
    answer(status.healthy, &status.detail)
}

async fn readyz(State(status): State<Shared>) -> (StatusCode, String) {
    let status = status.borrow().clone();
    answer(status.ready, &status.detail)
}

fn answer(good: bool, detail: &str) -> (StatusCode, String) {
    if good {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{detail}\n"))
    }
}
