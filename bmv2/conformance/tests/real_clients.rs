//! finsy and p4runtime-shell, as PyPI has them, drive softswitch.
//!
//! Each client has a virtual environment of its own below the target
//! directory, made at the first run and kept. What can't be set up is skipped
//! with the reason; a client that fails is a failure.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use softswitch::p4rt::{Mode, P4RuntimeServer, ServerConfig};
use softswitch::ports::{Clock, DataPlane, DataPlaneConfig};
use softswitch::{Switch, SwitchConfig};
use softswitch_conformance::child;

/// The controller's port in the programs.
const CPU_PORT: u16 = 510;

/// How long one client may take; usually it is some seconds.
const CLIENT_DEADLINE: Duration = Duration::from_secs(120);

/// How long the packages may take to arrive.
const INSTALL_DEADLINE: Duration = Duration::from_secs(300);

#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    script: &'static str,
}

const FINSY: Client = Client {
    name: "finsy",
    script: "with_finsy.py",
};

const SHELL: Client = Client {
    name: "p4runtime-shell",
    script: "with_shell.py",
};

#[test]
fn finsy() {
    drive(FINSY, Mode::Strict);
}

#[test]
fn finsy_with_compat() {
    drive(FINSY, Mode::Compat);
}

#[test]
fn p4runtime_shell() {
    drive(SHELL, Mode::Strict);
}

#[test]
fn p4runtime_shell_with_compat() {
    drive(SHELL, Mode::Compat);
}

fn drive(client: Client, mode: Mode) {
    let python = match environment(client) {
        Ok(python) => python,
        Err(reason) => {
            // Past the capture of passing tests' output.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED {} ({mode:?}): {reason}",
                client.name
            );
            return;
        }
    };
    let running = Running::start(mode);
    let programs = folder().join("programs/build");
    let mut command = Command::new(python);
    command
        .arg(folder().join("clients").join(client.script))
        .arg(running.address.to_string())
        .arg(programs.join("clients.p4info.txtpb"))
        .arg(programs.join("clients.json"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let outcome = child::run(&mut command, CLIENT_DEADLINE).unwrap();
    assert!(
        outcome.success() && outcome.stdout.ends_with("all passed\n"),
        "{} ({mode:?}) ended with {:?}\n{}\n{}",
        client.name,
        outcome.status,
        outcome.stdout,
        outcome.stderr
    );
}

/// A switch without interfaces that serves P4Runtime on a loopback port.
struct Running {
    address: SocketAddr,
    plane: Arc<DataPlane>,
    // Dropped last: ends the server's task.
    _runtime: tokio::runtime::Runtime,
}

impl Running {
    fn start(mode: Mode) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let switch = Switch::new(SwitchConfig {
            cpu_port: Some(CPU_PORT),
            ..SwitchConfig::default()
        });
        let clock = Clock::start();
        let config = ServerConfig {
            device_id: 1,
            mode,
            ..ServerConfig::default()
        };
        let server = Arc::new(P4RuntimeServer::new(config, &switch, clock).unwrap());
        let plane = DataPlane::start(
            &switch,
            clock,
            Vec::new(),
            DataPlaneConfig::default(),
            Some(Arc::clone(&server) as _),
        )
        .unwrap();
        let plane = Arc::new(plane);
        server.attach(&plane);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { server.serve([listener], std::future::pending()).await });
        Self {
            address,
            plane,
            _runtime: runtime,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.plane.stop();
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The Python of a client's virtual environment, or why there is none.
fn environment(client: Client) -> Result<PathBuf, String> {
    let own = std::env::current_exe().unwrap();
    // target/<profile>/deps/<this program>
    let all = own.ancestors().nth(3).unwrap().join("clients");
    std::fs::create_dir_all(&all).unwrap();
    let lock = File::create(all.join(format!("{}.lock", client.name))).unwrap();
    lock.lock().unwrap();

    let listed = folder().join(format!("clients/{}.requirements.txt", client.name));
    let wanted = std::fs::read_to_string(&listed).unwrap();
    let place = all.join(client.name);
    let python = place.join("bin/python");
    let stamp = place.join("installed.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let version = "import sys; sys.exit(sys.version_info < (3, 10))";
    step(
        Command::new("python3").args(["-c", version]),
        "Python 3.10 or newer is needed (Debian package python3)",
    )?;
    step(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&place),
        "no virtual environment can be made (Debian package python3-venv)",
    )?;
    step(
        Command::new(&python)
            .args(["-m", "pip", "--disable-pip-version-check", "--quiet"])
            .args(["install", "--requirement"])
            .arg(&listed),
        "the packages can't be installed",
    )?;
    std::fs::write(&stamp, wanted).unwrap();
    Ok(python)
}

fn step(command: &mut Command, otherwise: &str) -> Result<(), String> {
    let outcome = child::run(command, INSTALL_DEADLINE).map_err(|_| otherwise.to_owned())?;
    if outcome.success() {
        return Ok(());
    }
    let said = format!("{}\n{}", outcome.stdout, outcome.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(format!(
        "{otherwise}: {}",
        last.unwrap_or("no reason given")
    ))
}
