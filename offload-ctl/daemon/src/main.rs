//! The controller: desired state, switch programming, offloaded flows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Parser;
use offload_api::v1;
use offload_ctl::core::{AdminRequest, Core, Settings};
use offload_ctl::grpc::Api;
use offload_ctl::store::Store;
use offload_ctl::wire::{P4RuntimeConnector, Pipeline};
use offload_ctl::{http, serve, session};
use p4runtime_client::{ConnectOptions, Tls};
use sluice_config::OffloadCtl;
use tracing_subscriber::EnvFilter;

/// The controller of a Sluice gateway: programs the switch, serves load
/// directors and operators.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Start-up configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// gateway.toml to apply if nothing was ever applied.
    #[arg(long, value_name = "FILE")]
    intent: Option<PathBuf>,
    /// Write logs as JSON.
    #[arg(long)]
    log_json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("SLUICE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if arguments.log_json {
        logs.json().init();
    } else {
        logs.with_ansi(false).init();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("offload-ctl: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let text = read(&arguments.config)?;
    let config = OffloadCtl::parse(&text)
        .with_context(|| format!("{} is not valid", arguments.config.display()))?;
    let pipeline = match &config.pipeline {
        Some(files) => Pipeline::from_files(files)?,
        None => Pipeline::built_in()?,
    };
    let store = Store::open(&config.store)?;
    let settings = Settings::from_config(&config, pipeline.cookie);
    let (core, events) = Core::new(settings, store)?;
    let empty = core.is_empty();
    // Addresses are taken before anything is done to the switch.
    let mut listeners = Vec::new();
    for address in &config.api {
        listeners.push(serve::listen(address).await?);
    }
    let http_listener = match config.http {
        Some(address) => Some(serve::tcp(address, "http").await?),
        None => None,
    };
    let api = Api::new(events.clone());
    let core = tokio::spawn(core.run());
    if let Some(path) = arguments.intent.as_ref().filter(|_| empty) {
        apply(&api, path).await?;
    }
    let address = config.p4runtime.address.to_string();
    let mut options = ConnectOptions::new(
        address,
        config.p4runtime.device_id,
        config.p4runtime.election_id.into(),
    );
    options.event_capacity = 4096;
    if let Some(tls) = &config.p4runtime.tls {
        let identity = tls.identity.as_ref();
        let identity = identity.map(|own| (own.certificate.as_path(), own.key.as_path()));
        options.tls = Some(Tls::read(&tls.ca, identity, tls.name.clone())?);
    }
    let connector = Arc::new(P4RuntimeConnector { options, pipeline });
    let switch = tokio::spawn(session::run(connector, events));
    let mut servers = tokio::task::JoinSet::new();
    for listener in listeners {
        servers.spawn(serve::api(listener, api.clone()));
    }
    if let Some(listener) = http_listener {
        let router = http::router(api);
        servers.spawn(async move { Ok(axum::serve(listener, router).await?) });
    }
    tracing::info!("offload-ctl is up");
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot wait for SIGTERM")?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = core => bail!("the core has ended; see the log"),
        _ = switch => bail!("the switch's session has ended; see the log"),
        Some(ended) = servers.join_next() => {
            ended.context("a server has ended; see the log")??;
        }
    }
    // Nothing to undo: the switch goes on forwarding with what it has, and the
    // next process takes over from there.
    tracing::info!("stopping; offloaded flows stay on the switch");
    Ok(())
}

async fn apply(api: &Api, path: &Path) -> anyhow::Result<()> {
    let request = v1::ApplyRequest {
        config_toml: read(path)?,
        ..v1::ApplyRequest::default()
    };
    let response = api
        .ask(|reply| AdminRequest::Apply(request, reply))
        .await
        .map_err(|status| anyhow::anyhow!("{}", status.message()))?;
    if !response.problems.is_empty() {
        let problems: Vec<String> = response
            .problems
            .iter()
            .map(|p| format!("{}: {}; {}", p.place, p.what, p.way_out))
            .collect();
        bail!("{} is not valid: {}", path.display(), problems.join("\n"));
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
