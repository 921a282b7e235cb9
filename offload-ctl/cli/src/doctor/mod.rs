//! `doctor`: what would keep Sluice from working, with the way out.

mod files;
mod interfaces;
mod live;
mod offload_state;
mod report;
mod switch;
mod system;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use offload_api::address::ApiAddress;

use report::Report;

/// What to look at: with files named, what would keep processes from starting
/// with them; without, the gateway that runs. Nothing is changed, and no packet
/// is sent.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// offload-ctl.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// slowpath.toml.
    #[arg(long, value_name = "FILE")]
    slowpath: Option<PathBuf>,
    /// gateway.toml.
    #[arg(long, value_name = "FILE")]
    gateway: Option<PathBuf>,
    /// An interface of the software switch, as softswitch -i has it; may be
    /// repeated.
    #[arg(long = "interface", short, value_name = "PORT@IFACE")]
    interfaces: Vec<String>,
    #[command(flatten)]
    format: crate::Format,
}

/// Looks at everything that was named, or at the gateway that runs.
pub(crate) async fn run(api: &ApiAddress, options: &Options) -> ExitCode {
    let mut report = Report::default();
    let files = [&options.config, &options.slowpath, &options.gateway];
    if files.iter().all(|file| file.is_none()) && options.interfaces.is_empty() {
        live::look(api, &mut report).await;
    }
    let gateway = files::gateway(options.gateway.as_deref(), &mut report);
    let slowpath = files::slowpath(options.slowpath.as_deref(), &mut report);
    let config = files::offload_ctl(options.config.as_deref(), &mut report);
    files::together(
        gateway.as_ref(),
        slowpath.as_ref(),
        config.as_ref(),
        &mut report,
    );
    system::look(
        slowpath.as_ref(),
        !options.interfaces.is_empty(),
        &mut report,
    );
    if let Some(slowpath) = &slowpath {
        interfaces::of_slowpath(slowpath, &mut report);
    }
    for interface in &options.interfaces {
        interfaces::of_switch(interface, gateway.as_ref(), &mut report);
    }
    if let Some(config) = &config {
        system::store(config, &mut report);
        system::addresses(config, &mut report).await;
        switch::look(config, &mut report).await;
    }
    report.finish(options.format.json)
}
