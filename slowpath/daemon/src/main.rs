//! The slow path: first packets, sessions, requests to offload.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use slowpath::control::{self, Control, Shutdown};
use slowpath::status::Status;
use slowpath::{http, preflight, start};
use sluice_config::Slowpath;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// The slow path of a load director: handles first packets, holds sessions, and
/// asks offload-ctl to put established ones on the switch.
///
/// SIGTERM and SIGINT stop it. Flows on the switch stay there and go on, and
/// the next process takes them over, unless --drain is given.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The configuration, slowpath.toml.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// When stopped, end all sessions and take their flows off the switch
    /// first. A second signal stops at once.
    #[arg(long)]
    drain: bool,
    /// Only say whether the configuration is right.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")),
        )
        .init();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line: contexts say where, the innermost error says what.
            eprintln!("slowpath: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = arguments.config.display();
    let text = std::fs::read_to_string(&arguments.config)
        .with_context(|| format!("cannot read {path}; give the right file with --config"))?;
    let config = Slowpath::parse(&text).map_err(|invalid| anyhow!("{path}: {invalid}"))?;
    if arguments.check {
        println!("{path}: ok");
        return Ok(());
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("control")
        .build()
        .context("cannot start the control thread")?
        .block_on(serve(&config, arguments.drain))
}

async fn serve(config: &Slowpath, drain: bool) -> anyhow::Result<()> {
    // The cheap things that can fail come first.
    preflight::check(config)?;
    let mut terminate = signal(SignalKind::terminate()).context("signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("signals")?;
    let (status_in, status) = watch::channel(Arc::new(Status {
        detail: "starting".to_owned(),
        ..Status::default()
    }));
    if let Some(address) = config.http {
        let listener = http::bind(address).await?;
        tokio::spawn(async move {
            if let Err(error) = http::serve(listener, status).await {
                tracing::error!(%error, "metrics and health are no longer served");
            }
        });
    }

    let (eal, started) = start::open_port(config)?;
    let port = started.port;
    let rules = start::steer(&port, config.workers);
    let mut running = start::workers(eal, &config.into(), (started.rx, started.tx))?;
    let counters = port.clone();
    let control = Control::new(
        config.name.clone(),
        running.links,
        rand::random,
        Instant::now(),
    )
    .with_counters(Box::new(move |map| start::port_counters(&counters, map)));
    let (shutdown, stopped) = watch::channel(Shutdown::No);
    let mut control = tokio::spawn(control::run(
        control,
        config.api.clone(),
        running.notify,
        stopped,
        status_in,
    ));
    tracing::info!(name = config.name, workers = config.workers, api = %config.api, "started");

    let how = if drain {
        Shutdown::Drain
    } else {
        Shutdown::Stop
    };
    let mut failed = None;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        Some((worker, why)) = running.ended.recv() => failed = Some((worker, why)),
        _ = &mut control => bail!("the control thread ended unexpectedly; the log has the place"),
    }
    tracing::info!(?how, "stopping");
    let how = if failed.is_some() {
        Shutdown::Stop
    } else {
        how
    };
    let _ = shutdown.send(how);
    tokio::select! {
        _ = &mut control => {}
        _ = terminate.recv() => {
            let _ = shutdown.send(Shutdown::Stop);
        }
    }
    if !control.is_finished() {
        let _ = control.await;
    }
    if let Some((worker, why)) = failed {
        bail!("worker {worker} ended: {why}");
    }
    for thread in running.threads {
        let name = thread.thread().name().unwrap_or_default().to_owned();
        if thread.join().is_err() {
            bail!("{name} panicked");
        }
    }
    drop(rules);
    drop(port);
    tracing::info!("stopped; the port is released");
    Ok(())
}
