//! Processes of the lab: started in a namespace, logged to a file, ended by
//! their id whatever happens.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::namespace::Namespace;

/// How long a process may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running process. Dropping it ends it, unless it is kept.
#[derive(Debug)]
pub struct Process {
    what: String,
    child: Child,
    log: PathBuf,
    keep: bool,
    ended: bool,
}

/// What a process is started with.
pub struct Spec<'a> {
    /// For people, and the log's name.
    pub what: &'a str,
    /// Where it runs.
    pub namespace: &'a Namespace,
    /// Program and arguments.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Folder of the logs.
    pub logs: &'a Path,
    /// Outlives the lab.
    pub keep: bool,
}

impl Process {
    /// Starts a process; its output is appended to `<logs>/<what>.log`.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(spec: Spec<'_>) -> Result<Self> {
        let log = spec.logs.join(format!("{}.log", spec.what));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("can't write {}", log.display()))?;
        // `ip netns exec` and setpriv replace themselves, so the child's id is
        // the program's. setpriv lets the kernel end it if the lab is killed;
        // that is tied to the starting thread, hence all starts are made by
        // the main thread.
        let mut command;
        if spec.keep {
            command = spec.namespace.command("setsid");
        } else {
            command = spec.namespace.command("setpriv");
            command.args(["--pdeathsig", "KILL"]);
        }
        let child = command
            .arg(spec.program)
            .args(&spec.arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("can't start {}", spec.what))?;
        Ok(Self {
            what: spec.what.to_owned(),
            child,
            log,
            keep: spec.keep,
            ended: false,
        })
    }

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
            self.ended = true;
            bail!("{} ended ({status}): {}", self.what, tail(&self.log));
        }
        Ok(())
    }

    /// `kill -9`, and waits for the end.
    ///
    /// # Errors
    /// If the signal can't be sent.
    pub fn kill_9(mut self) -> Result<()> {
        self.child
            .kill()
            .with_context(|| format!("can't kill {}", self.what))?;
        self.child.wait()?;
        self.ended = true;
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// If it does not end in time; it is then killed.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.ended = true;
        self.signal(Signal::SIGTERM);
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > PATIENCE {
                self.child.kill()?;
                self.child.wait()?;
                bail!(
                    "{} did not end {} s after SIGTERM",
                    self.what,
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    fn signal(&self, signal: Signal) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.keep || self.ended {
            return;
        }
        self.signal(Signal::SIGTERM);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a file, for an error.
pub fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(6);
    match lines.get(from..) {
        Some(last) if !last.is_empty() => format!("{} (log: {})", last.join(" | "), path.display()),
        _ => format!("it printed nothing (log: {})", path.display()),
    }
}
