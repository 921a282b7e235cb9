//! The command line for operators.

mod apply;
mod client;
mod doctor;
mod explain;
mod output;
mod servers;
mod show;
mod tuple;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use offload_api::address::ApiAddress;

use crate::client::Failure;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused: problems in a file, an unknown name, findings of doctor
  2  wrong command line, or a file that cannot be read
  3  offload-ctl (or the switch behind it) cannot be reached";

/// Operates a Sluice gateway.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, after_help = EXIT_CODES)]
struct Arguments {
    /// Address of offload-ctl: IP:PORT or unix:/path.
    #[arg(
        long,
        global = true,
        env = "SLUICE_API",
        default_value = "127.0.0.1:9660",
        value_name = "ADDRESS"
    )]
    api: ApiAddress,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a gateway.toml the configuration, as a whole or not at all.
    Apply {
        /// The file; - for standard input.
        file: PathBuf,
        /// Only say what would change.
        #[arg(long)]
        dry_run: bool,
        /// Refuse unless this version is in force.
        #[arg(long, default_value_t = 0, value_name = "VERSION")]
        expect: u64,
        #[command(flatten)]
        format: Format,
    },
    /// Say what applying a gateway.toml would change.
    Plan {
        /// The file; - for standard input.
        file: PathBuf,
        #[command(flatten)]
        format: Format,
    },
    /// Apply an earlier version again, as a new version.
    Rollback {
        /// The version; see `sluice show config --at VERSION`.
        version: u64,
        /// Only say what would change.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        format: Format,
    },
    /// Show how things are.
    #[command(subcommand)]
    Show(Show),
    /// Tell what happens to a packet, and why.
    #[command(after_help = "Example: sluice explain tcp 10.1.0.2:40000 10.100.0.10:80")]
    Explain {
        /// tcp or udp.
        protocol: tuple::Protocol,
        /// Source ADDRESS:PORT.
        source: std::net::SocketAddrV4,
        /// Destination ADDRESS:PORT.
        destination: std::net::SocketAddrV4,
        /// Tenant, 0 for public.
        #[arg(long, default_value_t = 0)]
        vni: u32,
        #[command(flatten)]
        format: Format,
    },
    /// Give a server no new connections; established ones go on.
    Drain(Server),
    /// Put a drained server back into service.
    Undrain(Server),
    /// Take a server out of service and end its connections now.
    Kill(Server),
    /// Look for what keeps Sluice from working: with files named, before a
    /// start; without, in the gateway that runs.
    Doctor(doctor::Options),
}

#[derive(Debug, Subcommand)]
enum Show {
    /// Switch, load directors, room in the tables.
    Status {
        #[command(flatten)]
        format: Format,
    },
    /// VIPs with their servers and totals.
    Vips {
        #[command(flatten)]
        format: Format,
    },
    /// Offloaded flows.
    Flows {
        /// Only of this VIP.
        #[arg(long, value_name = "NAME")]
        vip: Option<String>,
        /// Only of this load director.
        #[arg(long, value_name = "NAME")]
        ld: Option<String>,
        /// Read packets and bytes of each flow from the switch.
        #[arg(long)]
        counters: bool,
        /// Most flows to show.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        #[command(flatten)]
        format: Format,
    },
    /// Where packets went: ports, ways, drops by reason, and whether the
    /// books balance.
    Drops {
        #[command(flatten)]
        format: Format,
    },
    /// The configuration in force, as it was applied.
    Config {
        /// An earlier version instead, as long as it is kept.
        #[arg(long = "at", default_value_t = 0, value_name = "VERSION")]
        version: u64,
        #[command(flatten)]
        format: Format,
    },
}

/// Form of the output.
#[derive(Debug, Clone, Copy, Args)]
struct Format {
    /// Write JSON for machines.
    #[arg(long)]
    json: bool,
}

/// A server of a VIP.
#[derive(Debug, Args)]
struct Server {
    /// Name of the VIP.
    vip: String,
    /// Name of the server.
    server: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("sluice: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let api = arguments.api;
    match arguments.command {
        Command::Apply {
            file,
            dry_run,
            expect,
            format,
        } => apply::run(&api, &file, dry_run, expect, format.json).await,
        Command::Plan { file, format } => apply::run(&api, &file, true, 0, format.json).await,
        Command::Show(Show::Status { format }) => show::status(&api, format.json).await,
        Command::Show(Show::Vips { format }) => show::vips(&api, format.json).await,
        Command::Show(Show::Flows {
            vip,
            ld,
            counters,
            limit,
            format,
        }) => {
            let filter = show::FlowFilter {
                vip,
                ld: ld.unwrap_or_default(),
                counters,
                limit,
            };
            show::flows(&api, &filter, format.json).await
        }
        Command::Show(Show::Drops { format }) => show::drops(&api, format.json).await,
        Command::Show(Show::Config { version, format }) => {
            show::config(&api, version, format.json).await
        }
        Command::Rollback {
            version,
            dry_run,
            format,
        } => apply::rollback(&api, version, dry_run, format.json).await,
        Command::Explain {
            protocol,
            source,
            destination,
            vni,
            format,
        } => {
            let tuple = tuple::tuple(protocol, source, destination, vni);
            explain::run(&api, tuple, format.json).await
        }
        Command::Drain(server) => servers::drain(&api, &server.vip, &server.server).await,
        Command::Undrain(server) => servers::undrain(&api, &server.vip, &server.server).await,
        Command::Kill(server) => servers::kill(&api, &server.vip, &server.server).await,
        Command::Doctor(options) => Ok(doctor::run(&api, &options).await),
    }
}
