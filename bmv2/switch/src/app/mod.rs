//! The program around the switch: command line, start and stop.

mod format;
mod http;
mod listen;
mod load;
mod options;
mod print;
mod report;
mod signals;
mod stf;
mod tls;
mod trace;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Parser as _;
use softswitch::p4rt::{Mode, P4RuntimeServer, ServerConfig};
use softswitch::ports::{Clock, DataPlane, DataPlaneConfig, PortSpec};
use softswitch::{Program, Switch, SwitchConfig};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use options::Options;
use signals::Signals;

/// How long open calls may take to end after a signal.
const GRACE: Duration = Duration::from_secs(2);

/// Exit code when a subcommand could not do what it was asked.
const FAILED: u8 = 2;

/// Runs what the command line asks for. A file with the name of a subcommand
/// is still a program when it is written as a path (`./run`).
pub(crate) fn run() -> ExitCode {
    let mut args: Vec<_> = std::env::args_os().collect();
    let word = args.get(1).and_then(|arg| arg.to_str()).map(str::to_owned);
    let result = match word.as_deref() {
        Some("stf") => {
            args.remove(1);
            stf::run(&stf::Options::parse_from(args))
        }
        Some("trace") => {
            args.remove(1);
            trace::run(&trace::Options::parse_from(args))
        }
        Some("run") => {
            args.remove(1);
            switch(Options::for_run(args))
        }
        _ => switch(Options::from_args(args)),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // Where standard error is closed or full the exit code must do.
            let error = report::sentence(&error);
            let _ = writeln!(std::io::stderr(), "softswitch: {error}");
            match word.as_deref() {
                Some("stf" | "trace") => ExitCode::from(FAILED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Runs the switch until SIGTERM or SIGINT.
fn switch(options: Options) -> anyhow::Result<ExitCode> {
    if options.json_version {
        let (major, minor) = Program::JSON_VERSION;
        let mut out = print::Printer::new(std::io::stdout());
        out.line(&format!("{major}.{minor}"));
        out.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    init_log(&options)?;
    for note in options.notes() {
        tracing::warn!("{note}");
    }
    if let Some(folder) = &options.pcap {
        check_folder(folder, options.program.is_some() || options.no_p4)?;
    }
    if options.program.is_none() && !options.no_p4 {
        bail!("there is no program: give the JSON that p4c-bm2-ss wrote, or --no-p4");
    }
    if options.no_p4 && (options.p4info.is_some() || options.entries.is_some()) {
        bail!("--no-p4 starts without the program that --p4info and --entries need: leave one out");
    }
    if options.cpu_port == Some(options.drop_port) {
        bail!(
            "--cpu-port and --drop-port are both {}: they must differ",
            options.drop_port
        );
    }
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the threads for P4Runtime")?
        .block_on(serve(options))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(options: Options) -> anyhow::Result<()> {
    let switch = Switch::new(SwitchConfig {
        cpu_port: options.cpu_port,
        drop_port: options.drop_port,
        priority_queues: options.priority_queues,
        ..SwitchConfig::default()
    });
    let clock = Clock::start();
    let config = ServerConfig {
        device_id: options.device_id,
        mode: if options.compat {
            Mode::Compat
        } else {
            Mode::Strict
        },
        tls: options.tls.load()?,
        keepalive: Duration::from_secs(options.keepalive),
        ..ServerConfig::default()
    };
    let over = if config.tls.is_some() {
        "TLS"
    } else {
        "plaintext"
    };
    let server = P4RuntimeServer::new(config, &switch, clock).context("cannot start a thread")?;
    let server = Arc::new(server);
    if let Some(program) = &options.program
        && !options.no_p4
    {
        load::install(program, options.p4info.as_deref(), &switch, &server)?;
    }
    if let Some(entries) = &options.entries {
        let log = |line: &str| tracing::info!("{line}");
        let loaded = load::entries(entries, &switch, &server, options.p4info.is_some(), log)?;
        tracing::info!(count = loaded.count, file = %entries.display(), "entries loaded");
    }

    // Everything that can fail comes before the first packet is taken.
    let grpc = listen::listen(&options.grpc_server_addr, "--grpc-server-addr").await?;
    let http = options
        .http
        .map(|address| listen::listen_at(address, "--http"))
        .transpose()?;
    let signals = Signals::new()?;

    let ports = ports(&options);
    let count = ports.len();
    let plane = DataPlane::start(
        &switch,
        clock,
        ports,
        DataPlaneConfig {
            workers: options.workers.into(),
            unordered: options.unordered,
            ring_frames: options.rx_ring as usize,
            spins: options.spins,
            capture: options.pcap.clone(),
            files_wait: wait_of(options.use_files),
        },
        Some(Arc::clone(&server) as _),
    )?;
    let plane = Arc::new(plane);
    server.attach(&plane);
    if let Some(listener) = http {
        let (plane, server) = (Arc::clone(&plane), Arc::clone(&server));
        tokio::spawn(async move {
            if let Err(error) = http::serve(listener, plane, server).await {
                tracing::error!("{error:#}");
            }
        });
    }
    let mut addresses = Vec::new();
    for listener in &grpc {
        let address = listener
            .local_addr()
            .context("cannot ask for the address")?;
        addresses.push(address.to_string());
    }
    tracing::info!(
        address = addresses.join(", "),
        over,
        device_id = options.device_id,
        ports = count,
        "serving P4Runtime"
    );

    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = server.serve(grpc, async {
        let _ = stopped.await;
    });
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => {
            plane.stop();
            result.context("the P4Runtime server failed")?;
            bail!("the P4Runtime server has ended");
        }
        () = signals.wait() => {}
    }
    tracing::info!("stopping");
    let _ = stop.send(());
    let _ = tokio::time::timeout(GRACE, serving).await;
    plane.stop();
    Ok(())
}

/// Checks the folder of captures; `started` if the switch has what it needs
/// otherwise.
fn check_folder(folder: &Path, started: bool) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let shown = folder.display();
    if !started && (folder.is_file() || folder.extension().is_some_and(|e| e == "json")) {
        bail!(
            "--pcap takes the argument behind it as the folder to write to, here {shown}, so \
             there is no program: write `--pcap=. {shown}` for the current folder"
        );
    }
    if folder.exists() {
        bail!("--pcap: {shown} is not a folder");
    }
    bail!("--pcap: there is no folder {shown}; make it first");
}

fn ports(options: &Options) -> Vec<PortSpec> {
    if options.packet_in.is_some() {
        return Vec::new();
    }
    let port = |i: &options::Interface| match options.use_files {
        Some(_) => PortSpec::Files {
            port: i.port,
            input: format!("{}_in.pcap", i.name).into(),
            output: format!("{}_out.pcap", i.name).into(),
        },
        None => match i.name.split_once(':') {
            Some(("tap", name)) => PortSpec::Tap {
                port: i.port,
                interface: name.to_owned(),
            },
            Some(("xdp", name)) => PortSpec::Xdp {
                port: i.port,
                interface: name.to_owned(),
            },
            _ => PortSpec::Interface {
                port: i.port,
                interface: i.name.clone(),
            },
        },
    };
    options.interface.iter().map(port).collect()
}

/// As simple_switch has it, a negative time is none.
fn wait_of(seconds: Option<i32>) -> Duration {
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

fn init_log(options: &Options) -> anyhow::Result<()> {
    let level = match options.log_level {
        Some(level) => level,
        None if options.log_console || options.log_file.is_some() => LevelFilter::DEBUG,
        None => LevelFilter::INFO,
    };
    let default = format!("warn,softswitch={level}");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    // The switch goes on where its log is closed or full. To tell of that on
    // standard error would panic if that is the log.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .log_internal_errors(false);
    if let Some(path) = &options.log_file {
        // The name that simple_switch_grpc gives the file.
        let mut path = path.clone().into_os_string();
        path.push(".txt");
        let path = Path::new(&path);
        let file = std::fs::File::create(path)
            .with_context(|| format!("cannot write the log to {}", path.display()))?;
        builder.with_ansi(false).with_writer(file).init();
    } else if options.log_console {
        let ansi = std::io::stdout().is_terminal();
        builder.with_ansi(ansi).init();
    } else {
        let ansi = std::io::stderr().is_terminal();
        builder.with_ansi(ansi).with_writer(std::io::stderr).init();
    }
    Ok(())
}
