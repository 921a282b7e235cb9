//! The lab: network namespaces, Sluice's processes, real servers and clients;
//! then a report of what went where. `cargo xtask lab` runs it.

mod admin;
mod books;
mod interrupt;
mod namespace;
mod process;
mod report;
mod scenario;
mod servers;
mod stack;
mod topology;
mod traffic;
mod udp;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use sluice_config::Gateway;

use crate::admin::Admin;
use crate::report::Report;
use crate::scenario::Lab;
use crate::stack::{Files, Stack, Target};
use crate::topology::Topology;

/// The whole loop on one machine.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds the lab, runs real traffic through the VIPs, checks, reports.
    Run(RunArguments),
    /// Ends a lab that was left running with --keep.
    Down {
        /// Number of the lab; the only one if absent.
        run: Option<u32>,
    },
    /// Serves UDP requests (used inside the lab).
    #[command(hide = true)]
    UdpServer {
        /// Name to answer with.
        #[arg(long)]
        name: String,
    },
    /// Makes UDP requests (used inside the lab).
    #[command(hide = true)]
    UdpClient {
        /// Where to.
        #[arg(long)]
        vip: Ipv4Addr,
        /// How many sockets.
        #[arg(long)]
        sockets: u16,
        /// Requests on each.
        #[arg(long)]
        requests: u32,
    },
}

#[derive(clap::Args)]
struct RunArguments {
    /// The switch.
    #[arg(long, value_enum, default_value = "softswitch")]
    target: Target,
    /// Leave the lab running and say which commands to try.
    #[arg(long)]
    keep: bool,
    /// Run so many times in a row, each in a lab of its own.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Run(arguments) => run(&arguments),
        Command::Down { run } => down(run).map(|()| true),
        Command::UdpServer { name } => runtime()
            .and_then(|runtime| runtime.block_on(udp::serve(name)))
            .map(|()| true),
        Command::UdpClient {
            vip,
            sockets,
            requests,
        } => runtime().and_then(|runtime| {
            let answers = runtime.block_on(udp::ask(vip, sockets, requests))?;
            println!("{}", serde_json::to_string(&answers)?);
            Ok(true)
        }),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            println!("lab: FAILED");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?)
}

/// Where summaries, logs and offered files are.
fn folder() -> PathBuf {
    Path::new("target").join("lab")
}

fn kept_file(run: u32) -> PathBuf {
    folder().join(format!("kept-{run}"))
}

fn run(arguments: &RunArguments) -> Result<bool> {
    if !nix::unistd::geteuid().is_root() {
        bail!("network namespaces need root; run this as root");
    }
    arguments.target.program()?;
    for number in 1..=arguments.repeat {
        if arguments.repeat > 1 {
            println!("\nlab {number} of {}", arguments.repeat);
        }
        if !once(arguments)? {
            return Ok(false);
        }
    }
    println!("lab: ok");
    Ok(true)
}

fn once(arguments: &RunArguments) -> Result<bool> {
    let id = std::process::id();
    let folder = folder();
    let logs = folder.join("logs");
    let www = folder.join("www");
    let _ = fs::remove_dir_all(&logs);
    // What an earlier lab found must not pass for this one's.
    let _ = fs::remove_file(folder.join("summary.json"));
    fs::create_dir_all(&logs)?;
    fs::create_dir_all(&www)?;
    let logs = logs.canonicalize()?;
    let www = www.canonicalize()?;
    for name in namespace::sweep(|run| kept_file(run).exists()) {
        println!("removed {name}, which an earlier lab left behind");
    }
    let runtime = runtime()?;
    interrupt::watch(&runtime)?;
    let mut report = Report::new(arguments.target.name());
    println!(
        "The lab on {}; logs: {}",
        arguments.target.name(),
        logs.display()
    );

    let place = RunFolder::create(id, arguments.keep)?;
    let files = Files {
        run: place.path.clone(),
        logs,
    };
    let mut lab = report.step("namespaces and links", || {
        build(arguments, id, &files, &www, runtime)
    })?;
    let servers = report.step("servers: nginx, iperf3, UDP", || {
        servers::start(&lab.topology, &files, &www, arguments.keep)
    })?;
    report.step("switch, offload-ctl, slowpath", || start(&mut lab))?;

    scenario::main_job::run(&mut lab, &mut report);
    scenario::failures::run(&mut lab, &mut report);
    scenario::churn::run(&mut lab, &mut report);
    scenario::bad_input::run(&mut lab, &mut report);

    if arguments.keep {
        keep(&mut lab, &servers, id)?;
        let ok = report.finish(&folder.join("summary.json"))?;
        say_what_to_try(&lab, id);
        return Ok(ok);
    }
    let downloads = lab.downloads.clone();
    report.check(
        "everything ends in order and nothing is left behind",
        |_| end(lab, servers, id),
    );
    let _ = fs::remove_dir_all(downloads);
    drop(place);
    report.finish(&folder.join("summary.json"))
}

fn build(
    arguments: &RunArguments,
    id: u32,
    files: &Files,
    www: &Path,
    runtime: tokio::runtime::Runtime,
) -> Result<Lab> {
    let config = Gateway::parse(scenario::GATEWAY)?;
    let vip = config
        .vips
        .first()
        .context("the sample has no VIP")?
        .address;
    let mut topology = Topology::build(id, &config)?;
    if arguments.keep {
        topology.keep();
    }
    let downloads = files.run.join("downloads");
    fs::create_dir_all(&downloads)?;
    Ok(Lab {
        stack: Stack::prepare(arguments.target, files, arguments.keep)?,
        topology,
        admin: Admin::new(runtime, files.api()),
        files: files.clone(),
        downloads,
        vip,
        small: servers::offer(www, "1m", 1)?,
        medium: servers::offer(www, "64m", 64)?,
        large: servers::offer(www, "1g", 1024)?,
    })
}

/// Starts Sluice, applies the intent and waits until a connection succeeds.
fn start(lab: &mut Lab) -> Result<()> {
    lab.stack.start_switch(&lab.topology)?;
    lab.stack.start_offload_ctl(&lab.topology)?;
    let begin = Instant::now();
    loop {
        lab.stack.check()?;
        match lab.admin.apply(scenario::GATEWAY, false) {
            Ok(response) if response.problems.is_empty() => break,
            Ok(response) => bail!("the intent was refused: {:?}", response.problems),
            Err(error) if begin.elapsed() > Duration::from_secs(20) => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    lab.stack.start_slowpath(&lab.topology)?;
    lab.wait_until_ready(Duration::from_secs(30))?;
    lab.probe().context("the first connection")?;
    Ok(())
}

/// Stops everything and makes sure of it.
fn end(mut lab: Lab, servers: Vec<process::Process>, id: u32) -> Result<String> {
    for (what, process) in [
        ("slowpath", lab.stack.slowpath.take()),
        ("offload-ctl", lab.stack.offload_ctl.take()),
        ("the switch", lab.stack.switch.take()),
    ] {
        let process = process.with_context(|| format!("{what} is not running"))?;
        let log = process.log_tail();
        let status = process.stop()?;
        // bmv2 has no orderly end: SIGTERM is the end.
        if what != "the switch" && !status.success() {
            bail!("{what} ended with {status}: {log}");
        }
    }
    drop(servers);
    drop(lab);
    let left = namespace::of_run(id);
    if !left.is_empty() {
        bail!("left behind: {}", left.join(", "));
    }
    Ok("all ended by SIGTERM; no namespace left".into())
}

fn keep(lab: &mut Lab, servers: &[process::Process], id: u32) -> Result<()> {
    let mut ids: Vec<String> = servers
        .iter()
        .map(|process| process.id().to_string())
        .collect();
    for process in [
        &lab.stack.switch,
        &lab.stack.offload_ctl,
        &lab.stack.slowpath,
    ]
    .into_iter()
    .flatten()
    {
        ids.push(process.id().to_string());
    }
    let text = format!("{}\n{}\n", lab.files.run.display(), ids.join(" "));
    fs::write(kept_file(id), text).context("can't note what was kept")
}

fn say_what_to_try(lab: &Lab, id: u32) {
    let sluice = stack::sibling("sluice").unwrap_or_else(|_| "sluice".into());
    let sluice = format!("{} --api {}", sluice.display(), lab.files.api());
    println!("\nThe lab goes on. To try:");
    for line in [
        format!("{sluice} show status"),
        format!("{sluice} show vips"),
        format!("{sluice} show drops"),
        format!(
            "ip netns exec {} curl -sI http://{}/1m",
            lab.topology.client.name(),
            lab.vip
        ),
        format!("{sluice} explain tcp 10.1.0.2:40000 {}:80", lab.vip),
        format!("{sluice} drain web s2"),
        format!("cargo xtask lab down {id}"),
    ] {
        println!("  {line}");
    }
}

/// Ends a lab that was kept.
fn down(run: Option<u32>) -> Result<()> {
    let run = match run {
        Some(run) => run,
        None => only_kept()?,
    };
    let note = kept_file(run);
    let text = fs::read_to_string(&note)
        .with_context(|| format!("no lab {run} was kept ({} is missing)", note.display()))?;
    let mut lines = text.lines();
    let place = PathBuf::from(lines.next().unwrap_or_default());
    for id in lines.next().unwrap_or_default().split_whitespace() {
        let id: i32 = id.parse().context("a process id in the note")?;
        // Its command line must still be one of ours: ids are used again.
        let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        let ours = [
            "softswitch",
            "simple_switch",
            "offload-ctl",
            "slowpath",
            "sluice-lab",
            "nginx",
            "iperf3",
        ];
        if ours.iter().any(|name| words.contains(name)) {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(id),
                nix::sys::signal::Signal::SIGTERM,
            );
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    namespace::delete_run(run);
    if place.starts_with(std::env::temp_dir()) {
        let _ = fs::remove_dir_all(&place);
    }
    fs::remove_file(&note)?;
    println!("lab {run} has ended");
    Ok(())
}

fn only_kept() -> Result<u32> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder()).context("no lab was kept")? {
        let name = entry?.file_name();
        if let Some(run) = name.to_string_lossy().strip_prefix("kept-") {
            kept.push(run.parse::<u32>()?);
        }
    }
    match kept.as_slice() {
        [only] => Ok(*only),
        [] => bail!("no lab was kept"),
        many => bail!("several labs were kept, name one of {many:?}"),
    }
}

/// The folder of one run; short, since a socket's path may have 107 bytes.
struct RunFolder {
    path: PathBuf,
    keep: bool,
}

impl RunFolder {
    fn create(id: u32, keep: bool) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("sluice-{id}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| format!("can't make {}", path.display()))?;
        Ok(Self { path, keep })
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
