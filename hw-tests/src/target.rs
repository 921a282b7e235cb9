//! The switches that the tests can run against.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use p4_contract::constants::CPU_PORT;

/// The environment variable that chooses.
pub const VARIABLE: &str = "SLUICE_TARGET";

/// The device id that tests use.
pub const DEVICE: u64 = 1;

/// How long a switch may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

/// A P4Runtime switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Ours.
    Softswitch,
    /// bmv2's `simple_switch_grpc`, where it is installed.
    Bmv2,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Softswitch => "softswitch",
            Self::Bmv2 => "bmv2",
        })
    }
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Softswitch, Self::Bmv2];

    /// The one that `SLUICE_TARGET` names; softswitch without it.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn chosen() -> Result<Self> {
        match std::env::var(VARIABLE).as_deref() {
            Err(_) | Ok("" | "softswitch") => Ok(Self::Softswitch),
            Ok("bmv2") => Ok(Self::Bmv2),
            Ok(other) => bail!("{VARIABLE}={other}: there are softswitch and bmv2"),
        }
    }

    /// Where its program is, or a sentence that says how to get it.
    ///
    /// # Errors
    /// That sentence.
    pub fn program(self) -> Result<PathBuf> {
        match self {
            Self::Softswitch => built("softswitch"),
            Self::Bmv2 => std::env::var_os("PATH")
                .and_then(|path| {
                    std::env::split_paths(&path)
                        .map(|folder| folder.join("simple_switch_grpc"))
                        .find(|program| program.is_file())
                })
                .context("simple_switch_grpc is not on the PATH: install bmv2"),
        }
    }

    /// Starts it without a pipeline, in this thread's network namespace. With
    /// `files` the ports are not interfaces but files of that folder:
    /// `NAME_in.pcap` and `NAME_out.pcap`.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(
        self,
        ports: impl IntoIterator<Item = (u16, String)>,
        files: Option<&Path>,
        address: &str,
        log: &Path,
    ) -> Result<Process> {
        let program = self.program()?;
        let file = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
        // setpriv becomes the switch, so the child's id is the switch's; the
        // kernel ends it should this thread end without doing so.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&program);
        for (port, interface) in ports {
            command.arg("-i").arg(format!("{port}@{interface}"));
        }
        if let Some(folder) = files {
            command.current_dir(folder).args(["--use-files", "0"]);
        }
        command
            .args(["--no-p4", "--device-id", &DEVICE.to_string(), "--"])
            .args(["--grpc-server-addr", address])
            .args(["--cpu-port", &CPU_PORT.to_string()]);
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("can't start {}", program.display()))?;
        Ok(Process {
            child,
            log: log.to_owned(),
        })
    }
}

/// A program of this workspace: of the release and the debug build the one
/// that was built last.
fn built(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("can't tell where this program is")?;
    // target/<profile>/deps/<this program>
    let target = own
        .ancestors()
        .nth(3)
        .context("this program is not in a target directory")?;
    ["release", "debug"]
        .into_iter()
        .map(|profile| target.join(profile).join(name))
        .filter_map(|program| Some((program.metadata().ok()?.modified().ok()?, program)))
        .max()
        .map(|(_, program)| program)
        .with_context(|| {
            format!(
                "{name} is not built in {}: run cargo build --release -p {name}",
                target.display()
            )
        })
}

/// A running switch; dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails with the end of its log if it is no longer running.
    ///
    /// # Errors
    /// If it ended.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the switch ended ({status}): {}", self.log_tail());
        }
        Ok(())
    }

    /// The last lines that it printed.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(8).collect();
        if lines.is_empty() {
            return "it printed nothing".into();
        }
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// CPU time used so far, user and system.
    ///
    /// # Errors
    /// If it ended.
    pub fn cpu_time(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()))?;
        // After the name in parentheses; utime and stime are fields 14 and 15
        // of the whole line, in ticks (proc(5)).
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else {
            bail!("can't read /proc/{}/stat", self.id());
        };
        let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?
            .and_then(|ticks| u64::try_from(ticks).ok())
            .unwrap_or(100);
        Ok(Duration::from_nanos(
            (user + system) * 1_000_000_000 / per_second,
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(id) = i32::try_from(self.child.id())
            && matches!(self.child.try_wait(), Ok(None))
        {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
